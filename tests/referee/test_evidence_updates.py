"""Evidence 7: what an aggregation adds up are the present slots' updates, as their claims have them, and +0 for the others."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest

from repops.commitments import result_root, state_root
from repops.merkle import merkle_proof, merkle_root
from tests.contracts.two_results import slot_2_of_3
from tests.referee.evidence_contracts import deploy, evidence_result, flips
from tests.referee.traced_step import HERE, TracedStep, changed, leaf_position, step_program, words_in
from zoo_compute.disputes.evidence import PresentClaim, Update, Words, encode, entry_of
from zoo_compute.formats.aggregation import Aggregation, AggregationSpec, OuterOptimizer
from zoo_compute.spec.frames import Frame, Kind, Phase, Position, Result, claim_hash
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.state import Claim, ClaimStatus
from zoo_compute.training.rounds import aggregation_batch, aggregation_parts, aggregation_program, checkpoint_nodes

SLOTS, TURN, JOB = 8, 6, 1
# seat -> its slots. Seat 3 was split off seat 0; seats 2 and 4 are absent.
SEATS = {0: (0, 2), 1: (4, 1), 2: (5, 1), 3: (2, 2), 4: (6, 1), 5: (7, 1)}
PRESENT = (0, 1, 3, 5)
MASK = sum(1 << seat for seat in PRESENT)
BEHIND = bytes([77]) * 32  # where the slots started from, as in a delayed job: not where the aggregation did
JOINING = AggregationSpec(SLOTS, OuterOptimizer(0.7, 0.9))
ROWS = "updates/0000000000/w"
RNG = np.random.default_rng(8)
START = {
    n: RNG.standard_normal(v.shape).astype(np.float32) for n, v in checkpoint_nodes(step_program(), JOINING).items()
}
UPDATES = {
    slot: {"w": RNG.standard_normal(150).astype(np.float32)}
    for seat in PRESENT
    for slot in range(SEATS[seat][0], sum(SEATS[seat]))
}
UPDATES[4]["w"][20] = np.nan


def result_of(slot: int) -> Result:
    return Result(bytes([slot]) * 32, bytes([slot + 1]) * 32, state_root(UPDATES[slot]))


def slots_of(seat: int) -> range:
    return range(SEATS[seat][0], sum(SEATS[seat]))


def leaves_of(seat: int) -> list[bytes]:
    roots = {slot: result_of(slot) for slot in slots_of(seat)}
    return [result_root(slot, BEHIND, r.segment_root, r.end_root, r.update_root) for slot, r in roots.items()]


def claim_of(seat: int) -> Claim:
    first, count = SEATS[seat]
    scope = first << 16 | count
    return Claim(TURN, 5, seat, 70 + seat, scope, 9 * count, BEHIND, merkle_root(leaves_of(seat)))


AGGREGATION = Claim(TURN, 5, AGGREGATOR_SEAT, 3, MASK, 11, state_root(START), HERE)


@pytest.fixture(scope="module")
def judges():
    harness = deploy(bytes(32))
    for at, seat in enumerate(PRESENT):  # whatever became of a claim, it is what was aggregated
        status = list(ClaimStatus)[at % 3]
        harness.double.set_claim(JOB, astuple(claim_of(seat)), int(status))
    return harness


def aggregated(spec: AggregationSpec) -> TracedStep:
    step = step_program()
    return TracedStep(
        aggregation_program(step, spec), START, aggregation_batch(aggregation_parts(step, spec), spec, UPDATES)
    )


@pytest.fixture(scope="module")
def step() -> TracedStep:
    return aggregated(JOINING)


@pytest.fixture(scope="module")
def in_parts() -> TracedStep:
    """The tensor `w` of 150 words as parts of 64, 64 and 22."""
    return aggregated(replace(JOINING, rule=Aggregation(part_size=64 * SLOTS)))


def holder_of(slot: int) -> int | None:
    return next((seat for seat in PRESENT if slot in slots_of(seat)), None)


def asked(step: TracedStep, name: str, element: int, lie: int = 0) -> tuple[Frame, Position, Update]:
    number = [each for each, _ in step.graph.batch].index(name)
    node, entry = step.graph.batch[number][1], entry_of(step.graph, len(step.graph.state) + number)
    frame = step.frame(node, kind=Kind.AGGREGATION, claim=claim_hash(AGGREGATION))
    leaf = changed(step.leaf(node, element), element, lie)
    width = step.graph.nodes[node].elements // SLOTS
    slot = element // max(1, width)
    holder = None if name == "present" else holder_of(slot)
    seats = PRESENT if holder is None else (holder,)
    result, words = Result(), Words()
    if holder is not None:
        path = tuple(merkle_proof(leaves_of(holder), slot - SEATS[holder][0]))
        result, words = (
            replace(result_of(slot), path=path),
            words_in(UPDATES[slot], "w", int(name.split("/")[1]) + element % width),
        )
    evidence = tuple(PresentClaim.of(claim_of(seat)) for seat in seats)
    update = Update(step.descriptor(node), entry, leaf, element, AGGREGATION, evidence, result, words)
    return frame, leaf_position(leaf, element), update


@pytest.mark.parametrize("slot", range(SLOTS))
def test_a_word_of_a_slots_row__is_its_updates__or_0_where_it_is_absent(judges, step: TracedStep, slot: int):
    for column in (0, 20, 149):
        element = slot * 150 + column
        assert evidence_result(judges, *asked(step, ROWS, element)) == "evidence: not false"
        assert evidence_result(judges, *asked(step, ROWS, element, lie=1 << 31)) == ""  # -0 is not +0


@pytest.mark.parametrize(("first", "width"), [(0, 64), (64, 64), (128, 22)])
def test_a_word_of_a_part__is_the_one_of_the_tensor_that_it_is_cut_from(
    judges, in_parts: TracedStep, first: int, width: int
):
    name = f"updates/{first:010d}/w"
    for slot in range(SLOTS):
        for column in (0, width - 1):
            element = slot * width + column
            honest, lie = asked(in_parts, name, element), asked(in_parts, name, element, lie=1 << 31)
            assert evidence_result(judges, *honest) == "evidence: not false"
            assert evidence_result(judges, *lie) == ""


def test_a_word_of_another_part__is_refused(judges, in_parts: TracedStep):
    frame, position, evidence = asked(in_parts, "updates/0000000128/w", 2 * 22 + 3)
    moved = replace(evidence, words=words_in(UPDATES[2], "w", 3))
    assert evidence_result(judges, frame, position, moved) == "evidence: state does not match"


def test_the_number_of_present_slots__is_counted_from_their_claims(judges, step: TracedStep):
    assert step.values[dict(step.graph.batch)["present"]] == len(UPDATES) == 6
    assert evidence_result(judges, *asked(step, "present", 0)) == "evidence: not false"
    assert evidence_result(judges, *asked(step, "present", 0, lie=1 << 23)) == ""


@pytest.mark.parametrize("counted", [1, 2, 3, 1023, 1024, 16_383, 16_384])
def test_any_number_of_slots__is_the_float_that_it_is(step: TracedStep, counted: int):
    harness = deploy(bytes(32))
    seats = [replace(claim_of(0), scope=counted // 2), replace(claim_of(1), scope=counted - counted // 2)]
    for claim in seats:
        harness.double.set_claim(JOB, astuple(claim), 1)
    aggregation = replace(AGGREGATION, scope=3)
    lying = replace(step, altered={dict(step.graph.batch)["present"]: np.float32(counted)})
    frame, position, evidence = asked(lying, "present", 0)
    evidence = replace(evidence, claim=aggregation, present=tuple(map(PresentClaim.of, seats)))
    frame = replace(frame, claim=claim_hash(aggregation))
    assert evidence_result(harness, frame, position, evidence) == "evidence: not false"
    more = replace(step, altered={dict(step.graph.batch)["present"]: np.float32(counted + 1)})
    _, position, other = asked(more, "present", 0)
    assert evidence_result(harness, frame, position, replace(evidence, leaf=other.leaf)) == ""


def test_128_seats__the_most_there_are__are_counted_in_one_call(step: TracedStep):
    harness = deploy(bytes(32))
    seats = [replace(claim_of(0), seat=seat, scope=seat << 16 | 1, root=HERE) for seat in range(128)]
    for claim in seats:
        harness.double.set_claim(JOB, astuple(claim), 1)
    aggregation = replace(AGGREGATION, scope=2**128 - 1)
    frame, position, evidence = asked(step, "present", 0)
    evidence = replace(evidence, claim=aggregation, present=tuple(map(PresentClaim.of, seats)))
    assert len(encode(evidence)) <= 45_056
    assert (
        evidence_result(harness, replace(frame, claim=claim_hash(aggregation)), position, evidence) == ""
    )  # it says 6
    assert harness.judge.last.gas < 2_000_000


def test_any_bit_of_honest_evidence__changed__convicts_nobody(judges, step: TracedStep):
    for name, element in ((ROWS, 2 * 150 + 140), (ROWS, 5 * 150), ("present", 0)):
        frame, position, evidence = asked(step, name, element)
        for bent in flips(encode(evidence), 50):
            assert evidence_result(judges, frame, position, bent, kind=7) != ""


def test_claims_that_are_missing__repeated__absent_or_unknown__are_refused(judges, step: TracedStep):
    missing, absent = "evidence: claims missing", "evidence: not a present seat"
    for name, element in ((ROWS, 5 * 150), ("present", 0)):
        frame, position, evidence = asked(step, name, element, lie=1)
        assert evidence_result(judges, frame, position, evidence) == ""
        refusals: list[tuple[str, tuple[PresentClaim, ...]]] = [
            (missing, evidence.present[:at] + evidence.present[at + 1 :]) for at in range(4)
        ]
        refusals += [(absent, (*evidence.present, evidence.present[-1])), (absent, evidence.present[::-1])]
        refusals += [(absent, (*evidence.present[:3], replace(evidence.present[2], seat=4), evidence.present[3]))]
        refusals += [(missing, ())]
        for field in ("operator", "scope", "price"):
            false = replace(evidence.present[1], **{field: getattr(evidence.present[1], field) + 1})
            refusals.append(("evidence: other claim", (evidence.present[0], false, *evidence.present[2:])))
        for reason, present in refusals:
            assert evidence_result(judges, frame, position, replace(evidence, present=present)) == reason


def test_a_present_slot__without_its_claim__is_not_0(judges, step: TracedStep):
    """An aggregator that took the update cannot be told that the slot was absent."""
    frame, position, evidence = asked(step, ROWS, 4 * 150 + 3)
    others = tuple(PresentClaim.of(claim_of(seat)) for seat in PRESENT if seat != 1)
    bare = replace(evidence, present=others, result=Result(), words=Words())
    assert evidence_result(judges, frame, position, bare) == "evidence: claims missing"
    every = replace(bare, present=tuple(PresentClaim.of(claim_of(seat)) for seat in PRESENT))
    assert evidence_result(judges, frame, position, every) == "evidence: result does not match"


def test_a_root_with_two_results_of_a_slot__gives_the_one_that_is_judged(step: TracedStep):
    """With the other one its author would convict whoever aggregated what it committed."""
    harness, (name, element) = deploy(bytes(32)), (ROWS, 2 * 150 + 7)
    frame, position, honest = asked(step, name, element)
    first, other = 2, {"w": UPDATES[2]["w"] + 1}
    lie = replace(honest.result, update_root=state_root(other))
    leaves = [result_root(first, BEHIND, r.segment_root, r.end_root, r.update_root) for r in (honest.result, lie)]
    # Slots 0 to 2, so that slot 2 is number 2 of four, and number 0 of two.
    tree = slot_2_of_3(*leaves)
    claims = [replace(claim_of(0), scope=3, root=tree.root)]
    harness.double.set_claim(JOB, astuple(claims[0]), 1)
    present = tuple(map(PresentClaim.of, claims))
    true = replace(honest, present=present, result=replace(honest.result, path=tuple(tree.path)))
    assert evidence_result(harness, frame, position, true) == "evidence: not false"
    false = replace(true, result=replace(lie, path=tuple(tree.short)), words=words_in(other, "w", 7))
    assert evidence_result(harness, frame, position, false) == "evidence: result does not match"


def test_a_word_of_another_slot__tensor_or_state__is_refused(judges, step: TracedStep):
    element = 2 * 150 + 7
    frame, position, evidence = asked(step, ROWS, element)
    _, _, other = asked(step, ROWS, 3 * 150 + 7)
    assert (
        evidence_result(judges, frame, position, replace(evidence, result=other.result))
        == "evidence: result does not match"
    )
    assert (
        evidence_result(judges, frame, position, replace(evidence, words=other.words))
        == "evidence: state does not match"
    )
    late = replace(evidence, words=words_in(UPDATES[2], "w", 140))
    assert evidence_result(judges, frame, position, late) == "evidence: state does not match"
    assert (
        evidence_result(judges, frame, position, replace(evidence, entry=entry_of(step.graph, 0)))
        == "evidence: other entry"
    )
    turned = replace(evidence, claim=replace(AGGREGATION, turn=TURN + 1))
    assert evidence_result(judges, frame, position, turned) == "evidence: other claim"
    unkept = replace(frame, job=2)
    assert evidence_result(judges, unkept, position, evidence) == "evidence: other claim"


def test_updates_are_asked_for__of_an_aggregation__at_a_shown_leaf_of_a_batch(judges, step: TracedStep):
    frame, position, evidence = asked(step, ROWS, 0, lie=1)
    here = "evidence: not here"
    changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"kind": Kind.TRAINING}, {}),
        ({"kind": Kind.UPDATE}, {}),
        ({}, {"phase": Phase.STATE}),
        ({}, {"open_leaf": bytes(32)}),
    ]
    for of_frame, of_position in changes:
        assert evidence_result(judges, replace(frame, **of_frame), replace(position, **of_position), evidence) == here
