"""benchmarks/disputes/dispute.py on its smallest program: lies told, moves made and judged by the contracts on anvil."""

from __future__ import annotations

import pytest

from benchmarks.disputes.dispute import measure
from repops.operators import TABLE

FIGURES = ("move_pairs", "gas_committer", "gas_challenger", "gas_total", "gas_judge_max", "wall_s")


@pytest.fixture(scope="module", name="figures")
def figures_fixture():
    return measure(["mlp"], lies=40, hostile=6, seed=3, each=1)


def test_every_lie_of_the_benchmark__is_convicted_by_the_contracts(figures):
    assert figures["lies_told"] >= 40
    assert figures["lies_convicted"] == figures["lies_told"]
    lies_by_kind = figures["programs"]["mlp"]["lies_by_kind"]
    assert {"begin", "output", "end", "update", "aggregation", "dot", "constant", "input"} <= lies_by_kind.keys()


def test_every_kind_of_committed_number__was_false_in_some_lie(figures):
    places = figures["lies_by_place"]
    states = {"state", "private state", "checkpoint", "update", "data", "table"}
    assert places.keys() == states | {"node output", "partial sum", "descriptor", "aggregation"}
    assert sum(places.values()) == figures["lies_convicted"]


def test_the_benchmarks_figures__are_those_of_its_first_program(figures):
    for key in FIGURES:
        assert figures[key] == figures["programs"]["mlp"][key] > 0
    assert figures["gas_total"] == figures["gas_committer"] + figures["gas_challenger"]
    assert 0 < figures["gas_settlement"] < figures["gas_total"]
    assert figures["operators_covered"] == sum(op in figures["programs"]["mlp"]["lies_by_kind"] for op in TABLE)
    assert figures["operators"] == len(TABLE)
    assert figures["estimate_7b"]["move_pairs"] <= 19


def test_honest_work__is_convicted_by_no_challenge_of_the_benchmark(figures):
    assert figures["hostile_challenges"] >= 6
    assert figures["programs"]["mlp"]["hostile_evidence"]
    assert figures["honest_convictions"] == 0
