"""The proof that ends an exploration: one record for each kind of evidence, and the bytes that `Evidence` reads.

docs/protocol/referee.md defines the kinds. Every record is the ABI of one Vyper struct, field for field. The contract knows all other
values: from the explored place, its frame and position, from the job, from Settlement.
Paths lead upwards, from a leaf's sibling to the root's child; a path is as long as its tree is high.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

from eth_abi.abi import encode as abi_encode

from repops.commitments import DTYPE_CODES, Array, canonical, tensor_head
from repops.encoding import parts_of_root, prove_entry
from repops.graph import Graph
from repops.merkle import LEAF, NODE, PADDING, sha256
from repops.parts import LEAF as WORDS_A_LEAF
from zoo_compute.spec.frames import Hashes, Program, Result, height_of
from zoo_compute.spec.state import Claim

LEAF_BYTES = 4 * WORDS_A_LEAF
LEAST_PART_BYTES = 2048 + 11 * 32
PARTS_OPERAND = 32  # in place of an operand: the parts' results. Operands are numbered below it

_HASHES = "bytes32[]"
_PROGRAM = "(bytes20,bytes32,bytes32)"
_ENTRY = f"({_PROGRAM},bytes,{_HASHES})"
_TENSOR = f"(bytes32,uint256,{_HASHES})"
_WORDS = f"(bytes,bytes,{_HASHES},uint256,{_HASHES})"
_RESULT = f"(bytes32,bytes32,bytes32,{_HASHES})"
_PRESENT = "(uint256,uint256,uint256,uint256,bytes32,bytes32)"
_CLAIM = "(uint256,uint256,uint256,uint256,uint256,uint256,bytes32,bytes32)"
_SOURCE, _LEAF = "(uint256,uint256,uint256,uint256,bytes32[3])", "(uint256,bytes32[16])"

NO_CLAIM, NO_RESULT = Claim(0, 0, 0, 0, 0, 0, bytes(32), bytes(32)), Result()


# --- what several kinds open


@dataclass(frozen=True)
class Entry:
    """An entry of the disputed program, which one the contract knows. `entry_of` makes it from the program.

    data: the entry's bytes (repops.encoding); path: in the tree of entries, the state's first, then the batch's.
    """

    program: Program
    data: bytes
    path: Hashes


@dataclass(frozen=True)
class Tensor:
    """A tensor of a state, whose name the contract knows. root: the tensor's; index: among the state's names, ascending."""

    root: bytes = bytes(32)
    index: int = 0
    path: Hashes = ()


@dataclass(frozen=True)
class Words:
    """A leaf of a tensor of a state; which leaf, and of what name, the contract knows.

    head: dtype, rank, dimensions, as in the tensor's root; leaf: its bytes; index: as of `Tensor`, with `path` in the state.
    """

    head: bytes = b""
    leaf: bytes = b""
    leaf_path: Hashes = ()
    index: int = 0
    path: Hashes = ()


@dataclass(frozen=True)
class PresentClaim:
    """A claim of slots in the turn that was aggregated. What it shares with the aggregation's claim is left out."""

    seat: int
    operator: int
    scope: int
    price: int
    start_root: bytes
    root: bytes

    @classmethod
    def of(cls, claim: Claim) -> PresentClaim:
        return cls(*(getattr(claim, each.name) for each in fields(cls)))


@dataclass(frozen=True)
class Source:
    """Of which tensor the next `count` leaves of a `Part` are.

    operand: of the disputed node, or CARRIED for the parts' results; height: of the tensor's tree; head: as of `Words`, of an
    operand (of the parts: empty), with zeros up to three hashes' length.
    """

    operand: int
    count: int
    height: int
    head_size: int
    head: Hashes


@dataclass(frozen=True)
class Leaf:
    """The bytes of a leaf of words, with zeros up to 512."""

    size: int
    data: Hashes


# --- the kinds


@dataclass(frozen=True)
class End:
    """1: the last state of SEGMENTS is not the result's `end_root`. path: of the last leaf under `segment_root`."""

    KIND: ClassVar[int] = 1
    ABI: ClassVar[str] = f"(bytes32,{_HASHES})"
    state: bytes
    path: Hashes


@dataclass(frozen=True)
class Begin:
    """2: the explored entry of STATE is not the start of the slot-round.

    tensor: of the entry's name in `start_root`, or in what the claim before left of it. descriptor, path: the node
    `entry.before`, of one that begins at zero or is the seed. claim and what follows, where the round is no restart: the disputed
    claim, the aggregation kept of the turn before, claims in its mask (who holds the slot is enough), the slot's result there.
    """

    KIND: ClassVar[int] = 2
    ABI: ClassVar[str] = f"({_ENTRY},{_TENSOR},bytes,{_HASHES},{_CLAIM},{_CLAIM},{_PRESENT}[],{_RESULT})"
    entry: Entry
    tensor: Tensor = Tensor()
    descriptor: bytes = b""
    path: Hashes = ()
    claim: Claim = NO_CLAIM
    aggregation: Claim = NO_CLAIM
    present: tuple[PresentClaim, ...] = ()
    result: Result = NO_RESULT


@dataclass(frozen=True)
class Output:
    """3: the explored entry of STATE differs from its node in the trace.

    root: the tensor root of node `entry.after`; path: of its leaf under `trace_root`.
    """

    KIND: ClassVar[int] = 3
    ABI: ClassVar[str] = f"({_ENTRY},bytes32,{_HASHES})"
    entry: Entry
    root: bytes
    path: Hashes


@dataclass(frozen=True)
class Input:
    """4: a node that is an input of a state is not the tensor of that state.

    entry: of the program's state, or of its batch where that is a state too (the update's). tensor: of the entry's name in
    the state it comes from: `before`, or `end_root` for the batch of an update and what is private of its state.
    """

    KIND: ClassVar[int] = 4
    ABI: ClassVar[str] = f"(bytes,{_ENTRY},{_TENSOR})"
    descriptor: bytes
    entry: Entry
    tensor: Tensor


@dataclass(frozen=True)
class Constant:
    """5: a node that is a constant is not the tensor that its descriptor names."""

    KIND: ClassVar[int] = 5
    ABI: ClassVar[str] = "(bytes)"
    descriptor: bytes


@dataclass(frozen=True)
class Data:
    """6: a word of a batch of training is not the data's; where it is of no job, not zero.

    leaf: the bytes of the shown leaf; element: the disputed one, row-major in the node; words: the leaf that holds its word
    in the job's data, under `data_root`; is_tokens: the word is of inputs or targets, which are the array `tokens`; else its array is named as in the batch. Of a
    trial both are left empty.
    """

    KIND: ClassVar[int] = 6
    ABI: ClassVar[str] = f"(bytes,{_ENTRY},bytes,uint256,bool,{_WORDS})"
    descriptor: bytes
    entry: Entry
    leaf: bytes
    element: int
    is_tokens: bool = False
    words: Words = Words()


@dataclass(frozen=True)
class Update:
    """7: a word of a batch of an aggregation is not the update's, or not the number of present slots.

    claim: the disputed one. present: where the element's slot is present, the claim that holds it is enough; otherwise, and for
    the number, the claims of all seats in the mask, in ascending order. result: of the slot in that claim; words: the leaf
    that holds the word in the update, under `update_root`; both `Result()` and `Words()` where the slot is absent, and for the number.
    """

    KIND: ClassVar[int] = 7
    ABI: ClassVar[str] = f"(bytes,{_ENTRY},bytes,uint256,{_CLAIM},{_PRESENT}[],{_RESULT},{_WORDS})"
    descriptor: bytes
    entry: Entry
    leaf: bytes
    element: int
    claim: Claim
    present: tuple[PresentClaim, ...]
    result: Result
    words: Words


@dataclass(frozen=True)
class Part:
    """8: a part of an element gives another word than the one committed. `part_of` makes it.

    number: in ELEMENTS the element, which has one part, in PARTS the part. leaves: the shown leaf, then those of the sources,
    one source after another, each's in ascending order, each once; numbers: which leaf of its tensor each is, but for the
    shown one.
    hashes: for each source the siblings that are missing, level by level from below, in each from the left; then, of an operand,
    the path of its node under `trace_root`, of `trace_height` hashes.
    places: where the words are that the part takes, those it carries on first: `leaf << 7 | word`, sixteen to a number, the
    first highest.
    """

    KIND: ClassVar[int] = 8
    ABI: ClassVar[str] = f"(bytes,uint256,uint256,uint256,{_SOURCE}[],uint256[],{_LEAF}[],{_HASHES},uint256[])"
    descriptor: bytes
    number: int
    trace_height: int
    word_count: int
    sources: tuple[Source, ...]
    numbers: tuple[int, ...]
    leaves: tuple[Leaf, ...]
    hashes: Hashes
    places: tuple[int, ...]


Evidence = End | Begin | Output | Input | Constant | Data | Update | Part


def encode(evidence: Evidence) -> bytes:
    """`data` of `Referee.judge(job, claim, frame, place, evidence.KIND, data)`."""
    data = bytes(abi_encode([evidence.ABI], [_plain(evidence)]))
    # The contract reads a descriptor as the 2,048 bytes that begin there.
    return data.ljust(LEAST_PART_BYTES, b"\0") if isinstance(evidence, Part) else data


def _plain(value: Any) -> Any:
    """Records as tuples."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return tuple(_plain(getattr(value, each.name)) for each in fields(value)) if is_dataclass(value) else value


# --- making them


def entry_of(graph: Graph, number: int) -> Entry:
    """Entry `number` of a program: its state's entries, then its batch's."""
    return Entry(Program(*parts_of_root(graph)), *prove_entry(graph, number))


class TensorTree(Protocol):
    """The tree of a tensor's words: the asker's own, or the revealed part of the committer's."""

    @property
    def head(self) -> bytes: ...
    @property
    def height(self) -> int: ...
    def leaf(self, number: int) -> bytes: ...
    def node(self, level: int, index: int) -> bytes:
        """Leaves are at level 0; padding included."""


@dataclass(frozen=True)
class WholeTensor:
    """All words of a tensor (or of an element's parts, with no head), little-endian as they are committed."""

    head: bytes
    data: bytes

    @classmethod
    def of(cls, array: Array) -> WholeTensor:
        return cls(tensor_head(DTYPE_CODES[array.dtype.name], array.shape), canonical(array).tobytes())

    @property
    def height(self) -> int:
        return height_of(-(-len(self.data) // LEAF_BYTES))

    def leaf(self, number: int) -> bytes:
        return self.data[number * LEAF_BYTES : (number + 1) * LEAF_BYTES]

    def node(self, level: int, index: int) -> bytes:
        nodes, padding = self._levels[level]
        return nodes[index] if index < len(nodes) else padding

    @cached_property
    def _levels(self) -> list[tuple[list[bytes], bytes]]:
        nodes = [sha256(LEAF + self.data[at : at + LEAF_BYTES]) for at in range(0, len(self.data), LEAF_BYTES)]
        levels, padding = [(nodes, PADDING)], PADDING
        for _ in range(self.height):
            full = [*nodes, padding] if len(nodes) % 2 else nodes
            nodes = [sha256(NODE + left + right) for left, right in zip(full[::2], full[1::2], strict=True)]
            padding = sha256(NODE + padding + padding)
            levels.append((nodes, padding))
        return levels


def siblings(tree: TensorTree, numbers: Sequence[int]) -> Hashes:
    """The siblings needed to compute the root from these leaves (ascending): level by level, from the left."""
    hashes: list[bytes] = []
    for level in range(tree.height):
        known = set(numbers)
        hashes += [tree.node(level, at ^ 1) for at in numbers if at ^ 1 not in known]
        numbers = sorted({at >> 1 for at in numbers})
    return tuple(hashes)


def path_of(tree: TensorTree, number: int) -> Hashes:
    """The path of one leaf."""
    return siblings(tree, [number])


def words_of(tree: TensorTree, at: int, index: int, path: Hashes) -> Words:
    """The leaf with word `at` of a tensor. index: the tensor's number in its state; path: its path there."""
    number = at // WORDS_A_LEAF
    return Words(tree.head, tree.leaf(number), path_of(tree, number), index, path)


def part_of(
    descriptor: bytes,
    number: int,
    leaf: bytes,
    carried: Sequence[int],
    reads: Sequence[tuple[int, int]],
    trees: Mapping[int, tuple[TensorTree, Hashes]],
) -> Part:
    """Of `repops.parts.Part.carried` and `.reads`. number: as of `Part`; leaf: the bytes of the shown leaf.

    trees: of each operand that is read its tensor, and the path of its node under the trace's root; in PARTS also that of the
    parts' results, under CARRIED and with no path.
    """
    wanted = [(PARTS_OPERAND, at) for at in carried] + list(reads)
    needed = sorted({(source, at // WORDS_A_LEAF) for source, at in wanted})
    disputed = [(PARTS_OPERAND, number // WORDS_A_LEAF)] if PARTS_OPERAND in trees else [(-1, 0)]
    slots = {each: slot for slot, each in enumerate(disputed + [each for each in needed if each not in disputed])}
    opened = [each for each in slots if each not in disputed]
    sources, hashes = [], Hashes()
    for source in sorted({source for source, _ in opened}):
        tree, path = trees[source]
        mine = [at for of, at in opened if of == source]
        sources.append(Source(source, len(mine), tree.height, len(tree.head), _hashes(tree.head, 3)))
        hashes += siblings(tree, mine) + path
    places = [slots[source, at // WORDS_A_LEAF] << 7 | at % WORDS_A_LEAF for source, at in wanted]
    leaves = [leaf, *(trees[source][0].leaf(at) for source, at in opened)]
    return Part(
        descriptor,
        number,
        max((len(path) for _, path in trees.values()), default=0),
        len(places),
        tuple(sources),
        tuple(at for _, at in opened),
        tuple(Leaf(len(data), _hashes(data, 16)) for data in leaves),
        hashes,
        tuple(_packed(places[at : at + 16]) for at in range(0, len(places), 16)),
    )


def _hashes(data: bytes, count: int) -> Hashes:
    """Bytes in pieces of 32, padded with zeros."""
    data = data.ljust(32 * count, b"\0")
    return tuple(data[at : at + 32] for at in range(0, len(data), 32))


def _packed(places: Sequence[int]) -> int:
    return sum(place << 16 * (15 - at) for at, place in enumerate(places))
