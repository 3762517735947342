"""benchmarks/disputes/dispute.py on its smallest program: lies told, moves made and judged by the contracts on anvil."""

from __future__ import annotations

import pytest

from benchmarks.disputes.dispute import measure
from repops.operators import TABLE

FIGURES = ("move_pairs", "gas_committer", "gas_challenger", "gas_total", "gas_judge_max", "wall_s")


@pytest.fixture(scope="module", name="found")
def found_fixture():
    return measure(["mlp"], lies=40, hostile=6, seed=3, each=1)


def test_every_lie_of_the_benchmark__is_convicted_by_the_contracts(found):
    assert found["lies_told"] >= 40
    assert found["lies_convicted"] == found["lies_told"]
    told = found["programs"]["mlp"]["lies_by_kind"]
    assert {"begin", "output", "end", "update", "aggregation", "dot", "constant", "input"} <= told.keys()


def test_every_kind_of_committed_number__was_false_in_some_lie(found):
    places = found["lies_by_place"]
    states = {"state", "private state", "checkpoint", "update", "data", "table"}
    assert places.keys() == states | {"node output", "partial sum", "descriptor", "aggregation"}
    assert sum(places.values()) == found["lies_convicted"]


def test_the_benchmarks_figures__are_those_of_its_first_program(found):
    for key in FIGURES:
        assert found[key] == found["programs"]["mlp"][key] > 0
    assert found["gas_total"] == found["gas_committer"] + found["gas_challenger"]
    assert 0 < found["gas_settlement"] < found["gas_total"]
    assert found["operators_covered"] == sum(op in found["programs"]["mlp"]["lies_by_kind"] for op in TABLE)
    assert found["operators"] == len(TABLE)
    assert found["estimate_7b"]["move_pairs"] <= 19


def test_honest_work__is_convicted_by_no_challenge_of_the_benchmark(found):
    assert found["hostile_challenges"] >= 6
    assert found["programs"]["mlp"]["hostile_evidence"]
    assert found["honest_convictions"] == 0
