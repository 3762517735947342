"""Directed sequences about disputes, convictions, rollbacks and holds; the referee is its own account here; see `explorations` for what it does."""

from dataclasses import replace

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import AGGREGATOR_SEAT, covering, lock_per_slot, restitution, round_price
from zoo_compute.spec.state import ClaimStatus, JobState
from zoo_compute.spec.watching import NOBODY

# Everybody may stand by with what is left.
STANDBYS = {"alice": Offer(60, 4, True), "bob": Offer(70, 4, True), "carol": Offer(80, 4, True)}


@scenario
def a_disputed_claim_is_not_paid_before_its_dispute_is_closed(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=2)
    claim, nobody = s.commit(job, "alice"), s.accounts["stranger"]
    for sender in ("stranger", "alice hot", "deployer", s.world.config.availability):
        s.no("settlement: not the referee", "settlement", "open_dispute", sender, job, claim)
        s.no("settlement: not the referee", "settlement", "close_dispute", sender, job, claim, 2, 0, 0)
        s.no("settlement: not the referee", "settlement", "reward_finder", sender, job, claim, nobody)
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
    before, stakes = s.world.run(job), dict(s.world.standings)
    for each in (claim, checkpoint):
        s.ok("settlement", "open_dispute", "referee", job, each)
    for each in (claim, checkpoint):
        s.close_dispute(job, each, End.AGED)
        assert s.world.claims[job, each.seat, 0].status == ClaimStatus.VOID
        s.no("settlement: unknown claim", "settlement", "finalise", "stranger", job, (each,))
    assert (s.world.run(job), s.world.standings) == (before, stakes)
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
    assert s.world.stake_of(job, s.ids["alice"]).void_before == 4  # turn 3 is open
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
    usd, lock = s.tokens["usd"], s.world.run(job).lock
    first, second = s.commit(job, "alice"), s.commit(job, "bob")
    s.play_round(job)
    s.play_round(job)
    for claim in (first, second):
        s.convict(job, claim)
    share = 2 * lock * 4_000 // 10_000
    assert [s.world.finder_shares[job, claim] for claim in (first, second)] == [share, share]
    s.settle(job)  # the pot of a job that is over burns, the shares stay
    assert (s.world.run(job).pot, s.world.pots[usd]) == (0, 2 * share)
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
    usd, lock = s.tokens["usd"], s.world.run(job).lock
    claim = s.commit(job, "alice")
    s.ok("settlement", "open_dispute", "referee", job, claim)
    s.close_dispute(job, claim, End.SILENT)
    rest = 2 * lock
    assert s.world.stake_of(job, s.ids["alice"]).locked == 0
    assert s.world.owed[usd, s.accounts["audit pool"]] == rest // 10
    assert s.world.burned[usd] == rest - rest // 10
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
        lock = s.world.stake_of(job, alice).locked
        burned = lock * burned_part[0] // burned_part[1] if burned_part else 0
        s.ok("settlement", "open_dispute", "referee", job, claim)
        s.close_dispute(job, claim, End.EXHAUSTED, 0, burned)
        slashed = lock - s.world.stake_of(job, alice).locked
        assert abs(slashed - lock * slashed_part[0] // slashed_part[1]) <= 1
        s.take_over(job, claim.seat, "carol")
        s.play_round(job)
        s.settle(job)  # what is left of the lock is free then
        assert s.operator("alice").locks == 0


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


@scenario
def a_worker_convicted_in_the_open_turn_leaves_its_seat_to_who_can_still_commit(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, token="usd")
    usd, lock = s.tokens["usd"], s.world.run(job).lock
    s.play_round(job)
    claim = s.commit(job, "alice")
    s.commit(job, "bob")
    s.convict(job, claim, "carol owner")
    run, stake = s.world.run(job), s.world.stake_of(job, s.ids["alice"])
    assert (run.missing, run.committed, stake.locked, stake.held) == (1 << claim.seat, 2, 0, 0)
    # Under policy 0 nothing is done again: 40 % to the finder, 10 % to the audits, the rest is burned.
    rest = 2 * lock
    share = rest * 4_000 // 10_000
    assert s.world.owed[usd, s.accounts["carol owner"]] == share
    assert s.world.owed[usd, s.accounts["audit pool"]] == rest // 10
    assert s.world.burned[usd] == rest - share - rest // 10
    assert (run.pot, run.reserve) == (0, 0)
    # A second word on the same claim, and one when its place is used again, change nothing.
    s.close_dispute(job, claim, End.JUDGED)
    s.no("availability: unknown claim", "availability", "demand", "stranger", job, claim, 130, 0, 0, 0)
    s.take_over(job, claim.seat, "carol")
    s.commit(job, "carol")
    s.close_dispute(job, claim, End.JUDGED)
    s.post_checkpoint(job)
    s.play_round(job)
    s.settle(job)
    assert s.operator("alice").locks == 0
    paid = s.world.job_ledgers[job].paid + s.world.job_ledgers[job].fees
    assert paid == 3 * (4 * 80 + 40) - 2 * 80  # her claim of the round before is void


@scenario
def a_worker_convicted_of_a_closed_turn_is_not_paid_and_the_rounds_stand(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    lie = s.commit(job, "alice")
    s.play_round(job)
    later = s.commit(job, "alice")
    s.convict(job, lie)
    run = s.world.run(job)
    assert (run.turn, run.round, run.committed, run.missing) == (1, 1, 2, 1 << s.seat_of(job, "bob"))
    assert s.world.closed_turn(job, 0).pending == 2
    assert s.world.seat(job, lie.seat).operator == 0
    # Her later claim stands for the whole seat: no part of it can be taken before the next turn, all of it can.
    s.no("settlement: already committed", "settlement", "take_over", "carol hot", job, lie.seat, s.ids["carol"], 1, 10)
    s.take_over(job, lie.seat, "carol")
    # When that is a lie too its seat is missing, and whose it is by now has its whole time.
    s.wait(10)
    s.convict(job, later, "stranger")
    assert s.world.seat(job, later.seat).since == s.now
    s.wait(20)
    s.no("settlement: deadline not passed", "settlement", "time_out", "stranger", job, later.seat)
    s.commit(job, "carol")
    s.play_round(job)
    assert s.world.run(job).pot == 0  # her lock was gone with the first conviction
    s.play_round(job)
    s.settle(job)


@scenario
def a_convicted_aggregation_is_done_again_from_where_it_started(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=6, depth=4, token="usd")
    terms, usd = s.world.terms[job], s.tokens["usd"]
    s.play_round(job)
    s.commit_all(job)
    lie = s.post_checkpoint(job)
    s.play_round(job)
    rested = s.claims(job)
    s.commit(job, "alice")
    s.convict(job, lie, "stranger")
    run = s.world.run(job)
    # Rounds 1, 2 and the open round 3 are done again: turn 3 closed with alice's claim, turn 4 waits for turn 0.
    assert (run.turn, run.round, run.start_root, run.opened_at) == (4, 1, lie.start_root, 0)
    ledger = s.world.job_ledgers[job]
    assert ledger.restored == 3 * round_price(terms)
    assert (run.reserve, run.pot) == (round_price(terms), round_price(terms))
    rest = s.world.lot(job, 1).lock - restitution(terms)
    assert s.world.owed[usd, s.accounts["stranger"]] == rest * 4 // 10
    assert s.world.closed_turn(job, 3).pending == 1
    assert [s.world.closed_turn(job, turn).is_rolled_back for turn in range(4)] == [False, True, True, True]
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    first = tuple(claim for claim in rested if claim.turn == 0)
    s.to(s.deadline(job, *first) + 1)
    s.ok("settlement", "finalise", "stranger", job, first)
    assert s.world.run(job).is_open
    # A lie on the abandoned line is judged and costs its lock, but nothing rests on it any more.
    s.commit_all(job)
    s.post_checkpoint(job)
    for _ in range(4):
        s.play_round(job)
    assert s.world.job(job).state == JobState.ENDED
    s.settle(job)
    assert s.world.burned[usd] == rest - rest * 4 // 10 - rest // 10 + round_price(terms)


@scenario
def what_rested_on_a_lie_is_paid_and_its_own_lies_roll_nothing_back(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=8, depth=8)
    lie = None
    for _ in range(3):
        s.commit_all(job)
        claim = s.post_checkpoint(job)
        lie = lie or claim
    assert lie
    descendant = next(claim for claim in s.claims(job) if claim.turn == 1 and claim.is_aggregation)
    s.convict(job, lie)
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    s.play_round(job)
    s.play_round(job)
    run = s.world.run(job)
    assert (run.turn, run.round) == (6, 2)
    s.convict(job, descendant)  # of round 1 on the line that is no more; dave's lock is gone
    run = s.world.run(job)
    assert (run.turn, run.round, run.is_open) == (6, 2, True)
    for _ in range(6):
        s.play_round(job)
    s.settle(job)
    assert s.world.run(job).round == 8


@scenario
def lies_convicted_in_any_order_are_all_done_again(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=6, depth=4)
    price, lies = round_price(s.world.terms[job]), []
    for _ in range(3):
        s.commit_all(job)
        lies.append(s.post_checkpoint(job))
    s.convict(job, lies[2])
    assert s.world.job_ledgers[job].restored == 2 * price
    assert (s.world.run(job).round, s.world.run(job).reserve, s.world.run(job).is_open) == (2, 2 * price, False)
    s.convict(job, lies[1])  # nothing is locked any more; the reserve pays
    assert s.world.job_ledgers[job].restored == 3 * price
    assert (s.world.run(job).round, s.world.run(job).turn, s.world.run(job).is_open) == (1, 4, False)
    s.convict(job, lies[0])
    assert s.world.job_ledgers[job].restored == 4 * price
    assert (s.world.run(job).round, s.world.run(job).reserve) == (0, 0)
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    for _ in range(6):
        s.play_round(job)
    s.settle(job)


@scenario
def a_lock_that_a_timeout_cut_pays_for_a_rollback_still(s: Stage) -> None:
    s.register_all()
    cheap = {"aggregator_reserve": 1, "aggregator_max_price": 1}
    job = s.running(SLOTS, {"dave": Offer(1, 1, True), "erin": Offer(1, 1, True)}, rounds=5, depth=2, **cheap)
    s.commit_all(job)
    lie = s.post_checkpoint(job)
    s.ok("settlement", "open_dispute", "referee", job, lie)
    s.commit_all(job)
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    terms, left = s.world.terms[job], s.world.stake_of(job, s.ids["dave"]).locked
    # A tenth of 1,429 is gone. What is left is enough for both rounds that rest on the lie.
    assert left == 1_429 - 142
    assert left - 5 == restitution(terms) == 2 * round_price(terms)
    s.close_dispute(job, lie, End.JUDGED)
    assert s.world.job_ledgers[job].restored == restitution(terms)
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    for _ in range(5):
        s.play_round(job)
    s.settle(job)


@scenario
def one_lock_for_both_roles_that_cannot_pay_for_a_rollback_ends_the_job(s: Stage) -> None:
    s.register_all()
    cheap = {"aggregator_reserve": 1, "aggregator_max_price": 1}
    slots, dave = {"alice": Offer(60, 1), "dave": Offer(70, 3)}, s.ids["dave"]
    job = s.running(slots, {"dave": Offer(1), "erin": Offer(1, 1, True)}, rounds=5, depth=2, quorum=1, **cheap)
    work = s.commit(job, "dave")
    s.commit(job, "alice")
    lie = s.post_checkpoint(job)
    for claim in (work, lie):
        s.ok("settlement", "open_dispute", "referee", job, claim)
    paid = sum(claim.price for claim in s.claims(job) if claim.operator != dave) + s.commit(job, "alice").price
    s.wait(21)
    # Timed out in his seat of slots, and convicted for it: what is left is less than the aggregator's restitution.
    s.ok("settlement", "time_out", "stranger", job, work.seat)
    s.close_dispute(job, work, End.JUDGED)
    left = s.world.stake_of(job, dave).locked
    assert left < restitution(s.world.terms[job]) == 2 * round_price(s.world.terms[job])
    s.close_dispute(job, lie, End.JUDGED)
    assert s.world.job(job).state == JobState.ENDED
    assert s.world.job_ledgers[job].restored == left
    s.settle(job)
    ledger = s.world.job_ledgers[job]
    assert ledger.paid + ledger.fees == paid


@scenario
def a_job_over_but_not_closed_runs_again(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=2)
    s.play_round(job)
    s.commit_all(job)
    lie = s.post_checkpoint(job)
    assert s.world.job(job).state == JobState.ENDED
    s.convict(job, lie, "stranger")
    run = s.world.run(job)
    assert s.world.job(job).state == run.state == JobState.RUNNING
    assert (run.turn, run.round, run.opened_at) == (2, 1, 0)
    assert s.world.job_ledgers[job].restored == round_price(s.world.terms[job])
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    s.no("settlement: seat still occupied", "settlement", "release", "stranger", job, s.ids["alice"])
    s.play_round(job)
    assert s.world.run(job).round == 2
    s.settle(job)


@scenario
def an_abandoned_job_stays_ended(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS)
    s.commit_all(job)
    lie = s.post_checkpoint(job)
    late = s.commit(job, "alice")
    s.ok("settlement", "open_dispute", "referee", job, lie)
    s.ok("settlement", "open_dispute", "referee", job, late)
    s.to(s.world.run(job).inputs_close)
    s.post_checkpoint(job)
    s.to(s.world.run(job).inputs_close)
    s.ok("settlement", "abandon", "stranger", job)
    s.close_dispute(job, lie, End.JUDGED)
    s.close_dispute(job, late, End.JUDGED)
    assert s.world.job(job).state == JobState.ENDED
    assert s.world.job_ledgers[job].restored == 0
    s.settle(job)
    assert s.world.run(job).pot == 0


@scenario
def a_job_that_rolls_back_workers_redoes_their_rounds(s: Stage) -> None:
    s.register_all()
    job = s.running(STANDBYS, AGGREGATORS, policy=1, rounds=4, depth=4, token="usd")
    terms = s.world.terms[job]
    assert s.world.run(job).lock == lock_per_slot(terms) == 2 * 160 * 4 + covering(terms)
    claim = s.commit(job, "alice")
    s.play_round(job)
    s.play_round(job)
    s.convict(job, claim, "stranger")
    run = s.world.run(job)
    # Turns 0, 1 and the open one, in which nothing was committed, for the price of three rounds at most.
    assert (run.turn, run.round, run.start_root, run.is_open) == (3, 0, terms.state_root, True)
    assert s.world.job_ledgers[job].restored == 3 * round_price(terms)
    assert run.reserve == round_price(terms)
    s.take_over(job, claim.seat, "carol")
    for _ in range(4):
        s.play_round(job)
    s.settle(job)
    paid = s.world.job_ledgers[job].paid + s.world.job_ledgers[job].fees
    assert paid <= s.world.job_ledgers[job].escrowed + s.world.job_ledgers[job].restored


@scenario
def a_takers_part_of_the_pot_is_for_rounds_done_once(s: Stage) -> None:
    s.register_all()
    slots = {"alice": Offer(60, 2), "bob": Offer(70, 2), "carol": Offer(70, 2), "erin": Offer(97, 2, True)}
    job = s.running(slots, {"dave": Offer(30, 1, True), "erin": Offer(31, 1, True)}, rounds=3)
    alice = s.seat_of(job, "alice")
    s.ok("settlement", "decline", "alice hot", job, alice, 2)
    s.take_over(job, alice, "erin")
    seat = s.world.seat(job, alice)
    assert (seat.price, seat.pot_price, seat.pot) == (70, 27, 162)
    claims = []
    for _ in range(3):
        claims.append(s.commit(job, "erin"))
        s.commit_all(job)
        lie = s.post_checkpoint(job)
    assert [(claim.price, claim.pot_price) for claim in claims] == [(140, 54)] * 3
    s.convict(job, lie)
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    s.until_open(job)
    again = s.commit(job, "erin", alice)
    assert (again.price, again.pot_price) == (2 * 97, 0)
    s.play_round(job)
    s.settle(job)


@scenario
def a_lock_is_free_once_nothing_it_stands_behind_can_be_convicted(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=8, depth=3)
    alice = s.ids["alice"]
    s.play_round(job)
    s.wait(21)
    s.commit(job, "bob")
    seat = s.seat_of(job, "alice")
    s.ok("settlement", "time_out", "stranger", job, seat)
    assert s.world.stake_of(job, alice).left_turn == 2
    s.no("settlement: claims not final", "settlement", "release", "stranger", job, alice)  # turn 1 is open
    s.take_over(job, seat, "carol")
    s.play_round(job)
    s.no("settlement: claims not final", "settlement", "release", "stranger", job, alice)
    early = tuple(claim for claim in s.claims(job) if claim.turn == 0)
    s.to(max(s.now, s.deadline(job, *early) + 1))
    s.ok("settlement", "finalise", "stranger", job, early)
    s.no("settlement: claims not final", "settlement", "release", "stranger", job, alice)
    s.finalise(job)
    s.no("settlement: seat still occupied", "settlement", "release", "stranger", job, s.ids["bob"])
    s.ok("settlement", "release", "stranger", job, alice)
    assert s.operator("alice").locks == 0
    assert s.world.job(job).state == JobState.RUNNING
    s.ok("registry", "request_exit", "alice owner", alice)
    for _ in range(6):
        s.play_round(job)
    s.settle(job)
