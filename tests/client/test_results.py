"""Results are proved before they are written; progress and money are what the chain's events say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from repops import commitments, files
from zoo_compute import DistributedTrainer
from zoo_compute.chain.views import (
    AGGREGATOR_SEAT,
    Checkpoint,
    ClaimState,
    Commit,
    JobStake,
    JobState,
    JobView,
    Lot,
    Rollback,
    Run,
    Seat,
    Terms,
)
from zoo_compute.client.copies import Redundancy
from zoo_compute.client.job import Job
from zoo_compute.client.progress import LossReader, progress_of, waiting_for
from zoo_compute.client.results import fetch_result
from zoo_compute.errors import UserError
from zoo_compute.formats.bundles import MAX_POINTER_BYTES, Bundle, Pointer, SlotResult
from zoo_compute.formats.manifest import StateFile
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.store import BlockStore, ContentMissing, ContentTampered, digest_of, raw_cid
from zoo_compute.store.errors import ContentRefused

ROOT0 = bytes(32)
TERMS = Terms("0xZ", ROOT0, ROOT0, ROOT0, ROOT0, 2, 3, 2, 1, 2, 1, 2, 60, 30, 20, 10**9, 4, 0, 500)
RUN = Run(
    state=3, round=1, turn=1, rounds=2, slots=3, quorum=2, depth=4, policy=0, opened_at=1_000, window_s=60, slot_s=60,
    aggregate_s=30, aggregators=1, aggregator_due=1_150, token="0xZ", flops=10**9, seats=2, missing=0b11,
    committed=0, holds=0, held_s=0, start_root=ROOT0,
)  # fmt: skip


def lot(**changes: Any) -> Lot:
    values = dict.fromkeys(Lot.__dataclass_fields__, 0) | {
        "phase": 1,
        "token": "0xZ",
        "units": 3,
        "bid_end": 1_010,
        "reveal_end": 1_020,
        "attempt": 1,
    }
    return Lot(**(values | changes))


def view(**changes: Any) -> JobView:
    values: dict[str, Any] = {
        "job": 5, "block": 50, "now": 1_005, "state": JobState.RUNNING, "submitter": "0xS", "token": "0xZ", "terms": TERMS, "escrow": 100,
        "posted_block": 10, "run": RUN, "lots": {0: lot(phase=4), 1: lot(phase=4)}, "bids": {},
        "seats": {
            0: Seat(1, 0, 2, 10, 0, 0, 5, 1_000), 1: Seat(2, 2, 1, 11, 0, 0, 5, 1_000),
            AGGREGATOR_SEAT: Seat(9, 0, 1, 7, 0, 0, 0, 1_000),
        },
        "stakes": {1: JobStake(32, 1, 1, 0), 2: JobStake(16, 1, 1, 0), 9: JobStake(48, 1, 1, 0)},
        "checkpoint_roots": {0: ROOT0}, "checkpoint_cids": {}, "commits": (), "checkpoints": (),
    }  # fmt: skip
    return JobView(**(values | changes))


def commit(turn: int, seat: int = 0, deadline: int = 1_060, **changes: Any) -> Commit:
    """A claim on the two slots of operator 1, or on the one of operator 2."""
    first, count, price = ((0, 2, 20), (2, 1, 11))[seat]
    claim = Commit(turn, turn, seat, seat + 1, first << 16 | count, price, ROOT0, ROOT0, deadline)
    return replace(claim, **changes)


def aggregation(turn: int, root: bytes = ROOT0, deadline: int = 1_060, **changes: Any) -> Checkpoint:
    return replace(Checkpoint(turn, turn, AGGREGATOR_SEAT, 9, 0b11, 7, ROOT0, root, deadline), **changes)


# -- results


@pytest.fixture
def trained(tmp_path: Path) -> tuple[BlockStore, dict[str, np.ndarray], JobView]:
    store = BlockStore(tmp_path / "store")
    state = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "outer/w": np.ones((2, 3), np.float32)}
    return store, state, published(store, state, commitments.state_root(state))


def published(store: BlockStore, state: dict[str, np.ndarray], root: bytes, job: int = 5) -> JobView:
    cid = store.add(files.state_bytes(state))
    digest = digest_of(store.add(Pointer(job, 0, cid, root, 0b111).to_bytes()))
    made = aggregation(0, root)
    return view(checkpoint_roots={0: ROOT0, 1: root}, checkpoint_cids={1: (digest,)}, checkpoints=(made,))


def test_result__is_verified_and_holds_the_parameters_alone(trained: Any, tmp_path: Path) -> None:
    store, state, job = trained
    result = fetch_result(job, store, tmp_path / "out" / "model.safetensors")
    assert (result.round, result.rounds, result.final, result.parameters) == (1, 2, False, 6)
    assert result.root == "0x" + commitments.state_root(state).hex()
    tensors = files.load_state(result.path)
    assert list(tensors) == ["w"]
    assert np.array_equal(tensors["w"], state["w"])
    assert set(files.load_state(fetch_result(job, store, tmp_path / "whole", whole=True).path)) == {"w", "outer/w"}
    assert not [path for path in tmp_path.rglob(".zoo-*")]


def test_result__of_several_aggregators__is_joined_of_all_their_files(tmp_path: Path) -> None:
    store = BlockStore(tmp_path / "store")
    shares = [{"b": np.ones(3, np.float32), "outer/b": np.zeros(3, np.float32)}, {"w": np.arange(6, dtype=np.float32)}]
    cids, made = [], []
    for place, share in enumerate(shares):
        root = commitments.state_root(share)
        cid = store.add(files.state_bytes(share))
        cids.append(digest_of(store.add(Pointer(5, 0, cid, root, 0b111).to_bytes())))
        made.append(aggregation(0, root, seat=AGGREGATOR_SEAT + place, cid=cids[-1]))
    whole = root_of_shares([each.root for each in made])
    job = view(
        terms=replace(TERMS, aggregators=2),
        checkpoint_roots={0: ROOT0, 1: whole},
        checkpoint_cids={1: tuple(cids)},
        checkpoints=made,
    )
    result = fetch_result(job, store, tmp_path / "model")
    assert (result.root, result.pointer) == ("0x" + whole.hex(), ",".join(map(raw_cid, cids)))
    assert files.load_state(result.path).keys() == {"b", "w"}
    assert files.load_state(fetch_result(job, store, tmp_path / "whole", whole=True).path).keys() == {
        "b",
        "outer/b",
        "w",
    }
    with pytest.raises(ContentTampered, match="expected job 5, round 0"):
        fetch_result(replace(job, checkpoint_cids={1: (cids[0], cids[0])}), store, tmp_path / "other")


def test_result__that_differs_in_one_bit_from_the_chain__is_refused_and_not_written(
    trained: Any, tmp_path: Path
) -> None:
    store, state, _ = trained
    state["w"].view(np.uint32)[0, 0] ^= 1
    job = published(store, state, commitments.state_root({**state, "w": np.arange(6, dtype=np.float32).reshape(2, 3)}))
    with pytest.raises(ContentTampered, match="the chain says"):
        fetch_result(job, store, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_result__of_another_jobs_pointer_or_nonsense__is_refused(trained: Any, tmp_path: Path) -> None:
    store, state, _ = trained
    with pytest.raises(ContentTampered, match=r"of job 6, round 0, .*expected job 5"):
        fetch_result(published(store, state, ROOT0, job=6), store, tmp_path / "model")
    early = published(store, state, ROOT0)
    cids = {1: early.checkpoint_cids[1], 2: early.checkpoint_cids[1]}
    late = replace(early, checkpoint_roots={0: ROOT0, 1: ROOT0, 2: ROOT0}, checkpoint_cids=cids)
    with pytest.raises(ContentTampered, match="expected job 5, round 1"):
        fetch_result(late, store, tmp_path / "model")
    huge = digest_of(store.add(b" " * (MAX_POINTER_BYTES + 1)))
    with pytest.raises(ContentRefused):
        fetch_result(
            view(checkpoint_roots={0: ROOT0, 1: ROOT0}, checkpoint_cids={1: (huge,)}), store, tmp_path / "model"
        )
    nonsense = digest_of(store.add(b"[1, 2"))
    with pytest.raises(ContentTampered, match="not a pointer"):
        fetch_result(
            view(checkpoint_roots={0: ROOT0, 1: ROOT0}, checkpoint_cids={1: (nonsense,)}), store, tmp_path / "model"
        )


def test_result__that_nobody_has__is_told(tmp_path: Path) -> None:
    with pytest.raises(ContentMissing):
        fetch_result(
            view(checkpoint_roots={0: ROOT0, 1: ROOT0}, checkpoint_cids={1: (b"\1" * 32,)}),
            BlockStore(tmp_path / "s"),
            tmp_path / "model",
        )


def test_result__is_final_when_no_claim_up_to_its_turn_is_pending(trained: Any, tmp_path: Path) -> None:
    store, _, job = trained
    [made] = job.checkpoints
    ended = replace(job, state=JobState.ENDED, commits=(commit(0, state=ClaimState.PAID), commit(1)))
    assert not fetch_result(ended, store, tmp_path / "model").final
    paid = replace(ended, checkpoints=(replace(made, state=ClaimState.PAID),))
    assert fetch_result(paid, store, tmp_path / "model").final, "a claim of a later turn says nothing about it"
    disputed = replace(paid, commits=(commit(0, disputed=True), commit(1)))
    assert not fetch_result(disputed, store, tmp_path / "model").final


def test_the_line_that_stands__says_which_rounds_are_final() -> None:
    """Round 1 was done twice: what its first turn made is void."""
    lost, again = b"\1" * 32, b"\2" * 32
    done = {"state": ClaimState.PAID}
    checkpoints = (
        aggregation(0, **done), aggregation(1, lost, state=ClaimState.CONVICTED), aggregation(2, again, round=1, **done),
    )  # fmt: skip
    job = view(
        state=JobState.ENDED, checkpoints=checkpoints, checkpoint_roots={0: ROOT0, 1: ROOT0, 2: again},
        checkpoint_cids={1: (ROOT0,), 2: (ROOT0,)}, rollbacks=(Rollback(2, 1, 40),), commits=(commit(1, round=1),),
    )  # fmt: skip
    assert job.final_rounds == 1
    assert replace(job, commits=()).final_rounds == 2
    assert job.checkpoint_of(2) == checkpoints[2]
    assert job.checkpoint_of(2, lost) == checkpoints[1]


# -- redundancy


@pytest.mark.parametrize("done", [0, 1])
def test_redundancy__counts_stores_that_keep_every_file_of_the_newest_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    store, state = BlockStore(tmp_path / "s"), {"w": np.ones(2, np.float32)}
    root = commitments.state_root(state)
    initial = StateFile(store.add(files.state_bytes(state)), root.hex())
    sections = {"training": {"learning_rate": 0.1, "batch_size": 1, "inner_steps": 1, "rounds": 2, "slots": 3}}
    model = {"layers": 1, "heads": 1, "width": 8, "context": 8}
    config = ComputeJob.from_dict({"model": model, "budget_max": 9, "checkpoint": {"redundancy": 3}, **sections})
    outline = config.outline()
    manifest = config.manifest(outline.program, initial, outline.data, outline.heldout, step=None)
    store.add(manifest.to_bytes())
    made = published(store, {"w": np.zeros(2, np.float32)}, ROOT0)
    looked = view(terms=replace(TERMS, manifest=manifest.digest), checkpoint_roots={0: root})
    if done:
        looked = replace(looked, checkpoint_roots={0: root, 1: ROOT0}, checkpoint_cids=made.checkpoint_cids)
    asked: list[str] = []

    def confirmed(cid: str, urls: list[str], **_: object) -> list[str]:
        asked.append(cid)
        return urls[: 2 if len(asked) == 1 else 1]  # the second store has the pointer alone

    monkeypatch.setattr("zoo_compute.client.copies.confirmations", confirmed)
    monkeypatch.setattr("zoo_compute.client.job.read_job", lambda *_: looked)
    chain = SimpleNamespace(network=SimpleNamespace(first_block=0))
    client: Any = SimpleNamespace(store=store, chain=chain, use_peers=lambda: None, endpoints=lambda: {1: "u", 2: "v"})
    assert Job(client, 5).redundancy() == Redundancy(wanted=3, confirmed=1 if done else 2)
    assert (initial.cid in asked) == (not done)
    assert len(asked) == 1 + done
    looked = replace(looked, terms=replace(TERMS, manifest=b"\1" * 32))
    assert Job(client, 5).redundancy() is None, "nobody serves the manifest"


# -- progress


def test_progress__counts_slots_losses_and_money(tmp_path: Path) -> None:
    store = BlockStore(tmp_path / "s")
    reports: list[tuple[float | None, float | None]] = [(5.0, 4.0), (5.0, 3.0), (1.0, 1.0), (5.0, None)]
    results = tuple(SlotResult(slot, "b", ROOT0, ROOT0, ROOT0, ROOT0, loss, 1.0) for slot, loss in enumerate(reports))
    digest = digest_of(store.add(Bundle(5, 0, 1, results).to_bytes()))
    foreign = digest_of(store.add(Bundle(6, 0, 1, results).to_bytes()))
    undone = digest_of(store.add(Bundle(5, 0, 1, results[2:3]).to_bytes()))
    commits = (
        commit(0, bundle=undone, scope=2 << 16 | 1),
        commit(1, round=0, bundle=digest),
        commit(1, 1, round=0, bundle=digest, scope=3 << 16 | 1),
        commit(2, 1, round=1, bundle=foreign),
    )
    job = view(commits=commits, run=replace(RUN, missing=0b01, committed=1))
    losses = LossReader(store).losses(job)
    # Round 0 was done again; slot 2 is in none of its seats, slot 3 diverged; the last bundle is of another job.
    assert losses == (3.5, None)
    progress = progress_of(job, spent=5, due=20, losses=losses)
    assert (progress.state, progress.round, progress.committed, progress.nodes, progress.loss) == (
        "running",
        1,
        1,
        (1, 2),
        3.5,
    )
    assert not progress.over
    assert progress.to_dict()["due"] == "20"
    assert "round 2/2, 1/3 slots" in progress.line()
    assert "in dispute" not in progress.line()
    judged = replace(commits[1], state=ClaimState.CONVICTED)
    asked = view(commits=(replace(commits[0], disputed=True), judged, *commits[2:]))
    assert "1 claim in dispute · 1 convicted" in progress_of(asked, spent=5, due=20).line()


def test_progress__told__differs_in_everything_but_the_clock() -> None:
    first, later = (progress_of(view(now=now), spent=0, due=0) for now in (1_005, 1_006))
    assert first.waiting_for != later.waiting_for
    assert first.reader_key == later.reader_key
    assert first.reader_key != progress_of(view(run=replace(RUN, committed=1)), spent=0, due=0).reader_key
    assert progress_of(view(now=1_060), spent=0, due=0).reader_key == first.reader_key  # "1 min", then "1 min 55 s"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"state": JobState.OPEN, "run": None, "lots": {0: lot(), 1: lot()}, "now": 1_004},
            "sealed bids for another 6 s",
        ),
        (
            {"state": JobState.OPEN, "run": None, "lots": {0: lot(attempt=2), 1: lot()}, "now": 1_010},
            "revealing bids for another 10 s (attempt 2)",
        ),
        ({"state": JobState.OPEN, "run": None, "lots": {0: lot(), 1: lot()}, "now": 1_020}, "too few bids"),
        (
            {
                "state": JobState.OPEN,
                "run": None,
                "lots": {0: lot(revealed=1, units_uncapped=3), 1: lot(phase=4)},
                "now": 1_020,
            },
            "clearing",
        ),
        ({"state": JobState.AWARDED, "run": replace(RUN, missing=0b01)}, "2 of 3 slots"),
        ({"seats": {0: Seat(0, 0, 2, 10, 0, 0, 5, 1_000)}}, "2 slots vacant"),
        ({"run": replace(RUN, missing=0)}, "aggregation by operator 9"),
        (
            {"run": replace(RUN, missing=0), "seats": {AGGREGATOR_SEAT: Seat(0, 0, 1, 7, 0, 0, 0, 1_000)}},
            "aggregation vacant",
        ),
        (
            {"state": JobState.ENDED, "checkpoints": (aggregation(1, deadline=1_030),)},
            "final in 25 s",
        ),
        ({"state": JobState.CANCELLED, "run": None}, ""),
    ],
)
def test_waiting_for__says_what_comes_next(changes: dict[str, Any], expected: str) -> None:
    assert expected in waiting_for(view(**changes))
    assert bool(expected) == bool(waiting_for(view(**changes)))


# -- the trainer


def test_trainer__of_an_unknown_model__names_the_nearest_and_lists_the_known(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    with pytest.raises(UserError, match="unknown model 'gpt-1M'; did you mean 'gpt-1m'") as refused:
        DistributedTrainer(model="gpt-1M", dataset=tmp_path / "text", nodes=2, budget_tokens=1e6, max_budget=1)
    assert "gpt-100k, gpt-1m" in refused.value.hint


def test_trainer__derives_rounds_from_the_tokens(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    trainer = DistributedTrainer(
        model="gpt-100k",
        dataset=tmp_path / "text",
        nodes=4,
        budget_tokens=300_000,
        max_budget=100,
        training={"inner_steps": 50},
    )
    job = trainer.job_description
    assert (job.training.slots, job.training.rounds) == (4, 3)  # 4 * 50 * 8 * 64 = 102,400 tokens a round
    with pytest.raises(UserError, match="no data at"):
        DistributedTrainer(model="gpt-100k", dataset="./nowhere", nodes=4, budget_tokens=1, max_budget=1)
    with pytest.raises(UserError, match="budget_tokens"):
        DistributedTrainer(model="gpt-100k", dataset=tmp_path / "text", nodes=4, budget_tokens=-1, max_budget=1)
