"""Does a device compute the CPU's bits? A fixed set of programs over the whole operator table, run there and on the CPU.

`python -m repops.conformance --device cuda:0` answers in JSON lines. Knows no torch.
"""
