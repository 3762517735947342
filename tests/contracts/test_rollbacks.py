"""Settlement: rounds that are done again, what pays for them, and jobs that end because nothing can."""

import pytest

from tests.contracts import disputes
from tests.contracts.disputes import JUDGED, OPEN_TURN, SILENT, pending_claims
from tests.support.job_driver import Offer
from zoo_compute.spec.params import lock_of

ROUND = 3 * 2_000 + 1_000  # what a round costs at most
WORST = 3 * ROUND  # of the kit's three rounds: what a claim's conviction may cost at most
LOCK = lock_of(1_000, 500)  # of a slot at its price, besides WORST, which an operator locks once


@pytest.fixture
def cast(play):
    """ada, bob and cy with a slot each at 1,000; agg at 500."""
    return play.register_all(4)


@pytest.fixture
def running(play, cast):
    ada, bob, cy, agg = cast
    terms = {"policy": 1, "rounds": 5, "depth": 3}
    for _ in range(6):
        play.post()  # numbers of jobs are none of rounds, turns or operators
    return play.running({ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(5)}, **terms)


def played(play, job, cast, rounds):
    """The claims of each turn: ada's, bob's, cy's and the aggregator's."""
    for _ in range(rounds):
        play.round(job, cast[:3], cast[3])
    claims = play.refs[job]
    return [claims[at : at + 4] for at in range(0, len(claims), 4)]


def convict(kit, job, claim, outcome=JUDGED):
    """Disputed and convicted: what it slashed, restored, and gave to the finder and to the audits."""
    return tuple(disputes.convict(kit, job, claim, outcome))[5:]


def rolled_back(kit):
    return [tuple(each)[1:] for each in kit.settlement.get_logs() if type(each).__name__ == "RolledBack"]


def test_convict__worker_under_policy_1__does_its_round_and_those_after_it_again(kit, play, cast, running):
    turns = played(play, running, cast, 2)
    play.commit(running, cast[1])
    lie, escrow = turns[0][0], kit.tasks.jobs(running).escrow
    # Rounds 0 and 1, and the open one.
    assert convict(kit, running, lie) == (LOCK + WORST, WORST, LOCK * 4 // 10, LOCK // 10)
    assert rolled_back(kit) == [(running, 3, 0)]
    assert kit.tasks.jobs(running).escrow == escrow + WORST
    assert tuple(kit.locks.stakes(running, cast[0].id, False))[:2] == (0, WORST)
    run = kit.settlement.runs(running)
    # The lane of turn 3 is turn 0's: it waits for what is pending there. Nothing committed is lost, but for the lie.
    assert (run.turn, run.round, run.start_root, run.opened_at, run.missing) == (3, 0, lie[6], 0, 0b111)
    assert [pending_claims(kit, running, turn) for turn in range(4)] == [3, 4, 1, OPEN_TURN]


def test_convict__of_a_turn_that_was_rolled_back__rolls_nothing_back_again(kit, play, cast, running):
    turns = played(play, running, cast, 2)
    convict(kit, running, turns[0][0])
    for seat, turn in ((1, 0), (2, 1)):
        assert convict(kit, running, turns[turn][seat])[:2] == (LOCK, 0)
        assert rolled_back(kit) == []
        # What its other lies may cost yet is locked still.
        assert tuple(kit.locks.stakes(running, cast[seat].id, False))[:2] == (WORST, 0)
    run = kit.settlement.runs(running)
    assert (run.turn, run.round) == (3, 0)
    assert kit.registry.pot(kit.zen) == 3 * (LOCK * 4 // 10 + LOCK // 10)
    assert kit.tasks.owed(kit.zen, kit.audit_pool) == 3 * (LOCK // 10)
    assert [pending_claims(kit, running, turn) for turn in range(3)] == [2, 3, 0]


def test_convict__of_an_earlier_turn__is_paid_by_the_restitution_that_the_later_conviction_left(
    kit, play, cast, running
):
    turns = played(play, running, cast, 2)
    # Round 1 and the open one: a third of what ada locked for that is left.
    assert convict(kit, running, turns[1][0])[:2] == (LOCK + 2 * ROUND, 2 * ROUND)
    assert rolled_back(kit) == [(running, 3, 1)]
    assert tuple(kit.locks.stakes(running, cast[0].id, False))[:2] == (ROUND, 2 * ROUND)
    # Nothing else is left of ada's lock. Round 0 alone is done again: the one after it waits.
    found = kit.registry.pot(kit.zen)
    assert convict(kit, running, turns[0][0]) == (ROUND, ROUND, 0, 0)
    assert rolled_back(kit) == [(running, 3, 0)]
    assert tuple(kit.locks.stakes(running, cast[0].id, False))[:2] == (0, 3 * ROUND)
    # What is set aside for who found the first lie, and for whoever takes the seat dearer.
    assert kit.registry.pot(kit.zen) == found == LOCK * 4 // 10 + LOCK // 10


def test_convict__of_an_abandoned_job__pays_the_submitter_what_rested_on_the_lie(kit, play, cast, running):
    """M6 of the audit of money: it was burned. What was committed in the turn in which it was abandoned is paid, and rested on it."""
    turns = played(play, running, cast, 2)
    lie, late = turns[1][0], turns[0][1]
    play.commit(running, cast[2])
    play.to(kit.settlement.runs(running).opened_at + 2 * 60)
    kit.settlement.abandon(running, sender=play.anyone)
    escrow = kit.tasks.jobs(running).escrow
    assert convict(kit, running, lie)[:2] == (LOCK + 2 * ROUND, 2 * ROUND)
    assert rolled_back(kit) == [(running, 3, 1)]
    run = kit.settlement.runs(running)
    assert (run.state, run.round, run.start_root, kit.tasks.jobs(running).state) == (4, 1, lie[6], 4)
    assert convict(kit, running, late)[:2] == (LOCK + ROUND, ROUND)
    assert (kit.settlement.runs(running).state, kit.settlement.runs(running).round) == (4, 0)
    assert kit.tasks.jobs(running).escrow == escrow + 3 * ROUND
    for claim in (lie, late):
        play.refs[running].remove(claim)
    before = kit.tasks.owed(kit.zen, play.submitter)
    play.finalise(running)
    paid = 3 * 1_000 + 2 * 500  # other claims of ada and bob are void
    assert kit.tasks.owed(kit.zen, play.submitter) - before == escrow + 3 * ROUND - paid
    play.release(running, *cast)


def test_convict__in_the_open_turn__asks_for_the_seats_results_again(kit, play, cast, running):
    ada, bob = cast[:2]
    claim = play.commit(running, ada)
    play.commit(running, bob)
    disputes.ask(kit, running, claim)
    play.to(kit.settlement.runs(running).aggregator_due - 7)
    event = disputes.judged(kit, running, claim, SILENT)
    assert tuple(event)[5:] == (LOCK, 0, 0, LOCK // 10)
    run = kit.settlement.runs(running)
    assert (run.turn, run.round, run.committed) == (0, 0, 1)
    assert run.missing == 0b111 & ~(1 << play.seat_of(running, bob))
    assert run.aggregator_due == play.now + 30
    assert kit.settlement.seats(running, claim[2]).since == play.now
    assert tuple(kit.locks.stakes(running, ada.id, False)) == (WORST, 0, 1, 0, 0, False)
    assert kit.settlement.records(running, ada.id) == 1


def test_convict__in_one_role__leaves_the_lock_of_the_other(kit, play):
    """One operator holds a seat of slots and the aggregator's, and loses all it can in the first."""
    ada, bob = play.register_all(2)
    cheap = {"aggregator_reserve": 1, "aggregator_max_price": 1, "quorum": 1}
    play.post()  # the job's number is not its round's
    job = play.running({ada: Offer(10, 1), bob: Offer(20, 2)}, {bob: Offer(1)}, rounds=5, depth=2, **cheap)
    assert kit.registry.operators(bob.id).locks == 2
    work = play.commit(job, bob)
    play.commit(job, ada)
    lie = play.post_checkpoint(job, bob)
    play.commit(job, ada)
    play.to(play.deadline_of(job, work[2]) + 1)
    kit.settlement.time_out(job, work[2], sender=play.anyone)
    convict(kit, job, work)
    assert kit.locks.stakes(job, bob.id, False).locked == 0
    most, own = 2 * (3 * 2_000 + 1), lock_of(1, 500)
    assert kit.locks.stakes(job, bob.id, True).locked == most + own
    assert convict(kit, job, lie)[:2] == (most + own, most)
    assert rolled_back(kit) == [(job, 2, 0)]
    assert kit.tasks.jobs(job).state == 3


def test_convict__of_an_operator_with_several_seats__vacates_them_all(kit, play, cast, running):
    ada, bob = cast[:2]
    seats = [play.seat_of(running, each) for each in (ada, bob)]
    kit.settlement.decline(running, seats[1], 1, sender=bob.hot)
    kit.settlement.take_over(running, seats[1], ada.id, 1, 10, sender=ada.hot)
    assert tuple(kit.locks.stakes(running, ada.id, False)) == (2 * LOCK + WORST, 0, 0, 2, 2, False)
    lie = play.commit(running, ada, seats[0])
    convict(kit, running, lie)
    vacated = [tuple(each)[2:] for each in kit.settlement.get_logs() if type(each).__name__ == "SeatVacated"]
    assert [kit.settlement.seats(running, seat).operator for seat in seats] == [0, 0]
    assert tuple(kit.locks.stakes(running, ada.id, False)) == (LOCK + WORST, 0, 1, 0, 0, False)
    assert sorted(vacated) == sorted([(ada.id, seats[0], 0, LOCK), (ada.id, seats[1], 0, 0)])
