"""A worker whose memory is too small for a job as it is computes values again, or says what would do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from node import tasks
from node.compute import memory_choice
from node.compute.memory_choice import MemoryChoice, choose_memory
from node.compute.programs import Programs
from node.device import GB, MEMORY_SHARE
from node.errors import NodeOutOfMemory
from node.hardware import CPU, Device, use_state_folder
from node.inputs.programs import fetch_programs
from node.measurement import step_cost
from repops import backend
from repops.plan.fit import Fitting
from tests.support.small_job import SmallJob, publish, small_job
from zoo_compute.training.memory import kept_bytes, memory_needs, needed_bytes


@pytest.fixture
def programs() -> Programs:
    return Programs(small_job().traced.graph)


def _has(monkeypatch: pytest.MonkeyPatch, total: float) -> None:
    monkeypatch.setattr(memory_choice, "memory", lambda device: (0, int(total)))


def _choose(programs: Programs, device: Device = CPU, *, can_recompute: bool = True) -> MemoryChoice:
    return choose_memory(programs.graph, programs.profile, device, can_recompute=can_recompute)


def _least(programs: Programs) -> int:
    return kept_bytes(programs.graph, programs.profile) + Fitting(programs.graph).least.size


def test_a_job_that_fits__is_left_as_it_is(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = needed_bytes(programs.profile)
    _has(monkeypatch, 1 + plain / MEMORY_SHARE)
    assert _choose(programs) == MemoryChoice(plain, plain)
    assert _choose(programs).line == ""


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Path]:
    use_state_folder(tmp_path)
    yield tmp_path
    use_state_folder(None)


def test_a_job_that_does_not_fit_either_way__puts_its_state_in_files(
    programs: Programs, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = programs.profile.state_bytes
    _has(monkeypatch, 1 + (_least(programs) + 2_000) / MEMORY_SHARE)
    assert _choose(programs).folder is None, "no slower than it must be"
    _has(monkeypatch, 1 + (_least(programs) - state // 2) / MEMORY_SHARE)
    chosen = _choose(programs)
    assert chosen.folder == files
    assert chosen.needed <= _least(programs) - state // 2
    assert f"and the state in files of {files}" in chosen.line
    full = SimpleNamespace(free=2 * state - 1)
    monkeypatch.setattr(memory_choice.shutil, "disk_usage", lambda _: full)
    _has(monkeypatch, _least(programs) - state // 2)
    with pytest.raises(NodeOutOfMemory, match=rf"in files too \(they need .* GB in {files}, where .* GB are free\)"):
        _choose(programs)


def test_a_job_that_does_not_fit__is_fitted_by_computing_values_again(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = 1 + (_least(programs) + 2_000) / MEMORY_SHARE
    _has(monkeypatch, total)
    chosen = _choose(programs)
    assert chosen.limit is not None
    assert chosen.needed <= MEMORY_SHARE * total < chosen.plain
    assert 0 < chosen.extra < 1
    assert f"GB with recomputation ({chosen.extra:.0%} slower)" in chosen.line


def test_a_machine_whose_share_is_too_small__uses_all_of_it_before_it_refuses(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    least = _least(programs)
    _has(monkeypatch, least)
    assert _choose(programs).needed <= least
    _has(monkeypatch, 0.8 * least)
    with pytest.raises(NodeOutOfMemory, match=r"needs about .* GB, .* GB with recomputation \(\d+% slower\)"):
        _choose(programs)


@pytest.mark.parametrize("why", ["numba", "a GPU", "ranks"])
def test_what_cannot_compute_again__is_refused_by_its_plain_need_alone(
    why: str, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = needed_bytes(programs.profile)
    device = Device("cuda") if why == "a GPU" else CPU
    with backend.using("numba" if why == "numba" else None):
        _has(monkeypatch, plain)
        assert _choose(programs, device, can_recompute=why != "ranks") == MemoryChoice(plain, plain)
        _has(monkeypatch, plain - 1)
        with pytest.raises(NodeOutOfMemory, match=r"about [\d.,]+ GB, this machine"):
            _choose(programs, device, can_recompute=why != "ranks")


@pytest.mark.parametrize("in_files", [False, True])
def test_a_slot__on_a_small_machine__has_the_roots_of_a_large_one(
    in_files: bool, tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job: SmallJob = publish(tmp_path / "store")
    large = tasks.run_shard(job.base | {"slot": 1}, job.store)
    forget_programs()
    programs = fetch_programs(job.store, job.manifest)
    less = programs.profile.state_bytes // 2 if in_files else 0
    _has(monkeypatch, 1 + (_least(programs) - less) / MEMORY_SHARE)
    forget_programs()
    limits: list[int | None] = []
    measured = step_cost.step_cost
    monkeypatch.setattr(
        tasks, "step_cost", lambda what, *rest, **more: limits.append(what.limit) or measured(what, *rest, **more)
    )
    answer = tasks.prepare(job.base, job.store)
    small = tasks.run_shard(job.base | {"slot": 1}, job.store)
    chosen = fetch_programs(job.store, job.manifest).memory
    assert chosen.limit is not None
    assert chosen.folder == (files if in_files else None)
    assert limits == [chosen.limit], "what was measured is what trains"
    assert [each.name for each in files.iterdir()] == ["store"], "files of the state are left"
    assert (answer["needed_bytes"], answer["memory"]) == (chosen.needed, chosen.line)
    for key in ("segment_root", "end_root", "update_root"):
        assert small[key] == large[key]


def forget_programs() -> None:
    from node.inputs import programs

    programs._forget()


def test_memory_needs__of_a_quote__are_those_of_a_worker(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = memory_needs(programs.graph, programs.profile)
    assert needs.plain == needed_bytes(programs.profile)
    assert needs.recomputed == _least(programs) < needs.plain
    assert needs.in_files == needs.recomputed - programs.profile.state_bytes
    assert needs.slower == Fitting(programs.graph).least.extra
    assert needs.plain < GB
