"""Disputes by the deployed Referee: it is wired everywhere, silence and evidence convict, and a lost bond reaches who it is owed to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from repops.merkle import merkle_proof
from tests.support.disputed_job import AGGREGATION, STATES, TRAINING, WORK, Dispute
from zoo_compute.chain.generated.bindings.referee import Frame
from zoo_compute.chain.sender import Receipt
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.disputes.evidence import End, encode
from zoo_compute.errors import EvidenceRefusal, RefereeRefusal, SettlementRefusal
from zoo_compute.spec.params import COIN, DEVNET

pytestmark = pytest.mark.integration


@pytest.fixture
def devnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    with Devnet(tmp_path_factory.mktemp("disputes")) as running:
        yield running


def frame_of(opened: Receipt) -> Frame:
    return Frame(**opened.event("FrameFixed").args["frame"])


def test_the_deployed_referee__judges_what_the_deployed_contracts_keep(devnet: Devnet) -> None:
    dispute = Dispute(devnet)
    chain, (one, two, three) = dispute.chain, dispute.parties
    referee, timelock = chain.referee, chain.timelock.address
    for contract in (chain.settlement, chain.audits, chain.admissions):
        assert contract.referee() == referee.address

    # -- another work than the terms commit to
    with pytest.raises(RefereeRefusal, match="work does not match"):
        dispute.challenge(dispute.claim(0), TRAINING, work=WORK._replace(segment_steps=2))

    # -- a challenge that is given up: half of the bond is its victim's
    aggregation = dispute.claim(AGGREGATOR_SEAT)
    frame = frame_of(dispute.challenge(aggregation, AGGREGATION))
    coin = referee.games(1).coin
    assert coin > 0
    assert dispute.claim(AGGREGATOR_SEAT).disputes == 1
    three.send(referee.concede(1, aggregation.fields, frame))  # type: ignore[arg-type]
    assert dispute.claim(AGGREGATOR_SEAT).disputes == 0
    assert referee.owed(COIN, two.account.address) == coin // 2
    one.send(referee.withdraw(COIN, timelock))
    assert chain.coin(timelock) == coin - coin // 2, "the timelock takes coin"

    # -- a claim that contradicts itself
    false = dispute.claim(1)
    frame = frame_of(dispute.challenge(false, TRAINING, slot=1))
    for state, message in ((b"\x07" * 32, "state does not match"), (b"\x08" * 32, "")):
        call = referee.convict(2, false.fields, frame, End.KIND, encode(End(state, tuple(merkle_proof(STATES, 2)))))  # type: ignore[arg-type]
        with pytest.raises(EvidenceRefusal, match=message) if message else nullcontext():
            three.send(call)
    assert dispute.claim(1).state == ClaimState.CONVICTED

    # -- a claim whose author does not defend it
    false = dispute.claim(0)
    frame = frame_of(dispute.challenge(false, TRAINING))
    game, won = referee.games(3), referee.owed(COIN, three.account.address)
    assert won > 0
    assert game.state.move_s == DEVNET.move_s + 100
    with pytest.raises(RefereeRefusal, match="time left"):
        two.send(referee.time_out(3, false.fields, frame))  # type: ignore[arg-type]
    last = max(false.deadline, dispute.claim(AGGREGATOR_SEAT).deadline)
    devnet.warp_to(max(game.state.at + game.state.move_s, last) + 1)
    with pytest.raises(SettlementRefusal, match="in dispute"):
        two.send(chain.settlement.finalise(dispute.job, [false.fields]))  # type: ignore[list-item]
    two.send(referee.time_out(3, false.fields, frame))  # type: ignore[arg-type]
    assert dispute.claim(0).state == ClaimState.CONVICTED
    assert referee.owed(COIN, three.account.address) == won + game.coin
    two.send(chain.settlement.finalise(dispute.job, [dispute.claim(AGGREGATOR_SEAT).fields]))  # type: ignore[list-item]
    assert dispute.claim(AGGREGATOR_SEAT).state == ClaimState.PAID
