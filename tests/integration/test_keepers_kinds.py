"""Keepers' lanes explore false training, updates and aggregations to their end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from keepers.decisions.requests import aggregation_check_request, verify_request
from keepers.queue.work_queue import WorkStatus
from keepers.services.disputing import Disputing
from node.disputes import player
from node.disputes.computation import SlotRound
from tests.support.disputed_job import Dispute
from tests.support.trained_claims import LIE, SLOT, LyingAggregation, LyingUpdate, Trained, computed, lying
from zoo_compute.chain.explorations import read_disputes
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.clocks import End
from zoo_compute.spec.frames import Kind

pytestmark = pytest.mark.integration

LOOKS = 100  # more than a dispute has asks, each sealed before


@pytest.mark.parametrize("kind", list(Kind))
def test_a_keeper__convicts_a_false_claim_that_another_keeper_defends(
    devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
):
    work = Trained(tmp_path / "work", kind)
    dispute, chain = Dispute(devnet, work), devnet.chain
    author = dispute.parties[1 if kind == Kind.AGGREGATION else 0]
    claim: Any = dispute.claim(AGGREGATOR_SEAT if kind == Kind.AGGREGATION else 0)
    view = read_job(chain, dispute.job)

    def honest(task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        return computed(work.store, task, request)

    def false(task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        with monkeypatch.context() as patch:
            patch.setattr(player, "Update", lambda *args, **options: lying(LyingUpdate(*args, **options)))
            patch.setattr(player, "Aggregation", lambda *args, **options: lying(LyingAggregation(*args, **options)))
            made = LIE.slot_round if kind == Kind.TRAINING else SlotRound
            return computed(work.store, task, request, made=made)

    request = (
        aggregation_check_request(view, claim) if kind == Kind.AGGREGATION else verify_request(view, claim, SLOT, None)
    )
    report = honest("work.check" if kind == Kind.AGGREGATION else "work.verify", "it", request).result
    assert report is not None
    stranger = dispute.parties[2].sender
    lanes = [
        Disputing(chain, author.sender, false, operator=author.id, folder=tmp_path / "author"),
        Disputing(chain, stranger, honest, operator=0, folder=tmp_path / "stranger", secret=b"s"),
    ]
    before, coin = chain.zen.balanceOf(stranger.address), chain.coin(stranger.address)
    lanes[1].challenge(dispute.job, claim, [report["dispute"]])
    for _ in range(LOOKS):
        if not [lane.poll_once() for lane in lanes][-1]:
            break
        time.sleep(0.2)
    [explored] = read_disputes(chain, chain.head())
    assert explored.end == End.JUDGED, "it was evidence that ended it, not silence"
    [convicted] = [each for each in read_job(chain, dispute.job).claims if each.fields == claim.fields]
    assert convicted.state == ClaimState.CONVICTED
    # What it prepaid came back, and its seal of the step brings its share.
    assert chain.zen.balanceOf(stranger.address) == before
    assert chain.coin(stranger.address) > coin - 10**17
    assert [event.name for event in explored.events].count("SealOpened") == 1
    devnet.warp_to(chain.now() + chain.params.clocks.opening_s + 1)
    lanes[1].poll_once()
    assert chain.zen.balanceOf(stranger.address) > before
    assert not lanes[1].poll_once()
