"""Late updates: none change nothing; one that is counted moves the next checkpoint, one that is left out does not."""

from __future__ import annotations

import pytest

from benchmarks.training.byzantine import Lab, digits
from benchmarks.training.late import score


@pytest.fixture(scope="module")
def lab() -> Lab:
    return digits(0, 3, 4)


def test_where_nobody_is_late__a_discount_changes_nothing(lab: Lab) -> None:
    assert score(lab, 0.0, 0.0, 0) == score(lab, 0.0, 1.0, 0)


def test_late_updates__are_lost_or_counted(lab: Lab) -> None:
    assert len({score(lab, chance, discount, 0) for chance, discount in ((0.0, 0.0), (0.6, 0.0), (0.6, 1.0))}) == 3


def test_where_all_are_late__nothing_is_learned_unless_they_are_counted(lab: Lab) -> None:
    begun = lab.score(lab.tensors)
    assert score(lab, 1.0, 0.0, 0) == begun
    assert score(lab, 1.0, 1.0, 0) < begun
