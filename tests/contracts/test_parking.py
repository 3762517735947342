"""Settlement: disputed claims that nothing waits for, and the greatest depth. What it comes to in money: tests/differential."""

import pytest

from tests.contracts.disputes import CONVICTED, FINAL, JUDGED, PAID, VOID, ask, close, convict, events_named, status
from tests.contracts.protocol_double import claim_hash
from tests.support.evm import chain
from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION

PENDING, PARKED = 1, 5
MOST = 64  # turns that may be unfinal
COLD = 2_000  # gas of a word's first read in a transaction; here all were read before


@pytest.fixture
def cast(play):
    return play.register_all(4)


def running(play, cast, **terms):
    ada, bob, cy, agg = cast
    return play.running({ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(5)}, **terms)


def parked(kit, job, claim):
    return kit.settlement.parked(job, claim_hash(claim))


def test_finalise__of_a_disputed_claim__says_that_it_is_parked(kit, play, cast):
    job = running(play, cast, rounds=2, depth=1)
    play.round(job, cast[:3], cast[3])
    claim, others = play.refs[job][0], play.refs[job][1:]
    ask(kit, job, claim)
    deadline = play.deadline(job, claim)
    play.to(deadline + 1)
    kit.settlement.finalise(job, [*others[:1], claim, *others[1:]], sender=play.anyone)
    (event,) = events_named(kit, "ClaimParked")
    assert (event.job, event.operator, event.turn, event.seat) == (job, claim[3], 0, claim[2])
    assert len(events_named(kit, "ClaimFinalised")) == 3
    assert len(events_named(kit, "TurnOpened")) == 1
    assert (status(kit, job, claim), parked(kit, job, claim)) == (PARKED, PENDING)
    assert kit.settlement.records(job, claim[3]) >> 24 == 1
    assert kit.settlement.dispute_terms(job, claim).deadline == deadline
    ask(kit, job, claim)  # it is disputed already
    assert kit.settlement.get_logs() == []
    with play.refused("settlement: in dispute"):
        kit.settlement.finalise(job, [claim], sender=play.anyone)
    play.round(job, cast[:3], cast[3])
    assert kit.settlement.claim_deadline(job, 0) == deadline
    close(kit, job, claim, FINAL)
    assert parked(kit, job, claim) == PAID
    with play.refused("settlement: unknown claim"):
        kit.settlement.dispute_terms(job, claim)


def test_two_claims_of_an_operator__are_parked_and_end_apart(kit, play, cast):
    job = running(play, cast, rounds=6, depth=1)
    claims = []
    for _ in range(3):
        play.round(job, cast[:3], cast[3])
        claims.append(next(claim for claim in play.refs[job] if claim[3] == cast[0].id))
        ask(kit, job, claims[-1])
        play.finalise(job)
    assert kit.settlement.records(job, cast[0].id) >> 24 == 3
    close(kit, job, claims[1], JUDGED)
    close(kit, job, claims[0], FINAL)
    assert [parked(kit, job, claim) for claim in claims] == [VOID, CONVICTED, PENDING]
    assert kit.settlement.records(job, cast[0].id) >> 24 == 1


@pytest.mark.parametrize("later", [0, 5])
def test_at_the_greatest_depth__a_rollback_and_a_release_are_affordable(kit, play, cast, later):
    """The lie of turn `later` has the other places of the ring before and behind its own."""
    job = running(play, cast, policy=1, rounds=2 * MOST, depth=MOST)
    for _ in range(later):
        play.round(job, cast[:3], cast[3])
    if later:
        play.finalise(job)
    for _ in range(MOST):
        play.round(job, cast[:3], cast[3])
    assert kit.settlement.runs(job).opened_at == 0
    lie = play.refs[job][0]
    assert lie[0] == later
    convict(kit, job, lie)
    assert [event.round for event in events_named(kit, "RolledBack")] == [later]
    assert kit.settlement.runs(job).round == later
    # Nothing rests on the claims after it any more: nothing is done again for them.
    other = next(claim for claim in play.refs[job] if claim[0] == later + MOST - 1 and claim[3] == cast[1].id)
    convict(kit, job, other)
    assert events_named(kit, "RolledBack") == []
    assert kit.settlement.runs(job).round == later
    refused = chain.call(kit.locks, kit.locks.release.prepare_calldata(job, lie[3]), sender=play.anyone)
    assert refused.reason == "settlement: claims not final"
    assert refused.gas + MOST * COLD < 400_000


def test_finalise__of_a_disputed_claim_of_who_aggregates__parks_it(kit, play):
    """No conviction of its slots takes what a false aggregation restores: that is another lock."""
    both, bob, cy = play.register_all(3)
    job = play.running({both: Offer(10), bob: Offer(20), cy: Offer(30)}, {both: Offer(5)}, rounds=2, depth=1)
    play.round(job, [both, bob, cy], both)
    mine = next(c for c in play.refs[job] if c[3] == both.id)
    lie = next(c for c in play.refs[job] if c[2] == AGGREGATION)
    for claim in (mine, lie):
        ask(kit, job, claim)
    play.to(play.deadline(job, mine) + 1)
    kit.settlement.finalise(job, [mine], sender=play.anyone)
    assert parked(kit, job, mine) == PENDING
    close(kit, job, mine, JUDGED)
    close(kit, job, lie, JUDGED)
    assert [event.restored for event in events_named(kit, "ClaimConvicted")] == [3 * 2_000 + 1_000]
