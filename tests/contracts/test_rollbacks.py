"""Settlement: rounds that are done again, what pays for them, and jobs that end because nothing can."""

import pytest

from tests.contracts import disputes
from tests.contracts.disputes import JUDGED, SILENT
from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION

ROUND = 3 * 2_000 + 1_000  # what a round costs at most
WORST = 3 * ROUND  # of the kit's three rounds: what a claim's conviction may cost at most
COVERING = -(-WORST * 10 // 9)
LOCK = 2 * 2_000 * 3 + COVERING  # of a slot under policy 1
ZERO = "0x" + 40 * "0"
OPEN = 2**256 - 1  # what is pending of a turn that is not closed


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
    rest = LOCK - WORST
    # Rounds 0 and 1, and the open one.
    assert convict(kit, running, lie) == (LOCK, WORST, rest * 4 // 10, rest // 10)
    assert rolled_back(kit) == [(running, 3, 0)]
    assert kit.tasks.jobs(running).escrow == escrow + WORST
    assert kit.settlement.reserves(running) == 0
    run = kit.settlement.runs(running)
    # The lane of turn 3 is turn 0's: it waits for what is pending there. Nothing committed is lost, but for the lie.
    assert (run.turn, run.round, run.start_root, run.opened_at, run.missing) == (3, 0, lie[7], 0, 0b111)
    assert [kit.settlement.pending(running, turn) for turn in range(4)] == [3, 4, 1, OPEN]


def test_convict__of_a_turn_that_was_rolled_back__rolls_nothing_back_again(kit, play, cast, running):
    turns = played(play, running, cast, 2)
    convict(kit, running, turns[0][0])
    rest = LOCK - WORST
    for seat, turn in ((1, 0), (2, 1)):
        assert convict(kit, running, turns[turn][seat])[:2] == (LOCK, 0)
        assert rolled_back(kit) == []
    run = kit.settlement.runs(running)
    assert (run.turn, run.round) == (3, 0)
    # What their lies may cost yet is kept, the rest is divided; what finders may get is the job's no longer.
    assert kit.settlement.reserves(running) == 2 * WORST == run.pot
    assert kit.registry.pot(kit.zen) == 2 * WORST + 3 * (rest * 4 // 10)
    assert kit.tasks.owed(kit.zen, kit.audit_pool) == 3 * (rest // 10)
    assert [kit.settlement.pending(running, turn) for turn in range(3)] == [2, 3, 0]


def test_convict__of_an_earlier_turn__is_paid_by_what_the_later_conviction_kept(kit, play, cast, running):
    turns = played(play, running, cast, 2)
    # Round 1 and the open one: a third of what was kept for lies of this lock is left.
    assert convict(kit, running, turns[1][0])[:2] == (LOCK, 2 * ROUND)
    assert (rolled_back(kit), kit.settlement.reserves(running)) == ([(running, 3, 1)], ROUND)
    # Nothing is left of ada's lock. Round 0 alone is done again: the one after it waits.
    found = kit.registry.pot(kit.zen) - kit.settlement.reserves(running)
    assert convict(kit, running, turns[0][0]) == (0, ROUND, 0, 0)
    assert (rolled_back(kit), kit.settlement.reserves(running)) == ([(running, 3, 0)], 0)
    # What is set aside for who found the first lie.
    assert kit.registry.pot(kit.zen) == found == (LOCK - WORST) * 4 // 10


def test_convict__in_the_open_turn__asks_for_the_seats_results_again(kit, play, cast, running):
    ada, bob = cast[:2]
    claim = play.commit(running, ada)
    play.commit(running, bob)
    disputes.ask(kit, running, claim)
    play.to(kit.settlement.runs(running).aggregator_due - 7)
    event = disputes.judged(kit, running, claim, SILENT)
    assert tuple(event)[5:] == (LOCK, 0, 0, (LOCK - WORST) // 10)
    run = kit.settlement.runs(running)
    assert (run.turn, run.round, run.committed) == (0, 0, 1)
    assert run.missing == 0b111 & ~(1 << play.seat_of(running, bob))
    assert run.aggregator_due == play.now + 30
    assert kit.settlement.seats(running, claim[2]).since == play.now
    assert tuple(kit.settlement.stakes(running, ada.id)) == (0, 1, 0, 1, 1, 0, 0)
    assert kit.settlement.reserves(running) == WORST


def test_job__whose_lock_cannot_pay_for_a_rollback__ends_and_gives_its_escrow_back(kit, play):
    """One operator holds a seat of slots and the aggregator's, and loses too much in the first to restore for the second."""
    ada, bob = play.register_all(2)
    cheap = {"aggregator_reserve": 1, "aggregator_max_price": 1, "quorum": 1}
    play.post()  # the job's number is not its round's
    job = play.running({ada: Offer(10, 1), bob: Offer(20, 2)}, {bob: Offer(1)}, rounds=5, depth=2, **cheap)
    work = play.commit(job, bob)
    play.commit(job, ada)
    lie = play.post_checkpoint(job, bob)
    play.commit(job, ada)
    play.to(kit.settlement.deadline(job, work[2]) + 1)
    kit.settlement.time_out(job, work[2], sender=play.anyone)
    convict(kit, job, work)
    left = kit.settlement.stakes(job, bob.id).locked
    assert 0 < left < 2 * (3 * 2_000 + 1)
    escrow = kit.tasks.jobs(job).escrow
    assert convict(kit, job, lie)[:2] == (left, left)
    assert rolled_back(kit) == []
    run = kit.settlement.runs(job)
    assert (run.state, run.turn, run.round, kit.tasks.jobs(job).state) == (4, 2, 1, 4)
    assert kit.tasks.jobs(job).escrow == escrow + left
    for claim in (work, lie):
        play.refs[job].remove(claim)
    play.finalise(job)
    assert kit.tasks.owed(kit.zen, ada.owner) == 2 * 950
    assert kit.tasks.owed(kit.zen, play.submitter) == escrow + left - 2 * 1_000
    play.release(job, ada, bob)
    for claim in (work, lie):
        disputes.reward(kit, job, claim, ZERO)
    assert kit.registry.pot(kit.zen) == kit.registry.collateral(bob.id, kit.zen).locked == 0


def test_commit__of_a_round_done_again__is_paid_by_escrow_what_the_pot_has_spent(kit, play):
    ada, bob, cy, agg = play.register_all(4)
    slots = {ada: Offer(10), bob: Offer(100), cy: Offer(1_000, standby=True)}
    job = play.running(slots, {agg: Offer(5)}, slots=1, quorum=1)
    play.to(kit.settlement.deadline(job, 0) + 1)
    kit.settlement.time_out(job, 0, sender=play.anyone)
    kit.settlement.take_over(job, 0, cy.id, 1, 10, sender=cy.hot)
    record = kit.settlement.seats(job, 0)
    assert (record.price, record.pot_price, record.pot) == (100, 400, 1_200)
    for _ in range(2):
        play.round(job, [cy], agg)
    work, lie = play.refs[job][:2]
    play.commit(job, cy)
    assert kit.settlement.seats(job, 0).pot == 0
    convict(kit, job, lie)
    play.refs[job].remove(lie)
    play.finalise(job)
    free = kit.registry.collateral(cy.id, kit.zen).balance
    play.commit(job, cy)
    (event,) = kit.settlement.get_logs()
    play.refs[job] = [again := tuple(event.claim)]
    assert (again[1], again[5], again[6]) == (0, 100 + 400, 0)
    assert work[5:7] == (100, 400)
    assert kit.settlement.seats(job, AGGREGATION).operator == 0
    owed = kit.tasks.owed(kit.zen, cy.owner)
    play.to(kit.settlement.runs(job).aggregator_due + 1)
    kit.settlement.abandon(job, sender=play.anyone)
    play.finalise(job)
    assert kit.tasks.owed(kit.zen, cy.owner) - owed == 500 * 95 // 100
    assert kit.registry.collateral(cy.id, kit.zen).balance == free
