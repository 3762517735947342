"""One operator's slot-round on several processes of one machine, with the bits of one process (repops.parallel).

The worker leads: it has no tensors of the step, sends the ranks their commands, and combines the roots.

ranks.py     the processes, seen from the worker: starting, asking, ending them
setup.py     the first message to a rank
rank.py      one process: its part of the program, its messages by torch.distributed (gloo)
runner.py    all ranks as one `backend.Runner`
programs.py  a job's programs on ranks, in the place of `node.compute.programs.Programs`
"""
