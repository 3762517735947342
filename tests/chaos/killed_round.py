"""Runs one round of a small job as a worker does, once for each point at which it can be killed; prints a JSON line a life.

A point is whatever another process could see half done: a file opened for writing, renamed, linked or removed, an inner step
done. Each life is a fork of this process, before any kernel ran: what a warm worker shares with a killed one is its code alone.

    python -m tests.chaos.killed_round FOLDER
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from node import tasks
from tests.support import small_job
from tests.support.small_job import SmallJob
from zoo_compute.store import BlockStore

SEEN = {"os.rename", "os.link", "os.remove", "os.mkdir"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class KillPoint:
    """Kills this process at point `at`, counted from 1; at none with 0. passed: how many there were so far."""

    def __init__(self, at: int, root: Path) -> None:
        self.at, self.root, self.passed = at, str(root), 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, values: tuple[Any, ...]) -> None:
        is_write = event == "open" and isinstance(values[2], int) and values[2] & WRITES
        if (is_write or event in SEEN) and str(values[0]).startswith(self.root):
            self.point()

    def point(self, *_: Any) -> None:
        self.passed += 1
        if self.passed == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def live(job: SmallJob, folder: Path, at: int) -> dict[str, Any]:
    """The round, from whatever an earlier life left in `folder`."""
    killer = KillPoint(at, folder)
    mine = SmallJob(BlockStore(folder / "store"), job.manifest, job.programs, dict(job.base))
    for slot in range(3):
        mine.train(slot, progress=killer.point)
    mine.commit(7, [0, 2])
    mine.commit(9, [1])
    made = mine.aggregate()
    tasks.run_pinning(job.base | {"checkpoint": made["pointer"]}, mine.store)
    cids = [mine.reports[slot]["update"] for slot in range(3)] + [made["state"], made["pointer"]]
    sizes = [len(mine.store.read(cid, max_bytes=10**7)) for cid in cids]
    return {"points": killer.passed, "cids": cids, "root": made["root"], "sizes": sizes}


def forked(job: SmallJob, folder: Path, at: int) -> int:
    """A life in a process of its own; the signal that ended it, or 0. What it found lies in `folder`/found."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        recorded = live(job, folder, at)
        (folder.parent / f"{folder.name}.json").write_text(json.dumps(recorded))
        status = 0
    finally:
        os._exit(status)


def main() -> int:
    root = Path(sys.argv[1])
    job = small_job.publish(root / "published")
    whole = root / "whole"
    shutil.copytree(root / "published", whole)
    assert forked(job, whole, 0) == 0, "the round without a kill"
    expected = json.loads((root / "whole.json").read_text())
    print(json.dumps(expected), flush=True)
    for at in range(1, expected["points"] + 1):
        folder = root / f"killed-{at}"
        shutil.copytree(root / "published", folder)
        died, again = forked(job, folder, at), forked(job, folder, 0)
        recorded = json.loads((root / f"{folder.name}.json").read_text()) if again == 0 else {}
        print(json.dumps({"at": at, "died": died, "again": again, **recorded}), flush=True)
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
