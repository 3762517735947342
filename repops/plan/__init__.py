"""Compiles a graph for the native kernels: nodes become items, views addresses, values offsets in one arena.

access.py            the algebra of strides
ir.py                items and instructions, before they have addresses
lowering.py          one item per node, each value in memory of its own
views.py             products that read through copies
buffer_placement.py  values written directly where a copy or concat would put them
fusion_group.py      a group while nodes join it
fuse.py              elementwise chains and their reductions as one item
order.py             state updated in place, and early
build.py             all of it
memory.py            lifetimes, arena offsets, state in place, barriers
split.py             large items taken apart and moved, if memory is short
values.py            what a step makes, when that is read, and how it is made again
remake.py            the items that make one value
recompute.py         values dropped and computed again
fit.py               a step in a limit of bytes
items.py             the structs of repops/native/vm.h
"""
