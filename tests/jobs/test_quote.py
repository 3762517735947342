"""Amounts, GPU names, configurations and quotes: everything that is decided before a chain is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keepers.config import Settings
from zoo_compute.amounts import WEI, ZEN, format_amount, format_count, format_seconds, parse_amount
from zoo_compute.errors import UserError
from zoo_compute.formats.manifest import JobError
from zoo_compute.gpus import check_memory, class_named, class_of, format_hours, parse_hours, parse_memory
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.loading import plan_job
from zoo_compute.jobs.quote import BudgetTooSmall, attempts_to_maximum, outline_terms, price_lines, quote
from zoo_compute.spec.durations import longest_rounds_s
from zoo_compute.spec.params import DEVNET, LEAST_PRICE, PRODUCTION, REFERENCE_FLOPS, escrow
from zoo_compute.spec.pricing import RevealedBid, critical_prices

SECTIONS: dict[str, Any] = {
    "model": {"layers": 2, "heads": 2, "width": 64, "context": 64},
    "training": {"learning_rate": 0.001, "batch_size": 8, "inner_steps": 10, "rounds": 4, "slots": 6},
    "limits": {"slot_s": 60, "aggregate_s": 30},
    "market": {"reserve": 1, "max_price": 2, "aggregator_max_price": 1},
}


ASKED = LEAST_PRICE


def sections(**changes: Any) -> dict[str, Any]:
    return {**SECTIONS, **changes}


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("1", WEI),
        ("0.1", WEI // 10),
        (0.1, WEI // 10),
        ("1_000 ZEN", 1000 * WEI),
        (5000, 5000 * WEI),
        ("1e3", 1000 * WEI),
        ("7wei", 7),
        (".5", WEI // 2),
    ],
)
def test_amount__as_written__is_taken_exactly(text: Any, units: int) -> None:
    assert parse_amount(text) == units


@pytest.mark.parametrize(
    "text", ["", "-1", "ten", "1.0000000000000000001", "nan", "inf", "1e60", "1,5", "0.5wei", "1__0"]
)
def test_amount__that_is_none__is_refused(text: str) -> None:
    with pytest.raises(UserError, match="amount"):
        parse_amount(text)


@pytest.mark.parametrize("units", [0, 1, 999, WEI // 3, WEI, 123_456 * WEI + 1, 2**100])
def test_exact__is_read_back_without_loss(units: int) -> None:
    assert parse_amount(ZEN.exact(units) if units >= 1 else "0") == units


def test_format_amount__says_when_digits_were_left_off() -> None:
    assert format_amount(1_500 * WEI + WEI // 2) == "1,500.5 ZEN"
    assert format_amount(WEI // 3) == "~0.333333 ZEN"
    assert format_amount(5) == "5 wei"
    assert format_amount(0) == "0 ZEN"


def test_format_seconds_and_counts__read_like_people_write() -> None:
    assert [format_seconds(s) for s in (8, 125, 3600, 11_400, 187_200)] == [
        "8 s",
        "2 min 5 s",
        "1 h",
        "3 h 10 min",
        "2 d 4 h",
    ]
    assert format_count(96_636_764_160, "FLOP") == "96.6 GFLOP"


def test_gpu__mistyped__is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="unknown GPU 'rtx409'") as refused:
        class_of("rtx409")
    assert "rtx4090" in refused.value.hint
    assert "--gpu-class" in refused.value.hint


def test_memory__below_the_class__is_refused_with_what_fits() -> None:
    assert (parse_memory("24GB"), parse_memory("16384MB"), parse_memory("24")) == (24, 16, 24)
    with pytest.raises(UserError, match="memory should be"):
        parse_memory("lots")
    with pytest.raises(UserError, match="at least 40 GB") as refused:
        check_memory(class_named("datacenter"), 24)
    assert "consumer or professional" in refused.value.hint
    check_memory(class_of("a100"), 40)


@pytest.mark.parametrize(("round_s", "window_s"), [(10, 5), (10, 30), (10, 31), (10, 7_200), (1, 1)])
@pytest.mark.parametrize("depth", [1, 2, 4, 64])
def test_longest_rounds__wait_for_the_windows_of_depth_rounds_before(depth: int, round_s: int, window_s: int) -> None:
    closes: list[int] = []
    for n in range(70):
        free = closes[n - depth] + window_s if n >= depth else 0
        closes.append(max(free, closes[-1] if closes else 0) + round_s)
        assert longest_rounds_s(n + 1, depth, round_s, window_s) == closes[-1]


def test_quote__adds_up_as_the_protocol_says() -> None:
    job = ComputeJob.from_dict(sections())
    priced = quote(job, DEVNET)
    assert priced.escrow == (2 * 6 + 1) * 4 * WEI == escrow(outline_terms(job))
    assert priced.at_reserve == (1 * 6 + 1) * 4 * WEI
    assert priced.fee == priced.escrow // 20
    # p = 5 % * 2/3 honest * 1/2 diligent = 1/60: a lock of (1 - p) / (0.6 p) = 295/3 prices, and W of four rounds.
    assert priced.lock_slot == -(-1 * WEI * 295 // 3)
    assert priced.lock_aggregator == priced.lock_slot + 4 * (6 * 2 + 1) * WEI
    assert priced.lock_once in (0, 4 * (6 * 2 + 1) * WEI)
    assert (priced.steps, priced.tokens) == (4 * 6 * 10, 4 * 6 * 10 * 8 * 64)
    assert priced.flops == job.flops * 24
    assert (priced.auction_s, priced.attempts, priced.auction_longest_s) == (18, 5, 90)
    assert priced.longest_s == 90 + 20 + 4 * (2 * 60 + 30) + 3 * 30
    assert priced.update_bytes == priced.checkpoint_bytes == 4 * priced.parameters
    sparse = quote(ComputeJob.from_dict(sections(compression={"keep": 64, "bits": 2})), DEVNET)
    assert 150 < sparse.checkpoint_bytes / sparse.update_bytes < 220
    assert quote(job, PRODUCTION).window_s == 7_200
    assert all(isinstance(priced.to_dict()[key], str) for key in ("escrow", "fee", "lock_slot"))


def test_quote__shows_what_a_unit_of_work_costs() -> None:
    job = ComputeJob.from_dict(sections())
    priced = quote(job, DEVNET)
    answer = priced.to_dict()
    assert priced.expected == priced.at_reserve == 28 * WEI
    assert priced.gpu_hours == pytest.approx(priced.flops / REFERENCE_FLOPS / 3_600)
    assert int(answer["per_gpu_hour"]) / WEI == pytest.approx(28 / priced.gpu_hours)
    assert int(answer["per_million_tokens"]) / WEI == pytest.approx(28e6 / priced.tokens)
    assert int(answer["per_pflop"]) / WEI == pytest.approx(28 / (priced.flops / 1e15))
    assert int(answer["per_pflop_day"]) / WEI == pytest.approx(86_400 * 28 / (priced.flops / 1e15))
    assert answer["expected"] == str(28 * WEI)
    assert answer["token"] == {"symbol": "ZEN", "decimals": 18, "address": ""}


def test_quote__of_a_reserve_that_is_the_maximum__warns() -> None:
    equal = quote(
        ComputeJob.from_dict(sections(market={"reserve": 2, "max_price": 2, "aggregator_reserve": 1})), DEVNET
    )
    assert "the reserve of a slot-round equals its maximum, 2 ZEN" in equal.warnings[0]
    assert not any("aggregation" in text for text in equal.warnings)
    apart = quote(ComputeJob.from_dict(sections(market={"reserve": 1, "max_price": 2})), DEVNET)
    assert not any("equals" in text for text in apart.warnings)


def test_quote__of_a_maximum_below_what_operators_ask__says_that_nobody_may_bid() -> None:
    low = quote(ComputeJob.from_dict(sections(market={"max_price": 0.3, "aggregator_max_price": 1})), DEVNET)
    warnings = [text for text in low.warnings if "perhaps nobody bids" in text]
    assert len(warnings) == 1
    assert "operators usually ask 1 ZEN, and this job pays at most 0.3 ZEN for a slot-round" in warnings[0]
    usual = quote(ComputeJob.from_dict(sections(market={"max_price": 1, "aggregator_max_price": 1})), DEVNET)
    assert not any("perhaps nobody bids" in text for text in usual.warnings)


def test_what_is_said_before_a_job_is_posted__is_what_it_pays_and_whether_that_is_too_little() -> None:
    low, *warnings = price_lines(ComputeJob.from_dict(sections(market={"max_price": 0.3, "aggregator_max_price": 1})))
    assert low == "pays at most 0.3 ZEN a slot-round and 1 ZEN an aggregation"
    assert any(text.startswith("warning: operators usually ask 1 ZEN") for text in warnings)
    fine = ComputeJob.from_dict(sections(market={"reserve": 1, "max_price": 2, "aggregator_max_price": 2}))
    assert price_lines(fine) == ["pays at most 2 ZEN a slot-round and 2 ZEN an aggregation"]


def test_quote__of_a_small_job__says_that_it_pays_for_slot_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    job = ComputeJob.from_dict(sections(market={"reserve": 1, "max_price": 2}))
    assert any("more inner_steps cost less" in text for text in quote(job, DEVNET).warnings)
    monkeypatch.setattr(ComputeJob, "flops", 3_600 * REFERENCE_FLOPS)
    assert quote(job, DEVNET).warnings == []


@pytest.mark.parametrize("budget", [50, 60, 5_000])
def test_the_readme_s_job__clears_at_once_where_operators_ask_one_zen__and_pays_that(budget: int) -> None:
    training = {"learning_rate": 0.001, "batch_size": 8, "inner_steps": 20, "rounds": 4, "slots": 4}
    prices = plan_job({"model": SECTIONS["model"], "training": training}, budget).job.prices
    alone = [RevealedBid(1, ASKED, 0, 4)]
    assert prices.reserve >= ASKED
    assert prices.aggregator_reserve >= ASKED
    assert critical_prices(alone, 4, prices.reserve) == {1: ASKED}
    rivals = [RevealedBid(1, ASKED // 2, 0, 4), RevealedBid(2, ASKED * 6 // 10, 0, 4)]
    assert critical_prices(rivals, 4, prices.reserve) == {1: ASKED * 6 // 10}


def test_what_operators_ask_unless_they_decide_otherwise__is_the_least_reserve() -> None:
    asked = Settings(name="alpha", network="network.json", operator=1)
    assert {parse_amount(asked.price), parse_amount(asked.aggregator_price)} == {LEAST_PRICE}


def test_attempts__of_a_reserve_too_small_to_grow__end() -> None:
    assert attempts_to_maximum(1, 100) == 1
    assert attempts_to_maximum(100, 100) == 1
    assert attempts_to_maximum(100, 125) == 2


def test_budget__below_the_reserve_or_the_worst_case__is_refused_with_both_numbers() -> None:
    with pytest.raises(BudgetTooSmall, match=r"20 ZEN is below the reserve.*28 ZEN.*52 ZEN") as refused:
        plan_job(sections(), 20).check_budget()
    assert "--max-budget 52" in refused.value.hint
    with pytest.raises(BudgetTooSmall, match=r"51\.999999.* is below the worst case of 52 ZEN"):
        plan_job(sections(), ZEN.exact(52 * WEI - 1)).check_budget()
    plan_job(sections(), 52).check_budget()


def test_plan__without_prices__derives_them_within_the_budget() -> None:
    plan = plan_job({key: value for key, value in SECTIONS.items() if key != "market"}, 100)
    plan.check_budget()
    assert plan.job.escrow <= 100 * WEI


def test_plan__of_a_compute_job__keeps_it_and_takes_the_overrides(tmp_path: Path) -> None:
    job = ComputeJob.from_dict(sections(budget_max=60, data={"path": "texts"}), directory=tmp_path)
    plan = plan_job(job)
    assert plan.job is job
    assert plan.budget == 60 * WEI
    assert plan.job.data_paths() == [tmp_path / "texts"]
    other = tmp_path / "other.txt"
    assert plan_job(job, 70, other).job.data_paths() == [other]
    assert plan_job(job, 70).budget == 70 * WEI


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training: {lerning_rate: 1.0}", "training: unknown key 'lerning_rate'; did you mean 'learning_rate'"),
        ("trainig: {}", "unknown section 'trainig'; did you mean 'training'"),
        ("training: {layers: 2}", "it belongs to 'model'"),
        ("- 1", "expected the sections"),
        ("a: [", "not YAML or JSON"),
    ],
)
def test_plan__of_a_wrong_file__names_file_and_cause(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "job.yaml"
    prefix = "" if text.startswith(("-", "a:", "trainig")) else "model: {layers: 2, heads: 2, width: 64, context: 64}\n"
    path.write_text(prefix + text)
    with pytest.raises(JobError) as refused:
        plan_job(path)
    assert str(path) in str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "hours", "formatted"),
    [
        ("", [], "no hours"),
        ("0-23", list(range(24)), "hours 0-23"),
        ("22, 8-10,9", [8, 9, 10, 22], "hours 8-10, 22"),
        ("5", [5], "hours 5"),
    ],
)
def test_hours__as_written__are_periods_of_an_epoch(text: str, hours: list[int], formatted: str) -> None:
    assert parse_hours(text) == hours
    assert format_hours(hours) == formatted


@pytest.mark.parametrize("text", ["24", "9-8", "x", "1-", "-1", "1-2-3"])
def test_hours__that_are_none__are_refused(text: str) -> None:
    with pytest.raises(UserError, match="not an hour or a range of hours"):
        parse_hours(text)


def test_terms_of_an_outline__have_the_work_of_the_traced_step() -> None:
    """`zoo node estimate FILE` divides it by a speed: a placeholder made power and time nothing."""
    sections = {
        "model": {"layers": 1, "heads": 2, "width": 8, "context": 16},
        "data": {"path": "text.txt"},
        "training": {"learning_rate": 0.001, "batch_size": 2, "inner_steps": 10, "rounds": 4, "slots": 3},
    }
    job = ComputeJob.from_dict(sections)
    assert outline_terms(job, job.profile).flops == job.flops > 10_000
