"""What an update keeps of a change: by an oracle in exact arithmetic, in equal bits everywhere, and what is left carried on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from node.compute.programs import Programs, State
from node.compute.training import ShardResult, root_of, train_shard
from node.errors import BadInputs
from node.inputs.job_files import JobFiles, fetch_job
from node.inputs.programs import fetch_programs
from node.replay import simulate
from repops import backend, encoding
from repops.backend import Runner
from repops.builder import Builder
from repops.commitments import Array
from repops.graph import BATCH_ROLE, F32, PARAMETER, STATE_ROLE, BadProgram, Graph
from tests.support.small_job import MODEL, TEXT, TRAINING
from zoo_compute import codec
from zoo_compute.formats.aggregation import Aggregation, AggregationSpec, OuterOptimizer
from zoo_compute.formats.manifest import Compression, Manifest
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.jobs.files import publish_files
from zoo_compute.store import BlockStore
from zoo_compute.training.compression import packed_bits
from zoo_compute.training.examples import prepare_text
from zoo_compute.training.rounds import (
    RESIDUAL,
    aggregation_batch,
    aggregation_parts,
    aggregation_program,
    private,
    update_program,
    with_residuals,
)

SHAPES = {"bias": (7,), "even": (4, 16), "odd": (5, 9), "scalar": (), "none": (0, 3)}
SPARSE = Compression(chunk=32, keep=4, bits=2, decay=0.9)


def step_of(shapes: dict[str, tuple[int, ...]] = SHAPES) -> Graph:
    """A step that halves everything."""
    builder, entries = Builder(), []
    for at, (name, shape) in enumerate(shapes.items()):
        before = builder.input(F32, shape, STATE_ROLE, at)
        entries.append((name, PARAMETER, before, builder.map("mul", before, 0.5)))
    batch = builder.input(F32, (2,), BATCH_ROLE, len(shapes))
    return builder.finish(entries, [("x", batch)], builder.scalar(0.0, F32))


@cache
def prepared(
    how: Compression, shapes: tuple[tuple[str, tuple[int, ...]], ...], left: bool, using: str | None
) -> Runner:
    step = step_of(dict(shapes))
    return backend.prepare(update_program(with_residuals(step) if left else step, how), name=using)


def update_of(how: Compression, change: State, residual: State | None = None, *, using: str | None = None) -> State:
    """What the update program makes of start = change and end = 0."""
    shapes = tuple((name, array.shape) for name, array in change.items())
    run = prepared(how, shapes, residual is not None, using)
    for name, array in (change | {RESIDUAL + name: array for name, array in (residual or {}).items()}).items():
        run.state[name][...] = array
    run.step({name: np.zeros_like(array) for name, array in change.items()})
    return {name: array.copy() for name, array in run.state.items()}


def one(how: Compression, change: Array) -> Array:
    return update_of(how, {"x": np.asarray(change, np.float32)})["x"]


def word(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def value(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


def nearest(exact: Fraction) -> np.float32:
    """The float32 nearest to a positive number, ties to even: found by its neighbours."""
    guess = word(float(exact))  # rounded twice: at most one off
    near = [guess + off for off in (-1, 0, 1) if guess + off >= 0]
    return value(min(near, key=lambda w: (abs(Fraction(float(value(w))) - exact), w & 1)))


def cut(number: np.float32) -> np.float32:
    return value(word(number) & 0xFFFF0000)


def expected(how: Compression, x: Array) -> Array:
    """By sorting, chunk by chunk, in exact arithmetic."""
    flat = np.where(np.isfinite(x), x, np.float32(0)).reshape(-1)
    out = np.zeros(flat.size, np.float32)
    count = -(-flat.size // how.chunk)
    words = -(-flat.size // count) if count else 0
    for start in range(0, flat.size, words or 1):
        padded = np.zeros(words, np.float32)
        padded[: flat.size - start] = flat[start : start + words]
        for place, kept in _chunk(how, padded):
            out[start + place] = kept
    return out.reshape(x.shape)


def _chunk(how: Compression, x: Array) -> Iterator[tuple[int, np.float32]]:
    size = [word(abs(each)) for each in x]
    keep = max(1, round((how.keep or how.chunk) * len(x) / how.chunk))
    kept = sorted(range(len(x)), key=lambda place: (-(size[place] >> 12), place))[:keep]
    low = np.float32(0) if keep == len(x) else cut(value(size[kept[-1]] >> 12 << 12))
    levels = 1 << (how.bits - 1)
    span = nearest(Fraction(float(nearest(_of(value(max(size))) - _of(low)))) / levels)
    width = cut(span)
    for place in kept:
        if size[place] == 0:
            continue
        if how.bits == 32:
            yield place, x[place]
            continue
        above = nearest(_of(abs(x[place])) - _of(low))
        ratio = _of(above) / _of(width) if width else levels * (above > 0)  # x / 0 saturates, 0 / 0 is 0
        level = min(int(nearest(Fraction(ratio))), levels - 1)
        made = nearest((level + Fraction(1, 2)) * _of(width) + _of(low))
        made = cut(made) if how.bits == 2 else made
        if made:
            yield place, np.copysign(made, x[place])


def _of(number: np.float32) -> Fraction:
    return Fraction(float(number))


def same_bits(made: Array, wanted: Array) -> bool:
    return np.array_equal(np.atleast_1d(made).view(np.uint32), np.atleast_1d(wanted).view(np.uint32))


def hard(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Ties, zeros of both signs, subnormals, huge numbers, infinities and NaN among ordinary ones."""
    odd = [0.0, -0.0, 1e-45, -3e-39, 1.0, -1.0, 1.0000001, 3e38, -3.4e38, np.inf, -np.inf, np.nan]
    x = rng.standard_normal(shape) * np.exp(rng.standard_normal(shape))
    scale = rng.choice([1.0, 1e-3, 1e-38])
    return np.where(rng.random(shape) < rng.choice([0.0, 0.4, 1.0]), rng.choice(odd, shape), x * scale).astype(
        np.float32
    )


HOWS = [
    SPARSE,
    Compression(chunk=16, keep=1, bits=2),
    Compression(chunk=24, keep=5, bits=3),
    Compression(chunk=40, keep=9, bits=8),
    Compression(chunk=32, keep=8),
    Compression(chunk=32, bits=2),
    Compression(bits=8),
]


@pytest.mark.parametrize("how", HOWS, ids=lambda how: f"{how.keep} of {how.chunk} in {how.bits} bits")
def test_update__of_any_words__is_what_sorting_and_exact_arithmetic_give(how: Compression) -> None:
    rng = np.random.default_rng(how.chunk * 100 + how.bits)
    kept = 0
    for _ in range(40):
        change = {name: hard(rng, shape) for name, shape in SHAPES.items()}
        made = update_of(how, change)
        for name, array in change.items():
            assert same_bits(made[name], expected(how, array)), (name, array, made[name], expected(how, array))
            assert np.isfinite(made[name]).all()
            kept += np.count_nonzero(made[name])
    assert kept > 200


@pytest.mark.parametrize("using", ["native", "numba", "reference"])
def test_update__with_residuals__has_equal_bits_in_every_runner(using: str) -> None:
    rng = np.random.default_rng(5)
    for how in (SPARSE, Compression(chunk=16, bits=8, decay=0.5)):
        change, residual = ({name: hard(rng, shape) for name, shape in SHAPES.items()} for _ in range(2))
        made, wanted = (update_of(how, change, residual, using=each) for each in (using, None))
        assert root_of(made) == root_of(wanted)


def test_update__and_what_is_left__are_the_change_and_the_decayed_residual() -> None:
    rng = np.random.default_rng(6)
    change = {"x": rng.standard_normal((3, 50)).astype(np.float32)}
    residual = {"x": rng.standard_normal((3, 50)).astype(np.float32)}
    made = update_of(replace(SPARSE, decay=0.5), change, residual)
    total = np.array([nearest(abs(e)) * (1 if e > 0 else -1) for e in _sums(change["x"], residual["x"])], np.float32)
    assert same_bits(made["x"].reshape(-1), expected(SPARSE, total))
    assert same_bits(made[RESIDUAL + "x"].reshape(-1), total - made["x"].reshape(-1))
    assert np.count_nonzero(made["x"]) == 4 * 5


def _sums(change: Array, residual: Array) -> list[Fraction]:
    return [_of(c) + _of(r) / 2 for c, r in zip(change.reshape(-1), residual.reshape(-1), strict=True)]


def test_update__of_equal_magnitudes__keeps_those_of_lower_index() -> None:
    made = one(SPARSE, [-2.0, 2.0] * 32)
    assert np.flatnonzero(made).tolist() == [0, 1, 2, 3, 32, 33, 34, 35]
    assert made[:2].tolist() == [-2.0, 2.0]


def test_update__of_nothing_or_of_what_is_not_finite__is_zero_and_stays_so() -> None:
    for bad in (0.0, -0.0, np.nan, np.inf, -np.inf):
        made = update_of(SPARSE, {"x": np.full(64, bad, np.float32)}, {"x": np.zeros(64, np.float32)})
        assert same_bits(made["x"], np.zeros(64, np.float32))
        assert same_bits(made[RESIDUAL + "x"], np.zeros(64, np.float32))


def test_update__one_element_that_is_not_finite__costs_only_itself() -> None:
    change = np.arange(1, 33, dtype=np.float32)
    change[31] = np.inf
    made = one(SPARSE, change)
    assert np.flatnonzero(made).tolist() == [27, 28, 29, 30]


def test_update__of_two_bits__has_two_magnitudes_a_chunk_of_sixteen_bits() -> None:
    made = one(replace(SPARSE, chunk=4096, keep=64), np.random.default_rng(1).standard_normal(2 * 4096))
    for chunk in made.reshape(2, 4096):
        magnitudes = np.unique(np.abs(chunk[chunk != 0]))
        assert len(magnitudes) == 2
        assert np.count_nonzero(chunk) == 64
        assert not (magnitudes.view(np.uint32) & 0xFFFF).any()


def test_update__that_loses_nothing__is_start_minus_end() -> None:
    assert encoding.root(update_program(step_of(), Compression())) == encoding.root(
        update_program(step_of(), Compression(chunk=100, keep=100, decay=0.1))
    )
    assert not Compression().is_lossy


def test_with_residuals__twice__is_once_and_their_names_are_private() -> None:
    step = step_of()
    whole = with_residuals(step)
    assert with_residuals(whole) == whole
    assert private(whole) == sorted(RESIDUAL + name for name in SHAPES)
    assert whole.exchanged == step.exchanged


def test_with_residuals__a_name_that_is_taken__is_refused() -> None:
    with pytest.raises(BadProgram, match="'residual/x' is not a residual of 'x'"):
        with_residuals(step_of({"residual/x": (3,), "x": (3,)}))


def test_sent_mean__of_each_value__is_over_the_slots_that_sent_it_and_of_all_that_did_the_mean() -> None:
    step = step_of({"x": (5,)})
    rows = np.array([[2, 0, -0.0, np.nan, 1], [4, 0, 3, 1, 1], [0, 0, 0, 0, 1]], np.float32)
    updates = {slot: {"x": row} for slot, row in enumerate(rows)}
    for rule, wanted in [("sent_mean", [3, 0, 3, np.nan, 1]), ("mean", [2, 0, 1, np.nan, 1])]:
        aggregation_spec = AggregationSpec(5, OuterOptimizer(1.0, 0.0), Aggregation(rule))
        run = backend.prepare(aggregation_program(step, aggregation_spec))
        run.step(aggregation_batch(aggregation_parts(step, aggregation_spec), aggregation_spec, updates))
        np.testing.assert_array_equal(-run.state["x"], np.array(wanted, np.float32))


def job_of(**training: object) -> ComputeJob:
    compression = {"chunk": 256, "keep": 16, "bits": 2, "decay": 0.9}
    return ComputeJob(MODEL, {}, TRAINING | {"rounds": 4} | training, "100", compression_config=compression)


def files_of(folder: Path, job: ComputeJob) -> tuple[JobFiles, Manifest]:
    data = prepare_text(TEXT, 16, 0, wanted=job.examples_wanted, minimum=job.examples_per_round, heldout=32)
    store = BlockStore(folder)
    manifest = publish_files(job, data, store)
    return fetch_job(store, manifest), manifest


def test_simulate__with_private_state_carried__is_every_slot_going_on_until_the_restart(tmp_path: Path) -> None:
    files, manifest = files_of(tmp_path, job_of(carry_rounds=3))
    states = [files.checkpoint]
    masks = [0b111, 0b101, 0b111, 0b111]
    for count in range(1, 4):
        states.append(
            simulate(manifest, files.programs, files.checkpoint, files.examples, files.heldout, masks[:count]).state
        )
    run = simulate(manifest, files.programs, files.checkpoint, files.examples, files.heldout, masks)
    afresh = {
        (result.round, result.slot): _begins_afresh(manifest, files, states[result.round], result)
        for result in run.results
    }
    # Slot 1 is absent in round 1, so it begins round 2 afresh; round 3 is a restart for all.
    fresh = {(0, 0), (0, 1), (0, 2), (2, 1), (3, 0), (3, 1), (3, 2)}
    assert {place for place, is_so in afresh.items() if is_so} == fresh
    assert len(afresh) == 11


def test_private_state__of_a_slot__is_residuals_of_its_update_and_the_rest_of_its_end(tmp_path: Path) -> None:
    files, manifest = files_of(tmp_path, job_of(carry_rounds=2))
    first, again = (train_shard(manifest, files.programs, files.checkpoint, files.examples, 0, 1) for _ in range(2))
    names = set(files.programs.graph.exchanged)
    assert first.update.keys() == names | {RESIDUAL + name for name in names}
    assert first.update_root == root_of(first.update)
    assert first.private.keys() == set(private(files.programs.graph))
    assert all(first.private[RESIDUAL + name] is first.update[RESIDUAL + name] for name in names)
    assert int(first.private["step"]) == manifest.inner_steps
    assert root_of(first.private) == root_of(again.private)
    second = train_shard(manifest, files.programs, files.checkpoint, files.examples, 1, 1, carried=first.private)
    assert int(second.private["step"]) == 2 * manifest.inner_steps
    assert root_of(first.private) == root_of(again.private), "a slot that goes on leaves what it was given"


def _begins_afresh(manifest: Manifest, files: JobFiles, checkpoint: State, result: ShardResult) -> bool:
    """The first segment's root is that of the checkpoint with everything private at zero."""
    programs = Programs(files.programs.graph)
    programs.begin(checkpoint, manifest.draw_seed(result.round, result.slot))
    return programs.state_root() == result.segments[0][1]


def test_job__whose_compression_loses_and_that_carries__has_residuals_in_its_program() -> None:
    with_them, without = job_of(carry_rounds=2), job_of()
    names = {entry.name for entry in with_them.traced.graph.state}
    assert names - {entry.name for entry in without.traced.graph.state} == {
        RESIDUAL + name for name in without.traced.graph.exchanged
    }
    assert with_them.outline().keeps_residuals
    assert not without.outline().keeps_residuals


def test_a_program_without_residuals__for_a_manifest_that_needs_them__is_refused(tmp_path: Path) -> None:
    job = job_of(carry_rounds=2)
    data = prepare_text(TEXT, 16, 0, wanted=job.examples_wanted, minimum=job.examples_per_round, heldout=32)
    store = BlockStore(tmp_path)
    job.traced = replace(job.traced, graph=job_of().traced.graph)
    manifest = publish_files(job, data, store)
    with pytest.raises(BadInputs, match="its state lacks 'residual/'"):
        fetch_programs(store, manifest)


WRONG = {
    "a chunk of more than a key tells apart": ({"chunk": 4097}, "compression.chunk: expected 16 to 4096, got 4097"),
    "more than a chunk": ({"chunk": 64, "keep": 65}, "compression.keep: expected 1 to 64, got 65"),
    "no bits": ({"bits": 0}, "compression.bits: expected 1 to 8, or 32 for plain float32, got 0"),
    "nine bits": ({"bits": 9}, "compression.bits: expected 1 to 8, or 32 for plain float32, got 9"),
    "a residual that grows": ({"decay": 1.5}, "compression.decay: expected 0 to 1, got 1.5"),
    "a typo": ({"kep": 3}, "compression: unknown key 'kep'; did you mean 'keep'?"),
}


@pytest.mark.parametrize("name", WRONG)
def test_compression__of_a_wrong_configuration__is_refused(name: str) -> None:
    config, message = WRONG[name]
    with pytest.raises(JobError) as refused:
        ComputeJob(MODEL, {}, TRAINING, "100", compression_config=config)
    assert message in str(refused.value)


def test_carry_rounds__beyond_what_is_kept__is_refused() -> None:
    with pytest.raises(JobError, match=r"training\.carry_rounds: expected 1 to 1024, got 1025"):
        job_of(carry_rounds=1025)


@pytest.mark.parametrize(
    ("how", "least", "most"),
    [
        (Compression(keep=64, bits=2), 0.9, 1.1),
        (Compression(keep=300, bits=4), 0.9, 1.1),
        (Compression(bits=8), 0.7, 1.0),  # values near zero are the likelier ones
        (Compression(), 0.99, 1.01),
    ],
    ids=str,
)
def test_what_a_quote_says_of_an_update__is_about_what_is_sent(how: Compression, least: float, most: float) -> None:
    change = np.random.default_rng(3).standard_normal(100_000).astype(np.float32)
    sent = 8 * len(codec.encode({"x": one(how, change)}))
    assert least < sent / packed_bits(change.size, how) < most
