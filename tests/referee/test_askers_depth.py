"""How many asks a dispute takes, from shapes alone."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.disputes.depth import depth_of
from benchmarks.disputes.programs import seven_billion
from node.disputes.trees import Trees
from repops.parts import part_count
from tests.campaigns.lies import gpt, honest_trees
from tests.referee.random_nodes import COMPUTED, random_node, whole
from tests.support.explorations.exploration_board import dispute, training_claim
from tests.support.explorations.lying_jobs import Case, mlp
from tests.support.small_job import small_job
from zoo_compute.spec.clocks import End

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("made", [mlp, gpt])
def test_the_longest_dispute_about_a_small_job__is_as_long_as_its_shapes_say(made):
    case: Case = made()
    longest = depth_of(case.graph, case.inner_steps, case.segment_steps)
    computed = [at for at, node in enumerate(case.graph.nodes) if node.op not in ("input", "constant")]
    nodes = sorted(computed, key=lambda at: (case.graph.nodes[at].elements, part_count(case.graph.nodes[at])))[-6:]
    asks = []
    for node in (*nodes, next(at for at in computed if case.graph.nodes[at].op == "dot")):
        liar = case.lying()
        liar.states, liar.elements = {3: 0}, {(3, node): case.graph.nodes[node].elements - 1}
        theirs = Trees(liar)
        played = dispute(
            case, training_claim(case, theirs, has_bundle=False), theirs, honest_trees(case), result=case.result(theirs)
        )
        assert played.end == End.JUDGED
        asks.append(played.asks - 1)  # but for the slot's result, which a bundle shows
    assert max(asks) == longest.pairs


def test_a_small_gpt__takes_at_most_nine_pairs():
    assert depth_of(small_job().traced.graph, 500, 25).pairs <= 9


def test_a_transformer_of_seven_billion__takes_at_most_twelve_pairs():
    figures = seven_billion()
    assert figures.pairs <= 12
    assert (figures.segments, figures.steps, figures.nodes) == (5, 5, 16)


@pytest.mark.parametrize("op", COMPUTED)
def test_part_count__is_as_many_as_there_are(op):
    rng, seen = np.random.default_rng(len(op)), set()
    for _ in range(60):
        node = random_node(rng, op)
        if node.elements:
            seen.add(part_count(node))
            assert part_count(node) == len(whole(node, int(rng.integers(node.elements)), 0))
    assert seen
