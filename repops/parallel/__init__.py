"""One program over several ranks, with the same bits as on one: assigns nodes to ranks and plans the messages.

The order of every computation is the program's, so the results are the same: a rank computes whole nodes, or some rows of
a node along one axis of its shape; never a part of a reduction.

placement.py  a program whose nodes have owners
owners.py     whole nodes to ranks: by layers (pipeline), by micro-batches (data)
split.py      nodes split along an axis (tensor; data without micro-batches)
schedule.py   groups of nodes that run without waiting, and the order of each rank's
stages.py     each rank's groups as graphs of their own, the messages between them, and where values live
rank.py       runs one rank's part
roots.py      a tensor's root from its pieces
"""
