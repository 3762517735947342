"""Items and instructions before they have addresses: memory is named by the node that it stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from repops.plan.access import Axes


@dataclass(frozen=True)
class Literal:
    """One word."""

    word: int


@dataclass(frozen=True)
class Memory:
    """Word offset + row(r) + column(c) of the memory of `node`."""

    node: int
    offset: int
    rows: Axes
    columns: Axes


@dataclass(frozen=True)
class GroupValue:
    """The result of an earlier instruction of the group for `node`: a word per element, or (per_row) one per row."""

    node: int
    per_row: bool


Argument = Literal | Memory | GroupValue


@dataclass
class Instruction:
    """op: a name in the operator table. node: the node it computes. per_row: it works on one word per row.

    extent, stride: of the indexed axis of `take`.
    """

    op: str
    node: int
    per_row: bool
    arguments: list[Argument]
    extent: int = 0
    stride: int = 0


@dataclass
class Group:
    """Instructions over rows x columns. by_columns: folds over the rows. stores: node -> where its value goes in memory."""

    rows: int
    columns: int
    instructions: list[Instruction] = field(default_factory=list)
    stores: dict[int, Memory] = field(default_factory=dict)
    by_columns: bool = False

    def reads(self) -> Iterator[int]:
        for instruction in self.instructions:
            for argument in instruction.arguments:
                if isinstance(argument, Memory) and instruction.op != "iota":
                    yield argument.node

    def writes(self) -> Iterator[int]:
        for memory in self.stores.values():
            yield memory.node


@dataclass
class Side:
    """One tensor of a product, scatter or rank: its axes in the roles that the item gives them."""

    node: int
    offset: int
    parts: tuple[Axes, ...]


@dataclass
class Product:
    """Sizes (batches, M, N, K); a's parts: batch, rows, terms; b's: batch, terms, columns; c's: batch, rows, columns."""

    sizes: tuple[int, int, int, int]
    a: Side
    b: Side
    c: Side

    def reads(self) -> Iterator[int]:
        yield from (self.a.node, self.b.node)

    def writes(self) -> Iterator[int]:
        yield self.c.node


@dataclass
class Scatter:
    """Parts of out: others; of index and source: others, terms. The rows of out already hold the base."""

    others: int
    terms: int
    extent: int
    row_stride: int
    adds: bool
    out: Side
    index: Side
    source: Side

    def reads(self) -> Iterator[int]:
        yield from (self.out.node, self.index.node, self.source.node)

    def writes(self) -> Iterator[int]:
        yield self.out.node


@dataclass
class Rank:
    """Parts of each side: others. Strides along the axis: of own, of rivals by the own place, of rivals, of out."""

    others: int
    extent: int
    own: Side
    rivals: Side
    out: Side
    strides: tuple[int, int, int, int]

    def reads(self) -> Iterator[int]:
        yield from (self.own.node, self.rivals.node)

    def writes(self) -> Iterator[int]:
        yield self.out.node


Item = Group | Product | Scatter | Rank
