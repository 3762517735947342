"""A worker's report to its keeper: one JSON object per slot-round, of the same size however many steps it has. No torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ShardReport:
    """A finished slot-round. Roots in hex; update: CID of the stored update; loss: of the first and the last step, null where it was skipped;
    private: CID of the private state that the slot's next round goes on with, kept on this machine alone; null where nothing is carried;
    skipped: how many were (not finite, or an index out of range), which is paid all the same.

    seconds: spent in inner steps; wall_s: of the whole slot-round, with fetching, checking, hashing and storing.
    """

    job: int
    round: int
    slot: int
    update: str
    start_root: str
    segment_root: str
    end_root: str
    update_root: str
    loss: list[float | None]
    skipped: int
    tokens: int
    seconds: float
    wall_s: float
    device: str
    private: str | None = None
    version: int = 1

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
