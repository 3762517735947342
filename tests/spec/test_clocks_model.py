"""The model of the clocks: every bound is reached and never passed, and every wrong rule is noticed."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.campaigns.clocks import model
from tests.campaigns.clocks.exhaustive import SETTINGS, play_all, play_side
from tests.campaigns.clocks.model import Setting, Side, Violation
from tests.campaigns.clocks.mutants import MUTANTS
from tests.campaigns.clocks.trees import claims, shapes, with_lies

SMALL = 2  # places


@cache
def violation_of(side: Side, name: str, places: int = SMALL) -> str | None:
    """What the model says of a mutant, without its numbers."""
    try:
        play_side(side, places, SETTINGS if places == SMALL else SETTINGS[:1], MUTANTS[name])
    except Violation as violation:
        return re.sub(r"\d+", "#", str(violation))
    return None


def test_trees__are_all_there_once() -> None:
    assert [len(set(shapes(places))) for places in range(1, 8)] == [1, 1, 2, 4, 9, 20, 48]  # OEIS A000081: rooted trees
    assert [len(shapes(places)) for places in range(1, 8)] == [1, 1, 2, 4, 9, 20, 48]
    assert len(claims(4)) == 1 + 2 + 4 + 9
    two_leaves = (0, 0, ((0, 0, ()), (0, 0, ())))
    assert len(list(with_lies(two_leaves))) == 2  # one leaf is false, or both


def test_all_disputes_of_two_places__reach_every_bound_and_pass_none() -> None:
    for side, totals in play_all(SMALL).items():
        assert totals.plays > 900
        assert side is Side.LIE or totals.bounds_reached > 10


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_rule__is_noticed(name: str) -> None:
    assert any(violation_of(side, name) for side in Side) or violation_of(Side.LIE, name, places=3)


def test_every_demand_of_the_model__is_seen_to_fail() -> None:
    source = Path(model.__file__).read_text() + Path(play_all.__code__.co_filename).read_text()
    demands = {re.sub(r"\{[^}]*\}", "#", text) for text in re.findall(r'Violation\(\s*f?"([^"]+)"', source)}
    seen = {violation_of(side, name) for side in Side for name in MUTANTS} - {None}
    assert len(demands) == 10
    assert demands == seen


@pytest.mark.long
@pytest.mark.parametrize(("places", "settings"), [(3, SETTINGS), (4, SETTINGS[:1])])
def test_all_disputes_of_three_and_four_places__reach_every_bound_and_pass_none(
    places: int, settings: tuple[Setting, ...]
) -> None:
    for totals in play_all(places, settings).values():
        assert totals.plays > 10_000
