"""What a keeper tells its worker of the rounds that a slot goes on from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from keepers.decisions.requests import (
    _before,
    _kept_before,
    prepare_name,
    previous_training_name,
    train_name,
    verify_request,
)
from keepers.queue.work_queue import WorkStatus
from keepers.services.progress import training_work
from node.inputs.carried_state import rounds_since_restart
from tests.keepers.test_demands import CLAIM, MADE_BY_OTHER, job
from tests.keepers.test_duties import ME, OTHER, RUN
from tests.keepers.test_progress import Queue
from zoo_compute.chain.views import Checkpoint, ClaimState, Commit, JobView
from zoo_compute.store.cid import raw_cid

SLOT = 1


def root(round_: int) -> bytes:
    return bytes([round_ + 1]) * 32


def commit(turn: int, round_: int | None = None, **changes: Any) -> Commit:
    round_ = turn if round_ is None else round_
    fixed = {"turn": turn, "round": round_, "start_root": root(round_), "root": bytes([turn]) * 32}
    return replace(CLAIM, **fixed | changes)


def made(turn: int, round_: int | None = None) -> Checkpoint:
    round_ = turn if round_ is None else round_
    return replace(
        MADE_BY_OTHER, turn=turn, round=round_, start_root=root(round_), root=root(round_ + 1), cid=root(round_ + 1)
    )


def seen(commits: list[Commit], checkpoints: list[Checkpoint], turn: int, round_: int | None = None) -> JobView:
    round_ = turn if round_ is None else round_
    run = replace(RUN, turn=turn, round=round_, start_root=root(round_), depth=2, missing=0b11, committed=0)
    return job(1_060, run=run, commits=tuple(commits), checkpoints=tuple(checkpoints))


STRAIGHT = seen([commit(turn) for turn in range(5)], [made(turn) for turn in range(5)], 5)


def turns(view: JobView, claim: Commit, slot: int = SLOT) -> list[int]:
    return [each.turn for each in _before(view, claim, slot)]


def test_a_slot__goes_on_from_its_operators_claims__one_turn_after_another():
    assert turns(STRAIGHT, commit(5)) == [0, 1, 2, 3, 4]
    assert turns(STRAIGHT, commit(2)) == [0, 1]
    assert turns(STRAIGHT, commit(0)) == []
    assert turns(STRAIGHT, commit(5), slot=3) == []  # a slot that nobody committed


def test_a_takeover__an_absence__and_a_rollback__begin_anew():
    taken = [commit(0), commit(1, operator=OTHER), commit(2), commit(3)]
    every = [made(turn) for turn in range(4)]
    assert turns(seen(taken, every, 4), commit(4)) == [2, 3]
    assert turns(seen(taken, every, 4), commit(2)) == []
    absent = [replace(each, scope=0b10) if each.turn == 2 else each for each in every]  # its seat is not in the mask
    assert turns(seen([commit(turn) for turn in range(4)], absent, 4), commit(4)) == [3]
    again = seen([commit(0), commit(1), commit(2, 1)], [made(0), made(1), made(2, 1)], 3, 2)
    assert turns(again, commit(3, 2)) == [2]  # turn 2 did round 1 again, and began at zero


def test_a_convicted_claim_of_the_same_seat__is_replaced_by_the_one_that_was_aggregated():
    twice = [commit(0, operator=OTHER, state=ClaimState.CONVICTED), commit(0)]
    assert turns(seen(twice, [made(0)], 1), commit(1)) == [0]


def test_what_is_kept_of_the_aggregation_before__may_be_a_ring_older():
    def kept(view: JobView, turn: int) -> int | None:
        before = _kept_before(view, commit(turn))
        return None if before is None else before.turn

    assert [kept(STRAIGHT, turn) for turn in range(6)] == [None, 0, 1, 2, 3, 4]
    gap = seen([], [made(0), made(1), made(2)], 4)  # turn 3 aggregated nothing; the ring has three places
    assert kept(gap, 4) == 0
    assert kept(gap, 5) == 1


def test_a_verifiers_request__names_all_rounds_before():
    request = verify_request(STRAIGHT, commit(2), SLOT, None)
    rounds = [(each["round"], each["checkpoint"], each["start_root"]) for each in request["before"]]
    assert rounds == [(0, None, root(0).hex()), (1, raw_cid(root(1)), root(1).hex())]
    claims = [(each["operator"], each["root"], each["bundle"]) for each in request["before"]]
    assert claims == [(ME, bytes([turn]).hex() * 32, raw_cid(CLAIM.bundle)) for turn in (0, 1)]


def queue(carry: int) -> Queue:
    return Queue({prepare_name(STRAIGHT): WorkStatus("done", result={"slot_s": 1.0, "carry": carry})})


def test_training__goes_on_from_the_last_restart__with_what_this_machine_kept():
    name, request = training_work(queue(4), STRAIGHT, SLOT)
    assert [each["round"] for each in request["before"]] == [4]
    assert request["private"] is None
    last = previous_training_name(STRAIGHT, SLOT, 4)
    assert last == train_name(seen([], [], 4), SLOT, 4)  # which began at zero
    known = queue(4) | {last: WorkStatus("done", result={"private": "CID"})}
    assert training_work(Queue(known), STRAIGHT, SLOT) == (name, request | {"private": "CID"})
    assert name != train_name(STRAIGHT, SLOT)


def test_training__of_a_job_that_carries_nothing__is_asked_as_ever():
    for carry in (1, 5):
        name, request = training_work(queue(carry), STRAIGHT, SLOT)
        assert (request["before"], request["private"]) == ([], None)
        assert name == train_name(STRAIGHT, SLOT)


@pytest.mark.parametrize("known", [{}, {"refused": "it took more than 60 s"}])
@pytest.mark.parametrize("carry", [1, 2, 4, 5])
def test_training__whose_preparation_is_not_known_any_more__goes_on_from_the_last_restart(
    known: dict[str, Any], carry: int
) -> None:
    """Its record expires in a job of weeks. What then began at zero was false, and cost the lock."""
    records = Queue({prepare_name(STRAIGHT): WorkStatus("done", result=known)} if known else {})
    (_, asked), (_, unknown) = (training_work(each, STRAIGHT, SLOT) for each in (queue(carry), records))
    assert rounds_since_restart(unknown, carry) == rounds_since_restart(asked, carry)


def test_a_round_done_again__is_trained_again_where_it_goes_on_from_less():
    """The same start root: with nothing carried over what was trained is used again."""
    once = seen([commit(0)], [made(0)], 1)
    again = seen([commit(0), commit(1)], [made(0), replace(made(1), scope=0)], 2, 1)
    assert train_name(once, SLOT) == train_name(again, SLOT)
    assert train_name(once, SLOT, 3) != train_name(again, SLOT, 3)
