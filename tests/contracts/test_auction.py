"""Auction: sealed bids, re-opening, reclaiming."""

import pytest

from tests.support.evm import chain
from tests.support.job_driver import Offer
from tests.support.protocol_driver import DEVNET
from zoo_compute.spec.params import lock_of

LOCK = lock_of(1_000, 500)  # of a slot's bid at the first reserve, in the kit's default terms
ZEN_REFUSES = "erc20: transfer amount exceeds balance"


@pytest.fixture
def agg(play):
    return play.register("aggregator")


# --- bid


def test_bid__locks_for_all_its_units(kit, play):
    ada = play.register("ada")
    job = play.post()
    offer = Offer(123, 2)
    play.bid(job, 0, ada, offer)
    bid = kit.auction.bids(job, 0, ada.id)
    assert (bid.attempt, bid.reserve, bid.capacity, bid.revealed, bid.price) == (1, 1_000, 2, False, 0)
    assert bid.seal == play.seal(job, 0, ada, offer)[:20] + bytes(12)
    assert kit.registry.collateral(ada.id, kit.zen).locked == 2 * LOCK
    assert kit.registry.operators(ada.id).locks == 1


def test_bids__of_who_has_none_in_a_lot__shows_zeros(kit, play):
    ada, bob = play.register("ada"), play.register("bob")
    job = play.post()
    play.bid(job, 0, ada, Offer(123, 2))
    for kind, operator in ((0, bob), (1, ada)):
        shown = kit.auction.bids(job, kind, operator.id)
        assert [each for each in shown if each not in (0, bytes(32))] == []


def test_bid__out_of_range__is_refused_in_order(kit, play):
    ada = play.register("ada")
    poor = play.register("poor", deposit=LOCK - 1)
    job = play.post()
    seal = bytes(32)
    auction = kit.auction
    many = 2**256 - 1
    with play.refused("auction: not bidding"):
        auction.bid(99, 0, ada.id, seal, 0, sender=play.anyone)
    with play.refused("auction: not bidding"):
        auction.bid(job, 2, ada.id, seal, 0, sender=play.anyone)
    for capacity in (0, 4, 2**250, many):
        with play.refused("auction: capacity out of range"):
            auction.bid(job, 0, 99, seal, capacity, sender=ada.owner)
    for operator, sender in ((ada.id, ada.owner), (99, ada.hot), (0, ada.hot), (many, ada.hot)):
        with play.refused("auction: operator not eligible"):
            auction.bid(job, 0, operator, seal, 1, sender=sender)
    with play.refused("auction: capacity out of range"):
        auction.bid(job, 1, ada.id, seal, 2, sender=ada.hot)
    play.bid(job, 0, ada, Offer(1))
    with play.refused("auction: already bid"):
        auction.bid(job, 0, ada.id, seal, 1, sender=ada.owner)
    with play.refused("registry: amount exceeds free collateral"):
        play.bid(job, 0, poor, Offer(1))


def test_bid__paused__is_refused_but_reveal_and_reclaim_are_not(kit, play, agg):
    ada, bob = play.register_all(2)
    job = play.post()
    play.bid(job, 0, ada, Offer(1))
    with play.refused("auction: not the guardian"):
        kit.auction.pause(2**40 - 1, sender=kit.deployer)
    kit.auction.pause(2**40 - 1, sender=kit.guardian)
    with play.refused("auction: intake paused"):
        play.bid(job, 0, bob, Offer(1))
    play.to(kit.auction.lots(job, 0).bid_end)
    play.reveal(job, 0, ada)
    play.to(kit.auction.lots(job, 0).reveal_end)
    kit.auction.reopen(job, 0, sender=play.anyone)
    kit.auction.reclaim(job, 0, ada.id, sender=play.anyone)
    assert kit.registry.collateral(ada.id, kit.zen).locked == 0


def test_bid__least_capacity__is_a_64th_of_the_lot(kit, play):
    ada = play.register("ada", deposit=10**12, units=256)
    for slots, least in ((64, 1), (65, 2), (128, 2), (129, 3), (16_384, 256)):
        kit.zen.transfer(play.submitter, 10**9, sender=kit.deployer)
        job = play.post(slots=slots)
        with chain.anchor():
            play.bid(job, 0, ada, Offer(1, least))
        with play.refused("auction: capacity out of range"):
            play.bid(job, 0, ada, Offer(1, least - 1))


def test_bid__lock_beyond_its_field__is_refused_when_the_job_is_posted(kit, play):
    # Restitution of the aggregator: 4 * (16,384 + 1) * (2^80 - 1) is above 2^96, 4 * (16,383 + 1) * (2^80 - 1) is not.
    greatest = 2**80 - 1
    for slots, depth, is_fitting in ((16_384, 16, False), (16_384, 4, False), (16_383, 4, True), (3, 16, True)):
        terms = {"slots": slots, "rounds": 100, "max_price": greatest, "depth": depth, "aggregator_max_price": greatest}
        with play.refused(ZEN_REFUSES if is_fitting else "auction: lock out of range"):
            play.post(**terms)


# --- the ring


def far(kit, play, job, distance=256):
    """A job in the same ring places, opened by the task registry itself: nobody has to post 256 of them."""
    other = job + distance
    lot = kit.auction.lots(job, 0)
    for kind in (0, 1):
        args = (other, kind, lot.token, 3 if kind == 0 else 1, 1_000, 2_000, 500, 0, 0)
        kit.auction.open(*args, sender=kit.tasks.address)
    return other


def stored(kit, operator, job, kind=0):
    return tuple(kit.auction.bids(job, kind, operator.id))


def test_ring__standing_bid_of_another_job_in_the_place__refuses_until_it_is_reclaimed(kit, play):
    ada = play.register("ada")
    job = play.post()
    play.bid(job, 0, ada, Offer(10))
    other, neighbour = far(kit, play, job), far(kit, play, job, 255)
    play.bid(job, 1, ada, Offer(10))  # a place of its own, by its kind
    play.bid(neighbour, 0, ada, Offer(10))
    for kind in (0, 1):
        with play.refused("auction: already bid"):
            play.bid(other, kind, ada, Offer(10))
    kit.tasks.cancel(job, sender=play.submitter)
    kit.auction.reclaim(job, 0, ada.id, sender=play.anyone)
    assert stored(kit, ada, job) == stored(kit, ada, other) == (0, 0, 0, False, 0, 0, 0, 0, bytes(32))
    play.bid(other, 0, ada, Offer(10))
    assert stored(kit, ada, other)[:3] == (1, 1_000, 1)
    with play.refused("auction: no bid"):
        kit.auction.reclaim(job, 0, ada.id, sender=play.anyone)


def test_ring__seated_winner_and_loser__make_room_by_themselves(kit, play, agg):
    ada, bob = play.register_all(2)
    offers = ({ada: Offer(10, 3), bob: Offer(20, 3)}, {agg: Offer(1)})
    job = play.revealed(*offers)
    other = far(kit, play, job)
    for each in (ada, bob):
        with play.refused("auction: already bid"):
            play.bid(other, 0, each, Offer(10))
    kit.auction.clear(job, 0, [ada.id], sender=play.anyone)
    with play.refused("auction: already bid"):  # bob has lost, but the clearing may still start again
        play.bid(other, 0, bob, Offer(10))
    kit.auction.clear(job, 0, [bob.id], sender=play.anyone)
    with chain.anchor():
        play.bid(other, 0, bob, Offer(10))
    with play.refused("auction: already bid"):  # ada's units are not seated
        play.bid(other, 0, ada, Offer(10))
    play.award(job, 0, offers[0])
    play.bid(other, 0, ada, Offer(10))
    with play.refused("auction: not cleared"):
        kit.auction.award(job, 0, [ada.id], sender=play.anyone)


def test_ring__revealed_bid_of_an_earlier_attempt__keeps_its_place(kit, play, agg):
    ada, bob = play.register_all(2)
    job = play.revealed({ada: Offer(10, 2)}, {})
    kit.auction.reopen(job, 0, sender=play.anyone)
    offers = ({bob: Offer(10, 3)}, {agg: Offer(1)})
    play.bid_all(job, *offers)
    play.reveal_all(job, *offers)
    play.clear(job, 0, offers[0])
    other = far(kit, play, job)
    with play.refused("auction: already bid"):  # its lock is still there
        play.bid(other, 0, ada, Offer(10))


# --- reveal


def test_reveal__snapshots_the_discount_and_counts_capped_units(kit, play):
    ada, bob = play.register_all(2)
    job = play.post(slots=7)
    play.rate(ada, 40)
    play.bid(job, 0, ada, Offer(900, 5))
    play.bid(job, 0, bob, Offer(800, 2))
    play.to(kit.auction.lots(job, 0).bid_end)
    play.rate(ada, 10)
    play.reveal(job, 0, ada)
    play.reveal(job, 0, bob)
    play.rate(ada, 10)
    bid = kit.auction.bids(job, 0, ada.id)
    assert (bid.revealed, bid.price, bid.discount_bps, bid.seal) == (True, 900, 50, bytes(32))
    lot = kit.auction.lots(job, 0)
    assert (lot.revealed, lot.units_capped, lot.units_uncapped) == (2, 3 + 2, 7)


# --- reopen


def test_reopen__while_bids_are_paused__grows_no_reserve(kit, play):
    job = play.post(slots=1, quorum=1)
    kit.auction.pause(kit.auction.lots(job, 0).reveal_end + 1, sender=kit.guardian)
    for reserve in (1_000, 1_250):
        play.to(kit.auction.lots(job, 0).reveal_end)
        kit.auction.reopen(job, 0, sender=play.anyone)
        assert kit.auction.lots(job, 0).reserve == reserve


def test_reopen__too_few_bids__grows_a_short_lots_reserve_by_a_quarter(kit, play):
    job = play.post()
    auction = kit.auction
    reveal_end = auction.lots(job, 0).reveal_end
    play.to(reveal_end - 1)
    with play.refused("auction: not due"):
        auction.reopen(job, 0, sender=play.anyone)
    grown = (1_250, 625), (1_562, 781), (1_952, 976), (2_000, 1_000), (2_000, 1_000)
    for late_s, (reserve, seat_reserve) in enumerate(grown):
        play.to(auction.lots(job, 0).reveal_end + late_s)
        auction.reopen(job, 0, sender=play.anyone)
        assert auction.lots(job, 0).reserve == reserve
        assert auction.lots(job, 1).reserve == seat_reserve
    lot = auction.lots(job, 0)
    assert (lot.attempt, lot.bid_end, lot.reveal_end) == (6, play.now + 12, play.now + 18)


def test_reopen__one_lot_short__takes_both_to_the_next_attempt(kit, play, agg):
    ada, bob = play.register_all(2)
    job = play.revealed({ada: Offer(10, 2), bob: Offer(20)}, {})
    kit.auction.reopen(job, 0, sender=play.anyone)
    slots, seat = kit.auction.lots(job, 0), kit.auction.lots(job, 1)
    assert (slots.attempt, seat.attempt, slots.bid_end) == (2, 2, seat.bid_end)
    assert (slots.reserve, seat.reserve) == (1_000, 625)
    assert (slots.revealed, slots.units_capped, slots.units_uncapped) == (0, 0, 0)
    # Whoever bid before is free at once, and must be before it bids again.
    with play.refused("auction: already bid"):
        play.bid(job, 0, ada, Offer(10))
    kit.auction.reclaim(job, 0, ada.id, sender=play.anyone)
    assert tuple(kit.registry.collateral(ada.id, kit.zen)) == (10**9, 0)
    play.bid(job, 0, ada, Offer(10))


# --- reclaim


def test_reclaim__unrevealed_bid__forfeits_the_reserve_a_unit(kit, play):
    ada = play.register("ada")
    job = play.post()
    play.bid(job, 0, ada, Offer(10, 2))
    play.rate(ada, 9)
    play.to(kit.auction.lots(job, 0).reveal_end - 1)
    with play.refused("auction: bid still active"):
        kit.auction.reclaim(job, 0, ada.id, sender=play.anyone)
    play.to(play.now + 1)
    kit.auction.reclaim(job, 0, ada.id, sender=play.anyone)
    assert tuple(kit.registry.collateral(ada.id, kit.zen)) == (10**9 - 2 * 1_000, 0)
    assert (kit.registry.pot(kit.zen), kit.registry.burned(kit.zen)) == (0, 2_000)
    assert (kit.registry.discount_bps(ada.id), kit.registry.operators(ada.id).locks) == (4, 0)
    with play.refused("auction: no bid"):
        kit.auction.reclaim(job, 0, ada.id, sender=play.anyone)


def test_reclaim__bids_of_every_attempt__unlock_and_forfeit_by_the_reserve_of_their_own(kit, play):
    """Four operators, an attempt each while the reserves grow: 1,000, 1,250, 1,562, 1,952 a slot; 500 to 976 a round."""
    names, reserves, seat_reserves = play.register_all(4), (1_000, 1_250, 1_562, 1_952), (500, 625, 781, 976)
    job = play.post(policy=1)
    once, locked = 3 * (3 * 2_000 + 1_000), lambda each: kit.registry.collateral(each.id, kit.zen).locked
    for each, reserve, of_seat in zip(names, reserves, seat_reserves, strict=True):
        play.bid(job, 0, each, Offer(10, 2))
        play.bid(job, 1, each, Offer(10))
        assert locked(each) == 2 * lock_of(reserve, 500) + lock_of(of_seat, 500) + 2 * once
        assert [kit.auction.bids(job, kind, each.id).reserve for kind in (0, 1)] == [reserve, of_seat]
        play.to(kit.auction.lots(job, 0).bid_end)
        if each is names[1]:
            play.reveal(job, 0, each)
        play.to(kit.auction.lots(job, 0).reveal_end)
        kit.auction.reopen(job, 0, sender=play.anyone)
    assert [kit.auction.bids(job, 0, each.id).reserve for each in names] == list(reserves)
    for each, reserve, of_seat in zip(names, reserves, seat_reserves, strict=True):
        for kind in (1, 0):
            kit.auction.reclaim(job, kind, each.id, sender=play.anyone)
        forfeited = of_seat + (0 if each is names[1] else 2 * reserve)
        assert tuple(kit.registry.collateral(each.id, kit.zen)) == (10**9 - forfeited, 0)


def test_reclaim__revealed_bid_of_this_attempt__still_stands(kit, play, agg):
    ada, bob = play.register_all(2)
    offers = ({ada: Offer(10, 3), bob: Offer(20, 3)}, {agg: Offer(1)})
    job = play.revealed(*offers)
    for _ in range(2):
        for each in (ada, bob):
            with play.refused("auction: bid still active"):
                kit.auction.reclaim(job, 0, each.id, sender=play.anyone)
        if kit.auction.lots(job, 0).phase == 1:
            play.clear(job, 0, offers[0])


@pytest.mark.parametrize(("offset", "forfeited"), [(-1, 0), (0, 1_000), (1, 1_000)])
def test_reclaim__cancelled_job__forfeits_only_after_the_reveal_phase(kit, play, offset, forfeited):
    ada, bob = play.register_all(2)
    job = play.post()
    play.bid(job, 0, ada, Offer(10))
    play.bid(job, 0, bob, Offer(10))
    lot = kit.auction.lots(job, 0)
    play.to(lot.bid_end)
    play.reveal(job, 0, bob)
    play.to(lot.reveal_end + offset)
    kit.tasks.cancel(job, sender=play.submitter)
    play.to(lot.reveal_end + 100)
    for each in (ada, bob):
        kit.auction.reclaim(job, 0, each.id, sender=play.anyone)
    assert kit.registry.collateral(ada.id, kit.zen).balance == 10**9 - forfeited
    assert tuple(kit.registry.collateral(bob.id, kit.zen)) == (10**9, 0)
    with play.refused("auction: not revealing"):
        play.reveal(job, 0, ada)


def test_reclaim__unrevealed_bid_of_a_job_that_runs__frees_the_exit(kit, play, agg):
    ada, bob = play.register_all(2)
    offers = {ada: Offer(10, 3)}
    job = play.post()
    play.bid_all(job, {**offers, bob: Offer(5)}, {agg: Offer(1)})
    play.reveal_all(job, offers, {agg: Offer(1)})
    for kind, each in ((0, offers), (1, {agg: Offer(1)})):
        play.clear(job, kind, each)
        play.award(job, kind, each)
    kit.auction.reclaim(job, 0, bob.id, sender=play.anyone)
    assert kit.registry.operators(bob.id).locks == 0


# --- what only the protocol calls


def test_protocol_functions__by_anyone_else__are_refused(kit, play):
    with play.refused("auction: not the task registry"):
        kit.auction.open(1, 0, kit.zen, 1, 1, 1, 500, 0, 0, sender=kit.settlement.address)
    with play.refused("auction: not the task registry"):
        kit.auction.cancelled(1, sender=kit.settlement.address)


def test_bid__where_slots_are_rolled_back__locks_restitution_once_until_it_cannot_win(kit, play, agg):
    """Whatever its capacity; who wins nothing, or misses its reveal, has it back with the rest."""
    ada, bob, cy, dee = play.register_all(4)
    offers = {ada: Offer(10, 3), bob: Offer(20), cy: Offer(30, 2), dee: Offer(40)}
    job = play.post(policy=1)
    once, locked = 3 * (3 * 2_000 + 1_000), lambda each: kit.registry.collateral(each.id, kit.zen).locked
    play.bid_all(job, offers, {agg: Offer(5)})
    assert [locked(each) for each in offers] == [once + n * LOCK for n in (3, 1, 2, 1)]
    play.reveal_all(job, {each: offers[each] for each in (ada, bob, cy)}, {agg: Offer(5)})
    play.to(kit.auction.lots(job, 0).reveal_end)
    kit.auction.reclaim(job, 0, dee.id, sender=play.anyone)
    assert locked(dee) == 0
    play.clear(job, 0, {ada: 0, bob: 0, cy: 0})
    assert [locked(each) for each in (ada, bob, cy)] == [once + LOCK] * 3
    play.award(job, 0, {ada: 0, bob: 0, cy: 0})
    assert {kit.settlement.seats(job, seat).price for seat in range(3)} == {1_000}
    assert [locked(each) for each in (ada, bob, cy)] == [once + LOCK] * 3


def test_award__what_rounding_locks_too_much__stays_behind_the_seat(kit, play, agg):
    """Less than one a unit, at the reserve. Below it the seat's lock follows from all its units at once."""
    ada, bob = play.register_all(2)
    play.awarded({ada: Offer(10, 3)}, {agg: Offer(1)})
    assert 3 * LOCK - lock_of(3_000, 500) == 2
    assert kit.registry.collateral(ada.id, kit.zen).locked == 3 * LOCK
    job = play.awarded({ada: Offer(10, 3), bob: Offer(999, 2)}, {agg: Offer(1)})
    assert kit.settlement.seats(job, 0).price == (2 * 999 + 1_000) // 3 == 999
    assert kit.locks.stakes(job, ada.id, False).locked == lock_of(3 * 999, 500)


def test_clear__loser_where_slots_are_rolled_back__is_unlocked_whole(kit, play, agg):
    ada, bob = play.register_all(2)
    offers = ({ada: Offer(10, 2), bob: Offer(20, 2)}, {agg: Offer(1)})
    job = play.revealed(*offers, slots=2, policy=1)
    play.clear(job, 0, offers[0])
    assert kit.registry.collateral(ada.id, kit.zen).locked == 2 * LOCK + 3 * (2 * 2_000 + 1_000)
    assert tuple(kit.registry.collateral(bob.id, kit.zen)) == (10**9, 0)


def test_lots__windows__come_from_the_preset(kit, play):
    job = play.post()
    lot = kit.auction.lots(job, 0)
    assert lot.bid_end == play.now + DEVNET.bid_window_s
    assert lot.reveal_end == lot.bid_end + DEVNET.reveal_window_s
