"""Disputes by the deployed Referee: it is wired everywhere, silence and evidence convict, and a lost bond reaches who it is owed to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from repops.merkle import merkle_proof, merkle_root
from tests.integration.parties import Party, post
from zoo_compute.chain.bindings.referee import Frame, Result, Work
from zoo_compute.chain.sender import Receipt
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState, Kind
from zoo_compute.chain.views import Claim as Posted
from zoo_compute.devnet import Devnet
from zoo_compute.errors import EvidenceRefusal, RefereeRefusal, SettlementRefusal
from zoo_compute.evidence import End, encode
from zoo_compute.spec import games, merkle
from zoo_compute.spec.params import COIN, DEVNET
from zoo_compute.spec.referee import bond

pytestmark = pytest.mark.integration

WORK = Work((b"\x01" * 32, b"\x02" * 32, b"\x03" * 32), inner_steps=8, segment_steps=4, rows=2)
STATES = [merkle.segment_leaf(step, bytes([step]) * 32) for step in (0, 4, 8)]
RESULT = Result(merkle_root(STATES), b"\x05" * 32, b"\x06" * 32, ())  # it does not end where its last segment does
BUNDLE = b"\x08" * 32
START = b"s" * 32
TRAINING, AGGREGATION = int(games.Kind.TRAINING), int(games.Kind.AGGREGATION)


@pytest.fixture
def devnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    with Devnet(tmp_path_factory.mktemp("disputes")) as running:
        yield running


class Dispute:
    """A job whose only round is closed: the first operator's claim, and the second one's aggregation; the third challenges."""

    def __init__(self, devnet: Devnet) -> None:
        self.devnet, self.chain = devnet, devnet.chain
        self.parties = [Party(devnet, name, price) for name, price in (("one", 5), ("two", 6), ("three", 7))]
        self.job = post(devnet, work_root=games.Work(*WORK).root)
        self._award()
        one, two, three = self.parties
        settlement = self.chain.settlement
        for seat, party in enumerate((one, two)):
            party.send(settlement.ready(self.job, seat, 60))
        for slot, party in enumerate((one, two)):
            root = merkle.result_root(slot, START, RESULT.segment_root, RESULT.end_root, RESULT.update_root)
            party.send(settlement.commit(self.job, slot, 0, root, BUNDLE))
        two.send(settlement.post_checkpoint(self.job, 0, 0b11, b"\x09" * 32, BUNDLE))
        three.send(self.chain.zen.approve(self.chain.referee.address, 2**256 - 1))

    def _award(self) -> None:
        job, auction, parties = self.job, self.chain.auction, self.parties
        two, slots, aggregator = parties[1], int(Kind.SLOTS), int(Kind.AGGREGATOR)
        for party in parties:
            party.bid(job, slots, party.price)
        two.bid(job, aggregator, 4)
        lot = read_job(self.chain, job).lots[Kind.SLOTS]
        self.devnet.warp_to(lot.bid_end)
        for party in parties:
            party.reveal(job, slots, party.price)
        two.reveal(job, aggregator, 4)
        self.devnet.warp_to(lot.reveal_end)
        two.send(auction.clear(job, slots, [party.id for party in parties]))
        two.send(auction.award(job, slots, [party.id for party in parties[:2]]))
        two.send(auction.clear(job, aggregator, [two.id]))
        two.send(auction.award(job, aggregator, [two.id]))

    def claim(self, seat: int) -> Posted:
        (found,) = (claim for claim in read_job(self.chain, self.job).claims if claim.seat == seat)
        return found

    def challenge(self, claim: Posted, kind: int, slot: int = 0, work: Work = WORK) -> Receipt:
        coin, _ = bond(claim, 0, self.chain.w3.eth.gas_price)  # type: ignore[arg-type]
        call = self.chain.referee.challenge(self.job, claim.fields, kind, slot, work, RESULT)  # type: ignore[arg-type]
        return self.parties[2].send(call, value=2 * coin)


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
    dispute.challenge(aggregation, AGGREGATION)
    coin = referee.games(1).coin
    assert coin > 0
    assert dispute.claim(AGGREGATOR_SEAT).disputes == 1
    three.send(referee.concede(1, aggregation.fields))  # type: ignore[arg-type]
    assert dispute.claim(AGGREGATOR_SEAT).disputes == 0
    assert referee.owed(COIN, two.account.address) == coin // 2
    one.send(referee.withdraw(COIN, timelock))
    assert chain.coin(timelock) == coin - coin // 2, "the timelock takes coin"

    # -- a claim that contradicts itself
    false = dispute.claim(1)
    opened = dispute.challenge(false, TRAINING, slot=1)
    frame = Frame(**opened.event("FrameFixed").args["frame"])
    for state, message in ((b"\x07" * 32, "state does not match"), (b"\x08" * 32, "")):
        call = referee.convict(2, false.fields, frame, End.KIND, encode(End(state, tuple(merkle_proof(STATES, 2)))))  # type: ignore[arg-type]
        with pytest.raises(EvidenceRefusal, match=message) if message else nullcontext():
            three.send(call)
    assert dispute.claim(1).state == ClaimState.CONVICTED

    # -- a claim whose author does not defend it
    false = dispute.claim(0)
    dispute.challenge(false, TRAINING)
    game, won = referee.games(3), referee.owed(COIN, three.account.address)
    assert won > 0
    assert game.state.move_s == DEVNET.move_s + 100
    with pytest.raises(RefereeRefusal, match="time left"):
        two.send(referee.time_out(3, false.fields))  # type: ignore[arg-type]
    devnet.warp_to(max(game.state.at + game.state.move_s, false.deadline) + 1)
    with pytest.raises(SettlementRefusal, match="in dispute"):
        two.send(chain.settlement.finalise(dispute.job, [false.fields]))  # type: ignore[list-item]
    two.send(referee.time_out(3, false.fields))  # type: ignore[arg-type]
    assert dispute.claim(0).state == ClaimState.CONVICTED
    assert referee.owed(COIN, three.account.address) == won + game.coin
    two.send(chain.settlement.finalise(dispute.job, [dispute.claim(AGGREGATOR_SEAT).fields]))  # type: ignore[list-item]
    assert dispute.claim(AGGREGATOR_SEAT).state == ClaimState.PAID
