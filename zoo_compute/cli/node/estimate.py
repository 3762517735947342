"""`zoo node estimate`: what open jobs, or one of your own making, would bring this machine; and what an auditor is paid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import ZEN, format_amount, format_seconds, parse_amount
from zoo_compute.cli.context import Command, Settings, pass_settings
from zoo_compute.cli.node.audit import estimate_of_auditor
from zoo_compute.cli.node.options import folder_of, home_option
from zoo_compute.cli.output import table
from zoo_compute.errors import ConfigError, UserError
from zoo_compute.operators.profit import COIN_PRICE
from zoo_compute.paths import STATUS
from zoo_compute.spec.params import MAX_PLACES, REFERENCE_FLOPS, REFERENCE_GPU

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.operators.estimate import Offer

JOBS_READ = 50  # the newest ones
NO_COSTS = "without operator.json: price 1 ZEN, no power"


@click.command("estimate", cls=Command)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--role",
    type=click.Choice(["provider", "verifier"]),
    default="provider",
    show_default=True,
    help="What you would do.",
)
@click.option(
    "--slots", type=click.IntRange(1), help="Slots that you would bid for; by default `capacity` of operator.json."
)
@click.option(
    "--slot-s",
    type=click.FloatRange(0, min_open=True),
    help="Seconds that a slot-round takes here; by default as measured.",
)
@click.option("--places", type=click.IntRange(1, MAX_PLACES), default=1, show_default=True, help="A verifier's places.")
@click.option(
    "--cost", metavar="ZEN", help="What a verifier's re-execution costs; by default the reference price of its work."
)
@home_option
@pass_settings
def estimate(
    settings: Settings,
    file: Path | None,
    role: str,
    slots: int | None,
    slot_s: float | None,
    places: int,
    cost: str | None,
    home: Path | None,
) -> None:
    """Show what each open job, or the job in FILE, would bring this machine: price, gas, power, profit, capital, time of payment."""
    if role == "verifier":
        estimate_of_auditor(settings, places, cost)
        return
    from zoo_compute.chain.fees import next_base_fee
    from zoo_compute.operators.estimate import Costs
    from zoo_compute.operators.estimate import estimate as estimate_of

    folder, chain = folder_of(home), settings.chain()
    values = _values(folder)
    measured, gas_price = _measured(folder), next_base_fee(chain.w3) + chain.w3.eth.max_priority_fee
    watts, note = _watts(folder, values)
    jobs: list[dict[str, Any]] = []
    for job, offer in _offers(chain, file):
        seconds, how = (slot_s, "you said") if slot_s else _seconds(job, offer.terms.flops, measured)
        costs = Costs(
            price=parse_amount(str(values.get("price", "1"))),
            units=min(slots or int(values.get("capacity", 4)), offer.terms.slots),
            slot_s=seconds,
            watts=watts,
            gas_price=gas_price,
            coin_price=parse_amount(str(values.get("coin_price", COIN_PRICE))),
            power_price=parse_amount(str(values.get("power_price", "0"))),
        )
        result = estimate_of(offer, costs, chain.params)
        jobs.append({"job": job, "slot_s": round(seconds, 3), "slot_s_is": how, **result.to_dict()})
    rows = [(str(each["job"] or file), f"{each['slot_s']:g} s, {each['slot_s_is']}", *_amounts(each)) for each in jobs]
    header = ("job", "a slot-round", "slots", "price", "gas", "power", "profit", "a day", "locks", "first payment")
    settings.emit(
        {"role": role, "watts": watts, "power": note, "jobs": jobs, "token": ZEN.to_dict()},
        [
            *(table(rows, header=header) if rows else ["no job that pays in ZEN is open"]),
            *([f"power: {note}"] if note else []),
        ],
    )


def _amounts(each: dict[str, Any]) -> list[str]:
    def both(key: str) -> str:
        least, most = (_short(int(each[f"{end}_{key}"])) for end in ("least", "most"))
        return least if least == most else f"{least} to {most}"

    return [
        str(each["units"]), both("price"), _short(int(each["gas"])), _short(int(each["power"])), both("profit"),
        both("profit_per_day"), _short(int(each["capital"])), f"in {format_seconds(each['first_payment_s'])}",
    ]  # fmt: skip


def _short(units: int) -> str:
    return format_amount(units, "", places=3)


def _offers(chain: Chain, file: Path | None) -> list[tuple[int | None, Offer]]:
    """Open jobs in ZEN by number, the newest first; or the one in FILE, without a number."""
    from zoo_compute.chain.snapshot import read_job
    from zoo_compute.chain.views import JobState, Kind
    from zoo_compute.operators.estimate import Offer

    if file is not None:
        from zoo_compute.jobs.loading import plan_job
        from zoo_compute.jobs.quote import outline_terms

        job = plan_job(file).job
        if job.known_token is None or job.token.symbol != ZEN.symbol:
            raise UserError(f"{file} pays in another token", hint="estimates are in ZEN: leave market.token out")
        terms, preset = outline_terms(job, job.profile), chain.params
        return [(None, Offer(terms, terms.reserve, preset.bid_window_s + preset.reveal_window_s))]
    count, zen = chain.tasks.job_count(), chain.network.contracts["zen"]
    views = (read_job(chain, number) for number in range(count, max(0, count - JOBS_READ), -1))
    return [
        (
            view.job,
            Offer(view.terms, view.lots[Kind.SLOTS].reserve, max(0, view.lots[Kind.SLOTS].reveal_end - view.now)),
        )
        for view in views
        if view.state == JobState.OPEN and view.token == zen
    ]


def _values(folder: Path) -> dict[str, Any]:
    from zoo_compute.operators.readiness import read_operator_config

    try:
        return read_operator_config(folder)
    except ConfigError:
        return {}


def _measured(folder: Path) -> dict[int, tuple[float, int]]:
    """By job, seconds of a slot-round and its FLOP, as the folder's keeper last noted them."""
    try:
        seen = json.loads((folder / STATUS).read_text()).get("measured", {})
        return {int(job): (float(seconds), int(flops)) for job, (seconds, flops) in seen.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _seconds(job: int | None, flops: int, measured: dict[int, tuple[float, int]]) -> tuple[float, str]:
    """Seconds of a slot-round, and whence they are known."""
    if job in measured:
        return measured[job][0], "measured"
    if measured:
        nearest = min(measured, key=lambda other: abs(measured[other][1] - flops))
        seconds, other = measured[nearest]
        return seconds * flops / max(1, other), f"by the speed in job {nearest}"
    return flops / REFERENCE_FLOPS, f"of a {REFERENCE_GPU}; your node has measured none yet"


def _watts(folder: Path, values: dict[str, Any]) -> tuple[float, str]:
    """Of a worker that computes, and what is unknown of it."""
    from zoo_compute import spending

    watts = float(values.get("power_watts", 0)) or spending.read(folder).mean_watts or 0.0
    if not values:
        return watts, NO_COSTS
    return watts, "" if watts else "not known: zoo node configure --power-watts 350 --power-price 0.2"


COMMANDS = (estimate,)
