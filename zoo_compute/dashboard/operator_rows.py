"""Events of operators: who they are, what they promise, their money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoo_compute.chain.events import Event
from zoo_compute.dashboard.rules import Rules, Statement, small

RULES = Rules()


@RULES.on("OperatorRegistered")
def _registered(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    values = (
        args["operator"], args["owner"], args["hot"], small(args["gpu_class"]), small(args["vram_gb"]), str(args["stake"]), args["endpoint"], at,
    )  # fmt: skip
    columns = "operator, owner, hot, gpu_class, vram_gb, stake, endpoint, registered_at"
    return [(f"INSERT INTO operators ({columns}) VALUES (?,?,?,?,?,?,?,?)", values)]


_COLUMNS: Mapping[str, tuple[str, str]] = {
    "EndpointAnnounced": ("endpoint", "endpoint"), "HotKeyChanged": ("hot", "hot"), "OwnerChanged": ("owner", "owner"),
    "AdmissionChanged": ("admitted", "admitted"), "ExitRequested": ("exit_at", "exit_at"), "RegionDeclared": ("region", "region"),
}  # fmt: skip


@RULES.on(*_COLUMNS)
def _operator_changed(event: Event, at: int) -> Sequence[Statement]:
    column, argument = _COLUMNS[event.name]
    value = event.args[argument]
    value = small(value) if isinstance(value, int) else value
    return [(f"UPDATE operators SET {column} = ? WHERE operator = ?", (value, event.operator))]


@RULES.on("AvailabilityDeclared")
def _declared(event: Event, at: int) -> Sequence[Statement]:
    values = (small(event.args["tier"]), int(event.args["hours"]).bit_count(), event.operator)
    return [("UPDATE operators SET tier = ?, hours = ? WHERE operator = ?", values)]


_SIGNS = {"StakeAdded": "", "StakeWithdrawn": "-", "StakeSlashed": "-"}


@RULES.on(*_SIGNS)
def _stake_changed(event: Event, at: int) -> Sequence[Statement]:
    change = f"{_SIGNS[event.name]}{event.args['amount']}"
    return [("UPDATE operators SET stake = plus(stake, ?) WHERE operator = ?", (change, event.operator))]


_DEPOSITS = {"CollateralDeposited": "", "CollateralWithdrawn": "-", "CollateralSlashed": "-"}


@RULES.on(*_DEPOSITS)
def _deposit_changed(event: Event, at: int) -> Sequence[Statement]:
    """How much of it is locked follows from no event: bids lock without one."""
    args = event.args
    return [
        ("INSERT INTO collateral (operator, token, balance) VALUES (?,?,?) ON CONFLICT (operator, token) DO UPDATE SET "
         "balance = plus(balance, excluded.balance)", (args["operator"], args["token"], f"{_DEPOSITS[event.name]}{args['amount']}"))
    ]  # fmt: skip


@RULES.on("RewardClaimed")
def _reward_claimed(event: Event, at: int) -> Sequence[Statement]:
    values = (event.operator, at, str(event.args["amount"]))
    return [
        ("INSERT INTO payments (operator, job, token, at, amount, kind) VALUES (?, 0, '', ?, ?, 'rewards')", values)
    ]


@RULES.on("TimeStopped")
def _time_stopped(event: Event, at: int) -> Sequence[Statement]:
    change = "INSERT INTO facts VALUES ('stopped_s', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    return [(change, (str(event.args["stopped_s"]),))]
