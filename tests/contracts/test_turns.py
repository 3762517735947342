"""Settlement: what may be done in a turn, by whom, and until which second."""

import pytest

from tests.contracts.disputes import OPEN_TURN, convict, pending_claims
from tests.support.evm import chain
from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION

ROOT = b"\x07" * 32
CLOSES = 2 * 60  # seconds from the opening of a turn to its inputs' close


@pytest.fixture
def cast(play):
    """ada holds two slots; bob holds one and stands by for the others; agg aggregates."""
    return play.register_all(3)


def offers(cast):
    ada, bob, agg = cast
    return {ada: Offer(10, 2), bob: Offer(990, 3)}, {agg: Offer(5)}


@pytest.fixture
def awarded(play, cast):
    return play.awarded(*offers(cast), rounds=5, depth=2)


@pytest.fixture
def running(play, cast, awarded):
    play.ready(awarded, *cast[:2])
    return awarded


def played(play, job, cast, rounds):
    for _ in range(rounds):
        play.round(job, cast[:2], cast[2])


def close(kit, play, job):
    """The first second at which inputs are closed."""
    play.to(kit.settlement.runs(job).opened_at + CLOSES)


# --- the phases of a job


def test_job__that_ended__takes_no_more_of_a_turn(kit, play, cast, running):
    close(kit, play, running)
    kit.settlement.abandon(running, sender=play.anyone)
    ada, bob = cast[0], cast[1]
    for call in (
        lambda: kit.settlement.decline(running, 0, 1, sender=ada.hot),
        lambda: kit.settlement.take_over(running, 0, bob.id, 1, 10, sender=bob.hot),
        lambda: kit.settlement.time_out(running, 0, sender=play.anyone),
        lambda: kit.settlement.abandon(running, sender=play.anyone),
    ):
        with play.refused("settlement: not running"):
            call()


# --- commit


def test_commit__is_the_holders_once_a_turn_while_inputs_are_open(kit, play, cast, running):
    ada, bob, agg = cast
    commit, seat, bobs = kit.settlement.commit, play.seat_of(running, ada), play.seat_of(running, bob)
    with play.refused("settlement: not the current turn"):
        commit(running, seat, 1, ROOT, ROOT, sender=ada.hot)
    for number, sender in ((seat, ada.owner), (seat, bob.hot), (99, ada.hot)):
        with play.refused("settlement: not the hot key"):
            commit(running, number, 0, ROOT, ROOT, sender=sender)
    # The aggregator's seat is no seat of slots.
    with play.refused("settlement: already committed"):
        commit(running, AGGREGATION, 0, ROOT, ROOT, sender=agg.hot)
    close(kit, play, running)
    with play.refused("settlement: inputs closed"):
        commit(running, bobs, 0, ROOT, ROOT, sender=bob.hot)
    play.to(play.now - 1)
    play.commit(running, ada)
    with play.refused("settlement: already committed"):
        commit(running, seat, 0, ROOT, ROOT, sender=ada.hot)
    run = kit.settlement.runs(running)
    assert (run.committed, run.missing) == (2, 1 << bobs)


def test_commit__in_a_turn_that_waits_for_its_depth__is_refused_until_the_lane_is_free(kit, play, cast, running):
    ada, bob, agg = cast
    played(play, running, cast, 2)
    run, seat = kit.settlement.runs(running), play.seat_of(running, ada)
    assert (run.turn, run.round, run.opened_at, run.missing) == (2, 2, 0, 0b11)
    with play.refused("settlement: depth reached"):
        kit.settlement.commit(running, seat, 2, ROOT, ROOT, sender=ada.hot)
    with play.refused("settlement: depth reached"):
        kit.settlement.post_checkpoint(running, AGGREGATION, 2, 0, ROOT, ROOT, sender=agg.hot)
    play.to(play.now + 10**6)  # nobody is late in a turn that waits
    for number in (seat, AGGREGATION):
        with play.refused("settlement: deadline not passed"):
            kit.settlement.time_out(running, number, sender=play.anyone)
    with play.refused("settlement: job can go on"):
        kit.settlement.abandon(running, sender=play.anyone)
    first, second = play.refs[running][:3], play.refs[running][3:]
    kit.settlement.finalise(running, second, sender=play.anyone)
    kit.settlement.finalise(running, first[1:], sender=play.anyone)
    assert kit.settlement.runs(running).opened_at == 0
    assert [pending_claims(kit, running, turn) for turn in range(4)] == [1, 0, OPEN_TURN, OPEN_TURN]
    kit.settlement.finalise(running, first[:1], sender=play.anyone)
    run = kit.settlement.runs(running)
    assert (run.opened_at, run.aggregator_due) == (play.now, play.now + CLOSES + 30)
    assert [pending_claims(kit, running, turn) for turn in range(3)] == [0, 0, OPEN_TURN]
    play.commit(running, bob)


# --- post_checkpoint


def test_post_checkpoint__with_the_quorum__closes_without_who_is_missing(kit, play, cast, running):
    ada, _, agg = cast
    play.commit(running, ada)
    close(kit, play, running)
    claim = play.post_checkpoint(running, agg)
    assert claim[4] == 1 << play.seat_of(running, ada)
    seat = play.seat_of(running, cast[1])
    assert kit.settlement.claims(running, seat, 0) == bytes(32), "bob has no claim"
    run = kit.settlement.runs(running)
    assert (run.turn, run.round, run.missing, pending_claims(kit, running, 0)) == (1, 1, 0b11, 2)


# --- decline, time_out


def test_decline__is_of_a_seat_that_is_missing_and_at_most_all_of_it(kit, play, cast, running):
    ada, bob, _ = cast
    decline, seat = kit.settlement.decline, play.seat_of(running, ada)
    for count in (0, 3):
        with play.refused("settlement: count out of range"):
            decline(running, seat, count, sender=ada.hot)
    play.commit(running, bob)
    with play.refused("settlement: already committed"):
        decline(running, play.seat_of(running, bob), 1, sender=bob.hot)
    decline(running, seat, 2, sender=ada.hot)
    record = kit.settlement.seats(running, seat)
    assert (record.operator, record.count, kit.settlement.runs(running).seats) == (0, 2, 2)


# --- take_over


def test_take_over__is_of_a_vacant_seat_by_who_is_eligible_within_the_bounds(kit, play, cast, running):
    ada, bob, _ = cast
    seat = play.seat_of(running, ada)

    def take(seat=seat, operator=bob, count=2, estimate_s=10, sender=None):
        sender = sender or operator.hot
        kit.settlement.take_over(running, seat, operator.id, count, estimate_s, sender=sender)

    for number in (seat, 99):
        with play.refused("settlement: seat not vacant"):
            take(seat=number)
    kit.settlement.decline(running, seat, 2, sender=ada.hot)
    with play.refused("auction: operator not eligible"):
        take(sender=bob.owner)
    for count in (0, 3):
        with play.refused("settlement: count out of range"):
            take(count=count)
    for estimate_s in (0, 61):
        with play.refused("settlement: estimate out of range"):
            take(estimate_s=estimate_s)
    with chain.anchor():
        take(estimate_s=1)
    take(estimate_s=60)
    assert kit.settlement.seats(running, seat).operator == bob.id


def test_take_over__of_a_part__is_at_least_a_64th_of_the_jobs_slots(kit, play):
    ada, agg, cy = (play.register(name, deposit=10**12, units=129) for name in ("ada", "agg", "cy"))
    kit.zen.transfer(play.submitter, 10**9, sender=kit.deployer)
    slots = {ada: Offer(10, 129), cy: Offer(20, 129)}
    job = play.running(slots, {agg: Offer(5)}, slots=129, quorum=1, rounds=1)
    take = kit.settlement.take_over
    kit.settlement.decline(job, 0, 129, sender=ada.hot)
    with play.refused("settlement: count out of range"):
        take(job, 0, cy.id, 2, 10, sender=cy.hot)
    with chain.anchor():
        take(job, 0, cy.id, 3, 10, sender=cy.hot)
        assert kit.settlement.seats(job, 0).count == 126
    take(job, 0, cy.id, 127, 10, sender=cy.hot)
    take(job, 0, cy.id, 2, 10, sender=cy.hot)  # all that is left of the seat is enough


def test_take_over__of_a_part_of_what_was_committed__is_refused(kit, play, cast, running):
    """A claim stands for all slots of its seat: ada's seat fell vacant by an earlier claim's conviction."""
    ada, bob, agg = cast
    lie = play.commit(running, ada)
    play.commit(running, bob)
    play.post_checkpoint(running, agg)
    play.commit(running, ada)
    convict(kit, running, lie)
    seat = lie[2]
    assert kit.settlement.seats(running, seat).operator == 0
    with play.refused("settlement: already committed"):
        kit.settlement.take_over(running, seat, bob.id, 1, 10, sender=bob.hot)
    assert kit.settlement.runs(running).missing == 0b11 & ~(1 << seat)
    kit.settlement.take_over(running, seat, bob.id, 2, 10, sender=bob.hot)


# --- holds


def test_holds__are_the_availabilitys(kit, play, cast, running):
    claim = play.commit(running, cast[0])
    for call in (
        lambda: kit.settlement.hold(running, sender=kit.referee),
        lambda: kit.settlement.resume(running, 1, sender=kit.referee),
        lambda: kit.settlement.void(running, claim, sender=kit.referee),
    ):
        with play.refused("settlement: not a protocol contract"):
            call()
    with play.refused("settlement: unknown claim"):
        kit.settlement.void(running, (*claim[:7], ROOT), sender=kit.availability.address)


def test_hold__of_several__ends_with_the_last_and_gives_no_more_than_has_passed(kit, play, cast, running):
    ada, _, agg = cast
    settlement, availability = kit.settlement, kit.availability.address
    opened, due = (settlement.runs(running).opened_at, settlement.runs(running).aggregator_due)
    for _ in range(2):
        settlement.hold(running, sender=availability)
    play.commit(running, ada)
    play.to(due + 1)
    mask = 1 << play.seat_of(running, ada)
    settlement.resume(running, 30, sender=availability)
    assert settlement.runs(running).holds == 1
    with play.refused("settlement: inputs open"):
        settlement.post_checkpoint(running, AGGREGATION, 0, mask, ROOT, ROOT, sender=agg.hot)
    with play.refused("settlement: deadline not passed"):
        settlement.time_out(running, AGGREGATION, sender=play.anyone)
    with play.refused("settlement: job can go on"):
        settlement.abandon(running, sender=play.anyone)
    settlement.resume(running, 1_000, sender=availability)
    run = settlement.runs(running)
    assert (run.holds, run.held_s, run.aggregator_due) == (0, 1_030, due + 1_030)
    assert run.opened_at == play.now == opened + CLOSES + 30 + 1


def test_resume__in_a_turn_that_waits__gives_it_nothing(kit, play, cast, running):
    played(play, running, cast, 2)
    before = kit.settlement.runs(running)
    kit.settlement.hold(running, sender=kit.availability.address)
    kit.settlement.resume(running, 50, sender=kit.availability.address)
    assert kit.settlement.runs(running) == before


def test_take_over__between_holds__is_given_back_only_the_later_one(kit, play, cast, running):
    ada, bob = cast[0], cast[1]
    settlement, availability = kit.settlement, kit.availability.address
    seat = play.seat_of(running, ada)
    settlement.decline(running, seat, 2, sender=ada.hot)
    for record in (40, 25):
        settlement.hold(running, sender=availability)
        play.to(play.now + record)
        settlement.resume(running, record, sender=availability)
        if record == 40:
            play.to(play.now + 3)
            settlement.take_over(running, seat, bob.id, 2, 10, sender=bob.hot)
            assert play.deadline_of(running, seat) == play.now + 20
            taken = play.now
    assert play.deadline_of(running, seat) == taken + 25 + 20


# --- release


def test_release__of_who_left__waits_for_the_claims_that_its_lock_stands_behind(kit, play, cast, running):
    ada, bob, agg = cast
    played(play, running, cast, 1)
    kit.settlement.decline(running, play.seat_of(running, ada), 2, sender=ada.hot)
    assert kit.locks.stakes(running, ada.id, False).left_turn == 2
    play.to(play.deadline(running, play.refs[running][-1]) + 1)
    with play.refused("settlement: claims not final"):  # turn 1 is open: nothing of it is known to be final
        kit.locks.release(running, ada.id, sender=play.anyone)
    kit.settlement.take_over(running, 0, bob.id, 2, 10, sender=bob.hot)
    kit.settlement.finalise(running, play.refs.pop(running), sender=play.anyone)
    with play.refused("settlement: claims not final"):
        kit.locks.release(running, ada.id, sender=play.anyone)
    for seat in (0, 1):
        play.commit(running, bob, seat)
    play.post_checkpoint(running, agg)
    with play.refused("settlement: claims not final"):
        kit.locks.release(running, ada.id, sender=play.anyone)
    play.finalise(running)
    kit.locks.release(running, ada.id, sender=play.anyone)
    record = kit.registry.collateral(ada.id, kit.zen)
    assert (record.locked, kit.registry.operators(ada.id).locks) == (0, 0)
    assert tuple(kit.locks.stakes(running, ada.id, False)) == (0, 0, 0, 0, 0, False)


def test_auctions_functions__are_the_auctions(kit, play, cast, awarded):
    for call in (
        lambda: kit.settlement.seat(awarded, 0, cast[0].id, 0, 1, 1, 1, sender=play.anyone),
        lambda: kit.settlement.begin(awarded, sender=kit.deployer),
    ):
        with play.refused("settlement: not a protocol contract"):
            call()


@pytest.mark.parametrize("depth", [4, 5, 6, 11])
def test_records_of_turns__keep_their_deadline_and_count_whatever_is_paid_first(kit, play, cast, depth):
    """The ring of `depth` turns wraps round, and claims are paid in no order of turns."""
    ada, bob, agg = cast
    job, closed = play.running(*offers(cast), rounds=2 * depth + 1, depth=depth), {}

    def check(pending):
        newest = kit.settlement.runs(job).turn
        for turn in range(max(0, newest - depth), newest):
            assert pending_claims(kit, job, turn) == pending.get(turn, 0)
            assert kit.settlement.claim_deadline(job, turn) == closed[turn] + kit.settlement.runs(job).window_s

    for first in (0, depth):
        claims = {}
        for turn in range(first, first + depth):
            claims[turn] = [play.commit(job, ada), play.commit(job, bob)]
            play.to(play.now + 1)
            claims[turn].append(play.post_checkpoint(job, agg))
            closed[turn] = play.now
            check({each: 3 for each in claims})
        play.to(kit.settlement.claim_deadline(job, first + depth - 1) + 1)
        pending = {each: 3 for each in claims}
        order = [first + place for place in (*range(1, depth, 2), *range(0, depth, 2))]
        for turn in order:
            for part in (claims[turn][2:], claims[turn][:2]):
                kit.settlement.finalise(job, part, sender=play.anyone)
                pending[turn] -= len(part)
                check(pending)
