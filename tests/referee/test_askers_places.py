"""Asker and answerer about every place of a claim: what is false there convicts, by evidence about that place or by silence."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.compute.programs import Programs
from node.disputes.computation import SlotRound
from node.disputes.trees import Trees
from repops.graph import BATCH_ROLE
from tests.campaigns.lies import conv, gpt, honest_trees, lstm, robust, survive
from tests.support.explorations.exploration_board import (
    Played,
    aggregation_claim,
    dispute,
    training_claim,
    update_claim,
)
from tests.support.explorations.lying_jobs import Case, LyingAggregation, LyingUpdate, mlp
from zoo_compute.spec.clocks import End
from zoo_compute.spec.frames import Frame, Kind

pytestmark = pytest.mark.usefixtures("one_thread")
STEP = 3  # after it a segment ends, so that what is said of its state is in the claim
FIELDS = list(Frame.__dataclass_fields__)
MODELS = {"gpt": gpt, "conv": conv, "lstm": lstm}


def field(played: Played, name: str) -> int:
    """Of the frame in which the claim was judged."""
    return int(played.frame[FIELDS.index(name)])


def lying(case: Case, **lies: Any) -> Trees:
    liar = case.lying()
    for name, value in lies.items():
        setattr(liar, name, value)
    return Trees(liar)


def convicted(case: Case, theirs: Trees) -> Played:
    """Of false training, by evidence."""
    result = case.result(theirs)
    assert result != case.result(Trees(case.honest)), "the lie changes nothing"
    played = dispute(case, training_claim(case, theirs), theirs, honest_trees(case))
    assert played.end == End.JUDGED, played.refused
    return played


# --- training


def check_bits(case: Case, nodes: Iterable[int], rng: random.Random) -> Counter[int]:
    """Where the bit has no consequence, the author says another state follows, so that the step is disputed."""
    kinds: Counter[int] = Counter()
    for node in nodes:
        made = case.graph.nodes[node]
        element = rng.randrange(made.elements)
        lies: dict[str, Any] = {"elements": {(STEP, node): element}, "bit": rng.randrange(32)}
        theirs = lying(case, **lies)
        if case.result(theirs) == case.result(Trees(case.honest)):
            theirs = lying(case, **lies, states={STEP: rng.randrange(len(case.graph.state))})
        played = convicted(case, theirs)
        assert played.kind in (4, 5, 6, 8), (node, made.op)
        assert field(played, "node") == node
        if played.kind == 8 and field(played, "parts"):
            assert field(played, "element") == element
        kinds[played.kind] += 1
    return kinds


def test_one_bit_of_a_node_of_a_step__is_judged_by_evidence_for_that_node():
    case, rng = mlp(), random.Random(1)
    nodes = [at for at, made in enumerate(case.graph.nodes) if made.elements]
    kinds = check_bits(case, sorted({*rng.sample(nodes, 30), *(at for _, at in case.graph.batch)}), rng)
    assert kinds.keys() == {4, 5, 6, 8}
    assert kinds[6] == len(case.graph.batch)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_one_bit_of_a_node_of_a_model__is_judged_by_evidence_for_that_node(name):
    case, rng = MODELS[name](), random.Random(name)
    check_bits(case, rng.sample([at for at, made in enumerate(case.graph.nodes) if made.elements], 16), rng)


def test_a_partial_sum__is_judged_where_the_parts_go_wrong():
    case, seen = mlp(), Counter[Any]()
    several = [
        node
        for node, made in enumerate(case.graph.nodes)
        if made.op in ("dot", "sum", "scatter_add", "reduce_max", "rank") and made.elements
    ]
    for node in several:
        for part in (0, 1, None):
            played = convicted(case, lying(case, elements={(STEP, node): 0}, part=part, states={STEP: 0}))
            assert (played.kind, field(played, "node")) == (8, node)
            seen[part] += field(played, "parts") > 1
    assert seen[0] >= 10


@pytest.mark.parametrize("step", [1, 3, 4])
def test_a_state_at_a_segments_end_alone__is_judged_by_what_the_trace_ends_in(step):
    case = mlp()
    for entry in range(len(case.graph.state)):
        played = convicted(case, lying(case, states={step: entry}))
        assert (played.kind, field(played, "step")) == (3, step)


def test_the_state_at_step_0__is_judged_by_the_checkpoint_or_zeros():
    case = mlp()
    for at, entry in enumerate(case.graph.state):
        for lies in ({"states": {-1: at}}, {"begun": entry.name}):
            assert convicted(case, lying(case, **lies)).kind == 2


def test_of_many_lies__the_first_convicts():
    case, rng = mlp(), random.Random(7)
    computed = [at for at, made in enumerate(case.graph.nodes) if made.elements]
    for _ in range(12):
        nodes = rng.sample(computed, 3)
        lies = {(rng.randrange(5), node): rng.randrange(case.graph.nodes[node].elements) for node in nodes}
        theirs = lying(case, elements=lies, bit=rng.randrange(32), states={rng.choice((1, 3, 4)): 0})
        played = convicted(case, theirs)
        assert played.kind in (3, 4, 5, 6, 8)
        if played.kind != 3:
            step = field(played, "step")
            assert (step, field(played, "node")) == min(place for place in lies if place[0] == step)


# --- update and aggregation


def test_one_bit_of_any_node_of_an_update__is_judged():
    case, kinds = mlp(), Counter[Any]()
    graph = case.update.graph
    for node, made in enumerate(graph.nodes):
        liar = LyingUpdate(case.honest)
        liar.elements = {(0, node): made.elements - 1}
        if made.op == "scalar":
            liar.states = {0: 0}
        theirs = Trees(liar)
        played = dispute(case, update_claim(case, theirs), theirs, honest_trees(case, Kind.UPDATE))
        assert (played.end, field(played, "node")) == (End.JUDGED, node), played.refused
        kinds[played.kind] += 1
    assert kinds.keys() == {4, 8}
    assert kinds[4] == 2 * len(graph.state)


def test_an_update_that_its_trace_does_not_end_in__is_judged():
    case = mlp()
    for entry in range(len(case.update.graph.state)):
        liar = LyingUpdate(case.honest)
        liar.states = {0: entry}
        theirs = Trees(liar)
        played = dispute(case, update_claim(case, theirs), theirs, honest_trees(case, Kind.UPDATE))
        assert (played.end, played.kind) == (End.JUDGED, 3), played.refused


def aggregated(case: Case, node: int, element: int) -> Played:
    """Where the bit has no consequence, another state is said to follow."""
    liar = case.aggregated(LyingAggregation)
    liar.elements = {(0, node): element}
    if liar.after(0) == case.aggregated().after(0):
        liar = case.aggregated(LyingAggregation)
        liar.elements, liar.states = {(0, node): element}, {0: 0}
    theirs = Trees(liar)
    about = aggregation_claim(case, theirs)
    played = dispute(case, about, theirs, Trees(case.aggregated(claim=about.claim)))
    assert played.end == End.JUDGED, (node, played.refused)
    assert field(played, "node") == node
    return played


def test_any_word_of_an_aggregation__is_judged():
    """Of present and absent slots, of their number, of the checkpoint, of what is computed."""
    case, kinds = mlp(), Counter[Any]()
    graph = case.aggregated().graph
    names = {at: name for name, at in graph.batch}
    for node, made in enumerate(graph.nodes):
        each = made.elements // 4
        for element in (0, each, 2 * each, made.elements - 1) if node in names and each else (made.elements - 1,):
            kinds[aggregated(case, node, element).kind] += 1
    assert kinds.keys() == {4, 7, 8}
    assert kinds[7] >= 4 * (len(names) - 1) + 1


def test_any_operator_of_a_robust_aggregation__is_judged():
    """Products, verdict, scores and the joined tensors are judged as anything else is."""
    case, kinds = robust(), Counter[Any]()
    nodes = case.aggregated().graph.nodes
    inputs = {role: node for node, made in enumerate(nodes) if made.op == "input" for role in made.attributes[:1]}
    assert BATCH_ROLE in inputs
    for node in sorted({*{made.op: node for node, made in enumerate(nodes)}.values(), *inputs.values()}):
        kinds[aggregated(case, node, nodes[node].elements - 1).kind] += 1
    assert {made.op for made in nodes} >= {"rank", "dot", "concat", "sqrt"}
    assert kinds.keys() == {4, 7, 8}


# --- honest claims


@pytest.mark.parametrize("name", MODELS)
def test_honest_work_on_a_model__survives_every_asker_that_errs(name):
    """Their own computation is false somewhere: they ask where it differs, and show what they have."""
    case, rng = MODELS[name](), random.Random(name)
    honest = honest_trees(case)
    for node in rng.sample([at for at, made in enumerate(case.graph.nodes) if made.elements], 4):
        erring = lying(case, elements={(STEP, node): 0}, states={STEP: rng.randrange(len(case.graph.state))})
        played = dispute(case, training_claim(case, honest), honest, erring, is_patient=False)
        assert played.end is None
        assert played.asks


@pytest.mark.long
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("name", MODELS)
def test_wherever_anybody_asks_and_accuses__true_answers_convict_nobody(name, kind):
    tried = survive(MODELS[name](), kind, random.Random(name), 300)
    assert len(tried) >= 2, "evidence of several kinds was refused"


# --- a restart in the middle


def test_with_a_folder__another_process_goes_on_without_computing_it_again(tmp_path: Path, monkeypatch):
    case = mlp()
    theirs = lying(case, states={STEP: 0})
    about = training_claim(case, theirs)

    def process() -> SlotRound:
        place = (case.manifest, Programs(case.graph), case.checkpoint, case.examples, case.round, case.slot)
        return SlotRound(*place, folder=tmp_path)

    assert dispute(case, about, theirs, Trees(process())).kind == 3
    steps, again = list[int](), process()
    advance = again.advance
    monkeypatch.setattr(again, "advance", lambda step: (steps.append(step), advance(step)))
    assert dispute(case, replace(about), theirs, Trees(again)).kind == 3
    assert len(steps) <= 1, "at most the step whose state is disputed is computed once more"
