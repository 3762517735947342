"""The mutation campaign's own parts: what it changes, what it draws, and that a changed contract is noticed."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("universalmutator", reason="universalmutator is not installed; `make mutate` installs it")

from tests.campaigns.mutation.mutants import Statement, generate, sampled, statements, text_of
from tests.campaigns.mutation.suites import CONTRACTS

SOURCE = '''# pragma version ==0.4.3
"""
@title Told in many lines
"""
LIMIT: constant(uint256) = 7


@external
def put(amount: uint256):
    """
    @notice Not a statement.
    """
    # Nor this.
    assert (
        amount > 0 and amount <= LIMIT  # nor this
    ), "box: out of range"
    log Put(amount=amount)


@internal
def _rest() -> uint256:
    return LIMIT
'''


def test_statements__over_several_lines__are_one_line_each_without_comments():
    lines = statements(SOURCE)
    assert Statement(14, "put", '    assert ( amount > 0 and amount <= LIMIT ), "box: out of range"') in lines
    assert Statement(22, "_rest", "    return LIMIT") in lines
    assert text_of(lines).count("\n") == len(lines) == 9
    assert "Not a statement" not in text_of(lines)


def test_generate__changes_one_statement_and_leaves_out_what_means_the_same():
    mutants = generate(SOURCE)
    after = {mutant.after.strip() for mutant in mutants if mutant.line == 14}
    assert 'assert ( amount > 0 and amount < LIMIT ), "box: out of range"' in after
    assert "pass" in after
    assert not any("amount != 0 and amount <= LIMIT" in text for text in after)
    assert not any("uint1" in mutant.after for mutant in mutants)
    changed = text_of(statements(SOURCE), next(m for m in mutants if m.before.strip().startswith("log")))
    assert len(set(changed.splitlines()) ^ set(text_of(statements(SOURCE)).splitlines())) <= 2


def test_generate__leaves_out_first_values_that_nobody_reads():
    source = "def pair() -> uint256:\n    low: uint256 = 0\n    high: uint256 = 0\n    low, high = {}\n    return low + high\n"
    never = {mutant.line for mutant in generate(source.format("self._two()")) if ": uint256 = " in mutant.after}
    read = {mutant.line for mutant in generate(source.format("self._two(high)")) if ": uint256 = " in mutant.after}
    assert (never, read) == (set(), {3})


def test_generate__leaves_out_the_decorators_of_internal_functions():
    source = "{}\n@pure\ndef one() -> uint256:\n    return 1\n"
    changed = [{mutant.line for mutant in generate(source.format(of))} for of in ("@internal", "@external")]
    assert changed == [{3, 4}, {1, 2, 3, 4}]


def test_generate__leaves_out_two_values_exchanged_whose_order_means_nothing():
    source = "def most(one: uint256, other: uint256) -> uint256:\n    return {}(one, other)\n"
    exported = generate("exports: (one.first, one.second)\n")
    assert not any({"one.first", "one.second"} <= set(re.findall(r"[\w.]+", mutant.after)) for mutant in exported)
    for function, is_left_out in (("max", True), ("words._part", True), ("float32._mul", True), ("self._max", False)):
        after = {mutant.after.replace(" ", "") for mutant in generate(source.format(function))}
        assert (f"return{function}(other,one)" in after) != is_left_out


def test_sampled__is_the_same_for_a_seed_and_begins_with_every_function():
    mutants = generate((CONTRACTS / "Datasets.vy").read_text())
    functions = {mutant.function for mutant in mutants}
    drawn = list(sampled(mutants, 1))
    assert {mutant.function for mutant in drawn[: len(functions)]} == functions
    assert sorted(drawn, key=lambda each: each.key) == sorted(mutants, key=lambda each: each.key)
    assert drawn == list(sampled(mutants, 1)) != list(sampled(mutants, 2))
