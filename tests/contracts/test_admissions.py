"""Admissions: workloads, trials under seeds of later blocks, convictions, and recalls by chance."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from tests.contracts.admissions_driver import (  # noqa: F401
    BENCHMARK_S,
    FIRST_BLOCK,
    ROOT,
    WINDOW_S,
    WORKLOAD,
    chance,
    deployed_fixture,
    entrant_fixture,
    seed_of,
    seed_under,
)
from tests.contracts.disputes import AGED, EXHAUSTED, FINAL, JUDGED, SILENT
from tests.contracts.histories import HISTORY, HISTORY_CODE, remembered
from tests.support.evm import chain
from tests.support.evm import reverts as refused
from tests.support.protocol_driver import START, events_of
from zoo_compute.spec.frames import Work, claim_hash
from zoo_compute.spec.params import DEVNET, PRESETS, window_s
from zoo_compute.spec.state import Claim
from zoo_compute.spec.trials import TRIALS
from zoo_compute.spec.watching import NOBODY

# --- workloads


def test_the_window__fits_three_trials_and_is_at_least_the_presets(entrant):
    assert entrant.contract.window_s() == WINDOW_S == 3 * BENCHMARK_S


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_the_stake__cannot_leave_while_a_trial_stands(preset):
    assert window_s(preset, preset.benchmark_s, 1) <= preset.exit_delay_s
    assert 2 * preset.benchmark_s < preset.epoch_s


@pytest.mark.parametrize(
    ("reason", "vram_gb", "changes"),
    [
        ("VRAM out of range", 0, {"steps": 0}),
        ("VRAM out of range", 65_536, {}),
        ("steps out of range", 8, {"steps": 0, "flops": 0}),
        ("steps out of range", 8, {"steps": 65_537}),
        ("flops out of range", 8, {"flops": 0}),
        ("flops out of range", 8, {"flops": 2**96}),
    ],
)
def test_set_workload__out_of_range__is_refused(entrant, reason, vram_gb, changes):
    with refused(f"admissions: {reason}"):
        entrant.set_workload(vram_gb, replace(WORKLOAD, **changes))


def test_set_workload__at_the_bounds_of_its_numbers__is_accepted(entrant):
    for vram_gb, steps, flops in ((1, 1, 1), (65_535, 65_536, 2**96 - 1)):
        entrant.set_workload(vram_gb, replace(WORKLOAD, steps=steps, flops=flops))
        assert tuple(entrant.contract.workloads(vram_gb))[2:] == (steps, flops)


def test_set_workload__is_the_governors_and_of_sixteen_sizes(entrant):
    with refused("admissions: not the governor"):
        entrant.set_workload(sender=entrant.anyone)
    for vram_gb in range(100, 115):
        entrant.set_workload(vram_gb)
    with refused("admissions: too many workloads"):
        entrant.set_workload(99)
    entrant.set_workload(40, replace(WORKLOAD, steps=1))
    assert entrant.contract.workload_of(entrant.ada.id).steps == 1


def test_workload_of__is_the_largest_not_above_the_memory(entrant):
    for vram_gb in (48, 49, 8, 16):
        entrant.set_workload(vram_gb, replace(WORKLOAD, steps=vram_gb))
    sizes = {vram_gb: entrant.register(f"{vram_gb}", 1, vram_gb).id for vram_gb in (8, 15, 16, 47, 48, 80)}
    assert [entrant.contract.workload_of(node).steps for node in sizes.values()] == [8, 8, 16, 64, 48, 49]
    assert entrant.contract.workload_of(99).steps == 0


# --- enter and answer


def test_enter__needs_an_eligible_operator_and_a_workload(entrant):
    for sender in (entrant.ada.owner, entrant.anyone):
        with refused("admissions: operator not eligible"):
            entrant.contract.enter(entrant.ada.id, sender=sender)
    small = entrant.register("small", 1, 39)
    with refused("admissions: no workload"):
        entrant.enter(small)
    entrant.registry.request_exit(entrant.ada.id, sender=entrant.ada.owner)
    with refused("admissions: operator not eligible"):
        entrant.enter()


def test_enter__names_the_next_block_and_stands_until_its_time_is_over(entrant):
    entrant.enter()
    assert entrant.contract.entries(entrant.ada.id) == (START, FIRST_BLOCK + 1)
    for blocks, seconds in ((0, 0), (2, BENCHMARK_S - 1), (3, 1)):
        entrant.after(blocks, seconds)
        with refused("admissions: entry still open"):
            entrant.enter()
    entrant.after(1, 1)
    entrant.enter()
    assert entrant.contract.entries(entrant.ada.id) == (START + BENCHMARK_S + 1, FIRST_BLOCK + 7)


def test_answer__before_its_block_is_buried__is_refused(entrant):
    with refused("admissions: not entered"):
        entrant.answer()
    entrant.enter()
    for blocks in (0, 1):
        entrant.after(blocks, 0)
        assert entrant.contract.seed_of(entrant.ada.id) == bytes(32)
        with refused("admissions: block hash not known"):
            entrant.answer()
    entrant.after(1, 0)
    assert entrant.contract.seed_of(entrant.ada.id) == seed_of(FIRST_BLOCK + 1, entrant.ada.id)
    entrant.answer()
    assert entrant.contract.seed_of(entrant.ada.id) == bytes(32)


def test_answer__under_another_seed__is_refused(entrant):
    other = entrant.register("other")
    entrant.enter()
    entrant.enter(other)
    entrant.after(2, 1)
    precomputed = seed_of(FIRST_BLOCK, entrant.ada.id)
    anothers = seed_of(FIRST_BLOCK + 1, other.id)
    for seed in (precomputed, anothers, bytes(32)):
        with refused("admissions: seed does not match"):
            entrant.answer(seed=seed)
    with refused("admissions: operator not eligible"):
        entrant.contract.answer(entrant.ada.id, seed_of(FIRST_BLOCK + 1, entrant.ada.id), bytes(32), sender=other.hot)
    entrant.answer()


def test_answer__for_a_workload_that_was_changed__is_refused_and_not_false(entrant):
    entrant.enter()
    entrant.after(2, 1)
    before = entrant.contract.seed_of(entrant.ada.id)
    entrant.set_workload(40, replace(WORKLOAD, flops=10**15 + 1))
    with refused("admissions: seed does not match"):
        entrant.answer(seed=before)
    entrant.answer()


def test_answer__after_a_reorganisation__is_refused_and_not_false(entrant):
    entrant.enter()
    entrant.after(2, 1)
    before = seed_under(bytes([1, 1]) * 16, entrant.ada.id)
    with refused("admissions: seed does not match"):
        entrant.answer(seed=before)


def test_answer__at_the_last_second__is_accepted_and_refused_after(entrant):
    entrant.enter()
    entrant.after(2, BENCHMARK_S)
    with chain.anchor():
        entrant.answer()
        assert chain.timestamp == START + BENCHMARK_S
    entrant.after(0, 1)
    with refused("admissions: answer too late"):
        entrant.answer()


def test_answer__by_who_requested_its_exit__is_refused(entrant):
    entrant.enter()
    entrant.after(2, 1)
    entrant.registry.request_exit(entrant.ada.id, sender=entrant.ada.owner)
    with refused("admissions: operator not eligible"):
        entrant.answer()


def test_answer__when_only_the_history_knows_the_block__asks_it(entrant):
    entrant.enter()
    entrant.after(1 + 256, 1)
    with chain.anchor():
        entrant.answer()
    entrant.after(1, 0)
    with refused("admissions: block hash not known"):
        entrant.answer()
    chain.set_code(HISTORY, HISTORY_CODE)
    entrant.answer(seed=seed_under(remembered(FIRST_BLOCK + 1), entrant.ada.id))


def test_an_answered_trial__is_a_claim_as_settlement_keeps_it_until_it_is_settled(entrant):
    entrant.enter()
    entrant.after(2, 7)
    seed = entrant.contract.seed_of(entrant.ada.id)
    claim = entrant.answer()
    event = {"operator": entrant.ada.id, "claim": claim, "workload": astuple(WORKLOAD), "segment_root": ROOT}
    deadline = START + entrant.second + WINDOW_S
    assert events_of(entrant.contract) == [("TrialAnswered", {**event, "seconds": 7, "deadline": deadline})]
    assert entrant.contract.claim_deadline(TRIALS, entrant.ada.id) == deadline
    assert claim[1].to_bytes(32, "big") == seed
    kept = Claim(*claim)
    assert entrant.contract.claims(TRIALS, 0, entrant.ada.id) == claim_hash(kept)[:30] + b"\0\1"
    assert entrant.contract.claims(TRIALS, 0, entrant.ada.id + 1) == bytes(32)
    work = Work((WORKLOAD.program_root, bytes(32), bytes(32)), WORKLOAD.steps, 1, 0)
    assert tuple(entrant.contract.trials(entrant.ada.id)) == (work.root, WORKLOAD.flops // 7, deadline)
    entrant.after(1, WINDOW_S + 1)
    entrant.settle(claim)
    assert entrant.contract.claims(TRIALS, 0, entrant.ada.id) == bytes(32)
    assert tuple(entrant.contract.trials(entrant.ada.id)) == (bytes(32), 0, 0)


# --- settle


def test_settle__after_the_window__admits_with_flops_over_seconds(entrant):
    claim = entrant.answered(seconds=7)
    with refused("admissions: trial pending"):
        entrant.enter()
    entrant.after(1, WINDOW_S)
    with refused("admissions: window open"):
        entrant.settle(claim)
    entrant.after(1, 1)
    assert (entrant.multiplier(), entrant.registry.is_admitted(entrant.ada.id)) == (100, False)
    entrant.settle(claim)
    assert (entrant.multiplier(), entrant.registry.is_admitted(entrant.ada.id)) == (300, True)
    assert entrant.contract.scores(entrant.ada.id) == 10**15 // 7
    with refused("admissions: unknown trial"):
        entrant.settle(claim)


def test_settle__of_any_other_trial__is_refused(entrant):
    claim = entrant.answered()
    entrant.after(1, WINDOW_S + 1)
    for place, value in enumerate((99, 7, 128, 99, 2, 1, b"x" * 32, b"x" * 32)):
        with refused("admissions: unknown trial"):
            entrant.settle((*claim[:place], value, *claim[place + 1 :]))
    entrant.settle(claim)


def test_settle__in_the_entrys_own_second__divides_by_one(entrant):
    claim = entrant.answered(seconds=0)
    entrant.after(1, WINDOW_S + 1)
    entrant.settle(claim)
    assert entrant.contract.scores(entrant.ada.id) == 10**15


def test_an_apple_machine__weighs_as_its_class_before_and_after(entrant):
    apple = entrant.register("apple", 4, 64)
    assert entrant.registry.multiplier_of(apple.id) == 80
    claim = entrant.answered(node=apple)
    entrant.after(1, WINDOW_S + 1)
    entrant.settle(claim)
    assert entrant.registry.multiplier_of(apple.id) == 80


def test_withdrawal_of_the_stake__ends_the_admission_and_a_trial_waits_for_a_new_one(entrant):
    entrant.admitted()
    claim = entrant.answered()
    entrant.registry.request_exit(entrant.ada.id, sender=entrant.ada.owner)
    entrant.after(1, DEVNET.exit_delay_s + 1)
    entrant.registry.withdraw_stake(entrant.ada.id, sender=entrant.ada.owner)
    assert (entrant.multiplier(), entrant.registry.is_admitted(entrant.ada.id)) == (100, False)
    with refused("admissions: nothing staked"):
        entrant.settle(claim)
    entrant.registry.add_stake(entrant.ada.id, DEVNET.min_stake, sender=entrant.ada.owner)
    entrant.settle(claim)
    assert entrant.multiplier() == 300


# --- disputes


def test_disputes__are_the_referees_and_hold_the_trial(entrant):
    claim = entrant.answered()
    for call in (
        lambda: entrant.dispute(claim, sender=entrant.anyone),
        lambda: entrant.close(claim, JUDGED, sender=entrant.anyone),
        lambda: entrant.contract.reward_finder(TRIALS, claim, entrant.anyone, sender=entrant.anyone),
    ):
        with refused("admissions: not the referee"):
            call()
    with refused("admissions: unknown trial"):
        entrant.dispute((*claim[:7], bytes(32)))
    entrant.dispute(claim)
    assert events_of(entrant.contract) == [("TrialDisputeOpened", {"operator": entrant.ada.id})]
    entrant.after(1, WINDOW_S + 1)
    with refused("admissions: in dispute"):
        entrant.settle(claim)
    assert entrant.contract.is_disputed(entrant.ada.id)
    entrant.close(claim, FINAL)
    assert events_of(entrant.contract) == [("TrialDisputeClosed", {"operator": entrant.ada.id, "outcome": FINAL})]
    assert not entrant.contract.is_disputed(entrant.ada.id)
    entrant.settle(claim)
    assert entrant.multiplier() == 300


def test_dispute_terms__are_those_of_a_pending_trial(entrant):
    claim = entrant.answered()
    trial = entrant.contract.trials(entrant.ada.id)
    terms = (trial.work_root, BENCHMARK_S, 1, trial.deadline)
    assert tuple(entrant.contract.dispute_terms(TRIALS, claim)) == terms
    with refused("admissions: unknown trial"):
        entrant.contract.dispute_terms(TRIALS, (*claim[:7], bytes(32)))


@pytest.mark.parametrize("outcome", [JUDGED, SILENT, EXHAUSTED])
def test_a_conviction__ends_the_admission_and_costs_a_fifth_of_the_stake(entrant, outcome):
    entrant.admitted()
    claim = entrant.answered()
    entrant.dispute(claim)
    burned, own = entrant.registry.burned(entrant.zen), {"operator": entrant.ada.id}
    entrant.close(claim, outcome)
    slashed = DEVNET.min_stake // 5
    assert events_of(entrant.contract) == [
        ("TrialDisputeClosed", {**own, "outcome": outcome}),
        ("TrialConvicted", {**own, "slashed": slashed}),
    ]
    entrant.close(claim, outcome)  # nothing is left to convict
    assert entrant.registry.stake_of(entrant.ada.id) == DEVNET.min_stake - slashed
    share = slashed * 2 // 5 if outcome == JUDGED else 0
    assert entrant.registry.burned(entrant.zen) - burned == slashed - share
    assert (entrant.registry.pot(entrant.zen), entrant.contract.finder_shares(claim_hash(Claim(*claim)))) == (
        share,
        share,
    )
    assert (entrant.multiplier(), entrant.contract.scores(entrant.ada.id)) == (100, 0)
    entrant.contract.reward_finder(TRIALS, claim, entrant.anyone, sender=entrant.referee)
    rewarded = {**own, "finder": entrant.anyone, "amount": share}
    assert events_of(entrant.contract) == ([("TrialFinderRewarded", rewarded)] if share else [])
    entrant.contract.reward_finder(TRIALS, claim, entrant.anyone, sender=entrant.referee)
    assert (entrant.zen.balanceOf(entrant.anyone), entrant.registry.pot(entrant.zen)) == (share, 0)
    assert entrant.registry.burned(entrant.zen) - burned == slashed - share
    with refused("admissions: operator not eligible"):
        entrant.enter()


def test_a_judged_trial_without_a_finder__burns_whole(entrant):
    claim = entrant.answered()
    entrant.dispute(claim)
    entrant.close(claim, JUDGED)
    entrant.contract.reward_finder(TRIALS, claim, NOBODY, sender=entrant.referee)
    assert (entrant.registry.pot(entrant.zen), entrant.contract.finder_shares(claim_hash(Claim(*claim)))) == (0, 0)
    assert entrant.registry.burned(entrant.zen) == DEVNET.min_stake // 5


def test_a_trial_that_is_void_by_age__admits_nobody_and_costs_nothing(entrant):
    entrant.admitted()
    claim = entrant.answered()
    entrant.dispute(claim)
    entrant.close(claim, AGED)
    assert entrant.registry.stake_of(entrant.ada.id) == DEVNET.min_stake
    assert (entrant.multiplier(), entrant.contract.is_disputed(entrant.ada.id)) == (300, False)
    with refused("admissions: unknown trial"):
        entrant.settle(claim)
    entrant.answered()  # another can be shown


def test_a_late_verdict__does_not_touch_a_newer_trial(entrant):
    claim = entrant.answered()
    entrant.dispute(claim)
    entrant.close(claim, JUDGED)
    entrant.registry.add_stake(entrant.ada.id, DEVNET.min_stake, sender=entrant.ada.owner)
    newer = entrant.answered()
    entrant.dispute(newer)
    stake = entrant.registry.stake_of(entrant.ada.id)
    entrant.close(claim, JUDGED)
    assert entrant.registry.stake_of(entrant.ada.id) == stake
    assert entrant.contract.is_disputed(entrant.ada.id)


# --- recalls


def test_schedule__once_an_epoch__names_the_next_block(entrant):
    entrant.contract.schedule(sender=entrant.anyone)
    assert entrant.contract.draws(entrant.epoch) == FIRST_BLOCK + 1
    with refused("admissions: already scheduled"):
        entrant.contract.schedule(sender=entrant.anyone)
    entrant.after(1, 60)
    entrant.contract.schedule(sender=entrant.anyone)


def test_recall__asks_the_draw_of_its_epoch(entrant):
    entrant.admitted()
    with refused("admissions: not scheduled"):
        entrant.recall()
    assert not entrant.contract.is_drawn(entrant.ada.id)
    entrant.drawn()
    with chain.anchor():
        entrant.at(entrant.number - 1, entrant.second)
        assert not entrant.contract.is_drawn(entrant.ada.id)
        with refused("admissions: block hash not known"):
            entrant.recall()
    entrant.at(entrant.number + 1, entrant.second)
    assert entrant.contract.is_drawn(entrant.ada.id)
    entrant.recall()
    due = START + entrant.second + 2 * BENCHMARK_S
    assert entrant.contract.recalls(entrant.ada.id) == (entrant.epoch, due, entrant.anyone)
    with refused("admissions: already recalled"):
        entrant.recall()


def test_is_drawn__without_a_schedule_or_its_hash__picks_nobody(entrant):
    chain.set_code(HISTORY, HISTORY_CODE)  # knows a hash of block 0 too
    for _ in range(2):
        assert not any(entrant.contract.is_drawn(operator) for operator in range(100))
        entrant.contract.schedule(sender=entrant.anyone)
        assert not any(entrant.contract.is_drawn(operator) for operator in range(100))
        entrant.after(1, 60)
    assert entrant.contract.seed_of(entrant.ada.id) == bytes(32)


def test_is_drawn__picks_a_tenth(entrant):
    entrant.contract.schedule(sender=entrant.anyone)
    entrant.after(2, 0)
    drawn = [entrant.contract.is_drawn(operator) for operator in range(400)]
    assert drawn == [chance(FIRST_BLOCK + 1, entrant.epoch, operator) < 1_000 for operator in range(400)]
    assert 20 < sum(drawn) < 60


def test_recall__of_who_was_not_drawn_or_is_not_admitted__is_refused(entrant):
    entrant.drawn()
    with refused("admissions: not admitted"):
        entrant.recall()
    entrant.admitted()
    entrant.after(0, 60)
    while chance(entrant.number + 1, entrant.epoch, entrant.ada.id) < 1_000:
        entrant.after(1, 0)
    entrant.contract.schedule(sender=entrant.anyone)
    entrant.after(2, 0)
    with refused("admissions: not drawn"):
        entrant.recall()


def test_a_recall__is_answered_by_a_new_trial(entrant):
    entrant.admitted()
    entrant.drawn()
    entrant.recall()
    due = entrant.contract.recalls(entrant.ada.id).due
    claim = entrant.answered()
    assert entrant.contract.recalls(entrant.ada.id) == (entrant.epoch, 0, entrant.anyone)
    with refused("admissions: trial pending"):
        entrant.recall()
    with refused("admissions: not recalled"):
        entrant.contract.lapse(entrant.ada.id, sender=entrant.anyone)
    deadline = entrant.contract.trials(entrant.ada.id).deadline
    entrant.at(entrant.number + 1, max(deadline, due) + 1 - START)
    entrant.settle(claim)
    assert entrant.multiplier() == 300


def test_an_idle_node__lapses_a_second_after_its_time(entrant):
    entrant.admitted()
    entrant.drawn()
    entrant.recall()
    entrant.enter()
    entrant.after(9, 2 * BENCHMARK_S)
    with refused("admissions: recall not over"):
        entrant.contract.lapse(entrant.ada.id, sender=entrant.anyone)
    entrant.after(1, 1)
    stranger = chain.account("stranger")
    entrant.contract.lapse(entrant.ada.id, sender=stranger)
    lost = DEVNET.min_stake // 100
    assert events_of(entrant.contract) == [("AdmissionLapsed", {"operator": entrant.ada.id, "slashed": lost})]
    assert entrant.registry.stake_of(entrant.ada.id) == DEVNET.min_stake - lost
    assert (entrant.zen.balanceOf(entrant.anyone), entrant.zen.balanceOf(stranger)) == (lost // 2, 0), "who recalled"
    assert entrant.registry.burned(entrant.zen) == lost // 2
    assert (entrant.multiplier(), entrant.contract.scores(entrant.ada.id)) == (100, 0)
    with refused("admissions: not recalled"):
        entrant.contract.lapse(entrant.ada.id, sender=entrant.anyone)


def test_a_recall__is_not_put_off_by_the_next_epochs(entrant):
    entrant.admitted()
    entrant.drawn()
    entrant.recall()
    due = entrant.contract.recalls(entrant.ada.id).due
    entrant.drawn()
    with refused("admissions: already recalled"):
        entrant.recall()
    assert entrant.contract.recalls(entrant.ada.id).due == due
