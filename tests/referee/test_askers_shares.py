"""Lies about what several aggregators post, and about what starts from it, before the contracts that judge."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from node.disputes.trees import Trees
from tests.referee.test_askers import aggregation_place, honest_trees, lying
from tests.support.explorations.exploration_board import (
    aggregation_claim,
    dispute,
    training_claim,
    update_claim,
)
from tests.support.explorations.lying_jobs import Case, LyingAggregation, LyingUpdate, mlp
from zoo_compute.formats.aggregation import Aggregation as Rule
from zoo_compute.spec.clocks import End
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.training.rounds import checkpoint_shares
from zoo_compute.training.shares import SharedCheckpoint

AGGREGATORS = 3
LIES = ("7 a present slot", "7 an absent slot", "7 how many are present", "4 the checkpoint", "8 the mean")


@cache
def shared() -> Case:
    """A slot-round, and an aggregation by three, that start from a checkpoint which three made."""
    case = replace(mlp(), rule=Rule(aggregators=AGGREGATORS))
    names = checkpoint_shares(case.graph, case.manifest.aggregation_spec)
    assert sorted(name for each in names for name in each) == sorted(case.checkpoint)
    shares = (({name: case.checkpoint[name] for name in sorted(each)}) for each in names)
    made = replace(case, checkpoint=SharedCheckpoint(tuple(shares)))
    assert made.start_root != case.start_root
    return made


@pytest.mark.parametrize("share", range(AGGREGATORS))
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_a_share__is_judged_by_its_own_program(lie: str, share: int) -> None:
    case = shared()
    liar = case.aggregated(LyingAggregation, share=share)
    node, element = aggregation_place(liar.graph, lie)
    liar.elements, liar.states = {(0, node): element}, {0: 0}
    theirs = Trees(liar)
    about = aggregation_claim(case, theirs, AGGREGATOR_SEAT + share)
    played = dispute(case, about, theirs, Trees(case.aggregated(claim=about.claim, share=share)))
    assert (played.end, played.kind) == (End.JUDGED, int(lie[0])), played.refused


@pytest.mark.parametrize("share", range(AGGREGATORS))
def test_a_true_share__stands(share: int) -> None:
    case = shared()
    theirs = Trees(case.aggregated(share=share))
    about = aggregation_claim(case, theirs, AGGREGATOR_SEAT + share)
    played = dispute(case, about, theirs, Trees(case.aggregated(claim=about.claim, share=share)))
    assert played.end is None
    assert played.asks == 0, "nobody asks about what is true"


def entries(case: Case) -> range:
    """Of the state that come from the checkpoint, whichever share has them."""
    return range(sum(entry.name in case.checkpoint for entry in case.graph.state))


def test_a_slot_that_starts_from_another_tensor__is_judged_whoever_aggregated_that() -> None:
    case = shared()
    for index in entries(case):
        theirs = lying(case, states={-1: index})
        played = dispute(case, training_claim(case, theirs), theirs, honest_trees(case))
        assert (played.end, played.kind) == (End.JUDGED, 2), (index, played.refused)


def test_an_update_of_another_start__is_judged_whoever_aggregated_that() -> None:
    case = shared()
    starts = [entry.before for entry in LyingUpdate(case.honest).graph.state]
    assert len(starts) >= AGGREGATORS
    for node in starts:
        liar = LyingUpdate(case.honest)
        liar.elements, liar.bit = {(0, node): 0}, 20  # which no rounding hides
        theirs = Trees(liar)
        played = dispute(case, update_claim(case, theirs), theirs, honest_trees(case, Kind.UPDATE))
        assert (played.end, played.kind) == (End.JUDGED, 4), (node, played.refused)
