"""Small items in place of large ones, each as early as it frees memory: what a step holds at once becomes less.

Fusion joins values of one size that have nothing else in common, such as the gradients of a sum over micro-batches; then
all of them wait for the last. This takes such groups apart again. It costs items, so only a step short of memory does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import replace

from repops.operators import TABLE
from repops.plan.access import axes_of
from repops.plan.ir import Group, GroupValue, Instruction, Item, Memory
from repops.plan.order import Step, early
from repops.plan.remake import MOST_INSTRUCTIONS

Key = tuple[int, int]

LEAST_WORDS = 1024  # of a group that is taken apart
COPIED_FLOPS = 2  # of an element that two parts may both compute


def apart(items: Sequence[Item], sizes: Callable[[int], int], pinned: Container[int]) -> list[Item]:
    """The items, with each group split into parts that share no value. pinned: nodes whose memory is not the items'."""
    last = {node: at for at, item in enumerate(items) for node in item.reads()}
    out: list[Item] = []
    for at, item in enumerate(items):
        if not isinstance(item, Group) or item.rows * item.columns < LEAST_WORDS:
            out.append(item)
            continue
        size = 4 * item.rows * item.columns
        ending = {node for node in item.reads() if last[node] == at and node not in pinned and sizes(node) >= size}
        for group in _cut(item, ending):
            out += _parts(group)
    return out


def _cut(group: Group, ending: Container[int]) -> list[Group]:
    """The group in two if one value can stand for several that nobody else reads, such as a sum of gradients for an update."""
    if group.by_columns or len(group.instructions) > MOST_INSTRUCTIONS:
        return [group]
    users = Counter(node for instruction in group.instructions for node in set(_values(instruction)))
    made_by: dict[int, set[int]] = {}  # map of maps -> the instructions that make it
    stands_for: dict[int, set[int]] = {}  # and what these read of `ending`
    for instruction in group.instructions:
        node, values = instruction.node, _values(instruction)
        if instruction.per_row or not TABLE[instruction.op].is_map or not made_by.keys() >= set(values):
            continue
        made_by[node] = {node}.union(*(made_by[each] for each in values))
        read = {a.node for a in instruction.arguments if isinstance(a, Memory) and a.node in ending}
        stands_for[node] = read.union(*(stands_for[each] for each in values))
        inner = all(users[each] == 1 for each in made_by[node] - {node})
        if inner and users[node] > 1 and len(stands_for[node]) > 1 and made_by[node].isdisjoint(group.stores):
            return _in_two(group, node, made_by[node])
    return [group]


def _in_two(group: Group, node: int, makers: Container[int]) -> list[Group]:
    """The part that makes `node`, and the rest, which reads it from memory."""
    stored = Memory(node, 0, axes_of((group.rows,), (group.columns,)), axes_of((group.columns,), (1,)))
    first = [each for each in group.instructions if each.node in makers]
    rest = [_reading(each, stored) for each in group.instructions if each.node not in makers]
    return [replace(group, instructions=first, stores={node: stored}), replace(group, instructions=rest)]


def _reading(instruction: Instruction, stored: Memory) -> Instruction:
    """The instruction, which reads a value of its group from memory."""
    arguments = [stored if isinstance(a, GroupValue) and a.node == stored.node else a for a in instruction.arguments]
    return replace(instruction, arguments=arguments)


def _parts(group: Group) -> list[Item]:
    part_of: dict[int, list[Instruction]] = {}  # node -> the instructions of its part, in any order
    copied = {each.node for each in group.instructions if _is_copied(group, each)}
    for instruction in group.instructions:
        joined = [instruction]
        for node in _values(instruction):
            if node not in copied and part_of[node] is not joined:
                joined = _merged(part_of, joined, part_of[node])
        part_of[instruction.node] = joined
    by_node = {each.node: each for each in group.instructions}
    parts: dict[int, dict[int, Instruction]] = {}  # the instructions of each part, in order
    for instruction in group.instructions:
        if instruction.node not in copied:
            part = parts.setdefault(id(part_of[instruction.node]), {})
            part.update((node, by_node[node]) for node in _values(instruction) if node in copied)
            part[instruction.node] = instruction
    return [
        replace(
            group,
            instructions=list(part.values()),
            stores={node: group.stores[node] for node in part if node in group.stores},
        )
        for part in parts.values()
    ]


def _values(instruction: Instruction) -> list[int]:
    return [argument.node for argument in instruction.arguments if isinstance(argument, GroupValue)]


def _is_copied(group: Group, instruction: Instruction) -> bool:
    """Whether each part computes it for itself, such as the square of a gradient: for its norm, and for its second moment."""
    recipe = TABLE[instruction.op].recipe
    plain = TABLE[instruction.op].is_map and recipe is not None and recipe.flops <= COPIED_FLOPS
    return plain and instruction.node not in group.stores and not _values(instruction)


def _merged(
    part_of: dict[int, list[Instruction]], some: list[Instruction], others: list[Instruction]
) -> list[Instruction]:
    """The larger of two parts, with the other's instructions."""
    if len(some) > len(others):
        some, others = others, some
    others += some
    for instruction in some:
        part_of[instruction.node] = others
    return others


def moved(step: Step, sizes: Callable[[int], int], pinned: Collection[int]) -> Step:
    """The step with groups that free more than they make just after their operands, and others just before their first reader."""
    kept = {*step.kept, *pinned}
    step = replace(
        step, items=early(step.items, step.in_place, _freeing(step.items, _alone(step.items, pinned), sizes, kept))
    )
    return replace(step, items=_late(step, _alone(step.items, pinned), sizes, kept))


def _alone(items: Sequence[Item], pinned: Container[int]) -> set[int]:
    """Positions of groups that alone write what they write."""
    makers = Counter(node for item in items for node in set(item.writes()))
    return {
        at
        for at, item in enumerate(items)
        if isinstance(item, Group) and not any(makers[node] > 1 or node in pinned for node in item.writes())
    }


def _freeing(items: Sequence[Item], alone: set[int], sizes: Callable[[int], int], kept: Container[int]) -> set[int]:
    last = {node: at for at, item in enumerate(items) for node in item.reads()}
    out = set[int]()
    for at in alone:
        ending = [node for node in set(items[at].reads()) if last[node] == at and node not in kept]
        if ending and sum(map(sizes, ending)) >= sum(map(sizes, set(items[at].writes()))):
            out.add(at)
    return out


def _late(step: Step, alone: Container[int], sizes: Callable[[int], int], kept: Container[int]) -> list[Item]:
    """The items, with some moved down until just before the first that reads their values, or overwrites what they read."""
    items = step.items
    keys: list[Key] = [(at, 0) for at in range(len(items))]
    readers: dict[int, Key] = {}  # node -> the first of the items below that reads it
    last: dict[int, Key] = {}  # and the last
    writers: dict[int, Key] = {}  # node -> the first of the items below that writes to its memory
    for at in range(len(items) - 1, -1, -1):
        reads, writes = set(items[at].reads()), set(items[at].writes())
        limits = [readers[node] for node in writes if node in readers]
        limits += [writers[node] for node in reads if node in writers]
        if at in alone and limits:
            target = (min(limits)[0], at - len(items))
            longer = sum(sizes(node) for node in reads if node not in kept and last.get(node, (-1, 0)) < target)
            if longer < sum(map(sizes, writes)):
                keys[at] = target
        for node in reads:
            readers[node] = min(keys[at], readers.get(node, keys[at]))
            last[node] = max(keys[at], last.get(node, keys[at]))
        for node in writes:
            for each in {node, step.in_place.get(node, node)}:
                writers[each] = min(keys[at], writers.get(each, keys[at]))
    return [items[at] for at in sorted(range(len(items)), key=keys.__getitem__)]
