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
    refused,
    seed_of,
    seed_under,
    shown_fixture,
)
from tests.contracts.audits_driver import HISTORY, HISTORY_CODE, remembered
from tests.support.evm import chain
from tests.support.protocol_driver import START, events_of
from zoo_compute.spec.games import Work, claim_hash
from zoo_compute.spec.params import DEVNET, PRESETS, window_s
from zoo_compute.spec.state import Claim
from zoo_compute.spec.trials import TRIALS

# --- workloads


def test_the_window__fits_three_trials_and_is_at_least_the_presets(shown):
    assert shown.contract.window_s() == WINDOW_S == 3 * BENCHMARK_S


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
def test_set_workload__out_of_range__is_refused(shown, reason, vram_gb, changes):
    with refused(f"admissions: {reason}"):
        shown.set_workload(vram_gb, replace(WORKLOAD, **changes))


def test_set_workload__at_the_bounds_of_its_numbers__is_accepted(shown):
    for vram_gb, steps, flops in ((1, 1, 1), (65_535, 65_536, 2**96 - 1)):
        shown.set_workload(vram_gb, replace(WORKLOAD, steps=steps, flops=flops))
        assert tuple(shown.contract.workloads(vram_gb))[2:] == (steps, flops)


def test_set_workload__is_the_governors_and_of_sixteen_sizes(shown):
    with refused("admissions: not the governor"):
        shown.set_workload(sender=shown.anyone)
    for vram_gb in range(100, 115):
        shown.set_workload(vram_gb)
    with refused("admissions: too many workloads"):
        shown.set_workload(99)
    shown.set_workload(40, replace(WORKLOAD, steps=1))
    assert shown.contract.workload_of(shown.ada.id).steps == 1


def test_workload_of__is_the_largest_not_above_the_memory(shown):
    for vram_gb in (48, 49, 8, 16):
        shown.set_workload(vram_gb, replace(WORKLOAD, steps=vram_gb))
    sizes = {vram_gb: shown.register(f"{vram_gb}", 1, vram_gb).id for vram_gb in (8, 15, 16, 47, 48, 80)}
    assert [shown.contract.workload_of(node).steps for node in sizes.values()] == [8, 8, 16, 64, 48, 49]
    assert shown.contract.workload_of(99).steps == 0


# --- enter and answer


def test_enter__needs_an_eligible_operator_and_a_workload(shown):
    for sender in (shown.ada.owner, shown.anyone):
        with refused("admissions: operator not eligible"):
            shown.contract.enter(shown.ada.id, sender=sender)
    small = shown.register("small", 1, 39)
    with refused("admissions: no workload"):
        shown.enter(small)
    shown.registry.request_exit(shown.ada.id, sender=shown.ada.owner)
    with refused("admissions: operator not eligible"):
        shown.enter()


def test_enter__names_the_next_block_and_stands_until_its_time_is_over(shown):
    shown.enter()
    assert shown.contract.entries(shown.ada.id) == (START, FIRST_BLOCK + 1)
    for blocks, seconds in ((0, 0), (2, BENCHMARK_S - 1), (3, 1)):
        shown.after(blocks, seconds)
        with refused("admissions: entry still open"):
            shown.enter()
    shown.after(1, 1)
    shown.enter()
    assert shown.contract.entries(shown.ada.id) == (START + BENCHMARK_S + 1, FIRST_BLOCK + 7)


def test_answer__before_its_block_is_buried__is_refused(shown):
    with refused("admissions: not entered"):
        shown.answer()
    shown.enter()
    for blocks in (0, 1):
        shown.after(blocks, 0)
        assert shown.contract.seed_of(shown.ada.id) == bytes(32)
        with refused("admissions: block hash not known"):
            shown.answer()
    shown.after(1, 0)
    assert shown.contract.seed_of(shown.ada.id) == seed_of(FIRST_BLOCK + 1, shown.ada.id)
    shown.answer()
    assert shown.contract.seed_of(shown.ada.id) == bytes(32)


def test_answer__under_another_seed__is_refused(shown):
    other = shown.register("other")
    shown.enter()
    shown.enter(other)
    shown.after(2, 1)
    precomputed = seed_of(FIRST_BLOCK, shown.ada.id)
    anothers = seed_of(FIRST_BLOCK + 1, other.id)
    for seed in (precomputed, anothers, bytes(32)):
        with refused("admissions: seed does not match"):
            shown.answer(seed=seed)
    with refused("admissions: operator not eligible"):
        shown.contract.answer(shown.ada.id, seed_of(FIRST_BLOCK + 1, shown.ada.id), bytes(32), sender=other.hot)
    shown.answer()


def test_answer__for_a_workload_that_was_changed__is_refused_and_not_false(shown):
    shown.enter()
    shown.after(2, 1)
    before = shown.contract.seed_of(shown.ada.id)
    shown.set_workload(40, replace(WORKLOAD, flops=10**15 + 1))
    with refused("admissions: seed does not match"):
        shown.answer(seed=before)
    shown.answer()


def test_answer__after_a_reorganisation__is_refused_and_not_false(shown):
    shown.enter()
    shown.after(2, 1)
    before = seed_under(bytes([1, 1]) * 16, shown.ada.id)
    with refused("admissions: seed does not match"):
        shown.answer(seed=before)


def test_answer__at_the_last_second__is_accepted_and_refused_after(shown):
    shown.enter()
    shown.after(2, BENCHMARK_S)
    with chain.anchor():
        shown.answer()
        assert chain.timestamp == START + BENCHMARK_S
    shown.after(0, 1)
    with refused("admissions: answer too late"):
        shown.answer()


def test_answer__by_who_requested_its_exit__is_refused(shown):
    shown.enter()
    shown.after(2, 1)
    shown.registry.request_exit(shown.ada.id, sender=shown.ada.owner)
    with refused("admissions: operator not eligible"):
        shown.answer()


def test_answer__when_only_the_history_knows_the_block__asks_it(shown):
    shown.enter()
    shown.after(1 + 256, 1)
    with chain.anchor():
        shown.answer()
    shown.after(1, 0)
    with refused("admissions: block hash not known"):
        shown.answer()
    chain.set_code(HISTORY, HISTORY_CODE)
    shown.answer(seed=seed_under(remembered(FIRST_BLOCK + 1), shown.ada.id))


def test_an_answered_trial__is_a_claim_as_settlement_keeps_it_until_it_is_settled(shown):
    shown.enter()
    shown.after(2, 7)
    seed = shown.contract.seed_of(shown.ada.id)
    claim = shown.answer()
    event = {"operator": shown.ada.id, "claim": claim, "workload": astuple(WORKLOAD), "segment_root": ROOT}
    assert events_of(shown.contract) == [("TrialAnswered", {**event, "seconds": 7})]
    assert claim[1].to_bytes(32, "big") == seed
    kept = Claim(*claim)
    assert shown.contract.claims(TRIALS, 0, shown.ada.id) == claim_hash(kept)[:30] + b"\0\1"
    assert shown.contract.claims(TRIALS, 0, shown.ada.id + 1) == bytes(32)
    work = Work((WORKLOAD.program_root, bytes(32), bytes(32)), WORKLOAD.steps, 1, 0)
    assert tuple(shown.contract.trials(shown.ada.id)) == (work.root, WORKLOAD.flops // 7)
    shown.after(1, WINDOW_S + 1)
    shown.settle(claim)
    assert shown.contract.claims(TRIALS, 0, shown.ada.id) == bytes(32)
    assert tuple(shown.contract.trials(shown.ada.id)) == (bytes(32), 0)


# --- settle


def test_settle__after_the_window__admits_with_flops_over_seconds(shown):
    claim = shown.answered(seconds=7)
    with refused("admissions: trial pending"):
        shown.enter()
    shown.after(1, WINDOW_S)
    with refused("admissions: window open"):
        shown.settle(claim)
    shown.after(1, 1)
    assert (shown.multiplier(), shown.registry.is_admitted(shown.ada.id)) == (100, False)
    shown.settle(claim)
    assert (shown.multiplier(), shown.registry.is_admitted(shown.ada.id)) == (300, True)
    assert shown.contract.scores(shown.ada.id) == 10**15 // 7
    with refused("admissions: unknown trial"):
        shown.settle(claim)


def test_settle__of_any_other_trial__is_refused(shown):
    claim = shown.answered()
    shown.after(1, WINDOW_S + 1)
    for place, value in enumerate((99, 7, 128, 99, 2, 1, 1, b"x" * 32, b"x" * 32, 0)):
        with refused("admissions: unknown trial"):
            shown.settle((*claim[:place], value, *claim[place + 1 :]))
    shown.settle(claim)


def test_settle__in_the_entrys_own_second__divides_by_one(shown):
    claim = shown.answered(seconds=0)
    shown.after(1, WINDOW_S + 1)
    shown.settle(claim)
    assert shown.contract.scores(shown.ada.id) == 10**15


def test_an_apple_machine__weighs_as_its_class_before_and_after(shown):
    apple = shown.register("apple", 4, 64)
    assert shown.registry.multiplier_of(apple.id) == 80
    claim = shown.answered(node=apple)
    shown.after(1, WINDOW_S + 1)
    shown.settle(claim)
    assert shown.registry.multiplier_of(apple.id) == 80


def test_withdrawal_of_the_stake__ends_the_admission_and_a_trial_waits_for_a_new_one(shown):
    shown.admitted()
    claim = shown.answered()
    shown.registry.request_exit(shown.ada.id, sender=shown.ada.owner)
    shown.after(1, DEVNET.exit_delay_s + 1)
    shown.registry.withdraw_stake(shown.ada.id, sender=shown.ada.owner)
    assert (shown.multiplier(), shown.registry.is_admitted(shown.ada.id)) == (100, False)
    with refused("admissions: nothing staked"):
        shown.settle(claim)
    shown.registry.add_stake(shown.ada.id, DEVNET.min_stake, sender=shown.ada.owner)
    shown.settle(claim)
    assert shown.multiplier() == 300


# --- disputes


def test_disputes__are_the_referees_and_hold_the_trial(shown):
    claim = shown.answered()
    with refused("admissions: not the referee"):
        shown.dispute(claim, sender=shown.anyone)
    with refused("admissions: not the referee"):
        shown.close(claim, True, sender=shown.anyone)
    with refused("admissions: not in dispute"):
        shown.close(claim, convicted=True)
    with refused("admissions: unknown trial"):
        shown.dispute((*claim[:9], claim[9] + 1))
    shown.after(1, WINDOW_S)
    shown.dispute(claim)
    shown.after(1, 1)
    with refused("admissions: window closed"):
        shown.dispute(claim)
    with refused("admissions: in dispute"):
        shown.settle(claim)
    shown.close(claim, convicted=False)
    assert shown.contract.disputes(shown.ada.id) == 0
    shown.settle(claim)


def test_a_conviction__ends_the_admission_and_burns_a_fifth_of_the_stake(shown):
    shown.admitted()
    claim = shown.answered()
    for _ in range(2):
        shown.dispute(claim)
    burned = shown.registry.burned(shown.zen)
    for _ in range(2):  # the second dispute finds nothing left to convict
        shown.close(claim, convicted=True)
        assert shown.registry.stake_of(shown.ada.id) == DEVNET.min_stake * 4 // 5
    assert shown.registry.burned(shown.zen) - burned == DEVNET.min_stake // 5
    assert (shown.multiplier(), shown.contract.scores(shown.ada.id)) == (100, 0)
    with refused("admissions: operator not eligible"):
        shown.enter()


def test_a_late_verdict__does_not_touch_a_newer_trial(shown):
    claim = shown.answered()
    for _ in range(2):
        shown.dispute(claim)
    shown.close(claim, convicted=True)
    shown.registry.add_stake(shown.ada.id, DEVNET.min_stake, sender=shown.ada.owner)
    newer = shown.answered()
    shown.dispute(newer)
    stake = shown.registry.stake_of(shown.ada.id)
    shown.close(claim, convicted=True)
    assert shown.registry.stake_of(shown.ada.id) == stake
    assert shown.contract.disputes(shown.ada.id) == 1


# --- recalls


def test_schedule__once_an_epoch__names_the_next_block(shown):
    shown.contract.schedule(sender=shown.anyone)
    assert shown.contract.draws(shown.epoch) == FIRST_BLOCK + 1
    with refused("admissions: already scheduled"):
        shown.contract.schedule(sender=shown.anyone)
    shown.after(1, 60)
    shown.contract.schedule(sender=shown.anyone)


def test_recall__asks_the_draw_of_its_epoch(shown):
    shown.admitted()
    with refused("admissions: not scheduled"):
        shown.recall()
    assert not shown.contract.is_drawn(shown.ada.id)
    shown.drawn()
    with chain.anchor():
        shown.at(shown.number - 1, shown.second)
        assert not shown.contract.is_drawn(shown.ada.id)
        with refused("admissions: block hash not known"):
            shown.recall()
    shown.at(shown.number + 1, shown.second)
    assert shown.contract.is_drawn(shown.ada.id)
    shown.recall()
    assert shown.contract.recalls(shown.ada.id) == (shown.epoch, START + shown.second + 2 * BENCHMARK_S)
    with refused("admissions: already recalled"):
        shown.recall()


def test_is_drawn__without_a_schedule_or_its_hash__picks_nobody(shown):
    chain.set_code(HISTORY, HISTORY_CODE)  # knows a hash of block 0 too
    for _ in range(2):
        assert not any(shown.contract.is_drawn(operator) for operator in range(100))
        shown.contract.schedule(sender=shown.anyone)
        assert not any(shown.contract.is_drawn(operator) for operator in range(100))
        shown.after(1, 60)
    assert shown.contract.seed_of(shown.ada.id) == bytes(32)


def test_is_drawn__picks_a_tenth(shown):
    shown.contract.schedule(sender=shown.anyone)
    shown.after(2, 0)
    drawn = [shown.contract.is_drawn(operator) for operator in range(400)]
    assert drawn == [chance(FIRST_BLOCK + 1, shown.epoch, operator) < 1_000 for operator in range(400)]
    assert 20 < sum(drawn) < 60


def test_recall__of_who_was_not_drawn_or_is_not_admitted__is_refused(shown):
    shown.drawn()
    with refused("admissions: not admitted"):
        shown.recall()
    shown.admitted()
    shown.after(0, 60)
    while chance(shown.number + 1, shown.epoch, shown.ada.id) < 1_000:
        shown.after(1, 0)
    shown.contract.schedule(sender=shown.anyone)
    shown.after(2, 0)
    with refused("admissions: not drawn"):
        shown.recall()


def test_a_recall__is_answered_by_a_new_trial(shown):
    shown.admitted()
    shown.drawn()
    shown.recall()
    due = shown.contract.recalls(shown.ada.id).due
    claim = shown.answered()
    assert shown.contract.recalls(shown.ada.id) == (shown.epoch, 0)
    with refused("admissions: trial pending"):
        shown.recall()
    with refused("admissions: not recalled"):
        shown.contract.lapse(shown.ada.id, sender=shown.anyone)
    shown.at(shown.number + 1, max(claim[9], due) + 1 - START)
    shown.settle(claim)
    assert shown.multiplier() == 300


def test_an_idle_node__lapses_a_second_after_its_time(shown):
    shown.admitted()
    shown.drawn()
    shown.recall()
    shown.enter()
    shown.after(9, 2 * BENCHMARK_S)
    with refused("admissions: recall not over"):
        shown.contract.lapse(shown.ada.id, sender=shown.anyone)
    shown.after(1, 1)
    shown.contract.lapse(shown.ada.id, sender=shown.anyone)
    assert (shown.multiplier(), shown.contract.scores(shown.ada.id)) == (100, 0)
    with refused("admissions: not recalled"):
        shown.contract.lapse(shown.ada.id, sender=shown.anyone)


def test_a_recall__is_not_put_off_by_the_next_epochs(shown):
    shown.admitted()
    shown.drawn()
    shown.recall()
    due = shown.contract.recalls(shown.ada.id).due
    shown.drawn()
    with refused("admissions: already recalled"):
        shown.recall()
    assert shown.contract.recalls(shown.ada.id).due == due
