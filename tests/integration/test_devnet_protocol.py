"""A job with the production preset's windows, walked by time travel: every window opens and closes where it should."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.devnet_driver import DevnetDriver, DevnetOperator
from tests.support.job_driver import Offer
from zoo_compute.chain.snapshot import read_job, read_operator
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState, JobState, JobView, Kind, LotPhase
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.errors import Refusal
from zoo_compute.spec.params import PRODUCTION, lock_of

pytestmark = pytest.mark.integration


@pytest.fixture
def devnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    with Devnet(tmp_path_factory.mktemp("production"), preset="production") as running:
        yield running


def refused(party: DevnetOperator, call: object, reason: str) -> None:
    with pytest.raises(Refusal) as caught:
        party.send(call)
    assert caught.value.reason == reason


def test_a_production_job__passes_through_every_window(devnet: Devnet):
    chain, params = devnet.chain, PRODUCTION
    driver = DevnetDriver(devnet)
    prices = {"one": 5, "two": 6, "three": 7}
    one, two, three = parties = [driver.operator(name, price) for name, price in prices.items()]
    offers = [{party: Offer(party.price) for party in parties}, {two: Offer(4)}]
    job = driver.post()
    slots, aggregator = int(Kind.SLOTS), int(Kind.AGGREGATOR)
    auction, settlement = chain.auction, chain.settlement

    def view() -> JobView:
        return read_job(chain, job)

    # -- bids, for an hour
    assert view().lots[slots].bid_end - view().now == params.bid_window_s
    driver.bid_all(job, *offers)
    refused(one, auction.bid(job, slots, one.id, bytes(32), 1), "auction: already bid")
    refused(one, auction.reveal(job, slots, one.id, 5, driver.salt(one)), "auction: not revealing")
    lot = view().lots[slots]
    assert lot.bidding(lot.bid_end - 1)
    assert view().bids[slots, one.id].seal == driver.seal(job, slots, one, Offer(5))[:20] + bytes(12)

    # -- reveals, for half an hour
    devnet.warp_to(lot.bid_end)
    refused(one, auction.bid(job, aggregator, one.id, bytes(32), 1), "auction: not bidding")
    refused(one, auction.reveal(job, slots, one.id, 4, driver.salt(one)), "auction: seal does not match")
    for kind, lot_offers in enumerate(offers):
        for party in lot_offers:
            driver.reveal(job, kind, party)
    refused(one, auction.clear(job, slots, [one.id, two.id, three.id]), "auction: not due")
    assert view().lots[slots].enough_bids
    assert view().bids[slots, two.id].price == 6

    # -- clearing and award
    devnet.warp_to(lot.reveal_end)
    one.send(auction.clear(job, slots, [one.id, two.id, three.id]))
    one.send(auction.award(job, slots, [one.id, two.id]))
    assert view().lots[slots].phase == LotPhase.AWARDED
    assert view().run is None
    one.send(auction.clear(job, aggregator, [two.id]))
    one.send(auction.award(job, aggregator, [two.id]))
    awarded = view()
    assert awarded.state == JobState.AWARDED
    assert awarded.run is not None
    assert awarded.run.missing == 0b11
    assert [(awarded.seats[seat].operator, awarded.seats[seat].slots) for seat in (0, 1)] == [
        (one.id, range(1)),
        (two.id, range(1, 2)),
    ]
    assert awarded.seats[0].price == 7  # the critical price: the bid that it displaced
    assert awarded.seats[AGGREGATOR_SEAT].price == 5  # alone: the reserve
    assert awarded.run.window_s == params.min_window_s

    # -- ready, for an hour; operator two is not, and operator three stands in
    one.send(settlement.ready(job, 0, 60))
    refused(three, settlement.expire(job, 1), "settlement: ready window open")
    devnet.warp_to(awarded.run.opened_at + params.ready_window_s + 1)
    three.send(settlement.expire(job, 1))
    vacated = view()
    assert vacated.state == JobState.RUNNING
    assert vacated.run is not None
    assert vacated.vacant_seats.keys() == {1}
    assert (vacated.vacant_seats[1].price, vacated.price_now(1)) == (7, 7)
    lock = lock_of(7, vacated.terms.audit_bps)
    assert chain.locks.pots(job) == lock // 10
    three.send(settlement.take_over(job, 1, three.id, 1, 60))
    taken = view()
    assert taken.vacant_seats == {}
    assert taken.slot_count_of(three.id) == 1
    assert taken.stakes[three.id].locked == lock

    # -- one round, and its challenge window of two hours
    root, bundle = b"\x07" * 32, b"\x08" * 32
    one.send(settlement.commit(job, 0, 0, root, bundle))
    refused(one, settlement.commit(job, 0, 0, root, bundle), "settlement: already committed")
    refused(two, settlement.post_checkpoint(job, AGGREGATOR_SEAT, 0, 0b11, root, bundle), "settlement: inputs open")
    three.send(settlement.commit(job, 1, 0, root, bundle))
    assert view().committed(0).keys() == {0, 1}
    refused(one, finalise(view(), settlement), "settlement: window open")
    two.send(settlement.post_checkpoint(job, AGGREGATOR_SEAT, 0, 0b11, b"\x09" * 32, bundle))
    ended = view()
    assert ended.state == JobState.ENDED
    assert ended.checkpoint_roots == {0: b"s" * 32, 1: b"\x09" * 32}
    assert ended.checkpoint_cids == {1: (bundle,)}
    assert (ended.payable, ended.final_rounds, ended.closed) == ([], 0, False)
    refused(one, finalise(ended, settlement), "settlement: window open")
    refused(one, chain.locks.release(job, one.id), "settlement: claims not final")
    devnet.warp_to(max(claim.deadline for claim in ended.claims) + 1)
    assert {claim.seat for claim in view().payable} == {0, 1, AGGREGATOR_SEAT}
    one.send(finalise(view(), settlement))
    paid = view()
    assert (paid.payable, paid.final_rounds, paid.closed) == ([], 1, True)
    assert all(claim.state == ClaimState.PAID for claim in paid.claims)
    refused(one, finalise(ended, settlement), "settlement: unknown claim")

    # -- locks and money come back
    for party in (one, two, three):
        party.send(chain.locks.release(job, party.id))
        operator = read_operator(chain, party.id)
        assert (operator.locks, operator.collateral[chain.zen.address][1]) == (0, 0)
        party.send(chain.tasks.withdraw(chain.zen.address, operator.owner))
        assert read_operator(chain, party.id).owed == {chain.zen.address: 0}
    for account in (paid.submitter, chain.treasury.address):
        one.send(chain.tasks.withdraw(chain.zen.address, account))
    assert chain.zen.balanceOf(chain.treasury.address) == 3  # of 7 + 7 + 5, rounded up each
    assert chain.zen.balanceOf(chain.tasks.address) == 0

    # -- an old block shows the job as it was
    assert read_job(chain, job, vacated.block) == vacated


def finalise(view: JobView, settlement: object) -> object:
    return settlement.finalise(view.job, [claim.fields for claim in view.claims])  # type: ignore[attr-defined]
