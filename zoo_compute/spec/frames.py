"""What disputes speak of: a job's programs, a claim's trees, a frame, a position (docs/protocol/referee.md)."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from enum import IntEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from eth_utils.crypto import keccak

from zoo_compute.spec import merkle

if TYPE_CHECKING:
    from zoo_compute.spec.state import Claim

EMPTY = bytes(32)
Hashes = tuple[bytes, ...]


class Kind(IntEnum):
    """Which of a job's programs is disputed."""

    TRAINING = 0
    UPDATE = 1
    AGGREGATION = 2


class Phase(IntEnum):
    """Which tree the disputed node belongs to."""

    NONE = 0
    SEGMENTS = 1
    STEPS = 2
    STATE = 3
    NODES = 4
    ELEMENTS = 5
    PARTS = 6


@dataclass(frozen=True, slots=True)
class Work:
    """A job's programs (training, the update, each aggregator's) and the shape of a slot-round: what `work_root` commits to."""

    programs: tuple[bytes, ...]
    inner_steps: int
    segment_steps: int
    rows: int
    carry: int = 1  # rounds from one restart of private state to the next

    @property
    def root(self) -> bytes:
        numbers = (self.inner_steps, self.segment_steps, self.rows, self.carry)
        training, update, *aggregations = self.programs
        programs = training + update + merkle.root_of_shares(aggregations)
        return sha256(b"\x09" + programs + b"".join(n.to_bytes(4, "big") for n in numbers)).digest()


@dataclass(frozen=True, slots=True)
class Result:
    """What the result leaf of a slot is made of besides the claim's `start_root`, and the path to the claim's root."""

    segment_root: bytes = EMPTY
    end_root: bytes = EMPTY
    update_root: bytes = EMPTY
    path: Hashes = ()


@dataclass(frozen=True, slots=True)
class Program:
    """Opens a program's root: the head says how many nodes and state entries there are."""

    head: bytes
    entries: bytes
    nodes: bytes

    @property
    def root(self) -> bytes:
        return sha256(b"\x07" + self.head + self.entries + self.nodes).digest()

    @property
    def node_count(self) -> int:
        return int.from_bytes(self.head[4:8], "big")

    @property
    def state_count(self) -> int:
        return int.from_bytes(self.head[8:12], "big")


@dataclass(frozen=True, slots=True)
class States:
    """The states before and after a leaf of a tree of states; the path is that of the leaf before."""

    before: bytes
    after: bytes
    path: Hashes


@dataclass(frozen=True, slots=True)
class Steps:
    """The tree of the states in one segment."""

    root: bytes
    first_path: Hashes
    last_path: Hashes
    children: Hashes


@dataclass(frozen=True, slots=True)
class Trace:
    """The tree of a step's nodes."""

    root: bytes
    program: Program
    children: Hashes


@dataclass(frozen=True, slots=True)
class Frame:
    """What a path has fixed so far; fields not known yet are zero. Contract: its hash alone is kept."""

    job: int = 0
    round: int = 0
    slot: int = 0
    kind: int = 0
    seat: int = 0
    claim: bytes = EMPTY
    work_root: bytes = EMPTY
    program_root: bytes = EMPTY
    start_root: bytes = EMPTY
    segment_root: bytes = EMPTY
    end_root: bytes = EMPTY
    update_root: bytes = EMPTY
    inner_steps: int = 0
    segment_steps: int = 0
    rows: int = 0
    carry: int = 0
    before: bytes = EMPTY
    after: bytes = EMPTY
    tree_root: bytes = EMPTY
    first_step: int = 0
    step: int = 0
    trace_root: bytes = EMPTY
    node: int = 0
    descriptor: bytes = EMPTY
    tensor_root: bytes = EMPTY
    elements_root: bytes = EMPTY
    element: int = 0
    parts: int = 0
    parts_root: bytes = EMPTY
    is_begin: int = 0  # 1, or 0


@dataclass(frozen=True, slots=True)
class Position:
    """The disputed subtree, as passed to Evidence. open_leaf: the leaf whose bytes were revealed, or zero."""

    phase: int
    height: int
    index: int
    node: bytes
    open_leaf: bytes


def claim_hash(claim: Claim) -> bytes:
    """keccak256(abi_encode(claim)), as Settlement has it."""
    return keccak(b"".join(v if isinstance(v, bytes) else v.to_bytes(32, "big") for v in astuple(claim)))


def height_of(leaves: int) -> int:
    """Of the tree over so many leaves: padded to a power of two, at least one."""
    return (max(leaves, 1) - 1).bit_length()


def head_of(descriptor: bytes) -> tuple[bytes, int]:
    """(dtype, rank and dimensions as a tensor's root has them; elements). A word of a descriptor is four big-endian bytes."""
    words = [int.from_bytes(descriptor[at : at + 4], "big") for at in range(0, len(descriptor), 4)]
    dtype, rank = words[1], words[2]
    count, head = 1, bytes([dtype & 255, rank & 255])
    for extent in words[6 : 6 + rank]:
        count *= extent
        head += extent.to_bytes(8, "little")
    return head, count
