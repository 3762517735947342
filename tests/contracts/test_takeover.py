"""Settlement: timeouts of seats and aggregators, standbys, and the arithmetic of the pot."""

import pytest

from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION
from zoo_compute.spec.params import ZEN

LOCK = 2 * 2_000 * 3  # of a slot, in the kit's default terms
SLASH = LOCK // 10
SEAT_LOCK = -(-3 * (3 * 2_000 + 1_000) * 10 // 9) + 2 * 1_000 * 3  # of the aggregator


@pytest.fixture
def cast(play):
    """ada and bob hold the slots, cy and dee are standbys, agg aggregates and eve stands by for it."""
    return play.register_all(6)


def offers(cast, cy_price=700):
    ada, bob, cy, dee, agg, eve = cast
    # Three slots, four bidders: the cap is one, so ada, bob and the next win one each. dee's 990 is the losing unit.
    slots = {
        ada: Offer(10, 3, standby=True),
        bob: Offer(20, 1),
        cy: Offer(cy_price, 2, standby=True),
        dee: Offer(990, 1, standby=True),
    }
    return slots, {agg: Offer(5), eve: Offer(400, standby=True)}


@pytest.fixture
def running(play, cast):
    return play.running(*offers(cast))


def time_out(kit, play, job, operator):
    seat = play.seat_of(job, operator)
    play.to(kit.settlement.deadline(job, seat) + 1)
    kit.settlement.time_out(job, seat, sender=play.anyone)
    return seat


def take_over(kit, job, seat, operator, count=1, estimate_s=10):
    kit.settlement.take_over(job, seat, operator.id, count, estimate_s, sender=operator.hot)


def prices(kit, job, seat):
    record = kit.settlement.seats(job, seat)
    return record.price, record.pot_price


# --- time_out


def test_time_out__at_the_deadline__is_refused_and_after_it_accepted(kit, play, cast, running):
    ada = cast[0]
    seat, run = play.seat_of(running, ada), kit.settlement.runs(running)
    deadline = kit.settlement.deadline(running, seat)
    assert deadline == run.opened_at + 2 * 10
    play.to(deadline)
    with play.refused("settlement: deadline not passed"):
        kit.settlement.time_out(running, seat, sender=play.anyone)
    play.to(deadline + 1)
    kit.settlement.time_out(running, seat, sender=play.anyone)
    run = kit.settlement.runs(running)
    assert (run.missing, run.pot) == (0b111, SLASH)
    # ada is paid the critical price, dee's 990. Her open turn is the last that may have a claim of hers.
    assert prices(kit, running, seat) == (990, 0)
    assert tuple(kit.settlement.stakes(running, ada.id)) == (LOCK - SLASH, 1, 0, 1, 0, 0, 0)


def test_time_out__estimate_above_half_the_slots_time__ends_with_it(kit, play, cast):
    job = play.awarded(*offers(cast))
    ada, bob, cy = cast[:3]
    play.ready(job, ada, estimate_s=31)
    play.ready(job, bob, cy)
    assert kit.settlement.deadline(job, play.seat_of(job, ada)) == play.now + 60


def test_time_out__seat_of_several_slots__slashes_each_and_halves_the_reputation_once(kit, play):
    ada, agg = play.register_all(2)
    kit.registry.reward_outcome(ada.id, 100 * ZEN, sender=kit.settlement.address)
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)})
    time_out(kit, play, job, ada)
    assert kit.settlement.runs(job).pot == 3 * SLASH == kit.registry.pot(kit.zen)
    assert kit.registry.discount_bps(ada.id) == 50


def test_time_out__who_took_over_too_late_to_commit__is_spared_this_turn(kit, play, cast, running):
    ada, bob, cy, dee, agg, _ = cast
    seat = time_out(kit, play, running, ada)
    play.commit(running, bob)
    play.commit(running, cy)
    inputs_close = kit.settlement.runs(running).opened_at + 2 * 60
    play.to(inputs_close - 19)
    take_over(kit, running, seat, dee)  # could commit for 19 more seconds, its deadline is 20 away
    play.to(inputs_close + 2)
    with play.refused("settlement: deadline not passed"):
        kit.settlement.time_out(running, seat, sender=play.anyone)
    play.post_checkpoint(running, agg)
    time_out(kit, play, running, dee)


def test_time_out__taker_with_time_enough__is_bound(kit, play, cast, running):
    dee = cast[3]
    seat = time_out(kit, play, running, cast[0])
    inputs_close = kit.settlement.runs(running).opened_at + 2 * 60
    play.to(inputs_close - 20)
    take_over(kit, running, seat, dee)
    assert kit.settlement.deadline(running, seat) == inputs_close
    time_out(kit, play, running, dee)


# --- take_over


def test_take_over__cheaper_bid__costs_escrow_the_bid_and_burns_the_slash(kit, play, cast):
    ada, bob, cy, _, agg, _ = cast
    job = play.running(*offers(cast))
    own = play.seat_of(job, cy)
    seat = time_out(kit, play, job, ada)
    take_over(kit, job, seat, cy, estimate_s=30)
    assert prices(kit, job, seat) == (700, 0)
    assert (kit.registry.burned(kit.zen), kit.registry.pot(kit.zen)) == (SLASH, 0)
    taken = kit.settlement.seats(job, seat)
    assert (taken.operator, taken.estimate_s, taken.since, taken.pot) == (cy.id, 30, play.now, 0)
    assert tuple(kit.settlement.stakes(job, cy.id)) == (2 * LOCK, 1, 2, 0, 0, 2, 0)
    assert kit.settlement.deadline(job, seat) == play.now + 60
    assert kit.settlement.deadline(job, own) == kit.settlement.runs(job).opened_at + 20
    assert kit.registry.operators(cy.id).locks == 1
    assert kit.auction.bids(job, 0, cy.id).taken == 1
    play.commit(job, bob)
    play.commit(job, cy, own)
    play.commit(job, cy, seat)
    play.post_checkpoint(job, agg)
    play.finalise(job)
    # Its own slot at the critical price of 990, the one taken at 700.
    assert kit.tasks.owed(kit.zen, cy.owner) == 940 + 665


def test_take_over__part_of_a_seat__shares_its_pot(kit, play):
    ada, bob, agg = play.register_all(3)
    job = play.running({ada: Offer(10, 3), bob: Offer(1_000, 2, True)}, {agg: Offer(5)})
    # Bob's two units and the reserve price ada's three: 1,000 each. Bob asks no more, so that nothing is drawn.
    time_out(kit, play, job, ada)
    take_over(kit, job, 0, bob, count=2)
    assert (kit.settlement.seats(job, 0).count, kit.settlement.seats(job, 0).pot) == (1, SLASH)
    taken = kit.settlement.seats(job, 1)
    assert (taken.operator, taken.first, taken.count, taken.pot) == (bob.id, 1, 2, 0)
    assert kit.registry.burned(kit.zen) == 2 * SLASH
    assert kit.registry.collateral(bob.id, kit.zen).locked == 2 * LOCK


def test_take_over__too_little_free_collateral__is_refused(kit, play, cast, running):
    ada, dee = cast[0], cast[3]
    seat = time_out(kit, play, running, ada)
    kit.registry.withdraw(dee.id, kit.zen, 10**9 - LOCK + 1, sender=dee.owner)
    with play.refused("registry: amount exceeds free collateral"):
        take_over(kit, running, seat, dee)


def dearer_takeover(kit, play, *, rounds):
    """ada holds the only slot at bob's 100; cy stands by at 1,000."""
    ada, bob, cy, agg = play.register_all(4)
    slots = {ada: Offer(10), bob: Offer(100), cy: Offer(1_000, standby=True)}
    job = play.running(slots, {agg: Offer(5)}, slots=1, quorum=1, rounds=rounds)
    assert kit.settlement.seats(job, 0).price == 100
    return job, ada, cy, agg


def test_take_over__dearer_bid__is_paid_from_the_pot_each_remaining_round(kit, play):
    job, ada, cy, agg = dearer_takeover(kit, play, rounds=3)
    play.round(job, [ada], agg)
    time_out(kit, play, job, ada)
    take_over(kit, job, 0, cy)
    # Two rounds remain: the slash of 1,200 adds 600 in each to the 100 that escrow pays. Cy had asked 1,000.
    assert prices(kit, job, 0) == (100, 600)
    assert (kit.settlement.runs(job).pot, kit.registry.burned(kit.zen)) == (1_200, 0)
    for left in (600, 0):
        play.round(job, [cy], agg)
        assert kit.settlement.seats(job, 0).pot == left
    free = kit.registry.collateral(cy.id, kit.zen).balance
    play.finalise(job)
    assert kit.tasks.owed(kit.zen, ada.owner) == 95
    assert kit.tasks.owed(kit.zen, cy.owner) == 2 * 95
    assert kit.registry.collateral(cy.id, kit.zen).balance == free + 1_200
    assert (kit.settlement.runs(job).pot, kit.registry.pot(kit.zen)) == (0, 0)


def test_take_over__pot_that_does_not_divide__burns_the_rest_at_once(kit, play):
    job, ada, cy, _agg = dearer_takeover(kit, play, rounds=7)  # lock 16,000, slash 1,600
    time_out(kit, play, job, ada)
    take_over(kit, job, 0, cy)
    assert prices(kit, job, 0) == (100, 228)
    assert kit.registry.burned(kit.zen) == 1_600 - 7 * 228
    assert kit.settlement.runs(job).pot == 7 * 228


def test_take_over__pot_never_drawn__is_burned_at_the_end(kit, play):
    job, ada, cy, _agg = dearer_takeover(kit, play, rounds=2)
    time_out(kit, play, job, ada)
    take_over(kit, job, 0, cy)
    play.to(kit.settlement.runs(job).opened_at + 2 * 60)
    pot = kit.settlement.runs(job).pot
    kit.settlement.abandon(job, sender=play.anyone)
    assert (kit.settlement.runs(job).pot, kit.registry.pot(kit.zen)) == (0, 0)
    assert kit.registry.burned(kit.zen) >= pot > 0


def test_take_over__of_a_seat_taken_before__starts_from_its_escrow_price_and_what_is_left(kit, play):
    job, ada, cy, _agg = dearer_takeover(kit, play, rounds=3)
    time_out(kit, play, job, ada)
    take_over(kit, job, 0, cy)
    assert prices(kit, job, 0) == (100, 400)
    time_out(kit, play, job, cy)
    record = kit.settlement.seats(job, 0)
    assert (record.operator, record.price, record.pot_price, record.pot) == (0, 100, 0, 1_200 + SLASH)


def test_take_over__while_awarded__counts_as_ready(kit, play, cast):
    ada, bob, cy, dee = cast[:4]
    job = play.awarded(*offers(cast))
    seat = play.seat_of(job, ada)
    kit.settlement.decline(job, seat, 1, sender=ada.hot)
    take_over(kit, job, seat, dee, estimate_s=20)
    play.ready(job, bob, cy)
    run = kit.settlement.runs(job)
    assert (run.state, run.missing) == (3, 0b111)
    assert kit.settlement.deadline(job, seat) == run.opened_at + 40


# --- the aggregator


def quorum_waits(kit, play, job, cast):
    """All committed; the clock stands at the second the checkpoint is due."""
    for each in cast[:3]:
        play.commit(job, each)
    play.to(kit.settlement.runs(job).aggregator_due)


def aggregator_timed_out(kit, play, job, cast):
    quorum_waits(kit, play, job, cast)
    play.to(play.now + 1)
    kit.settlement.time_out(job, AGGREGATION, sender=play.anyone)


def test_time_out__aggregator_when_due__is_refused_and_after_it_accepted(kit, play, cast, running):
    agg = cast[4]
    quorum_waits(kit, play, running, cast)
    assert play.now == kit.settlement.runs(running).opened_at + 2 * 60 + 30
    with play.refused("settlement: deadline not passed"):
        kit.settlement.time_out(running, AGGREGATION, sender=play.anyone)
    play.to(play.now + 1)
    kit.settlement.time_out(running, AGGREGATION, sender=play.anyone)
    run = kit.settlement.runs(running)
    assert (run.aggregator, run.aggregator_due) == (0, play.now + 30)
    assert kit.settlement.stakes(running, agg.id).locked == SEAT_LOCK - SEAT_LOCK // 10
    assert (kit.registry.pot(kit.zen), kit.registry.burned(kit.zen)) == (0, SEAT_LOCK // 10)
    with play.refused("settlement: not the hot key"):
        play.post_checkpoint(running, agg)


def test_take_over__aggregator__at_its_own_bid_with_the_whole_lock(kit, play, cast, running):
    agg, eve = cast[4:]
    aggregator_timed_out(kit, play, running, cast)
    play.to(play.now + 30)
    take_over(kit, running, AGGREGATION, eve)
    run = kit.settlement.runs(running)
    assert (run.aggregator, run.aggregator_due) == (eve.id, play.now + 30)
    assert kit.registry.collateral(eve.id, kit.zen).locked == SEAT_LOCK
    assert kit.registry.operators(eve.id).locks == 1
    play.post_checkpoint(running, eve)
    play.finalise(running)
    assert kit.tasks.owed(kit.zen, eve.owner) == 380
    assert kit.tasks.owed(kit.zen, agg.owner) == 0


def test_take_over__aggregator__leaves_earlier_claims_at_their_price(kit, play, cast, running):
    agg, eve = cast[4:]
    play.round(running, cast[:3], agg)
    aggregator_timed_out(kit, play, running, cast)
    take_over(kit, running, AGGREGATION, eve)
    play.post_checkpoint(running, eve)
    play.finalise(running)
    # agg's critical price is eve's 400.
    assert kit.tasks.owed(kit.zen, agg.owner) == 380
    assert kit.tasks.owed(kit.zen, eve.owner) == 380


def test_abandon__aggregator_vacant_for_too_long__pays_the_open_turn(kit, play, cast, running):
    aggregator_timed_out(kit, play, running, cast)
    due = kit.settlement.runs(running).aggregator_due
    play.to(due)
    with play.refused("settlement: job can go on"):
        kit.settlement.abandon(running, sender=play.anyone)
    play.to(due + 1)
    kit.settlement.abandon(running, sender=play.anyone)
    assert kit.settlement.pending(running, 0) == 3
    play.finalise(running)
    play.release(running, *cast[:3], cast[4])
    for each in cast:
        assert kit.registry.collateral(each.id, kit.zen).locked == 0
        assert kit.registry.operators(each.id).locks == 0
