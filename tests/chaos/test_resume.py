"""A worker killed at any point of a round, and started again, makes the same bits as one that was not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.chaos
def test_a_worker_killed_at_every_point_of_a_round__makes_the_same_bits_afterwards(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.chaos.killed_round", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    expected, *lives = (json.loads(line) for line in done.stdout.splitlines())
    assert len(lives) == expected["points"] > 40
    for life in lives:
        assert life["died"] == -signal.SIGKILL, f"point {life['at']}: no kill was fired"
        assert life["again"] == 0, f"point {life['at']}: what was left behind stops a new worker"
        result = {key: life[key] for key in ("cids", "root", "sizes")}
        assert result == {key: expected[key] for key in result}, f"point {life['at']}"
