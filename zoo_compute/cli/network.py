"""`zoo network`: the network file, the chain, and the allowed payment tokens."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from zoo_compute.amounts import ZEN, format_amount, format_seconds
from zoo_compute.cli.context import Group, Settings, pass_settings
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.cli.treasury import again_option, scheduled_message, wait_option
from zoo_compute.errors import ChainError
from zoo_compute.gpus import CLASSES

FOR_EVER = 2**40 - 1  # the end of an intake that governors closed
_AMOUNTS = {"min_stake", "emission_per_epoch"}


@click.group("network", cls=Group)
def network() -> None:
    """The network that this machine uses."""


@network.command()
@click.option("--offline", is_flag=True, help="Show only the file and the presets; do not connect.")
@pass_settings
def show(settings: Settings, offline: bool) -> None:
    """Show chain, contracts, newest block, storage, and the numbers of both presets side by side."""
    from zoo_compute.spec.params import PRESETS

    description = settings.network()
    presets = {name: dataclasses.asdict(preset) for name, preset in PRESETS.items()}
    head, tokens = None, []
    if not offline:
        from zoo_compute.chain.tokens import allowed

        try:
            chain = settings.chain()
            head = chain.head()
            tokens = [
                {**token.to_dict(), "window_value": str(chain.tasks.window_values(token.address, block=head.number))}
                for token in allowed(chain, head.number)
            ]
        except ChainError:
            settings.say(
                f"read {settings.network_path()}, but could not reach its chain (--offline shows the file alone)"
            )
            raise
    data = {
        "file": str(settings.network_path()), "name": description.name, "preset": description.preset, "chain_id": description.chain_id,
        "rpcs": list(description.rpcs), "storage": list(description.storage), "signer": description.signer,
        "first_block": description.first_block, "contracts": dict(description.contracts),
        "head": head and {"number": head.number, "timestamp": head.timestamp},
        "tokens": tokens if head else None,
        "presets": {name: {k: str(v) if k in _AMOUNTS else v for k, v in values.items()} for name, values in presets.items()},
        "classes": [dataclasses.asdict(c) for c in CLASSES],
    }  # fmt: skip
    lines = [
        f"{description.name}: chain {description.chain_id}, preset {description.preset}, file {settings.network_path()}",
        f"RPC      {', '.join(description.rpcs)}",
        f"storage  {', '.join(description.storage) or 'none in the file; operators announce theirs on chain'}",
        f"head     block {head.number}, {_utc(head.timestamp)}" if head else "head     unknown (--offline)",
        *(
            [f"paid in  {', '.join(_token_line(token) for token in tokens) or 'nothing yet: zoo network allow'}"]
            if head
            else []
        ),
        "",
        *table(list(description.contracts.items()), header=("contract", "address")),
        "",
        *_side_by_side(presets, description.preset),
        "",
        *table(
            [(c.id, c.name, f"{c.least_vram_gb} GB", f"{c.multiplier_percent / 100:.1f}x") for c in CLASSES],
            header=("class", "name", "least VRAM", "multiplier"),
        ),
    ]
    settings.emit(data, lines)


@network.command(cls=Sending)
@click.argument("token", metavar="TOKEN")
@click.option(
    "--window-value",
    metavar="AMOUNT",
    help="Rounds that cost this much TOKEN or more get longer challenge windows. [ZEN: the preset's; else never]",
)
@click.option("--disallow", is_flag=True, help="Stop accepting TOKEN for new jobs.")
@wait_option
@pass_settings
def allow(settings: Settings, token: str, window_value: str | None, disallow: bool, wait: bool) -> None:
    """Allow jobs to be paid in TOKEN (an address, or ZEN). Needs the deployer on a devnet, elsewhere the timelock: run again after its delay.

    Never allow a token that charges for transfers, changes balances by itself, or makes callbacks.
    """
    from zoo_compute.governance.timelock import ScheduledCall, send_as_governor

    chain, money = settings.chain(), settings.token(token)
    value = 0 if money.symbol != ZEN.symbol or disallow else chain.params.window_value
    if window_value is not None:
        value = money.parse(window_value, what="--window-value")
    now = (chain.tasks.is_allowed(money.address), chain.tasks.window_values(money.address))
    step = ScheduledCall("executed", "", chain.now(), None)
    if now != (not disallow, value):
        call = chain.tasks.allow(money.address, not disallow, value)
        # `again`: allowing a token again after disallowing it is legitimate.
        step = send_as_governor(
            settings.sender(), chain.tasks.governor(), call, again=True, wait=wait, say=settings.say
        )
    what = f"{money.symbol} ({money.address}, {money.decimals} decimals) is {'not ' * disallow}allowed"
    settings.emit(
        {**step.to_dict(), "allowed": not disallow, "window_value": str(value), "token": money.to_dict()},
        what if step.state == "executed" else scheduled_message(settings, what, step.ready_at),
    )


@network.command("beat", cls=Sending)
@pass_settings
def beat(settings: Settings) -> None:
    """Let the protocol's time go on: say that the chain takes transactions. Keepers do it; anybody may, at any time.

    Without a beat for half an hour (the preset's outage_s) time stops, and no clock of a job or dispute runs until the next one.
    """
    sender = settings.sender()
    receipt = sender.send(sender.chain.registry.beat())
    head = sender.chain.head(receipt.block)
    stopped_s = head.timestamp - sender.chain.time(head)
    settings.emit(
        {"transaction": receipt.transaction_hash, "block": receipt.block, "stopped_s": stopped_s},
        f"beat in block {receipt.block}; time stood still for {stopped_s} s since the deployment",
    )


@network.command("check")
@pass_settings
def check_command(settings: Settings) -> int:
    """Check that each contract has the code of the network file, speaks to its other contracts, and has the preset's numbers.

    Prints who governs and what is paused. Exits 1 for a network that you should not use.
    """
    from zoo_compute.chain.wiring import wiring_faults
    from zoo_compute.governance.timelock import intakes

    chain = settings.chain()  # compares the codes
    faults = wiring_faults(chain)
    pauses = {name: end for name, end in intakes(chain).items() if end > chain.now()}
    guardian, delay = chain.guardian.account(), chain.timelock.get_minimum_delay()
    data = {
        "ok": not faults, "faults": [str(fault) for fault in faults], "guardian": guardian, "timelock_s": delay,
        "paused_until": pauses,
    }  # fmt: skip
    closed = [
        f"paused: {name}, {'for ever' if end == FOR_EVER else 'until ' + _utc(end)}" for name, end in pauses.items()
    ]
    lines = [
        *(f"MISWIRED {fault}" for fault in faults),
        "do not use this network: ask whoever gave you its file"
        if faults
        else f"{len(chain.network.contracts)} contracts are wired as the file says",
        f"guardian {guardian}; decisions of the governors wait {format_seconds(delay)}",
        *closed,
    ]
    settings.emit(data, lines)
    return 1 if faults else 0


@network.command(cls=Sending)
@click.argument("target", metavar="CONTRACT.FUNCTION")
@click.argument("args", nargs=-1)
@click.option(
    "--print",
    "only_print",
    is_flag=True,
    help="Send nothing: print what multisigs sign to schedule, execute and cancel it.",
)
@wait_option
@again_option
@pass_settings
def govern(settings: Settings, target: str, args: tuple[str, ...], only_print: bool, wait: bool, again: bool) -> None:
    """Make a call that only the timelock may make: schedules it; run it again after the delay to execute it.

    \b
    zoo network govern guardian.appoint 0x...            replace the guardian
    zoo network govern guardian.govern 0x... UNTIL       pause an intake until a time, or resume it (UNTIL 0)
    zoo network govern rewards.move_pool 0x... AMOUNT    move rewards to the next version
    zoo network govern admissions.set_workload GB PROGRAM_ROOT,STATE_ROOT,STEPS,FLOPS
    """
    from zoo_compute.governance.timelock import calls_for_multisigs, governed_call, send_through_timelock

    chain = settings.chain()
    call = governed_call(chain, target, args)
    if only_print:
        steps = calls_for_multisigs(chain, call)
        settings.emit(
            {"call": target, "args": list(args), "steps": steps},
            [f"{role}: send to {step['to']}\n{step['data']}" for role, step in steps.items()],
        )
        return
    step = send_through_timelock(settings.sender(), call, again=again, wait=wait, say=settings.say)
    message = (
        f"{target} is executed" if step.state == "executed" else scheduled_message(settings, target, step.ready_at)
    )
    settings.emit({**step.to_dict(), "call": target, "args": list(args)}, message)


def _side_by_side(presets: dict[str, dict[str, int]], used: str) -> list[str]:
    names = list(presets)
    keys = [key for key, value in presets[names[0]].items() if isinstance(value, int) and not isinstance(value, bool)]
    rows = [(key, *(_readable(key, presets[name][key]) for name in names)) for key in keys]
    return table(rows, header=("number", *(f"{name} (this network)" if name == used else name for name in names)))


def _token_line(token: dict[str, Any]) -> str:
    return f"{token['symbol']} ({token['address']}, {token['decimals']} decimals)"


def _readable(key: str, value: int) -> str:
    if key in _AMOUNTS:
        return format_amount(value)
    return format_seconds(value) if key.endswith("_s") else f"{value:,}"


def _utc(timestamp: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
