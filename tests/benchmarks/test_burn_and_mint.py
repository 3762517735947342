"""The month of burn and mint: what it checks after each day can fail, and what it plays is what it says."""

import json

import pytest

from benchmarks.economy import month
from benchmarks.economy.month import CROWD, PRESET, RESULT, SILENT, Month
from zoo_compute.spec import credits
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.state import MintEpoch, World


def test_the_recorded_month__has_thirty_days_a_silence_and_a_crowd() -> None:
    result = json.loads(RESULT.read_text())
    days = result["by_day"]
    assert [day["day"] for day in days] == list(range(30))
    assert all(day["refused"] > 0 or day["day"] == SILENT.start for day in days if day["day"] in SILENT)
    assert all(day["rate"] == days[SILENT.start - 1]["rate"] for day in days if day["day"] in SILENT)
    assert sum(day["accepted"] > PRESET.mint_per_epoch for day in days if day["day"] in CROWD) >= 2
    assert result["wash_profit"] < 0 < result["minted"] <= result["accepted"]
    assert 0 <= result["minted"] - result["claimed"] < 1_000


def test_a_week__is_the_same_for_the_same_seed_and_goes_through() -> None:
    first, second = Month(7), Month(7)
    first.run(3)
    second.run(3)
    assert first.days == second.days
    assert sum(day.jobs for day in first.days) > 0


def test_a_mint_without_its_cap__fails_the_days_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncapped(w: World, account: str, net: int, fee: int, *, now: int) -> None:
        record(w, account, net, fee, now=now)
        epoch = credits.epoch_of(w, now)
        total = w.mint_epochs[epoch]
        w.mint_epochs[epoch] = MintEpoch(total.accepted, total.budget + ZEN, total.paid)
        w.mint_pool -= ZEN

    record = credits.record
    monkeypatch.setattr(credits, "record", uncapped)
    monkeypatch.setattr("tests.support.lockstep.stage.check_invariants", lambda world: None)
    with pytest.raises(AssertionError, match=r"for work worth|minted more than its work used up"):
        Month(7).run(3)


def test_a_self_dealer_that_profits__fails_the_days_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(month, "worth", lambda s, names: s.world.zen_burned)
    with pytest.raises(AssertionError, match="wash work earned"):
        Month(1).run(2)
