"""A stranger's program is measured in a child process: whatever that does, the worker goes on and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.errors import ChildDied, Interrupted, OverLimit
from node.measurement import limited_process
from node.measurement.limited_process import LOCK, NEW_S, Limits, remove_abandoned, run_limited, scratch_root
from tests.support.waiting import HANG_S, wait_until

MB = 2**20
LIMITS = Limits(wall_s=HANG_S, cpu_s=20, memory_bytes=1_000 * MB, disk_bytes=8 * MB)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    yield tmp_path
    assert list(scratch_root().iterdir()) == [], "a scratch folder is left"


TWO_FILES = "open('big', 'wb').write(bytes(7 * 2**20)); open('more', 'wb').write(bytes(7 * 2**20))"


def script(text: str) -> list[str]:
    return [sys.executable, "-c", "import os, signal, sys, time\n" + textwrap.dedent(text)]


def is_alive(pid: int) -> bool:
    """Running, and no zombie that nobody waits for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_end(pid: int) -> None:
    wait_until(f"the end of {pid}", lambda: not is_alive(pid))


def test_an_answer__is_returned_and_a_drivers_own_words_are_passed_over() -> None:
    command = script("print('driver 5'); print('{\"answer\": {\"inputs\": ' + open('here').read() + '}}')")
    assert run_limited(command, LIMITS, fill=lambda folder: (folder / "here").write_text("7") and None) == {"inputs": 7}


@pytest.mark.parametrize(
    ("text", "changes", "limit", "said"),
    [
        # How far it comes in a second is the machine's.
        ("", {"wall_s": 1}, "time", "took more than 1 s, at (the trace of a step|its start)"),
        ("while True: pass", {"cpu_s": 1}, "time", "used more than 1 s of CPU time at the trace of a step"),
        (
            "block = bytearray(800 * 2**20)",
            {"memory_bytes": 500 * MB, "caps_addresses": False},
            "memory",
            "at the trace of a step",
        ),
        (TWO_FILES, {}, "disk", "at the trace of a step"),
        ("print('{\"out_of_memory\": true}', flush=True)", {}, "memory", "at the trace of a step"),
    ],
    ids=["wall", "CPU", "resident memory", "disk", "its own word"],
)
def test_a_child_that_exceeds_a_limit__is_ended_and_the_message_says_where(
    text: str, changes: dict[str, Any], limit: str, said: str
) -> None:
    """Any of them would go on for longer than the longest limit."""
    endless = f'print(\'{{"doing": "the trace of a step"}}\', flush=True)\n{text}\ntime.sleep(10 * {HANG_S})'
    with pytest.raises(OverLimit, match=said) as over:
        run_limited(script(endless), replace(LIMITS, **changes))
    assert over.value.limit == limit


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce RLIMIT_AS")
def test_addresses_beyond_the_limit__cannot_be_had_at_all() -> None:
    with pytest.raises(ChildDied, match="MemoryError"):
        run_limited(script("block = bytearray(4_000 * 2**20)"), LIMITS)


def test_a_file_larger_than_the_quota__cannot_be_written() -> None:
    with pytest.raises(ChildDied, match="File too large"):
        run_limited(script("with open('big', 'wb', buffering=0) as f:\n  while f.write(bytes(2**20)): pass"), LIMITS)


def test_a_child_that_crashes__is_an_error_that_names_the_signal() -> None:
    with pytest.raises(ChildDied, match="SIGILL") as died:
        run_limited(script("os.kill(os.getpid(), signal.SIGILL)"), LIMITS)
    assert died.value.code == -signal.SIGILL


GRANDCHILD = """
import subprocess
other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])
open(sys.argv[1], 'w').write(f'{os.getpid()} {other.pid}')
"""


def pids_in(path: Path) -> list[int]:
    wait_until("the child's start", lambda: path.exists() and len(path.read_text().split()) == 2)
    return [int(pid) for pid in path.read_text().split()]


def test_a_child_over_a_limit__takes_its_own_children_with_it(home: Path) -> None:
    with pytest.raises(OverLimit):
        run_limited([*script(f"{GRANDCHILD}{TWO_FILES}\ntime.sleep(3600)"), str(home / "pids")], LIMITS)
    for pid in pids_in(home / "pids"):
        wait_for_end(pid)


def test_a_keeper_that_stops__ends_the_child_and_its_children(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_process, "_stopping", threading.Event())
    threading.Thread(target=lambda: (pids_in(home / "pids"), limited_process.stop_all())).start()
    with pytest.raises(Interrupted):
        run_limited([*script(f"{GRANDCHILD}time.sleep(3600)"), str(home / "pids")], LIMITS)
    for pid in pids_in(home / "pids"):
        wait_for_end(pid)


OWNER = """
import sys
from node.measurement.limited_process import Limits, run_limited
run_limited([sys.executable, '-c', sys.argv[1], sys.argv[2]], Limits(3600, 60, 2**30, 2**20))
"""


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_an_owner_that_is_interrupted_or_killed__leaves_no_child(home: Path, blow: signal.Signals) -> None:
    lonely = "import os, sys, time; open(sys.argv[1], 'w').write(f'{os.getpid()} 0'); time.sleep(3600)"
    owner = subprocess.Popen([sys.executable, "-c", OWNER, lonely, str(home / "pids")], stderr=subprocess.DEVNULL)
    child = pids_in(home / "pids")[0]
    owner.send_signal(blow)
    owner.wait(HANG_S)
    wait_for_end(child)
    left = list(scratch_root().iterdir())
    assert bool(left) == (blow == signal.SIGKILL), "only an owner that is killed cannot clean up"
    for folder in left:
        remove_abandoned(scratch_root())
        assert folder.exists(), "it is new: its owner may be about to lock it"
        os.utime(folder, (time.time() - 2 * NEW_S,) * 2)
    remove_abandoned(scratch_root())


def test_the_folder_of_a_child_that_runs__is_not_swept_away() -> None:
    def old(folder: Path) -> None:
        os.utime(folder, (time.time() - 2 * NEW_S,) * 2)
        remove_abandoned(scratch_root())

    command = script(f"print('{{\"answer\": {{\"kept\": ' + str(int(os.path.exists({LOCK!r}))) + '}}}}')")
    assert run_limited(command, LIMITS, fill=old) == {"kept": 1}
