"""What `zoo verify` does again, and in which order."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.cli import job_verification, own_disputes, verify
from keepers.cli.job_verification import JobVerification, VerifiedWork, works_of
from keepers.cli.own_disputes import Purse
from keepers.cli.verify import _check_asked
from node.errors import Withheld
from tests.keepers.test_duties import ME, OTHER, ROOT, view
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, ClaimState, Commit, JobView
from zoo_compute.disputes.exploration import Exploration
from zoo_compute.errors import UserError


def commit(turn: int, operator: int, first: int, count: int) -> Commit:
    return Commit(turn, turn, first, operator, first << 16 | count, 9, ROOT, ROOT, 9)


def made(turn: int, **fields: Any) -> Checkpoint:
    return Checkpoint(turn, turn, AGGREGATOR_SEAT, OTHER, 1, 9, ROOT, ROOT, 9, **fields)


def places(
    view: JobView, turns: tuple[int | None, int | None] = (None, None), *, every: bool = False, slot: int | None = None
) -> list[tuple[int, int | None]]:
    return [(claim.turn, at) for claim, at in works_of(view, every, turns, slot)]


def test_one_slot_of_each_claim__comes_before_another_of_any_and_a_liar_that_asks_itself_delays_nothing():
    mine, other, disputed = commit(3, ME, 0, 2), commit(3, OTHER, 2, 2), replace(commit(3, OTHER, 4, 2), disputed=True)
    assert places(view(1, commits=(disputed, mine, other)), (None, None)) == [(3, slot) for slot in (0, 2, 4, 1, 3, 5)]


def test_an_aggregation__is_checked_before_its_turns_slots_where_no_slot_is_chosen():
    seen = view(1, commits=(commit(3, ME, 0, 2), commit(4, ME, 0, 1)), checkpoints=(made(3), made(4)))
    assert places(seen) == [(3, None), (3, 0), (3, 1), (4, None), (4, 0)]
    assert places(seen, (4, 4)) == [(4, None), (4, 0)]
    assert places(seen, slot=0) == [(3, 0), (4, 0)]
    paid = view(1, checkpoints=(made(3, state=ClaimState.PAID),))
    assert (places(paid), places(paid, every=True)) == ([], [(3, None)])


@pytest.mark.parametrize(
    ("deadlines", "now", "has_time"),
    [((), 100, True), ((0,), 100, True), ((131,), 100, True), ((130,), 100, False), ((0, 90), 100, False)],
)
def test_another_slot_round__is_begun_only_where_it_ends_before_an_askers_clock_runs(deadlines, now, has_time):
    assert (
        witness_of([SimpleNamespace(deadline=each, picture=Exploration()) for each in deadlines]).has_time(now)
        == has_time
    )


@pytest.mark.parametrize(
    ("asked_at", "left_s", "has_time"), [(60, 121, True), (70, 121, False), (60, 120, False), (99, 10**6, False)]
)
def test_another_slot_round__is_begun_while_an_author_keeps_everybody_waiting(asked_at, left_s, has_time):
    """Longer than a re-execution takes, 30 s here, and where four more fit into what the askers have left."""
    clocks = SimpleNamespace(since=asked_at, asker_left_s=left_s)
    picture = SimpleNamespace(open_asks=[SimpleNamespace(record=SimpleNamespace(clocks=clocks))])
    assert witness_of([SimpleNamespace(deadline=90, picture=picture)]).has_time(100) == has_time


def witness_of(disputes: list[Any]) -> JobVerification:
    """It re-executed two slot-rounds, the longer one in 30 s."""
    witness = JobVerification(SimpleNamespace(chain=lambda: None), 1, SimpleNamespace(), None, challenges=False)  # type: ignore[arg-type]
    witness.checked = [
        VerifiedWork(commit(1, OTHER, 0, 1), 0, {"agrees": True, "seconds": each}) for each in (9.0, 30.0)
    ]
    witness._open = disputes
    return witness


def test_what_a_dispute_needs__is_a_heavy_ask_about_the_dearest_claim(monkeypatch: pytest.MonkeyPatch):
    """Re-openings of an auction raise prices above the reserve: an account with one reserve could not ask."""
    monkeypatch.setattr(own_disputes, "token_at", lambda chain, address: address)
    monkeypatch.setattr(own_disputes, "next_base_fee", lambda w3: 1)
    chain: Any = SimpleNamespace(
        tasks=SimpleNamespace(reexecution_price=lambda job, is_aggregation: ("0xT", 3 if is_aggregation else 4)),
        w3=SimpleNamespace(eth=SimpleNamespace(get_balance=lambda _: 10**20)),
        token=lambda _: SimpleNamespace(balanceOf=lambda _: 5),
    )

    def needed(**changes: Any) -> int:
        return Purse.read(chain, "0xme", replace(view(1), **{"seats": {}, **changes})).needed_tokens

    seat = view(1).seats[0]
    assert needed() == 4
    assert needed(commits=(replace(commit(1, OTHER, 0, 2), price=14),)) == 7
    assert needed(commits=(replace(commit(1, OTHER, 0, 2), price=12, state=ClaimState.PAID),)) == 4
    assert needed(checkpoints=(replace(made(1), price=9),)) == 9
    assert needed(seats={0: replace(seat, price=11)}) == 11
    assert needed(seats={AGGREGATOR_SEAT: replace(seat, price=2)}) == 4


def test_turns__are_bounded_on_both_sides_and_final_claims_are_passed_over():
    paid = replace(commit(1, ME, 0, 1), state=ClaimState.PAID)
    seen = view(1, commits=(paid, *(commit(turn, OTHER, 0, 1) for turn in (2, 3, 4))))
    assert places(seen, (3, 3)) == [(3, 0)]
    assert places(seen, (3, None)) == [(3, 0), (4, 0)]
    assert places(seen, (None, None)) == [(2, 0), (3, 0), (4, 0)]
    assert places(seen, (None, None), every=True)[0] == (1, 0)


def test_a_turn_or_a_slot_that_is_not_there__is_an_error():
    seen = view(1, commits=tuple(commit(turn, OTHER, 0, 1) for turn in (2, 4)))
    for turn, slot in ((None, None), (4, seen.terms.slots - 1)):
        _check_asked(seen, turn, slot)
    with pytest.raises(UserError, match="no results of turn 99") as refused:
        _check_asked(seen, 99, None)
    assert "turns 2 to 4" in refused.value.hint
    with pytest.raises(UserError, match="no results of turn 0"):
        _check_asked(view(1), 0, None)
    with pytest.raises(UserError, match=f"slots 0 to {seen.terms.slots - 1}, none"):
        _check_asked(seen, None, seen.terms.slots)


def test_a_round_whose_checkpoint_is_gone__is_passed_over_and_told(monkeypatch: pytest.MonkeyPatch):
    def verified(chain: Any, seen: JobView, claim: Commit, *_: Any) -> dict[str, Any]:
        if claim.turn == 1:
            raise Withheld("the checkpoint that the round starts from: nobody has it", {0: None}, checkpoint=True)
        return {"agrees": True}

    monkeypatch.setattr(job_verification, "_verified", verified)
    witness = JobVerification(SimpleNamespace(chain=lambda: None), 1, SimpleNamespace(), None, challenges=False)  # type: ignore[arg-type]
    seen = view(1, commits=tuple(commit(turn, OTHER, 0, 1) for turn in (1, 2)))
    for left in (True, False):
        assert witness.check_next(seen, works_of(seen, True, (None, None), None)) == left
    assert [each.claim.turn for each in witness.checked] == [2]
    assert "nobody has it" in str(witness.withheld)


def test_the_report__counts_slot_rounds_and_aggregations_apart_and_says_which_work_each_is():
    checked = [
        VerifiedWork(commit(1, OTHER, 0, 1), 0, {"agrees": True}),
        VerifiedWork(made(1), None, {"agrees": False, "message": "another root"}),
    ]
    assert verify._agreement(checked) == "1 of 1 slot-rounds and 0 of 1 aggregations agree"
    assert verify._agreement(checked[:1]) == "1 of 1 slot-rounds agree"
    assert checked[1].text == f"round 2 (turn 1), aggregation, operator {OTHER}: FALSE: another root"
    assert [(each.to_dict()["work"], each.to_dict()["slot"]) for each in checked] == [
        ("slot-round", 0),
        ("aggregation", None),
    ]
