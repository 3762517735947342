"""The benchmark of keepers in miniature, with real processes: what it times and counts happens, and the figures are those of what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.network import keeper_answers, keeper_reactions
from benchmarks.soak import soak

pytestmark = [pytest.mark.integration, pytest.mark.network]


def test_reactions__of_keepers_are_timed(tmp_path: Path) -> None:
    report = keeper_reactions.measured(tmp_path, events=3)
    assert report["reactions"] >= 3
    assert report["reaction_by_kind"]["demand"]["count"] >= 1
    assert 0 < report["reaction_p50_s"] <= report["reaction_p99_s"]


def test_answers__of_a_keeper_share_a_block(tmp_path: Path) -> None:
    rounds = 2
    report = keeper_answers.measured(tmp_path, rounds)
    assert report["answers_asked"] == 3 * rounds, "a demand of each claim, and an ask about each on results"
    assert report["answers_per_block"] > rounds
    assert report["answers_by_kind"]["asks"] >= 1
    assert report["answers_missed"] == 0


def test_a_soak__attacks_keepers_and_they_lose_nothing(tmp_path: Path) -> None:
    report = soak.measured(tmp_path, minutes=1.5, beside=3)
    assert report["soak_jobs"] >= 3
    assert report["claims_paid"] >= 4 * report["soak_jobs"]
    assert {"demands", "without files", "wrong ipfs"} <= set(report["hostile"])
    lost = (report["deadlines_missed"], report["payments_lost_or_doubled"], report["honest_slashes"])
    assert lost == (0, 0, 0), report["notes"]
    assert report["rss_mb"]["alpha/keeper"] > 0
