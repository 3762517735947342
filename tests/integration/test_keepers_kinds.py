"""Keepers' lanes explore false training, updates and aggregations to their end; `zoo verify` names auditors who attested a lie."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak
from web3.types import RPCEndpoint

from keepers.decisions.requests import aggregation_check_request, verify_request
from keepers.queue.work_queue import WorkStatus
from keepers.services.disputing import Disputing
from node.disputes import player
from node.disputes.computation import SlotRound
from tests.support.disputed_job import Dispute
from tests.support.trained_claims import LIE, SLOT, LyingAggregation, LyingUpdate, Trained, computed, lying
from zoo_compute.chain.explorations import read_disputes
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState
from zoo_compute.cli import main as cli
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.clocks import End
from zoo_compute.spec.frames import Kind

pytestmark = pytest.mark.integration

LOOKS = 100  # more than a dispute has asks, each sealed before


@pytest.fixture
def devnet(tmp_path: Path) -> Iterator[Devnet]:
    with Devnet(tmp_path / "chain") as running:
        yield running


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


def test_verify__names_the_auditor_who_attested_another_state(
    devnet: Devnet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    work = Trained(tmp_path / "work", None)
    dispute, chain, audits = Dispute(devnet, work), devnet.chain, devnet.chain.audits
    auditor, claim, salt = dispute.parties[2], dispute.claim(0), b"\x05" * 32
    segments = len(work.job.manifest.segments()) - 1
    states = [bytes.fromhex(root) for _, root in work.job.reports[SLOT]["segments"]]
    submitter = Sender(chain, devnet.account("submitter"), folder=devnet.folder)
    submitter.send(chain.zen.approve(audits.address, 2**256 - 1))
    submitter.send(audits.offer(dispute.job, 1, 10_000, segments))
    submitter.send(audits.fund(dispute.job, 100))
    auditor.send(chain.zen.approve(audits.address, 2**256 - 1))
    auditor.send(audits.enlist(auditor.id, chain.params.audit_bond))
    devnet.warp_to(chain.now() + 2)
    auditor.send(audits.schedule(dispute.job, 0))
    chain.w3.provider.make_request(RPCEndpoint("anvil_mine"), [hex(chain.params.draw_blocks + 2)])
    auditor.send(audits.draw(dispute.job, 0))
    attested = {SLOT * segments: states[1], SLOT * segments + 1: b"\x66" * 32}  # by unit: the second is a lie
    for unit, root in attested.items():
        values = (dispute.job, 0, unit, auditor.id, auditor.account.address, root, salt)
        seal = keccak(encode(["uint256"] * 4 + ["address"] + ["bytes32"] * 2, values))
        auditor.send(audits.attest(dispute.job, claim.fields, unit, auditor.id, seal))  # type: ignore[arg-type]
    draw: Any = audits.draws(dispute.job, 0)
    devnet.warp_to(draw.drawn_at + draw.window_s // 3 + 1)
    for unit, root in attested.items():
        auditor.send(audits.reveal(dispute.job, 0, unit, auditor.id, root, salt))
    from keepers.cli.verify import LIES_EXIT_CODE

    command = ["verify", str(dispute.job), "--slot", str(SLOT), "--store", str(tmp_path / "work" / "store")]
    assert cli.run([*command, "--network", str(devnet.network_file), "--json"]) == LIES_EXIT_CODE
    answer = json.loads(capsys.readouterr().out)
    assert answer["auditors"] == [{"auditor": auditor.id, "turn": 0, "slot": SLOT, "segment": 1}]
    assert [each["agrees"] for each in answer["checked"]] == [True]
