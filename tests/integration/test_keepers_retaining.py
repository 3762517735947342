"""Keepers' retention on a devnet, with real stores and gateways: what is needed stays, what is not goes, and who leaves is made up for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.config import from_dict
from keepers.decisions.requests import pin_request
from keepers.services.disk_space import DiskSpace
from keepers.services.retention import Retention
from node import tasks
from tests.support.devnet_driver import DevnetOperator
from tests.support.disputed_job import Dispute
from tests.support.small_job import SmallJob, publish
from zoo_compute.chain.connection import connect
from zoo_compute.chain.event_log import use_store
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import AGGREGATOR_SEAT, JobState, JobView
from zoo_compute.client.copies import Redundancy
from zoo_compute.client.job import Job
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.formats.bundles import Pointer
from zoo_compute.formats.tags import job_tag
from zoo_compute.spec.retention import KEEP_DAYS, SPARE_S
from zoo_compute.store import BlockStore, Gateway
from zoo_compute.store.cid import digest_of, raw_cid

pytestmark = pytest.mark.integration

ROUNDS, KEEP_EVERY, SLOTS = 4, 2, 2
APART_S = 100


class Trained:
    """A job of two operators, each with a store of its own: the first trains slot 0, the second slot 1, and aggregates."""

    def __init__(self, folder: Path) -> None:
        first = publish(folder / "one", rounds=ROUNDS, slots=SLOTS, quorum=SLOTS)
        first.manifest = replace(first.manifest, keep_every=KEEP_EVERY)
        first.base["manifest"] = first.store.add(first.manifest.to_bytes())
        self.gateways = [Gateway(first.store).start()]
        store = BlockStore(folder / "two", [self.gateways[0].url])
        self.gateways.append(Gateway(store).start())
        first.store.set_peers([self.gateways[1].url])
        self.jobs = [first, SmallJob(store, first.manifest, first.programs, dict(first.base))]
        self.updates: list[list[str]] = []  # by round and slot

    @property
    def terms(self) -> dict[str, Any]:
        base = self.jobs[0].base
        roots = {"work_root": base["work_root"], "state_root": base["start_root"], "data_root": base["data_root"]}
        states: dict[str, Any] = {name: bytes.fromhex(root) for name, root in roots.items()}
        return states | {"manifest": digest_of(base["manifest"]), "flops": base["flops"], "rounds": ROUNDS}

    def commit(self, slot: int, operator: int) -> tuple[bytes, bytes]:
        if slot == 0:
            self.updates.append([])
        for job in self.jobs:
            job.bundles = job.bundles[:slot]
        self.updates[-1].append(self.jobs[slot].train(slot)["update"])
        made = self.jobs[slot].commit(operator, [slot])
        self.jobs[1 - slot].bundles.append(made)
        return bytes.fromhex(made["root"]), digest_of(made["bundle"])

    def aggregate(self) -> tuple[bytes, bytes]:
        made = self.jobs[1].aggregate()
        for job in self.jobs:
            job.base |= {"round": made["round"] + 1, "checkpoint": made["pointer"], "start_root": made["root"]}
        return bytes.fromhex(made["root"]), digest_of(made["pointer"])


@dataclass
class Stage:
    """The job on its devnet with every round claimed, and three operators' lanes; the third one bid, and has an empty store."""

    devnet: Devnet
    dispute: Dispute
    trained: Trained
    stores: list[BlockStore]
    gateways: list[Gateway]
    lanes: list[Retention]

    @property
    def view(self) -> JobView:
        return read_job(self.devnet.chain, self.dispute.job)

    def poll_once(self, *lanes: int) -> None:
        for lane in lanes:
            self.lanes[lane].record(self.view)
            self.lanes[lane].poll_once()

    def finalise(self, *turns: int) -> None:
        chain, party = self.devnet.chain, self.dispute.parties[2]
        for turn in turns:
            for claims in self._by_operator(turn):
                party.send(chain.settlement.finalise(self.dispute.job, claims))

    def _by_operator(self, turn: int) -> Iterator[list[Any]]:
        for claim in self.view.claims:
            if claim.turn == turn:
                yield [claim.fields]

    def files(self, number: int) -> tuple[str, str]:
        """Of a checkpoint: pointer and state."""
        pointer = raw_cid(self.view.checkpoint_cids[number][0])
        for store in self.stores:
            if store.has(pointer):
                return pointer, Pointer.from_bytes(store.read(pointer, max_bytes=8192)).state
        raise AssertionError(f"nobody has the pointer of checkpoint {number}")

    def redundancy(self) -> Redundancy | None:
        urls = {party.id: gateway.url for party, gateway in zip(self.dispute.parties, self.gateways, strict=True)}
        client: Any = SimpleNamespace(
            chain=self.devnet.chain, store=self.stores[1], use_peers=lambda: None, endpoints=lambda: urls
        )
        return Job(client, self.dispute.job).redundancy()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("retaining")
    with Devnet(folder / "chain") as devnet, ExitStack() as stack:
        trained = Trained(folder)
        dispute = Dispute(devnet, trained)
        for _ in range(1, ROUNDS):
            devnet.warp_to(devnet.chain.head().timestamp + APART_S)
            dispute.commit_all(dispute.job)
            dispute.post_checkpoint(dispute.job)
        third = BlockStore(folder / "three", [gateway.url for gateway in trained.gateways])
        stores = [*(job.store for job in trained.jobs), third]
        gateways = [*trained.gateways, Gateway(third).start()]
        for gateway in gateways:
            stack.callback(gateway.stop)
        endpoints = {party.id: gateway.url for party, gateway in zip(dispute.parties, gateways, strict=True)}
        lanes = [_lane(devnet, party, store, endpoints) for party, store in zip(dispute.parties, stores, strict=True)]
        yield Stage(devnet, dispute, trained, stores, gateways, lanes)


def _lane(devnet: Devnet, party: DevnetOperator, store: BlockStore, endpoints: dict[int, str]) -> Retention:
    folder = store.root.parent / f"keeper-{party.id}"
    folder.mkdir()
    config = from_dict({"name": "keeper", "network": "n", "operator": party.id}, folder)
    chain = connect(devnet.network)
    use_store(chain, folder / "events.sqlite3", party.id)
    lane = Retention(config, chain, store, DiskSpace(config, store))
    lane.endpoints = endpoints
    return lane


def test_a_job__keeps_what_its_claims_need__then_what_outlives_it__and_its_redundancy_is_repaired(stage: Stage) -> None:
    one, two, three = stage.stores
    assert stage.view.state == JobState.ENDED
    everything = [cid for updates in stage.trained.updates for cid in updates]

    # -- every claim is pending: nothing goes, however late it is
    stage.devnet.warp_to(stage.devnet.chain.head().timestamp + 2 * SPARE_S)
    stage.poll_once(0, 1)
    assert all(two.is_pinned(cid) for cid in everything), "the aggregator fetched the others"
    assert all(two.is_pinned(cid) for number in range(1, ROUNDS) for cid in stage.files(number))

    # -- the claims of the last round are pending alone
    mine = stage.files(1)
    one.pin(mine[0])  # as the operator's user does
    gone, latest = stage.files(1)[1], stage.files(2)
    stage.finalise(0, 1, 2)
    assert stage.view.final_rounds == ROUNDS - 1
    stage.poll_once(0, 1)
    assert not any(store.has(gone) for store in (one, two)), "between two that are kept"
    assert one.has(mine[0])
    assert not two.has(mine[0])
    assert not any(two.has(cid) for updates in stage.trained.updates[:2] for cid in updates)
    assert all(two.has(cid) for updates in stage.trained.updates[2:] for cid in updates)
    assert all(store.is_pinned(cid) for store in (one, two) for cid in latest)
    for store in (one, two):  # nothing is garbage that is still needed
        store.collect_garbage()
    last = stage.trained.jobs[1]
    request = last.base | {
        "round": ROUNDS - 1,
        "checkpoint": stage.files(3)[0],
        "start_root": stage.view.checkpoint_roots[3].hex(),
    }
    verified = _verified(stage, request)
    assert all(report["agrees"] for report in verified)

    # -- every claim is final, and the job closed
    between = stage.files(3)[1]
    stage.finalise(3)
    assert stage.view.closed
    tasks.run_pinning(pin_request(stage.view), one)  # as its keeper asks for when the job is closed
    stage.poll_once(0, 1)
    assert not any(store.has(between) for store in (one, two))
    assert all(store.tags() == {job_tag(stage.dispute.job)} for store in (one, two))
    kept = [cid for number in (2, 4) for cid in stage.files(number)]
    assert all(store.is_pinned(cid, tag=job_tag(stage.dispute.job)) for store in (one, two) for cid in kept)
    own = [last.base["manifest"], last.manifest.program.cid, last.manifest.data.cid, last.manifest.state.cid]
    assert all(store.is_pinned(cid) for store in (one, two) for cid in own)
    for store in (one, two):
        store.collect_garbage()
    assert all(store.has(cid) for store in (one, two) for cid in kept)

    # -- with copies enough nobody else fetches one; then a holder leaves
    stage.poll_once(2)
    stage.poll_once(2)
    assert stage.redundancy() == Redundancy(wanted=2, confirmed=2)
    assert three.pins() == set()
    stage.gateways[0].stop()
    assert stage.redundancy() == Redundancy(wanted=2, confirmed=1)
    stage.poll_once(2)
    assert three.pins() == set(), "it may be back at the next look"
    stage.poll_once(2)
    stage.poll_once(2)
    assert three.pins() == set(kept)
    assert stage.redundancy() == Redundancy(wanted=2, confirmed=2)

    # -- keep_days after it was closed
    for lane in stage.lanes:
        assert lane._chain.event_store is not None
        head = lane._chain.head()
        lane._chain.event_store.jobs_to_read(head)
        lane._chain.event_store.finish(stage.dispute.job, head.number)
    stage.poll_once(1, 2)
    assert all(store.has(cid) for store in (two, three) for cid in kept)
    # And a minute: the newest block may be the one that closed it, and anvil's clock may be behind its blocks.
    stage.devnet.warp_to(stage.devnet.chain.head().timestamp + KEEP_DAYS * 86_400 + 60)
    stage.poll_once(1, 2)
    assert (two.tags(), three.tags(), three.pins()) == (set(), set(), set())
    assert not any(three.has(cid) for cid in kept)


def _verified(stage: Stage, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The last round's slots done again by the second operator, from its own store alone."""
    store = stage.stores[1]
    store.set_peers([])
    commits = [claim for claim in stage.view.commits if claim.round == ROUNDS - 1 and claim.seat != AGGREGATOR_SEAT]
    reports = []
    for commit in commits:
        asked = {"slot": commit.first, "operator": commit.operator, "bundle": raw_cid(commit.bundle)}
        reports.append(tasks.run_verification(request | asked | {"root": commit.root.hex()}, store))
    return reports
