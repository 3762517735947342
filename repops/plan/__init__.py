"""From a graph to what the native kernels run: views to addresses, nodes to items, values to places in one arena.

access.py    the algebra of strides
ir.py        items and instructions, before they have addresses
single.py    one item per node, each value in memory of its own
views.py     products that read through copies
places.py    values written at once where a copy or concat would put them
growing.py   a group while nodes join it
fuse.py      elementwise chains and their reductions as one item
order.py     state updated in place, and early
build.py     all of it
memory.py    lifetimes, places in the arena, state in place, barriers
items.py     the structs of repops/native/vm.h
"""
