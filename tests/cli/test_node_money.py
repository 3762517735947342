"""What an operator sees of its money: whom it serves, at which prices, and what it keeps of its earnings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute import spending
from zoo_compute.amounts import WEI, ZEN
from zoo_compute.cli.context import Settings
from zoo_compute.cli.node import money
from zoo_compute.operators.balances import EarnedClaim, Earnings
from zoo_compute.spending import Spent

FRIEND, STRANGER = "0x00000000000000000000000000000000000000AA", "0x00000000000000000000000000000000000000bb"


def configure(zoo: Zoo, *options: str) -> dict:
    zoo.home.mkdir(exist_ok=True)
    (zoo.home / "network.json").write_text("{}")
    file = str(zoo.home / "network.json")
    return zoo.json(
        "node", "configure", "--home", str(zoo.home / "node"), "--network-file", file, "--operator", "3", *options
    )


def test_configure__keeps_lists_of_submitters_until_others_replace_them(zoo: Zoo) -> None:
    assert (configure(zoo)["allow"], configure(zoo)["deny"]) == ([], [])
    assert configure(zoo, "--allow", FRIEND, "--allow", STRANGER, "--deny", STRANGER)["allow"] == [FRIEND, STRANGER]
    later = configure(zoo, "--allow", FRIEND)
    assert (later["allow"], later["deny"]) == ([FRIEND], [STRANGER])
    assert configure(zoo, "--allow", "none")["allow"] == []
    code, _, err = zoo.run("node", "configure", "--home", str(zoo.home / "node"), "--deny", "alice")
    assert (code, "deny: expected submitters' addresses, got 'alice'" in err) == (1, True)


def test_configure__takes_a_price_script_that_can_be_run(zoo: Zoo, tmp_path: Path) -> None:
    script = tmp_path / "price"
    script.write_text("#!/bin/sh\necho 1\n")
    code, _, err = zoo.run("node", "configure", "--home", str(zoo.home / "node"), "--price-script", str(script))
    assert (code, "is not a program" in err, f"chmod +x {script}" in err) == (1, True, True)
    script.chmod(0o700)
    assert configure(zoo, "--price-script", str(script))["price_script"] == str(script)
    assert configure(zoo)["price_script"] == str(script)
    assert configure(zoo, "--price-script", "none")["price_script"] == ""


@pytest.mark.parametrize(("power", "fine"), [("0.2", True), ("0", True), ("-1", False), ("dear", False)])
def test_configure__takes_what_power_costs(zoo: Zoo, power: str, fine: bool) -> None:
    configure(zoo)
    code, _, _ = zoo.run("node", "configure", "--home", str(zoo.home / "node"), f"--power-price={power}")
    assert (code == 0) is fine


EARNED = Earnings(
    paid=100 * WEI,
    pending=4 * WEI,
    rewards=7 * WEI,
    slashed=2 * WEI,
    claims=(
        EarnedClaim(7, 0, "slots 0-3", "paid", 4 * WEI),
        EarnedClaim(7, 1, "slots 0-3", "challenge window", 4 * WEI, 11_800),
    ),
    penalties=(),
    bandwidth=(),
)


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain on which operator 3 earned this, at second 10,000."""
    balances = SimpleNamespace(owed=5 * WEI, collateral=2_500 * WEI, locked=983 * WEI)
    operators = SimpleNamespace(
        balances=lambda number, token: balances,
        earnings=lambda number, token: EARNED,
        chain=SimpleNamespace(now=lambda: 10_000),
    )
    monkeypatch.setattr(money, "operators_of", lambda settings, signing: operators)
    monkeypatch.setattr(money, "number_of", lambda *_: 3)
    monkeypatch.setattr(Settings, "token", lambda self, token: ZEN)


def test_earnings__say_profit_after_gas_and_power_capital_and_the_next_payment(zoo: Zoo, operators: None) -> None:
    configure(zoo, "--power-price", "0.2")
    spending.add(zoo.home / "node", Spent(transactions=20, wei=2 * 10**15, busy_s=60_000, watt_s=18e6, unknown_s=60))
    earned = zoo.json("node", "earnings", "--home", str(zoo.home / "node"))
    assert (earned["collateral"], earned["locked"], earned["locked_percent"]) == (
        str(2_500 * WEI),
        str(983 * WEI),
        39.3,
    )
    assert earned["next_payment"] == {"at": 11_800, "amount": str(4 * WEI)}
    costs = earned["costs"]
    assert {key: costs[key] for key in ("transactions", "gas_wei", "busy_s", "kwh", "unmeasured_s")} == {
        "transactions": 20, "gas_wei": str(2 * 10**15), "busy_s": 60_000, "kwh": 5.0, "unmeasured_s": 60,
    }  # fmt: skip
    assert costs["profit"] == {
        "paid": str(100 * WEI), "rewards": str(7 * WEI), "gas": str(6 * WEI), "power": str(WEI), "slashed": str(2 * WEI),
        "total": str(98 * WEI),
    }  # fmt: skip
    _, out, _ = zoo.run("node", "earnings", "--home", str(zoo.home / "node"))
    rows = dict(line.split("  ", 1) for line in out.splitlines() if "  " in line)
    shown = {key: rows[key].strip() for key in ("next payment", "gas", "power", "profit", "collateral")}
    assert shown == {
        "next payment": "4 ZEN, payable in 30 min",
        "gas": "6 ZEN: 0.002 coin for 20 transactions, at 3,000 ZEN a coin (coin_price in operator.json)",
        "power": "1 ZEN: 5.000 kWh in 16 h 40 min of work; 1 min not measured (zoo node configure --power-watts)",
        "profit": "98 ZEN",
        "collateral": "2,500 ZEN, 983 ZEN of it locked (39.3 %)",
    }


def test_earnings__of_an_operator_whose_node_runs_elsewhere__say_no_costs(zoo: Zoo, operators: None) -> None:
    assert zoo.json("node", "earnings", "--home", str(zoo.home / "nowhere"))["costs"] is None
    configure(zoo, "--operator", "4")
    assert zoo.json("node", "earnings", "--home", str(zoo.home / "node"))["costs"] is None
