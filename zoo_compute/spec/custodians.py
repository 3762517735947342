"""What Custody keeps, and what custodians sign (docs/protocol/custody.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class CustodyStatus(IntEnum):
    """Of an operator in a job."""

    NONE = 0
    OFFERED = 1
    CUSTODIAN = 2
    LEFT = 3


@dataclass(frozen=True, slots=True)
class Request:
    """What a submitter offers its job's custodians."""

    fee: int = 0  # of one signature
    reserve: int = 0  # that a custodian puts up
    closes_at: int = 0  # from then on offers can be drawn


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job's custody is."""

    custodians: int = 0
    depth: int = 0
    version: int = 0  # of the committee; 0: none was drawn
    vacant: int = 0  # bitmap of places
    offers: int = 0
    draw_block: int = 0  # 0: no draw is scheduled
    counted: int = 0  # the first turn that is not counted
    started: bool = False
    vacated_at: int = 0  # when a place last fell vacant: offers for it are open for `answer_s`

    @property
    def least(self) -> int:
        """The signatures that one honest custodian's is always among."""
        return (self.custodians + 1) // 2


@dataclass(frozen=True, slots=True)
class Offer:
    operator: int
    weight: int  # aged stake, in STAKE_UNIT


@dataclass(frozen=True, slots=True)
class Member:
    """A custodian's place. Contract: two words."""

    operator: int = 0  # 0: the place is vacant
    from_turn: int = 0  # the first turn it answers for
    key: str = "0x" + 40 * "0"


Committee = tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Role:
    """An operator in a job."""

    reserve: int = 0
    status: CustodyStatus = CustodyStatus.NONE
    index: int = 0  # its place


@dataclass(frozen=True, slots=True)
class Record:
    """Who signed what of a turn; the last three are bitmaps of places."""

    turn: int = 0
    version: int = 0  # of its committee; 0: no record
    mask: int = 0  # bitmap of seats
    signed_at: int = 0  # 0: no majority did yet
    inputs: int = 0  # who holds the whole mask
    checkpoint: int = 0  # who holds all that was posted; of several aggregators, one bit more once any posted
    shares: tuple[int, ...] = ()  # of each aggregator: who holds what it posted; empty before any did
    answered: int = 0  # signed while too few did


@dataclass(frozen=True, slots=True)
class Note:
    """Stake, in STAKE_UNIT, and when it last grew."""

    stake: int = 0
    since: int = 0


@dataclass(frozen=True, slots=True)
class StartSignature:
    """Contract: `signer`'s EIP-712 signature of Start, under `index`."""

    index: int
    signer: str
    job: int


@dataclass(frozen=True, slots=True)
class InputsSignature:
    """Likewise of Inputs."""

    index: int
    signer: str
    job: int
    turn: int
    seats: int


@dataclass(frozen=True, slots=True)
class CheckpointSignature:
    """Likewise of Checkpoint."""

    index: int
    signer: str
    job: int
    turn: int
    seat: int
    root: bytes
    cid: bytes  # of its pointer
