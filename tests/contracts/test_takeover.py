"""Settlement: timeouts of seats and aggregators, and what a vacant seat costs whoever takes it over."""

import pytest

from tests.contracts.disputes import pending_claims
from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION, events_of
from zoo_compute.spec.params import ZEN, lock_of

LOCK = lock_of(990, 500)  # of a slot at the losing bid
SLASH = LOCK // 10
RESTITUTION = 3 * (3 * 2_000 + 1_000)
SEAT_LOCK = RESTITUTION + lock_of(400, 500)  # of the aggregator, paid eve's bid


@pytest.fixture
def cast(play):
    """ada, bob and cy hold the slots, dee lost, agg aggregates and eve lost to it."""
    return play.register_all(6)


def offers(cast, cy_price=700):
    ada, bob, cy, dee, agg, eve = cast
    # Three slots, four bidders: the cap is one, so ada, bob and the next win one each. dee's 990 is the losing unit.
    slots = {
        ada: Offer(10, 3),
        bob: Offer(20),
        cy: Offer(cy_price, 2),
        dee: Offer(990),
    }
    return slots, {agg: Offer(5), eve: Offer(400)}


@pytest.fixture
def running(play, cast):
    return play.running(*offers(cast))


def time_out(kit, play, job, operator):
    seat = play.seat_of(job, operator)
    play.to(play.deadline_of(job, seat) + 1)
    kit.settlement.time_out(job, seat, sender=play.anyone)
    return seat


def take_over(kit, job, seat, operator, count=1, estimate_s=10):
    kit.settlement.take_over(job, seat, operator.id, count, estimate_s, sender=operator.hot)


def price(kit, job, seat):
    return kit.settlement.seats(job, seat).price


# --- time_out


def test_time_out__at_the_deadline__is_refused_and_after_it_accepted(kit, play, cast, running):
    ada = cast[0]
    seat, run = play.seat_of(running, ada), kit.settlement.runs(running)
    deadline = play.deadline_of(running, seat)
    assert deadline == run.opened_at + 2 * 10
    play.to(deadline)
    with play.refused("settlement: deadline not passed"):
        kit.settlement.time_out(running, seat, sender=play.anyone)
    play.to(deadline + 1)
    kit.settlement.time_out(running, seat, sender=play.anyone)
    run = kit.settlement.runs(running)
    assert (run.missing, kit.locks.pots(running)) == (0b111, SLASH)
    # ada is paid the critical price, dee's 990. Her open turn is the last that may have a claim of hers.
    record = kit.settlement.seats(running, seat)
    assert (record.price, record.left_turn, record.left_at) == (990, 0, play.now)
    assert tuple(kit.locks.stakes(running, ada.id, False)) == (LOCK - SLASH, 0, 1, 0, 0, False)


def test_time_out__estimate_above_half_the_slots_time__ends_with_it(kit, play, cast):
    job = play.awarded(*offers(cast))
    ada, bob, cy = cast[:3]
    play.ready(job, ada, estimate_s=31)
    play.ready(job, bob, cy)
    assert play.deadline_of(job, play.seat_of(job, ada)) == play.now + 60


def test_time_out__seat_of_several_slots__slashes_each_and_halves_the_reputation_once(kit, play):
    ada, agg = play.register_all(2)
    kit.registry.reward_outcome(ada.id, 100 * ZEN, sender=kit.settlement.address)
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)})
    time_out(kit, play, job, ada)
    tenth = lock_of(3_000, 500) // 10
    assert (kit.locks.pots(job), kit.registry.pot(kit.zen)) == (tenth - tenth // 10, tenth)  # of 100 points
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
    assert play.deadline_of(running, seat) == inputs_close
    time_out(kit, play, running, dee)


@pytest.mark.parametrize("points", [1, 899, 900, 901, 1_000])
def test_time_out__after_a_good_record__sets_most_of_the_slash_aside_until_the_job_is_over(
    kit, play, cast, running, points
):
    ada, dee = cast[0], cast[3]
    play.rate(ada, points)
    seat = time_out(kit, play, running, ada)
    aside, own = SLASH * min(points, 900) // 1_000, {"job": running, "operator": ada.id, "seat": seat}
    assert events_of(kit.settlement, kit.locks) == [("SetAside", {**own, "amount": aside})]
    assert tuple(kit.locks.set_aside(running, seat)) == (ada.id, 1, aside)
    assert (kit.locks.pots(running), kit.registry.pot(kit.zen)) == (SLASH - aside, SLASH)
    assert kit.locks.stakes(running, ada.id, False).locked == LOCK - SLASH
    take_over(kit, running, seat, dee)
    assert (kit.locks.kept(running, ada.id), kit.registry.pot(kit.zen)) == (aside, SLASH)
    assert tuple(kit.locks.set_aside(running, seat)) == (0, 0, 0)
    with play.refused("settlement: seat still occupied"):
        kit.locks.return_set_aside(running, ada.id, sender=play.anyone)


# --- take_over


def test_take_over__in_the_turn_of_the_timeout__costs_what_it_did(kit, play, cast):
    ada, bob, cy, _, agg, _ = cast
    job = play.running(*offers(cast))
    own = play.seat_of(job, cy)
    seat = time_out(kit, play, job, ada)
    take_over(kit, job, seat, cy, estimate_s=30)
    assert price(kit, job, seat) == 990
    assert (kit.registry.burned(kit.zen), kit.registry.pot(kit.zen)) == (0, SLASH)
    taken = kit.settlement.seats(job, seat)
    assert (taken.operator, taken.estimate_s, taken.since, taken.left_turn, taken.left_at) == (
        cy.id,
        30,
        play.now,
        0,
        0,
    )
    assert tuple(kit.locks.stakes(job, cy.id, False)) == (2 * LOCK, 0, 0, 2, 2, False)
    assert play.deadline_of(job, seat) == play.now + 60
    assert play.deadline_of(job, own) == kit.settlement.runs(job).opened_at + 20
    assert kit.registry.operators(cy.id).locks == 1
    play.commit(job, bob)
    play.commit(job, cy, own)
    play.commit(job, cy, seat)
    play.post_checkpoint(job, agg)
    play.finalise(job)
    assert kit.tasks.owed(kit.zen, cy.owner) == 1_881


def test_take_over__part_of_a_seat__locks_for_that(kit, play):
    ada, bob, agg = play.register_all(3)
    job = play.running({ada: Offer(10, 3), bob: Offer(1_000, 2)}, {agg: Offer(5)})
    time_out(kit, play, job, ada)
    take_over(kit, job, 0, bob, count=2)
    assert kit.settlement.seats(job, 0).count == 1
    taken = kit.settlement.seats(job, 1)
    assert (taken.operator, taken.first, taken.count) == (bob.id, 1, 2)
    assert kit.registry.collateral(bob.id, kit.zen).locked == lock_of(2_000, 500)


def test_take_over__too_little_free_collateral__is_refused(kit, play, cast, running):
    ada, dee = cast[0], cast[3]
    seat = time_out(kit, play, running, ada)
    kit.registry.withdraw(dee.id, kit.zen, 10**9 - LOCK + 1, sender=dee.owner)
    with play.refused("registry: amount exceeds free collateral"):
        take_over(kit, running, seat, dee)


def test_take_over__by_who_leaves__is_refused(kit, play, cast, running):
    """L2 of the audit of money: nobody asked."""
    ada, dee = cast[0], cast[3]
    seat = time_out(kit, play, running, ada)
    with play.refused("auction: operator not eligible"):
        kit.settlement.take_over(running, seat, dee.id, 1, 10, sender=dee.owner)
    kit.registry.request_exit(dee.id, sender=dee.owner)
    with play.refused("auction: operator not eligible"):
        take_over(kit, running, seat, dee)


@pytest.mark.parametrize(
    ("turns", "costs"), [(0, 100), (1, 110), (2, 121), (3, 134), (4, 148), (8, 218), (23, 924), (24, 1_000)]
)
def test_take_over__of_a_seat_that_was_vacant_for_turns__costs_a_tenth_more_for_each(kit, play, turns, costs):
    """Rounded up, and never above the reserve of 1,000, though the maximum is 2,000. Escrow has the difference from the slash, as far as it goes."""
    ada, bob, cy, dee, agg = play.register_all(5)
    bids = {ada: Offer(100), bob: Offer(100), cy: Offer(100), dee: Offer(100)}
    job = play.running(bids, {agg: Offer(5)}, slots=3, quorum=1, rounds=60, depth=60)
    seat = time_out(kit, play, job, ada)
    assert price(kit, job, seat) == 100
    slash = kit.locks.pots(job)
    assert slash == lock_of(100, 500) // 10 == 983
    kit.settlement.decline(job, play.seat_of(job, cy), 1, sender=cy.hot)
    for _ in range(turns):
        play.commit(job, bob)
        play.post_checkpoint(job, agg)
    pot, escrow = kit.locks.pots(job), kit.tasks.jobs(job).escrow
    assert pot == 2 * slash
    take_over(kit, job, seat, dee)
    assert price(kit, job, seat) == costs
    restored = min(pot, (costs - 100) * (60 - turns))
    assert (kit.locks.pots(job), kit.tasks.jobs(job).escrow) == (pot - restored, escrow + restored)
    assert kit.locks.stakes(job, dee.id, False).locked == lock_of(costs, 500)


def test_pot__that_nothing_was_dearer_for__is_burned_at_the_end(kit, play, cast, running):
    time_out(kit, play, running, cast[0])
    play.to(kit.settlement.runs(running).opened_at + 2 * 60)
    assert kit.locks.pots(running) == SLASH
    kit.settlement.abandon(running, sender=play.anyone)
    assert (kit.locks.pots(running), kit.registry.pot(kit.zen)) == (0, 0)
    assert kit.registry.burned(kit.zen) == SLASH


def test_take_over__while_awarded__counts_as_ready(kit, play, cast):
    ada, bob, cy, dee = cast[:4]
    job = play.awarded(*offers(cast))
    seat = play.seat_of(job, ada)
    kit.settlement.decline(job, seat, 1, sender=ada.hot)
    take_over(kit, job, seat, dee, estimate_s=20)
    play.ready(job, bob, cy)
    run = kit.settlement.runs(job)
    assert (run.state, run.missing) == (3, 0b111)
    assert play.deadline_of(job, seat) == run.opened_at + 40


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
    assert (kit.settlement.seats(running, 128).operator, run.aggregator_due) == (0, play.now + 30)
    tenth = lock_of(400, 500) // 10
    assert kit.locks.stakes(running, agg.id, True).locked == SEAT_LOCK - tenth
    assert (kit.registry.pot(kit.zen), kit.locks.pots(running), kit.registry.burned(kit.zen)) == (tenth, tenth, 0)
    with play.refused("settlement: not the hot key"):
        play.post_checkpoint(running, agg)


@pytest.mark.parametrize(("seconds", "costs"), [(0, 400), (1, 400), (2, 440), (4, 484), (6, 500), (30, 500)])
def test_take_over__aggregator__rises_within_the_time_of_an_aggregation(kit, play, cast, running, seconds, costs):
    """Sixteen times in the 30 seconds after which the job could be abandoned, up to the reserve of 500."""
    agg, eve = cast[4:]
    aggregator_timed_out(kit, play, running, cast)
    play.to(play.now + seconds)
    take_over(kit, running, AGGREGATION, eve)
    run = kit.settlement.runs(running)
    assert (kit.settlement.seats(running, 128).operator, run.aggregator_due) == (eve.id, play.now + 30)
    assert kit.registry.collateral(eve.id, kit.zen).locked == RESTITUTION + lock_of(costs, 500)
    assert kit.registry.operators(eve.id).locks == 1
    play.post_checkpoint(running, eve)
    play.finalise(running)
    assert kit.tasks.owed(kit.zen, eve.owner) == costs * 95 // 100
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
    assert pending_claims(kit, running, 0) == 3
    play.finalise(running)
    play.release(running, *cast[:3], cast[4])
    for each in cast:
        assert kit.registry.collateral(each.id, kit.zen).locked == 0
        assert kit.registry.operators(each.id).locks == 0
