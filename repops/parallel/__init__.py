"""One program over several ranks, with the bits of one: who computes which node, and what is sent.

Nothing is computed in another order than the program says, so nothing can come out otherwise: a rank computes whole nodes,
or the rows of a node along one axis of its shape; never a part of a reduction.

placement.py  a program whose nodes have owners
owners.py     whole nodes to ranks: by layers (pipeline), by micro-batches (data)
split.py      nodes taken apart along an axis (tensor; data without micro-batches)
schedule.py   groups of nodes that run without waiting, and the order of each rank's
stages.py     each rank's groups as graphs of their own, the messages between them, and where values live
rank.py       runs one rank's part
roots.py      a tensor's root from its pieces'
"""
