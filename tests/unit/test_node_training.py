"""Slot-rounds and aggregation: the same bits anywhere, roots that mean what they say, arithmetic by an oracle."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from node import syncer
from node.aggregation import aggregate
from node.device import reproducible
from node.errors import BadInputs
from node.replay import replay
from node.training import ShardResult, arrays_of, root_of, tensors_of, train_shard
from repops import commitments
from repops.program import NonFiniteStep, State
from tests.unit.node_jobs import SmallJob, publish
from zoo_compute.manifest import Outer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return publish(tmp_path)


def shard(job: SmallJob, slot: int = 1, **options: object) -> ShardResult:
    inputs = syncer.fetch_inputs(job.store, job.base)
    return train_shard(job.manifest, inputs.program, inputs.checkpoint, inputs.examples, 0, slot, **options)


def test_train_shard__twice__gives_equal_roots_and_another_slot_others(job: SmallJob) -> None:
    one, same, other = shard(job), shard(job), shard(job, 2)
    assert (one.segment_root, one.end_root, one.update_root) == (same.segment_root, same.end_root, same.update_root)
    assert one.losses == same.losses
    assert len({one.end_root, other.end_root}) == 2
    assert one.start_root == other.start_root == job.manifest.state_root


SCRIPT = """
import sys, tempfile; from pathlib import Path
from tests.unit.test_node_training import publish, shard
with tempfile.TemporaryDirectory() as folder:
    result = shard(publish(Path(folder)))
    print(result.start_root.hex(), result.segment_root.hex(), result.update_root.hex())
"""


def test_train_shard__in_a_fresh_interpreter__gives_the_same_roots(job: SmallJob) -> None:
    result = shard(job)
    environment = {"OMP_NUM_THREADS": "2", "PATH": "", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT]
    out = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=90)
    expected = [result.start_root.hex(), result.segment_root.hex(), result.update_root.hex()]
    assert out.stdout.split() == expected


def test_train_shard__leaves_the_process_settings_as_they_were(job: SmallJob) -> None:
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    shard(job)
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


def test_train_shard__roots__are_those_of_the_states_it_went_through(job: SmallJob) -> None:
    result = shard(job)
    inputs = syncer.fetch_inputs(job.store, job.base)
    program, parameters = job.program, {n: inputs.checkpoint[n] for n in job.program.names}
    state = program.begin(parameters)
    torch.set_num_threads(1)
    expected = [(0, root_of(state))]
    for step in range(5):
        state, _ = program.step(state, inputs.examples[torch.from_numpy(job.manifest.examples_for(0, 1, step))])
        if step + 1 in (2, 4, 5):
            expected.append((step + 1, root_of(state)))
    assert result.segments == expected
    assert result.segment_root == commitments.segment_root(expected)
    assert result.end_root == expected[-1][1]
    for name in program.names:
        assert torch.equal(result.update[name], parameters[name] - state[name])
    assert result.update_root == root_of(result.update)


def test_train_shard__tells_its_progress_and_learns(job: SmallJob) -> None:
    told: list[tuple[int, float]] = []
    result = shard(job, progress=lambda step, loss: told.append((step, loss)))
    assert told == list(zip(range(1, 6), result.losses, strict=True))
    assert result.losses[-1] < result.losses[0]


def test_train_shard__a_step_that_turns_non_finite__leaves_the_state_as_it_was(
    job: SmallJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, states = type(job.program).step, []

    def failing(self, state: State, batch):  # type: ignore[no-untyped-def]
        states.append(root_of(state))
        if len(states) == 3:
            raise NonFiniteStep(2, "the loss")
        return step(self, state, batch)

    monkeypatch.setattr(type(job.program), "step", failing)
    result = shard(job)
    assert [math.isnan(loss) for loss in result.losses] == [False, False, True, False, False]
    assert states[2] == states[3] != states[4]


def some_updates(seed: int, count: int) -> tuple[State, list[State]]:
    random = np.random.default_rng(seed)
    arrays = {"w": random.standard_normal((3, 5), dtype=np.float32), "b": random.standard_normal(4, dtype=np.float32)}
    outer = {f"outer/{n}": random.standard_normal(a.shape, dtype=np.float32) for n, a in arrays.items()}
    made = [{n: random.standard_normal(a.shape, dtype=np.float32) for n, a in arrays.items()} for _ in range(count)]
    return tensors_of({**arrays, **outer}), [tensors_of(update) for update in made]


def rounded(value: Fraction) -> Fraction:
    """The nearest float32, ties to even, by exact arithmetic (normal numbers)."""
    if not value:
        return value
    exponent = math.floor(math.log2(abs(value)))
    exponent += (abs(value) >= Fraction(2) ** (exponent + 1)) - (abs(value) < Fraction(2) ** exponent)
    unit = Fraction(2) ** (exponent - 23)
    return round(value / unit) * unit


def test_aggregate__agrees_with_exact_rationals_rounded_after_each_operation(job: SmallJob) -> None:
    manifest = replace(job.manifest, outer=Outer(0.7, 0.9))
    checkpoint, updates = some_updates(3, 5)
    made = aggregate(manifest, checkpoint, updates)
    rate, mu = (Fraction(float(np.float32(x))) for x in (0.7, 0.9))
    for name in ("w", "b"):
        flat = [[Fraction(float(x)) for x in u[name].flatten()] for u in updates]
        for i, start in enumerate(checkpoint[name].flatten().tolist()):
            total = flat[0][i]
            for other in flat[1:]:
                total = rounded(total + other[i])
            g = rounded(total / 5)
            m = rounded(rounded(mu * Fraction(checkpoint[f"outer/{name}"].flatten()[i].item())) + g)
            p = rounded(Fraction(start) - rounded(rate * rounded(g + rounded(mu * m))))
            assert made[name].flatten()[i].item() == float(p)
            assert made[f"outer/{name}"].flatten()[i].item() == float(m)


def test_aggregate__order_of_slots__is_part_of_the_result(job: SmallJob) -> None:
    checkpoint, updates = some_updates(5, 6)
    assert root_of(aggregate(job.manifest, checkpoint, updates)) == root_of(
        aggregate(job.manifest, checkpoint, updates)
    )
    assert root_of(aggregate(job.manifest, checkpoint, updates)) != root_of(
        aggregate(job.manifest, checkpoint, updates[::-1])
    )


def test_aggregate__what_does_not_fit__is_refused(job: SmallJob) -> None:
    checkpoint, updates = some_updates(1, 2)
    with pytest.raises(BadInputs, match="without updates"):
        aggregate(job.manifest, checkpoint, [])
    with pytest.raises(BadInputs, match="'b'"):
        aggregate(job.manifest, checkpoint, [{"w": updates[0]["w"]}])
    with pytest.raises(BadInputs, match="shape or dtype"):
        aggregate(job.manifest, checkpoint, [updates[0] | {"w": torch.zeros(5, 3)}])
    with pytest.raises(BadInputs, match="outer/NAME"):
        aggregate(job.manifest, {n: v for n, v in checkpoint.items() if n != "outer/w"}, updates)


def test_replay__of_a_run_through_the_workers__gives_the_same_checkpoints(job: SmallJob) -> None:
    roots = [job.advance()["root"], job.advance()["root"]]
    told: list[int] = []
    again = replay(job.manifest, job.store, [0b111, 0b111], progress=lambda number, _: told.append(number))
    assert [root.hex() for root in again.roots] == [job.manifest.state.root, *roots]
    assert told == [0, 1, 2]
    assert again.losses[2] < again.losses[1] < again.losses[0]


def test_replay__with_a_slot_absent__gives_another_checkpoint(job: SmallJob) -> None:
    full, partial = (replay(job.manifest, job.store, [mask]) for mask in (0b111, 0b101))
    assert full.roots[0] == partial.roots[0]
    assert full.roots[1] != partial.roots[1]
    assert [result.slot for result in partial.results] == [0, 2]
    for masks in ([0], [0b1000], [1, 1, 1]):
        with pytest.raises(BadInputs, match="mask"):
            replay(job.manifest, job.store, masks)


def test_arrays__and_tensors__keep_the_bits() -> None:
    state = {"a": torch.tensor([1.5, -0.0]), "step": torch.tensor(3)}
    assert root_of(tensors_of(arrays_of(state))) == root_of(state)


def test_reproducible__puts_back_every_setting_it_changes() -> None:
    cudnn = torch.backends.cudnn

    def settings() -> tuple[object, ...]:
        strict, warned = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()  # fmt: skip
        precision, tf32 = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32
        return torch.get_num_threads(), strict, warned, precision, tf32, cudnn.allow_tf32, cudnn.benchmark

    before = settings()
    try:
        torch.set_num_threads(2)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.set_float32_matmul_precision("high")
        cudnn.allow_tf32, cudnn.benchmark = True, True
        chosen = settings()
        with reproducible(torch.device("cpu")):
            assert settings() == (1, True, False, "highest", False, False, False)
        assert settings() == chosen
    finally:
        torch.set_num_threads(before[0])  # type: ignore[arg-type]
        torch.use_deterministic_algorithms(before[1], warn_only=before[2])  # type: ignore[arg-type]
        torch.set_float32_matmul_precision(before[3])  # type: ignore[arg-type]
        cudnn.allow_tf32, cudnn.benchmark = before[5], before[6]  # type: ignore[assignment]
    assert settings() == before
