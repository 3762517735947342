"""The numbers of the specification are those of docs/protocol/numbers.md, read from its table."""

import re
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo_compute.spec import params
from zoo_compute.spec.clocks import ClockPreset
from zoo_compute.spec.params import DEVNET, GPU_CLASSES, PRESETS, PRODUCTION, ZEN, Preset, Terms

TEXT = (Path(__file__).parents[2] / "docs" / "protocol" / "numbers.md").read_text(encoding="utf-8")
TERMS = Terms("zen", b"", b"", b"", b"", 3, 4, 2, 100, 160, 50, 80, 30, 15, 5, 1, 4, 0, 500)


def amount(cell: str) -> int:
    number = int(re.sub(r"[^0-9]", "", cell))
    return number * ZEN if "ZEN" in cell else number


@pytest.mark.parametrize("field", [field.name for field in fields(Preset) if field.name not in ("name", "clocks")])
def test_presets_are_those_of_the_text(field: str) -> None:
    row = re.search(rf"^\| `{field}` \| ([^|]*) \| ([^|]*) \|", TEXT, re.MULTILINE)
    assert row, f"docs/protocol/numbers.md has no row for {field}"
    assert (getattr(DEVNET, field), getattr(PRODUCTION, field)) == (amount(row[1]), amount(row[2]))


@pytest.mark.parametrize(("preset", "block_s"), [(DEVNET, 1), (PRODUCTION, 12)])
def test_presets__leave_the_time_to_replace_silent_custodians(preset: Preset, block_s: int) -> None:
    """They lapse, others offer, and are drawn; within `aggregate_s`, which a turn has besides, they download what they sign for."""
    lapse_s, offers_s, draw_s = preset.answer_s, preset.answer_s, (preset.draw_blocks + 2) * block_s
    assert lapse_s + offers_s + draw_s <= preset.ready_window_s


# Equal in every deployment.
FIXED_CLOCKS = ("counted_reexecutions", "aged_factor")


@pytest.mark.parametrize("field", [field.name for field in fields(ClockPreset) if field.name not in FIXED_CLOCKS])
def test_clocks_are_those_of_the_text(field: str) -> None:
    """A row may have several names, and as many numbers."""
    row = re.search(rf"^\| ([^|]*`{field}`[^|]*) \| ([^|]*) \| ([^|]*) \|", TEXT, re.MULTILINE)
    assert row, f"docs/protocol/numbers.md has no row for {field}"
    at = re.findall(r"`(\w+)`", row[1]).index(field)
    expected = getattr(DEVNET.clocks, field), getattr(PRODUCTION.clocks, field)
    assert expected == tuple(amount(cell.split(", ")[at]) for cell in (row[2], row[3]))


def test_presets_are_found_by_name() -> None:
    assert {name: preset.name for name, preset in PRESETS.items()} == {"devnet": "devnet", "production": "production"}


def test_gpu_classes_are_those_of_the_text() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \| (\d) \| (\d+) \| (\d+) \|", TEXT, re.MULTILINE)
    expected = [(c.name, str(c.id), str(c.least_vram_gb), str(c.multiplier_percent)) for c in GPU_CLASSES.values()]
    assert rows == expected
    assert list(GPU_CLASSES) == [c.id for c in GPU_CLASSES.values()]


@given(price=st.integers(1, 2**80), audit_bps=st.integers(200, 10_000))
@settings(derandomize=True)
def test_a_lie_costs_what_it_earns_however_seldom_results_are_drawn(price: int, audit_bps: int) -> None:
    """Found with chance p it loses 0.6 of its lock and the price; else it earns the price."""
    p = Fraction(audit_bps, 10_000) * Fraction(2, 3) * Fraction(1, 2)
    lock = params.lock_of(price, audit_bps)
    assert p * Fraction(6, 10) * lock >= (1 - p) * price > p * Fraction(6, 10) * (lock - 1)
    assert lock >= 2 * price
    assert lock < 2**96


def test_locks_cover_what_may_rest_on_a_claim() -> None:
    for rounds, covered in ((1, 1), (3, 3), (4, 4), (5, 4), (10_000, 4)):
        terms = replace(TERMS, rounds=rounds)
        restitution = covered * (4 * 160 + 80)
        assert params.restitution(terms) == restitution
        assert [params.lock_once(replace(terms, policy=policy)) for policy in (0, 1, 2, 7)] == [0, restitution] * 2


@given(price=st.integers(1, 2**80 - 1), steps=st.integers(0, 10_000), most=st.integers(1, 2**80 - 1))
@settings(derandomize=True)
def test_a_vacant_seat_rises_with_each_step_until_the_maximum(price: int, steps: int, most: int) -> None:
    price = min(price, most)
    now, then = (params.vacant_price(price, n, most) for n in (steps, steps + 1))
    assert price <= now <= then <= most
    assert then == min(most, -(-now * 11 // 10))
    assert params.vacant_price(price, 600, most) == most, "which the contract counts to"


def test_escrow_covers_every_round_at_the_highest_prices() -> None:
    assert params.escrow(TERMS) == (160 * 4 + 80) * 3


def test_a_claims_window_is_three_re_executions_and_at_least_the_presets() -> None:
    assert [params.window_s(DEVNET, seconds, 1) for seconds in (1, 3, 4)] == [10, 10, 12]
    assert params.window_s(PRODUCTION, 1, 1) == 7_200
    assert params.window_s(PRODUCTION, 3_000, 4) == 4 * 9_000


def test_a_dearer_round_has_longer_windows_up_to_four() -> None:
    price = 4 * 160 + 80
    values = (0, price + 1, price, price // 2 + 1, price // 2, price // 3, price // 4, 1)
    assert [params.windows(TERMS, value) for value in values] == [1, 1, 2, 2, 3, 4, 4, 4]


def test_rounding_of_the_fee_favours_the_treasury() -> None:
    # The payee gets 95 % rounded down: of 19 that is 18, so one unit is the fee, 5.3 % of it.
    assert [params.fee_of(amount) for amount in (0, 1, 19, 20, 100)] == [0, 1, 1, 1, 5]


def test_the_reserve_grows_by_a_quarter_up_to_its_maximum() -> None:
    assert [params.grown_reserve(reserve, 130) for reserve in (1, 4, 100, 110, 130)] == [1, 5, 125, 130, 130]


def test_a_slash_is_a_tenth_rounded_down() -> None:
    assert [params.slash_of(lock) for lock in (9, 10, 19, 960)] == [0, 1, 1, 96]


def test_work_is_worth_the_reference_price_of_its_gpu_hours() -> None:
    hour = 3_600 * params.REFERENCE_FLOPS
    assert params.gpu_seconds(hour) == 3_600
    assert params.reference_price(10 * hour) == 10 * params.TIERS[1].reference_price
    assert params.reference_price(10**15) == 138_888_888_888_888_889  # a PFLOP
    assert [params.reference_price(flops) for flops in (0, 1)] == [0, 139]


def test_a_default_reserve_is_never_below_what_operators_ask() -> None:
    assert params.default_reserve(1) == params.LEAST_PRICE
    assert params.default_reserve(10**18) == params.reference_price(10**18) > params.LEAST_PRICE
