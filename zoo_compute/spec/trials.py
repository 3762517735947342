"""What Admissions keeps (docs/protocol/admissions.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo_compute.spec.watching import NOBODY

if TYPE_CHECKING:
    from zoo_compute.spec.state import Claim

TRIALS = 0  # the job number of claims that are trials: no job has it


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
    """An operator's answered trial. Contract: the claim's word, whether it is disputed, and the rest under `trials`."""

    claim: Claim
    work_root: bytes
    score: int  # FLOPs a second
    deadline: int  # the last second at which it can be disputed
    is_disputed: bool = False


@dataclass(frozen=True, slots=True)
class Recall:
    """An operator's last: in which epoch, until when it must be answered (0: it was), and who asked for it."""

    epoch: int = 0
    due: int = 0
    caller: str = NOBODY
