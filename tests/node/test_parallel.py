"""A slot-round on several processes: the roots of one process, and an end with a reason when one of them is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from node import tasks
from node.device import RankLayout, parse_layout, pick_device
from node.errors import BadInputs, NoDevice, RankLost
from node.hardware import CPU
from node.inputs.programs import _ready
from node.parallel.programs import RankedPrograms, placed_on
from tests.support.small_job import publish, small_job
from tests.support.waiting import HANG_S, wait_until

ROOTS = ("start_root", "segment_root", "end_root", "update_root", "update")


@pytest.fixture
def no_ranks_kept() -> Iterator[None]:
    """The last job's programs stay ready in this process: here their ranks would outlive the test."""
    yield
    while _ready:
        _ready.popitem()[1].close()


@pytest.fixture
def programs() -> Iterator[RankedPrograms]:
    made = RankedPrograms(small_job().traced.graph, RankLayout("pipeline", 2), 1, timeout_s=HANG_S)
    yield made
    made.close()


def is_gone(pid: int) -> bool:
    """Ended, or a zombie whose parent has yet to hear of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pids: list[int]) -> None:
    wait_until(f"the end of {pids}", lambda: all(map(is_gone, pids)))


LAYOUTS = [("pipeline:2", 1), ("tensor:2", 1), pytest.param("data:2", 1, marks=pytest.mark.long), ("data:3", 4)]


@pytest.mark.parametrize(("device", "accumulate"), LAYOUTS)
@pytest.mark.usefixtures("no_ranks_kept")
def test_a_slot_round_on_ranks__has_the_report_of_one_process(tmp_path: Path, device: str, accumulate: int):
    job = publish(tmp_path, accumulate=accumulate)
    alone = job.train(1)
    together = tasks.run_shard(job.base | {"slot": 1, "device": device}, job.store)
    assert {name: together[name] for name in ROOTS} == {name: alone[name] for name in ROOTS}
    assert together["loss"] == alone["loss"]


def test_a_rank_that_is_killed__ends_the_others_and_is_named(programs: RankedPrograms):
    pids = programs.step.ranks.pids
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(RankLost, match=r"rank 1 died \(signal 9\)"):  # one that is waited for in vain did not answer
        programs.state_root()
    wait_until_gone(pids)


@pytest.mark.long
def test_a_rank_that_hangs__is_not_waited_for_longer_than_said(programs: RankedPrograms):
    runner = programs.step
    runner.ranks._timeout_s = 2.0
    os.kill(runner.ranks.pids[0], signal.SIGSTOP)
    with pytest.raises(RankLost, match=r"ranks 0 did not answer within 2 s"):
        programs.state_root()
    wait_until_gone(runner.ranks.pids)


@pytest.mark.long
def test_after_a_loss__new_ranks_begin_afresh_with_the_same_bits(programs: RankedPrograms):
    first = programs.state_root()
    lost = programs.step.ranks.pids
    os.kill(lost[0], signal.SIGKILL)
    with pytest.raises(RankLost):
        programs.state_root()
    assert programs.state_root() == first  # zeros, as before the first write
    assert not set(programs.step.ranks.pids) & set(lost)


def test_ended_ranks__leave_no_process_and_no_file(programs: RankedPrograms):
    ranks = programs.step.ranks
    pids, folder = ranks.pids, Path(ranks._folder)
    assert not any(map(is_gone, pids))
    assert folder.exists()
    programs.close()
    programs.close()
    assert all(map(is_gone, pids))
    assert not folder.exists()


LEADER = """
import sys
from node.device import RankLayout
from node.parallel.programs import RankedPrograms
from tests.support.small_job import small_job

programs = RankedPrograms(small_job().traced.graph, RankLayout("pipeline", 2), 1)
print(*programs.step.ranks.pids, flush=True)
sys.stdin.read() if sys.argv[1] == "idle" else None
while True:
    programs.state_root()
"""


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("doing", ["idle", "working"])
def test_ranks__end_when_their_worker_does(how: signal.Signals, doing: str):
    command = [sys.executable, "-c", LEADER, doing]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    ) as leader:
        assert leader.stdout is not None
        pids = [int(word) for word in leader.stdout.readline().split()]
        assert len(pids) == 2
        leader.send_signal(how)
        leader.wait(HANG_S)
        wait_until_gone(pids)


@pytest.mark.parametrize("name", ["pipeline", "pipeline:1", "tensor:x", "data:-2", "data:"])
def test_a_layout_that_makes_no_sense__is_refused(name: str):
    with pytest.raises(NoDevice, match="with two or more ranks"):
        parse_layout(name)


def test_a_layout__is_the_cpu_for_what_is_not_computed_together():
    assert parse_layout("tensor:4") == RankLayout("tensor", 4)
    assert parse_layout("cuda:1") is None
    assert parse_layout(None) is None
    assert pick_device("tensor:4") == CPU


def test_more_ranks_than_a_program_can_use__are_refused():
    with pytest.raises(BadInputs, match="40 ranks; expected 2 to 32"):
        placed_on(small_job().traced.graph, RankLayout("tensor", 40), 1)
