"""Settlement: how the dispute of a claim ends without a conviction, what it means for others, and what the Referee asks."""

import pytest

from tests.contracts.disputes import (  # noqa: F401
    AGED,
    FINAL,
    JUDGED,
    PENDING,
    VOID,
    ask,
    cast_fixture,
    close,
    convict,
    events_named,
    pending_claims,
    running_fixture,
    status,
)
from tests.support.evm import Reverted
from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION
from zoo_compute.spec.params import lock_of

ROUND = 3 * 2_000 + 1_000  # what a round costs at most
CARRIES = 4  # the policy of a job whose disputed claims keep their place
SEAT_LOCK = 3 * ROUND + lock_of(9, 500)  # of the aggregator


# --- claims that are not convicted


def test_open_dispute__is_the_referees__of_a_pending_claim(kit, play, cast, running):
    claim = play.commit(running, cast[0])
    for call in (
        lambda: kit.settlement.open_dispute(running, claim, sender=play.anyone),
        lambda: kit.settlement.close_dispute(running, claim, JUDGED, 0, 0, sender=play.anyone),
    ):
        with play.refused("settlement: not a protocol contract"):
            call()
    with play.refused("settlement: unknown claim"):
        ask(kit, running, (*claim[:7], bytes(32)))
    ask(kit, running, claim)
    assert [tuple(event)[1:] for event in events_named(kit, "DisputeOpened")] == [(running, 0, claim[2])]
    convict(kit, running, claim)
    with play.refused("settlement: unknown claim"):
        ask(kit, running, claim)


@pytest.mark.parametrize("parks", [False, True])
def test_close_dispute__of_a_final_claim__pays_it_as_finalise_does(kit, play, cast, running, parks):
    """The same payments, events and counts of two seats, one of which was asked about; parked or not."""
    play.round(running, cast[:3], cast[3])
    ada, bob = (claim for claim in play.refs[running] if claim[3] in (cast[0].id, cast[1].id))
    ask(kit, running, ada)
    play.to(play.deadline(running, ada) + 1)
    if parks:
        kit.settlement.finalise(running, [ada], sender=play.anyone)
        assert kit.tasks.owed(kit.zen, cast[0].owner) == 0
    close(kit, running, ada, FINAL, used_s=10**6)
    asked = [tuple(event)[3:] for event in events_named(kit, "ClaimFinalised")]
    kit.settlement.finalise(running, [bob], sender=play.anyone)
    others = [tuple(event)[3:] for event in events_named(kit, "ClaimFinalised")]
    assert [(seat, *money) for _, seat, *money in asked] == [(ada[2], 1_000)]
    assert [money for _, _, *money in asked] == [money for _, _, *money in others]
    assert kit.tasks.owed(kit.zen, cast[0].owner) == kit.tasks.owed(kit.zen, cast[1].owner) == 950
    assert pending_claims(kit, running, 0) == 2
    close(kit, running, ada, JUDGED)  # it is paid: nothing is left to judge
    assert kit.settlement.get_logs() == []


@pytest.mark.parametrize("outcome", [FINAL, AGED])
def test_close_dispute__of_a_claim_of_the_open_turn__reverts(kit, play, cast, running, outcome):
    """It is pending, but in no record yet: its turn's place has a turn whose claims are all final, and must not get one of this turn's."""
    play.round(running, cast[:3], cast[3])
    claim = play.commit(running, cast[0])
    ask(kit, running, claim)
    before = [kit.settlement.pending(running, turn) for turn in range(3)]
    with pytest.raises(Reverted):
        close(kit, running, claim, outcome)
    assert [kit.settlement.pending(running, turn) for turn in range(3)] == before
    assert status(kit, running, claim) == PENDING


@pytest.mark.parametrize(
    ("used_s", "paid"), [(0, 500), (30, 500), (31, 496), (105, 250), (179, 3), (180, 0), (2**16 - 1, 0)]
)
def test_close_dispute__of_a_final_aggregation__pays_less_the_longer_it_took(kit, play, cast, used_s, paid):
    """On a devnet all up to 30 s of its own clock, nothing from 180 s on; the rest stays in escrow."""
    running = play.running(dict(zip(cast, map(Offer, (10, 20, 30)), strict=False)), {cast[3]: Offer(5)})
    play.round(running, cast[:3], cast[3])
    claim, escrow = play.refs[running][-1], kit.tasks.jobs(running).escrow
    ask(kit, running, claim)
    play.to(play.deadline(running, claim) + 1)
    close(kit, running, claim, FINAL, used_s=used_s)
    assert [event.paid for event in events_named(kit, "ClaimFinalised")] == [paid]
    assert kit.tasks.owed(kit.zen, cast[3].owner) == paid * 95 // 100
    assert kit.tasks.jobs(running).escrow == escrow - paid
    assert pending_claims(kit, running, 0) == 3


def test_close_dispute__of_an_aged_claim__is_unpaid_and_unslashed(kit, play, cast, running):
    play.round(running, cast[:3], cast[3])
    lie, escrow = play.refs[running][-1], kit.tasks.jobs(running).escrow
    ask(kit, running, lie)
    play.to(play.deadline(running, lie) + 1)
    close(kit, running, lie, AGED)
    assert [tuple(event)[1:] for event in kit.settlement.get_logs()] == [(running, cast[3].id, 0, AGGREGATION)]
    assert status(kit, running, lie) == VOID
    assert pending_claims(kit, running, 0) == 3
    assert kit.tasks.jobs(running).escrow == escrow
    assert kit.locks.stakes(running, cast[3].id, True).locked == SEAT_LOCK
    assert kit.settlement.runs(running).round == 1
    for call in (lambda: kit.settlement.finalise(running, [lie], sender=play.anyone), lambda: ask(kit, running, lie)):
        with play.refused("settlement: unknown claim"):
            call()


@pytest.mark.parametrize("outcome", [FINAL, AGED])
def test_close_dispute__of_the_last_pending_claim__opens_the_turn_that_waits(kit, play, cast, running, outcome):
    ada, bob, cy, agg, _eve = cast
    for _ in range(3):
        play.round(running, [ada, bob, cy], agg)
    claims = play.refs[running]
    ask(kit, running, claims[0])
    play.to(play.deadline(running, *claims) + 1)
    kit.settlement.finalise(running, claims[1:], sender=play.anyone)
    assert kit.tasks.jobs(running).escrow > 0
    close(kit, running, claims[0], outcome)
    assert kit.tasks.jobs(running).escrow == 0  # the job is over: nothing is pending


# --- other claims of a convicted operator


def test_claims_from_before_a_conviction__are_void(kit, play, cast, running):
    """INVARIANT void: ada's are neither paid nor counted; bob's between them are, whatever batch they are in."""
    ada, bob, cy, agg, _eve = cast
    for _ in range(2):
        play.round(running, [ada, bob, cy], agg)
    turns = [play.refs[running][at : at + 4] for at in (0, 4)]
    lie, other = (next(claim for claim in turn if claim[3] == ada.id) for turn in turns)
    true = next(claim for claim in turns[0] if claim[3] == bob.id)
    convict(kit, running, lie)
    assert kit.settlement.records(running, ada.id) == 3
    pot = kit.registry.pot(kit.zen)
    play.to(play.deadline(running, other) + 1)
    kit.settlement.finalise(running, [true, other], sender=play.anyone)
    assert [tuple(event)[1:] for event in events_named(kit, "ClaimVoided")] == [(running, ada.id, 1, other[2])]
    assert [event.operator for event in events_named(kit, "ClaimFinalised")] == [bob.id]
    assert status(kit, running, other) == VOID
    assert kit.tasks.owed(kit.zen, ada.owner) == 0
    assert kit.tasks.owed(kit.zen, bob.owner) == 950
    assert pending_claims(kit, running, 1) == 3
    assert kit.registry.pot(kit.zen) == pot


def test_a_void_claim__is_judged_until_it_is_finalised(kit, play, cast):
    ada, bob, cy, agg, _eve = cast
    running = play.running({ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(5)}, policy=CARRIES)
    for _ in range(2):
        play.round(running, [ada, bob, cy], agg)
    lies = [claim for claim in play.refs[running] if claim[3] == ada.id]
    convict(kit, running, lies[0])
    assert kit.settlement.dispute_terms(running, lies[1]).deadline == play.deadline(running, lies[1])
    ask(kit, running, lies[1])
    play.to(play.deadline(running, lies[1]) + 1)
    with play.refused("settlement: in dispute"):
        kit.settlement.finalise(running, [lies[1]], sender=play.anyone)
    with_more = pending_claims(kit, running, 1)
    close(kit, running, lies[1], FINAL)
    assert [tuple(event)[1:] for event in kit.settlement.get_logs()] == [(running, ada.id, 1, lies[1][2])]
    assert (status(kit, running, lies[1]), pending_claims(kit, running, 1)) == (VOID, with_more - 1)


def test_a_claim_of_the_turn_after_a_conviction__is_paid(kit, play, cast, running):
    ada, bob, cy, agg, eve = cast
    for _ in range(2):
        play.round(running, [ada, bob, cy], agg)
    lie, void = (claim for claim in play.refs[running] if claim[3] == agg.id)
    convict(kit, running, lie)  # round 0 is done again from turn 3 on
    play.refs[running].remove(lie)
    kit.settlement.take_over(running, AGGREGATION, eve.id, 1, 10, sender=eve.hot)
    play.finalise(running)
    assert status(kit, running, void) == VOID
    play.round(running, [ada, bob, cy], eve)
    play.finalise(running)
    assert kit.tasks.owed(kit.zen, eve.owner) == 9 * 95 // 100
    assert kit.tasks.owed(kit.zen, agg.owner) == 0


# --- what the referee asks


def test_dispute_terms__follow_from_the_job_and_from_what_the_operator_holds(kit, play):
    ada, bob, agg = play.register_all(3)
    job = play.running({ada: Offer(10, 4), bob: Offer(20, 2)}, {agg: Offer(5)}, slots=6, quorum=1, work_root=b"w" * 32)
    reexecute_s = kit.tasks.schedules(job).reexecute_s
    claims = [play.commit(job, each) for each in (ada, bob)]
    terms = [tuple(kit.settlement.dispute_terms(job, claim)) for claim in claims]
    assert terms == [(b"w" * 32, reexecute_s, 4, 0), (b"w" * 32, reexecute_s, 2, 0)]
    kit.settlement.void(job, claims[1], sender=kit.availability.address)
    for claim in (claims[1], (*claims[0][:7], bytes(32))):
        with play.refused("settlement: unknown claim"):
            kit.settlement.dispute_terms(job, claim)
    play.to(kit.settlement.runs(job).opened_at + 2 * 10 + 1)
    aggregation = play.post_checkpoint(job, agg)
    deadline = kit.settlement.claim_deadline(job, 0)
    assert tuple(kit.settlement.dispute_terms(job, claims[0])) == (b"w" * 32, reexecute_s, 4, deadline)
    assert tuple(kit.settlement.dispute_terms(job, aggregation)) == (b"w" * 32, reexecute_s, 1, deadline)


def test_dispute_terms__count_the_slots_of_all_seats__never_fewer_than_the_claims(kit, play):
    """Slots that are split off, given up or taken over; the aggregator's seat has none."""
    ada, bob = play.register_all(2)
    bids = {ada: Offer(10, 4), bob: Offer(20, 2)}
    job = play.running(bids, {bob: Offer(5)}, slots=6, quorum=1)
    assert [kit.locks.slots_of(job, each.id) for each in (ada, bob)] == [4, 2]
    kit.settlement.decline(job, play.seat_of(job, bob), 1, sender=bob.hot)
    assert [kit.locks.slots_of(job, each.id) for each in (ada, bob)] == [4, 1]
    claim = play.commit(job, ada)
    assert kit.settlement.dispute_terms(job, claim).slots == 4
    convict(kit, job, claim)
    assert kit.locks.slots_of(job, ada.id) == 0


def test_reexecution_price__is_the_reserve_of_the_terms__whatever_the_jobs_state(kit, play):
    much, small = 2**78 + 5, {"rounds": 1, "slots": 1, "quorum": 1}
    own = play.post(reserve=much, max_price=much, aggregator_reserve=3, aggregator_max_price=7, **small)
    other = play.post(reserve=2, max_price=9, aggregator_reserve=much, aggregator_max_price=much, **small)
    for _ in range(2):
        for job, prices in ((own, (much, 3)), (other, (2, much))):
            assert [tuple(kit.tasks.reexecution_price(job, is_aggregation)) for is_aggregation in (False, True)] == [
                (kit.zen.address, price) for price in prices
            ]
        assert kit.tasks.schedules(own).round_price == much + 7
        if kit.tasks.jobs(other).state == 1:
            kit.tasks.cancel(other, sender=play.submitter)
    assert [kit.tasks.jobs(job).state for job in (own, other)] == [1, 5]
