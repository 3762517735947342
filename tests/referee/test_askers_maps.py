"""Lies about a map, before the contracts that judge: about a step, about the outputs that are sent, about the checkpoint that stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from node.disputes.trees import Trees
from tests.referee.test_askers import honest_trees, lying, node_of, training
from tests.support.explorations.exploration_board import aggregation_claim, dispute, training_claim, update_claim
from tests.support.explorations.lying_jobs import Case, LyingAggregation, LyingUpdate, mapped
from zoo_compute.spec.clocks import End
from zoo_compute.spec.frames import Kind

pytestmark = pytest.mark.usefixtures("one_thread")
STEP = 3


def entry(case: Case, name: str) -> Any:
    return next(each for each in case.graph.state if each.name == name)


PLACES: dict[str, Callable[[Case], dict[str, Any]]] = {
    "2 a weight": lambda case: {"states": {-1: 0}},
    "2 outputs that do not begin at zero": lambda case: {"begun": "outputs.classes"},
    "3 outputs after a step": lambda case: {
        "states": {STEP: [e.name for e in case.graph.state].index("outputs.drawn")}
    },
    "4 a weight in a step": lambda case: {"elements": {(STEP, entry(case, "head.weight").before): 1}},
    "6 an item": lambda case: {"elements": {(STEP, case.graph.batch[0][1]): 7}},
    "8 one number of an output": lambda case: {"elements": {(STEP, entry(case, "outputs.classes").after): 20}},
    "8 a random draw": lambda case: {"elements": {(STEP, node_of(case, "random")): 1}, "states": {STEP: 0}},
    "8 a product": lambda case: {"elements": {(STEP, node_of(case, "dot")): 2}, "states": {STEP: 0}},
}


@pytest.mark.parametrize("lie", PLACES)
def test_a_lie_about_a_step_of_a_map__is_judged_where_it_is(lie: str) -> None:
    case = mapped()
    played = training(case, lying(case, **PLACES[lie](case)))
    assert (played.end, played.kind) == (End.JUDGED, int(lie[0])), played.refused


@pytest.mark.parametrize("name", ["outputs.classes", "outputs.drawn"])
def test_outputs_that_the_slot_did_not_end_with__are_judged(name: str) -> None:
    case = mapped()
    liar = LyingUpdate(case.honest)
    liar.elements, liar.bit = {(0, entry_of(liar.graph, name)): 3}, 20
    theirs = Trees(liar)
    played = dispute(case, update_claim(case, theirs), theirs, honest_trees(case, Kind.UPDATE))
    assert (played.end, played.kind) == (End.JUDGED, 4), played.refused


def entry_of(graph: Any, name: str) -> int:
    return next(each.before for each in graph.state if each.name == name)


def test_another_weight_in_the_next_checkpoint__is_judged() -> None:
    case = mapped()
    liar = case.aggregated(LyingAggregation)
    liar.elements, liar.bit = {(0, entry_of(liar.graph, "head.weight")): 3}, 20
    theirs = Trees(liar)
    about = aggregation_claim(case, theirs)
    played = dispute(case, about, theirs, Trees(case.aggregated(claim=about.claim)))
    assert (played.end, played.kind) == (End.JUDGED, 4), played.refused


def test_an_honest_map__is_asked_nothing() -> None:
    case = mapped()
    for claim, theirs in (
        (training_claim, Trees(case.honest)),
        (update_claim, Trees(case.update)),
        (aggregation_claim, Trees(case.aggregated())),
    ):
        played = dispute(case, claim(case, theirs), theirs, theirs)
        assert (played.end, played.asks) == (None, 0)


def test_an_update_of_a_map__is_its_outputs_as_they_are() -> None:
    case = mapped()
    end = case.honest.state(case.inner_steps)
    batch = {name: end[name] for name in case.graph.outputs}
    made = case.honest.programs.update(case.compression, case.checkpoint, end)
    assert made.keys() == batch.keys()
    for name, array in batch.items():
        assert np.array_equal(made[name].view(np.uint32), array.view(np.uint32)), name
    assert np.any(made["outputs.classes"])
    kept = case.aggregated().after(0)
    assert kept == case.aggregated().checkpoint_roots
