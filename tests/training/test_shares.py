"""Several aggregators: how tensors are cut among them, and that they make what one makes, bit for bit."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from node.compute.aggregation import aggregate
from node.compute.training import root_of
from node.inputs.job_files import fetch_job
from node.replay import simulate
from repops.commitments import sorted_names, state_leaves, state_root, tensor_roots
from tests.support.small_job import publish
from zoo_compute.formats.aggregation import Aggregation
from zoo_compute.formats.manifest import JobError
from zoo_compute.spec.merkle import climb
from zoo_compute.training.rounds import aggregation_programs, checkpoint_shares
from zoo_compute.training.shares import SharedCheckpoint, SharedRoots, cut


def largest(shares: tuple[frozenset[str], ...], sizes: dict[str, int]) -> int:
    return max(sum(sizes[name] for name in share) for share in shares)


def test_tensors_are_cut_in_runs__so_that_the_largest_is_as_small_as_can_be() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        names = [f"t{number:02d}" for number in range(int(rng.integers(1, 9)))]
        sizes = {name: int(rng.integers(1, 40)) for name in names}
        aggregators = int(rng.integers(1, len(names) + 1))
        shares = cut(sizes, names, aggregators)
        assert len(shares) == aggregators
        assert all(shares), "each has a tensor"
        assert [name for share in shares for name in sorted(share)] == names, "in order, each once"
        best = min(
            max(
                sum(sizes[name] for name in names[a:b])
                for a, b in zip((0, *bounds), (*bounds, len(names)), strict=True)
            )
            for bounds in combinations(range(1, len(names)), aggregators - 1)
        )
        assert largest(shares, sizes) == best


def test_what_training_does_not_change__goes_with_its_neighbours() -> None:
    sizes = {"a": 9, "b": 1, "frozen": 1_000, "g": 1, "z": 9}
    assert cut(sizes, ["b", "g"], 2) == (frozenset("ab") | {"frozen"}, frozenset("gz"))


def test_more_aggregators_than_tensors__are_refused() -> None:
    with pytest.raises(JobError, match="3 share 2 tensors") as refused:
        cut({"a": 1, "b": 1}, ["a", "b"], 3)
    assert "at most 2" in refused.value.hint


def test_every_tensor__has_a_path_to_the_root_over_all_shares() -> None:
    rng = np.random.default_rng(5)
    for counts in ((1,), (1, 1), (3, 1, 2), (5, 4, 1, 2, 7)):
        states = [
            {f"{number}-{at}": rng.standard_normal(3).astype(np.float32) for at in range(count)}
            for number, count in enumerate(counts)
        ]
        roots = SharedRoots(tuple(tensor_roots(state) for state in states))
        assert roots.root == root_of(SharedCheckpoint(tuple(states)))
        for state in states:
            for at, name in enumerate(sorted_names(state)):
                index, path = roots.path(name)
                assert climb(state_leaves(tensor_roots(state))[at], index, path) == roots.root
    assert roots.root != state_root({name: array for state in states for name, array in state.items()})


@pytest.mark.parametrize("rule", ["mean", "sent_mean"])
@pytest.mark.parametrize("aggregators", [2, 3])
def test_several_aggregators__make_the_tensors_that_one_makes(tmp_path: Path, aggregators: int, rule: str) -> None:
    """Of several rounds, of which not every slot is present in each."""
    masks = (0b111, 0b101, 0b011)
    published = publish(tmp_path, rounds=3)
    manifests = [
        replace(published.manifest, aggregation=Aggregation(rule)),
        replace(published.manifest, aggregation=Aggregation(rule, aggregators=aggregators), redundancy=3),
    ]
    job = fetch_job(published.store, published.manifest)
    runs = [simulate(each, job.programs, job.checkpoint, job.examples, job.heldout, masks) for each in manifests]
    states = [{name: np.array(run.state[name]) for name in run.state} for run in runs]
    assert states[0].keys() == states[1].keys()
    assert all(np.array_equal(states[0][name].view(np.uint32), states[1][name].view(np.uint32)) for name in states[0])
    assert runs[0].losses == runs[1].losses
    assert runs[0].roots[0] == runs[1].roots[0], "the first checkpoint is of nobody's share"
    assert not set(runs[0].roots[1:]) & set(runs[1].roots[1:])
    assert isinstance(runs[1].state, SharedCheckpoint)
    assert [share.keys() for share in runs[1].state.shares] == list(
        checkpoint_shares(job.programs.graph, manifests[1].aggregation_spec)
    )


def test_an_aggregators_program__has_its_tensors_alone(tmp_path: Path) -> None:
    published = publish(tmp_path)
    manifest = replace(published.manifest, aggregation=Aggregation(aggregators=2), redundancy=3)
    job, spec = fetch_job(published.store, published.manifest), manifest.aggregation_spec
    graph = job.programs.graph
    programs, shares = aggregation_programs(graph, spec), checkpoint_shares(graph, spec)
    assert [{entry.name for entry in program.state} for program in programs] == [set(share) for share in shares]
    elements = [sum(math.prod(program.nodes[at].shape) for _, at in program.batch) for program in programs]
    assert max(elements) < sum(elements)
    update = {name: np.ones_like(job.checkpoint[name]) for name in graph.exchanged}
    made = aggregate(manifest, job.programs, job.checkpoint, {0: update}, share=1)
    assert made.keys() == shares[1]
