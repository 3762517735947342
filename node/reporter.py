"""What a worker tells its keeper: one JSON object a slot-round, and files that are never half written. No torch."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ShardReport:
    """A finished slot-round. Roots in hex; update: CID of the stored update; losses: null where a step was skipped.

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
    segments: list[list[Any]]
    loss: list[float | None]
    losses: list[float | None]
    tokens: int
    seconds: float
    wall_s: float
    device: str
    version: int = 1

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def write_atomically(path: str | os.PathLike[str], report: dict[str, Any]) -> None:
    """Write JSON so that a reader sees the whole of it or the file that was there before."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(report, file, sort_keys=True, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
