"""Writes the numbers and plots of docs/design/economics.md: tables between its marks, and docs/figures/economics/*.svg.

    python -m scripts.generate economics [--check]

Everything is computed here from the constants of `zoo_compute.spec.params`, and the attacks are played on the specification
(tests/support/attacks.py). `--check` exits 1 when a table is stale; plots are only looked for, since fonts differ between machines.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.generate.computed_pages import COLOURS, axes, build, percent, save, table
from zoo_compute.spec import params

ROOT = Path(__file__).resolve().parents[2]

PAGE = ROOT / "docs" / "design" / "economics.md"
LOCK = params.LOCK_MULTIPLE  # of the price at risk
LOST = 0.6  # of a convicted lock, at least: a cheat that challenges itself gets 40 % of the slash back
GPU_HOUR = {tier.name: tier.reference_price / params.ZEN for tier in params.TIERS.values() if tier.id}  # ZEN
RETURNS = (0.15, 0.20, 0.25)  # a year, on stake: what seeds 000 and 001 expect
YEAR_H = 8_760


# --- arithmetic -------------------------------------------------------------------------------------------------------


def detected(rate: float, units: float) -> float:
    """Chance that at least one of `units` skipped units is audited at `rate`."""
    return 1 - (1 - rate) ** units


def cheat_profit(p: float, lock: float) -> float:
    """Expected profit of skipping all work, in units of the price at risk; `lock` likewise. It challenges itself, at best."""
    return (1 - p) - p * LOST * lock


def deterred_from(lock: float) -> float:
    """The least chance of detection from which skipping does not pay."""
    return 1 / (1 + LOST * lock)


def units_for(p: float, rate: float) -> int:
    """The least number of units for which `rate` detects with probability p."""
    return math.ceil(math.log(1 - p) / math.log(1 - rate))


def max_reward_share() -> float:
    """The most of a payment that comes back to its worker as rewards."""
    return params.FEE_BPS / params.BPS * params.REWARD_CAP_BPS[params.Flow.COMPUTE] / params.BPS


# --- tables -----------------------------------------------------------------------------------------------------------


def detection_table() -> str:
    counts = (10, 61, 100, 500)
    rows = [[percent(rate), *(percent(detected(rate, n)) for n in counts)] for rate in (0.001, 0.01, 0.02, 0.05, 0.10)]
    return table(["audit rate s", *(f"n = {n}" for n in counts)], rows)


def bond_table() -> str:
    rows = []
    for lock in (1, LOCK, 4):
        p = deterred_from(lock)
        rows.append(
            [
                f"{lock} P" + (" (ours)" if lock == LOCK else ""),
                percent(p),
                *(str(units_for(p, s)) for s in (0.01, 0.05)),
            ]
        )
    return table(["lock", "skipping never pays from p =", "steps for that at s = 1 %", "at s = 5 %"], rows)


def numeric_bond_table() -> str:
    rows = []
    for p in (0.10, 0.30, deterred_from(LOCK), 0.634, 0.994, 1.0):
        first = (1 - p) / (LOST * p)
        rows.append(
            [
                percent(p),
                f"{first:.2f} P",
                "2 P",
                "P + W",
                "yes" if first <= LOCK + 1e-9 else "no",
                f"{cheat_profit(p, LOCK):+.2f} P",
            ]
        )
    return table(["p", "P(1-p)/(0.6 p)", "2 P", "W + P", "our lock suffices", "expected profit of skipping"], rows)


def return_table() -> str:
    stake = params.PRODUCTION.min_stake // params.ZEN
    rows = []
    for wanted in RETURNS:
        payments = wanted * stake / max_reward_share()
        hours = [f"{payments / price:,.0f} ({percent(payments / price / YEAR_H, 0)})" for price in GPU_HOUR.values()]
        rows.append([percent(wanted, 0), f"{wanted * stake:,.0f} ZEN", f"{payments:,.0f} ZEN", *hours])
    head = [
        "return a year",
        "rewards",
        "payments that allow it",
        *(f"{name} GPU-hours (of one GPU's year)" for name in GPU_HOUR),
    ]
    return table(head, rows)


def emission_table() -> str:
    yearly = params.PRODUCTION.emission_per_epoch // params.ZEN * 365
    workers = (
        sum(params.REWARD_FLOW_BPS[f] for f in (params.Flow.COMPUTE, params.Flow.UPTIME, params.Flow.BANDWIDTH))
        / params.BPS
    )
    rows = [
        [
            percent(wanted, 0),
            f"{yearly * workers / wanted:,.0f} ZEN",
            f"{yearly * workers / max_reward_share():,.0f} ZEN",
            f"{yearly * workers / max_reward_share() / GPU_HOUR['bronze'] / YEAR_H:,.0f}",
        ]
        for wanted in RETURNS
    ]
    return table(
        ["return a year", "stake that the whole emission serves", "payments a year for it", "bronze GPUs always busy"],
        rows,
    )


def attack_table() -> str:
    from tests.support.attacks import ATTACKS, play

    rows = []
    for attack in ATTACKS:
        outcome = play(attack)
        rows.append([attack.title, outcome.how, f"{outcome.profit:+,}", outcome.bound, attack.why])
    return table(["attack", "what is played", "attacker's profit", "bound", "why"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "detection": detection_table,
    "bonds": bond_table,
    "bond numbers": numeric_bond_table,
    "returns": return_table,
    "emission": emission_table,
    "attacks": attack_table,
}


# --- plots ------------------------------------------------------------------------------------------------------------


def _line(n: int, low: float, high: float) -> list[float]:
    return [low + (high - low) * i / n for i in range(n + 1)]


def plot_rate(path: Path) -> None:
    """A cheat's expected profit against the audit rate, one line for each lock."""
    figure, drawn = axes()
    rates = _line(300, 0, 0.03)
    for lock, colour in zip((0.5, 1, 2, 4), COLOURS, strict=True):
        profits = [cheat_profit(detected(s, 100), lock) for s in rates]
        label = f"lock {lock:g} P" + (" (ours)" if lock == LOCK else "")
        drawn.plot([100 * s for s in rates], profits, color=colour, label=label, lw=2.6 if lock == LOCK else 1.4)
    drawn.axhline(0, color="black", lw=0.8)
    drawn.axvline(1, color="grey", lw=0.8, ls=":")
    drawn.annotate("s = 1 %: p = 63 %", (1, 0.75), xytext=(6, 0), textcoords="offset points", color="dimgrey")
    drawn.set(xlabel="audit rate s, percent of steps (100 steps skipped)", ylabel="expected profit of skipping, in P")
    drawn.set(xlim=(0, 3), title="Skipping all work against the audit rate")
    drawn.legend(frameon=False)
    save(figure, path)


def plot_lock(path: Path) -> None:
    """A cheat's expected profit against the lock, one line for each audit rate."""
    figure, drawn = axes()
    locks = _line(200, 0, 4)
    for rate, colour in zip((0.001, 0.005, 0.01, 0.05), COLOURS, strict=True):
        p = detected(rate, 100)
        drawn.plot(
            locks,
            [cheat_profit(p, lock) for lock in locks],
            color=colour,
            label=f"s = {100 * rate:g} % (p = {100 * p:.0f} %)",
            lw=1.8,
        )
    drawn.axhline(0, color="black", lw=0.8)
    drawn.axvline(LOCK, color="grey", lw=0.8, ls=":")
    drawn.annotate("our lock: 2 P", (LOCK, 0.55), xytext=(6, 0), textcoords="offset points", color="dimgrey")
    drawn.set(
        xlabel="lock, in P",
        ylabel="expected profit of skipping, in P",
        xlim=(0, 4),
        title="Skipping 100 steps against the lock",
    )
    drawn.legend(frameon=False)
    save(figure, path)


def plot_return(path: Path) -> None:
    """Yearly return on the least stake against how busy one GPU is: what the fee's cap allows."""
    figure, drawn = axes()
    stake = params.PRODUCTION.min_stake / params.ZEN
    busy = _line(100, 0, 1)
    for (name, price), colour, at in zip(GPU_HOUR.items(), COLOURS[:3], (62, 65, 32), strict=True):
        slope = YEAR_H * price * max_reward_share() / stake  # a year of hours, over the stake
        drawn.plot([100 * b for b in busy], [100 * b * slope for b in busy], color=colour, lw=1.8)
        label = f"{name}, {price:g} ZEN an hour"
        drawn.annotate(label, (at, at * slope), xytext=(6, -12), textcoords="offset points", color=colour)
    drawn.axhspan(15, 25, color="#e8c547", alpha=0.3, lw=0)
    drawn.annotate("15 to 25 %, as the seeds expect", (99, 18), ha="right", color="dimgrey")
    drawn.set(xlabel="hours sold, percent of one GPU's year", ylabel="most rewards a year, percent of 1,000 ZEN staked")
    drawn.set(xlim=(0, 100), ylim=(0, 120), title="Most return on the least stake, one GPU")
    save(figure, path)


PLOTS = {"profit-by-rate": plot_rate, "profit-by-lock": plot_lock, "return-on-stake": plot_return}


if __name__ == "__main__":
    sys.exit(build(PAGE, TABLES, PLOTS, __doc__))
