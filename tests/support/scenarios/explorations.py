"""Directed sequences in which the Referee itself explores claims: each way in which a dispute ends, and what comes of it."""

from __future__ import annotations

from dataclasses import replace

from tests.support.explorations.explored_job import ExploredJob, TrialComputation
from tests.support.explorations.hashed_computation import WORK, HashedComputation
from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.admissions import answered, small
from tests.support.scenarios.auctions import scenario
from tests.support.scenarios.disputes import STANDBYS
from zoo_compute.spec import clocks
from zoo_compute.spec.admissions import work_of, workload_of
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import RESULT, claim_key, unit_of
from zoo_compute.spec.exploration import path_id
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.params import COIN, round_price
from zoo_compute.spec.state import Claim, ClaimStatus, JobState
from zoo_compute.spec.trials import TRIALS, Workload
from zoo_compute.spec.verdicts import sealed

SALT = b"s" * 32


def others_of(s: Stage, job: int, claim: Claim) -> tuple[Claim, ...]:
    return tuple(each for each in s.claims(job) if each != claim and each.turn < s.world.run(job).turn)


@scenario
def a_lie_is_asked_about_judged_and_done_again(s: Stage) -> None:
    t = ExploredJob(s, slots=STANDBYS, policy=1, rounds=3, token="usd")
    clock, usd = s.preset.clocks, s.tokens["usd"]
    t.commit("alice", "bob")
    id = unit_of_update(t, "alice")
    mine, finder = sealed(s.accounts["stranger"], id, SALT), s.accounts["guardian"]
    s.ok("referee", "seal", "guardian", sealed(finder, id, SALT))
    s.no("referee: sealed already", "referee", "seal", "guardian", sealed(finder, id, SALT))
    s.wait(1)
    s.ok("referee", "seal", "stranger", mine)
    s.wait(clock.seal_lead_s)
    t.close_turn()
    claim = t.claims["alice"]
    t.convict("alice")
    assert (t.word("alice").end, t.status("alice")) == (End.JUDGED, ClaimStatus.CONVICTED)
    assert s.world.run(t.job).round == 0
    assert s.world.job_ledgers[t.job].restored >= round_price(s.world.terms[t.job])
    share = s.world.finder_shares[t.job, claim]
    assert share > 0
    s.no("referee: time left", "referee", "reward", "stranger", t.job, claim)
    s.ok("referee", "open_seal", "stranger", t.job, claim, s.accounts["stranger"], SALT)
    s.ok("referee", "open_seal", "stranger", t.job, claim, finder, SALT)  # the older one
    s.no("referee: an older seal", "referee", "open_seal", "stranger", t.job, claim, s.accounts["stranger"], SALT)
    s.wait(clock.opening_s)
    s.no("referee: time left", "referee", "reward", "stranger", t.job, claim)
    s.wait(1)
    s.no("referee: not open to seals", "referee", "open_seal", "stranger", t.job, claim, finder, SALT)
    s.ok("referee", "reward", "stranger", t.job, claim)
    s.no("referee: nothing to reward", "referee", "reward", "stranger", t.job, claim)
    assert s.world.owed[usd, finder] == share
    s.no("referee: not pending", "referee", "close", "stranger", t.job, claim)
    t.settle_fees()
    assert s.world.balances[usd, s.world.config.referee] == 0
    s.until_open(t.job)
    s.take_over(t.job, claim.seat, "bob")
    while s.world.job(t.job).state == JobState.RUNNING:
        s.play_round(t.job)
    s.settle(t.job)


def unit_of_update(t: ExploredJob, name: str) -> bytes:
    """Of the step that `convict` goes by."""
    return unit_of(path_id(claim_key(t.job, t.claims[name]), t.first_slot(name), Kind.UPDATE))


@scenario
def a_judgement_without_a_seal_burns_the_finders_share(s: Stage) -> None:
    t = ExploredJob(s, rounds=1, token="usd")
    t.commit("alice", "bob")
    explorer = t.explorer  # while the turn is open, from a segment down to one part of an element
    id = explorer.answer(explorer.first("alice", slot=t.first_slot("alice"), leaf=3, by="stranger"))
    shown = explorer.down(explorer.answer(explorer.down(id, 3, "stranger")), 10, "stranger")
    parts = explorer.answer(explorer.ask_parts(shown, 128 * 10 + 5, "stranger"))
    explorer.convict(parts, 0, "stranger")
    claim, usd = t.claims["alice"], s.tokens["usd"]
    share = s.world.finder_shares[t.job, claim]
    s.wait(s.preset.clocks.opening_s + 1)
    before = s.world.burned[usd]
    s.ok("referee", "reward", "stranger", t.job, claim)
    assert s.world.burned[usd] == before + share
    s.take_over(t.job, claim.seat, "carol")
    s.play_round(t.job)
    t.settle_fees()
    s.settle(t.job)


@scenario
def an_ask_that_nobody_answers_convicts(s: Stage) -> None:
    t = ExploredJob(s, rounds=1)
    t.commit("alice", "bob")
    trace = t.explorer.first("alice", Kind.UPDATE, t.first_slot("alice"), by="stranger")
    other = t.explorer.first("alice", by="guardian", slot=t.first_slot("alice"))
    t.close_turn()
    t.expire(trace)
    assert (t.word("alice").end, t.status("alice")) == (End.SILENT, ClaimStatus.CONVICTED)
    assert s.world.finder_shares[t.job, t.claims["alice"]] == 0
    s.no("referee: nothing to reward", "referee", "reward", "stranger", t.job, t.claims["alice"])
    function, args = t.explorer.answer_args(other) or ("", ())
    s.no("referee: not pending", "referee", function, "alice hot", *args)
    t.settle_fees()
    s.settle(t.job)


@scenario
def more_asks_than_an_operator_can_answer_cost_who_asks_half_of_what_it_loses(s: Stage) -> None:
    """Of an operator with one slot: thirty-three steps are asked for at once."""
    work = replace(WORK, inner_steps=40, segment_steps=1)
    slots = {"alice": Offer(60), "bob": Offer(70, 2), "carol": Offer(80, 2)}
    t = ExploredJob(s, work, slots=slots, rounds=1, token="usd", policy=0)
    t.commit("alice", "bob", "carol")
    lock, usd = s.world.stake_of(t.job, s.ids["alice"], False).locked, s.tokens["usd"]
    asks = [t.explorer.first("alice", slot=t.first_slot("alice"), leaf=leaf, by="stranger") for leaf in range(1, 34)]
    assert [t.explorer.known[id][1].clocks.exhausted for id in asks[-2:]] == [False, True]
    t.close_turn()
    t.expire(asks[-1])
    assert t.word("alice").end == End.EXHAUSTED
    price = s.world.terms[t.job].reserve
    burned = 33 * (price // 2)
    slashed = lock - s.world.stake_of(t.job, s.ids["alice"], False).locked
    assert slashed == clocks.silence_slash(lock, burned, End.EXHAUSTED)
    t.settle_fees()
    assert s.world.disputes.burned[usd] == burned
    s.settle(t.job)
    assert s.operator("alice").locks == 0


@scenario
def a_true_claim_is_paid_once_nothing_is_left_to_ask(s: Stage) -> None:
    t = ExploredJob(s, rounds=1, aggregator_reserve=9_000, aggregator_max_price=9_000)
    clock = s.preset.clocks
    t.commit("alice", "bob")
    root = t.explorer.first("alice", slot=t.first_slot("alice"), by="guardian")
    s.wait(clock.exclusive_s - 1)
    t.explorer.answer(root, by="sink")  # too early to be paid for it
    other = t.explorer.first("alice", RESULT, t.first_slot("alice"), by="guardian")
    t.close_turn()
    s.wait(clock.exclusive_s)
    t.explorer.answer(other, by="sink")
    leaf = t.explorer.ask(root, 2, "guardian")
    aggregation = t.explorer.first("dave", Kind.AGGREGATION, 0, by="stranger")
    s.wait(clock.pay_fades_from_s + 10)
    t.explorer.answer(leaf)
    t.explorer.answer(aggregation)
    assert t.word("dave").used_s == clock.pay_fades_from_s + 10 - s.world.terms[t.job].reexecute_s
    paid = s.world.job_ledgers[t.job]
    s.no("settlement: in dispute", "settlement", "finalise", "stranger", t.job, (t.claims["dave"],))
    s.ok("settlement", "finalise", "stranger", t.job, (t.claims["alice"],))  # the job waits no longer for it
    assert s.world.record_of(t.job, s.ids["alice"]).parked == 1
    t.close("alice")
    t.close("dave")
    ledger = s.world.job_ledgers[t.job]
    alice, dave = t.claims["alice"], t.claims["dave"]
    fading = clocks.fading_pay(dave.price, t.word("dave").used_s, clock)
    assert (t.status("alice"), t.status("dave")) == (ClaimStatus.PAID, ClaimStatus.PAID)
    assert ledger.paid + ledger.fees - paid.paid - paid.fees == alice.price + fading
    assert s.world.disputes.owed.get((COIN, s.accounts["sink"])) is None
    t.settle_fees()
    s.settle(t.job)


@scenario
def a_dispute_that_nobody_ends_makes_its_claim_void(s: Stage) -> None:
    t = ExploredJob(s, rounds=1, reexecute_s=1)
    t.commit("alice", "bob")
    trace = t.explorer.first("alice", Kind.UPDATE, t.first_slot("alice"), by="stranger")
    assert t.explorer.known[trace][1].payment.is_heavy
    t.close_turn()
    last = clocks.aged_at(s.deadline(t.job, t.claims["alice"]), 1, s.preset.clocks)
    s.to(last)
    s.no("referee: not final", "referee", "close", "stranger", t.job, t.claims["alice"])
    s.wait(1)
    s.ok("referee", "close", "stranger", t.job, t.claims["alice"])
    assert (t.word("alice").end, t.status("alice")) == (End.AGED, ClaimStatus.VOID)
    t.settle_fees()
    s.settle(t.job)
    assert s.world.stake_of(t.job, s.ids["alice"], False).locked == 0
    assert s.operator("alice").locks == 0


@scenario
def what_became_of_a_claim_otherwise_ends_its_dispute_without_a_revert(s: Stage) -> None:
    """Its data is lost while it is explored: its dispute is closed at once, or asks expire or are judged, and nothing changes."""
    for end in (End.SILENT, End.JUDGED, End.AGED):
        t = ExploredJob(s, rounds=1, reexecute_s=40)
        t.commit("alice", "bob")
        first = t.explorer.first("alice", slot=t.first_slot("alice"), by="stranger")
        if end != End.SILENT:
            t.explorer.answer(first)
        t.close_turn()
        s.no("referee: not final", "referee", "close", "stranger", t.job, t.claims["alice"])
        s.lose(t.job, t.claims["alice"])
        assert t.status("alice") == ClaimStatus.CONVICTED
        before = s.world.stakes, s.world.runs, s.world.jobs
        if end == End.SILENT:
            t.expire(first)
        elif end == End.JUDGED:
            t.explorer.convict(first, 0, "stranger")
            s.wait(s.preset.clocks.opening_s + 1)
            s.ok("referee", "reward", "stranger", t.job, t.claims["alice"])
        else:
            s.ok("referee", "close", "stranger", t.job, t.claims["alice"])
        assert t.word("alice").end == end
        assert (s.world.stakes, s.world.runs, s.world.jobs) == before
        t.settle_fees()
        s.settle(t.job)


@scenario
def a_claim_that_lost_its_data_is_asked_about_by_no_other_turns_clock(s: Stage) -> None:
    """It was asked about while its turn was open, so nobody wrote its deadline down; another turn has its place by now."""
    t = ExploredJob(s, rounds=5, depth=2, reexecute_s=40)
    t.commit("alice", "bob")
    root = t.explorer.answer(t.explorer.first("alice", slot=t.first_slot("alice"), by="stranger"))
    t.close_turn()
    s.lose(t.job, t.claims["alice"])
    for _ in range(4):
        s.play_round(t.job)
    s.wait(s.preset.clocks.asker_s)
    t.explorer.ask(root, 0, by="stranger")
    s.ok("referee", "close", "stranger", t.job, t.claims["alice"])
    assert t.word("alice").end == End.AGED
    t.settle_fees()
    s.settle(t.job)


@scenario
def a_void_claim_is_judged_and_its_round_done_again(s: Stage) -> None:
    t = ExploredJob(s, slots=STANDBYS, policy=1, rounds=4, depth=4, token="usd")
    t.commit("alice", "bob")
    first = t.claims["alice"]
    t.close_turn()
    t.commit("alice", "bob")
    t.close_turn()
    t.convict("alice")
    assert s.world.run(t.job).round == 1
    s.no("settlement: window open", "settlement", "finalise", "stranger", t.job, (first,))
    t.claims["alice"] = first
    t.sides |= {("alice", slot): HashedComputation("alice", slot, first.start_root, t.work) for slot in first.slots}
    t.convict("alice")
    assert s.world.run(t.job).round == 0
    t.settle_fees()
    s.until_open(t.job)
    s.take_over(t.job, first.seat, "bob")
    while s.world.job(t.job).state == JobState.RUNNING:
        s.play_round(t.job)
    s.settle(t.job)


@scenario
def a_trial_is_explored_like_a_claim_and_costs_no_tokens(s: Stage) -> None:
    small(s)
    program = WORK.programs[0]
    s.ok("admissions", "set_workload", "deployer", 40, Workload(program, b"s" * 32, 5, 10**15))
    for name, end in (("alice", End.FINAL), ("alice", End.SILENT), ("bob", End.JUDGED), ("bob", End.AGED)):
        t = explored_trial(s, name)
        operator, claim = s.ids[name], t.claims[name]
        s.no("referee: not of this kind", "referee", "ask_claim", "stranger", *t.explorer.first_args(name, 1, 0))
        leaf = t.explorer.first(name, slot=0, leaf=2, by="stranger")
        assert t.explorer.known[leaf][1].payment.is_heavy
        s.no("admissions: in dispute", "admissions", "settle", "stranger", claim)
        if end == End.FINAL:
            t.explorer.answer(leaf)
            s.to(s.world.trials[operator].deadline + s.preset.clocks.asker_s + 1)
            s.ok("referee", "close", "stranger", TRIALS, claim)
            s.ok("admissions", "settle", "stranger", claim)
        elif end == End.SILENT:
            t.expire(leaf)
        elif end == End.JUDGED:
            node = t.explorer.answer(t.explorer.down(t.explorer.answer(leaf), 2, "stranger"))
            t.explorer.convict(node, 0, "stranger")
            s.wait(s.preset.clocks.opening_s + 1)
            s.ok("referee", "reward", "stranger", TRIALS, claim)
        else:
            deadline = s.world.trials[operator].deadline
            s.to(clocks.aged_at(deadline, s.preset.benchmark_s, s.preset.clocks) + 1)
            s.ok("referee", "close", "stranger", TRIALS, claim)
        assert t.word(name).end == end
        assert s.operator(name).is_admitted == (end == End.FINAL)
        if s.operator(name).stake < s.preset.min_stake:
            s.ok("registry", "add_stake", f"{name} owner", operator, s.preset.min_stake)
        t.settle_fees()


def explored_trial(s: Stage, name: str) -> ExploredJob:
    """Of a machine that computed something else than it should, or not: nobody knows."""
    workload = workload_of(s.world, s.ids[name])
    t = ExploredJob(s, work_of(workload), job=TRIALS)
    t.sides[name, 0] = TrialComputation(name, 0, workload.state_root, t.work)
    t.claims[name] = answered(s, name, root=t.sides[name, 0].segments.root)
    return t
