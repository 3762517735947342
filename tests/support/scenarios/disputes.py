"""Directed sequences about how disputes end for Settlement; the referee is an account here, `explorations` has what it does."""

from dataclasses import replace

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import DEFAULT_AUDIT_BPS, POLICY_CARRIES, lock_of
from zoo_compute.spec.state import ClaimStatus, JobState
from zoo_compute.spec.watching import NOBODY

# Everybody may stand by with what is left.
STANDBYS = {"alice": Offer(60, 4), "bob": Offer(70, 4), "carol": Offer(80, 4)}


@scenario
def a_disputed_claim_is_not_paid_before_its_dispute_is_closed(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=2, policy=POLICY_CARRIES)
    claim, nobody = s.commit(job, "alice"), s.accounts["stranger"]
    for sender in ("stranger", "alice hot", "deployer", s.world.config.availability):
        s.no("settlement: not a protocol contract", "settlement", "open_dispute", sender, job, claim)
        s.no("settlement: not a protocol contract", "settlement", "close_dispute", sender, job, claim, 2, 0, 0)
        s.no("settlement: not a protocol contract", "settlement", "reward_finder", sender, job, claim, nobody)
    for forged in (replace(claim, price=1), replace(claim, turn=1), replace(claim, seat=2**256 - 1)):
        s.no("settlement: unknown claim", "settlement", "open_dispute", "referee", job, forged)
        s.close_dispute(job, forged, End.JUDGED)
    s.no("settlement: unknown claim", "settlement", "open_dispute", "referee", 99, claim)
    s.commit(job, "bob")
    s.post_checkpoint(job)
    for _ in range(2):  # the second time nothing changes
        s.ok("settlement", "open_dispute", "referee", job, claim)
    s.to(s.deadline(job, claim) + 1)
    s.no("settlement: in dispute", "settlement", "finalise", "stranger", job, (claim,))
    s.close_dispute(job, claim, End.FINAL)
    assert s.world.claims[job, claim.seat, 0].status == ClaimStatus.PAID
    assert s.world.job_ledgers[job].paid + s.world.job_ledgers[job].fees == claim.price
    s.no("settlement: unknown claim", "settlement", "finalise", "stranger", job, (claim,))
    s.no("settlement: unknown claim", "settlement", "open_dispute", "referee", job, claim)
    for end in End:  # too late: nothing changes, nothing reverts
        s.close_dispute(job, claim, end)
    s.ok("settlement", "reward_finder", "referee", job, claim, nobody)
    s.play_round(job)
    s.settle(job)


@scenario
def a_claim_that_becomes_final_opens_a_turn_that_waited_and_ends_a_job_that_waited(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=2, depth=1)
    claim = s.commit(job, "alice")
    s.play_round(job)
    s.ok("settlement", "open_dispute", "referee", job, claim)
    others = tuple(each for each in s.claims(job) if each != claim)
    s.to(s.deadline(job, claim) + 1)
    s.ok("settlement", "finalise", "stranger", job, others)
    assert not s.world.run(job).is_open
    s.close_dispute(job, claim, End.FINAL)
    assert s.world.run(job).is_open
    s.play_round(job)
    last = s.claims(job)[0]
    s.ok("settlement", "open_dispute", "referee", job, last)
    s.to(s.deadline(job, last) + 1)
    s.ok("settlement", "finalise", "stranger", job, tuple(each for each in s.claims(job) if each != last))
    assert s.world.job(job).escrow > 0
    s.close_dispute(job, last, End.AGED)
    assert s.world.job(job).escrow == 0
    s.settle(job)


@scenario
def a_dispute_without_an_end_makes_its_claim_void(s: Stage) -> None:
    """Nobody is paid for it, nobody slashed, and nothing is done again."""
    s.register_all()
    job = s.running(STANDBYS, AGGREGATORS, policy=1, rounds=2, token="usd")
    claim = s.commit(job, "alice")
    s.play_round(job)
    checkpoint = next(each for each in s.claims(job) if each.is_aggregation)
    before, stakes = s.world.run(job), dict(s.world.stakes)
    for each in (claim, checkpoint):
        s.ok("settlement", "open_dispute", "referee", job, each)
    for each in (claim, checkpoint):
        s.close_dispute(job, each, End.AGED)
        assert s.world.claims[job, each.seat, 0].status == ClaimStatus.VOID
        s.no("settlement: unknown claim", "settlement", "finalise", "stranger", job, (each,))
    assert (s.world.run(job), s.world.stakes) == (before, stakes)
    assert s.world.job_ledgers[job].paid == 0
    s.play_round(job)
    s.settle(job)
    ledger = s.world.job_ledgers[job]
    assert ledger.refunded >= claim.price + checkpoint.price


@scenario
def the_pay_of_an_aggregation_fades_with_the_clock_that_its_operator_used(s: Stage) -> None:
    s.register_all()
    clocks = s.preset.clocks
    full, gone = clocks.pay_fades_from_s, clocks.pay_gone_at_s
    job = s.running(SLOTS, AGGREGATORS, rounds=6, depth=6, aggregator_reserve=9_000, aggregator_max_price=9_000)
    for used_s in (0, full, full + 1, (full + gone) // 2, gone - 1, 2**16 - 1):
        slots = s.commit(job, "alice")
        s.play_round(job)
        checkpoint = next(each for each in s.claims(job) if each.is_aggregation and each.turn == slots.turn)
        for claim in (slots, checkpoint):
            s.ok("settlement", "open_dispute", "referee", job, claim)
        s.to(max(s.now, s.deadline(job, checkpoint) + 1))
        before = s.world.job_ledgers[job]
        s.close_dispute(job, slots, End.FINAL, used_s)
        middle = s.world.job_ledgers[job]
        s.close_dispute(job, checkpoint, End.FINAL, used_s)
        after = s.world.job_ledgers[job]
        assert middle.paid + middle.fees - before.paid - before.fees == slots.price
        left = max(0, gone - max(used_s, full))
        assert after.paid + after.fees - middle.paid - middle.fees == checkpoint.price * left // (gone - full)
    s.settle(job)


@scenario
def a_convicted_operators_other_claims_are_void_and_judged_all_the_same(s: Stage) -> None:
    s.register_all()
    job = s.running(STANDBYS, AGGREGATORS, rounds=5, depth=5, token="usd")
    claims = []
    for _ in range(3):
        claims.append(s.commit(job, "alice"))
        s.play_round(job)
    claims.append(s.commit(job, "alice"))
    lie, other, disputed, late = claims
    s.ok("settlement", "open_dispute", "referee", job, disputed)
    s.convict(job, lie)
    assert s.world.record_of(job, s.ids["alice"]).void_before == 4  # turn 3 is open
    s.commit(job, "bob")
    s.post_checkpoint(job)
    s.to(s.deadline(job, *s.claims(job)[:1], late) + 1)
    # Of one call, some are paid and some are void.
    paid = s.world.job_ledgers[job]
    of_bob = tuple(each for each in s.claims(job) if s.party(each.operator) == "bob")
    s.ok("settlement", "finalise", "stranger", job, (of_bob[0], other, late, *of_bob[1:]))
    ledger = s.world.job_ledgers[job]
    assert ledger.paid + ledger.fees - paid.paid - paid.fees == sum(each.price for each in of_bob)
    s.close_dispute(job, disputed, End.FINAL)
    for claim in (other, disputed, late):
        place = job, claim.seat, claim.turn % (s.world.run(job).depth + 1)
        assert s.world.claims[place].status == ClaimStatus.VOID
    # In a later turn she is paid again.
    s.finalise(job)
    s.take_over(job, lie.seat, "alice")
    s.until_open(job)
    again = s.commit(job, "alice")
    s.commit(job, "bob")
    s.post_checkpoint(job)
    s.finalise(job)
    assert s.world.claims[job, again.seat, again.turn % (s.world.run(job).depth + 1)].status == ClaimStatus.PAID
    s.settle(job)


@scenario
def a_void_claim_that_was_a_lie_rolls_its_round_back(s: Stage) -> None:
    s.register_all()
    job = s.running(STANDBYS, AGGREGATORS, policy=1, rounds=4, depth=4, token="usd")
    void = s.commit(job, "alice")
    s.play_round(job)
    lie = s.commit(job, "alice")
    s.play_round(job)
    s.convict(job, lie)
    assert s.world.run(job).round == 1
    s.convict(job, void)
    run = s.world.run(job)
    assert (run.round, run.start_root) == (0, s.world.terms[job].state_root)
    assert s.world.claims[job, void.seat, 0].status == ClaimStatus.CONVICTED
    s.until_open(job)
    s.take_over(job, void.seat, "carol")
    for _ in range(4):
        s.play_round(job)
    s.settle(job)


@scenario
def a_finder_has_its_share_when_its_seal_is_opened_and_of_nobody_it_burns(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, token="usd", rounds=2)
    usd, lock = s.tokens["usd"], lock_of(2 * 80, DEFAULT_AUDIT_BPS)
    first, second = s.commit(job, "alice"), s.commit(job, "bob")
    s.play_round(job)
    s.play_round(job)
    for claim in (first, second):
        s.convict(job, claim)
    share = lock * 4_000 // 10_000
    assert [s.world.finder_shares[job, claim] for claim in (first, second)] == [share, share]
    s.settle(job)  # the pot of a job that is over burns, the shares stay
    assert (s.world.job_pots.get(job, 0), s.world.pots[usd]) == (0, 2 * share)
    for _ in range(2):
        s.ok("settlement", "reward_finder", "referee", job, first, s.accounts["carol owner"])
    assert s.world.owed[usd, s.accounts["carol owner"]] == share
    burned = s.world.burned[usd]
    s.ok("settlement", "reward_finder", "referee", job, second, NOBODY)
    assert (s.world.burned[usd], s.world.pots[usd]) == (burned + share, 0)
    s.withdraw_all()


@scenario
def silence_costs_the_lock_and_nobody_earns_by_it(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, token="usd")
    usd, lock = s.tokens["usd"], lock_of(2 * 80, DEFAULT_AUDIT_BPS)
    claim = s.commit(job, "alice")
    s.ok("settlement", "open_dispute", "referee", job, claim)
    s.close_dispute(job, claim, End.SILENT)
    rest = lock
    assert s.world.stake_of(job, s.ids["alice"], False).locked == 0
    assert s.world.owed[usd, s.accounts["audit pool"]] == rest // 10
    assert s.world.burned[usd] == rest - 2 * (rest // 10)
    s.ok("settlement", "reward_finder", "referee", job, claim, s.accounts["stranger"])
    assert (usd, s.accounts["stranger"]) not in s.world.owed
    s.take_over(job, claim.seat, "carol")
    for _ in range(3):
        s.play_round(job)
    s.settle(job)


@scenario
def who_is_exhausted_keeps_what_its_attackers_did_not_pay_for(s: Stage) -> None:
    s.register_all()
    for burned_part, slashed_part in ((0, (3, 5)), ((1, 5), (2, 5)), ((2, 5), (4, 5)), ((3, 5), (1, 1))):
        job = s.running(SLOTS, AGGREGATORS, token="usd", rounds=1)
        claim, alice = s.commit(job, "alice"), s.ids["alice"]
        lock = s.world.stake_of(job, alice, False).locked
        burned = lock * burned_part[0] // burned_part[1] if burned_part else 0
        s.ok("settlement", "open_dispute", "referee", job, claim)
        s.close_dispute(job, claim, End.EXHAUSTED, 0, burned)
        slashed = lock - s.world.stake_of(job, alice, False).locked
        assert abs(slashed - lock * slashed_part[0] // slashed_part[1]) <= 1
        s.take_over(job, claim.seat, "carol")
        s.play_round(job)
        s.settle(job)  # what is left of the lock is free then
        assert s.operator("alice").locks == 0


@scenario
def a_liar_that_exhausts_itself_pays_for_the_rounds_that_rest_on_its_lie(s: Stage) -> None:
    """What burned is small and what silence takes of the lock too: restitution comes first."""
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=6, depth=4, token="usd")
    s.play_round(job)
    lie = next(claim for claim in s.claims(job) if claim.is_aggregation)
    s.ok("settlement", "open_dispute", "referee", job, lie)
    for _ in range(3):
        s.play_round(job)
    s.close_dispute(job, lie, End.EXHAUSTED, 0, 25)
    run = s.world.run(job)
    assert (run.round, run.state) == (lie.round, JobState.RUNNING)
    assert run.start_root == lie.start_root


@scenario
def data_that_is_lost_convicts_a_claim_that_is_explored(s: Stage) -> None:
    """Whatever the referee says of it afterwards changes nothing."""
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=2, reexecute_s=40)
    claim = s.commit(job, "alice")
    s.ok("settlement", "open_dispute", "referee", job, claim)
    s.lose(job, claim)
    assert s.world.claims[job, claim.seat, 0].status == ClaimStatus.CONVICTED
    s.take_over(job, claim.seat, "carol")
    s.commit(job, "carol")  # in the same place
    before = s.world
    for end in End:
        s.close_dispute(job, claim, end)
        assert s.world == before
    s.ok("settlement", "reward_finder", "referee", job, claim, s.accounts["stranger"])
    s.play_round(job)
    s.play_round(job)
    s.settle(job)
