"""`zoo node register`: one command from a bare machine to an operator that can start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from zoo_compute import paths as places
from zoo_compute.amounts import format_amount, parse_amount
from zoo_compute.cli.context import Settings, pass_settings
from zoo_compute.cli.node.options import folder_of, home_option, operators_of
from zoo_compute.cli.node.register_questions import (
    Choices,
    Machine,
    check_ready,
    detected_machine,
    machine_from_options,
)
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError
from zoo_compute.spec.params import GPU_CLASSES

if TYPE_CHECKING:
    from zoo_compute.operators.balances import RegistrationResult
    from zoo_compute.operators.registration import Registration, RegistrationCost, RegistrationPlan


@click.command(cls=Sending)
@click.option(
    "--gpu-type", metavar="NAME", help="GPU name, such as rtx4090, a100, m2; read from the driver by default."
)
@click.option(
    "--gpu-class", metavar="CLASS", help="For a card that is not listed: consumer, professional, datacenter, apple."
)
@click.option("--memory", metavar="SIZE", help="Memory of the GPU, such as 24GB; read from the driver by default.")
@click.option("--stake", metavar="ZEN", help="Stake; the network's minimum by default.")
@click.option("--deposit", metavar="ZEN", help="Collateral for bids. [2500 on a devnet, with --yes, or in a terminal]")
@click.option("--price", metavar="ZEN", help="Price to ask per slot-round: your cost. [1]")
@click.option(
    "--endpoint", metavar="URL", help="URL at which others reach this operator's gateway; can be announced later."
)
@click.option("--gateway-host", metavar="HOST", help="Address the gateway listens on; 0.0.0.0 for all. [127.0.0.1]")
@click.option("--hot", metavar="ADDRESS", help="An existing hot key; by default one is made in --home.")
@click.option(
    "--hot-coin", metavar="AMOUNT", help="Top up the hot key to this much coin for gas. [1 on a devnet, else 0.02]"
)
@click.option("--yes", is_flag=True, help="Ask nothing: use all defaults and send.")
@home_option
@pass_settings
def register(settings: Settings, /, home: Path | None, yes: bool, **options: str | None) -> None:
    """Register this machine as an operator: provider, and aggregator if it has enough memory.

    Without options it detects the card and, in a terminal, asks for the rest. --account is the cold key: it pays, owns the
    stake and receives the payments. If interrupted, rerun it: it resumes and never registers twice.
    """
    choices = Choices({key: value for key, value in options.items() if value is not None}, settings, yes=yes)
    card = machine_from_options(choices)
    check_ready(settings, choices)
    from zoo_compute.operators.registration import Registration

    folder = folder_of(home)
    if card is None and not (folder / places.CONFIG).exists():
        card = detected_machine(settings, choices)
    enrolment = Registration(operators_of(settings), folder, settings.network_path(), choices.options.get("hot"))
    if enrolment.view is not None:
        card = Machine(GPU_CLASSES[enrolment.view.gpu_class], enrolment.view.vram_gb)
    wanted = _registration_plan(settings, choices, enrolment, card or detected_machine(settings, choices), folder)
    cost = enrolment.cost(wanted)
    enrolment.check(wanted, cost)
    settings.say(_summary(settings, enrolment, cost))
    if any(vars(cost).values()) and not choices.confirm("Send this?"):
        raise click.Abort
    _emit(settings, enrolment.complete(wanted, cost, settings.say), wanted, enrolment, folder)


# -- money and address


def _registration_plan(
    settings: Settings, choices: Choices, enrolment: Registration, card: Machine, folder: Path
) -> RegistrationPlan:
    from zoo_compute.operators import machine
    from zoo_compute.operators.readiness import read_operator_config
    from zoo_compute.operators.registration import RegistrationPlan

    network = settings.network()
    devnet, is_new = network.preset == "devnet", enrolment.view is None
    known = read_operator_config(folder) if (folder / places.CONFIG).exists() else {}
    price = (
        choices.options.get("price")
        or known.get("price")
        or choices.text("price", "price per slot-round in ZEN (your cost)", "1", _price)
    )
    _price(price)
    collateral = _collateral(settings, choices, enrolment)
    endpoint = _endpoint(settings, choices, known) if is_new or "endpoint" in choices.options else ""
    host = _gateway_host(choices, endpoint)
    roles = ("provider", "aggregator") if devnet else machine.roles()
    usual = {"roles": list(roles), "price": price, "aggregator_price": price} | (
        {"device": card.device} if card.device else {}
    )
    explicit = {
        "price": choices.options.get("price"),
        "gateway_host": host,
        "endpoint": choices.options.get("endpoint"),
    }
    if "endpoint" in choices.options:
        explicit["gateway_port"] = urlsplit(endpoint).port or 0  # type: ignore[assignment]
    chosen = {key: value for key, value in explicit.items() if value is not None}
    coin = choices.options.get("hot_coin") or ("1" if devnet else "0.02")
    stake = choices.options.get("stake")
    return RegistrationPlan(
        gpu=card.gpu,
        vram_gb=card.vram_gb,
        stake=network.params.min_stake if stake is None else parse_amount(stake, what="--stake"),
        collateral=collateral,
        hot_coin=parse_amount(coin, what="--hot-coin"),
        endpoint=endpoint,
        settings={key: value for key, value in usual.items() if key not in known} | chosen,
    )


def _price(text: str) -> None:
    if parse_amount(text, what="--price") <= 0:
        raise UserError("the price must be above zero", hint="for example 0.8")


def _collateral(settings: Settings, choices: Choices, enrolment: Registration) -> int:
    """Collateral for bids. If nobody can confirm it, nothing beyond the stake is sent except on a devnet."""
    from zoo_compute.operators.needs import COLLATERAL

    view = enrolment.view
    if (
        view is not None
        and any(balance for balance, _ in view.collateral.values())
        and "deposit" not in choices.options
    ):
        return 0
    free = settings.network().preset == "devnet" or choices.yes or choices.is_interactive
    text = choices.text(
        "deposit",
        "collateral in ZEN, which bids lock",
        str(COLLATERAL if free else 0),
        lambda text: _amount(text, "--deposit"),
    )
    return _amount(text, "--deposit")


def _amount(text: str, what: str) -> int:
    return 0 if text.strip() == "0" else parse_amount(text, what=what)


def _endpoint(settings: Settings, choices: Choices, known: Mapping[str, Any]) -> str:
    """A free loopback address on a devnet, which is one machine. Elsewhere the operator must name it."""
    from zoo_compute.operators.account import check_url
    from zoo_compute.subprocesses import free_port

    if "endpoint" in choices.options:
        check_url(choices.options["endpoint"])
        return choices.options["endpoint"]
    if known.get("endpoint"):
        return str(known["endpoint"])
    if settings.network().preset == "devnet":
        return "" if "hot" in choices.options else f"http://127.0.0.1:{free_port()}"
    question = "URL at which others reach this machine, such as http://203.0.113.7:8600 (empty: later)"
    url = choices.text("endpoint", question, "", lambda url: check_url(url) if url else None)
    if not url:
        settings.say(
            "no --endpoint: others cannot fetch this node's results until you set one (docs/guides/operating.md, Opening a port)"
        )
    return url


def _gateway_host(choices: Choices, endpoint: str) -> str | None:
    """Listen beyond loopback only if the operator agrees."""
    from zoo_compute.store.addresses import is_loopback

    if "gateway_host" in choices.options:
        return choices.options["gateway_host"]
    if not choices.is_interactive or not endpoint or is_loopback(urlsplit(endpoint).hostname or ""):
        return None
    question = "listen on all addresses of this machine (0.0.0.0)? Say no behind a proxy or tunnel of your own"
    return "0.0.0.0" if choices.confirm(question) else None


# -- what is said


def _summary(settings: Settings, enrolment: Registration, cost: RegistrationCost) -> str:
    """One line: what is sent, and to whom."""
    registry, account = settings.network().contracts["registry"], settings.account().address
    parts = []
    if cost.stake:
        parts.append(f"stake {format_amount(cost.stake)}")
    if cost.collateral:
        parts.append(f"collateral {format_amount(cost.collateral)}")
    money = f"{' and '.join(parts)} to the registry {registry}" if parts else ""
    coin = f"{format_amount(cost.coin, '')} coin to this node's hot key {enrolment.hot}" if cost.coin else ""
    if not money and not coin:
        return "nothing left to send"
    return f"to send from {account}: {', '.join(filter(None, (money, coin)))}, and gas; stake and collateral stay yours unless slashed"


def _emit(
    settings: Settings, done: RegistrationResult, wanted: RegistrationPlan, enrolment: Registration, folder: Path
) -> None:
    from zoo_compute.operators.needs import COLLATERAL
    from zoo_compute.operators.registration import values_of

    view = enrolment.view
    assert view is not None, "a completed enrolment has an operator"
    gpu_class = GPU_CLASSES[view.gpu_class]
    balance = view.collateral.get(settings.network().contracts["zen"], (0, 0))[0]
    usual = "" if folder == places.home() / "node" else f" --home {folder}"
    leaving = ["its exit is requested, so it cannot bid: zoo node unstake, then zoo node stake"] if view.exit_at else []
    mend = [] if balance else [f"no collateral yet, so it cannot bid: zoo node deposit {COLLATERAL}{usual}"]
    roles = values_of(folder, wanted)["roles"]
    settings.emit(
        {
            "operator": done.operator, "owner": done.owner, "hot": done.hot, "gpu_class": gpu_class.id, "class": gpu_class.name,
            "multiplier_percent": gpu_class.multiplier_percent, "vram_gb": view.vram_gb, "stake": str(done.stake),
            "home": str(folder), "new": done.new, "collateral": str(balance), "endpoint": view.endpoint, "roles": roles,
        },
        [
            f"operator {done.operator}: class {gpu_class.name}, multiplier {gpu_class.multiplier_percent / 100:.1f}x once admitted, "
            f"{view.vram_gb} GB, stake {format_amount(done.stake)}, collateral {format_amount(balance)}"
            + ("" if done.new else " (was registered before)"),
            f"owner {done.owner}, hot key {done.hot}, folder {folder}",
            *leaving,
            *mend,
            f"next: zoo node start{usual}",
        ],
    )  # fmt: skip


COMMANDS = (register,)
