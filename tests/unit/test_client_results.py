"""Results are proved before they are written; progress and money are what the chain's events say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from web3.exceptions import TransactionNotFound, Web3ValueError

from repops import commitments, files
from zoo_compute import DistributedTrainer
from zoo_compute.chain.events import Event
from zoo_compute.chain.views import AggregatorSeat, Checkpoint, Commit, JobState, JobView, Lot, Run, Seat, Terms
from zoo_compute.errors import Unreachable, UserError
from zoo_compute.job import ComputeJob
from zoo_compute.ledger import job_account
from zoo_compute.manifest import StateFile
from zoo_compute.posted import Job, Redundancy
from zoo_compute.progress import LossReader, progress_of, waiting_for
from zoo_compute.records import MAX_POINTER_BYTES, Bundle, Pointer, SlotResult
from zoo_compute.results import fetch
from zoo_compute.store import BlockStore, ContentMissing, ContentTampered, digest_of
from zoo_compute.store.errors import ContentRefused

ROOT0 = bytes(32)
TERMS = Terms("0xZ", ROOT0, ROOT0, ROOT0, ROOT0, 2, 3, 2, 1, 2, 1, 2, 60, 30, 20, 10**9)
RUN = Run(3, 1, 2, 3, 2, 1_000, 4, 60, 60, 30, 9, 7, 1_150, "0xZ", 16, 10**9, 0b111, 0, 0)


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
        "seats": {1: Seat(10, 32, 5, 1_000, 0b011, 0), 2: Seat(11, 16, 5, 1_000, 0b100, 0)}, "aggregator_seats": {9: AggregatorSeat(7, 48)},
        "vacancies": {}, "checkpoint_roots": {0: ROOT0}, "checkpoint_cid": bytes(32), "commits": (), "checkpoints": (),
    }  # fmt: skip
    return JobView(**(values | changes))


# -- results


@pytest.fixture
def trained(tmp_path: Path) -> tuple[BlockStore, dict[str, np.ndarray], JobView]:
    store = BlockStore(tmp_path / "store")
    state = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "outer/w": np.ones((2, 3), np.float32)}
    return store, state, published(store, state, commitments.state_root(state))


def published(store: BlockStore, state: dict[str, np.ndarray], root: bytes, job: int = 5) -> JobView:
    cid = store.add(files.state_bytes(state))
    digest = digest_of(store.add(Pointer(job, 0, cid, root, 0b111).to_bytes()))
    return view(checkpoint_roots={0: ROOT0, 1: root}, checkpoint_cid=digest)


def test_result__is_verified_and_holds_the_parameters_alone(trained: Any, tmp_path: Path) -> None:
    store, state, job = trained
    result = fetch(job, store, tmp_path / "out" / "model.safetensors")
    assert (result.round, result.rounds, result.final, result.parameters) == (1, 2, False, 6)
    assert result.root == "0x" + commitments.state_root(state).hex()
    found = files.load_state(result.path)
    assert list(found) == ["w"]
    assert np.array_equal(found["w"], state["w"])
    assert set(files.load_state(fetch(job, store, tmp_path / "whole", whole=True).path)) == {"w", "outer/w"}
    assert not [path for path in tmp_path.rglob(".zoo-*")]


def test_result__that_differs_in_one_bit_from_the_chain__is_refused_and_not_written(
    trained: Any, tmp_path: Path
) -> None:
    store, state, _ = trained
    state["w"].view(np.uint32)[0, 0] ^= 1
    job = published(store, state, commitments.state_root({**state, "w": np.arange(6, dtype=np.float32).reshape(2, 3)}))
    with pytest.raises(ContentTampered, match="the chain says"):
        fetch(job, store, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_result__of_another_jobs_pointer_or_nonsense__is_refused(trained: Any, tmp_path: Path) -> None:
    store, state, _ = trained
    with pytest.raises(ContentTampered, match=r"of job 6, round 0, .*expected job 5"):
        fetch(published(store, state, ROOT0, job=6), store, tmp_path / "model")
    late = replace(published(store, state, ROOT0), checkpoint_roots={0: ROOT0, 1: ROOT0, 2: ROOT0})
    with pytest.raises(ContentTampered, match="expected job 5, round 1"):
        fetch(late, store, tmp_path / "model")
    huge = digest_of(store.add(b" " * (MAX_POINTER_BYTES + 1)))
    with pytest.raises(ContentRefused):
        fetch(view(checkpoint_roots={0: ROOT0, 1: ROOT0}, checkpoint_cid=huge), store, tmp_path / "model")
    nonsense = digest_of(store.add(b"[1, 2"))
    with pytest.raises(ContentTampered, match="no pointer"):
        fetch(view(checkpoint_roots={0: ROOT0, 1: ROOT0}, checkpoint_cid=nonsense), store, tmp_path / "model")


def test_result__that_nobody_has__is_told(tmp_path: Path) -> None:
    with pytest.raises(ContentMissing):
        fetch(
            view(checkpoint_roots={0: ROOT0, 1: ROOT0}, checkpoint_cid=b"\1" * 32),
            BlockStore(tmp_path / "s"),
            tmp_path / "model",
        )


def test_result__is_final_when_every_window_has_passed(trained: Any, tmp_path: Path) -> None:
    store, _, job = trained
    claim = Checkpoint(0, 9, 7, ROOT0, ROOT0, 1_100, False, 20)
    ended = replace(job, state=JobState.ENDED, checkpoints=(claim,))
    assert not fetch(replace(ended, now=1_100), store, tmp_path / "model").final
    assert fetch(replace(ended, now=1_101), store, tmp_path / "model").final


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
    manifest = config.manifest(initial, outline.data, outline.heldout)
    store.add(manifest.to_bytes())
    made = published(store, {"w": np.zeros(2, np.float32)}, ROOT0)
    looked = view(terms=replace(TERMS, manifest=manifest.digest), checkpoint_roots={0: root})
    if done:
        looked = replace(looked, checkpoint_roots={0: root, 1: ROOT0}, checkpoint_cid=made.checkpoint_cid)
    asked: list[str] = []

    def confirmed(cid: str, urls: list[str]) -> list[str]:
        asked.append(cid)
        return urls[: 2 if len(asked) == 1 else 1]  # the second store has the pointer alone

    monkeypatch.setattr("zoo_compute.posted.confirmations", confirmed)
    monkeypatch.setattr("zoo_compute.posted.read_job", lambda *_: looked)
    client: Any = SimpleNamespace(store=store, chain=None, use_peers=lambda: None, endpoints=lambda: {1: "u", 2: "v"})
    assert Job(client, 5).redundancy() == Redundancy(wanted=3, confirmed=1 if done else 2)
    assert (initial.cid in asked) == (not done)
    assert len(asked) == 1 + done
    looked = replace(looked, terms=replace(TERMS, manifest=b"\1" * 32))
    assert Job(client, 5).redundancy() is None, "nobody serves the manifest"


# -- progress


def test_progress__counts_slots_losses_and_money(tmp_path: Path) -> None:
    store = BlockStore(tmp_path / "s")
    told: list[tuple[float | None, float | None]] = [(5.0, 4.0), (5.0, 3.0), (1.0, 1.0), (5.0, None)]
    results = tuple(SlotResult(slot, "b", ROOT0, ROOT0, ROOT0, ROOT0, loss, 1.0) for slot, loss in enumerate(told))
    digest = digest_of(store.add(Bundle(5, 0, 1, results).to_bytes()))
    foreign = digest_of(store.add(Bundle(6, 0, 1, results).to_bytes()))
    commits = (
        Commit(0, 1, 0b1011, ROOT0, digest, 1_060, False, 20),
        Commit(1, 2, 0b100, ROOT0, foreign, 1_060, False, 30),
    )
    job = view(commits=commits, run=replace(RUN, missing=0b011))
    losses = LossReader(store).losses(job)
    assert losses == (3.5, None)  # slot 2 is not in the bitmap, slot 3 diverged; the second bundle is of another job
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


def test_progress__told__differs_in_everything_but_the_clock() -> None:
    first, later = (progress_of(view(now=now), spent=0, due=0) for now in (1_005, 1_006))
    assert first.waiting_for != later.waiting_for
    assert first.told == later.told
    assert first.told != progress_of(view(run=replace(RUN, missing=1)), spent=0, due=0).told
    assert progress_of(view(now=1_060), spent=0, due=0).told == first.told  # "1 min", then "1 min 55 s"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"state": JobState.OPEN, "run": None, "lots": {0: lot(), 1: lot()}, "now": 1_004}, "sealed for another 6 s"),
        (
            {"state": JobState.OPEN, "run": None, "lots": {0: lot(attempt=2), 1: lot()}, "now": 1_010},
            "opened for another 10 s (attempt 2)",
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
        ({"state": JobState.AWARDED, "run": replace(RUN, missing=0b101)}, "2 of 3 slots"),
        ({"run": replace(RUN, vacant=0b010)}, "slot 1 vacant"),
        ({"run": replace(RUN, missing=0)}, "aggregation by operator 9"),
        ({"run": replace(RUN, missing=0, aggregator=0)}, "aggregation vacant"),
        (
            {"state": JobState.ENDED, "checkpoints": (Checkpoint(1, 9, 7, ROOT0, ROOT0, 1_030, False, 20),)},
            "final in 25 s",
        ),
        ({"state": JobState.CANCELLED, "run": None}, ""),
    ],
)
def test_waiting_for__says_what_comes_next(changes: dict[str, Any], told: str) -> None:
    assert told in waiting_for(view(**changes))
    assert bool(told) == bool(waiting_for(view(**changes)))


# -- money


class Chain:
    """Answers `scan` with given events, and each penalty's transaction with the function that made it."""

    functions = {b"aaaa": "time_out", b"bbbb": "decline"}  # noqa: RUF012
    calls = {"0xa": b"aaaa12", "0xb": b"bbbb", "0xc": b"through another contract"}  # noqa: RUF012

    def __init__(self) -> None:
        self.w3 = self
        self.eth = self
        self.contracts = {"settlement": self}
        self.causes: dict[str, str] = {}
        self.down = False

    def get_transaction(self, tx: str) -> dict[str, bytes]:
        if self.down:
            raise Unreachable("no RPC answers")
        if tx not in self.calls:
            raise TransactionNotFound(tx)
        return {"input": self.calls[tx]}

    def get_function_by_selector(self, selector: bytes) -> Any:
        if selector not in self.functions:
            raise Web3ValueError("no such function")
        return type("F", (), {"fn_name": self.functions[selector]})


def event(index: int, name: str, tx: str = "0x0", **args: Any) -> Event:
    return Event(name, "settlement", 20 + index, index, tx, b"", {"job": 5, **args})


def test_job_account__balances_and_says_why_somebody_was_slashed(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        event(0, "JobPosted", escrow=100),
        event(1, "SlotsVacated", "0xa", operator=2, round=0, bitmap=0b100, slashed=3),
        event(2, "SlotTakenOver", operator=1, round=0, slot=2, escrow_price=10, pot_price=1, burned=1),
        event(3, "Paid", "0x1", account="0xO", net=19, fee=1),
        event(4, "ClaimFinalised", "0x1", operator=1, round=0, key=0, paid=20, fee=1, from_pot=1),
        event(5, "BidReclaimed", operator=3, kind=0, forfeited=5),
        event(6, "BidReclaimed", operator=4, kind=0, forfeited=0),
    ]
    monkeypatch.setattr("zoo_compute.ledger.scan", lambda *_, **__: iter(events))
    commits = (Commit(0, 1, 0b011, ROOT0, ROOT0, 1_001, True, 20), Commit(1, 1, 0b011, ROOT0, ROOT0, 1_060, False, 30))
    checkpoints = (Checkpoint(0, 9, 7, ROOT0, ROOT0, 1_060, False, 25),)
    found = job_account(Chain(), view(commits=commits, checkpoints=checkpoints))  # type: ignore[arg-type]
    assert found.escrowed == found.paid + found.fee + found.refunded + found.held
    assert (found.paid, found.fee, found.held, found.from_pot, found.slashed) == (19, 1, 80, 1, 8)
    assert [(c.round, c.kind, c.state, c.amount) for c in found.claims] == [
        (0, "slots", "paid", 20),
        (0, "aggregation", "challenge window", 7),
        (1, "slots", "in round", 20),
    ]
    assert found.committed == 27
    assert [(p.operator, p.why, p.amount) for p in found.penalties] == [
        (2, "did not commit in time", 3),
        (3, "did not open its bid", 5),
    ]
    assert found.to_dict()["claims"][0]["amount"] == "20"


def test_cause_of_a_penalty__is_never_guessed_from_an_rpc_that_is_down() -> None:
    chain, slashed = Chain(), {"operator": 2, "round": 0, "bitmap": 1, "slashed": 3}

    def why(tx: str) -> str:
        account = job_account(chain, view(), [event(0, "SlotsVacated", tx, **slashed)])  # type: ignore[arg-type]
        return account.penalties[0].why

    chain.down = True
    with pytest.raises(Unreachable):
        why("0xb")
    chain.down = False
    assert why("0xb") == "declined its slots"
    assert why("0xc") == why("0xpruned") == "left its seat"
    assert chain.causes == {"0xb": "declined its slots", "0xc": "left its seat"}  # what a node forgot is asked again
    chain.down = True
    assert why("0xb") == "declined its slots"
    assert Chain().causes == {}, "another chain's transactions are not this one's"


# -- the trainer


def test_trainer__of_an_unknown_model__lists_the_known(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    with pytest.raises(UserError, match="unknown model 'llama-7b'; built in are gpt-100k, gpt-1m"):
        DistributedTrainer(model="llama-7b", dataset=tmp_path / "text", nodes=100, budget_tokens=1e12, max_budget=1)
    with pytest.raises(UserError, match="unknown model") as refused:
        DistributedTrainer(model="gpt-1M", dataset=tmp_path / "text", nodes=2, budget_tokens=1e6, max_budget=1)
    assert "gpt-1m" in refused.value.hint


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
        DistributedTrainer(model="gpt-100k", dataset="nowhere", nodes=4, budget_tokens=1, max_budget=1)
    with pytest.raises(UserError, match="no budget given"):
        DistributedTrainer(model="gpt-100k", dataset=tmp_path / "text", nodes=4, budget_tokens=1)
    with pytest.raises(UserError, match="budget_tokens"):
        DistributedTrainer(model="gpt-100k", dataset=tmp_path / "text", nodes=4, budget_tokens=-1, max_budget=1)
