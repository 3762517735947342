"""What Availability keeps, and what it is given to check (docs/protocol/availability.md)."""

from __future__ import annotations

from dataclasses import dataclass

NOBODY: str = "0x" + 40 * "0"
NO_SIGNER: int = 0


@dataclass(frozen=True, slots=True)
class Demand:
    """A lane's newest demand of a claim; `demander` is nobody once it ended, and the deposit is paid once somebody helped."""

    demander: str = NOBODY
    deposit: int = 0
    asked: int = 0  # so far, this one included
    opened_at: int = 0
    slot: int = 0
    tensor: int = 0
    group: int = 0
    turn: int = 0  # the open one, whose clocks it holds
    holds: bool = False
    signer: int = NO_SIGNER  # of which operator it is demanded, in a job with custodians; else of the claim's author

    @property
    def is_open(self) -> bool:
        return self.demander != NOBODY

    @property
    def is_helped(self) -> bool:
        """Whether somebody else showed what is demanded of a custodian, which may still answer."""
        return self.is_open and self.deposit == 0


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
