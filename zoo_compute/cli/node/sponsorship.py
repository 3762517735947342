"""`zoo node consent`, `register-for` and `declare`: register with a sponsor, and promise availability."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zoo_compute.amounts import format_amount, format_seconds, parse_amount
from zoo_compute.cli.context import Settings, pass_settings
from zoo_compute.cli.node.options import folder_of, for_operator, home_option, number_of, operators_of
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError
from zoo_compute.gpus import TIERS, format_hours, parse_hours
from zoo_compute.requirement_words import format_region, parse_region
from zoo_compute.spec.params import GPU_CLASSES

DAY_S = 86_400


@click.command(cls=Sending, signs="it signs a consent and sends nothing")
@click.option("--gpu-type", metavar="NAME", help="GPU name, such as rtx4090, a100, m2. Decides the class.")
@click.option(
    "--gpu-class", metavar="CLASS", help="For a card that is not listed: consumer, professional, datacenter, apple."
)
@click.option("--memory", required=True, metavar="SIZE", help="Memory of the GPU, such as 24GB.")
@click.option("--stake", metavar="ZEN", help="Stake that the sponsor pays; the network's minimum by default.")
@click.option("--endpoint", default="", metavar="URL", help="URL at which this operator's store serves blocks.")
@click.option(
    "--days", default=7, show_default=True, type=click.IntRange(1, 365), help="Days until the consent expires."
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("consent.json"), show_default=True,
    help="File for the sponsor. Contains no keys.",
)  # fmt: skip
@home_option
@pass_settings
def consent(
    settings: Settings, gpu_type: str | None, gpu_class: str | None, memory: str, stake: str | None, endpoint: str,
    days: int, out: Path, home: Path | None,
) -> None:  # fmt: skip
    """Consent to registration by a sponsor, who pays stake and gas. --account is the cold key; it will own the stake."""
    from zoo_compute import gpus
    from zoo_compute.chain.typed_sentences import typed_sentence

    registered, vram_gb = gpus.registered_card(gpu_type, gpu_class, memory)
    amount = settings.network().params.min_stake if stake is None else parse_amount(stake, what="--stake")
    made = operators_of(settings).consent(folder_of(home), registered, vram_gb, amount, endpoint, days * DAY_S)
    made.save(out)
    settings.emit(
        {**vars(made), "file": str(out)},
        [
            f"{out}: {made.owner} agrees to be registered as class {registered.name}, {vram_gb} GB, with {format_amount(amount)} at stake",
            typed_sentence(settings.chain(), *made.typed_data()),
            f"valid for {format_seconds(days * DAY_S)}; the sponsor sends it with `zoo node register-for {out}`",
            "then run `zoo node register` here with the same options: it detects the registration and writes operator.json",
        ],
    )


@click.command("register-for", cls=Sending)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--hot-coin", metavar="AMOUNT", default="0", show_default=True, help="Top up its hot key to this much coin for gas."
)
@pass_settings
def register_for(settings: Settings, file: Path, hot_coin: str) -> None:
    """Register the operator that consented in FILE. --account is the sponsor, who pays; the stake belongs to the operator."""
    from zoo_compute.operators.consent import Consent

    agreed = Consent.load(file)
    coin = 0 if hot_coin == "0" else parse_amount(hot_coin, what="--hot-coin")
    done = operators_of(settings).register_for(agreed, hot_coin=coin, say=settings.say)
    settings.emit(
        {"operator": done.operator, "owner": done.owner, "hot": done.hot, "stake": str(done.stake)},
        f"operator {done.operator} is registered: owner {done.owner}, class {GPU_CLASSES[agreed.gpu_class].name}, "
        f"{format_amount(done.stake)} at stake",
    )


@click.command(cls=Sending)
@click.option(
    "--tier",
    type=click.Choice(list(TIERS)),
    default="none",
    show_default=True,
    help="Service level, with its own limit of missed hours.",
)
@click.option("--hours", default="", metavar="LIST", help="Periods of an epoch (0 to 23), such as 0-23 or 8-17,22.")
@click.option(
    "--region",
    default=None,
    metavar="REGION",
    help="Where your machines are: EU, or EU-DE; `none` takes it back. Nobody checks it. Alone, it leaves your promise as it is.",
)
@for_operator
def declare(
    settings: Settings, tier: str, hours: str, region: str | None, operator: int | None, home: Path | None
) -> None:
    """Promise availability in these hours, from the next epoch on. Without options, end the promise.

    The keeper of --home then sends a heartbeat in each hour. An operator that misses more than its tier allows loses 1 % of its stake.
    Jobs may ask for a tier, for hours and for a region.
    """
    place = _region(region)
    operators = operators_of(settings)
    number, known = number_of(settings, operators, operator, home), operators.operator_in(folder_of(home))
    if known not in (None, number):
        raise UserError(
            f"{folder_of(home)} belongs to operator {known}, not {number}: its keeper would send the heartbeats",
            hint=f"give --home of operator {number}",
        )
    periods = parse_hours(hours)
    done: dict[str, Any] = {"operator": number}
    lines = []
    if place is not None:
        sent = operators.declare_region(number, place)
        done |= {"region": format_region(place), "region_transaction": sent.transaction_hash}
        lines.append(f"operator {number} declares " + (f"region {format_region(place)}" if place else "no region"))
    if place is None or tier != "none" or periods:
        sent = operators.declare(folder_of(home), number, TIERS[tier], periods)
        done |= {"tier": tier, "hours": periods, "transaction": sent.transaction_hash}
        at_tier = "" if tier == "none" else f" at tier {tier}"
        lines.append(f"operator {number} promises {format_hours(periods)}{at_tier}")
    settings.emit(done, lines)


def _region(text: str | None) -> int | None:
    """The word to declare; None where the option is not given."""
    try:
        return None if text is None else parse_region("" if text == "none" else text)
    except ValueError as error:
        raise UserError(f"--region: {error}") from error


COMMANDS = (consent, register_for, declare)
