"""A program as data: nodes over words, each operand a strided view of an earlier node.

Every `Graph` object is valid, because the constructor checks it: all reads are in bounds, dtypes fit their operators and
sizes are within the caps. Kernels only check index words, which are data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from repops.fields import BadField

Shape = tuple[int, ...]

MAX_NODES = 1 << 18
MAX_RANK = 8  # axes of a domain: shape and reduced axes together
MAX_ELEMENTS = (1 << 31) - 1  # of one tensor, and of one element's terms
MAX_OPERANDS = 32
MAX_NAME_BYTES = 256

F32, I32 = "f32", "i32"
DTYPES = (F32, I32)
STATE_ROLE, BATCH_ROLE = 0, 1
PARAMETER, BUFFER, OPTIMIZER = "parameter", "buffer", "optimizer"
SEED = "seed"  # the optimizer's entry that all random draws come from
STEP = "step"  # counts the steps that were taken: one that turns non-finite, or meets an index out of range, is not
OUTPUTS = "outputs"  # the optimizer's entries `outputs`, or `outputs.NAME` of several: what a step of a map keeps
RATE = "rate"  # a batch's factors of the learning rate, one for each example; the first one counts
KINDS = (PARAMETER, BUFFER, OPTIMIZER)


class BadProgram(BadField):
    """The program is not valid; the message names the node and what was expected."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A strided view: element i of the operand's domain is word offset + sum(strides * i) of node `node`."""

    node: int
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """op: a name in `operators.TABLE`. shape: of the value. reduced: the axes its terms run over."""

    op: str
    dtype: str
    shape: Shape
    reduced: Shape = ()
    operands: tuple[Operand, ...] = ()
    attributes: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One tensor of the state. kind: parameter, buffer or optimizer. after: the node that holds it after a step."""

    name: str
    kind: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Graph:
    """nodes in order of computation; state in ascending order of names; batch: (name, node); loss: a node of shape ()."""

    nodes: tuple[Node, ...]
    state: tuple[StateEntry, ...]
    batch: tuple[tuple[str, int], ...]
    loss: int
    constants: dict[int, bytes] = field(default_factory=dict, hash=False)  # node -> its words, little-endian

    def __post_init__(self) -> None:
        from repops.validation import check  # the table needs Node, validation needs the table

        check(self)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what the steps of a map keep; empty if the program trains."""
        return tuple(
            entry.name
            for entry in self.state
            if entry.kind == OPTIMIZER
            and (entry.name == OUTPUTS or entry.name.startswith(OUTPUTS + "."))
            and self.nodes[entry.before].dtype == F32
        )

    @property
    def exchanged(self) -> tuple[str, ...]:
        """Names of the tensors that nodes exchange: the module's float tensors that a step changes, or a map's outputs."""
        return self.outputs or tuple(
            entry.name
            for entry in self.state
            if entry.kind != OPTIMIZER and entry.after != entry.before and self.nodes[entry.before].dtype == F32
        )


def contiguous(shape: Shape) -> tuple[int, ...]:
    """Row-major strides."""
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= max(extent, 1)
    return tuple(reversed(strides))


@lru_cache(maxsize=1 << 14)
def coordinates(shape: Shape, element: int) -> Shape:
    """Where the row-major element number `element` lies."""
    place = []
    for extent in reversed(shape):
        element, at = divmod(element, extent)
        place.append(at)
    return tuple(reversed(place))


def span(shape: Shape, operand: Operand) -> tuple[int, int]:
    """Least and greatest linear index the view reads; (0, -1) when it reads nothing."""
    if 0 in shape:
        return 0, -1
    least = most = operand.offset
    for extent, stride in zip(shape, operand.strides, strict=True):
        reach = (extent - 1) * stride
        least, most = least + min(reach, 0), most + max(reach, 0)
    return least, most


def needed(nodes: Sequence[Node], roots: Iterable[int]) -> list[bool]:
    """For each node whether any of `roots` needs it."""
    out = [False] * len(nodes)
    for root in roots:
        out[root] = True
    for at in range(len(nodes) - 1, -1, -1):
        if out[at]:
            for operand in nodes[at].operands:
                out[operand.node] = True
    return out
