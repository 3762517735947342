"""Plans the launches of a step, their order, and the memory of intermediates.

A unit is a chain of elementwise operators in one kernel, or one other node. Units run one after another.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

from repops.cuda.dots import dot_kernels
from repops.cuda.maps import chain_kernel, concat_kernel, copy_kernel, is_whole, take_kernel
from repops.cuda.reductions import fold_kernel, rank_kernel, scatter_kernels
from repops.cuda.source import Kernel
from repops.graph import Graph, Operand, contiguous, needed
from repops.operators import TABLE

SOURCES = ("input", "scalar", "constant", "iota")
ALIGNMENT = 64  # words: what the widest reads and the memory's own lines ask for
REACH = 16  # units back that a chain may still grow; results further back would occupy memory for long
MAX_MEMBERS = 64
MAX_VIEWS = 24


@dataclass
class Unit:
    """kernels run in order; scratch: words of what they call -1, -2, ..."""

    members: list[int]
    kernels: list[Kernel] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)


@dataclass
class Plan:
    """addresses: of each computed node, in words from the start of the arena; scratch likewise, by (unit, -1 - name).

    home: the node whose words a node's replace, where a state tensor is updated in place.
    saved: inputs read at the end although the state changes, and their places.
    """

    units: list[Unit]
    home: dict[int, int]
    addresses: dict[int, int]
    scratch: dict[tuple[int, int], int]
    arena: int
    saved: dict[int, int]
    copies: list[Kernel]


def make(graph: Graph, wanted: Sequence[int], *, fused: bool, updates: bool, kept: bool = True) -> Plan:
    """wanted: the nodes to compute, kept until the end or only until their last reader has run.

    updates: the state after the step is written over the one before.
    """
    units = _units(graph, wanted, fused)
    unit_of = {at: number for number, unit in enumerate(units) for at in unit.members}
    readers = _readers(graph, unit_of)
    home = _in_place(graph, unit_of, readers) if updates else {}
    keep = set(wanted) if kept else set()
    for unit in units:
        _write_kernels(graph, unit, unit_of, readers, keep, home)
    copied = [e for e in graph.state if updates and e.after != e.before and home.get(e.after) != e.before]
    overwritten = {e.before for e in graph.state if updates and e.after != e.before}
    saved = [at for at in {graph.loss, *(e.after for e in copied)} if at in overwritten and at in keep]
    addresses, scratch, arena = _arena(graph, units, unit_of, readers, keep)
    places = {}
    for at in saved:
        places[at], arena = arena, arena + aligned(graph.nodes[at].elements)
    copies = [whole_copy(graph, entry.after, entry.before) for entry in copied if graph.nodes[entry.after].elements]
    return Plan(units, home, addresses, scratch, arena, places, copies)


def _units(graph: Graph, wanted: Sequence[int], fused: bool) -> list[Unit]:
    """A map joins the last unit it reads from, if that is a chain of its shape and not too far back."""
    units: list[Unit] = []
    unit_of: dict[int, int] = {}
    reached = needed(graph.nodes, wanted)
    for at, node in enumerate(graph.nodes):
        if not reached[at] or node.op in SOURCES or not node.elements:
            continue
        last = max((unit_of.get(operand.node, -1) for operand in node.operands), default=-1)
        if not (fused and last >= max(0, len(units) - REACH) and _may_join(graph, units[last], at)):
            last = len(units)
            units.append(Unit([]))
        units[last].members.append(at)
        unit_of[at] = last
    return units


def _may_join(graph: Graph, unit: Unit, at: int) -> bool:
    node, first = graph.nodes[at], graph.nodes[unit.members[0]]
    if not (TABLE[node.op].is_map and TABLE[first.op].is_map) or node.shape != first.shape:
        return False
    if len(unit.members) >= MAX_MEMBERS:
        return False
    members = set(unit.members)
    if any(o.node in members and not is_whole(node, o, graph.nodes[o.node]) for o in node.operands):
        return False
    joined = [*unit.members, at]
    views = {o for m in joined for o in graph.nodes[m].operands if o.node not in members}
    return len(views) <= MAX_VIEWS


def _readers(graph: Graph, unit_of: dict[int, int]) -> dict[int, list[int]]:
    readers: dict[int, list[int]] = {}
    for at in unit_of:
        for operand in graph.nodes[at].operands:
            readers.setdefault(operand.node, []).append(at)
    return readers


def _in_place(graph: Graph, unit_of: dict[int, int], readers: dict[int, list[int]]) -> dict[int, int]:
    """New state that can overwrite the old: nothing else reads the old one then or later."""
    wanted_at_end = {graph.loss, *(entry.after for entry in graph.state)}
    home: dict[int, int] = {}
    for entry in graph.state:
        before, after = entry.before, entry.after
        if after in home or after not in unit_of or before in wanted_at_end:
            continue
        unit = unit_of[after]
        is_chain = TABLE[graph.nodes[after].op].is_map

        def reads_own_place(reader: int, source: int = before) -> bool:
            node = graph.nodes[reader]
            return all(is_whole(node, o, graph.nodes[source]) for o in node.operands if o.node == source)

        late = [r for r in readers.get(before, []) if unit_of[r] >= unit]
        if all(unit_of[r] == unit and is_chain and reads_own_place(r) for r in late):
            home[after] = before
    return home


def _write_kernels(
    graph: Graph,
    unit: Unit,
    unit_of: dict[int, int],
    readers: dict[int, list[int]],
    keep: set[int],
    home: dict[int, int],
) -> None:
    at = unit.members[0]
    node = graph.nodes[at]

    def place(number: int) -> int:
        return home.get(number, number)

    if TABLE[node.op].is_map:
        mine, last = unit_of[at], unit.members[-1]
        stored = [
            m for m in unit.members if m == last or m in keep or any(unit_of[r] != mine for r in readers.get(m, []))
        ]
        unit.kernels = [chain_kernel(graph, unit.members, stored, place)]
    elif node.op == "dot":
        unit.kernels, unit.scratch = dot_kernels(node, at, place)
    elif node.op in ("scatter", "scatter_add"):
        unit.kernels, unit.scratch = scatter_kernels(node, at, place)
    elif TABLE[node.op].is_fold or node.op == "sum":
        unit.kernels = [fold_kernel(node, at, place)]
    else:
        unit.kernels = [{"rank": rank_kernel, "take": take_kernel, "concat": concat_kernel}[node.op](node, at, place)]


def whole_copy(graph: Graph, source: int, target: int) -> Kernel:
    shape = graph.nodes[source].shape
    return copy_kernel(shape, Operand(source, 0, contiguous(shape)), source, target)


def aligned(words: int) -> int:
    return -(-max(words, 1) // ALIGNMENT) * ALIGNMENT


def _arena(
    graph: Graph,
    units: Sequence[Unit],
    unit_of: dict[int, int],
    readers: dict[int, list[int]],
    keep: set[int],
) -> tuple[dict[int, int], dict[tuple[int, int], int], int]:
    """Addresses of values, alive from the unit that writes them to the last that reads them; the tightest gap is used first."""
    gaps, end = _Gaps(), len(units)
    addresses: dict[int, int] = {}
    scratch: dict[tuple[int, int], int] = {}
    expiring: list[list[tuple[int, int]]] = [[] for _ in range(end + 1)]
    for number, unit in enumerate(units):
        written = {b for kernel in unit.kernels for b in kernel.buffers if b >= 0 and unit_of.get(b) == number}
        for at in sorted(written):
            last = end if at in keep else max((unit_of[r] for r in readers.get(at, [])), default=number)
            size = aligned(graph.nodes[at].elements)
            addresses[at] = gaps.take(size)
            expiring[last].append((addresses[at], size))
        for name, words in enumerate(unit.scratch):
            scratch[(number, name)] = gaps.take(aligned(words))
            expiring[number].append((scratch[(number, name)], aligned(words)))
        for place, size in expiring[number]:
            gaps.give_back(place, size)
    return addresses, scratch, gaps.end


class _Gaps:
    """Free stretches of the arena, in order of address; neighbours joined."""

    def __init__(self) -> None:
        self.end = 0
        self._free: list[tuple[int, int]] = []  # (address, size)

    def take(self, size: int) -> int:
        fitting = [(free, place) for place, free in self._free if free >= size]
        if fitting:
            free, place = min(fitting)
            self._free.remove((place, free))
            if free > size:
                bisect.insort(self._free, (place + size, free - size))
            return place
        if self._free and sum(self._free[-1]) == self.end:
            place, _ = self._free.pop()
        else:
            place = self.end
        self.end = place + size
        return place

    def give_back(self, place: int, size: int) -> None:
        at = bisect.bisect(self._free, (place, size))
        if at < len(self._free) and self._free[at][0] == place + size:
            size += self._free.pop(at)[1]
        if at and sum(self._free[at - 1]) == place:
            place, size = self._free[at - 1][0], size + self._free.pop(at - 1)[1]
        bisect.insort(self._free, (place, size))
