"""What Availability and Audits keep, and what they are given to check (docs/protocol/, the sections of these names)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo_compute.spec.state import Claim

NOBODY: str = "0x" + 40 * "0"


@dataclass(frozen=True, slots=True)
class Demand:
    """A lane's newest demand of a claim; `demander` is nobody once it ended."""

    demander: str = NOBODY
    deposit: int = 0
    asked: int = 0  # so far, this one included
    opened_at: int = 0
    slot: int = 0
    tensor: int = 0
    group: int = 0
    turn: int = 0  # the open one, whose clocks it holds
    holds: bool = False

    @property
    def is_open(self) -> bool:
        return self.demander != NOBODY


@dataclass(frozen=True, slots=True)
class Holding:
    """How long a job's clocks stand still."""

    open: int = 0  # demands that hold them
    since: int = 0
    until: int = 0  # when the last of these must have been answered


@dataclass(frozen=True, slots=True)
class Spent:
    """What a seat's ended demands used of its right to hold the clocks."""

    turn: int = 0
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class Opening:
    """What leads from a chunk to a claim's root."""

    segment_root: bytes
    end_root: bytes
    result_path: tuple[bytes, ...]
    name: bytes
    head: bytes  # dtype, rank, dimensions; empty where there is no tensor
    state_path: tuple[bytes, ...]
    chunk: bytes
    tensor_path: tuple[bytes, ...]


class Status(IntEnum):
    """Of an attestation."""

    NONE = 0
    SEALED = 1
    REVEALED = 2
    SETTLED = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What a submitter offers for audits of its job, and what is left to pay them with."""

    fee: int = 0
    rate_bps: int = 0
    segments: int = 0
    balance: int = 0
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class Draw:
    scheduled_at: int = 0
    block: int = 0
    drawn_at: int = 0  # 0: not drawn
    window_s: int = 0
    stale: bool = False
    bonded: int = 0
    seed: bytes = bytes(32)

    @property
    def phase_s(self) -> int:
        """Attesting, revealing and contradicting take so long each."""
        return self.window_s // 3

    @property
    def attest_until(self) -> int:
        return self.drawn_at + self.phase_s


@dataclass(frozen=True, slots=True)
class Auditor:
    bond: int = 0
    since: int = 0  # when the bond last grew
    open: int = 0  # attestations that are not settled


@dataclass(frozen=True, slots=True)
class Unit:
    claim: Claim | None = None
    attested: int = 0
    opener: str = NOBODY
    root: bytes = bytes(32)


@dataclass(frozen=True, slots=True)
class Seal:
    """What an auditor seals. Contract: keccak256(abi_encode(...)) of these."""

    job: int
    turn: int
    unit: int
    operator: int
    hot: str
    root: bytes
    salt: bytes


@dataclass(frozen=True, slots=True)
class Attestation:
    status: Status = Status.NONE
    seal: Seal | None = None
    root: bytes = bytes(32)  # once revealed


@dataclass(frozen=True, slots=True)
class SegmentOpening:
    """What leads from a segment's end to a claim's root."""

    step: int
    segment_path: tuple[bytes, ...]
    end_root: bytes
    update_root: bytes
    result_path: tuple[bytes, ...]
