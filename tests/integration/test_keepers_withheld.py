"""A liar that serves its results to nobody, and answers every demand on chain, is asked about with what it answered."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hexbytes import HexBytes

from keepers.config import from_dict
from keepers.queue.work_queue import WorkStatus
from keepers.services.checkpoint_trees import CheckpointTrees
from keepers.services.demand_responder import DemandResponder, opening_of
from keepers.services.disputing import Disputing
from keepers.services.verification import Verifier, read_reports
from tests.support.disputed_job import Dispute
from tests.support.trained_claims import SLOT, Trained, computed
from zoo_compute.chain.answered_results import published_result
from zoo_compute.chain.demands import Demand
from zoo_compute.chain.explorations import read_disputes
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import Commit
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.paths import REPORTS
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.params import STRANGERS_LANE
from zoo_compute.store import BlockStore

pytestmark = pytest.mark.integration


class Withholding:
    """A job in which the first operator's result is false; who verifies has the job's files, and none of the author's."""

    def __init__(self, devnet: Devnet, folder: Path) -> None:
        self.folder, self.work = folder, Trained(folder / "author", Kind.TRAINING)
        shutil.copytree(folder / "author" / "store", folder / "verifier" / "store")
        self.store = BlockStore(folder / "verifier" / "store")
        self.dispute = Dispute(devnet, self.work)
        self.chain, self.asked = devnet.chain, 0

    @property
    def claim(self) -> Commit:
        claim = self.dispute.claim(0)
        assert isinstance(claim, Commit)
        return claim

    def demand(self) -> None:
        stranger = self.dispute.parties[2]
        args: Any = (self.dispute.job, self.claim.fields, STRANGERS_LANE, SLOT, 3, 1)
        stranger.send(self.chain.availability.demand(*args), value=10**16)

    def newest(self) -> Demand:
        return read_job(self.chain, self.dispute.job).demands[-1]

    def verifier(self) -> Verifier:
        """As a keeper has it; what is asked for is computed at once."""
        config = from_dict({"name": "eye", "network": "n", "roles": ["verifier"], "sample_rate": 0.0}, self.folder)
        return Verifier(config, self._compute, b"s", partial(published_result, self.chain))

    def _compute(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        self.asked += 1
        return computed(self.store, task, request)


@pytest.fixture
def withholding(tmp_path: Path) -> Iterator[Withholding]:
    devnet = Devnet(tmp_path / "chain").start()
    try:
        yield Withholding(devnet, tmp_path)
    finally:
        devnet.stop()


def test_a_result_that_only_an_answer_on_chain_shows__is_judged_and_asked_about(withholding: Withholding):
    case, chain, stranger = withholding, withholding.chain, withholding.dispute.parties[2]
    verifier = case.verifier()
    verifier.observe(read_job(chain, case.dispute.job))
    assert case.asked == 0, "nothing is drawn, and nothing was asked of its author"
    case.demand()
    author = case.dispute.parties[0]
    DemandResponder(author.id, chain, author.sender, case.work.store).poll_once()
    assert case.newest().end == "bytes"
    verifier.observe(read_job(chain, case.dispute.job))
    verifier.observe(read_job(chain, case.dispute.job))
    [report] = read_reports(case.folder / REPORTS)
    assert (report["agrees"], report["field"], case.asked) == (False, "segment_root", 1)
    reports = case.folder / REPORTS
    Disputing(chain, stranger.sender, case._compute, operator=0, folder=case.folder, reports=reports).poll_once()
    [disputed] = read_disputes(chain, chain.head())
    [asked] = disputed.picture.nodes.values()
    assert (disputed.operator, asked.frame.kind, asked.frame.slot) == (author.id, Kind.TRAINING, SLOT)


def test_an_answer_through_another_contract__is_read_too(withholding: Withholding):
    case, w3 = withholding, withholding.chain.w3
    case.demand()
    availability = case.chain.network.contracts["availability"]
    # Passes its calldata on: calldatacopy, call, stop.
    forwarder = "6021806009 3d393df3" + "363d3d37 3d3d363d3d73" + availability[2:] + "5af100"
    anybody = w3.eth.accounts[0]
    deployed = w3.eth.wait_for_transaction_receipt(
        w3.eth.send_transaction({"from": anybody, "data": HexBytes(forwarder.replace(" ", ""))})
    )
    opening: Any = opening_of(case.work.store, case.work.job.base["manifest"], case.newest(), 5, CheckpointTrees())
    values = tuple(getattr(opening, name) for name in opening.__dataclass_fields__)
    args: Any = (case.dispute.job, case.claim.fields, STRANGERS_LANE, values)
    data = HexBytes(case.chain.availability.answer(*args).encode())
    w3.eth.wait_for_transaction_receipt(
        w3.eth.send_transaction({"from": anybody, "to": deployed["contractAddress"], "data": data, "gas": 3_000_000})
    )
    assert case.newest().end == "bytes"
    case.verifier().observe(read_job(case.chain, case.dispute.job))
    assert [report["field"] for report in read_reports(case.folder / REPORTS)] == ["segment_root"]
