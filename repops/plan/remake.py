"""How to make a value again: the items that write it, without what they compute besides, in memory of another name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from repops import operators
from repops.graph import Node
from repops.plan.ir import Argument, Group, GroupValue, Instruction, Item, Memory, Product, Rank, Scatter, Side

WORD_WORK = 16  # scalar operations that take about as long as reading or writing a word
MOST_INSTRUCTIONS = 300  # of a group that is searched for what makes one of its values: planning stays near linear


def work(nodes: Sequence[Node], item: Item) -> int:
    """About how long an item takes, in scalar operations."""
    if isinstance(item, Product):
        batches, rows, columns, terms = item.sizes
        return 2 * batches * rows * columns * terms + WORD_WORK * batches * rows * columns
    if isinstance(item, Scatter):
        return WORD_WORK * item.others * item.terms
    if isinstance(item, Rank):
        return WORD_WORK * item.others * item.extent**2
    total = 0
    for instruction in item.instructions:
        words = sum(isinstance(argument, Memory) for argument in instruction.arguments) + (
            instruction.node in item.stores
        )
        size = item.rows * (1 if instruction.per_row else item.columns)
        total += WORD_WORK * words * size + operators.flops(nodes[instruction.node % len(nodes)])
    return total


def remaking(items: Iterable[Item], value: int) -> list[Item] | None:
    """What of `items`, all that write `value`, makes it; None if it is not made again."""
    out: list[Item] = []
    for item in items:
        if isinstance(item, Group):
            if len(item.instructions) > MOST_INSTRUCTIONS:
                return None
            item = _only(item, value)
        out.append(item)
    return out


def _only(group: Group, value: int) -> Group:
    """The group without what `value` does not need."""
    stores = {node: memory for node, memory in group.stores.items() if memory.node == value}
    wanted = set(stores)
    kept: list[Instruction] = []
    for instruction in reversed(group.instructions):
        if instruction.node in wanted:
            kept.append(instruction)
            wanted |= {argument.node for argument in instruction.arguments if isinstance(argument, GroupValue)}
    return replace(group, instructions=kept[::-1], stores=stores)


def renamed(item: Item, names: Mapping[int, int]) -> Item:
    """The item with other memory: node -> the number that names its memory now."""
    if names.keys().isdisjoint({*item.reads(), *item.writes()}):
        return item
    side: Callable[[Side], Side] = lambda each: replace(each, node=names.get(each.node, each.node))  # noqa: E731
    if isinstance(item, Product):
        return replace(item, a=side(item.a), b=side(item.b), c=side(item.c))
    if isinstance(item, Scatter):
        return replace(item, out=side(item.out), index=side(item.index), source=side(item.source))
    if isinstance(item, Rank):
        return replace(item, own=side(item.own), rivals=side(item.rivals), out=side(item.out))

    def argument(each: Argument) -> Argument:
        return replace(each, node=names.get(each.node, each.node)) if isinstance(each, Memory) else each

    instructions = [replace(i, arguments=[argument(each) for each in i.arguments]) for i in item.instructions]
    stores = {at: replace(memory, node=names.get(memory.node, memory.node)) for at, memory in item.stores.items()}
    return replace(item, instructions=instructions, stores=stores)
