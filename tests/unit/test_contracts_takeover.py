"""Settlement: timeouts of slots and aggregators, standbys, and the arithmetic of the pot."""

import pytest

from tests.contract_kit import Offer

LOCK = 2 * 2_000 * 3  # of a slot, in the kit's default terms
SLASH = LOCK // 10
SEAT_LOCK = 3 * 2_000 * 3  # of the aggregator


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


def time_out(kit, play, job, operator, bitmap):
    play.to(kit.settlement.deadline(job, operator.id) + 1)
    kit.settlement.time_out(job, operator.id, bitmap, sender=play.anyone)


def take_over(kit, job, slot, operator, estimate_s=10):
    kit.settlement.take_over(job, slot, operator.id, estimate_s, sender=operator.hot)


# --- time_out


def test_time_out__at_the_deadline__is_refused_and_after_it_accepted(kit, play, cast, running):
    ada = cast[0]
    run = kit.settlement.runs(running)
    deadline = kit.settlement.deadline(running, ada.id)
    assert deadline == run.opened_at + 2 * 10
    for bitmap, reason in ((0, "settlement: no slots"), (0b10, "settlement: slot not held")):
        with play.refused(reason):
            kit.settlement.time_out(running, ada.id, bitmap, sender=play.anyone)
    play.to(deadline)
    with play.refused("settlement: deadline not passed"):
        kit.settlement.time_out(running, ada.id, 0b1, sender=play.anyone)
    play.to(deadline + 1)
    kit.settlement.time_out(running, ada.id, 0b1, sender=play.anyone)
    run, seat = kit.settlement.runs(running), kit.settlement.seats(running, ada.id)
    assert (run.vacant, run.missing, run.pot) == (0b1, 0b111, SLASH)
    assert (seat.held, seat.locked) == (0, LOCK - SLASH)
    # ada is paid the critical price, dee's 990.
    assert tuple(kit.settlement.vacancies(running, 0)) == (990, SLASH)


def test_time_out__estimate_above_half_the_slots_time__ends_with_it(kit, play, cast):
    job = play.awarded(*offers(cast))
    ada, bob, cy = cast[:3]
    play.ready(job, ada, estimate_s=31)
    play.ready(job, bob, cy)
    assert kit.settlement.deadline(job, ada.id) == play.now + 60


def test_time_out__committed_slot_or_job_not_running__is_refused(kit, play, cast):
    ada, bob, cy = cast[:3]
    job = play.awarded(*offers(cast))
    with play.refused("settlement: not running"):
        kit.settlement.time_out(job, ada.id, 0b1, sender=play.anyone)
    play.ready(job, ada, bob, cy)
    play.commit(job, ada)
    play.to(play.now + 61)
    with play.refused("settlement: slot already committed"):
        kit.settlement.time_out(job, ada.id, 0b1, sender=play.anyone)


def test_time_out__several_slots__slashes_each_and_halves_the_reputation_once(kit, play):
    ada, agg = play.register_all(2)
    kit.registry.reward_outcome(ada.id, 100, sender=kit.settlement.address)
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)})
    time_out(kit, play, job, ada, 0b101)
    assert kit.settlement.runs(job).vacant == 0b101
    assert kit.settlement.runs(job).pot == 2 * SLASH == kit.registry.pot(kit.zen)
    assert kit.settlement.seats(job, ada.id).held == 0b010
    assert kit.registry.discount_bps(ada.id) == 50


def test_time_out__who_took_over_too_late_to_commit__is_spared_this_round(kit, play, cast, running):
    ada, bob, cy, dee, agg, _ = cast
    time_out(kit, play, running, ada, 0b1)
    play.commit(running, bob)
    play.commit(running, cy)
    inputs_close = kit.settlement.runs(running).opened_at + 2 * 60
    play.to(inputs_close - 19)
    take_over(kit, running, 0, dee)  # could commit for 19 more seconds, its deadline is 20 away
    play.to(inputs_close + 2)
    with play.refused("settlement: deadline not passed"):
        kit.settlement.time_out(running, dee.id, 0b1, sender=play.anyone)
    play.post_checkpoint(running, agg)
    time_out(kit, play, running, dee, 0b1)


def test_time_out__taker_with_time_enough__is_bound(kit, play, cast, running):
    dee = cast[3]
    time_out(kit, play, running, cast[0], 0b1)
    inputs_close = kit.settlement.runs(running).opened_at + 2 * 60
    play.to(inputs_close - 20)
    take_over(kit, running, 0, dee)
    assert kit.settlement.deadline(running, dee.id) == inputs_close
    time_out(kit, play, running, dee, 0b1)


# --- take_over


def test_take_over__out_of_turn__is_refused_in_order(kit, play, cast, running):
    ada, bob, _, dee, agg, _ = cast
    take = kit.settlement.take_over
    other = play.post()
    with play.refused("settlement: not running"):
        take(other, 0, dee.id, 0, sender=play.anyone)
    with play.refused("settlement: not the hot key"):
        take(running, 0, dee.id, 0, sender=dee.owner)
    with play.refused("settlement: slot not vacant"):
        take(running, 0, dee.id, 0, sender=dee.hot)
    with play.refused("settlement: slot not vacant"):
        take(running, 256, dee.id, 0, sender=dee.hot)
    time_out(kit, play, running, ada, 0b1)
    with play.refused("settlement: held it before"):
        take(running, 0, ada.id, 0, sender=ada.hot)
    for estimate_s in (0, 61):
        with play.refused("settlement: estimate out of range"):
            take(running, 0, dee.id, estimate_s, sender=dee.hot)
    for each in (bob, agg):  # bob did not opt in; agg did not bid for slots
        with play.refused("auction: no standby"):
            take(running, 0, each.id, 10, sender=each.hot)


def test_take_over__cheaper_bid__costs_escrow_the_bid_and_burns_the_slash(kit, play, cast):
    ada, bob, cy, _, agg, _ = cast
    job = play.running(*offers(cast))
    time_out(kit, play, job, ada, 0b1)
    take_over(kit, job, 0, cy, estimate_s=30)
    assert tuple(kit.settlement.takeovers(job, 0, cy.id)) == (700, 0)
    assert (kit.registry.burned(kit.zen), kit.registry.pot(kit.zen)) == (SLASH, 0)
    run, seat = kit.settlement.runs(job), kit.settlement.seats(job, cy.id)
    assert (run.vacant, run.pot) == (0, 0)
    assert (seat.held, seat.taken, seat.locked) == (0b101, 0b001, 2 * LOCK)
    assert (seat.estimate_s, seat.since) == (30, play.now)
    assert kit.settlement.deadline(job, cy.id) == play.now + 60
    assert kit.registry.operators(cy.id).locks == 1
    assert kit.auction.bids(job, 0, cy.id).taken == 1
    assert tuple(kit.settlement.vacancies(job, 0)) == (0, 0)
    # Both slots in one claim: its own at the critical price of 990, the one taken at 700.
    play.commit(job, bob)
    play.commit(job, cy)
    play.post_checkpoint(job, agg)
    play.finalise(job)
    assert kit.tasks.owed(kit.zen, cy.owner) == (990 + 700) * 95 // 100
    assert kit.registry.discount_bps(cy.id) == 2


def test_take_over__capacity_used_up__is_refused(kit, play, cast):
    ada, bob, cy = cast[:3]
    job = play.running(*offers(cast))
    time_out(kit, play, job, ada, 0b1)
    time_out(kit, play, job, bob, 0b10)
    take_over(kit, job, 0, cy)
    with play.refused("auction: no standby"):
        take_over(kit, job, 1, cy)


def test_take_over__too_little_free_collateral__is_refused(kit, play, cast, running):
    ada, dee = cast[0], cast[3]
    time_out(kit, play, running, ada, 0b1)
    kit.registry.withdraw(dee.id, kit.zen, 10**9 - LOCK + 1, sender=dee.owner)
    with play.refused("registry: amount exceeds free collateral"):
        take_over(kit, running, 0, dee)


def dearer_takeover(kit, play, *, rounds):
    """ada holds the only slot at bob's 100; bob, who bid 1,000 in truth, never bids: cy stands by at 1,000."""
    ada, bob, cy, agg = play.register_all(4)
    slots = {ada: Offer(10), bob: Offer(100), cy: Offer(1_000, standby=True)}
    job = play.running(slots, {agg: Offer(5)}, slots=1, quorum=1, rounds=rounds)
    assert kit.settlement.seats(job, ada.id).price == 100
    return job, ada, cy, agg


def test_take_over__dearer_bid__is_paid_from_the_pot_each_remaining_round(kit, play):
    job, ada, cy, agg = dearer_takeover(kit, play, rounds=3)
    play.round(job, [ada], agg)
    time_out(kit, play, job, ada, 0b1)
    take_over(kit, job, 0, cy)
    # Two rounds remain: the slash of 1,200 pays 600 of the difference of 900 in each.
    assert tuple(kit.settlement.takeovers(job, 0, cy.id)) == (400, 600)
    assert (kit.settlement.runs(job).pot, kit.registry.burned(kit.zen)) == (1_200, 0)
    for _ in range(2):
        play.round(job, [cy], agg)
    free = kit.registry.collateral(cy.id, kit.zen).balance
    play.finalise(job)
    assert kit.tasks.owed(kit.zen, ada.owner) == 95
    assert kit.tasks.owed(kit.zen, cy.owner) == 2 * 380
    assert kit.registry.collateral(cy.id, kit.zen).balance == free + 1_200
    assert (kit.settlement.runs(job).pot, kit.registry.pot(kit.zen)) == (0, 0)


def test_take_over__pot_that_does_not_divide__burns_the_rest_at_once(kit, play):
    job, ada, cy, _agg = dearer_takeover(kit, play, rounds=7)  # lock 16,000, slash 1,600
    time_out(kit, play, job, ada, 0b1)
    take_over(kit, job, 0, cy)
    assert tuple(kit.settlement.takeovers(job, 0, cy.id)) == (1_000 - 228, 228)
    assert kit.registry.burned(kit.zen) == 1_600 - 7 * 228
    assert kit.settlement.runs(job).pot == 7 * 228


def test_take_over__pot_never_drawn__is_burned_at_the_end(kit, play):
    job, ada, cy, _agg = dearer_takeover(kit, play, rounds=2)
    time_out(kit, play, job, ada, 0b1)
    take_over(kit, job, 0, cy)
    play.to(kit.settlement.runs(job).opened_at + 2 * 60)
    pot = kit.settlement.runs(job).pot
    kit.settlement.abandon(job, sender=play.anyone)
    assert (kit.settlement.runs(job).pot, kit.registry.pot(kit.zen)) == (0, 0)
    assert kit.registry.burned(kit.zen) >= pot > 0


def test_take_over__small_difference__burns_what_it_does_not_need(kit, play):
    ada, bob, cy, agg = play.register_all(4)
    slots = {ada: Offer(10), bob: Offer(900), cy: Offer(910, standby=True)}
    job = play.running(slots, {agg: Offer(5)}, slots=1, quorum=1)
    time_out(kit, play, job, ada, 0b1)
    take_over(kit, job, 0, cy)
    assert tuple(kit.settlement.takeovers(job, 0, cy.id)) == (900, 10)
    assert kit.registry.burned(kit.zen) == SLASH - 30


def test_take_over__of_a_slot_taken_before__starts_from_its_escrow_price(kit, play):
    ada, bob, cy, agg = play.register_all(4)
    slots = {ada: Offer(10), bob: Offer(100, standby=True), cy: Offer(500, standby=True)}
    job = play.running(slots, {agg: Offer(5)}, slots=1, quorum=1)
    time_out(kit, play, job, ada, 0b1)
    take_over(kit, job, 0, bob)
    time_out(kit, play, job, bob, 0b1)
    assert tuple(kit.settlement.vacancies(job, 0)) == (100, SLASH)
    take_over(kit, job, 0, cy)
    assert tuple(kit.settlement.takeovers(job, 0, cy.id)) == (100, 400)
    for each in (ada, bob):
        with play.refused("settlement: slot not vacant"):
            take_over(kit, job, 0, each)


def test_take_over__while_awarded__counts_as_ready(kit, play, cast):
    ada, bob, cy, dee = cast[:4]
    job = play.awarded(*offers(cast))
    kit.settlement.decline(job, ada.id, sender=ada.hot)
    take_over(kit, job, 0, dee, estimate_s=20)
    assert kit.settlement.seats(job, dee.id).held == 0b1
    play.ready(job, bob, cy)
    run = kit.settlement.runs(job)
    assert (run.state, run.vacant, run.missing) == (3, 0, 0b111)
    assert kit.settlement.deadline(job, dee.id) == run.opened_at + 40


def test_take_over__first_lock_of_the_operator__counts_one_lock(kit, play, cast, running):
    ada, dee = cast[0], cast[3]
    assert kit.registry.operators(dee.id).locks == 0
    time_out(kit, play, running, ada, 0b1)
    take_over(kit, running, 0, dee)
    assert kit.registry.operators(dee.id).locks == 1
    assert kit.registry.collateral(dee.id, kit.zen).locked == LOCK


# --- the aggregator


def quorum_waits(kit, play, job, cast):
    """All committed; the clock stands at the second the checkpoint is due."""
    for each in cast[:3]:
        play.commit(job, each)
    play.to(kit.settlement.runs(job).aggregator_due)


def test_time_out_aggregator__when_due__is_refused_and_after_it_accepted(kit, play, cast, running):
    agg = cast[4]
    time_out_aggregator = kit.settlement.time_out_aggregator
    quorum_waits(kit, play, running, cast)
    assert play.now == kit.settlement.runs(running).opened_at + 2 * 60 + 30
    with play.refused("settlement: deadline not passed"):
        time_out_aggregator(running, sender=play.anyone)
    play.to(play.now + 1)
    time_out_aggregator(running, sender=play.anyone)
    run = kit.settlement.runs(running)
    assert (run.aggregator, run.aggregator_price, run.aggregator_due) == (0, 0, play.now + 30)
    assert tuple(kit.settlement.aggregator_seats(running, agg.id)) == (400, SEAT_LOCK - SEAT_LOCK // 10)
    assert (kit.registry.pot(kit.zen), kit.registry.burned(kit.zen)) == (0, SEAT_LOCK // 10)
    with play.refused("settlement: aggregator vacant"):
        time_out_aggregator(running, sender=play.anyone)
    with play.refused("settlement: not the aggregator"):
        play.post_checkpoint(running, agg)


def test_time_out_aggregator__without_quorum__is_refused(kit, play, cast, running):
    with play.refused("settlement: not running"):
        kit.settlement.time_out_aggregator(99, sender=play.anyone)
    play.to(kit.settlement.runs(running).aggregator_due + 1)
    with play.refused("settlement: quorum not reached"):
        kit.settlement.time_out_aggregator(running, sender=play.anyone)
    kit.settlement.abandon(running, sender=play.anyone)


def test_take_over_aggregator__at_its_own_bid_with_the_whole_lock(kit, play, cast, running):
    *_, _cy, dee, agg, eve = cast
    take = kit.settlement.take_over_aggregator
    quorum_waits(kit, play, running, cast)
    with play.refused("settlement: not the hot key"):
        take(running, eve.id, sender=eve.owner)
    with play.refused("settlement: aggregator not vacant"):
        take(running, eve.id, sender=eve.hot)
    play.to(play.now + 1)
    kit.settlement.time_out_aggregator(running, sender=play.anyone)
    with play.refused("settlement: held it before"):
        take(running, agg.id, sender=agg.hot)
    with play.refused("auction: no standby"):
        take(running, dee.id, sender=dee.hot)
    play.to(play.now + 30)
    take(running, eve.id, sender=eve.hot)
    run = kit.settlement.runs(running)
    assert (run.aggregator, run.aggregator_price, run.aggregator_due) == (eve.id, 400, play.now + 30)
    assert kit.registry.collateral(eve.id, kit.zen).locked == SEAT_LOCK
    assert kit.registry.operators(eve.id).locks == 1
    play.post_checkpoint(running, eve)
    play.finalise(running)
    assert kit.tasks.owed(kit.zen, eve.owner) == 380
    assert kit.tasks.owed(kit.zen, agg.owner) == 0


def test_take_over_aggregator__earlier_claims__stay_at_the_old_price(kit, play, cast, running):
    agg, eve = cast[4:]
    play.round(running, cast[:3], agg)
    quorum_waits(kit, play, running, cast)
    play.to(play.now + 1)
    kit.settlement.time_out_aggregator(running, sender=play.anyone)
    kit.settlement.take_over_aggregator(running, eve.id, sender=eve.hot)
    play.post_checkpoint(running, eve)
    play.finalise(running)
    # agg's critical price is eve's 400.
    assert kit.tasks.owed(kit.zen, agg.owner) == 380
    assert kit.tasks.owed(kit.zen, eve.owner) == 380


def test_abandon__aggregator_vacant_for_too_long__pays_the_open_round(kit, play, cast, running):
    quorum_waits(kit, play, running, cast)
    play.to(play.now + 1)
    kit.settlement.time_out_aggregator(running, sender=play.anyone)
    due = kit.settlement.runs(running).aggregator_due
    play.to(due)
    with play.refused("settlement: job can go on"):
        kit.settlement.abandon(running, sender=play.anyone)
    play.to(due + 1)
    kit.settlement.abandon(running, sender=play.anyone)
    assert kit.settlement.runs(running).outstanding == 3
    play.finalise(running)
    play.release(running, *cast[:3], cast[4])
    for each in cast:
        assert kit.registry.collateral(each.id, kit.zen).locked == 0
        assert kit.registry.operators(each.id).locks == 0
