"""What an operator's folder has cost: running sums of gas and of busy workers, in `spent.json`.

Sums, because the records that they are of are bounded. One short write a transaction, and one every few seconds of work.
"""

from __future__ import annotations

import fcntl
import json
import logging
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from zoo_compute.atomic import write_atomically

log = logging.getLogger("zoo.keeper")

FILE = "spent.json"
LOCK = ".spent.lock"


@dataclass(frozen=True)
class Spent:
    """since: seconds since 1970. wei: of the coin, for gas of so many transactions. busy_s: of workers. watt_s: of that time, as far as
    its watts are known; unknown_s: the rest of it."""

    since: float = 0.0
    transactions: int = 0
    wei: int = 0
    busy_s: float = 0.0
    watt_s: float = 0.0
    unknown_s: float = 0.0

    @property
    def mean_watts(self) -> float | None:
        """Of the time whose watts are known; None if there is none."""
        known_s = self.busy_s - self.unknown_s
        return self.watt_s / known_s if known_s > 0 and self.watt_s else None

    def plus(self, other: Spent) -> Spent:
        summed = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "since"}
        return replace(self, **summed)


def read(folder: Path) -> Spent:
    """The sums so far; all zero where nothing was counted yet, or what was counted is damaged."""
    try:
        raw = json.loads((folder / FILE).read_text())
        seconds = {key: float(raw[key]) for key in ("since", "busy_s", "watt_s", "unknown_s")}
        return Spent(transactions=int(raw["transactions"]), wei=int(raw["wei"]), **seconds)
    except FileNotFoundError:
        return Spent()
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s cannot be read, and counting begins again: %s", folder / FILE, error)
        return Spent()


def add(folder: Path, more: Spent) -> None:
    """Count what is new. Sums that cannot be written fail nothing else."""
    if more == Spent():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = read(folder)
            total = replace(before.plus(more), since=before.since or time.time())
            raw = {**asdict(total), "wei": str(total.wei)}
            write_atomically(folder / FILE, (json.dumps(raw, indent=1) + "\n").encode(), mode=0o644)
    except OSError as error:
        log.warning("%s cannot be written: %s", folder / FILE, error)
