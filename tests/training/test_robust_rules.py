"""Rules of aggregation: against the same rules in plain numpy, in parts and whole, with rows that are anything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from node.compute.aggregation import aggregate
from node.compute.programs import Programs, State, run_step
from node.compute.training import root_of
from node.device import runner
from node.hardware import CPU
from repops import backend
from repops.builder import Builder
from repops.commitments import Array
from repops.fields import BadField
from repops.graph import F32, PARAMETER, STATE_ROLE, Graph
from tests.support.small_job import small_job
from zoo_compute.formats.aggregation import (
    MIN_PART,
    MIXINGS,
    PART_SIZE,
    RULES,
    Aggregation,
    AggregationSpec,
    OuterOptimizer,
)
from zoo_compute.formats.manifest import Manifest
from zoo_compute.jobs.files import initial_checkpoint
from zoo_compute.training.rounds import SCORES, aggregation_batch, aggregation_parts, aggregation_program

SLOTS, HOSTILE = 9, 2
ROBUST = [
    Aggregation(rule, HOSTILE, mixing)
    for rule in RULES
    if "mean" not in (rule, rule.removeprefix("sent_"))
    for mixing in MIXINGS
]
PLAIN = OuterOptimizer(1.0, 0.0)  # the next checkpoint is the one before less the joined update
ADAMW = OuterOptimizer(0.01, 0.9, kind="adamw", beta2=0.99, weight_decay=0.1)
ids = [f"{rule.rule}-{rule.mixing}" for rule in ROBUST]


def two_tensors() -> Graph:
    """A step that changes `a` (), `b` (3, 37), and leaves `still` alone."""
    b = Builder()
    shapes: dict[str, tuple[int, ...]] = {"a": (), "b": (3, 37), "still": (3,)}
    entries = []
    for at, (name, shape) in enumerate(shapes.items()):
        before = b.input(F32, shape, STATE_ROLE, at)
        entries.append((name, PARAMETER, before, before if name == "still" else b.map("add", before, 1.0)))
    return b.finish(entries, [], b.scalar(0.0, F32))


STEP = two_tensors()
PROGRAMS = Programs(STEP)


def drawn(seed: int, slots: int = SLOTS) -> dict[int, State]:
    """Updates that have a direction in common."""
    rng = np.random.default_rng(seed)
    common = {"a": rng.normal(size=()), "b": rng.normal(size=(3, 37))}
    return {
        slot: {n: np.asarray(x + 0.7 * rng.normal(size=x.shape), np.float32) for n, x in common.items()}
        for slot in range(slots)
    }


def start(aggregation_spec: AggregationSpec) -> State:
    tensors = {"a": np.float32(0.5), "b": np.ones((3, 37), np.float32), "still": np.ones(3, np.float32)}
    return initial_checkpoint(STEP, {n: np.asarray(t) for n, t in tensors.items()}, aggregation_spec)


def manifest(rule: Aggregation, outer: OuterOptimizer = PLAIN, slots: int = SLOTS) -> Manifest:
    return replace(small_job().outline(), slots=slots, quorum=1, aggregation=rule, outer=outer)


def made(rule: Aggregation, updates: dict[int, State], outer: OuterOptimizer = PLAIN, slots: int = SLOTS) -> State:
    of = manifest(rule, outer, slots)
    return aggregate(of, PROGRAMS, start(of.aggregation_spec), updates)


def joined(rule: Aggregation, updates: dict[int, State]) -> Array:
    """The one update, flat."""
    of = manifest(rule)
    before, after = start(of.aggregation_spec), aggregate(of, PROGRAMS, start(of.aggregation_spec), updates)
    return flat({n: before[n] - after[n] for n in ("a", "b")})


def flat(update: State) -> Array:
    return np.concatenate([update["a"].reshape(-1), update["b"].reshape(-1)]).astype(np.float64)


def matrix(updates: dict[int, State]) -> Array:
    return np.stack([flat(updates[slot]) for slot in sorted(updates)])


# --- the rules in float64, over whole vectors


def clip(sizes: Array) -> Array:
    return np.minimum(1, np.sort(sizes)[(len(sizes) - 1) // 2] / sizes)


def distances(x: Array) -> Array:
    return ((x[:, None] - x[None]) ** 2).sum(2)


def krum(x: Array) -> Array:
    keep = len(x) - HOSTILE
    scores = np.sort(distances(x), 1)[:, : keep - 1].sum(1)
    return x[np.argsort(scores)[:keep]].mean(0)


def geometric_median(x: Array) -> Array:
    centre = (clip(np.linalg.norm(x, axis=1))[:, None] * x).mean(0)
    for _ in range(8):
        pull = 1 / np.linalg.norm(x - centre, axis=1)
        centre = (pull[:, None] * x).sum(0) / pull.sum()
    return centre


def centred_clipping(x: Array) -> Array:
    centre = np.zeros(x.shape[1])
    for _ in range(5):
        off = x - centre
        centre = centre + (clip(np.linalg.norm(off, axis=1))[:, None] * off).mean(0)
    return centre


ORACLES = {
    "clipped_mean": lambda x: (clip(np.linalg.norm(x, axis=1))[:, None] * x).mean(0),
    "median": lambda x: np.median(x, 0),
    "trimmed_mean": lambda x: np.sort(x, 0)[HOSTILE : len(x) - HOSTILE].mean(0),
    "krum": krum,
    "geometric_median": geometric_median,
    "centred_clipping": centred_clipping,
}


def nearest(x: Array) -> Array:
    return np.stack([x[np.argsort(row)[: len(x) - HOSTILE]].mean(0) for row in distances(x)])


@pytest.mark.parametrize("present", [9, 8, 6])
@pytest.mark.parametrize("mixing", ["none", "nearest"])
@pytest.mark.parametrize("rule", ORACLES)
def test_rule__on_what_is_present__is_the_rule_in_numpy(rule: str, mixing: str, present: int) -> None:
    updates = drawn(present)
    for absent in (1, 4, 7)[: SLOTS - present]:
        del updates[absent]
    x = matrix(updates)
    expected = ORACLES[rule](nearest(x) if mixing == "nearest" else x)
    np.testing.assert_allclose(joined(Aggregation(rule, HOSTILE, mixing), updates), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("rule", ROBUST, ids=ids)
def test_rows_that_do_not_count__are_as_good_as_absent(rule: Aggregation) -> None:
    updates = drawn(1)
    without = {slot: update for slot, update in updates.items() if slot not in (0, 3, 5, 8)}
    updates[0]["b"][2, 3] = np.nan
    updates[3]["a"] = np.asarray(-np.inf, np.float32)
    updates[5] = {name: np.zeros_like(tensor) for name, tensor in updates[5].items()}
    updates[8]["b"][2] = 3e38  # finite, its square is not
    result, expected = made(rule, updates), made(rule, without)
    scores, plain = result.pop(SCORES), expected.pop(SCORES)
    assert root_of(result) == root_of(expected)
    assert np.isinf(scores[[0, 3, 8], 0]).all()
    assert not scores[[0, 3, 8], 1:].any()
    assert scores[5].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(scores[[1, 2, 4, 6, 7]], plain[[1, 2, 4, 6, 7]])


@pytest.mark.parametrize("rule", ROBUST, ids=ids)
def test_a_round_in_which_no_row_counts__moves_nothing(rule: Aggregation) -> None:
    updates = {slot: {n: np.full_like(t, np.nan) for n, t in update.items()} for slot, update in drawn(2).items()}
    result = made(rule, updates)
    assert not result.pop(SCORES)[:, 1:].any()
    before = start(manifest(rule).aggregation_spec)
    assert all(np.array_equal(result[name], before[name]) for name in result)


@pytest.mark.parametrize("outer", [OuterOptimizer(0.7, 0.9), ADAMW], ids=["nesterov", "adamw"])
@pytest.mark.parametrize("part_size", [MIN_PART, PART_SIZE], ids=["parts", "whole tensors"])
@pytest.mark.parametrize("rule", [Aggregation(), *ROBUST], ids=["mean", *ids])
def test_parts_of_the_program__have_the_bits_of_the_whole_and_of_the_reference(
    rule: Aggregation, part_size: int, outer: OuterOptimizer
) -> None:
    rule = replace(rule, part_size=part_size)
    updates = drawn(3)
    del updates[2]
    updates[6]["b"][0, 0] = np.float32(-0.0)
    of = manifest(rule, outer)
    checkpoint = aggregate(of, PROGRAMS, start(of.aggregation_spec), drawn(4))  # moments that are not zero
    whole = aggregation_program(STEP, of.aggregation_spec)
    batch = aggregation_batch(aggregation_parts(STEP, of.aggregation_spec), of.aggregation_spec, updates)
    expected = root_of(aggregate(of, PROGRAMS, checkpoint, updates))
    assert root_of(run_step(runner(whole, CPU), checkpoint, batch)) == expected
    assert root_of(run_step(backend.prepare(whole, name="reference"), checkpoint, batch)) == expected


@pytest.mark.parametrize("rule", [r for r in ROBUST if r.rule != "clipped_mean" and r.mixing != "buckets"])
def test_two_of_nine_that_point_far_away__hardly_move_a_robust_rule(rule: Aggregation) -> None:
    updates = drawn(5)
    honest = matrix(updates)[2:].mean(0)
    for slot in (0, 1):
        updates[slot] = {name: np.asarray(-300 * tensor, np.float32) for name, tensor in updates[slot].items()}
    spread = np.linalg.norm(matrix(drawn(5))[2:] - honest, axis=1).mean()
    assert np.linalg.norm(joined(rule, updates) - honest) < spread
    assert np.linalg.norm(joined(Aggregation(), updates) - honest) > 20 * spread


def test_buckets__of_equal_rows_of_two__keep_the_mean_and_are_drawn_anew() -> None:
    rule = Aggregation("clipped_mean", 0, "buckets")
    weights = []
    for seed in (1, 2, 3):
        updates = drawn(seed, 8)
        same = {slot: {n: t / np.float32(np.linalg.norm(flat(u))) for n, t in u.items()} for slot, u in updates.items()}
        weights.append(made(rule, same, slots=8)[SCORES][:, 2])
        np.testing.assert_allclose(weights[-1].sum(), 1, atol=0.2)
    assert len({tuple(np.argsort(w)) for w in weights}) == 3


def test_scores__tell_norm_direction_and_weight() -> None:
    updates = drawn(6)
    updates[4] = {name: np.asarray(-10 * tensor, np.float32) for name, tensor in updates[4].items()}
    del updates[8]
    scores = made(Aggregation("krum", HOSTILE), updates)[SCORES]
    norms = np.linalg.norm(matrix(updates), axis=1)
    np.testing.assert_allclose(scores[:8, 0], norms / np.sort(norms)[3], rtol=1e-5)
    units = matrix(updates) / norms[:, None]
    direction = units.sum(0) / np.linalg.norm(units.sum(0))
    np.testing.assert_allclose(scores[:8, 1], units @ direction, rtol=1e-4)
    assert scores[4, 1] < -0.5 < 0.5 < min(np.delete(scores[:8, 1], 4))
    assert sorted(scores[:8, 2]) == [0, 0, *[np.float32(1 / 6)] * 6]
    assert scores[4, 2] == 0
    assert not scores[8].any()


def test_adamw__over_rounds__is_torchs_on_the_mean_update() -> None:
    of = manifest(Aggregation(), ADAMW)
    checkpoint = start(of.aggregation_spec)
    parameters = {name: torch.tensor(checkpoint[name], requires_grad=True) for name in ("a", "b")}
    plain = torch.optim.AdamW(parameters.values(), lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)
    for seed in range(5):
        updates = drawn(seed)
        checkpoint = aggregate(of, PROGRAMS, checkpoint, updates)
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(np.mean([update[name] for update in updates.values()], 0))
        plain.step()
        for name, parameter in parameters.items():
            np.testing.assert_allclose(checkpoint[name], parameter.detach().numpy(), rtol=2e-6)


def test_manifest__whose_rule_cannot_be__is_refused() -> None:
    for fields, message in [
        ({"rule": "trimed_mean"}, "unknown rule 'trimed_mean'; did you mean 'trimmed_mean'"),
        ({"rule": "krum", "mixing": "near"}, "unknown mixing 'near'"),
        ({"rule": "mean", "hostile": 1}, "a mean supports neither"),
        ({"rule": "mean", "mixing": "nearest"}, "a mean supports neither"),
        ({"rule": "krum", "hostile": -1}, "aggregation.hostile"),
    ]:
        with pytest.raises(BadField, match=message):
            Aggregation(**fields)
    AggregationSpec(9, PLAIN, Aggregation("krum", 4))
    with pytest.raises(BadField, match="4 of 8 slots are not fewer than half"):
        AggregationSpec(8, PLAIN, Aggregation("krum", 4))
    with pytest.raises(BadField, match="unknown optimiser 'adam'"):
        OuterOptimizer(0.1, 0.9, kind="adam")
    with pytest.raises(BadField, match="of kind adamw"):
        OuterOptimizer(0.1, 0.9, weight_decay=0.1)


def test_job__that_names_a_rule__gets_its_manifest() -> None:
    job = small_job()
    named = replace(
        job,
        aggregation_config={"rule": "trimmed_mean", "mixing": "nearest"},
        training_config=job.training_config | {"slots": 17, "outer_optimizer": "adamw", "outer_weight_decay": 0.1},
    ).outline()
    assert named.aggregation == Aggregation("trimmed_mean", 4, "nearest")
    assert (named.outer.kind, named.outer.weight_decay) == ("adamw", 0.1)
    assert Manifest.from_bytes(named.to_bytes()) == named
    assert job.outline().aggregation == Aggregation()
