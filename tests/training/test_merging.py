"""Branches of a partition: merged bits against numpy and exact fractions, weights from claims, and lies about them found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from repops import files
from repops.commitments import state_root
from tests.client.test_results import TERMS, aggregation, commit, view
from tests.formats.test_manifest import fields
from tests.support.small_job import TEXT, SmallJob, publish
from zoo_compute.chain.views import ClaimState, JobView
from zoo_compute.client.branches import LoadedBranch, check_lineage, load_branch, merge_branches
from zoo_compute.client.job import Job
from zoo_compute.errors import UserError
from zoo_compute.formats.lineage import Branch, Parents
from zoo_compute.jobs.config import JobError, Manifest
from zoo_compute.store import ContentTampered, digest_of
from zoo_compute.training.examples import batch_of
from zoo_compute.training.merge import Merge, count_examples, example_share, merge_tensors

NETWORK: Any = SimpleNamespace(chain_id=7, contracts={"tasks": "0x" + "Ab" * 20})
ROOT = "cd" * 32
PAID, CONVICTED = ClaimState.PAID, ClaimState.CONVICTED


# -- the arithmetic


def neighbours(value: float) -> tuple[Fraction, Fraction]:
    here = np.float32(value)
    return Fraction(float(np.nextafter(here, np.float32(-1)))), Fraction(float(np.nextafter(here, np.float32(2))))


@pytest.mark.parametrize(
    ("part", "whole"),
    [(1, 3), (2, 3), (1, 1), (1, 10), (2**24 + 1, 2**25), (2**24 + 3, 2**25), (2**55 + 2**31 + 1, 2**56), (1, 2**90), (2**60 - 1, 2**60)],
)  # fmt: skip
def test_share__is_the_nearest_float32_of_the_exact_fraction__ties_to_even(part: int, whole: int) -> None:
    share, exact = example_share(part, whole), Fraction(part, whole)
    assert float(np.float32(share)) == share
    below, above = neighbours(share)
    off = abs(Fraction(share) - exact)
    for other in (below, above):
        assert off <= abs(other - exact)
        if off == abs(other - exact):
            assert np.float32(share).view(np.uint32) & 1 == 0


def test_share__is_rounded_once() -> None:
    """Through a double, which lies exactly between two float32, it would be the lower one."""
    part, whole = 2**55 + 2**31 + 1, 2**56
    assert example_share(part, whole) > float(np.float32(part / whole))


def test_merged__has_the_bits_that_numpy_makes_of_the_same_operations() -> None:
    draw = np.random.default_rng(3)
    names = {"w": (5, 7), "b": (3,), "scale": ()}
    base, *branches = (
        {name: np.asarray(draw.standard_normal(shape), np.float32) for name, shape in names.items()} for _ in range(4)
    )
    steps = {"count": np.asarray(4, np.int32)}
    examples = [100, 1, 37]
    merged = merge_tensors(base | steps, [branch | steps for branch in branches], examples, names)
    assert merged["count"] == 4
    for name in names:
        total = None
        for branch, count in zip(branches, examples, strict=True):
            weight = np.float32(count / sum(examples))  # such small numbers round alike through a double
            term = weight * (branch[name] - base[name])
            total = term if total is None else total + term
        assert np.array_equal(merged[name].view(np.uint32), np.asarray(base[name] + total).view(np.uint32)), name


# -- what a manifest says


def branch(**changes: Any) -> Branch:
    return Branch(**({"chain": 7, "tasks": NETWORK.contracts["tasks"], "job": 1, "since": 0, "round": 2, "root": ROOT, "examples": 9} | changes))  # fmt: skip


def test_manifest__with_parents_round_trips__and_without_has_no_such_key() -> None:
    parents = Parents(ROOT, (branch(), branch(job=2, examples=2**70)))
    manifest = Manifest(**fields(parents=parents))
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest
    assert hash(manifest) == hash(Manifest.from_bytes(manifest.to_bytes()))
    plain = Manifest(**fields())
    assert "parents" not in json.loads(plain.to_bytes())
    assert plain.digest != manifest.digest
    null = json.dumps(json.loads(plain.to_bytes()) | {"parents": None}, sort_keys=True, separators=(",", ":"))
    with pytest.raises(JobError, match="not canonical"):
        Manifest.from_bytes(null.encode())
    made = Merge(ROOT, parents)
    assert Merge.from_bytes(made.to_bytes()) == made


@pytest.mark.parametrize(
    ("branches", "message"),
    [
        ((branch(),), "expected 2 to 16"),
        ((branch(job=2), branch()), "ascend"),
        ((branch(), branch()), "each once"),
    ],
)
def test_parents__that_are_not_two_or_more_in_order__are_refused(branches: tuple[Branch, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Parents(ROOT, branches)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"round": 0}, "round"), ({"examples": 0}, "examples"), ({"root": "x"}, "root"), ({"tasks": "0x"}, "tasks")],
)
def test_branch__of_nonsense__is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"branch.{message}"):
        branch(**changes)


# -- weights from claims


def test_examples__count_slots_that_were_aggregated_and_not_convicted() -> None:
    roots = {number: bytes([number]) * 32 for number in range(4)}
    checkpoints = (
        aggregation(0, roots[1], scope=0b11, state=PAID),
        aggregation(1, roots[2], scope=0b01, state=PAID),  # seat 1 came too late
        aggregation(2, roots[3], scope=0b11, state=PAID),
    )
    commits = (
        commit(0, state=PAID), commit(0, 1, state=PAID), commit(1, state=PAID), commit(1, 1, state=PAID),
        commit(2, state=PAID), commit(2, 1, state=CONVICTED),
    )  # fmt: skip
    job = view(checkpoint_roots=roots, checkpoints=checkpoints, commits=commits)
    slots = [job.slot_rounds(*rounds) for rounds in ((0, 1), (0, 2), (0, 3), (1, 3), (2, 3))]
    assert slots == [3, 5, 7, 4, 2]


def test_examples__of_a_round_done_again__are_of_the_line_that_stands() -> None:
    roots = {number: bytes([number]) * 32 for number in range(2)}
    checkpoints = (
        aggregation(0, bytes(32), state=CONVICTED),
        aggregation(1, roots[1], round=0, state=PAID, scope=0b10),
    )
    commits = (commit(0, state=PAID), commit(1, 1, round=0, state=PAID))
    job = view(checkpoint_roots=roots, checkpoints=checkpoints, commits=commits)
    assert count_examples(job.slot_rounds(0, 1), Manifest(**fields())) == 28


# -- branches of real training


def seen(job: SmallJob, number: int, rounds: int) -> tuple[JobView, Any]:
    """The job as its chain would show it after so many rounds, all final, and its store."""
    roots, cids = {0: job.manifest.state_root}, {}
    for round_ in range(1, rounds + 1):
        made = job.advance()
        roots[round_], cids[round_] = bytes.fromhex(made["root"]), (digest_of(made["pointer"]),)
    claims = tuple(commit(turn, seat, state=PAID) for turn in range(rounds) for seat in (0, 1))
    made_by = tuple(aggregation(turn, roots[turn + 1], state=PAID) for turn in range(rounds))
    terms = replace(TERMS, manifest=job.manifest.digest, rounds=2)
    job_view = view(
        job=number, terms=terms, checkpoint_roots=roots, checkpoint_cids=cids, commits=claims, checkpoints=made_by
    )
    return job_view, job.store


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Two branches with the same beginning: one trained two rounds on one half of a text, one a round on the other."""
    half = len(TEXT) // 2
    first = publish(tmp_path_factory.mktemp("first"), text=TEXT[:half])
    base = files.parse_state(first.store.read(first.manifest.state.cid, max_bytes=2**24))
    tensors = {name: array for name, array in base.items() if not name.startswith("outer/")}
    second = publish(tmp_path_factory.mktemp("second"), text=TEXT[half:], weights=tensors)
    first.base["job"], second.base["job"] = 1, 2
    return [seen(first, 1, 2), seen(second, 2, 1), (first, second)]


def read(trained: list[Any], branch: Branch) -> LoadedBranch:
    job_view, store = trained[branch.job - 1]
    return load_branch(NETWORK, job_view, store, branch.since, branch.round)


@pytest.fixture(scope="module")
def posted(trained: list[Any], tmp_path_factory: pytest.TempPathFactory) -> SmallJob:
    """The third job, which begins where the two merge."""
    folder = tmp_path_factory.mktemp("third")
    made, tensors = merge_branches(
        [load_branch(NETWORK, *each) for each in reversed(trained[:2])], folder / "merged.safetensors"
    )
    assert [b.examples for b in made.parents.branches] == [2 * 3 * 5 * 4, 3 * 5 * 4]
    assert state_root(files.load_state(folder / "merged.safetensors")).hex() == made.root
    return publish(folder, weights=tensors, parents=made.parents)


def test_check__of_an_honest_merge__agrees(trained: list[Any], posted: SmallJob) -> None:
    lineage = check_lineage(posted.manifest, posted.manifest.state_root, lambda branch: read(trained, branch))
    assert (lineage.matches, lineage.start) == (True, posted.manifest.state.root)


def lie(manifest: Manifest, **changes: Any) -> Manifest:
    assert manifest.parents is not None
    first, second = manifest.parents.branches
    return replace(manifest, parents=replace(manifest.parents, branches=(replace(first, **changes), second)))


@pytest.mark.parametrize(
    ("tell", "message"),
    [
        (lambda m: lie(m, examples=121), "examples is 120, the manifest says 121"),
        (lambda m: lie(m, root="00" * 32), "checkpoint root is"),
        (lambda m: lie(m, since=1), "examples is 60"),
        (lambda m: lie(m, round=9), "no rounds from 0 to 9"),
        (lambda m: replace(m, parents=replace(m.parents, base=ROOT)), "base is"),
        (lambda m: replace(m, program=replace(m.program, root=ROOT)), "program is"),
        (lambda m: replace(m, state=replace(m.state, root=ROOT)), f"the job starts at {ROOT}; its branches merge to"),
    ],
)
def test_check__of_a_false_word_about_a_parent__says_which(
    trained: list[Any], posted: SmallJob, tell: Callable[[Manifest], Manifest], message: str
) -> None:
    lineage = check_lineage(
        tell(posted.manifest), tell(posted.manifest).state_root, lambda branch: read(trained, branch)
    )
    assert not lineage.matches
    assert message in " | ".join(lineage.differences)


def test_check__of_equal_weights_for_unequal_branches__finds_another_start(
    trained: list[Any], posted: SmallJob, tmp_path: Path
) -> None:
    """A submitter who favours its own branch, and names the true counts."""
    pair = [load_branch(NETWORK, *each) for each in trained[:2]]
    tensors = merge_tensors(pair[0].base, [each.end for each in pair], [1, 1], pair[0].step.exchanged)
    false = publish(tmp_path, weights=tensors, parents=posted.manifest.parents)
    lineage = check_lineage(false.manifest, false.manifest.state_root, lambda branch: read(trained, branch))
    assert [each.split(";")[0] for each in lineage.differences] == [f"the job starts at {false.manifest.state.root}"]


def test_check__of_a_job_that_the_chain_begins_elsewhere__says_so(trained: list[Any], posted: SmallJob) -> None:
    lineage = check_lineage(posted.manifest, bytes(32), lambda branch: read(trained, branch))
    assert [each.split(",")[0] for each in lineage.differences] == [f"the job starts at {'00' * 32} on chain"]


def test_check__of_a_job_counted_twice__says_so(trained: list[Any], posted: SmallJob) -> None:
    assert posted.manifest.parents is not None
    branches = [load_branch(NETWORK, *trained[0], round_=1), *(load_branch(NETWORK, *each) for each in trained[:2])]
    named = tuple(sorted((each.branch for each in branches), key=lambda b: b.sort_key))
    false = replace(posted.manifest, parents=replace(posted.manifest.parents, branches=named))
    lineage = check_lineage(false, false.state_root, lambda branch: read(trained, branch))
    assert lineage.start is None
    assert "its examples would count twice" in lineage.differences[-1]


def test_check__of_a_job_without_parents__is_refused(trained: list[Any]) -> None:
    with pytest.raises(UserError, match="has no parents"):
        check_lineage(trained[2][0].manifest, bytes(32), lambda branch: read(trained, branch))


def test_merge__of_what_are_no_branches__is_refused(trained: list[Any]) -> None:
    first, second = (load_branch(NETWORK, *each) for each in trained[:2])
    with pytest.raises(UserError, match="two or more"):
        merge_branches([first])
    for again in (first, load_branch(NETWORK, *trained[0], round_=1)):
        with pytest.raises(UserError, match=r"two of the branches are job 1 of chain \d+"):
            merge_branches([first, again])
    with pytest.raises(UserError, match="another program"):
        merge_branches([first, replace(second, program=replace(second.program, root=ROOT))])
    late = load_branch(NETWORK, *trained[0], since=1)
    with pytest.raises(UserError, match=r"checkpoint 0 of job 2 .* differs from checkpoint 1 of job 1"):
        merge_branches([late, second])


def test_branch__that_is_not_final__or_counts_nothing__is_refused(trained: list[Any]) -> None:
    job_view, store = trained[0]
    pending = tuple(replace(made, state=ClaimState.PENDING) for made in job_view.checkpoints)
    with pytest.raises(UserError, match="no final checkpoint after 0: 2 exist, 0 are final"):
        load_branch(NETWORK, replace(job_view, checkpoints=pending), store)
    half_final = replace(job_view, checkpoints=(job_view.checkpoints[0], pending[1]))
    assert load_branch(NETWORK, half_final, store).branch.round == 1
    convicted = tuple(replace(claim, state=CONVICTED) for claim in job_view.commits)
    with pytest.raises(UserError, match="no training since checkpoint 0 counts"):
        load_branch(NETWORK, replace(job_view, commits=convicted), store)
    with pytest.raises(ContentTampered, match="the chain says"):
        load_branch(NETWORK, replace(job_view, checkpoint_roots=job_view.checkpoint_roots | {0: bytes(32)}), store)


def test_merged_start__loses_no_more_on_held_out_text_than_the_worse_branch(trained: list[Any]) -> None:
    pair = [load_branch(NETWORK, *each) for each in trained[:2]]
    _, tensors = merge_branches(pair)
    starts = [pair[0].end, pair[1].end, tensors]
    losses = np.mean([[heldout(job, start) for start in starts] for job in trained[2]], axis=0)
    assert losses[2] <= max(losses[:2]), losses
    assert losses[2] < np.mean([heldout(job, pair[0].base) for job in trained[2]])


def heldout(job: SmallJob, tensors: dict[str, np.ndarray]) -> float:
    examples = files.parse_state(job.store.read(job.manifest.heldout.cid, max_bytes=2**24))
    runner = job.programs.step
    for name, array in tensors.items():
        runner.state[name][...] = array
    batches = np.arange(32).reshape(-1, job.manifest.batch_size)
    return float(np.mean([runner.loss(batch_of(examples, each, 1)) for each in batches]))


# -- where branches live


class Elsewhere:
    """A client of another network, whose every job is this one."""

    def __init__(self, trained: list[Any], at: int, *, chain_id: int, number: int) -> None:
        self.seen, self.store = trained[at]
        self.seen = replace(self.seen, job=number)
        self.description = SimpleNamespace(chain_id=chain_id, contracts=NETWORK.contracts)
        network = SimpleNamespace(first_block=0)
        self.chain = SimpleNamespace(network=network, tasks=SimpleNamespace(job_count=lambda: number))

    def use_peers(self) -> None: ...

    def job(self, number: int) -> Job:
        return Job(self, number)  # type: ignore[arg-type]


@pytest.mark.parametrize("chains", [(7, 8), (7, 7)], ids=["two chains", "two development chains with equal addresses"])
def test_check_parents__finds_each_branch_on_its_own_network(
    trained: list[Any], tmp_path: Path, chains: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Job, "view", lambda job: job._client.seen)
    clients = [Elsewhere(trained, at, chain_id=chains[at], number=at + 1) for at in (0, 1)]
    pair = [client.job(at + 1).branch() for at, client in enumerate(clients)]
    made, tensors = merge_branches(pair)
    third = publish(tmp_path, weights=tensors, parents=made.parents)
    third.store.add(third.manifest.to_bytes())
    terms = replace(TERMS, manifest=third.manifest.digest)
    here: Any = Elsewhere(
        [(view(terms=terms, checkpoint_roots={0: third.manifest.state_root}), third.store)], 0, chain_id=7, number=5
    )
    job = here.job(5)
    lineage = job.check_parents(*clients)
    assert (lineage.matches, lineage.start) == (True, third.manifest.state.root)
    assert not job.check_parents(clients[0]).matches
