"""What people read of a dispute: places in words, the asks as a tree, and a judgement checked again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch

from node.disputes.trees import Trees
from node.hardware import use_threads
from tests.support.evm import chain
from tests.support.explorations import exploration_board
from tests.support.explorations.exploration_board import Board, Played, deployed, dispute, training_claim
from tests.support.explorations.lying_jobs import Case, Liar, mlp
from zoo_compute.chain.explorations import DisputeView
from zoo_compute.client import dispute_transcript
from zoo_compute.client.dispute_transcript import ConvictionDetail, judged_again
from zoo_compute.client.disputes import ANYBODY, ASKERS, COMMITTER, Dispute
from zoo_compute.client.explored_places import asks_of, place_text, tree_rows
from zoo_compute.disputes.exploration import Call, Exploration, node_of
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import Place
from zoo_compute.spec.exploration import Tree, TreePosition
from zoo_compute.spec.frames import Frame
from zoo_compute.spec.state import Claim
from zoo_compute.spec.watching import NOBODY

STEP = 3


@pytest.fixture(scope="module", autouse=True)
def contracts() -> Iterator[None]:
    """Before a test is anchored."""
    before = torch.get_num_threads()
    use_threads(1)
    deployed()
    yield
    use_threads(before)


class Lie(NamedTuple):
    """A dot whose element has several parts, of which one is false. node: the dot's number; judge: the call that convicted."""

    case: Case
    played: Played
    node: int
    judge: Call


@pytest.fixture(scope="module")
def lie() -> Lie:
    calls: list[Call] = []

    class Recording(Board):
        def send(self, call: Call, sender: str) -> None:
            calls.append(call)
            super().send(call, sender)

    case = mlp()
    node = next(at for at, each in enumerate(case.graph.nodes) if each.op == "dot")
    liar: Liar = case.lying()
    liar.elements, liar.part, liar.states = {(STEP, node): 5}, 1, {STEP: 0}
    theirs = Trees(liar)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exploration_board, "Board", Recording)
        played = dispute(case, training_claim(case, theirs), theirs, Trees(case.honest))
    return Lie(case, played, node, next(call for call in calls if call.name == "judge"))


def test_the_tree__names_every_ask_below_the_one_that_led_to_it(lie):
    case, played, node, _ = lie
    rows = list(tree_rows(played.picture, {NOBODY.lower(): "operator 1"}, chain.timestamp))
    assert rows[0] == (f"slot {case.slot}, training", "asked by", "answered by")
    places = [place for place, _, _ in rows[1:]]
    assert [len(place) - len(place.lstrip()) for place in places] == [2 * depth for depth in range(len(places))]
    assert places[0].startswith("segment ")
    assert f"step {STEP}, heavy" in [place.strip() for place in places]
    assert f"node {node} (dot)" in [place.strip() for place in places]
    assert places[-1].strip().endswith("of element 5 << convicted here")
    assert {answer for _, _, answer in rows[1:]} == {"operator 1"}


def test_an_open_ask__says_how_long_its_clock_runs(lie):
    played = lie.played
    asked = Exploration.of([event for event in played.picture.events if event.name == "ClaimAsked"])
    [(_, _, answer)] = list(tree_rows(asked, {}, asked.open_asks[0].due - 90))[1:]
    assert answer == "open: 1 min 30 s left"
    [(_, _, answer)] = list(tree_rows(asked, {}, asked.open_asks[0].due + 1))[1:]
    assert answer == "open: out of time"


def test_asks__are_plain_enough_for_json(lie):
    played = lie.played
    asks = asks_of(Exploration.from_plain(json.loads(json.dumps(played.picture.plain))))
    assert [ask.place for ask in asks] == [ask.place for ask in asks_of(played.picture)]
    assert [ask.is_heavy for ask in asks].count(True) == 1


def test_every_status_in_a_list__fits_beside_the_operator_and_the_work(lie):
    """14 characters of the name, 8 of the operator, 20 of the work, and gaps: 32 are left of 80."""
    picture = lie.played.picture
    asked = Exploration.of([event for event in picture.events if event.name == "ClaimAsked"])
    view = DisputeView(b"key", 3, b"hash", 12, 90, 60, replace(picture, end=None))
    now, until = 100, 100 + 11 * 3600 + 59 * 60
    disputes = [Dispute(replace(view, picture=replace(picture, end=end)), "3:7:aggregator", 7, "", None) for end in End]
    disputes += [
        Dispute(replace(view, picture=asked), "3:7:1", 7, COMMITTER, until),
        Dispute(replace(view, picture=asked), "3:7:1", 7, ANYBODY, 99),
        Dispute(view, "3:7:1", 7, ASKERS, until),
        Dispute(view, "3:7:1", 7, ASKERS, None),
        Dispute(view, "3:7:1", 7, ANYBODY, 99),
    ]
    briefly = [each.brief(now) for each in disputes]
    assert [text for text in briefly if len(text) > 32] == []
    assert len(set(briefly)) == len(disputes), "no two of them look alike"
    assert "owes 1 answer: 11 h 59 min left" in briefly
    assert disputes[0].work == f"slot {lie.case.slot}, round {asks_round(picture)}"


def asks_round(picture: Exploration) -> int:
    return next(iter(picture.nodes.values())).frame.round


@pytest.mark.parametrize(
    ("frame", "at", "text"),
    [
        (Frame(slot=4), TreePosition(Tree.RESULT), "the result of slot 4"),
        (Frame(inner_steps=12, segment_steps=5), TreePosition(Tree.SEGMENTS, 0, 0, 4), "the state at step 0"),
        (Frame(inner_steps=12, segment_steps=5), TreePosition(Tree.SEGMENTS, 0, 3, 4), "segment 2 (steps 10 to 11)"),
        (Frame(inner_steps=12, segment_steps=5), TreePosition(Tree.SEGMENTS, 2, 0, 4), "segments 0 to 2 (steps 0 to 11)"),
        (Frame(inner_steps=3, segment_steps=1), TreePosition(Tree.SEGMENTS, 0, 3, 4), "segment 2 (step 2)"),
        (Frame(first_step=10), TreePosition(Tree.STEPS, 0, 2, 6), "step 11"),
        (Frame(first_step=10), TreePosition(Tree.STEPS, 1, 0, 6), "step 10"),
        (Frame(first_step=10), TreePosition(Tree.STEPS, 0, 7, 6), "padding beyond the last leaf"),
        (Frame(), TreePosition(Tree.STATE, 3, 0, 6), "tensors 0 to 5 of the state"),
        (Frame(), TreePosition(Tree.NODES, 6, 2, 150), "nodes 128 to 149"),
        (Frame(kind=2), TreePosition(Tree.NODES), "the nodes of the aggregation"),
        (Frame(node=412), TreePosition(Tree.ELEMENTS, 2, 1, 700), "elements 512 to 699 of node 412"),
        (Frame(element=3, parts=8), TreePosition(Tree.ELEMENT, 0, 0, 40), "the 8 parts of element 3"),
        (Frame(element=3, parts=300), TreePosition(Tree.PARTS, 0, 2, 300), "parts 256 to 299 of element 3"),
    ],
)  # fmt: skip
def test_places__are_named_as_people_count(frame, at, text):
    assert place_text(frame, at) == text


# --- the judgement


def judged(lie: Lie, change: Callable[[Place], Place] = lambda place: place, **changed: Any) -> ConvictionDetail:
    """What `zoo dispute replay` makes of the judgement's arguments."""
    job, claim, frame, (id, record, *where), kind, data = lie.judge.args
    place = change(Place(id, node_of(record), *where))
    values = {"claim": Claim(*claim), "frame": Frame(*frame), "data": data, **changed}
    return judged_again(lie.played.picture, NOBODY, job, values["claim"], values["frame"], place, kind, values["data"])


def test_a_judgement__names_step_operator_element_part_and_both_numbers(lie):
    assert lie.played.end == End.JUDGED
    detail = judged(lie)
    assert (detail.refuted, detail.step, detail.node, detail.operator) == ("", STEP, lie.node, "dot")
    assert (detail.element, detail.part) == (5, 1)
    assert detail.committed != detail.right
    assert f"step {STEP}, node {lie.node} (dot of " in detail.text
    assert "the committer says" in detail.text


def test_a_judgement_that_the_specification_would_refuse__is_named_as_such(lie):
    claim, frame, data = Claim(*lie.judge.args[1]), Frame(*lie.judge.args[2]), lie.judge.args[5]
    another = replace(claim, operator=claim.operator + 1)
    assert judged(lie, frame=replace(frame, element=4)).refuted == "referee: other frame"
    assert judged(lie, claim=another).refuted == "referee: other claim"
    assert judged(lie, lambda place: replace(place, status=1)).refuted == "referee: other node"
    assert judged(lie, lambda place: replace(place, child=bytes(32))).refuted == "referee: not that child"
    word = data.index(judged(lie).committed.to_bytes(4, "little"))
    other = data[:word] + bytes([data[word] ^ 1]) + data[word + 1 :]
    assert judged(lie, data=other).refuted == "evidence: leaf does not match"


def test_a_judgement_of_a_true_word__would_be_named_as_such(lie, monkeypatch):
    """Were the contract to convict for a word that is right."""
    right = judged(lie).committed
    monkeypatch.setattr(dispute_transcript, "_computed", lambda *_: right)
    assert judged(lie).refuted == "evidence: not false"
    assert "the specification does not confirm it" in judged(lie).text
