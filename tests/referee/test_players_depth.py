"""How many moves a game takes, from shapes alone."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.disputes.programs import seven_billion
from node.disputes.defender import Defender
from node.disputes.depth import depth_of
from node.disputes.trees import Trees
from repops.parts import part_count
from tests.referee.random_nodes import COMPUTED, random_node, whole
from tests.support.games.lying_jobs import mlp
from tests.support.small_job import small_job

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_longest_game_about_a_small_job__is_as_long_as_its_shapes_say():
    case = mlp()
    longest = depth_of(case.graph, case.inner_steps, case.segment_steps)
    computed = [at for at, node in enumerate(case.graph.nodes) if node.op not in ("input", "constant")]
    deepest = max(computed, key=lambda at: case.graph.nodes[at].elements)
    pairs = []
    for node in (deepest, next(at for at, made in enumerate(case.graph.nodes) if made.op == "dot")):
        liar = case.lying()
        liar.states, liar.elements = {3: 0}, {(3, node): case.graph.nodes[node].elements - 1}
        trees = Trees(liar)
        pairs.append(case.training(Defender(trees), case.result(trees)).pairs)
    assert max(pairs) == longest.pairs


def test_a_small_gpt__takes_at_most_eight_pairs_of_moves():
    graph = small_job().traced.graph
    assert depth_of(graph, 500, 25).pairs == 8


def test_a_transformer_of_seven_billion__takes_at_most_twelve_pairs_of_moves():
    figures = seven_billion()
    assert figures.pairs == 12
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
