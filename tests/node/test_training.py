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

from node.compute.aggregation import aggregate
from node.compute.programs import Programs, State, run_step
from node.compute.training import ShardResult, heldout_loss, root_of, train_shard
from node.device import runner
from node.errors import BadInputs
from node.hardware import CPU, use_threads
from node.inputs.job_files import fetch_inputs, fetch_job
from node.replay import replay
from repops import commitments, encoding
from repops.builder import Builder
from repops.graph import BATCH_ROLE, BUFFER, F32, I32, OPTIMIZER, PARAMETER, STATE_ROLE
from repops.program import Program
from tests.support.small_job import SmallJob, publish
from tests.support.waiting import HANG_S
from zoo_compute.formats.aggregation import AggregationSpec, OuterOptimizer
from zoo_compute.formats.manifest import Compression
from zoo_compute.training.examples import batch_of
from zoo_compute.training.rounds import aggregation_batch, aggregation_parts, aggregation_program, update_program

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return publish(tmp_path)


def shard(job: SmallJob, slot: int = 1, **options: object) -> ShardResult:
    inputs = fetch_inputs(job.store, job.base)
    return train_shard(job.manifest, inputs.programs, inputs.checkpoint, inputs.examples, 0, slot, **options)


def test_train_shard__twice__gives_equal_roots_and_another_slot_others(job: SmallJob) -> None:
    one, same, other = shard(job), shard(job), shard(job, 2)
    assert (one.segment_root, one.end_root, one.update_root) == (same.segment_root, same.end_root, same.update_root)
    assert one.losses == same.losses
    assert len({one.end_root, other.end_root}) == 2
    assert one.start_root == other.start_root == job.manifest.state_root


SCRIPT = """
import sys, tempfile; from pathlib import Path
from tests.node.test_training import publish, shard
with tempfile.TemporaryDirectory() as folder:
    result = shard(publish(Path(folder)))
    print(result.start_root.hex(), result.segment_root.hex(), result.update_root.hex())
"""


def test_train_shard__in_a_fresh_interpreter__gives_the_same_roots(job: SmallJob) -> None:
    result = shard(job)
    environment = {"OMP_NUM_THREADS": "2", "PATH": "", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT]
    out = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=HANG_S)
    expected = [result.start_root.hex(), result.segment_root.hex(), result.update_root.hex()]
    assert out.stdout.split() == expected


def test_train_shard__on_one_thread_or_two__gives_the_same_roots(job: SmallJob) -> None:
    before, roots = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            use_threads(count)
            result = shard(job)
            roots.append((result.segment_root, result.update_root))
    finally:
        use_threads(before)
    assert roots[0] == roots[1]


def test_train_shard__roots__are_those_of_the_states_that_the_library_goes_through(job: SmallJob) -> None:
    result = shard(job)
    inputs = fetch_inputs(job.store, job.base)
    program = Program(inputs.programs.graph)
    started = {name: torch.from_numpy(inputs.checkpoint[name]) for name in inputs.programs.names}
    state = program.begin(started, seed=job.manifest.draw_seed(0, 1))
    root = lambda: root_of({name: tensor.numpy() for name, tensor in state.items()})  # noqa: E731
    expected = [(0, root())]
    for step in range(5):
        batch = batch_of(inputs.examples, job.manifest.examples_for(0, 1, step))
        state, loss = program.step(state, (batch["inputs"], batch["targets"]))
        assert loss.item() == result.losses[step]
        if step + 1 in (2, 4, 5):
            expected.append((step + 1, root()))
    assert result.segments == expected
    assert result.segment_root == commitments.segment_root(expected)
    assert result.end_root == expected[-1][1]
    assert set(result.update) == set(program.exchanged)
    for name in program.exchanged:
        assert np.array_equal(result.update[name], inputs.checkpoint[name] - state[name].numpy())
    assert result.update_root == root_of(result.update)


def test_train_shard__tells_its_progress_and_learns(job: SmallJob) -> None:
    calls: list[tuple[int, float]] = []
    result = shard(job, progress=lambda step, loss: calls.append((step, loss)))
    assert calls == list(zip(range(1, 6), result.losses, strict=True))
    assert result.losses[-1] < result.losses[0]


def test_train_shard__a_step_that_turns_non_finite__leaves_the_state_as_it_was_and_is_counted(job: SmallJob) -> None:
    inputs = fetch_inputs(job.store, job.base)
    examples = {name: rows[np.arange(len(rows))] for name, rows in inputs.examples.items()}
    examples["tokens"][job.manifest.examples_for(0, 1, 2)] = 256  # no such token: outside the embedding
    roots: list[bytes] = []

    def note(step: int, loss: float) -> None:
        roots.append(root_of(inputs.programs.step.state))

    result = train_shard(job.manifest, inputs.programs, inputs.checkpoint, examples, 0, 1, progress=note)
    assert [math.isnan(loss) for loss in result.losses] == [False, False, True, False, False]
    assert result.skipped == 1
    assert roots[1] == roots[2] != roots[3]


def a_step(shapes: dict[str, tuple[int, ...]]) -> Programs:
    """A program that changes these tensors, leaves a frozen one and counts in an integer buffer."""
    b = Builder()
    entries = []
    for position, (name, shape) in enumerate(shapes.items()):
        before = b.input(F32, shape, STATE_ROLE, position)
        entries.append((name, PARAMETER, before, b.map("mul", before, 0.5)))
    frozen, seen = b.input(F32, (3,), STATE_ROLE, 100), b.input(I32, (), STATE_ROLE, 101)
    step = b.input(I32, (), STATE_ROLE, 102)
    entries += [("frozen", PARAMETER, frozen, frozen), ("seen", BUFFER, seen, b.map("iadd", seen, 1))]
    entries.append(("step", OPTIMIZER, step, b.map("iadd", step, 1)))
    batch = b.input(F32, (2,), BATCH_ROLE, 0)
    return Programs(b.finish(entries, [("inputs", batch)], b.sum(batch, [0])))


PROGRAMS = a_step({"w": (3, 5), "b": (4,)})


def some_updates(seed: int, count: int) -> tuple[State, dict[int, State]]:
    random = np.random.default_rng(seed)
    arrays = {"w": random.standard_normal((3, 5), dtype=np.float32), "b": random.standard_normal(4, dtype=np.float32)}
    outer = {f"outer/{n}": random.standard_normal(a.shape, dtype=np.float32) for n, a in arrays.items()}
    made = {
        slot: {n: random.standard_normal(a.shape, dtype=np.float32) for n, a in arrays.items()} for slot in range(count)
    }
    kept = {"frozen": np.float32([1, -0.0, 3]), "seen": np.asarray(7, np.int32)}
    return {**arrays, **outer, **kept}, made


def rounded(value: Fraction) -> Fraction:
    """The nearest float32, ties to even, by exact arithmetic (normal numbers)."""
    if not value:
        return value
    exponent = math.floor(math.log2(abs(value)))
    exponent += (abs(value) >= Fraction(2) ** (exponent + 1)) - (abs(value) < Fraction(2) ** exponent)
    unit = Fraction(2) ** (exponent - 23)
    return round(value / unit) * unit


def test_aggregate__agrees_with_exact_rationals_rounded_after_each_operation(job: SmallJob) -> None:
    manifest = replace(job.manifest, slots=5, outer=OuterOptimizer(0.7, 0.9))
    checkpoint, updates = some_updates(3, 5)
    made = aggregate(manifest, PROGRAMS, checkpoint, updates)
    rate, mu = (Fraction(float(np.float32(x))) for x in (0.7, 0.9))
    for name in ("w", "b"):
        flat = [[Fraction(float(x)) for x in u[name].flatten()] for u in updates.values()]
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
    manifest = replace(job.manifest, slots=6)
    checkpoint, updates = some_updates(5, 6)
    turned = {5 - slot: update for slot, update in updates.items()}
    made = root_of(aggregate(manifest, PROGRAMS, checkpoint, updates))
    assert made != root_of(aggregate(manifest, PROGRAMS, checkpoint, turned))
    reverse_order = dict(reversed(updates.items()))
    assert made == root_of(aggregate(manifest, PROGRAMS, checkpoint, reverse_order))


def in_numpy(outer: OuterOptimizer, checkpoint: State, updates: dict[int, State]) -> State:
    """The same arithmetic over the present slots alone, every operation rounded by itself."""
    mu, rate, count = (np.float32(x) for x in (outer.momentum, outer.lr, len(updates)))
    new = dict(checkpoint)
    with np.errstate(over="ignore", invalid="ignore"):
        for name in PROGRAMS.graph.exchanged:
            mean = np.zeros_like(checkpoint[name])
            for _, update in sorted(updates.items()):
                mean += update[name]
            mean /= count
            momentum = mu * checkpoint[f"outer/{name}"] + mean
            new[name] = checkpoint[name] - rate * (mean + mu * momentum)
            new[f"outer/{name}"] = momentum
    return new


@pytest.mark.parametrize("present", [{0}, {0, 1}, {6, 39}, {0, 3, 4, 5, 11, 12, 39}, set(range(40))])
def test_aggregate__has_the_bits_of_the_same_arithmetic_in_numpy(job: SmallJob, present: set[int]) -> None:
    checkpoint, updates = some_updates(7, 40)
    updates = {slot: updates[slot] for slot in present}
    for update in updates.values():
        update["b"][2] = -0.0
    next(iter(updates.values()))["b"][:] = [np.inf, np.nan, -0.0, 1e-42]
    checkpoint["b"][2], checkpoint["outer/b"][2] = -0.0, -0.0
    for outer in (OuterOptimizer(0.7, 0.9), OuterOptimizer(1.0, 0.0)):
        manifest = replace(job.manifest, slots=40, outer=outer)
        made, expected = aggregate(manifest, PROGRAMS, checkpoint, updates), in_numpy(outer, checkpoint, updates)
        assert made.keys() == expected.keys()
        assert root_of(made) == root_of(expected)


def test_aggregate__how_many_slots_are_absent__changes_no_bit(job: SmallJob) -> None:
    checkpoint, updates = some_updates(4, 4)
    for update in updates.values():
        update["b"][:] = -0.0
    roots = {
        root_of(aggregate(replace(job.manifest, slots=slots), PROGRAMS, checkpoint, updates)) for slots in (4, 5, 64)
    }
    assert len(roots) == 1


def test_aggregate__tensor_by_tensor__is_the_whole_program(job: SmallJob) -> None:
    """What a dispute is about is the program; what a worker runs are its parts."""
    checkpoint, updates = some_updates(6, 5)
    del updates[2]
    spec = AggregationSpec(7, OuterOptimizer(0.7, 0.9))
    whole = aggregation_program(PROGRAMS.graph, spec)
    batch = aggregation_batch(aggregation_parts(PROGRAMS.graph, spec), spec, updates)
    assert batch["updates/0000000000/w"].shape == (7, 3, 5)
    assert not batch["updates/0000000000/w"][[2, 5, 6]].any()
    manifest = replace(job.manifest, slots=7, outer=OuterOptimizer(0.7, 0.9))
    made = run_step(runner(whole, CPU), checkpoint, batch)
    assert root_of(made) == root_of(aggregate(manifest, PROGRAMS, checkpoint, updates))


def test_aggregate__what_is_not_exchanged__stays_as_it_is(job: SmallJob) -> None:
    checkpoint, updates = some_updates(2, 2)
    made = aggregate(job.manifest, PROGRAMS, checkpoint, updates)
    for name in ("frozen", "seen"):
        assert commitments.tensor_root(made[name]) == commitments.tensor_root(checkpoint[name])


UPDATE_ROOT = "be161cf0e3db33159b9b27d131e77644d2c92aac7e3c5169fdbfa942a46387a7"
AGGREGATION_ROOT = "fe444b90127340e3d36c23cfddbc628e6af38b9c6f2eb42abb246c1cd13e52bd"


def test_the_programs_of_a_round__are_the_same_for_everybody() -> None:
    """Constants of the protocol: whoever judges a round derives these roots from the manifest alone."""
    step = PROGRAMS.graph
    assert encoding.root(update_program(step, Compression())).hex() == UPDATE_ROOT
    assert (
        encoding.root(aggregation_program(step, AggregationSpec(3, OuterOptimizer(0.7, 0.9)))).hex() == AGGREGATION_ROOT
    )
    assert update_program(step, Compression()) == update_program(encoding.decode(encoding.encode(step)), Compression())
    others = [
        aggregation_program(step, AggregationSpec(n, OuterOptimizer(r, m)))
        for n, r, m in [(2, 0.7, 0.9), (3, 0.6, 0.9), (3, 0.7, 0.8)]
    ]
    assert len({encoding.root(other) for other in others} | {bytes.fromhex(AGGREGATION_ROOT)}) == 4


def test_aggregate__what_does_not_fit__is_refused(job: SmallJob) -> None:
    checkpoint, updates = some_updates(1, 2)
    with pytest.raises(BadInputs, match="without updates"):
        aggregate(job.manifest, PROGRAMS, checkpoint, {})
    with pytest.raises(BadInputs, match="slot 3; the job has 3"):
        aggregate(job.manifest, PROGRAMS, checkpoint, {3: updates[0]})
    with pytest.raises(BadInputs, match="'b'"):
        aggregate(job.manifest, PROGRAMS, checkpoint, {0: {"w": updates[0]["w"]}})
    with pytest.raises(BadInputs, match="shape or dtype"):
        aggregate(job.manifest, PROGRAMS, checkpoint, {0: updates[0] | {"w": np.zeros((5, 3), np.float32)}})
    with pytest.raises(BadInputs, match="'outer/w' is missing"):
        aggregate(job.manifest, PROGRAMS, {n: v for n, v in checkpoint.items() if n != "outer/w"}, updates)


def test_replay__of_a_run_through_the_workers__gives_the_same_checkpoints(job: SmallJob) -> None:
    roots = [job.advance()["root"], job.advance()["root"]]
    calls: list[int] = []
    again = replay(job.manifest, job.store, [0b111, 0b111], progress=lambda number, _: calls.append(number))
    assert [root.hex() for root in again.roots] == [job.manifest.state.root, *roots]
    assert calls == [0, 1, 2]
    assert again.losses[2] < again.losses[1] < again.losses[0]


def test_replay__with_a_slot_absent__gives_another_checkpoint(job: SmallJob) -> None:
    full, partial = (replay(job.manifest, job.store, [mask]) for mask in (0b111, 0b101))
    assert full.roots[0] == partial.roots[0]
    assert full.roots[1] != partial.roots[1]
    assert [result.slot for result in partial.results] == [0, 2]
    for masks in ([0], [0b1000], [1, 1, 1]):
        with pytest.raises(BadInputs, match="mask"):
            replay(job.manifest, job.store, masks)


def test_heldout_loss__is_the_mean_over_whole_batches(job: SmallJob) -> None:
    files = fetch_job(job.store, job.manifest)
    loss = lambda heldout: heldout_loss(job.manifest, files.programs, files.checkpoint, heldout)  # noqa: E731
    whole = loss(files.heldout)
    parts = [{name: array[at : at + 4] for name, array in files.heldout.items()} for at in range(0, 32, 4)]
    assert whole == sum(loss(part) for part in parts) / 8
    longer = {name: np.concatenate([array, array[:3]]) for name, array in files.heldout.items()}
    assert loss(longer) == whole
