"""Games about models of several kinds, and about every operator of the table."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import nn

from node.disputes.challenger import Challenger
from node.disputes.defender import Defender
from node.disputes.depth import depth_of
from node.disputes.trees import Trees
from repops.commitments import tensor_root_of
from repops.graph import BATCH_ROLE, F32
from repops.operators import TABLE
from tests.support.games.lying_jobs import ROWS, Case, LeafOnly, case_of
from tests.support.games.operator_table_jobs import sample
from tests.support.programs import models
from tests.support.programs.table_programs import table
from zoo_compute.spec.frames import Frame, Phase

pytestmark = pytest.mark.usefixtures("one_thread")
STEP = 3  # after it a segment ends
GAMES = 16


def gpt() -> Case:
    torch.manual_seed(0)
    module = models.GPT(width=8, heads=2, layers=1, context=6, dropout=0.1)
    return case_of(module, models.text(0, ROWS, 6), models.next_token, models.VOCABULARY)


def conv() -> Case:
    torch.manual_seed(0)
    return case_of(models.ConvNet(), models.images(0, ROWS), nn.functional.cross_entropy, 10)


def lstm() -> Case:
    torch.manual_seed(0)
    return case_of(models.Recurrent(), models.text(0, ROWS, 4), models.next_token, models.VOCABULARY)


MODELS = {"gpt": lru_cache(gpt), "conv": lru_cache(conv), "lstm": lru_cache(lstm)}


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_random_lies_about_a_model__are_convicted_where_they_are(name):
    case, rng = MODELS[name](), random.Random(name)
    nodes = [at for at, node in enumerate(case.graph.nodes) if node.elements]
    for node in rng.sample(nodes, GAMES):
        liar = case.lying()
        liar.elements = {(STEP, node): rng.randrange(case.graph.nodes[node].elements)}
        liar.bit, liar.states = rng.randrange(32), {STEP: rng.randrange(len(case.graph.state))}
        trees = Trees(liar)
        played = case.training(Defender(trees), case.result(trees))
        assert played.is_convicted
        assert played.evidence in (4, 5, 6, 8), (node, played.refused)
        assert played.game.frame.node == node
        assert played.pairs <= depth_of(case.graph, case.inner_steps, case.segment_steps).pairs


@pytest.mark.parametrize("name", MODELS)
def test_honest_work_on_a_model__survives_every_challenger_that_errs(name):
    """Their own computation is false somewhere: they pick what differs, and show what they have."""
    case, rng = MODELS[name](), random.Random(name)
    nodes = [at for at, node in enumerate(case.graph.nodes) if node.elements]
    honest = Trees(case.honest)
    result, seen = case.result(honest), set()
    for node in rng.sample(nodes, GAMES):
        liar = case.lying()
        liar.elements = {(STEP, node): rng.randrange(case.graph.nodes[node].elements)}
        liar.states = {STEP: rng.randrange(len(case.graph.state)), -1: 0} if rng.random() < 0.2 else {STEP: 0}
        played = case.training(Defender(honest), result, Challenger(Trees(liar)))
        assert not played.is_convicted
        seen.add((played.game.phase, played.refused[:9]))
    assert (Phase.ELEMENTS, "evidence:") in seen


def test_a_leaf_beyond_the_last_of_a_tensor__cannot_be_shown():
    """The tree of its elements has something where padding belongs."""
    case = MODELS["conv"]()
    floats = [
        at for at, made in enumerate(case.graph.nodes) if made.op not in ("input", "constant") and made.dtype == F32
    ]
    node, last = next(
        (at, leaves)
        for at in floats
        if (leaves := -(-case.graph.nodes[at].elements // 128)) > 1 and leaves & (leaves - 1)
    )
    liar = case.lying()
    liar.states = {STEP: 0}
    trees = LeafOnly(liar)
    trees.place = (Phase.ELEMENTS, last)
    made = case.graph.nodes[node]
    root = trees.tree(Frame(step=STEP, node=node), Phase.ELEMENTS).root
    honest = liar.trace(STEP)
    false = [*honest[:node], tensor_root_of(0, made.shape, root), *honest[node + 1 :]]
    liar.trace = lambda step: false  # type: ignore[method-assign]
    played = case.training(Defender(trees), case.result(trees))
    assert played.is_convicted
    assert (played.evidence, played.game.phase, played.game.is_beyond) == (None, Phase.ELEMENTS, True)


# --- every operator


def one_of_each() -> list[tuple[str, int]]:
    """(program, node), two for each operator where there are."""
    lies: dict[str, list[tuple[str, int]]] = {}
    for name, (graph, _, _) in table().items():
        for at, node in enumerate(graph.nodes):
            is_data = node.op == "input" and node.attributes[0] == BATCH_ROLE  # the batch here is of no data
            if node.elements and not is_data:
                lies.setdefault(node.op, []).append((name, at))
    assert lies.keys() == TABLE.keys()
    rng = random.Random(3)
    return [each for op in sorted(lies) for each in rng.sample(lies[op], min(2, len(lies[op])))]


def check_operator(name: str, node: int, judge: Any = None) -> None:
    """Any word of a node is executed, or compared with what it must be."""
    case, rng = sample(name), random.Random(node)
    made = case.graph.nodes[node]
    element = rng.randrange(made.elements)
    liar = case.lying()
    liar.elements, liar.states = {(0, node): element}, {0: rng.randrange(len(case.graph.state))}
    trees = Trees(liar)
    played = case.training(Defender(trees), case.result(trees), judge=judge)
    assert played.evidence == {"input": 4, "constant": 5}.get(made.op, 8), (made.op, played.refused)
    assert played.game.frame.node == node
    if played.game.phase == Phase.PARTS:
        assert played.game.frame.element == element


@pytest.mark.parametrize(("name", "node"), one_of_each())
def test_every_operator__is_executed_where_its_word_is_false(name, node):
    check_operator(name, node)
