"""What a custodian's keeper decides: when it offers and signs, and how signatures are put together."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepers.decisions import custody as decisions
from keepers.decisions import custody_signatures as signatures
from keepers.decisions.custody import Custodian
from keepers.decisions.custody_signatures import Heard, majorities
from keepers.decisions.custody_statements import CHECKPOINT, INPUTS, Signed
from keepers.decisions.duties import duties
from keepers.decisions.orders import Aggregate, CommitTrained, Send
from keepers.decisions.orders import Progress as Work
from keepers.decisions.requests import present_claims
from tests.keepers.test_duties import (
    AGGREGATOR,
    CHAIR,
    ME_AGGREGATOR,
    ME_PROVIDER,
    OPENED,
    RUN,
    SEAT,
    SLOT_S,
    opening,
    view,
)
from tests.keepers.test_duties import ROOT as START
from zoo_compute.chain.custody import CustodyView, member_of, words_of
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, ClaimState, Commit, JobState, JobView, Seat
from zoo_compute.spec import bits
from zoo_compute.spec.custodians import CustodyStatus, Member, Progress, Record, Request, Role
from zoo_compute.spec.custody import escrow_of, fee_of
from zoo_compute.spec.params import CUSTODIANS_AT
from zoo_compute.spec.state import Said

ME, TURN, ANSWER_S, FEE, RESERVE = 4, 1, 60, 10, 100
KEYS = [f"0x{number:040x}" for number in range(9)]
COMMITTEE = tuple(Member(operator, 0, key) for operator, key in zip((3, ME, 5), KEYS, strict=False))
ABLE = Custodian(ME, asked=1, eligible=True, aged=9, funds=RESERVE)
COMMITS = [
    Commit(TURN, 1, seat, 1 + seat, 2 * seat << 16 | 2, 90, START, START, OPENED + 900, bundle=START)
    for seat in range(3)
]
WHOLE = replace(RUN, missing=0, committed=6, seats=3)


def custody(**changes: object) -> CustodyView:
    made = CustodyView(Request(FEE, RESERVE, OPENED), Progress(3, 4, version=1), 10**6, {1: COMMITTEE})
    return replace(made, **changes)  # type: ignore[arg-type]


def asked(**changes: object) -> CustodyView:
    return custody(progress=replace(Progress(3, 4, vacant=0b111), **changes), committees={})  # type: ignore[arg-type]


def job(now: int, **changes: object) -> JobView:
    return view(now, **{"run": WHOLE, "commits": COMMITS} | changes)


def signed(kind: str, value: int, turn: int = TURN) -> Signed:
    return Signed(kind, turn, f"{value:0{128 if kind == CHECKPOINT else 64}x}")


# -- offers


@pytest.mark.parametrize(
    "lacking",
    [{"asked": None}, {"eligible": False}, {"aged": 0}, {"funds": RESERVE - 1}],
    ids=["no price", "not eligible", "young stake", "no funds"],
)
def test_offer__needs_a_price_a_registration_old_stake_and_the_reserve(lacking: dict[str, object]) -> None:
    assert decisions.may_offer(opening(OPENED), asked(), ABLE)
    assert not decisions.may_offer(opening(OPENED), asked(), replace(ABLE, **lacking))  # type: ignore[arg-type]


def test_offer__is_made_once_while_a_place_is_vacant_and_no_draw_is_scheduled() -> None:
    assert decisions.may_offer(job(OPENED), asked(version=2), ABLE), "a place that fell vacant"
    assert not decisions.may_offer(job(OPENED), asked(vacant=0), ABLE)
    assert not decisions.may_offer(job(OPENED), asked(draw_block=9), ABLE)
    assert not decisions.may_offer(job(OPENED), replace(asked(), roles={ME: Role(RESERVE, CustodyStatus.LEFT)}), ABLE)
    assert not decisions.may_offer(job(OPENED, state=JobState.ENDED), asked(), ABLE)


def test_offer__is_worth_my_price_for_the_bytes_that_the_job_really_has() -> None:
    size = 2**30
    assert fee_of(2 * FEE, size) == FEE
    assert decisions.pays(asked(), replace(ABLE, asked=2 * FEE), size)
    assert not decisions.pays(asked(), replace(ABLE, asked=2 * FEE), 2 * size)


@pytest.mark.parametrize(
    ("noted", "stake", "expected"), [(0, 5, True), (5, 5, False), (5, 4, True), (5, 9, False), (5, 10, True)]
)
def test_stake__is_noted_when_it_fell_or_doubled__since_growth_makes_it_young(
    noted: int, stake: int, expected: bool
) -> None:
    assert decisions.notes_stake(stake, noted) is expected


def test_an_offer_that_was_not_drawn__ends_unless_it_waits_as_a_standby() -> None:
    idle = custody(roles={ME: Role(RESERVE, CustodyStatus.OFFERED)})
    assert decisions.offer_to_end(idle, replace(ABLE, keeps_offers=False))
    assert not decisions.offer_to_end(idle, ABLE)
    assert not decisions.offer_to_end(
        replace(idle, progress=replace(idle.progress, vacant=1)), replace(ABLE, keeps_offers=False)
    )


# -- draws


def test_a_draw__is_scheduled_once_offers_and_escrow_suffice() -> None:
    terms = view(OPENED).terms
    enough = escrow_of(FEE, 3, terms.rounds)
    ready = replace(asked(offers=3), escrow=enough)
    due = list(decisions.draw_duties(job(OPENED), ready, ANSWER_S))
    assert due == [Send("custody", "schedule", (1,))]
    for lacking in (replace(ready, escrow=enough - 1), replace(asked(offers=2), escrow=enough)):
        assert not list(decisions.draw_duties(job(OPENED), lacking, ANSWER_S))
    assert not list(decisions.draw_duties(job(OPENED - 1), ready, ANSWER_S)), "offers are still open"
    assert not list(decisions.draw_duties(opening(OPENED), ready, ANSWER_S)), "nobody has a seat yet"


def test_a_vacated_place__is_drawn_from_a_single_offer__once_others_had_time_to_offer() -> None:
    vacated = custody(progress=Progress(3, 4, version=1, vacant=1, offers=1, vacated_at=OPENED), escrow=0)
    assert not list(decisions.draw_duties(job(OPENED + ANSWER_S - 1), vacated, ANSWER_S))
    assert list(decisions.draw_duties(job(OPENED + ANSWER_S), vacated, ANSWER_S)) == [Send("custody", "schedule", (1,))]


@given(st.integers(1, 2**56 - 1), st.integers(0, 2**24 - 1), st.integers(0, 2**160 - 1))
def test_a_member__is_read_from_its_words(operator: int, from_turn: int, key: int) -> None:
    [words] = words_of([Member(operator, from_turn, f"0x{key:040x}")])
    read = member_of(*words)
    assert (read.operator, read.from_turn, int(read.key, 16)) == (operator, from_turn, key)


# -- signing


def test_inputs__are_signed_once_no_more_can_come_and_all_of_them_are_here() -> None:
    def is_time(now: int, held: int, **changes: object) -> bool:
        return signatures.is_time_for_inputs(job(now, **changes), TURN, held, ANSWER_S)

    closes = OPENED + 2 * SLOT_S
    assert is_time(OPENED + 1, 0b111)
    assert not is_time(OPENED + 1, 0b011)
    early = replace(WHOLE, missing=0b100, committed=4)
    waits_for = {0: Seat(1, 0, 2, 90, 0, 0, 10, OPENED), 2: Seat(3, 4, 2, 90, 0, 0, 10, OPENED), AGGREGATOR_SEAT: CHAIR}
    assert not is_time(OPENED + 1, 0b011, run=early, commits=COMMITS[:2], seats=waits_for), "a seat may still commit"
    assert is_time(closes, 0b011, run=early, commits=COMMITS[:2], seats=waits_for)
    assert not is_time(closes + ANSWER_S // 2, 0b001), "what is missing may still come"
    assert is_time(closes + ANSWER_S // 2 + 1, 0b001), "an excuse, before silence lapses"


def test_turns_before_my_draw__are_not_mine_to_sign() -> None:
    late = tuple(replace(member, from_turn=3) for member in COMMITTEE)
    assert signatures.turns_to_sign(job(OPENED), custody(), ME) == [0, 1]
    assert signatures.turns_to_sign(job(OPENED), custody(committees={1: late}), ME) == []
    assert signatures.turns_to_sign(job(OPENED), custody(), operator=77) == []
    counted = custody(progress=Progress(3, 4, version=1, counted=1))
    assert signatures.turns_to_sign(job(OPENED), counted, ME) == [1]


# -- handing in


@given(st.sampled_from([3, 5, 7]), st.data())
def test_majorities__add_exactly_the_seats_that_a_majority_holds(count: int, data: st.DataObject) -> None:
    least, seats = (count + 1) // 2, range(6)
    said = data.draw(st.dictionaries(st.integers(0, count - 1), st.integers(0, 2**6 - 1)), label="signed")
    before = data.draw(st.none() | st.integers(0, 2**6 - 1), label="mask")
    groups, mask = majorities(said, least, before), before or 0
    for group in groups:
        assert len(group) >= least
        common = bits.full(6)
        for place in group:
            common &= said[place]
        assert before is None or common & ~mask, "a call that changes nothing"
        mask |= common  # as the contract joins them
    held = {seat for seat in seats if sum(signed >> seat & 1 for signed in said.values()) >= least}
    assert mask == (before or 0) | sum(1 << seat for seat in held)
    assert before is not None or bool(groups) == (len(said) >= least)


def test_majorities__of_custodians_that_hold_the_same__are_one_group_of_all() -> None:
    assert majorities({0: 0b11, 1: 0b11, 2: 0b11}, 2, mask=None) == [[0, 1, 2]]
    assert majorities({0: 0b11}, 2, mask=None) == []
    assert majorities({0: 0, 2: 0}, 2, mask=None) == [[0, 2]], "nobody held anything: an empty mask"
    assert majorities({0: 0, 2: 0}, 2, mask=0) == [], "which is on record"
    assert majorities({0: 0b11, 1: 0b11, 2: 0}, 2, mask=0) == [[0, 1]], "an empty mask that grows"


def test_majorities__of_custodians_that_hold_other_seats__are_several_groups() -> None:
    """Each seat is held by another pair."""
    groups = majorities({place: 0b111 ^ 1 << place for place in range(3)}, 2, mask=None)
    assert sorted(groups) == [list(pair) for pair in combinations(range(3), 2)]


def made(turn: int = TURN) -> Checkpoint:
    return Checkpoint(turn, 1, AGGREGATOR_SEAT, AGGREGATOR, 0b111, 50, START, START, OPENED + 900, cid=START)


def closed(now: int, **changes: object) -> JobView:
    return job(now, **{"run": replace(RUN, turn=TURN + 1, round=2), "checkpoints": [made()]} | changes)


def calls(looked: JobView, held: CustodyView, heard: Heard, *, late: bool = True) -> list[Send]:
    return list(signatures.hand_in(looked, held, TURN, heard, ANSWER_S, late=late))


def test_a_closed_turn__takes_those_who_sign_after_the_majority__for_a_while() -> None:
    now, value = OPENED + 100, int.from_bytes(START + START, "big")  # root and pointer
    held = custody(records={TURN: Record(TURN, 1, 0b111, now, inputs=0b011, checkpoint=0b011)})
    third = Heard({2: signed(INPUTS, 0b111)}, {AGGREGATOR_SEAT: {n: signed(CHECKPOINT, value) for n in (1, 2)}})
    [call] = calls(closed(now), held, third)
    _, seat, turn, committee, first, second = call.args
    assert (call.function, seat, turn, committee) == ("hold_turn", AGGREGATOR_SEAT, TURN, words_of(COMMITTEE))
    assert [each[:2] for each in first] == [(2, 0b111)]  # type: ignore[attr-defined]
    assert [each[0] for each in second] == [2]  # type: ignore[attr-defined]
    assert not calls(closed(now), held, third, late=False)
    assert len(calls(closed(now + ANSWER_S), held, third)) == 1
    assert not calls(closed(now + ANSWER_S + 1), held, third)
    assert not calls(closed(now), held, Heard({2: signed(INPUTS, 0b011)}, {})), "it lacks a seat of the mask"
    assert not calls(closed(now), held, Heard({}, {AGGREGATOR_SEAT: {2: signed(CHECKPOINT, value + 1)}})), (
        "another pointer"
    )
    other_root = value + (1 << 256)
    assert not calls(closed(now), held, Heard({}, {AGGREGATOR_SEAT: {2: signed(CHECKPOINT, other_root)}}))


ALL = Heard({place: signed(INPUTS, 0b111) for place in range(3)}, {})
HALF = OPENED + 2 * SLOT_S + ANSWER_S // 2


def test_inputs__that_cover_all_that_committed__go_with_the_post__unless_the_aggregator_is_silent() -> None:
    assert not calls(job(HALF), custody(), ALL)
    [call] = calls(job(HALF + 1), custody(), ALL)
    assert (call.function, [each[:2] for each in call.args[3]]) == ("hold_inputs", [(p, 0b111) for p in range(3)])  # type: ignore[attr-defined]


def test_inputs__of_a_majority_that_lacks_a_seat__are_recorded_and_the_seat_is_left_out() -> None:
    few = Heard({0: signed(INPUTS, 0b011), 1: signed(INPUTS, 0b111)}, {})
    assert not calls(job(HALF), custody(), few), "what they signed for may be out of date"
    assert [call.function for call in calls(job(HALF + 1), custody(), few)] == ["hold_inputs"]
    partial = Heard({**few.inputs, 2: signed(INPUTS, 0b011)}, {})
    assert signatures.awaits_custodians(job(HALF), custody(), partial)
    assert not signatures.awaits_custodians(job(HALF), custody(), ALL)
    assert not calls(job(HALF), custody(), partial)
    [call] = calls(job(HALF + 1), custody(), partial)
    assert call.function == "hold_inputs"
    more = custody(records={TURN: Record(TURN, 1, 0b001, HALF, inputs=0b011)})
    assert len(calls(job(HALF + ANSWER_S), more, partial)) == 1, "a seat may still join"
    assert not calls(job(HALF + ANSWER_S + 1), more, partial), "nothing joins any more"
    held = custody(records={TURN: Record(TURN, 1, 0b011, OPENED, inputs=0b011)})
    assert signatures.awaits_custodians(job(OPENED + ANSWER_S), held, Heard({}, {}))
    assert not list(signatures.leave_out_duty(job(OPENED + ANSWER_S), held, ANSWER_S)), "others may still sign"
    [out] = signatures.leave_out_duty(job(OPENED + ANSWER_S + 1), held, ANSWER_S)
    assert out == Send("custody", "leave_out", (1, TURN))
    absent = [*COMMITS[:2], replace(COMMITS[2], state=ClaimState.ABSENT)]
    without = job(OPENED + ANSWER_S + 1, run=replace(WHOLE, missing=0b100, committed=4), commits=absent)
    seated = replace(without, seats={2: Seat(7, 4, 2, 90, 0, 0, 10, OPENED), AGGREGATOR_SEAT: CHAIR}, now=HALF)
    blamed = Send("settlement", "time_out", (1, 2))
    assert blamed not in duties(seated, ME_PROVIDER, Work(10)), "it committed"
    assert blamed in duties(replace(seated, commits=COMMITS[:2]), ME_PROVIDER, Work(10))
    assert not list(signatures.leave_out_duty(without, held, ANSWER_S))
    assert not signatures.awaits_custodians(without, held, Heard({}, {}))
    assert [commit.seat for commit in present_claims(without)] == [0, 1]


def test_inputs__that_a_majority_signed_for__take_no_more_claims_and_are_complete() -> None:
    early = view(
        OPENED + 1, run=replace(RUN, missing=0b1, committed=4, seats=2), seats={0: SEAT, AGGREGATOR_SEAT: CHAIR}
    )
    trained = Work(10, frozenset({0, 1}))
    assert CommitTrained(0) in duties(early, ME_PROVIDER, trained)
    assert not early.inputs_complete(early.now)
    recorded = replace(early, inputs_signed=True)
    assert CommitTrained(0) not in duties(recorded, ME_PROVIDER, trained)
    assert recorded.inputs_complete(recorded.now)


def test_one_signature__is_not_handed_in_before_it_is_an_excuse() -> None:
    value = int.from_bytes(START + START, "big")
    one = Heard({0: signed(INPUTS, 0b111)}, {AGGREGATOR_SEAT: {0: signed(CHECKPOINT, value)}})
    assert not calls(job(HALF + 1), custody(), one)


# -- turns that wait


def with_custodians(looked: JobView) -> JobView:
    return replace(looked, terms=replace(looked.terms, policy=3 << CUSTODIANS_AT))


def test_an_aggregator__combines_once_custodians_hold_what_it_combines() -> None:
    ready = with_custodians(job(OPENED + 1))
    progress = Work(10, fetched=frozenset(range(3)))
    assert Aggregate() in duties(ready, ME_AGGREGATOR, progress)
    assert Aggregate() not in duties(replace(ready, awaits_custodians=True), ME_AGGREGATOR, progress)


def test_an_overdue_turn__ends_the_job_if_no_majority_signed__else_the_aggregator() -> None:
    overdue = with_custodians(job(WHOLE.aggregator_due + 99))
    replaced, abandoned = Send("settlement", "time_out", (1, AGGREGATOR_SEAT)), Send("settlement", "abandon", (1,))
    due = duties(overdue, ME_PROVIDER, Work(10))
    assert (abandoned in due, replaced in due) == (True, False)
    due = duties(replace(overdue, inputs_signed=True), ME_PROVIDER, Work(10))
    assert (abandoned in due, replaced in due) == (False, True)
    for said, ends in ((Said.SHORT, False), (Said.SPARED, False), (Said.SHORT | Said.SPARED, True)):
        short = replace(overdue, inputs_signed=True, run=replace(WHOLE, said=Said.SIGNED | said))
        due = duties(short, ME_PROVIDER, Work(10))
        assert (abandoned in due, replaced in due) == (ends, not ends), said


def test_the_aggregators_seat__is_not_dearer_in_a_turn_in_which_one_was_spared() -> None:
    left = replace(CHAIR, operator=0, left_at=OPENED)
    vacant = view(OPENED + 10, seats={0: SEAT, AGGREGATOR_SEAT: left}, run=WHOLE)
    spared = replace(vacant, run=replace(WHOLE, said=Said.SIGNED | Said.SPARED))
    assert vacant.price_now(AGGREGATOR_SEAT) > spared.price_now(AGGREGATOR_SEAT) == CHAIR.price


def test_a_job_whose_custodians_never_hold_its_start__is_abandoned_after_their_time() -> None:
    run = replace(RUN, turn=0, round=0, opened_at=0)
    waiting = with_custodians(view(run.aggregator_due + 99, run=run))
    assert Send("settlement", "abandon", (1,)) in duties(waiting, ME_PROVIDER, Work(10))
    early = replace(waiting, now=run.aggregator_due)
    assert Send("settlement", "abandon", (1,)) not in duties(early, ME_PROVIDER, Work(10))


# -- lapses, pay, the end


def test_silence__lapses_after_the_deadline_and_a_lone_signature_excuses() -> None:
    late = OPENED + 2 * SLOT_S + ANSWER_S
    assert not list(decisions.lapse_duties(job(late), custody(), ANSWER_S))
    [lapse] = decisions.lapse_duties(job(late + 1), custody(), ANSWER_S)
    assert lapse.args[2] == 0
    answered = custody(records={TURN: Record(TURN, 1, answered=0b001)})
    [lapse] = decisions.lapse_duties(job(late + 1), answered, ANSWER_S)
    assert lapse.args[2] == 1
    held = custody(records={TURN: Record(TURN, 1, 0b111, OPENED)})
    assert not list(decisions.lapse_duties(job(late + 1), held, ANSWER_S))
    scheduled = custody(progress=Progress(3, 4, version=1, draw_block=9))
    assert not list(decisions.lapse_duties(job(late + 1), scheduled, ANSWER_S)), "a draw comes first"
    excuse = signed(INPUTS, 0)
    assert not list(decisions.excuse_duty(job(late + 1), held, 1, excuse, ANSWER_S))
    half = OPENED + 2 * SLOT_S + ANSWER_S // 2
    assert not list(decisions.excuse_duty(job(half), custody(), 1, excuse, ANSWER_S))
    [call] = decisions.excuse_duty(job(half + 1), custody(), 1, excuse, ANSWER_S)
    assert (call.function, [each[:2] for each in call.args[3]]) == ("hold_inputs", [(1, 0)])  # type: ignore[attr-defined]
    assert not list(
        decisions.excuse_duty(
            job(half + 1), custody(records={TURN: Record(TURN, 1, answered=0b010)}), 1, excuse, ANSWER_S
        )
    )


def test_turns__are_counted_when_the_ring_needs_their_place_and_at_the_end() -> None:
    def due(turn: int, **changes: object) -> list[str]:
        run = replace(RUN, turn=turn)
        return [each.function for each in decisions.count_duty(job(OPENED, run=run, commits=[], **changes), custody())]

    assert due(turn=4) == []
    assert due(turn=5) == ["count"], "turn 5 takes the place of turn 0"
    assert due(turn=1, state=JobState.ENDED) == ["count"]
    pending = job(OPENED, run=replace(RUN, turn=5), commits=[replace(COMMITS[0], turn=0)])
    assert not list(decisions.count_duty(pending, custody())), "nothing is final"


def test_count__is_called_with_the_committee_that_signed() -> None:
    other = (COMMITTEE[2], *COMMITTEE[:2])
    changed = custody(
        progress=Progress(3, 4, version=2),
        committees={1: COMMITTEE, 2: other},
        records={1: Record(1, 1, inputs=1), 2: Record(2, 2, inputs=1)},
    )
    ended = job(OPENED, state=JobState.ENDED, run=replace(RUN, turn=3), commits=[])
    [call] = decisions.count_duty(ended, changed)
    assert call.args == (1, 1, words_of(COMMITTEE))
    [call] = decisions.count_duty(ended, replace(changed, progress=replace(changed.progress, counted=2)))
    assert call.args == (1, 2, words_of(other))


def test_a_reserve__comes_back_once_the_job_is_over_and_counted() -> None:
    mine = custody(roles={ME: Role(RESERVE, CustodyStatus.CUSTODIAN, 1)})
    over = job(OPENED, state=JobState.ENDED, run=replace(RUN, turn=3), commits=[])
    assert [each.function for each in decisions.closing_duties(over, mine, ABLE)] == ["count"]
    counted = replace(mine, progress=replace(mine.progress, counted=3))
    assert list(decisions.closing_duties(over, counted, ABLE)) == [Send("custody", "release", (1, ME))]
    assert not list(decisions.closing_duties(over, replace(counted, roles={ME: Role(0, CustodyStatus.LEFT)}), ABLE))
    cancelled = job(OPENED, state=JobState.CANCELLED, run=None, commits=[])
    assert list(decisions.closing_duties(cancelled, mine, ABLE)) == [Send("custody", "release", (1, ME))]
