"""Asker and answerer before the contract: every lie is convicted by one honest asker, along one path; no honest claim is."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Wait, explored_first
from node.disputes.trees import Trees
from repops.commitments import state_leaves
from repops.merkle import Tree as HashTree
from tests.campaigns import lies
from tests.campaigns.lies import honest_trees, play_lie, robust, survive
from tests.support.evm import chain
from tests.support.explorations.exploration_board import (
    Board,
    Played,
    aggregation_claim,
    board_of,
    deployed,
    dispute,
    training_claim,
    update_claim,
)
from tests.support.explorations.lying_jobs import Case, LeafOnly, Liar, LyingAggregation, LyingUpdate, mlp
from tests.support.explorations.operator_table_jobs import sample
from tests.support.explorations.sybils import Sybils, explore_alone
from zoo_compute.disputes.exploration import Exploration
from zoo_compute.spec.clocks import PRODUCTION, End
from zoo_compute.spec.frames import Kind, Phase

pytestmark = pytest.mark.usefixtures("one_thread")
STEP = 3  # after it a segment ends
FAST_OPERATORS = 12


@pytest.fixture(scope="session", autouse=True)
def contracts():
    """Before a test is anchored."""
    deployed()


def lying(case: Case, **places: Any) -> Trees:
    liar: Liar = case.lying()
    for name, value in places.items():
        setattr(liar, name, value)
    return Trees(liar)


def training(case: Case, theirs: Trees, **options: Any) -> Played:
    return dispute(case, training_claim(case, theirs), theirs, honest_trees(case), **options)


def node_of(case: Case, op: str, *, elements: int = 1) -> int:
    return next(at for at, node in enumerate(case.graph.nodes) if node.op == op and node.elements >= elements)


def a_part(case: Case) -> Trees:
    return lying(case, elements={(STEP, node_of(case, "dot")): 5}, part=1, states={STEP: 0})


# --- every place


TRAINING: dict[str, Callable[[Case], dict[str, Any]]] = {
    "2 begin, a tensor": lambda case: {"states": {-1: 0}},
    "2 begin, the optimiser": lambda case: {"begun": case.graph.state[-1].name},
    "3 output": lambda case: {"states": {STEP: 4}},
    "3 output of a segment of one step": lambda case: {"states": {4: 1}},
    "4 input": lambda case: {"elements": {(STEP, case.graph.state[2].before): 1}},
    "5 constant": lambda case: {"elements": {(STEP, node_of(case, "constant")): 0}, "states": {STEP: 0}},
    "6 data": lambda case: {"elements": {(STEP, case.graph.batch[0][1]): 7}},
    "6 data, the targets": lambda case: {"elements": {(STEP, case.graph.batch[1][1]): 1}, "states": {STEP: 0}},
    "8 part, of one": lambda case: {"elements": {(STEP, node_of(case, "fma", elements=9)): 8}, "states": {STEP: 0}},
    "8 part, of a dot": lambda case: {"elements": {(STEP, node_of(case, "dot")): 5}, "part": 1, "states": {STEP: 0}},
    "8 part, the last": lambda case: {"elements": {(STEP, node_of(case, "sum")): 0}, "states": {STEP: 0}},
}


@pytest.mark.parametrize("lie", TRAINING)
def test_a_lie_about_training__is_judged_where_it_is(lie):
    case = mlp()
    played = training(case, lying(case, **TRAINING[lie](case)))
    assert (played.end, played.kind) == (End.JUDGED, int(lie[0])), played.refused
    assert played.asks <= 5


@pytest.mark.parametrize("op", random.Random(3).sample(sorted(lies.operators()), FAST_OPERATORS))
def test_an_operator__is_executed_where_its_word_is_false(op):
    check_operator(op)


@pytest.mark.long
@pytest.mark.parametrize("op", sorted(lies.operators()))
def test_every_operator__is_executed_where_its_word_is_false(op):
    check_operator(op)


def check_operator(op: str) -> None:
    name, node = random.Random(op).choice(lies.operators()[op])
    case = sample(name)
    played = training(case, lying(case, elements={(0, node): case.graph.nodes[node].elements - 1}, states={0: 0}))
    assert (played.end, played.kind) == (End.JUDGED, {"input": 4, "constant": 5}.get(op, 8)), played.refused
    assert played.frame[FRAME.index("node")] == node


FRAME = list(lies.training_claim.__globals__["Frame"].__dataclass_fields__)


def test_an_end_that_is_not_the_last_state__is_judged_after_one_ask():
    case = mlp()
    theirs = honest_trees(case)
    result = replace(case.result(theirs), end_root=sha256(b"another").digest())
    played = dispute(case, training_claim(case, theirs, result), theirs, theirs)
    assert (played.end, played.kind, played.asks) == (End.JUDGED, 1, 1)


@pytest.mark.parametrize(
    ("phase", "leaf"),
    [
        (Phase.SEGMENTS, 0),
        (Phase.SEGMENTS, 2),
        (Phase.SEGMENTS, 3),  # of four steps: beyond the last leaf
        (Phase.STEPS, 1),
        (Phase.NODES, 77),
        (Phase.NODES, 255),  # beyond
    ],
)
@pytest.mark.parametrize("has_bundle", [True, False])
def test_a_hash_of_nothing__is_convicted_by_silence(phase, leaf, has_bundle):
    case = mlp(inner_steps=5 if leaf != 3 else 4)
    liar = case.lying()
    liar.states = {} if phase == Phase.SEGMENTS else {STEP: 0}
    trees = LeafOnly(liar)
    trees.place = (phase, leaf)
    about = training_claim(case, trees)
    revealed = about if has_bundle else replace(about, result=None, segments=())
    played = dispute(case, revealed, trees, honest_trees(case), result=about.result)
    assert played.end == End.SILENT


def test_bytes_that_differ_in_the_commitment_alone__cannot_be_shown():
    case, liar = mlp(), mlp().lying()
    liar.states = {STEP: 0}
    node = node_of(case, "dot", elements=65)
    honest = liar.trace(STEP)
    false = [*honest[:node], sha256(b"another tensor").digest(), *honest[node + 1 :]]
    liar.trace = lambda step: false  # type: ignore[method-assign]
    assert training(case, Trees(liar)).end == End.SILENT


@pytest.mark.parametrize(("node", "kind"), [(0, 4), (1, 4), (2, 8), (None, 3)])
def test_a_lie_about_an_update__is_judged(node, kind):
    case = mlp()
    liar = LyingUpdate(case.honest)
    if node is None:
        liar.states = {0: 1}
    else:
        liar.elements = {(0, node): 3}
    theirs = Trees(liar)
    played = dispute(case, update_claim(case, theirs), theirs, honest_trees(case, Kind.UPDATE))
    assert (played.end, played.kind) == (End.JUDGED, kind), played.refused


def aggregation_place(graph: Any, what: str) -> tuple[int, int]:
    names = {name: at for name, at in graph.batch}
    updates = max(names.values(), key=lambda at: graph.nodes[at].elements)
    each = graph.nodes[updates].elements // 4
    return {
        "7 a present slot": (updates, 1),
        "7 an absent slot": (updates, 3 * each - 1),
        "7 how many are present": (names["present"], 0),
        "4 the checkpoint": (graph.state[0].before, 0),
        "8 the mean": (next(at for at, node in enumerate(graph.nodes) if node.op == "div"), 2),
    }[what]


@pytest.mark.parametrize(
    "lie", ["7 a present slot", "7 an absent slot", "7 how many are present", "4 the checkpoint", "8 the mean"]
)
def test_a_lie_about_an_aggregation__is_judged(lie):
    played = aggregation(mlp(), lie)
    assert (played.end, played.kind) == (End.JUDGED, int(lie[0])), played.refused


def aggregation(case: Case, lie: str) -> Played:
    liar = case.aggregated(LyingAggregation)
    node, element = aggregation_place(liar.graph, lie)
    liar.elements, liar.states = {(0, node): element}, {0: 0}
    theirs = Trees(liar)
    about = aggregation_claim(case, theirs)
    return dispute(case, about, theirs, Trees(case.aggregated(claim=about.claim)))


def test_a_rank_of_a_robust_aggregation__is_judged():
    case = robust()
    liar = case.aggregated(LyingAggregation)
    node = next(at for at, made in enumerate(liar.graph.nodes) if made.op == "rank")
    liar.elements, liar.states = {(0, node): 0}, {0: 0}
    theirs = Trees(liar)
    about = aggregation_claim(case, theirs)
    played = dispute(case, about, theirs, Trees(case.aggregated(claim=about.claim)))
    assert (played.end, played.kind) == (End.JUDGED, 8), played.refused


def test_a_hash_beyond_the_last_entry_of_a_state__is_convicted_by_silence():
    """All entries are right; no file has this root."""
    case = mlp()
    theirs = LeafOnly(case.aggregated())
    entries = state_leaves(theirs.computation.after(0))
    assert len(entries) & (len(entries) - 1), "no place for padding"
    theirs.place = (Phase.STATE, len(entries))
    root = HashTree([*entries, LeafOnly.to]).root
    about = aggregation_claim(case, theirs)
    about = replace(about, claim=replace(about.claim, root=root))
    played = dispute(case, about, theirs, Trees(case.aggregated(claim=about.claim)))
    assert played.end == End.SILENT, played.refused


# --- who else asks


@pytest.mark.parametrize("way", lies.WAYS)
def test_a_partial_sum__is_judged_whoever_else_asks(way):
    case = mlp()
    theirs = a_part(case)
    drawn = (case, training_claim(case, theirs), theirs, honest_trees(case), "partial sum")
    played = play_lie(drawn, way, random.Random(way))
    assert (played.end, played.kind) == (End.JUDGED, 8), played.refused


def test_among_a_hundred_sybils__one_honest_asker_needs_one_path():
    case = mlp()
    theirs, alone, seen = a_part(case), training(mlp(), a_part(mlp())), []

    def others(answerer: Answerer) -> Sybils:
        seen.append(Sybils(theirs, training_claim(case, theirs), answerer, random.Random(5), 100, each_time=80))
        return seen[0]

    played = training(case, theirs, between=others)
    assert (played.end, played.kind) == (End.JUDGED, 8), played.refused
    assert played.asks <= alone.asks
    assert seen[0].asked > 10 * played.asks


def test_an_explored_lie__takes_a_second_asker_no_ask():
    """The first one stops before it judges."""
    case = mlp()
    theirs = a_part(case)
    explored: list[int] = []

    def first(answerer: Answerer) -> Callable[[Board], None]:
        def between(board: Board) -> None:
            if not explored:
                asker = Asker(honest_trees(case), training_claim(case, theirs))
                explored.append(explore_alone(board, asker, answerer, 99, "first"))

        return between

    played = training(case, theirs, between=first)
    assert (played.end, played.asks, explored) == (End.JUDGED, 0, [5])


def test_where_several_slots_and_programs_are_false__the_explored_path_goes_on():
    case = mlp()
    theirs = a_part(case)
    about = training_claim(case, theirs, replace(case.result(theirs), update_root=sha256(b"another").digest()))
    mine, update = honest_trees(case), replace(about, kind=Kind.UPDATE)
    with board_of(case, about.claim) as board:
        assert explored_first([update, about], board.picture) == [update, about]
        board.send(Asker(mine, about).next(board.picture, chain.timestamp), "somebody")  # type: ignore[arg-type]
        assert explored_first([update, about], board.picture) == [about, update]
        assert isinstance(Asker(mine, about).next(board.picture, chain.timestamp), Wait)


def test_a_silent_author__is_convicted_after_its_clock_and_not_before():
    case = mlp()
    theirs = a_part(case)
    about = training_claim(case, theirs)
    with board_of(case, about.claim) as board:
        asker = Asker(honest_trees(case), about)
        board.send(asker.next(board.picture, chain.timestamp), "asker")  # type: ignore[arg-type]
        wait = asker.next(board.picture, chain.timestamp)
        assert isinstance(wait, Wait)
        assert isinstance(asker.next(board.picture, wait.until), Wait)
        chain.timestamp = wait.until + 1
        call = asker.next(board.picture, chain.timestamp)
        assert call.name == "expire"  # type: ignore[union-attr]
        board.send(call, "asker")  # type: ignore[arg-type]
        assert board.picture.end == End.SILENT
        assert asker.next(board.picture, chain.timestamp) is None


# --- honest claims


def test_an_honest_claim__is_asked_nothing():
    case = mlp()
    assert training(case, Trees(case.honest)).calls == {}
    for kind, claim in ((Kind.UPDATE, update_claim), (Kind.AGGREGATION, aggregation_claim)):
        trees = Trees(case.update if kind == Kind.UPDATE else case.aggregated())
        assert dispute(case, claim(case, trees), trees, trees).calls == {}


@pytest.mark.parametrize("kind", Kind)
def test_an_honest_claim__is_answered_among_sybils_and_final_in_time(kind):
    tried = survive(mlp(), kind, random.Random(kind), 18)
    assert sum(tried.values()) > 0


@pytest.mark.parametrize("seed", [49, 55])
def test_an_honest_claim__whose_answers_strangers_gave__costs_its_author_nothing(seed):
    """The stranger earned all fees: it closes the claim, and the author pays for no call."""
    rng = random.Random(seed)
    survive(mlp(), Kind.UPDATE, rng, rng.randrange(3, 24), "author asleep")


@pytest.mark.parametrize(
    "places",
    [
        {"states": {-1: 0}},
        {"states": {STEP: 0}},
        {"elements": {(STEP, 40): 0}, "states": {STEP: 0}},
        {"elements": {(STEP, 120): 0}, "states": {STEP: 0}},
    ],
    ids=str,
)
def test_an_asker_that_errs__convicts_nobody(places):
    """Its own computation is false: it asks where that differs, and shows what it has."""
    case = mlp()
    honest = honest_trees(case)
    played = dispute(case, training_claim(case, honest), honest, lying(case, **places), is_patient=False)
    assert played.end is None
    assert played.asks > 0
    assert played.refused.startswith("evidence:")


def test_a_stranger__answers_what_a_hash_determines_and_no_more():
    case = mlp()
    honest = honest_trees(case)
    about = training_claim(case, honest)
    stranger = Answerer(about.claim, lambda kind, slot: honest, PRODUCTION, is_author=False)
    author = Answerer(about.claim, lambda kind, slot: honest, PRODUCTION, is_author=True)
    with board_of(case, about.claim) as board:
        sybils = Sybils(honest, about, stranger, random.Random(4), patience=0.0)
        board.send(replace_kind(sybils, board), "sybil 0")
        assert board.answers(stranger, "stranger") == 0, "the author alone may answer yet"
        chain.timestamp += PRODUCTION.exclusive_s
        assert board.answers(stranger, "stranger") == 1
        (root,) = board.picture.nodes.values()
        assert root.record.answerer.lower() == board.account("stranger").lower()
        board.send(board.picture.ask(root, 1), "sybil 1")
        chain.timestamp += PRODUCTION.exclusive_s
        assert board.answers(stranger, "stranger") == 0, "the states in a segment are the author's to name"
        assert board.answers(author) == 1


def replace_kind(sybils: Sybils, board: Board) -> Any:
    """An ask for the root of the segments."""
    sybils.about = replace(sybils.about, segments=())
    while True:
        call = sybils.first(board)
        if call.args[2] == Kind.TRAINING:
            return call


# --- the picture


def test_the_picture__is_the_same_from_its_own_json():
    case = mlp()
    picture = training(case, a_part(case)).picture
    again = Exploration.from_plain(json.loads(json.dumps(picture.plain)))
    assert (again.nodes, again.end) == (picture.nodes, picture.end)
    assert again.end == End.JUDGED
    assert [node.record.payment.is_heavy for node in again.nodes.values()].count(True) == 1


# --- at length


@pytest.mark.long
def test_a_campaign__convicts_every_lie_and_no_honest_claim():
    seen = lies.run(300, 30, seed=7, report=lambda line: None)
    assert seen["lies"] == 300
    assert seen["honest claims"] == 30
    assert isinstance(seen, Counter)
