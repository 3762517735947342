"""The lane that answers demands: from the chain and the store alone, and no demand keeps another waiting."""

from __future__ import annotations

import dataclasses
import io
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from keepers.services import demand_responder
from keepers.services.checkpoint_trees import CheckpointTrees
from keepers.services.demand_responder import UNDONE_BLOCKS, DemandResponder, opening_of
from node import tasks
from node.errors import Withheld
from repops.commitments import sorted_names, state_root
from repops.files import state_bytes
from tests.keepers.answering_chain import answering_chain
from tests.keepers.test_duties import view
from tests.support.openings import SlotRound
from tests.support.small_job import SmallJob, publish
from tests.support.waiting import HANG_S
from zoo_compute import codec
from zoo_compute.chain.demands import Demand
from zoo_compute.chain.events import Event
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, Commit
from zoo_compute.codec.files import UpdateLayout, get, put
from zoo_compute.errors import Refusal
from zoo_compute.formats.bundles import Bundle, Pointer, SlotResult
from zoo_compute.formats.tags import round_tag
from zoo_compute.spec import availability, watching
from zoo_compute.spec.state import Claim as SpecClaim
from zoo_compute.store import BlockStore, Gateway
from zoo_compute.store.cid import digest_of, raw_cid
from zoo_compute.store.errors import ContentMissing
from zoo_compute.store.multiformats import Cid
from zoo_compute.training.rounds import RESIDUAL

ME, START, ANSWER_S = 1, b"\x11" * 32, 6
STATE = {"big": np.arange(5_000, dtype=np.float32), "count": np.int64([7]), "flags": np.array([True, False])}


def slot_round(slot: int, parts: UpdateLayout) -> SlotRound:
    """All words of its update are the slot's number, and what is kept of it is negative."""
    update = {name: np.full(shape, slot, np.float32) for name, shape in parts.shapes.items()}
    update |= {name: -update[name.removeprefix(RESIDUAL)] for name in parts.kept}
    return SlotRound(slot, START, ((0, START), (2, bytes([slot]) * 32)), update)


@pytest.fixture(params=["dense", "sparse"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> SmallJob:
    """Of the sparse one's updates their author keeps a part."""
    return publish(tmp_path, **({"sparse": True, "carry_rounds": 2} if request.param == "sparse" else {}))


@pytest.fixture
def store(job: SmallJob) -> BlockStore:
    return job.store


@pytest.fixture
def commit(job: SmallJob, store: BlockStore) -> Commit:
    """On slots 4 and 5, as a keeper makes it."""
    entries, parts = [], UpdateLayout.of(job.programs.graph, job.manifest)
    assert len(parts.kept) == (len(parts.shapes) if job.manifest.keeps_residuals else 0)
    for result in (slot_round(4, parts), slot_round(5, parts)):
        roots = (result.start_root, result.segment_root, result.end_root, result.update_root)
        cid = put(store, result.update, parts)
        entries.append(SlotResult(result.slot, cid, *roots, (1.0, 0.5), 0.1))
    bundle = Bundle(1, 3, ME, tuple(entries))
    digest = digest_of(store.add(bundle.to_bytes()))
    return Commit(4, 3, 0, ME, 4 << 16 | 2, 9, START, bundle.root, 99, bundle=digest)


@pytest.fixture
def checkpoint(store: BlockStore) -> Checkpoint:
    pointer = Pointer(1, 3, store.add(state_bytes(STATE)), state_root(STATE), 0b11)
    digest = digest_of(store.add(pointer.to_bytes()))
    return Checkpoint(4, 3, AGGREGATOR_SEAT, ME, 0b11, 9, START, pointer.root, 99, cid=digest)


def demand(claim: Commit | Checkpoint, slot: int, tensor: int = 0, group: int = 0, **changes: Any) -> Demand:
    return dataclasses.replace(
        Demand(claim, claim.operator, 130, slot, tensor, group, 5, False, 7, opened_at=1_000), **changes
    )


def answers(job: SmallJob, asked: Demand) -> bool:
    """Whether the specification takes what the store gives."""
    opening = opening_of(job.store, job.base["manifest"], asked, 5, CheckpointTrees())
    place = watching.Demand(slot=asked.slot, tensor=asked.tensor, group=asked.group)
    return availability.has_chunk(SpecClaim(*asked.claim.fields), place, opening)  # type: ignore[arg-type]


def test_an_opening__is_built_from_the_files_of_job_and_claim_alone(job, commit, checkpoint):
    for tensor, group in ((0, 0), (0, 3), (1, 9), (3, 0), (2**32 - 1, 2**40 - 1)):
        assert answers(job, demand(checkpoint, 0, tensor, group))
    for tensor in (*range(64), 2**32 - 1):  # every tensor, those that are kept too, and the padding behind them
        assert answers(job, demand(commit, 4 + tensor % 2, tensor, 2**40 - 1))


def of_custodians(folder: Path) -> SmallJob:
    """Its updates cover residuals, which their author sends to custodians alone."""
    made = publish(folder, sparse=True, carry_rounds=2)
    made.manifest = dataclasses.replace(made.manifest, redundancy=3)
    assert made.manifest.keeps_residuals
    assert made.manifest.custodians
    made.base["manifest"] = made.store.add(made.manifest.to_bytes())
    made.train(0)
    return made


def committed(job: SmallJob, made: dict[str, Any]) -> Commit:
    start, root = (bytes.fromhex(made[name]) for name in ("start_root", "root"))
    return Commit(4, 0, 0, 7, 1, 9, start, root, 99, bundle=digest_of(made["bundle"]))


def test_what_a_custodian_fetched_before_it_signed__answers_every_demand(tmp_path: Path) -> None:
    job = of_custodians(tmp_path)
    made, store = job.commit(7, [0]), BlockStore(tmp_path / "custodian")
    with Gateway(job.store) as gateway:
        store.set_peers([gateway.url])
        for cid in (job.base["manifest"], job.manifest.program.cid):  # held before: what the job starts from
            store.pin(cid)
        assert tasks.run_fetching(job.base | made | {"timeout_s": 20}, store)["slots"] == [0]
    store.set_peers([])
    theirs = dataclasses.replace(job, store=store)
    for tensor in (*range(64), 2**32 - 1):
        assert answers(theirs, demand(committed(job, made), 0, tensor, 2**40 - 1)), tensor
    assert store.release_tags(round_tag(1, 0)) > 0
    assert not any(store.has(cid) for cid in (job.reports[0]["update"], job.sent(0).private)), "it goes with the round"


def test_what_was_sent__is_shown_without_what_only_the_author_keeps(job, store, commit):
    parts = UpdateLayout.of(job.programs.graph, job.manifest)
    names = sorted_names([*parts.shapes, *parts.kept])
    if parts.kept:
        result = Bundle.from_bytes(store.read(raw_cid(commit.bundle), max_bytes=10**6)).result(4)
        store.unpin(get(store, result.update, parts, timeout_s=5).private)
        store.collect_garbage()
    width = 1 << (len(names) - 1).bit_length()
    for tensor in range(width):
        asked = demand(commit, 4, tensor, 2**40 - 1)
        if tensor < len(names) and names[tensor] in parts.kept:
            with pytest.raises(ContentMissing):
                answers(job, asked)
        else:
            assert answers(job, asked), tensor


@pytest.mark.parametrize("lie", ["not served", "another's", "no file", "no CID"])
def test_an_update_whose_author_keeps_back_what_custodians_answer_for__is_withheld(tmp_path: Path, lie: str) -> None:
    job = of_custodians(tmp_path)
    parts = UpdateLayout.of(job.programs.graph, job.manifest)
    sent = job.sent(0)
    if lie == "not served":
        job.store.unpin(sent.private)
        job.store.collect_garbage()
    else:
        residuals = {name: np.zeros(parts.shapes[name.removeprefix(RESIDUAL)], np.float32) for name in parts.kept}
        file = state_bytes(residuals) if lie == "another's" else b"junk"
        note = b"nowhere" if lie == "no CID" else Cid.parse(job.store.add(file)).binary
        head, _ = codec.unpack(
            io.BytesIO(job.store.read(job.reports[0]["update"], max_bytes=2**20)), parts.shapes, parts.hashes
        )
        data = codec.encode(sent.state, dataclasses.replace(head, note=note))
        job.reports[0]["update"] = job.store.add(data)
    made = job.commit(7, [0])
    with pytest.raises(Withheld) as withheld:
        tasks.run_fetching(job.base | made | {"timeout_s": 2}, job.store)
    assert withheld.value.chunks == {0: None}
    others = job.base | {"manifest": job.store.add(dataclasses.replace(job.manifest, redundancy=2).to_bytes())}
    assert tasks.run_fetching(others | made | {"timeout_s": 2}, job.store)["slots"] == [0], "nobody else needs it"


# -- the lane


class Sent(list):
    """Stands for the sender: what was sent, and what it is made to raise."""

    address = "0xH"

    def __init__(self) -> None:
        super().__init__()
        self.raises: list[Exception] = []

    def send(self, call: Any) -> Any:
        if self.raises:
            raise self.raises.pop()
        self.append(call.args)
        return SimpleNamespace(transaction_hash="0x1")


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch, job: SmallJob, store: BlockStore):
    """An answering lane over a chain that shows `demands` of job 1."""
    chain_data = SimpleNamespace(demands=[], events=[], now=1_001, read=[], sent=Sent())
    terms = dataclasses.replace(view(0).terms, manifest=digest_of(job.base["manifest"]))

    def read(chain: Any, number: int, block: int) -> Any:
        chain_data.read.append(number)
        return view(chain_data.now, job=number, demands=chain_data.demands, terms=terms)

    monkeypatch.setattr(demand_responder, "read_job", read)
    chain_data.made = DemandResponder(ME, answering_chain(chain_data, ANSWER_S), chain_data.sent, store)  # type: ignore[arg-type]
    chain_data.made._history = SimpleNamespace(events_until=lambda head: chain_data.events)
    return chain_data


def event(name: str, lane: int = 130) -> Event:
    return Event(name, "availability", 1, 0, "0x", b"", {"job": 1, "turn": 4, "seat": 0, "author": ME, "lane": lane})


def test_a_demand_of_my_claim__is_answered_those_first_that_are_due_first(lane, commit, monkeypatch):
    monkeypatch.setattr(demand_responder, "AT_ONCE", 1)
    lane.events = [event("ChunkDemanded"), event("ChunkDemanded", 3)]
    lane.demands = [demand(commit, 4), demand(commit, 5, lane=3, opened_at=996)]
    lane.made.poll_once()
    assert [(args[0], args[1], args[2]) for args in lane.sent] == [(1, commit.fields, 3), (1, commit.fields, 130)]


def test_answers__do_not_wait_for_each_others_blocks(lane, commit):
    """One after another, each a block, they were 150 in the half hour that all of them have."""
    together = threading.Barrier(4)

    def send(call: Any) -> Any:
        together.wait(HANG_S)
        lane.sent.append(call.args)
        return SimpleNamespace(transaction_hash="0x1")

    lane.sent.send = send
    lane.events = [event("ChunkDemanded", number) for number in range(4)]
    lane.demands = [demand(commit, 4, lane=number) for number in range(4)]
    lane.made.poll_once()
    assert sorted(args[2] for args in lane.sent) == [0, 1, 2, 3]


def test_a_look__reads_no_job_in_which_nothing_is_open(lane, commit):
    lane.events = [event("ChunkDemanded"), event("DemandAnswered"), event("ChunkDemanded"), event("DemandUnanswered")]
    lane.demands = [demand(commit, 4)]
    lane.made.poll_once()
    assert (lane.read, lane.sent) == ([], [])


@pytest.mark.parametrize(("head", "left"), [(2 * UNDONE_BLOCKS + 1, 3), (2 * UNDONE_BLOCKS + 2, 1)])
def test_demands_that_ended_long_ago__are_forgotten_and_open_ones_are_not(lane, head, left):
    """Every look went through all demands that the network ever saw."""
    events = [event("ChunkDemanded"), event("DemandAnswered"), event("ChunkDemanded", 3)]
    history = SimpleNamespace(
        events_until=lambda head: list(events), forget=lambda gone: [events.remove(e) for e in gone]
    )
    lane.made._history = history
    for _ in range(2):
        assert lane.made._asked_in(SimpleNamespace(number=head)) == {1}
    assert len(events) == left
    assert events[-1].args["lane"] == 3


def test_a_demand_that_ended_lately__is_remembered_as_its_end_may_be_undone(lane):
    lately = dataclasses.replace(event("DemandAnswered"), block=900)
    events = [event("ChunkDemanded"), lately]
    lane.made._history = SimpleNamespace(
        events_until=lambda head: events, forget=lambda gone: [events.remove(e) for e in gone]
    )
    assert lane.made._asked_in(SimpleNamespace(number=1_000)) == set()
    assert events[1:] == [lately]


def test_a_demand__is_seen_though_the_end_of_a_forgotten_one_is_read_again(lane):
    """From a block between the two on, where an RPC gave a false view. Unseen, it cost the claim."""
    lane.events = [event("DemandAnswered"), event("ChunkDemanded")]
    assert lane.made._asked_in(SimpleNamespace(number=1_000)) == {1}


def test_only_open_demands_of_my_claims__are_answered_and_only_in_time(lane, commit):
    lane.events = [event("ChunkDemanded")]
    theirs = dataclasses.replace(commit, operator=2, bundle=b"\7" * 32)
    lane.demands = [demand(theirs, 4), demand(commit, 4, end="bytes"), demand(commit, 4)]
    lane.now = 1_000 + ANSWER_S + 1
    lane.made.poll_once()
    assert lane.sent == []
    lane.now = 1_000 + ANSWER_S
    lane.made.poll_once()
    assert len(lane.sent) == 1


def test_what_was_demanded_of_me_as_a_custodian__is_answered_whoever_made_it(lane, checkpoint):
    lane.events = [event("ChunkDemanded")]
    theirs = dataclasses.replace(checkpoint, operator=2)
    lane.demands = [demand(theirs, 0, operator=ME)]
    lane.made.poll_once()
    assert [args[1] for args in lane.sent] == [theirs.fields]


def test_another_operators_demand__is_answered_shortly_before_its_time_is_over_if_the_data_is_here(lane, commit):
    lane.events = [event("ChunkDemanded")]
    elsewhere = dataclasses.replace(commit, operator=2, bundle=b"\7" * 32)
    lane.demands = [demand(commit, 4, operator=2), demand(elsewhere, 4, operator=2, lane=3)]
    last = 1_000 + ANSWER_S - ANSWER_S // demand_responder.LAST_PART
    lane.now = last - 1
    lane.made.poll_once()
    assert lane.sent == [], "the first part is whom it is demanded of"
    lane.now = last
    lane.made.poll_once()
    assert [args[2] for args in lane.sent] == [130]
    lane.demands = [
        demand(commit, 4, operator=2, lane=1, help_tx="0x1"),  # somebody else was faster
        demand(commit, 4, operator=2, lane=2, demander="0xH"),  # I demand it
        demand(commit, 4, operator=ME, lane=3, help_tx="0x1"),  # mine still counts
    ]
    lane.made.poll_once()
    assert [args[2] for args in lane.sent] == [130, 3]


@pytest.mark.parametrize("trouble", [Refusal("availability: no demand"), ContentMissing("gone"), ValueError("odd")])
def test_a_demand_that_cannot_be_answered__does_not_keep_the_others_waiting(lane, commit, trouble):
    lane.events = [event("ChunkDemanded")]
    lane.demands = [demand(commit, 4), demand(commit, 5, lane=3)]
    lane.sent.raises = [trouble]
    lane.made.poll_once()
    assert [args[2] for args in lane.sent] == [3]
    lane.made.poll_once()
    assert [args[2] for args in lane.sent] == [3, 130, 3], "what failed is tried again"


def test_files_that_are_gone_or_are_others__are_told(lane, store, commit, caplog):
    lane.events = [event("ChunkDemanded")]
    junk = dataclasses.replace(commit, bundle=digest_of(store.add(b"junk")))
    lane.demands = [demand(dataclasses.replace(commit, bundle=b"\7" * 32), 4), demand(junk, 4, lane=2)]
    lane.made.poll_once()
    assert lane.sent == []
    assert "not answered yet" in caplog.text
    assert "not what was committed" in caplog.text
