"""Disputes about receipts of answers, before the contracts: a liar is convicted by evidence of each kind, an honest answer is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from node.disputes.alone import Answer
from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed
from node.disputes.trees import Trees
from repops import encoding
from repops.graph import Graph
from tests.support.evm import chain
from tests.support.explorations.exploration_board import AHEAD_S, REEXECUTE_S, Board, Played, deployed, play
from tests.support.liars.faults import LyingTraining
from tests.support.served_model import ServedModel, served_model
from zoo_compute.disputes.exploration import values
from zoo_compute.serving.questions import Question
from zoo_compute.spec.clocks import PRODUCTION, End
from zoo_compute.spec.frames import Frame, Kind, Phase, Result
from zoo_compute.spec.receipts import RECEIPTS
from zoo_compute.spec.serving import claim_of, work_of
from zoo_compute.spec.state import Claim

pytestmark = pytest.mark.usefixtures("one_thread")
STEP, OPERATOR, SEAT = 5, 7, 5  # of six steps the last one: where it ends is committed, and no state on the way


@pytest.fixture(scope="session", autouse=True)
def contracts():
    """Before a test is anchored."""
    deployed()


class LyingAnswer(LyingTraining, Answer):
    """An answer that is another."""


@cache
def served() -> ServedModel:
    """One that draws, so that the question's seed counts."""
    return served_model(temperature=0.7)


def graph() -> Graph:
    return encoding.decode(encoding.encode(served().graph))


def honest(question: Question | None = None) -> Trees:
    return Trees(Answer(served().programs(), served().weights, question or served().question()))


def lying(**lies: Any) -> Trees:
    liar = LyingAnswer(served().programs(), served().weights, served().question())
    for name, value in lies.items():
        setattr(liar, name, value)
    return Trees(liar)


def result_of(theirs: Trees, question: Question) -> Result:
    shape = Frame(inner_steps=question.steps, segment_steps=question.steps)
    return Result(theirs.tree(shape, Phase.SEGMENTS).root, theirs.states(shape, Phase.SEGMENTS)[-1])


def claimed(result: Result, question: Question) -> Claim:
    return claim_of(OPERATOR, question.receipt(SEAT, result.segment_root, result.end_root))


class ReceiptBoard(Board):
    """An admitted receipt; whoever keeps receipts says that it is."""

    def __post_init__(self) -> None:
        self.at, self.accounts = deployed(), {}
        self.deadline = chain.timestamp + AHEAD_S
        terms = (work_of(served().question().receipt()).root, REEXECUTE_S, 1, self.deadline)
        self.at.double.set_claim(RECEIPTS, values(self.claim), terms)
        self.at.double.set_operator(self.claim.operator, self.account("owner"), self.account("hot"))


@contextmanager
def board_of(claim: Claim):
    with chain.anchor():
        yield ReceiptBoard(None, claim)  # type: ignore[arg-type]


def played(theirs: Trees, mine: Trees, result: Result | None = None, **options: Any) -> Played:
    """The asker has the receipt, and so the result."""
    question = served().question()
    result = result or result_of(theirs, question)
    claim = claimed(result, question)
    work = work_of(question.receipt())
    answerer = Answerer(claim, lambda *_: theirs, PRODUCTION, result_of={0: result}.get, is_author=True)
    with board_of(claim) as board:
        disputed = Disputed(RECEIPTS, claim, Kind.TRAINING, 0, work, result)
        return play(board, lambda: Asker(mine, disputed), answerer, **options)


def entry(name: str) -> Any:
    return next(each for each in graph().state if each.name == name)


def node_of(op: str, elements: int = 1) -> int:
    return next(at for at, node in enumerate(graph().nodes) if node.op == op and node.elements > elements)


WEIGHT, CACHE = "blocks.0.attention.qkv.weight", "generation.keys_0"
LIES: dict[str, Callable[[], dict[str, Any]]] = {
    "2 begin, the seed": lambda: {"begun": "seed"},
    "2 begin, a weight": lambda: {"begun": WEIGHT},
    "2 begin, what was asked": lambda: {"begun": "asked"},
    "2 begin, the cache": lambda: {"begun": CACHE},
    "3 output, the answer": lambda: {"states": {STEP: [e.name for e in graph().state].index("outputs")}},
    "4 input": lambda: {"elements": {(STEP, entry(WEIGHT).before): 1}},
    "6 data": lambda: {"elements": {(STEP, graph().batch[0][1]): 1}, "bit": 30},
    "8 part, one token": lambda: {"elements": {(STEP, entry("outputs").after): 2 * STEP}},
    "8 part, one word of the cache": lambda: {"elements": {(STEP, entry(CACHE).after): 0}},
    "8 part, a product": lambda: {"elements": {(STEP, node_of("dot")): 0}, "states": {STEP: 0}},
    "8 part, a random draw": lambda: {"elements": {(STEP, node_of("random")): 1}, "states": {STEP: 0}},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_receipt__is_judged_where_it_is_false(lie: str) -> None:
    ended = played(lying(**LIES[lie]()), honest())
    assert (ended.end, ended.kind) == (End.JUDGED, int(lie[0])), ended.refused


def test_an_end_that_the_steps_do_not_lead_to__is_judged() -> None:
    theirs = honest()
    right = result_of(theirs, served().question())
    ended = played(theirs, honest(), Result(right.segment_root, b"e" * 32))
    assert (ended.end, ended.kind) == (End.JUDGED, 1), ended.refused


def test_an_honest_receipt__is_asked_nothing() -> None:
    assert played(honest(), honest()).asks == 0
