"""`zoo quote FILE`: cost and duration of a job, before any money moves."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoo_compute.amounts import Token, format_amount, format_count, format_seconds
from zoo_compute.cli.context import Command, Settings, pass_settings
from zoo_compute.cli.output import table
from zoo_compute.errors import ConfigError
from zoo_compute.spec.params import REFERENCE_FLOPS, REFERENCE_GPU

if TYPE_CHECKING:
    from zoo_compute.jobs.config import ComputeJob
    from zoo_compute.jobs.custody import CustodyTerms
    from zoo_compute.jobs.loading import JobPlan
    from zoo_compute.jobs.quote import Quote
    from zoo_compute.training.memory import MemoryNeeds

REFERENCE = f"{REFERENCE_GPU} at {format_count(REFERENCE_FLOPS, 'FLOP/s')}"


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--data", type=click.Path(exists=True, path_type=Path), help="File or folder, instead of FILE's data.")
@click.option("--max-budget", metavar="AMOUNT", help="Budget (in ZEN, or market.token); replaces the file's.")
@click.option(
    "--preset", type=click.Choice(["devnet", "production"]), help="Preset to quote for if you have no network file."
)
@pass_settings
def quote(settings: Settings, file: Path, data: Path | None, max_budget: str | None, preset: str | None) -> None:
    """Print work, price range, worst-case escrow, locks and durations of the job in FILE. Needs no account; for ZEN, no chain."""
    from zoo_compute.jobs.loading import plan_job

    show_quote(settings, plan_job(file, max_budget, data), preset)


def show_quote(settings: Settings, plan: JobPlan, preset: str | None = None) -> None:
    """Print what a job costs. preset: to quote for without a network file."""
    from zoo_compute.jobs.quote import PUBLIC, SMALL_WORK, work_unit
    from zoo_compute.jobs.quote import quote as quote_of
    from zoo_compute.spec.params import PRESETS
    from zoo_compute.training.memory import memory_needs

    preset_name = preset or _preset_of(settings)
    if plan.job.known_token is None:
        _ask_chain(settings, plan.job)
    money = plan.job.token
    if plan.job.data.on_network is not None:
        settings.say(
            f"dataset {plan.job.data.on_network} is not fetched: the quote assumes text, {plan.job.context} tokens an example"
        )
    priced, unit = quote_of(plan.job, PRESETS[preset_name]), work_unit(plan.job)
    meeting, lacks = _meeting(settings, plan.job, priced)
    prices, budget = plan.job.prices, plan.budget
    memory = memory_needs(plan.job.traced.graph, plan.job.profile)
    covered = budget is None or budget >= priced.most
    generation = plan.job.generation
    items = None if plan.job.map is None else len(generation.prompts if generation else plan.job.items)
    noun, each = ("items", "an item") if generation is None else ("texts", "a text")
    facts = {
        **priced.to_dict(),
        "preset": preset_name,
        "budget": None if budget is None else str(budget),
        "covered": covered,
        "operators": meeting,
        "memory": asdict(memory),
        "items": items,
        "warnings": [*priced.warnings, *lacks],
        "prices": {key: str(value) for key, value in prices._asdict().items()},
    }
    rows = [
        ("model", f"{priced.parameters:,} parameters"),
        (
            "work",
            f"{priced.rounds} rounds of {priced.slots} slots, {priced.inner_steps} steps each = {priced.steps:,} steps",
        ),
        ("", f"{format_count(priced.tokens)} {unit}, {format_count(priced.flops, 'FLOP')}"),
        ("memory", _memory_line(memory)),
        ("network", _network_line(priced.update_bytes, priced.checkpoint_bytes)),
        ("checkpoints", _kept_line(priced, plan.job.checkpoint.redundancy))
        if items is None
        else ("outputs", f"of {items:,} {noun}, {_about(priced.expected // items, money)} {each}"),
        ("price", f"{money.format(prices.reserve)} to {money.format(prices.max_price)} a slot-round"),
        (
            "aggregator",
            f"{money.format(prices.aggregator_reserve)} to {money.format(prices.aggregator_max_price)} a round"
            + (f", each of {aggregators}" if (aggregators := plan.job.aggregation.aggregators) > 1 else ""),
        ),
        (
            "escrow",
            f"{money.format(priced.escrow)} at worst, of which the treasury's fee is {money.format(priced.fee)}",
        ),
        (
            "deposit",
            f"{format_amount(priced.posting_deposit, '')} coin or more beside it, as gas costs; it comes back when the job ends",
        ),
        (
            "expected",
            f"{money.format(priced.expected)}, if the auction clears at the first reserve; unspent escrow comes back",
        ),
        *([] if SMALL_WORK in priced.warnings else _unit_prices(priced, unit, money)),
        *([("custody", _custody_line(priced.custody, money))] if priced.custody else []),
        *([("operators", f"need {', '.join(priced.requirements)}")] if priced.requirements else []),
        *([("", meeting)] if meeting else []),
        ("public", PUBLIC),
        ("budget", _budget_line(budget, covered, priced.most, money)),
        ("locks", _locks_line(priced, money)),
        (
            "auction",
            _auction_line(priced),
        ),
        (
            "round",
            f"{format_seconds(priced.round_longest_s)} at most; final {format_seconds(priced.window_s)} after its claims",
        ),
        ("pace", f"at most {priced.depth} rounds in {format_seconds(priced.window_s)}; limits.depth raises that"),
        ("total", f"{format_seconds(priced.longest_s)} at most without disputes, on preset {preset_name}"),
        *(("warning", text) for text in [*priced.warnings, *lacks]),
    ]
    settings.emit(facts, table(rows))


def _kept_line(priced: Quote, stores: int) -> str:
    every = f"one every {priced.checkpoint_every_steps:,} steps and the last"
    return f"{every} are kept after the job, on {stores} stores"


def _unit_prices(priced: Quote, unit: str, money: Token) -> list[tuple[str, str]]:
    """Which say nothing of a job so small that its price is not its work's."""
    return [
        ("", f"{_about(priced.per_gpu_hour, money)} a GPU-hour, of {_hours(priced.gpu_hours)} on an {REFERENCE}"),
        ("", f"{_about(priced.per_million_tokens, money)} a million {unit}"),
        ("", f"{_about(priced.per_pflop, money)} a PFLOP, {_about(priced.per_pflop_day, money)} a PFLOP-day"),
    ]


def _meeting(settings: Settings, job: ComputeJob, priced: Quote) -> tuple[str | None, list[str]]:
    """How many operators of the network are what the job asks for, and what they are too few for. Without a network: None."""
    from zoo_compute.jobs.shortfall import JobRequirements, meeting_line, offers, shortfall

    asks = job.requirements.word
    if not asks:
        return None, []
    try:
        settings.network()
    except ConfigError:
        if settings.network_file:
            raise
        settings.say("no network file: how many operators meet the requirements is not known (give --network)")
        return None, []
    offered = offers(settings.client(with_account=False).chain, job.token.address or None, asks=asks)
    needs = JobRequirements(priced.slots, None, priced.lock_slot, priced.lock_once, job.flops, asks)
    return meeting_line(offered), shortfall(needs, offered)


def _locks_line(priced: Quote, money: Token) -> str:
    """What operators lock, not the submitter."""
    once = f" and {money.format(priced.lock_once)} besides" if priced.lock_once else ""
    aggregator = f"{money.format(priced.lock_aggregator)} by the aggregator's"
    return f"{money.format(priced.lock_slot)} a slot{once} by an operator's bid, {aggregator}, at the first reserve"


def _auction_line(priced: Quote) -> str:
    once = format_seconds(priced.auction_s)
    if priced.attempts == 1:
        return f"{once}; the first auction is already at the maximum price"
    return (
        f"{once}; up to {priced.attempts} auctions, {format_seconds(priced.auction_longest_s)}, until the maximum price"
    )


def _hours(hours: float) -> str:
    return f"{hours:,.1f} GPU-hours" if hours >= 0.1 else format_seconds(max(0.1, hours * 3_600))


def _ask_chain(settings: Settings, job: ComputeJob) -> None:
    """Read the token's decimals from the chain. Without a network file, `job.token` raises an error that says what to do."""
    try:
        settings.network()
    except ConfigError:
        if settings.network_file:
            raise
        _ = job.token
    settings.client(with_account=False).pay_in_token_of(job)


def _about(units: int, money: Token) -> str:
    """An amount to three significant digits: prices per unit of work are ratios."""
    places = max(0, len(str(units)) - 3)
    return "about " + money.format(round(units, -places), places=money.decimals)


def _memory_line(memory: MemoryNeeds) -> str:
    plain, recomputed, in_files = (
        format_count(size, "B") for size in (memory.plain, memory.recomputed, memory.in_files)
    )
    how = (
        f"{recomputed} on a CPU with recomputation ({memory.slower:.0%} slower), {in_files} with its state in files too"
    )
    return f"about {plain} of a worker beside the data; {how}"


def _network_line(update_bytes: int, checkpoint_bytes: int) -> str:
    from zoo_compute.spec.schedule import send_ms

    less = checkpoint_bytes / max(1, update_bytes)
    compared = f", {less:.0f} times less than float32" if less > 1 else ""
    sent_s = max(0.1, send_ms(update_bytes, 100_000) / 1_000)
    return f"about {format_count(update_bytes, 'B')} a slot-round{compared}: {format_seconds(sent_s)} at 100 Mbit/s"


def _custody_line(custody: CustodyTerms, money: Token) -> str:
    from zoo_compute.jobs.custody import HOSTILE

    chances = " or ".join(
        f"{chance:.2%} where {float(share):.0%} of the stake is hostile"
        for share, chance in zip(HOSTILE, custody.capture, strict=True)
    )
    held = f"{money.format(custody.cost)} for {custody.custodians} custodians, beside the escrow"
    return f"{held}; {custody.majority} of them could collude with a chance of {chances}"


def _budget_line(budget: int | None, covered: bool, escrow: int, money: Token) -> str:
    if budget is None:
        return "none; the file's prices apply"
    return f"{money.format(budget)} {'covers the worst case' if covered else f'does NOT cover it: {money.format(escrow - budget)} short'}"


def _preset_of(settings: Settings) -> str:
    try:
        return settings.network().preset
    except ConfigError:
        if settings.network_file:
            raise
        settings.say("no network file: the quote uses the production preset (choose with --preset)")
        return "production"
