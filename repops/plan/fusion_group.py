"""A group while nodes join it: its members, and how it reads a node's operands."""

from __future__ import annotations

from dataclasses import dataclass, field

from repops.graph import Node, Operand
from repops.plan.access import Axes, axes_of, split, uniform
from repops.plan.ir import Argument, Group, GroupValue, Memory


@dataclass
class OpenGroup:
    """A group while it grows. members: node -> whether the group holds one word per row of it (else one per element)."""

    index: int
    group: Group
    members: dict[int, bool] = field(default_factory=dict)
    sources: set[int] = field(default_factory=set)
    users: set[int] = field(default_factory=set)  # of its members


def order_of_group(node: Node, shape: tuple[int, ...], strides: tuple[int, ...], group: Group) -> Axes:
    """The domain's axes as the group runs through them: folds down the columns have their terms as rows."""
    if group.by_columns and node.reduced:
        cut = len(node.shape)
        return axes_of(shape[cut:] + shape[:cut], strides[cut:] + strides[:cut])
    return axes_of(shape, strides)


def member_argument(opened: OpenGroup, operand: Operand, axes: Axes, full: bool) -> GroupValue | None:
    """The operand as a member of the group, if each element is read at the place where it is computed."""
    if operand.offset:
        return None
    rows, columns = opened.group.rows, opened.group.columns
    per_row = opened.members[operand.node]
    same_rows = axes_of((rows,), (1,))
    if not full:
        return GroupValue(operand.node, True) if per_row and axes == same_rows else None
    if axes == axes_of((rows * columns,), (1,)):
        return GroupValue(operand.node, per_row)
    cut = split(axes, columns)
    if per_row and cut and cut[0] == same_rows and uniform(cut[1]):
        return GroupValue(operand.node, True)
    return None


def one_per_row(argument: Argument) -> Argument:
    return Memory(argument.node, argument.offset, argument.rows, ()) if isinstance(argument, Memory) else argument
