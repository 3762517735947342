"""What became of a job's claims and checkpoints, from its events alone: convictions, rollbacks, rounds done again."""

from __future__ import annotations

from typing import Any

from zoo_compute.chain import snapshot
from zoo_compute.chain.events import Event
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState

START = b"\0" * 32


def event(name: str, **args: Any) -> Event:
    return Event(name, "settlement", 1, 0, "0x0", b"", args)


def committed(turn: int, seat: int = 0, operator: int = 1, root: int = 1) -> Event:
    claim = _claim(turn, turn, seat, operator, seat << 16 | 1, START, bytes([root]) * 32)
    return event("ResultsCommitted", operator=operator, claim=claim, bundle=bytes([root]) * 32)


def posted(turn: int, round_: int, start: bytes, root: int) -> Event:
    claim = _claim(turn, round_, AGGREGATOR_SEAT, 9, 0b11, start, bytes([root]) * 32)
    return event("CheckpointPosted", operator=9, claim=claim, cid=bytes([root + 100]) * 32)


def _claim(turn: int, round_: int, seat: int, operator: int, scope: int, start: bytes, root: bytes) -> dict[str, Any]:
    return {
        "turn": turn, "round": round_, "seat": seat, "operator": operator, "scope": scope, "price": 10,
        "start_root": start, "root": root,
    }  # fmt: skip


def of(turn: int, seat: int = 0) -> dict[str, int]:
    return {"turn": turn, "seat": seat}


def test_claims__are_pending_until_they_are_paid_convicted_or_void():
    events = [
        committed(0), committed(0, 1, operator=2), posted(0, 0, START, 5), committed(1),
        event("ClaimFinalised", **of(0)), event("ClaimFinalised", **of(0, AGGREGATOR_SEAT)),
        event("DisputeOpened", **of(0, 1)),
    ]  # fmt: skip
    commits, checkpoints = snapshot._claims(events)
    assert [(c.turn, c.seat, c.state, c.disputed) for c in commits] == [
        (0, 0, ClaimState.PAID, False),
        (0, 1, ClaimState.PENDING, True),
        (1, 0, ClaimState.PENDING, False),
    ]
    assert [c.state for c in checkpoints] == [ClaimState.PAID]
    for name, state in (("ClaimConvicted", ClaimState.CONVICTED), ("ClaimVoided", ClaimState.VOID)):
        ended, _ = snapshot._claims([*events, event(name, **of(0, 1))])
        assert (ended[1].state, ended[1].disputed) == (state, False)


def test_seats_that_custodians_do_not_hold__have_absent_claims_in_that_turn_alone():
    events = [committed(0), committed(0, 1, operator=2), committed(0, 2, operator=3), committed(1, 1)]
    commits, _ = snapshot._claims([*events, event("SeatsAbsent", turn=0, seats=0b110)])
    states = {(c.turn, c.seat): c.state for c in commits}
    assert states.pop((0, 1)) == states.pop((0, 2)) == ClaimState.ABSENT
    assert states == {(0, 0): ClaimState.PENDING, (1, 1): ClaimState.PENDING}


def test_a_parked_claim__is_still_in_dispute_and_ends_as_others_do():
    events = [committed(0), event("DisputeOpened", **of(0)), event("ClaimParked", **of(0))]
    [claim], _ = snapshot._claims(events)
    assert (claim.state, claim.disputed, claim.parked) == (ClaimState.PENDING, True, True)
    [claim], _ = snapshot._claims([*events, event("ClaimFinalised", **of(0))])
    assert (claim.state, claim.disputed) == (ClaimState.PAID, False)


def test_a_seat_whose_claim_was_convicted_in_the_open_turn__claims_it_again():
    events = [
        committed(0),
        event("ClaimConvicted", **of(0)),
        committed(0, operator=2, root=2),
        event("ClaimFinalised", **of(0)),
    ]
    commits, _ = snapshot._claims(events)
    assert [(c.operator, c.state) for c in commits] == [(1, ClaimState.CONVICTED), (2, ClaimState.PAID)]


def test_a_rollback__forgets_the_checkpoints_that_rested_on_the_lie_and_keeps_those_before():
    first, lie = bytes([1]) * 32, bytes([2]) * 32
    events = [posted(0, 0, START, 1), posted(1, 1, first, 2), posted(2, 2, lie, 3)]
    roots, cids = snapshot._line(START, events, 1)
    assert (max(roots), roots[2], cids[3]) == (3, lie, (bytes([103]) * 32,))
    undone = [*events, event("RolledBack", turn=4, round=1)]
    roots, cids = snapshot._line(START, undone, 1)
    assert roots == {0: START, 1: first}
    assert cids == {1: (bytes([101]) * 32,)}
    roots, cids = snapshot._line(START, [*undone, posted(4, 1, first, 7)], 1)
    assert roots == {0: START, 1: first, 2: bytes([7]) * 32}
    assert cids[2] == (bytes([107]) * 32,)


def test_lost_slots__are_those_of_the_seat_as_it_was_when_it_was_vacated():
    events = [
        event("SeatTaken", operator=1, seat=0, first=0, count=4, price=1),
        event("SeatTaken", operator=9, seat=AGGREGATOR_SEAT, first=0, count=1, price=1),
        event("SeatSplit", seat=0, kept=3, new_seat=1, first=3, count=1),
        event("SeatVacated", operator=1, seat=1, turn=0, slashed=1),
        event("SeatVacated", operator=9, seat=AGGREGATOR_SEAT, turn=0, slashed=1),
        event("SeatVacated", operator=1, seat=0, turn=1, slashed=1),
        event("SeatSplit", seat=0, kept=1, new_seat=2, first=1, count=2),
        event("SeatVacated", operator=2, seat=2, turn=2, slashed=1),
    ]
    assert snapshot._lost(events[:5]) == {1: 0b1000}
    assert snapshot._lost(events) == {1: 0b1111, 2: 0b0110}
