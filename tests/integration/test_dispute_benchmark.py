"""benchmarks/disputes/dispute.py on its smallest program: lies, each explored and judged by the contracts on anvil."""

from __future__ import annotations

import pytest

from benchmarks.disputes.dispute import measure
from repops.operators import TABLE

FIGURES = ("pairs", "gas_committer", "gas_challenger", "gas_total", "gas_judge_max", "second_challenger_gas", "wall_s")


@pytest.fixture(scope="module", name="figures")
def figures_fixture():
    return measure(["mlp"], lies=40, hostile=6, seed=3, each=1)


def test_every_lie_of_the_benchmark__is_convicted_by_the_contracts(figures):
    assert figures["lies"] >= 40
    assert figures["convicted"] == figures["lies"]
    lies_by_kind = figures["programs"]["mlp"]["lies_by_kind"]
    assert {"begin", "output", "end", "update", "aggregation", "dot", "constant", "input"} <= lies_by_kind.keys()


def test_every_kind_of_committed_number__was_false_in_some_lie(figures):
    places = figures["lies_by_place"]
    states = {"state", "private state", "checkpoint", "update", "data", "table"}
    assert places.keys() == states | {"node output", "partial sum", "descriptor", "aggregation"}
    assert sum(places.values()) == figures["convicted"]


def test_the_benchmarks_figures__are_those_of_its_first_program(figures):
    for key in FIGURES:
        assert figures[key] == figures["programs"]["mlp"][key] > 0
    assert figures["gas_total"] == figures["gas_committer"] + figures["gas_challenger"]
    assert 0 < figures["gas_settlement"] < figures["gas_total"]
    assert figures["operators_covered"] == sum(op in figures["programs"]["mlp"]["lies_by_kind"] for op in TABLE)
    assert figures["operators"] == len(TABLE)
    assert figures["estimate_7b"]["pairs"] <= 12


def test_honest_work__is_convicted_by_no_hostile_exploration(figures):
    assert figures["hostile"] >= 6
    assert figures["programs"]["mlp"]["hostile_evidence"]
    assert figures["honest_convictions"] == 0


def test_delay__is_the_same_whatever_the_number_of_askers(figures):
    assert set(figures["delays_s"]) == {"1", "10", "100"}
    assert len(set(figures["delays_s"].values())) == 1
    assert max(figures["delays_s"].values()) <= figures["delay_bound_s"]


def test_a_second_challenger__of_an_explored_lie__pays_one_judgement(figures):
    assert figures["second_challenger_gas"] < 300_000
    assert figures["gas_conviction"] > 0
