"""Repeats the job in a single process, round by round as rounds close, at low priority.

python -m scripts.demo.replay --store DIR --peer URL ... MANIFEST    masks of rounds on stdin, one per line; JSON on stdout
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from node.hardware import use_threads
from node.inputs.job_files import fetch_manifest
from node.replay import replay
from zoo_compute.store import BlockStore
from zoo_compute.subprocesses import tied_to_parent

NICENESS = 5  # the network's own training comes first


class Replaying:
    """A running replay. `follow` sends it the closed rounds so far; `roots` waits for the checkpoints' roots."""

    def __init__(self, folder: Path, peers: Sequence[str], manifest: str) -> None:
        self._masks: list[int] = []
        urls = [part for url in peers for part in ("--peer", url)]
        command = [sys.executable, "-m", "scripts.demo.replay", "--store", str(folder / "replay"), *urls, manifest]
        with (folder / "replay.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=tied_to_parent(),
            )

    def follow(self, masks: Sequence[int]) -> None:
        """Send newly closed rounds. A repeated round with the same slots gives the same checkpoint."""
        for mask in masks[len(self._masks) :]:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{mask:x}\n")
            self._process.stdin.flush()
            self._masks.append(mask)

    def roots(self, masks: Sequence[int]) -> list[bytes] | None:
        """Roots of all checkpoints, the initial one first; None if the final rounds had other slots than those sent."""
        self.follow(masks)
        output, _ = self._process.communicate()
        if self._process.returncode or self._masks != list(masks):
            return None
        return [bytes.fromhex(root) for root in json.loads(output)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("manifest")
    arguments = parser.parse_args()
    os.nice(NICENESS)
    use_threads(1)
    store = BlockStore(arguments.store, arguments.peer)
    manifest = fetch_manifest(store, arguments.manifest)
    run = replay(manifest, store, (int(line, 16) for line in sys.stdin))
    print(json.dumps([root.hex() for root in run.roots]))


if __name__ == "__main__":
    main()
