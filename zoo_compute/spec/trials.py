"""What Admissions keeps (docs/protocol.md, "Admissions")."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    """The benchmark of a VRAM size."""

    program_root: bytes = bytes(32)
    state_root: bytes = bytes(32)
    steps: int = 0
    flops: int = 0  # of all steps


@dataclass(frozen=True, slots=True)
class Entry:
    """A trial that is not answered."""

    entered_at: int = 0
    block: int = 0  # whose hash the seed follows from; 0: no entry


@dataclass(frozen=True, slots=True)
class Trial:
    """All that an answered trial is judged by; what the contract hashes."""

    operator: int
    workload: Workload
    seed: bytes
    root: bytes
    seconds: int
    deadline: int


@dataclass(frozen=True, slots=True)
class Pending:
    """An operator's answered trial. Contract: its hash, and the open disputes."""

    trial: Trial
    disputes: int = 0


@dataclass(frozen=True, slots=True)
class Recall:
    """An operator's last: in which epoch, and until when it must be answered; 0: it was."""

    epoch: int = 0
    due: int = 0
