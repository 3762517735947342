"""What `none_outlives` finds: a process in a session of its own whose starter is gone; and what it lets pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import started_processes
from tests.support.started_processes import MARK, none_outlives
from tests.support.waiting import HANG_S, wait_until

# A child whose parent ends at once, in a session of its own; it prints its number.
ORPHAN = "import subprocess, sys; print(subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=subprocess.DEVNULL).pid)"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_an_orphan_in_a_session_of_its_own__is_ended_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started_processes, "END_S", 0.3)
    with pytest.raises(AssertionError, match=r"this test left running: .* sleep 600"), none_outlives("this test"):
        orphan = int(subprocess.check_output([sys.executable, "-c", ORPHAN]))
    wait_until("its end", lambda: not Path(f"/proc/{orphan}").exists())


def test_a_process_that_ends_in_time__is_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started_processes, "END_S", HANG_S)
    with none_outlives("this test"):
        process = subprocess.Popen(["sleep", "0.3"])
    assert process.wait() == 0


def test_blocks_within_each_other__report_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started_processes, "END_S", 0.3)
    before = os.environ.get(MARK)
    with none_outlives("all"), pytest.raises(AssertionError, match="one left"), none_outlives("one"):
        subprocess.check_output([sys.executable, "-c", ORPHAN])
    assert os.environ.get(MARK) == before
