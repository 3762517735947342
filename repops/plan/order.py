"""Updates the state in place and as early as possible: gradients die early, and there is no second copy of the state."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from repops.graph import Graph
from repops.plan.access import axes_of
from repops.plan.ir import Group, Instruction, Item, Memory


@dataclass(frozen=True)
class Step:
    """in_place: node -> the state's input node whose memory it overwrites. kept: nodes read after the last item."""

    items: list[Item]
    in_place: dict[int, int]
    kept: list[int]


def whole_step(graph: Graph, items: Sequence[Item]) -> Step:
    """The items of a step with those that bring the new state to where the old one was."""
    in_place = _in_place(graph, items)
    first: list[Item] = []
    last: list[Item] = []
    kept = [graph.loss]
    for entry in graph.state:
        before, after = entry.before, entry.after
        if after == before or in_place.get(after) == before or not graph.nodes[before].elements:
            continue
        source = after
        if graph.nodes[after].op == "input":
            source += len(graph.nodes)  # a copy made before anything can change the original
            first.append(_copied(graph, after, source))
        kept.append(source)
        last.append(_copied(graph, source, before))
    moving = [item for item in early(items, in_place) if not _stays(item, in_place)]
    return Step([*first, *moving, *last], in_place, kept)


def _stays(item: Item, in_place: dict[int, int]) -> bool:
    """Whether an item copies old words to where they are: what a scatter into a tensor of the state begins with."""
    if not isinstance(item, Group) or len(item.instructions) != 1:
        return False
    (made,) = item.instructions
    return made.op == "copy" and set(item.writes()) == {made.node} and in_place.get(made.node, -1) in item.reads()


def _copied(graph: Graph, source: int, target: int) -> Group:
    whole = axes_of((graph.nodes[source % len(graph.nodes)].elements,), (1,))
    group = Group(1, max(1, whole[0][0] if whole else 1), stores={target: Memory(target, 0, (), whole)})
    group.instructions.append(Instruction("copy", target, False, [Memory(source, 0, (), whole)]))
    return group


def _in_place(graph: Graph, items: Sequence[Item]) -> dict[int, int]:
    """New values that can overwrite the old ones: all other readers of the old value come earlier."""
    last_read: dict[int, int] = {}
    for at, item in enumerate(items):
        for node in item.reads():
            last_read[node] = at
    makers = {node: at for at, item in enumerate(items) if isinstance(item, Group) for node in item.stores}
    accesses: dict[int, _Accesses] = {}
    out: dict[int, int] = {}
    for entry in graph.state:
        maker = makers.get(entry.after)
        if entry.after in out or maker is None or last_read.get(entry.before, -1) > maker:
            continue
        group = items[maker]
        assert isinstance(group, Group)
        if maker not in accesses:
            accesses[maker] = _Accesses(group)
        if accesses[maker].can_overwrite(entry.before, entry.after):
            out[entry.after] = entry.before
    return out


class _Accesses:
    """Where a group reads each node's memory, and which instruction makes each node."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.reads: dict[int, list[tuple[int, Memory]]] = {}
        self.made_at = {instruction.node: at for at, instruction in enumerate(group.instructions)}
        for at, instruction in enumerate(group.instructions):
            for argument in instruction.arguments:
                if isinstance(argument, Memory):
                    self.reads.setdefault(argument.node, []).append((at, argument))

    def can_overwrite(self, before: int, after: int) -> bool:
        """Whether the group reads each word of `before` only where, and before, it writes the one of `after`."""
        store, reads = self.group.stores[after], self.reads.get(before, [])
        if store.node != after:
            return False
        if self.group.by_columns:  # it writes words before it has read all of its operands
            return not reads
        place = (store.offset, store.rows, store.columns)
        return all(at <= self.made_at[after] and (read.offset, read.rows, read.columns) == place for at, read in reads)


def early(items: Sequence[Item], in_place: dict[int, int], also: Container[int] = ()) -> list[Item]:
    """The items, with state updates moved up until just after their operands and after all readers of the old value.

    also: positions of other items to move up, which alone write what they write.
    """
    keys: list[tuple[int, int]] = [(at, 0) for at in range(len(items))]
    writers: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    for at, item in enumerate(items):
        needs: list[int] = [maker for node in item.reads() for maker in writers.get(node, ())]
        old = [in_place[node] for node in item.writes() if node in in_place]
        if old or at in also:
            needs += [reader for node in old for reader in readers.get(node, ())]
            latest = max((keys[need] for need in needs), default=(-1, 0))
            keys[at] = (latest[0], at + 1)
        for node in item.reads():
            readers.setdefault(node, []).append(at)
        for node in item.writes():
            writers.setdefault(node, []).append(at)
    return [items[at] for at in sorted(range(len(items)), key=lambda at: keys[at])]
