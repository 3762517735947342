"""Directed sequences about convictions, rollbacks and what they cost; how disputes end otherwise is in `disputes`."""

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from tests.support.scenarios.disputes import STANDBYS
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import AGGREGATOR_SEAT, DEFAULT_AUDIT_BPS, lock_of, restitution, round_price
from zoo_compute.spec.state import JobState


@scenario
def a_worker_convicted_in_the_open_turn_leaves_its_seat_to_who_can_still_commit(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, token="usd")
    usd, rest = s.tokens["usd"], lock_of(2 * 80, DEFAULT_AUDIT_BPS)
    s.play_round(job)
    claim = s.commit(job, "alice")
    s.commit(job, "bob")
    s.convict(job, claim, "carol owner")
    run, stake = s.world.run(job), s.world.stake_of(job, s.ids["alice"], False)
    assert (run.missing, run.committed, stake.locked, stake.held) == (1 << claim.seat, 2, 0, 0)
    # Under policy 0 nothing is done again: 40 % to the finder, 10 % to the audits, 10 % for whoever takes the seat dearer, the rest is burned.
    share = rest * 4_000 // 10_000
    assert s.world.owed[usd, s.accounts["carol owner"]] == share
    assert s.world.owed[usd, s.accounts["audit pool"]] == rest // 10
    # The audits' tenth reaches their bucket whole; it is no fee.
    s.no("pool: nothing to collect", "pool", "collect", "stranger", usd)
    s.ok("tasks", "withdraw", "stranger", usd, s.accounts["audit pool"])
    assert s.ok("pool", "collect", "stranger", usd) == rest // 10
    assert [s.world.buckets.get((usd, bucket), 0) for bucket in range(3)] == [0, rest // 10, 0]
    s.no("pool: nothing to collect", "pool", "collect", "stranger", usd)
    assert s.world.burned[usd] == rest - share - 2 * (rest // 10)
    assert s.world.job_pots[job] == rest // 10
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
    lie, rest = s.commit(job, "alice"), lock_of(2 * 80, DEFAULT_AUDIT_BPS)
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
    assert s.world.burned[s.tokens["zen"]] == rest - rest * 4 // 10 - 2 * (
        rest // 10
    )  # her lock was gone with the first conviction
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
    rest = lock_of(40, DEFAULT_AUDIT_BPS)
    stake = s.world.stake_of(job, s.ids["dave"], True)
    assert (stake.locked, stake.drawn) == (round_price(terms), 3 * round_price(terms))
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
    assert s.world.burned[usd] == rest - rest * 4 // 10 - rest // 10
    assert s.world.deposit_of(s.ids["dave"], usd).locked == 0  # what no rollback cost is his again


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

    def left() -> int:
        return s.world.stake_of(job, s.ids["dave"], True).locked

    for _ in range(3):
        s.commit_all(job)
        lies.append(s.post_checkpoint(job))
    s.convict(job, lies[2])
    assert s.world.job_ledgers[job].restored == 2 * price
    assert (s.world.run(job).round, left(), s.world.run(job).is_open) == (2, 2 * price, False)
    s.convict(job, lies[1])  # nothing but restitution is locked any more
    assert s.world.job_ledgers[job].restored == 3 * price
    assert (s.world.run(job).round, s.world.run(job).turn, s.world.run(job).is_open) == (1, 4, False)
    s.convict(job, lies[0])
    assert s.world.job_ledgers[job].restored == 4 * price
    assert (s.world.run(job).round, left()) == (0, 0)
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    for _ in range(6):
        s.play_round(job)
    s.settle(job)


@scenario
def a_lock_that_a_timeout_cut_pays_for_a_rollback_still(s: Stage) -> None:
    s.register_all()
    cheap = {"aggregator_reserve": 1, "aggregator_max_price": 1}
    job = s.running(SLOTS, {"dave": Offer(1), "erin": Offer(1)}, rounds=5, depth=2, **cheap)
    s.commit_all(job)
    lie = s.post_checkpoint(job)
    s.ok("settlement", "open_dispute", "referee", job, lie)
    s.commit_all(job)
    s.to(s.world.run(job).aggregator_due + 1)
    s.ok("settlement", "time_out", "stranger", job, AGGREGATOR_SEAT)
    terms, left = s.world.terms[job], s.world.stake_of(job, s.ids["dave"], True).locked
    # A tenth of what is locked behind his price is gone. What is locked for both rounds that rest on the lie is whole.
    own = lock_of(1, DEFAULT_AUDIT_BPS)
    assert left - restitution(terms) == own - own // 10 == 99 - 9
    s.close_dispute(job, lie, End.JUDGED)
    assert s.world.job_ledgers[job].restored == restitution(terms)
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    for _ in range(5):
        s.play_round(job)
    s.settle(job)


@scenario
def two_locks_for_both_roles_pay_each_for_its_own_lies(s: Stage) -> None:
    s.register_all()
    cheap = {"aggregator_reserve": 1, "aggregator_max_price": 1}
    slots, dave = {"alice": Offer(60), "dave": Offer(70, 3)}, s.ids["dave"]
    job = s.running(slots, {"dave": Offer(1), "erin": Offer(1)}, rounds=5, depth=2, quorum=1, **cheap)
    work = s.commit(job, "dave")
    s.commit(job, "alice")
    lie = s.post_checkpoint(job)
    for claim in (work, lie):
        s.ok("settlement", "open_dispute", "referee", job, claim)
    s.commit(job, "alice")
    s.wait(21)
    # Timed out in his seat of slots, and convicted for it: as an aggregator he has locked what he had.
    s.ok("settlement", "time_out", "stranger", job, work.seat)
    s.close_dispute(job, work, End.JUDGED)
    worker, aggregator = (s.world.stake_of(job, dave, role) for role in (False, True))
    most = restitution(s.world.terms[job])
    assert (worker.locked, aggregator.locked) == (0, most + lock_of(1, DEFAULT_AUDIT_BPS))
    s.close_dispute(job, lie, End.JUDGED)
    assert s.world.job(job).state == JobState.RUNNING
    assert s.world.job_ledgers[job].restored == most == 2 * round_price(s.world.terms[job])
    s.take_over(job, AGGREGATOR_SEAT, "erin")
    while s.world.job(job).state == JobState.RUNNING:
        s.play_round(job)
    s.settle(job)


@scenario
def a_convicted_operator_loses_every_seat_it_has_in_that_role(s: Stage) -> None:
    s.register_all()
    job = s.running(STANDBYS, AGGREGATORS, policy=1, rounds=5, depth=4)
    alice, first = s.ids["alice"], s.seat_of(job, "alice")
    s.ok("settlement", "decline", "bob hot", job, s.seat_of(job, "bob"), 1)
    other = s.take_over(job, s.world.run(job).seats - 1, "alice")
    lie = s.commit(job, "alice", first)
    s.play_round(job)
    once = restitution(s.world.terms[job])
    assert s.world.stake_of(job, alice, False).locked == once + lock_of(lie.price, 500) + lock_of(80, 500)
    s.convict(job, lie)
    stake = s.world.stake_of(job, alice, False)
    assert (stake.held, stake.slots, stake.drawn) == (0, 0, 2 * round_price(s.world.terms[job]))
    assert [s.world.seat(job, seat).operator for seat in (first, other)] == [0, 0]
    # What she takes over then is covered anew: restitution is whole again.
    s.until_open(job)
    s.take_over(job, other, "alice")
    stake = s.world.stake_of(job, alice, False)
    price = s.world.seat(job, other).price
    assert (stake.held, stake.drawn, stake.locked) == (1, 0, once + lock_of(80, 500) + lock_of(price, 500))
    s.take_over(job, first, "carol")
    while s.world.job(job).state == JobState.RUNNING:
        s.play_round(job)
    s.settle(job)


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
    s.no("settlement: seat still occupied", "locks", "release", "stranger", job, s.ids["alice"])
    s.play_round(job)
    assert s.world.run(job).round == 2
    s.settle(job)


@scenario
def an_abandoned_turn_without_claims_is_not_restored(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=6, depth=6, quorum=2)
    s.commit_all(job)
    lie = s.post_checkpoint(job)
    s.to(s.world.run(job).inputs_close)
    s.ok("settlement", "abandon", "stranger", job)
    assert s.world.closed_turn(job, 1).pending == 0
    s.convict(job, lie)
    assert s.world.job_ledgers[job].restored == round_price(s.world.terms[job])
    s.settle(job)


@scenario
def an_abandoned_job_stays_ended_and_its_submitter_has_the_price_of_what_rested_on_a_lie(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=6, depth=6, quorum=3)
    lies = []
    for _ in range(3):
        s.commit_all(job)
        lies.append(s.post_checkpoint(job))
    s.commit(job, "bob")
    late = s.commit(job, "alice")
    for claim in (*lies, late):
        s.ok("settlement", "open_dispute", "referee", job, claim)
    s.to(s.world.run(job).inputs_close)
    s.post_checkpoint(job)
    s.commit(job, "bob")
    s.to(s.world.run(job).inputs_close)
    s.ok("settlement", "abandon", "stranger", job)
    price = round_price(s.world.terms[job])
    s.close_dispute(job, lies[1], End.JUDGED)
    run = s.world.run(job)
    assert (run.state, run.round, run.start_root) == (JobState.ENDED, 1, lies[1].start_root)
    assert s.world.job_ledgers[job].restored == 4 * price  # rounds 1 to 3, and the one in which it was abandoned
    s.close_dispute(job, lies[2], End.JUDGED)  # nothing rests on it any more
    assert s.world.job_ledgers[job].restored == 4 * price
    s.close_dispute(job, lies[0], End.SILENT)
    s.close_dispute(job, late, End.JUDGED)
    assert s.world.job(job).state == JobState.ENDED
    assert s.world.job_ledgers[job].restored == 5 * price
    s.settle(job)
    ledger = s.world.job_ledgers[job]
    assert ledger.refunded == ledger.escrowed + 5 * price - ledger.paid - ledger.fees


@scenario
def a_job_that_rolls_back_workers_redoes_their_rounds(s: Stage) -> None:
    s.register_all()
    job = s.running(STANDBYS, AGGREGATORS, policy=1, rounds=4, depth=4, token="usd")
    terms = s.world.terms[job]
    assert s.world.stake_of(job, s.ids["alice"], False).locked == lock_of(2 * 80, 500) + restitution(terms)
    claim = s.commit(job, "alice")
    s.play_round(job)
    s.play_round(job)
    s.convict(job, claim, "stranger")
    run = s.world.run(job)
    # Turns 0, 1 and the open one, in which nothing was committed, for the price of three rounds at most.
    assert (run.turn, run.round, run.start_root, run.is_open) == (3, 0, terms.state_root, True)
    assert s.world.job_ledgers[job].restored == 3 * round_price(terms)
    assert s.world.stake_of(job, s.ids["alice"], False).locked == round_price(terms)
    s.take_over(job, claim.seat, "carol")
    for _ in range(4):
        s.play_round(job)
    s.settle(job)
    paid = s.world.job_ledgers[job].paid + s.world.job_ledgers[job].fees
    assert paid <= s.world.job_ledgers[job].escrowed + s.world.job_ledgers[job].restored


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
    assert s.world.stake_of(job, alice, False).left_turn == 2
    s.no("settlement: claims not final", "locks", "release", "stranger", job, alice)  # turn 1 is open
    s.take_over(job, seat, "carol")
    s.play_round(job)
    s.no("settlement: claims not final", "locks", "release", "stranger", job, alice)
    early = tuple(claim for claim in s.claims(job) if claim.turn == 0)
    s.to(max(s.now, s.deadline(job, *early) + 1))
    s.ok("settlement", "finalise", "stranger", job, early)
    s.no("settlement: claims not final", "locks", "release", "stranger", job, alice)
    s.finalise(job)
    s.no("settlement: seat still occupied", "locks", "release", "stranger", job, s.ids["bob"])
    s.ok("locks", "release", "stranger", job, alice)
    assert s.operator("alice").locks == 0
    assert s.world.job(job).state == JobState.RUNNING
    s.ok("registry", "request_exit", "alice owner", alice)
    for _ in range(6):
        s.play_round(job)
    s.settle(job)
