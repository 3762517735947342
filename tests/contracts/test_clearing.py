"""Auction: caps, clearing that resumes and cannot be held up, critical prices."""

import pytest

from tests.support.job_driver import Offer
from tests.support.protocol_driver import ZEN
from zoo_compute.spec.params import lock_of

LOCK = lock_of(1_000, 500)  # of a slot's bid, in the kit's default terms
SEAT_LOCK = 3 * (3 * 2_000 + 1_000) + lock_of(500, 500)  # of the aggregator, at its price


@pytest.fixture
def agg(play):
    return play.register("aggregator")


def seats(kit, job, *operators):
    """What each operator was seated with; None where it won nothing."""
    run = kit.settlement.runs(job)
    by_operator = {seat.operator: seat for seat in (kit.settlement.seats(job, index) for index in range(run.seats))}
    return [by_operator.get(each.id) for each in operators]


# --- clear


def test_clear__equal_scores__go_by_operator_number(kit, play, agg):
    ada, bob = play.register_all(2)
    job = play.revealed({ada: Offer(10, 3), bob: Offer(10, 3)}, {agg: Offer(1)})
    with play.refused("auction: out of order"):
        kit.auction.clear(job, 0, [bob.id, ada.id], sender=play.anyone)
    kit.auction.clear(job, 0, [ada.id, bob.id], sender=play.anyone)
    assert kit.auction.bids(job, 0, ada.id).won == 3


def test_clear__loser__is_unlocked_at_once(kit, play, agg):
    ada, bob = play.register_all(2)
    offers = ({ada: Offer(10, 2), bob: Offer(20, 2)}, {agg: Offer(1)})
    job = play.revealed(*offers, slots=2)
    play.clear(job, 0, offers[0])
    assert kit.registry.collateral(ada.id, kit.zen).locked == 2 * LOCK
    assert tuple(kit.registry.collateral(bob.id, kit.zen)) == (10**9, 0)
    assert (kit.registry.operators(ada.id).locks, kit.registry.operators(bob.id).locks) == (1, 0)


def test_clear__three_bidders__none_wins_more_than_a_third(kit, play, agg):
    ada, bob, cy = play.register_all(3)
    offers = ({ada: Offer(10, 7), bob: Offer(20, 7), cy: Offer(30, 7)}, {agg: Offer(1)})
    job = play.revealed(*offers, slots=7)
    play.clear(job, 0, offers[0])
    bids = [kit.auction.bids(job, 0, each.id) for each in (ada, bob, cy)]
    assert [(bid.won, bid.first_slot) for bid in bids] == [(3, 0), (3, 3), (1, 6)]
    # cy's leftover is 2 of its usable 3; the others' capacity beyond the cap is no competition.
    assert kit.auction.lots(job, 0).losing_units == 2


def test_clear__skipped_bid__restarts_the_clearing_with_every_lock_right(kit, play, agg):
    ada, bob, cy, dee = play.register_all(4)
    offers = ({ada: Offer(10), bob: Offer(20), cy: Offer(30), dee: Offer(40)}, {agg: Offer(1)})
    job = play.revealed(*offers)
    clear, bids = kit.auction.clear, kit.auction.bids
    clear(job, 0, [cy.id, dee.id], sender=play.anyone)  # skips ada and bob
    assert kit.auction.lots(job, 0).sold == 2
    clear(job, 0, [bob.id], sender=play.anyone)  # bob was skipped: starts again, still without ada
    lot = kit.auction.lots(job, 0)
    assert (lot.phase, lot.cleared, lot.sold, lot.winners) == (2, 1, 1, 1)
    with play.refused("auction: out of order"):
        clear(job, 0, [bob.id], sender=play.anyone)
    clear(job, 0, [ada.id, bob.id, cy.id, dee.id], sender=play.anyone)
    lot = kit.auction.lots(job, 0)
    assert (lot.phase, lot.cleared, lot.sold, lot.winners, lot.losing_units) == (3, 4, 3, 3, 1)
    assert [bids(job, 0, each.id).won for each in (ada, bob, cy, dee)] == [1, 1, 1, 0]
    for operator, locked in ((ada, LOCK), (bob, LOCK), (cy, LOCK), (dee, 0)):
        assert kit.registry.collateral(operator.id, kit.zen).locked == locked
        assert kit.registry.operators(operator.id).locks == (locked > 0)


def test_clear__a_sweep_that_skips_others__never_wins_back_what_was_unlocked(kit, play, agg):
    ada, bob, cy = play.register_all(3)
    offers = ({ada: Offer(10, 1), bob: Offer(20, 1), cy: Offer(30, 1)}, {agg: Offer(1)})
    job = play.revealed(*offers, slots=1, quorum=1)
    clear = kit.auction.clear
    clear(job, 0, [bob.id, cy.id], sender=play.anyone)  # cy loses and is unlocked
    assert kit.registry.collateral(cy.id, kit.zen).locked == 0
    clear(job, 0, [ada.id], sender=play.anyone)
    clear(job, 0, [bob.id, cy.id], sender=play.anyone)
    assert [kit.auction.bids(job, 0, each.id).won for each in (ada, bob, cy)] == [1, 0, 0]
    assert [kit.registry.collateral(each.id, kit.zen).locked for each in (ada, bob, cy)] == [LOCK, 0, 0]


def test_clear__more_bids_than_a_call_takes__resumes(kit, play, agg):
    operators = play.register_all(70)
    offers = {each: Offer(100 + (index * 37) % 70) for index, each in enumerate(operators)}
    job = play.revealed(offers, {agg: Offer(1)}, slots=60, quorum=1)
    order = play.order(job, 0, offers)
    kit.auction.clear(job, 0, order[:64], sender=play.anyone)
    lot = kit.auction.lots(job, 0)
    assert (lot.phase, lot.cleared, lot.sold, lot.winners) == (2, 64, 60, 60)
    kit.auction.clear(job, 0, order[64:], sender=play.anyone)
    lot = kit.auction.lots(job, 0)
    assert (lot.phase, lot.cleared, lot.losing_units) == (3, 70, 10)
    play.award(job, 0, offers)
    # Each wins one unit and displaces the first loser, who bid 160.
    awarded_seats = [kit.settlement.seats(job, number) for number in range(60)]
    assert {seat.price for seat in awarded_seats} == {160}
    assert sorted(seat.operator for seat in awarded_seats) == sorted(order[:60])
    assert kit.auction.lots(job, 0).phase == 4


# --- award and critical prices


def test_award__no_losers__pays_the_reserve(kit, play, agg):
    ada, bob, cy = play.register_all(3)
    job = play.awarded({ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(1)})
    assert [seat.price for seat in seats(kit, job, ada, bob, cy)] == [1_000] * 3
    assert [(seat.first, seat.count) for seat in seats(kit, job, ada, bob, cy)] == [(0, 1), (1, 1), (2, 1)]
    assert kit.settlement.seats(job, 128).price == 500
    assert kit.locks.stakes(job, agg.id, True).locked == SEAT_LOCK


def test_award__losers__set_the_mean_of_what_the_winner_displaces(kit, play, agg):
    ada, bob, cy, dee = play.register_all(4)
    # Six slots, a cap of two: ada, bob and cy win two each; dee's two lose at 70, then the reserve would bind.
    job = play.awarded(
        {ada: Offer(10, 6), bob: Offer(20, 2), cy: Offer(30, 3), dee: Offer(70, 1)}, {agg: Offer(1)}, slots=6
    )
    # One losing unit at 70 and the reserve for the second: (70 + 1,000) // 2.
    assert [seat.price for seat in seats(kit, job, ada, bob, cy)] == [535] * 3


def test_award__own_leftover__is_no_competition(kit, play, agg):
    ada, bob = play.register_all(2)
    # Two bidders, no cap: ada wins 2, bob 1 of its 3; bob's own two losing units do not price bob.
    job = play.awarded({ada: Offer(10, 2), bob: Offer(400, 3)}, {agg: Offer(1)})
    assert [seat.price for seat in seats(kit, job, ada, bob)] == [400, 1_000]


def test_award__discount__divides_the_threshold(kit, play, agg):
    ada, bob = play.register_all(2)
    play.rate(ada, 1_000)
    # ada at 105 with 10 % off scores below bob at 100, and is paid up to 100 / 0.9.
    job = play.awarded({ada: Offer(105, 1), bob: Offer(100, 1)}, {agg: Offer(1)}, slots=1, quorum=1)
    assert [seat.price if seat else None for seat in seats(kit, job, ada, bob)] == [111, None]


def test_award__threshold_above_the_reserve__is_cut(kit, play, agg):
    ada, bob = play.register_all(2)
    play.rate(ada, 1_000)
    job = play.awarded({ada: Offer(950, 1), bob: Offer(1_000, 1)}, {agg: Offer(1)}, slots=1, quorum=1)
    assert seats(kit, job, ada)[0].price == 1_000


def test_award__in_any_order_each_once(kit, play, agg):
    ada, bob, cy = play.register_all(3)
    offers = ({ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(1)})
    job = play.revealed(*offers, slots=2)
    for kind in (0, 1):
        play.clear(job, kind, offers[kind])
    award = kit.auction.award
    award(job, 0, [bob.id], sender=play.anyone)
    for operators in ([bob.id], [ada.id, ada.id], [cy.id], [99]):
        with play.refused("auction: not an unpriced winner"):
            award(job, 0, operators, sender=play.anyone)
    award(job, 0, [], sender=play.anyone)
    award(job, 0, [ada.id], sender=play.anyone)
    assert kit.auction.lots(job, 0).phase == 4
    assert kit.tasks.jobs(job).state == 1
    with play.refused("auction: not cleared"):
        award(job, 0, [], sender=play.anyone)
    award(job, 1, [agg.id], sender=play.anyone)
    assert kit.tasks.jobs(job).state == 2
    run = kit.settlement.runs(job)
    assert (run.state, run.missing, run.opened_at) == (2, 0b11, play.now)
    assert kit.settlement.seats(job, 128)[:4] == (agg.id, 0, 1, 500)


def test_award__16384_slots_to_one_operator__is_one_seat(kit, play):
    kit.zen.transfer(play.submitter, ZEN, sender=kit.deployer)
    ada, agg = (play.register(name, deposit=10**13, units=16_384) for name in ("ada", "aggregator"))
    job = play.awarded({ada: Offer(10, 16_384)}, {agg: Offer(1)}, slots=16_384)
    (seat,) = seats(kit, job, ada)
    assert (seat.first, seat.count, seat.price) == (0, 16_384, 1_000)
    assert kit.settlement.runs(job).missing == 1


def test_award__64_winners_priced_by_the_most_losing_runs__fit_a_call(kit, play):
    """The most seats a lot can have: far below a block's 30 million gas, one call for each step."""
    operators = [play.register(f"operator {index}", deposit=10**11, units=256) for index in range(90)]
    agg = play.register("aggregator", deposit=10**12)
    # 64 win 256 units each; of the losers 22 fill the cap of 5,462 losing units, the last of them with 86.
    offers = {each: Offer(100 + index, 256) for index, each in enumerate(operators)}
    kit.zen.transfer(play.submitter, ZEN, sender=kit.deployer)
    job = play.revealed(offers, {agg: Offer(1)}, slots=16_384)
    order = [each.id for each in operators]
    for batch in (order[:64], order[64:]):
        kit.auction.clear(job, 0, batch, sender=play.anyone)
        assert kit.auction.last.gas < 6_000_000
    play.clear(job, 1, {agg: Offer(1)})
    assert kit.auction.lots(job, 0).losing_units == 5_462
    kit.auction.award(job, 0, order[:64], sender=play.anyone)
    assert kit.auction.last.gas < 12_000_000
    kit.auction.award(job, 1, [agg.id], sender=play.anyone)
    awarded_seats = seats(kit, job, *operators[:64])
    assert {seat.price for seat in awarded_seats} == {164}
    assert [(seat.first, seat.count) for seat in awarded_seats] == [(256 * index, 256) for index in range(64)]
