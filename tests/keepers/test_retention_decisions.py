"""Which rounds' files an operator still needs, and which checkpoints stay: decided from one look at the chain."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.decisions.retention import first_needed, is_done_with, permanent_checkpoints, spare_s
from tests.client.test_results import aggregation, commit, view
from zoo_compute.chain.views import ClaimState, JobState, JobView
from zoo_compute.formats.tags import job_tag, parse_tag, round_tag

ROUNDS = 8
LATE = 10**6  # long after every window
PAID = ClaimState.PAID


def manifest(**changes: int) -> Any:
    return SimpleNamespace(**({"rounds": ROUNDS, "carry": 1, "delay": 0, "keep_every": 3, "is_map": False} | changes))


def roots(done: int) -> dict[int, bytes]:
    return {n: bytes([n]) * 32 for n in range(done + 1)}


def job(done: int, final: int, **changes: Any) -> JobView:
    """A job with so many rounds done, of which so many are final."""
    states = [PAID if turn < final else ClaimState.PENDING for turn in range(done)]
    made = [aggregation(turn, roots(done)[turn + 1], state=state) for turn, state in enumerate(states)]
    commits = [commit(turn, state=state) for turn, state in enumerate(states)]
    base = view(now=LATE, checkpoint_roots=roots(done), commits=commits, checkpoints=made)
    return replace(base, run=replace(base.run, round=done, turn=done, rounds=ROUNDS), **changes)


def closed(done: int) -> JobView:
    return replace(job(done, done), state=JobState.ENDED, closed=True)


def test_tags__tell_their_job_and_round():
    assert parse_tag(round_tag(3, 41)) == (3, 41)
    assert parse_tag(job_tag(3)) == (3, None)
    assert parse_tag("mine") is None


def test_a_round__is_needed_until_every_claim_of_it_and_the_one_after_it_is_final():
    assert first_needed(job(6, 4), manifest(), LATE) == 3
    assert first_needed(job(6, 0), manifest(), LATE) == -1
    assert first_needed(job(6, 6), manifest(), LATE) == 5, "the next round starts from checkpoint 6"


def test_private_state_and_delay__reach_further_back():
    assert first_needed(job(7, 6), manifest(carry=4), LATE) == 3
    assert first_needed(job(7, 6), manifest(carry=4, delay=1), LATE) == 2


def test_a_claim_in_dispute__keeps_its_round_however_late_it_is():
    disputed = job(6, 6)
    claims = [replace(c, state=ClaimState.PENDING, disputed=True) if c.turn == 2 else c for c in disputed.commits]
    assert first_needed(replace(disputed, commits=claims), manifest(), LATE) == 1


def test_an_open_demand__keeps_its_round():
    asked = job(6, 6)
    demand: Any = SimpleNamespace(is_open=True, claim=asked.commits[1])
    assert first_needed(replace(asked, demands=[demand]), manifest(), LATE) == 0
    answered: Any = SimpleNamespace(is_open=False, claim=asked.commits[1])
    assert first_needed(replace(asked, demands=[answered]), manifest(), LATE) == 5


@pytest.mark.parametrize(("after_s", "first"), [(0, 1), (1, 5)])
def test_a_paid_claim__keeps_its_round_for_a_while_after_its_window(after_s: int, first: int):
    paid = job(6, 6)
    claims = [replace(c, deadline=5_000) if c.turn == 2 else c for c in paid.commits]
    assert first_needed(replace(paid, commits=claims), manifest(), 5_000 + spare_s(paid) + after_s) == first


def test_a_round_done_again__is_needed_by_the_claims_of_the_line_that_was_left_too():
    """Turns 0 to 2 did rounds 0 to 2; turn 3 does round 1 again."""
    again = job(3, 1)
    again = replace(again, run=replace(again.run, round=1, turn=3), checkpoint_roots=roots(1))  # type: ignore[type-var]
    assert again.final_rounds == 1
    assert first_needed(again, manifest(), LATE) == 0


def test_a_closed_job__needs_nothing_but_a_while_after_its_windows():
    assert first_needed(closed(ROUNDS), manifest(), LATE) == ROUNDS + 1
    assert first_needed(closed(ROUNDS), manifest(), 1_060) == -1
    assert is_done_with(closed(ROUNDS), LATE)
    assert not is_done_with(closed(ROUNDS), 1_060)
    assert not is_done_with(job(ROUNDS, ROUNDS), LATE), "it may run again while it is not closed"


def test_checkpoints_that_outlive_the_job__are_final_ones__and_the_last_once_nothing_can_follow():
    assert permanent_checkpoints(job(8, 6), manifest()) == [3, 6]
    assert permanent_checkpoints(job(8, 5), manifest()) == [3]
    assert permanent_checkpoints(job(8, 8), manifest()) == [3, 6], "it may run again while it is not closed"
    assert permanent_checkpoints(closed(8), manifest()) == [3, 6, 8]
    assert permanent_checkpoints(closed(2), manifest()) == [2], "a job that ended early"
    assert permanent_checkpoints(closed(0), manifest()) == []
