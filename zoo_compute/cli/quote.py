"""`zoo quote FILE`: what a job costs and takes, before any money moves."""

from __future__ import annotations

from pathlib import Path

import click

from zoo_compute.amounts import format_amount, format_count, format_seconds
from zoo_compute.cli.context import Command, Settings, pass_settings
from zoo_compute.cli.output import table
from zoo_compute.errors import ConfigError


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--max-budget", metavar="ZEN", help="Budget instead of the file's.")
@click.option(
    "--preset", type=click.Choice(["devnet", "production"]), help="Without a network file: whose windows to use."
)
@pass_settings
def quote(settings: Settings, file: Path, max_budget: str | None, preset: str | None) -> None:
    """Work, price range, worst-case escrow, locks and durations of the job in FILE. Needs no account and no chain."""
    from zoo_compute.plan import plan_of
    from zoo_compute.quote import quote as quote_of
    from zoo_compute.spec.params import PRESETS

    preset_name = preset or _preset_of(settings)
    plan = plan_of(file, max_budget)
    if plan.job.data.dataset is not None:
        settings.say(
            f"dataset {plan.job.data.dataset} is not looked up: quoted as text of {plan.job.context} tokens an example"
        )
    found = quote_of(plan.job, PRESETS[preset_name])
    prices, budget = plan.job.prices, plan.budget
    covered = budget is None or budget >= found.escrow
    data = {
        **found.to_dict(),
        "preset": preset_name,
        "budget": None if budget is None else str(budget),
        "covered": covered,
        "prices": {key: str(value) for key, value in prices._asdict().items()},
    }
    rows = [
        ("model", f"{found.parameters:,} parameters"),
        (
            "work",
            f"{found.rounds} rounds of {found.slots} slots, {found.inner_steps} steps each = {found.steps:,} steps",
        ),
        ("", f"{format_count(found.tokens)} tokens, {format_count(found.flops, 'FLOP')}"),
        ("network", _network_line(found.update_bytes, found.checkpoint_bytes)),
        ("price", f"{format_amount(prices.reserve)} to {format_amount(prices.max_price)} a slot-round"),
        (
            "aggregator",
            f"{format_amount(prices.aggregator_reserve)} to {format_amount(prices.aggregator_max_price)} a round",
        ),
        (
            "escrow",
            f"{format_amount(found.escrow)} at worst, of which the treasury's fee is {format_amount(found.fee)}",
        ),
        ("at reserve", f"{format_amount(found.at_reserve)}; what is not spent comes back"),
        ("budget", _budget_line(budget, covered, found.escrow)),
        (
            "locks",
            f"{format_amount(found.lock_slot)} a slot, {format_amount(found.lock_aggregator)} for the aggregator, put up by operators",
        ),
        (
            "auction",
            f"{format_seconds(found.auction_s)}; up to {found.attempts} auctions, {format_seconds(found.auction_longest_s)}, until the maximum price",
        ),
        (
            "round",
            f"{format_seconds(found.round_longest_s)} at most; final {format_seconds(found.window_s)} after its claims",
        ),
        ("all of it", f"{format_seconds(found.longest_s)} at most, on preset {preset_name}"),
    ]
    settings.emit(data, table(rows))


def _network_line(update_bytes: int, checkpoint_bytes: int) -> str:
    from zoo_compute.spec.schedule import send_ms

    less = checkpoint_bytes / max(1, update_bytes)
    told = f", {less:.0f} times less than float32" if less > 1 else ""
    sent_s = max(0.1, send_ms(update_bytes, 100_000) / 1_000)
    return f"about {format_count(update_bytes, 'B')} a slot-round{told}: {format_seconds(sent_s)} at 100 Mbit/s"


def _budget_line(budget: int | None, covered: bool, escrow: int) -> str:
    if budget is None:
        return "none given; the prices are the file's"
    return f"{format_amount(budget)} {'covers it' if covered else f'does NOT cover it: {format_amount(escrow - budget)} short'}"


def _preset_of(settings: Settings) -> str:
    try:
        return settings.network().preset
    except ConfigError:
        if settings.network_file:
            raise
        settings.say("no network file: quoted for the production windows (choose with --preset)")
        return "production"
