"""Before a bid a program is measured in a child process: a step, its trace, and the opening that costs most."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from node import backends, tasks
from node.errors import ChildDied, OverLimit
from node.hardware import threads
from node.measurement import step_cost
from node.measurement.dearest import dearest_nodes, describe
from node.measurement.limited_process import Limits
from node.measurement.step_cost import MeasuredProgram, limits_for
from repops import backend, encoding
from repops.builder import Builder
from repops.graph import BATCH_ROLE, F32, OPTIMIZER, PARAMETER, STATE_ROLE, Graph
from tests.support.small_job import SmallJob, publish
from tests.support.waiting import HANG_S

GB = 10**9
LIMITS = Limits(wall_s=HANG_S, cpu_s=60, memory_bytes=8 * GB, disk_bytes=GB)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return publish(tmp_path)


def program(*, rows: int = 8, terms: int = 32) -> Graph:
    """Scales a parameter; the loss needs one product of `terms` terms, and `rows` sums."""
    b = Builder()
    before = b.input(F32, (rows, terms), STATE_ROLE, 0)
    batch = b.input(F32, (rows, 4), BATCH_ROLE, 0)
    inner = b.sum(b.map("mul", before, before), [1])
    return b.finish(
        [("w", PARAMETER, before, b.map("mul", before, 0.5))],
        [("inputs", batch)],
        b.sum(b.map("add", inner, b.sum(batch, [1])), [0]),
    )


def measured(graph: Graph, device: str = "cpu") -> MeasuredProgram:
    return MeasuredProgram(encoding.root(graph).hex(), graph, device, 1)


def inputs(graph: Graph) -> tuple[dict[str, Any], dict[str, Any]]:
    shapes = {name: graph.nodes[at].shape for name, at in graph.batch}
    state = {entry.name: np.ones(graph.nodes[entry.before].shape, np.float32) for entry in graph.state}
    return state, {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


def test_prepare__measures_a_step_its_trace_and_its_dearest_opening_once(
    job: SmallJob, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = tasks.prepare(job.base, job.store)
    assert all(answer[each] > 0 for each in ("step_s", "trace_s", "opening_s"))
    assert answer["kernels"] == backend.current()
    assert answer["opening"].endswith("elements)")
    json.dumps(answer, allow_nan=False)
    monkeypatch.setattr(step_cost, "run_limited", None)
    assert tasks.prepare(job.base, job.store) == answer, (
        "a restart, or another job of the same program, measures nothing"
    )
    assert list((home / "scratch").iterdir()) == []


def test_a_kept_cost__is_measured_again_where_kernels_or_threads_differ(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, runs = program(), []
    answer = {"step_s": 1, "root_s": 1, "trace_s": 1, "opening_s": 1, "opening": "", "peak_bytes": 1}
    monkeypatch.setattr(step_cost, "run_limited", lambda *_, **__: (runs.append(1), answer)[1])
    cost = lambda: step_cost.step_cost(measured(graph), *inputs(graph), LIMITS)  # noqa: E731
    assert cost() == cost()
    assert len(runs) == 1
    monkeypatch.setattr(step_cost, "threads", lambda: threads() + 1)
    cost()
    assert len(runs) == 2
    with backend.using("native portable"):
        cost()
    assert len(runs) == 3
    [record, *_] = (home / "costs").glob("*.json")
    record.write_text("{")
    cost()
    cost()
    assert len(runs) <= 4, "a torn record is written anew"


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (program(rows=8, terms=32), {"mul", "sum"}),
        (program(rows=2, terms=4_096), {"mul", "sum"}),
    ],
)
def test_the_dearest_node__is_the_largest_and_the_one_with_the_longest_element(
    graph: Graph, expected: set[str]
) -> None:
    nodes = dearest_nodes(graph)
    assert {graph.nodes[at].op for at in nodes} == expected
    assert max(graph.nodes[at].elements for at in nodes) == max(node.elements for node in graph.nodes)
    longest = max((at for at in nodes if graph.nodes[at].reduced), key=lambda at: graph.nodes[at].reduced)
    assert f"{graph.nodes[longest].reduced[0]:,} terms" in describe(graph, longest)


def test_a_program_that_computes_nothing__has_no_opening() -> None:
    b = Builder()
    batch = b.input(F32, (), BATCH_ROLE, 0)
    before = b.input(F32, (4,), STATE_ROLE, 0)
    graph = b.finish([("w", PARAMETER, before, before)], [("inputs", batch)], batch)
    assert dearest_nodes(graph) == []
    cost = step_cost.step_cost(measured(graph), *inputs(graph), LIMITS)
    assert (cost.opening_s, cost.opening) == (0.0, "")


def test_a_long_reduction__takes_longer_to_open_than_a_short_one() -> None:
    costs = [
        step_cost.step_cost(measured(graph), *inputs(graph), LIMITS).opening_s
        for graph in (program(rows=2, terms=256), program(rows=2, terms=400_000))
    ]
    assert costs[1] > 2 * costs[0]


@pytest.mark.parametrize(
    ("over", "why", "pause_s"),
    [
        ({"wall_s": 0.3}, "took more than 0 s, at ", step_cost.FIRST_PAUSE_S),
        ({"memory_bytes": 30 * 2**20, "caps_addresses": False}, "used more than 0.0 GB of memory at ", 86_400),
    ],
)
def test_a_program_over_its_limit__is_left_alone_for_a_while_and_the_reason_is_reported(
    job: SmallJob, monkeypatch: pytest.MonkeyPatch, over: dict[str, Any], why: str, pause_s: float
) -> None:
    """For a day, unless a machine that is less busy may need less."""
    monkeypatch.setattr(tasks, "limits_for", lambda *_: replace(LIMITS, **over))
    refusal = tasks.prepare(job.base, job.store)
    assert refusal["refused"].startswith(f"before a bid its program was measured here, and {why}")
    assert refusal["again_at"] - time.time() == pytest.approx(pause_s, abs=HANG_S)
    monkeypatch.setattr(tasks, "limits_for", lambda *_: LIMITS)
    assert tasks.prepare(job.base, job.store) == refusal
    monkeypatch.setattr(step_cost.time, "time", lambda: refusal["again_at"] + 1)
    assert "refused" not in tasks.prepare(job.base, job.store)


class Busy:
    """A machine on which a program takes so many seconds, as `takes` says next: all that is measured, and measuring it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *takes: float) -> None:
        self.now, self.takes = 10**9, list(takes)
        monkeypatch.setattr(step_cost.time, "time", lambda: self.now)
        monkeypatch.setattr(step_cost, "run_limited", self._run)
        self._graph = program()

    def _run(self, *_: Any, **__: Any) -> dict[str, Any]:
        took = self.takes.pop(0)
        self.now += took
        if took > LIMITS.wall_s:
            raise OverLimit("time", f"took more than {LIMITS.wall_s:.0f} s, at a step")
        times = dict.fromkeys(("step_s", "root_s", "trace_s", "opening_s"), took)
        return {**times, "opening": f"of {took} s", "peak_bytes": 1}

    def cost(self, too_slow_at: float | None = None) -> step_cost.StepCost:
        return step_cost.step_cost(measured(self._graph), *inputs(self._graph), LIMITS, too_slow_at=too_slow_at)


def test_a_program_that_was_measured_too_slowly__is_measured_again_and_the_quickest_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Busy(monkeypatch, 50, 1, 5)
    slow = machine.cost()
    assert machine.cost() == slow
    assert (slow.step_s, slow.again_at - machine.now) == (50, 50)
    machine.now += 100
    quick = machine.cost(slow.measured_at)
    assert (quick.step_s, quick.trace_s, quick.opening) == (1, 1, "of 1 s")
    assert machine.cost(slow.measured_at) == quick, "another keeper of this machine asked for the same"
    assert machine.cost(quick.measured_at).step_s == 1, "the third one took 5 s"
    assert machine.cost().opening == "of 1 s", "and a restart keeps what counts"


def test_a_machine_that_is_slow__measures_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Busy(monkeypatch, *[10.0] * 20)
    began, count, cost = machine.now, 1, machine.cost()
    while machine.now < began + 10 * 86_400:
        machine.now = cost.again_at
        cost, count = machine.cost(cost.measured_at), count + 1
        assert cost.again_at - machine.now >= step_cost.FIRST_PAUSE_S
    assert count <= 7 + 10, "one a day, and a few on the first"


def test_a_measurement_that_exceeds_its_time__takes_no_quicker_one_away(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Busy(monkeypatch, 5, LIMITS.wall_s + 1)
    cost = machine.cost()
    again = machine.cost(cost.measured_at)
    assert (again.step_s, machine.takes) == (5, [])
    assert again.again_at - machine.now == pytest.approx(step_cost.PAUSE_GROWTH * (LIMITS.wall_s + 1))


def test_a_child_that_dies_when_it_measures_again__takes_no_cost_away_and_is_not_started_at_every_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Busy(monkeypatch, 5)
    cost = machine.cost()
    dead = ChildDied(-signal.SIGKILL, "was ended by SIGKILL at a step")
    monkeypatch.setattr(step_cost, "_measure", Mock(side_effect=dead))
    machine.now = cost.again_at
    again = machine.cost(cost.measured_at)
    assert again.step_s == 5
    assert again.again_at - machine.now == step_cost.PAUSE_GROWTH * step_cost.FIRST_PAUSE_S


def test_a_program_whose_step_is_cheap_and_whose_trace_is_not__is_found_out() -> None:
    """A step fuses the chain and keeps none of it; the trace writes and hashes 13 GB."""
    b = Builder()
    before, batch = b.input(F32, (1 << 22,), STATE_ROLE, 0), b.input(F32, (4,), BATCH_ROLE, 0)
    after = before
    for _ in range(800):
        after = b.map("neg", after)
    graph = b.finish([("w", PARAMETER, before, after)], [("inputs", batch)], b.sum(batch, [0]))
    with pytest.raises(OverLimit, match="used more than 6 s of CPU time at the trace of a step"):
        step_cost.step_cost(measured(graph), *inputs(graph), replace(LIMITS, cpu_s=6))


def test_memory_that_does_not_suffice__refuses_the_job(job: SmallJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "limits_for", lambda *_: replace(LIMITS, memory_bytes=30 * 2**20, caps_addresses=False))
    assert "GB of memory" in tasks.prepare(job.base, job.store)["refused"]


def test_a_state_in_files__may_be_larger_than_what_else_the_child_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits of a file's size once had native kernels refused, and numba, which ends with all of the memory, taken instead."""
    b = Builder()
    weight, batch = b.input(F32, (64,), STATE_ROLE, 0), b.input(F32, (64,), BATCH_ROLE, 0)
    moments = [b.input(F32, (2**14,), STATE_ROLE, at) for at in (1, 2, 3)]  # which are no inputs: they start at zero
    entries = [(f"m{at}", OPTIMIZER, moment, b.map("mul", moment, 0.5)) for at, moment in enumerate(moments)]
    changed = ("w", PARAMETER, weight, b.map("mul", weight, 0.5))
    graph = b.finish([changed, *entries], [("inputs", batch)], b.sum(b.map("mul", weight, batch), [0]))
    in_files = replace(measured(graph), limit=2**24, folder=tmp_path)
    monkeypatch.setattr(step_cost, "DISK_BYTES", 2**14)
    limits = limits_for(in_files, 60)
    assert limits.disk_bytes < sum(4 * graph.nodes[entry.before].elements for entry in graph.state)
    assert step_cost.step_cost(in_files, *inputs(graph), limits).kernels == backend.current()


def test_limits__follow_the_jobs_clocks_within_bounds() -> None:
    assert [limits_for(measured(program()), clocks).wall_s for clocks in (5, 300, 10**6)] == [60, 300, 600]
    assert limits_for(measured(program()), 5).caps_addresses
    assert not limits_for(measured(program(), "cuda:0"), 5).caps_addresses, "CUDA reserves more addresses than memory"


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Children that die of SIGILL where they use these kernels. Returns the kernels that were tried."""

    def dies(*kernels: str) -> list[str]:
        tried: list[str] = []

        def run(command: list[str], limits: Limits, **_: Any) -> dict[str, Any]:
            tried.append(backend.current() if command[4] == "cpu" else command[4])
            if tried[-1] in kernels:
                raise ChildDied(-signal.SIGILL, "was ended by SIGILL at a step")
            return {"step_s": 1, "root_s": 1, "trace_s": 1, "opening_s": 1, "opening": "", "peak_bytes": 1}

        monkeypatch.setattr(step_cost, "run_limited", run)
        monkeypatch.setattr(step_cost, "device_facts", lambda device: {"name": str(device)})
        monkeypatch.setattr(step_cost, "next_kernels", lambda failed: _after(failed))
        return tried

    return dies


def _after(failed: str) -> str:
    names = ["cuda:0", *backend.kernels()]
    rest = names[names.index(failed) + 1 :]
    if not rest:
        raise backend.NoBackend("none are left")
    return rest[0]


def test_an_illegal_instruction__costs_the_child_alone_and_the_next_kernels_are_measured(
    dying: Callable[..., list[str]],
) -> None:
    names, graph = backend.kernels(), program()
    tried = dying("cuda:0", names[0])
    cost = step_cost.step_cost(measured(graph, "cuda:0"), *inputs(graph), LIMITS)
    assert (tried, cost.kernels) == (["cuda:0", names[0], names[1]], names[1])


def test_what_dies_with_all_kernels__cannot_be_bid_for(dying: Callable[..., list[str]]) -> None:
    dying(*backend.kernels())
    graph = program()
    with pytest.raises(ChildDied, match="SIGILL"):
        step_cost.step_cost(measured(graph), *inputs(graph), LIMITS)


def test_kernels_that_the_measurement_fell_back_to__train_the_job_too(
    job: SmallJob, dying: Callable[..., list[str]]
) -> None:
    names = backend.kernels()
    dying(names[0])
    assert tasks.prepare(job.base, job.store)["kernels"] == names[1]
    assert backends.kernels_for(job.base) == names[1]


def test_the_child__loads_no_torch() -> None:
    code = "import sys, node.measurement.child; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout.strip() == "False", "loading it would take most of a devnet's bidding window"
