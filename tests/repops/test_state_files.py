"""A state in a file has the same bits, leaves nothing behind, and a full disk is noticed before the first step."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from repops import backend
from repops.plan.fit import Fitting
from repops.plan.memory import Arena
from tests.repops.parallel_ranks import bits, model_case

HOLDS = """
import sys, time
from pathlib import Path
from repops.plan.memory import Arena
arena = Arena(1 << 20, Path(sys.argv[1]))
arena.words[...] = 7
print("ready", flush=True)
time.sleep(600)
"""


def test_a_state_in_a_file__has_the_same_bits_and_no_name(tmp_path: Path):
    case = model_case("masked", 3)
    least = Fitting(case.graph).least.size
    made = backend.prepare(case.graph, memory=least, folder=tmp_path, name="native")
    for name, array in case.state.items():
        made.state[name][...] = array
    assert f"{tmp_path}/" in Path("/proc/self/maps").read_text(), "the state lies elsewhere"
    for batch, loss in zip(case.batches, case.losses, strict=True):
        assert bits(made.step(batch)) == loss
    assert {name for name, data in case.after.items() if bits(made.state[name]) != data} == set()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_killed__leaves_no_file(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["little is free", "others take the rest meanwhile"])
def test_a_full_disk__is_an_error_before_the_first_step(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if how == "little is free":
        monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1_000})())
    else:
        monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=rf"the state needs 4,096 bytes in {tmp_path}, where [\d,]+ are free") as refused:
        Arena(4_096, tmp_path)
    assert refused.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_a_file__has_all_of_its_blocks_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    blocks: list[int] = []
    allocate = os.posix_fallocate

    def counted(file: int, offset: int, size: int) -> None:
        allocate(file, offset, size)
        blocks.append(512 * os.fstat(file).st_blocks)

    monkeypatch.setattr(os, "posix_fallocate", counted)
    Arena(1 << 20, tmp_path)
    assert blocks[0] >= 1 << 20
