"""Private state from round to round: a slot-round that begins with anything but what the claim before left is judged false."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from node.disputes.computation import tensor_in
from node.disputes.trees import Trees
from repops.commitments import state_root
from repops.graph import OPTIMIZER
from tests.referee.carried_rounds import SCENES, CarriedRound, carrying, with_bit, without
from tests.referee.evidence_contracts import deploy, evidence_result, flips
from tests.referee.traced_step import at_entry
from tests.support.evm import chain
from tests.support.explorations.exploration_board import Played, deployed, update_claim
from tests.support.explorations.lying_jobs import LyingUpdate
from tests.support.sources import storage_slot
from zoo_compute.disputes.evidence import NO_CLAIM, NO_RESULT, Begin, PresentClaim, Tensor, encode, entry_of
from zoo_compute.disputes.exploration import position_of
from zoo_compute.spec.clocks import End
from zoo_compute.spec.frames import Frame, Kind, Position, claim_hash
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.training.rounds import RESIDUAL

pytestmark = pytest.mark.usefixtures("one_thread")
CARRIED, *FRESH = SCENES


@pytest.fixture(scope="session", autouse=True)
def contracts():
    """Before a test is anchored."""
    deployed()


def begun(played: Played) -> int:
    """Which entry of the state at step 0 was judged: of a child, or of the whole state of one entry."""
    at = position_of(played.judged[1][2])
    return at.index << at.span | played.judged[4]


@pytest.mark.parametrize("scene", SCENES)
def test_a_slot_that_begins_by_the_rule__is_asked_nothing(scene: str):
    case = carrying(**SCENES[scene])
    assert (case.carried is not None) == (scene == CARRIED)
    assert case.disputed(case.carried).calls == {}


@pytest.mark.parametrize("scene", FRESH)
def test_carrying_on_what_is_not_to_be_carried__is_judged(scene: str):
    """After a takeover, an absence, a rollback, and over a restart."""
    case = carrying(**SCENES[scene])
    assert any(array.any() for array in case.private.values())
    played = case.disputed(case.private)
    assert (played.end, played.kind) == (End.JUDGED, Begin.KIND), played.refused


def test_beginning_at_zero_where_state_is_carried__is_judged():
    played = carrying().disputed(None)
    assert (played.end, played.kind) == (End.JUDGED, Begin.KIND), played.refused


def test_carrying_one_false_bit__is_judged_for_that_entry():
    case = carrying()
    names = [entry.name for entry in case.graph.state]
    residuals = [name for name in case.private if name.startswith(RESIDUAL)]
    moments = [name for name in case.private if name.startswith("m/")]
    assert residuals
    assert moments
    for name in (residuals[-1], moments[0]):
        played = case.disputed(with_bit(case.private, name))
        assert (played.end, played.kind, names[begun(played)]) == (End.JUDGED, Begin.KIND, name), played.refused
    kept = case.disputed(without(case.private, residuals))
    assert (kept.kind, names[begun(kept)]) == (Begin.KIND, next(n for n in names if n in residuals))


def test_a_slot_that_goes_on_for_several_rounds__carries_what_the_last_one_left():
    """Nothing of the rule looks further back than one turn."""
    case = carrying(round=2)
    assert case.carried is not None
    assert case.disputed(case.carried).calls == {}
    assert case.disputed(with_bit(case.private, next(iter(case.private)))).kind == Begin.KIND


# --- what evidence must show


def begin_of(case: CarriedRound, name: str) -> tuple[Frame, Position, Begin]:
    """Honest evidence about an entry of an honest beginning."""
    state = {each: array.copy() for each, array in case.honest.state(0).items()}
    names = [entry.name for entry in case.graph.state]
    index = names.index(name)
    claim = case.claim(b"r" * 32)
    frame = Frame(
        job=1,
        round=case.round,
        slot=case.slot,
        claim=claim_hash(claim),
        program_root=case.manifest.program_root,
        start_root=case.manifest.state_root,
        carry=case.carry,
        after=state_root(state),
        is_begin=1,
    )
    described = Trees(case.honest).program
    node = case.graph.state[index].before
    zero = Begin(entry_of(case.graph, index), descriptor=described.descriptor(node), path=described.nodes.path(node))
    return frame, at_entry(state, names, index), case.honest.carried_evidence(zero, name, claim)


@pytest.mark.long
@pytest.mark.parametrize("scene", SCENES)
def test_any_bit_of_honest_evidence__changed__convicts_nobody(scene: str):
    case = carrying(**SCENES[scene])
    judges = case.judges()
    residual = next(name for name in case.private if name.startswith(RESIDUAL))
    for name in (residual, "step"):
        frame, position, begin = begin_of(case, name)
        assert evidence_result(judges, frame, position, begin) == "evidence: not false"
        for bent in flips(encode(begin), 40):
            assert evidence_result(judges, frame, position, bent, kind=Begin.KIND) != ""


def test_evidence_that_leaves_something_out__is_refused():
    case = carrying()
    judges, (frame, position, begin) = case.judges(), begin_of(case, "step")
    lie = replace(position, node=b"\x22" * 32)
    assert evidence_result(judges, frame, lie, begin) == ""
    other = {
        "evidence: other claim": [
            replace(begin, claim=NO_CLAIM),
            replace(begin, aggregation=NO_CLAIM),
            replace(begin, aggregation=replace(begin.aggregation, round=9)),
            replace(begin, present=(replace(begin.present[0], operator=5),)),
        ],
        "evidence: claims missing": [
            replace(begin, present=()),
            replace(begin, present=(PresentClaim.of(case.seated[1].claim),)),
        ],
        "evidence: not a present seat": [replace(begin, present=(replace(begin.present[0], seat=1),))],
        "evidence: result does not match": [
            replace(begin, result=NO_RESULT),
            replace(begin, result=replace(begin.result, end_root=case.manifest.state_root)),
        ],
        "evidence: state does not match": [replace(begin, tensor=Tensor())],
    }
    for reason, every in other.items():
        for each in every:
            assert evidence_result(judges, frame, lie, each) == reason
    residual = next(each for each in case.private if each.startswith(RESIDUAL))
    frame, position, begin = begin_of(case, residual)
    of_end = replace(begin, tensor=tensor_in(case.before.end, residual))
    assert evidence_result(judges, frame, position, of_end) == "evidence: state does not match"


def test_an_absent_slot__takes_the_claims_of_the_whole_mask():
    case = carrying(**SCENES["the slot was absent"])
    judges = case.judges()
    frame, position, begin = begin_of(case, "step")
    lie = replace(position, node=b"\x22" * 32)
    assert len(begin.present) == len(case.seated) == 2
    assert evidence_result(judges, frame, lie, begin) == ""
    for left in (begin.present[:1], begin.present[1:], ()):
        assert evidence_result(judges, frame, lie, replace(begin, present=left)) == "evidence: claims missing"


def test_a_claim_of_an_older_turn_in_the_aggregations_place__is_not_the_one_before():
    """The turn before aggregated nothing; the place holds what it held a ring earlier."""
    case = carrying(round=8, carry=9)
    frame, position, begin = begin_of(case, "step")
    judges = deploy(case.manifest.data_root)
    older = replace(case.aggregation, turn=case.round - 1 - 5)
    judges.double.set_claim(1, astuple(older), 2)
    place, kept = (
        storage_slot("mocks/ProtocolDouble", "claims", 1, AGGREGATOR_SEAT, turn)
        for turn in (case.round - 1, older.turn)
    )
    assert chain.storage(judges.double, kept)
    chain.set_storage(judges.double, place, chain.storage(judges.double, kept))
    zero = replace(begin, aggregation=older, present=(), result=NO_RESULT, tensor=Tensor())
    node = case.graph.state[position.index].before
    described = Trees(case.honest).program
    zero = replace(zero, descriptor=described.descriptor(node), path=described.nodes.path(node))
    assert evidence_result(judges, frame, position, zero) == ""  # what is carried is false here
    assert evidence_result(judges, frame, position, begin) == "evidence: other claim"


# --- an update with residuals


def test_an_update__is_given_its_residuals_as_the_slot_ended():
    case = carrying()
    mine = Trees(case.update)
    assert case.played(update_claim(case, mine), mine, mine).calls == {}
    entries = [entry for entry in case.update.graph.state if entry.kind == OPTIMIZER]
    assert {entry.name for entry in entries} == {RESIDUAL + name for name in case.graph.exchanged}
    for entry in entries[:2]:
        liar = LyingUpdate(case.honest)
        liar.elements, liar.states = {(0, entry.before): 0}, {0: 0}  # the bit alone is lost on the way
        theirs = Trees(liar)
        played = case.played(update_claim(case, theirs), theirs, mine)
        assert (played.end, played.kind) == (End.JUDGED, 4), played.refused
        frame = Frame(*played.frame)
        assert (frame.kind, frame.node) == (Kind.UPDATE, entry.before)
