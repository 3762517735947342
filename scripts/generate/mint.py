"""Writes the tables of docs/design/burn-and-mint.md, and the plot of its month.

    python -m scripts.generate mint [--check]

The attacks are played on the specification (tests/support/credit_attacks.py); the month is benchmarks/results/burn_and_mint.json, gas
credits_gas.json beside it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.generate.computed_pages import COLOURS, axes, build, percent, save, table
from zoo_compute.spec import credits
from zoo_compute.spec.params import PRODUCTION, ZEN, fee_of
from zoo_compute.spec.state import Config, World

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "design" / "burn-and-mint.md"
MONTH = ROOT / "benchmarks" / "results" / "burn_and_mint.json"
GAS = ROOT / "benchmarks" / "results" / "credits_gas.json"
MINT = PRODUCTION.mint_per_epoch
WASHED = (0, 500, 2_000, 5_000, 10_000, 40_000)  # ZEN burned for wash work


def month() -> dict[str, Any]:
    result: dict[str, Any] = json.loads(MONTH.read_text())
    return result


def attack_table() -> str:
    from tests.support.attacks import play
    from tests.support.credit_attacks import CREDIT_ATTACKS

    rows = []
    for attack in CREDIT_ATTACKS:
        outcome = play(attack)
        rows.append([attack.title, outcome.how, f"{outcome.profit:+,}", outcome.bound, attack.why])
    return table(["attack", "what is played", "attacker's profit", "bound", "why"], rows)


def dilution_table() -> str:
    """An epoch with honest work worth as much as its mint, and wash work beside it."""
    rows, alone = [], shares(0)[0]
    for burned in WASHED:
        honest, attacker = shares(burned * ZEN)
        lost, harm = burned * ZEN - attacker, alone - honest
        each = f"{harm / lost:.2f}" if lost else "-"
        rows.append([f"{burned:,}", f"{lost / ZEN:,.0f}", f"{harm / ZEN:,.0f}", percent(honest / alone), each])
    head = [
        "ZEN burned for wash work",
        "the attacker loses",
        "the others have less",
        "of their shares they keep",
        "harm for each ZEN lost",
    ]
    return table(head, rows)


def shares(wash: int) -> tuple[int, int]:
    """What honest operators and the self-dealer have of the mint."""
    w = World(config=Config(preset=PRODUCTION))
    w.mint_pool = 2 * MINT
    for account, amount in (("honest", MINT), ("attacker", wash)):
        if amount:
            credits.record(w, account, amount - fee_of(amount), fee_of(amount), now=0)
    return credits.share_of(w, "honest", 0), credits.share_of(w, "attacker", 0)


def month_table() -> str:
    result = month()
    zen = lambda amount: f"{amount / ZEN:,.1f} ZEN"  # noqa: E731
    rows = [
        ["calls of the specification, each with all invariants", f"{result['calls']:,}"],
        ["jobs settled; of a self-dealer; refused at a stale rate", f"{result['jobs']}; {result['wash_jobs']}; {result['refused_at_a_stale_rate']}"],
        ["burned for credits", zen(result["burned"])],
        ["credits used up by accepted work", zen(result["accepted"])],
        ["minted, all of which was claimed but for rounding", zen(result["minted"])],
        ["the self-dealer's profit", zen(result["wash_profit"])],
        ["honest operators were paid, of what was burned for their work", percent(result["honest_paid_of_work"])],
        ["the treasury's share", zen(result["treasury"])],
    ]  # fmt: skip
    return table(["in thirty days", ""], rows)


def gas_table() -> str:
    gas = json.loads(GAS.read_text())
    said = {
        "buy": "`buy`",
        "pledge": "`pledge`, the deposit of collateral included",
        "post_rate": "`post_rate`",
        "claim": "`claim` of a share",
        "withdraw_used_up": "`TaskRegistry.withdraw` of credits that work earned",
        "withdraw_pledge": "`NodeRegistry.withdraw` of pledged collateral",
        "finalise_in_credits_adds": "what two payments in credits cost more than in ZEN, in one `finalise`",
    }
    rows = [
        [words, f"{gas[name]:,}", f"{gas[f'{name}_first']:,}" if f"{name}_first" in gas else ""]
        for name, words in said.items()
    ]
    return table(["transaction", "gas", "the first one"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "attacks": attack_table,
    "dilution": dilution_table,
    "month": month_table,
    "gas": gas_table,
}


def plot_month(path: Path) -> None:
    """What was burned, used up by work and minted on each day; the rate on an axis of its own."""
    figure, drawn = axes()
    days = month()["by_day"]
    numbers = [day["day"] for day in days]
    for key, colour in zip(("burned", "accepted", "mint"), COLOURS, strict=False):
        said = {"burned": "burned", "accepted": "used up by work", "mint": "minted"}[key]
        drawn.plot(numbers, [max(day[key] / ZEN, 0.5) for day in days], color=colour, label=said, lw=1.8)
    drawn.set(yscale="log", xlabel="day", ylabel="ZEN", title="A month of burn and mint")
    beside = drawn.twinx()
    beside.plot(numbers, [day["rate"] / 10**18 for day in days], color="grey", ls=":", lw=1.4, label="rate")
    beside.set(ylabel="dollars for a ZEN", ylim=(0, None))
    beside.spines[["top"]].set_visible(False)
    drawn.legend(frameon=False, loc="upper left")
    beside.legend(frameon=False, loc="upper right")
    save(figure, path)


if __name__ == "__main__":
    sys.exit(build(PAGE, TABLES, {"month": plot_month}, __doc__))
