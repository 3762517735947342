"""A renderer that lies about one pixel, before the contracts that judge."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch

import repops
from repops.graph import OUTPUTS
from tests.referee.test_askers import honest_trees, lying, training
from tests.support.explorations.lying_jobs import Case, tensors_of
from tests.support.scenes import ball, small
from tests.support.scenes import few_steps as few_steps
from zoo_compute.rendering.path_tracer.renderer import Renderer
from zoo_compute.rendering.path_tracer.scene import Scene
from zoo_compute.spec.clocks import End

pytestmark = pytest.mark.usefixtures("one_thread", "few_steps")
STEP, PIXEL, GREEN = 3, 21, 1  # of the lie
LAYOUT = small(samples=10)


@lru_cache
def rendered() -> Case:
    module = Renderer(Scene(ball), LAYOUT).eval()
    program = repops.trace_map(module, torch.zeros((1, 4), dtype=torch.int64), 5)
    return Case(program.graph, tensors_of(program, module), {"inputs": LAYOUT.items}, inner_steps=5, rows=1)


def test_one_false_pixel__is_judged_where_it_is() -> None:
    case = rendered()
    entry = next(each for each in case.graph.state if each.name == OUTPUTS)
    element = (STEP * LAYOUT.across * LAYOUT.down + PIXEL) * 3 + GREEN
    played = training(case, lying(case, elements={(STEP, entry.after): element}, bit=1))
    assert (played.end, played.kind) == (End.JUDGED, 8), played.refused


def test_one_false_number_on_a_rays_way__is_judged_where_it_is() -> None:
    case = rendered()
    roots = [at for at, node in enumerate(case.graph.nodes) if node.op == "sqrt" and node.elements >= PIXEL]
    outputs = [each.name for each in case.graph.state].index(OUTPUTS)
    # Later steps of the ray may heal the number: the state after the step is another all the same.
    theirs = lying(case, elements={(STEP, roots[len(roots) // 2]): PIXEL}, states={STEP: outputs}, bit=20)
    played = training(case, theirs)
    assert (played.end, played.kind) == (End.JUDGED, 8), played.refused


def test_a_true_picture__is_asked_nothing() -> None:
    played = training(rendered(), honest_trees(rendered()))
    assert (played.end, played.asks) == (None, 0)
