"""Writes the numbers and plots of docs/design/economics.md: tables between its marks, and docs/figures/economics/*.svg.

    python -m scripts.generate economics [--check]

Everything is computed here from the constants of `zoo_compute.spec.params`, and the attacks are played on the specification
(tests/support/attacks.py). `--check` exits 1 when a table is stale; plots are only looked for, since fonts differ between machines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from scripts.generate.computed_pages import COLOURS, axes, build, percent, save, table
from zoo_compute.spec import params

ROOT = Path(__file__).resolve().parents[2]

PAGE = ROOT / "docs" / "design" / "economics.md"
LOST = (
    1 - params.FINDER_BPS / params.BPS
)  # of a convicted lock, at least: a cheat that seals first has the finder's share back
PRICE = 10**6  # smallest units: so that rounding up is no matter
RATES = (200, params.DEFAULT_AUDIT_BPS, 1_000, 2_000, 10_000)  # bps
GPU_HOUR = {tier.name: tier.reference_price / params.ZEN for tier in params.TIERS.values() if tier.id}  # ZEN
RETURNS = (0.15, 0.20, 0.25)  # a year, on stake: what seeds 000 and 001 expect
YEAR_H = 8_760


# --- arithmetic -------------------------------------------------------------------------------------------------------


def detected(rate: float, units: float) -> float:
    """Chance that at least one of `units` skipped units is audited at `rate`."""
    return 1 - (1 - rate) ** units


def cheat_profit(p: float, lock: float) -> float:
    """Expected profit of skipping all work, in units of the price; `lock` likewise. It challenges itself, at best."""
    return (1 - p) - p * LOST * lock


def lock(rate_bps: int) -> float:
    """What a slot locks in a job with this rate of audits, in its prices."""
    return params.lock_of(PRICE, rate_bps) / PRICE


def caught(
    rate_bps: int,
    hostile: float = 1 - params.HONEST_PARTS / params.HONEST_OF,
    diligent: float = params.DILIGENT_PARTS / params.DILIGENT_OF,
) -> float:
    """Chance that one lie is found: drawn, by an honest auditor, who looks."""
    return rate_bps / params.BPS * (1 - hostile) * diligent


def max_reward_share() -> float:
    """The most of a payment that comes back to its worker as rewards."""
    return params.FEE_BPS / params.BPS * params.REWARD_CAP_BPS[params.Flow.COMPUTE] / params.BPS


# --- tables -----------------------------------------------------------------------------------------------------------


def detection_table() -> str:
    counts = (10, 61, 100, 500)
    rows = [[percent(rate), *(percent(detected(rate, n)) for n in counts)] for rate in (0.001, 0.01, 0.02, 0.05, 0.10)]
    return table(["audit rate s", *(f"n = {n}" for n in counts)], rows)


def bond_table() -> str:
    rows = [
        [
            percent(rate / params.BPS, 0),
            percent(caught(rate)),
            f"{lock(rate):.1f} P",
            *(f"{cheat_profit(caught(rate, hostile), lock(rate)):+.2f} P" for hostile in (0, 0.1, 1 / 3, 0.5)),
            f"{cheat_profit(1, lock(rate)):+.1f} P",
        ]
        for rate in RATES
    ]
    head = ["audit rate s", "p", "lock", *(f"lie, {name} hostile" for name in ("none", "10 %", "a third", "half"))]
    return table([*head, "lie, if anybody looks"], rows)


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
    "returns": return_table,
    "emission": emission_table,
    "attacks": attack_table,
}


# --- plots ------------------------------------------------------------------------------------------------------------


def _line(n: int, low: float, high: float) -> list[float]:
    return [low + (high - low) * i / n for i in range(n + 1)]


def plot_rate(path: Path) -> None:
    """A lie's expected profit against the hostile share of stake, one line for each audit rate, with the lock that it asks for."""
    figure, drawn = axes()
    shares = _line(100, 0, 1)
    for rate, colour in zip((200, 500, 2_000, 10_000), COLOURS, strict=True):
        profits = [cheat_profit(caught(rate, share), lock(rate)) for share in shares]
        drawn.plot(
            [100 * x for x in shares], profits, color=colour, label=f"s = {rate / 100:g} %: {lock(rate):.1f} P", lw=1.8
        )
    drawn.axhline(0, color="black", lw=0.8)
    drawn.axvline(100 / 3, color="grey", lw=0.8, ls=":")
    drawn.set(xlabel="hostile share of stake, percent", ylabel="expected profit of a lie, in P", xlim=(0, 100))
    drawn.set(title="A lie against the hostile share of stake")
    drawn.legend(frameon=False)
    save(figure, path)


def plot_lock(path: Path) -> None:
    """A lie's expected profit against the lock, one line for each audit rate."""
    figure, drawn = axes()
    locks = _line(200, 0, 150)
    for rate, colour in zip((200, 500, 1_000, 2_000), COLOURS, strict=True):
        p = caught(rate)
        label = f"s = {rate / 100:g} % (p = {100 * p:.1f} %)"
        drawn.plot(locks, [cheat_profit(p, each) for each in locks], color=colour, label=label, lw=1.8)
    ours = lock(params.DEFAULT_AUDIT_BPS)
    drawn.axhline(0, color="black", lw=0.8)
    drawn.axvline(ours, color="grey", lw=0.8, ls=":")
    drawn.annotate(f"at 5 %: {ours:.1f} P", (ours, 0.55), xytext=(6, 0), textcoords="offset points", color="dimgrey")
    drawn.set(
        xlabel="lock, in P", ylabel="expected profit of a lie, in P", xlim=(0, 150), title="A lie against the lock"
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
