"""Directed sequences about parked claims: a dispute goes on, and nothing but its operator's lock waits for it."""

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from tests.support.scenarios.disputes import STANDBYS
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import POLICY_CARRIES, POLICY_ROLL_BACK, STRANGERS_LANE, SUBMITTER_LANE
from zoo_compute.spec.state import Claim, ClaimStatus, JobState


def disputed(s: Stage, job: int, name: str = "alice") -> Claim:
    """A turn is closed, and a claim of it asked about."""
    claim = s.commit(job, name)
    s.play_round(job)
    s.ok("settlement", "open_dispute", "referee", job, claim)
    return claim


def finalise(s: Stage, job: int, *claims: Claim) -> None:
    s.ok("settlement", "finalise", "stranger", job, claims)


def status(s: Stage, job: int, claim: Claim) -> ClaimStatus | None:
    return s.world.parked.get((job, claim))


@scenario
def a_turn_opens_while_a_claim_of_the_turn_in_its_place_is_disputed(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=2, depth=1)
    claim = disputed(s, job)
    others = tuple(each for each in s.claims(job) if each != claim)
    s.to(s.deadline(job, claim))
    s.no("settlement: window open", "settlement", "finalise", "stranger", job, (claim,))
    s.wait(1)
    finalise(s, job, *others)
    assert not s.world.run(job).is_open
    finalise(s, job, claim)
    assert s.world.run(job).is_open
    assert status(s, job, claim) == ClaimStatus.PENDING
    assert s.world.claims[job, claim.seat, 0].status == ClaimStatus.PARKED
    s.no("settlement: in dispute", "settlement", "finalise", "stranger", job, (claim,))
    before = s.world.parked, s.world.claims
    s.ok("settlement", "open_dispute", "referee", job, claim)  # it is disputed already
    assert (s.world.parked, s.world.claims) == before
    s.close_dispute(job, claim, End.FINAL)
    assert status(s, job, claim) == ClaimStatus.PAID
    assert s.world.job_ledgers[job].paid + s.world.job_ledgers[job].fees == sum(each.price for each in (claim, *others))
    for refused in ("finalise", "open_dispute"):
        args = (job, (claim,)) if refused == "finalise" else (job, claim)
        s.no("settlement: unknown claim", "settlement", refused, "referee", *args)
    for end in End:  # too late: nothing changes, nothing reverts
        s.close_dispute(job, claim, end)
    s.play_round(job)
    s.settle(job)


@scenario
def the_ring_wraps_round_while_disputes_run_and_each_ends_as_it_would_have(s: Stage) -> None:
    s.register_all()
    for end in End:
        job = s.running(STANDBYS, AGGREGATORS, rounds=6, depth=2, token="usd")
        claim = disputed(s, job)
        deadline = s.deadline(job, claim)
        lock = s.world.stake_of(job, claim.operator, False).locked
        for _ in range(4):
            s.play_round(job)  # `until_open` finalises what is over, and parks the claim
        assert status(s, job, claim) == ClaimStatus.PENDING
        assert s.world.claims[job, claim.seat, claim.turn % 3].claim.turn == 3
        assert s.deadline(job, claim) == deadline
        paid, seat = s.world.job_ledgers[job], s.world.seat(job, claim.seat)
        s.close_dispute(job, claim, end, burned=100)
        ledger, stake = s.world.job_ledgers[job], s.world.stake_of(job, claim.operator, False)
        record = s.world.record_of(job, claim.operator)
        assert record.parked == 0
        assert s.world.claims[job, claim.seat, claim.turn % 3].status != ClaimStatus.CONVICTED  # the turn's after it
        if end in (End.FINAL, End.AGED):
            assert ledger.paid + ledger.fees - paid.paid - paid.fees == (claim.price if end == End.FINAL else 0)
            assert (stake.locked, s.world.seat(job, claim.seat)) == (lock, seat)
        else:
            assert status(s, job, claim) == ClaimStatus.CONVICTED
            assert (stake.locked < lock, stake.held, record.void_before) == (
                True,
                0,
                s.world.run(job).turn + s.world.run(job).is_open,
            )
            assert s.world.run(job).round == 5  # nothing is done again
            s.until_open(job)
            s.take_over(job, claim.seat, "carol" if claim.seat else "bob")
        s.play_round(job)
        s.settle(job)


@scenario
def a_job_ends_while_claims_are_parked_and_keeps_what_they_may_be_paid(s: Stage) -> None:
    s.register_all()
    for first, second in ((End.FINAL, End.JUDGED), (End.SILENT, End.AGED), (End.EXHAUSTED, End.FINAL)):
        job = s.running(SLOTS, AGGREGATORS, rounds=1)
        claims = [s.commit(job, name) for name in ("alice", "bob")]
        s.play_round(job)
        for claim in claims:
            s.ok("settlement", "open_dispute", "referee", job, claim)
        assert s.world.job(job).state == JobState.ENDED
        others = tuple(each for each in s.claims(job) if each not in claims)
        s.to(s.deadline(job, *claims) + 1)
        finalise(s, job, *others)
        assert s.world.job_ledgers[job].refunded == 0
        finalise(s, job, *claims)
        refunded = s.world.job_ledgers[job].refunded
        assert refunded > 0
        assert s.world.job(job).escrow == sum(claim.price for claim in claims)
        for claim, end in zip(claims, (first, second), strict=True):
            s.no("settlement: claims not final", "locks", "release", "stranger", job, claim.operator)
            s.close_dispute(job, claim, end)
            if end != End.FINAL:
                refunded += claim.price
            assert s.world.job_ledgers[job].refunded == refunded
            s.ok("locks", "release", "stranger", job, claim.operator)
        assert (s.world.job(job).escrow, s.world.job_pots.get(job, 0)) == (0, 0)
        s.settle(job)


@scenario
def a_parked_claim_of_an_operator_that_was_convicted_since_is_void(s: Stage) -> None:
    s.register_all()
    job = s.running(STANDBYS, AGGREGATORS, rounds=3, depth=1)
    claim = disputed(s, job)
    s.until_open(job)
    assert status(s, job, claim) == ClaimStatus.PENDING
    lie = s.commit(job, "alice")
    s.convict(job, lie)
    s.close_dispute(job, claim, End.FINAL)
    assert status(s, job, claim) == ClaimStatus.VOID
    assert s.world.record_of(job, claim.operator).parked == 0
    s.take_over(job, claim.seat, "bob")
    while s.world.job(job).state == JobState.RUNNING:
        s.play_round(job)
    s.settle(job)


@scenario
def an_operator_that_left_waits_for_its_parked_claim_alone(s: Stage) -> None:
    s.register_all()
    job = s.running(STANDBYS, AGGREGATORS, rounds=5, depth=1)
    claim = disputed(s, job)
    s.until_open(job)
    s.ok("settlement", "decline", "alice hot", job, claim.seat, claim.count)
    s.take_over(job, claim.seat, "bob")
    for _ in range(3):
        s.play_round(job)
    s.no("settlement: claims not final", "locks", "release", "stranger", job, claim.operator)
    s.close_dispute(job, claim, End.AGED)
    s.ok("locks", "release", "stranger", job, claim.operator)
    s.play_round(job)
    s.settle(job)


@scenario
def what_rounds_rest_on_or_what_is_judged_with_other_claims_keeps_its_place(s: Stage) -> None:
    s.register_all()
    for policy in (POLICY_ROLL_BACK, POLICY_CARRIES, 0):
        job = s.running(STANDBYS, AGGREGATORS, rounds=2, depth=1, policy=policy, token="usd")
        claim = disputed(s, job)
        aggregation = next(each for each in s.claims(job) if each.is_aggregation)
        kept = aggregation if policy == 0 else claim
        s.ok("settlement", "open_dispute", "referee", job, kept)
        s.to(s.deadline(job, claim) + 1)
        s.no("settlement: in dispute", "settlement", "finalise", "stranger", job, (kept,))
        finalise(s, job, *(each for each in s.claims(job) if each != kept))
        assert not s.world.run(job).is_open
        s.close_dispute(job, kept, End.FINAL)
        assert s.world.run(job).is_open
        if policy == 0:
            s.close_dispute(job, claim, End.FINAL)
        s.play_round(job)
        s.settle(job)


@scenario
def the_data_of_a_parked_claim_is_still_owed(s: Stage) -> None:
    """A demand that was made in time and not answered convicts it; nobody can make another."""
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=1)
    claim = disputed(s, job)
    s.to(s.deadline(job, claim) - 2 * s.preset.answer_s)
    s.demand(job, claim, STRANGERS_LANE, "stranger")
    s.to(s.deadline(job, claim) + 1)
    finalise(s, job, claim)
    args = (job, claim, SUBMITTER_LANE, claim.scope >> 16, 0, 0)
    s.no("availability: too late", "availability", "demand", "submitter", *args)
    s.ok("availability", "close", "stranger", job, claim, STRANGERS_LANE)
    assert status(s, job, claim) == ClaimStatus.CONVICTED
    s.close_dispute(job, claim, End.JUDGED)  # nothing is left to judge
    s.settle(job)


@scenario
def what_an_aggregator_claimed_in_its_seats_is_parked_too(s: Stage) -> None:
    """Its lock as a worker is not the one that a rollback of its aggregations is paid from."""
    s.register_all()
    job = s.running(SLOTS, {"alice": Offer(30)}, rounds=2, depth=1)
    claim = disputed(s, job)
    s.to(s.deadline(job, claim) + 1)
    finalise(s, job, claim)
    assert status(s, job, claim) == ClaimStatus.PENDING
    s.close_dispute(job, claim, End.FINAL)
    s.play_round(job)
    s.settle(job)
