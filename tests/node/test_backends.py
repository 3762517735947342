"""Kernels that fail in a slot-round or a dispute: the work is done again on the next ones, whose bits are compared first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from node import backends, device, tasks
from node.errors import BackendFailed
from node.hardware import CPU
from node.inputs import programs as job_programs
from repops import backend
from repops.backend import Runner
from repops.graph import Graph
from tests.support.small_job import SmallJob, publish


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    for name in ("REPOPS_ISA", "REPOPS_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(backends, "_checked", dict.fromkeys(backend.kernels(), True))
    job_programs._forget()
    yield
    job_programs._forget()


class Faulty:
    """Wraps a runner: its step raises `error` after it has spoilt the state, as a kernel that fails in the middle does."""

    def __init__(self, runner: Runner, error: Exception) -> None:
        self._runner, self._error = runner, error
        self.state = runner.state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def step(self, *_: Any, **__: Any) -> float:
        for array in self.state.values():
            array[...] = 7
        raise self._error


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Has these kernels fail in every step of a training program. Returns what was prepared, in order."""

    def fails(*kernels: str, error: Exception | None = None) -> list[str]:
        prepared: list[str] = []
        prepare = backend.prepare

        def made(graph: Graph, **options: Any) -> Runner:
            name = backend.current()
            is_a_step = len(graph.nodes) > 100 and graph.state and graph.batch and "tokens.weight" in str(graph.state)
            if not is_a_step:
                return prepare(graph, **options)
            prepared.append(name)
            runner = prepare(graph, **options)
            return cast(Runner, Faulty(runner, error or RuntimeError("kernel"))) if name in kernels else runner

        monkeypatch.setattr(device.backend, "prepare", made)
        return prepared

    return fails


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return publish(tmp_path)


def roots(report: dict[str, Any]) -> list[Any]:
    return [report[name] for name in ("segment_root", "end_root", "update_root")]


@pytest.mark.parametrize("broken", range(1, len(backend.kernels()) - 1))  # numba compiles for half a minute
def test_a_slot_round_whose_kernels_fail__has_the_same_bits_on_the_next_ones(
    job: SmallJob, failing: Callable[..., list[str]], caplog: pytest.LogCaptureFixture, broken: int
) -> None:
    right = job.train(0)
    job_programs._forget()
    names = backend.kernels()
    prepared = failing(*names[:broken])
    with caplog.at_level(logging.WARNING):
        assert roots(job.train(0)) == roots(right)
    assert list(dict.fromkeys(prepared)) == names[: broken + 1]
    assert f"{names[0]} failed (RuntimeError: kernel); the work is done again on {names[1]}" in caplog.text
    assert backend.current() == names[0], "other jobs keep the best kernels"


def test_what_failed_once__is_not_tried_again_for_this_job(job: SmallJob, failing: Callable[..., list[str]]) -> None:
    names = backend.kernels()
    prepared = failing(names[0])
    job.train(0)
    job_programs._forget()  # as in another worker
    del prepared[:]
    job.train(1)
    assert prepared == [names[1]]
    assert backends.kernels_for({**job.base, "manifest": "another"}) is None


def test_where_no_kernels_are_left__the_error_is_that_of_the_last(
    job: SmallJob, failing: Callable[..., list[str]]
) -> None:
    failing(*backend.kernels())
    with pytest.raises(RuntimeError, match="kernel"):
        job.train(0)


def test_kernels_with_other_bits__are_passed_over(
    job: SmallJob, failing: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = backend.kernels()
    cases = backends._cases

    def one_bit_off(kernels: str) -> dict[str, bool]:
        return cases(kernels) | ({"elementwise: exp": False} if kernels == names[1] else {})

    monkeypatch.setattr(backends, "_cases", one_bit_off)
    monkeypatch.setattr(backends, "KNOWN_PROGRAMS", ("indexed",))
    monkeypatch.setattr(backends, "_checked", {})
    prepared = failing(names[0])
    job.train(0)
    assert list(dict.fromkeys(prepared)) == [names[0], names[2]]
    assert f"{names[1]} are not used: other bits than the definition in elementwise: exp" in caplog.text


def test_the_comparison_of_bits__notices_one_wrong_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = backend.prepare

    class Off:
        def __init__(self, runner: Runner) -> None:
            self._runner, self.state, self.batch = runner, runner.state, runner.batch
            self.step, self.loss = runner.step, runner.loss

        def trace(self, *args: Any, **options: Any) -> list[Any]:
            values = self._runner.trace(*args, **options)
            words = values[-2].reshape(-1).view(np.uint32)
            words[:1] ^= 1
            return values

    monkeypatch.setattr(backends, "_checked", {})
    assert backends._bits_are_right(backend.kernels()[0])
    monkeypatch.setattr(backends, "_checked", {})
    monkeypatch.setattr(backends.backend, "prepare", lambda graph, **options: Off(prepare(graph, **options)))
    assert not backends._bits_are_right(backend.kernels()[0])


def test_a_users_mistake_and_a_full_memory__are_no_fault_of_the_kernels(
    job: SmallJob, failing: Callable[..., list[str]]
) -> None:
    for error, raised in ((ValueError("batch: 'x' is missing"), ValueError), (MemoryError(), tasks.NodeOutOfMemory)):
        prepared = failing(*backend.kernels(), error=error)
        with pytest.raises(raised):
            job.train(0)
        assert set(prepared) == {backend.kernels()[0]}
        job_programs._forget()


def test_a_gpu_whose_kernel_fails__leaves_the_work_to_the_cpu() -> None:
    seen: list[Any] = []

    @backends.falls_back
    def task(request: dict[str, Any], store: Any) -> dict[str, Any]:
        seen.append(request.get("device"))
        if request.get("device") != "cpu":
            raise BackendFailed("cuda:0", RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS"))
        return {"kernels": backend.current()}

    assert task({"manifest": "m"}, None) == {"kernels": backend.kernels()[0]}  # type: ignore[arg-type]
    assert seen == [None, "cpu"]


def test_every_runner_of_a_node__is_guarded(job: SmallJob) -> None:
    assert isinstance(device.runner(job.programs.graph, CPU), backends.GuardedRunner)
