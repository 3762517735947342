"""Lies about a generated text, before the contracts that judge: about a token, about a word of the cache, about a draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from node.disputes.trees import Trees
from tests.referee.test_askers import honest_trees, lying, node_of, training
from tests.referee.test_askers_maps import entry, entry_of
from tests.support.explorations.exploration_board import dispute, training_claim, update_claim
from tests.support.explorations.lying_jobs import Case, LyingUpdate, generating
from zoo_compute.spec.clocks import End
from zoo_compute.spec.frames import Kind

pytestmark = pytest.mark.usefixtures("one_thread")
STEP = 3


def place_of(case: Case, name: str) -> int:
    return [each.name for each in case.graph.state].index(name)


KEYS, VALUES = "generation.keys_0", "generation.values_0"
PLACES: dict[str, Callable[[Case], dict[str, Any]]] = {
    "2 a cache that does not begin at zero": lambda case: {"begun": VALUES},
    "3 a word of the cache after a step": lambda case: {"states": {STEP: place_of(case, KEYS)}},
    "3 where a text is after a step": lambda case: {"states": {STEP: place_of(case, "generation.positions")}},
    "4 a word of the cache in a step": lambda case: {"elements": {(STEP, entry(case, KEYS).before): 1}},
    "6 a prompt's token": lambda case: {"elements": {(STEP, case.graph.batch[0][1]): 1}},
    "8 what is written to the cache": lambda case: {"elements": {(STEP, entry(case, KEYS).after): 9}},
    "8 a generated token": lambda case: {"elements": {(STEP, entry(case, "outputs").after): 2 * STEP}},
    "8 the token that goes on": lambda case: {"elements": {(STEP, entry(case, "generation.last").after): 0}},
    "8 a random draw": lambda case: {"elements": {(STEP, node_of(case, "random")): 1}, "states": {STEP: 0}},
}


@pytest.mark.parametrize("lie", PLACES)
def test_a_lie_about_a_decoding_step__is_judged_where_it_is(lie: str) -> None:
    case = generating()
    played = training(case, lying(case, **PLACES[lie](case)))
    assert (played.end, played.kind) == (End.JUDGED, int(lie[0])), played.refused


def test_one_token_that_is_sent_and_was_not_generated__is_judged() -> None:
    case = generating()
    liar = LyingUpdate(case.honest)
    liar.elements, liar.bit = {(0, entry_of(liar.graph, "outputs")): 3}, 20
    theirs = Trees(liar)
    played = dispute(case, update_claim(case, theirs), theirs, honest_trees(case, Kind.UPDATE))
    assert (played.end, played.kind) == (End.JUDGED, 4), played.refused


def test_an_honest_generation__is_asked_nothing_and_begins_texts_anew() -> None:
    case = generating()
    theirs = Trees(case.honest)
    played = dispute(case, training_claim(case, theirs), theirs, theirs)
    assert (played.end, played.asks) == (None, 0)
    steps = range(case.inner_steps + 1)
    places = [case.honest.state(step)["generation.positions"].tolist() for step in steps]
    assert places == [[0, 0], [1, 1], [2, 2], [3, 3], [4, 1], [4, 2]]
    made = case.honest.state(case.inner_steps)["outputs"]
    assert np.isin(made, np.arange(11)).all()
    assert len(np.unique(made)) > 2, "a test that every lie could pass"
