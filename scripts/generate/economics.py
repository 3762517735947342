"""Writes the numbers and plots of docs/design/economics.md: tables between its marks, and docs/figures/economics/*.svg.

    python -m scripts.generate economics [--check]

Everything is computed here from the constants of `zoo_compute.spec.params`; the attacks are played on the specification
(tests/support/attacks.py), and the search for plays is benchmarks/results/plays.json. `--check` exits 1 when a table is stale; plots are only looked for, since fonts differ between machines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.generate.computed_pages import COLOURS, axes, build, percent, save, table
from zoo_compute.spec import auditing, params

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
KEPT = 1 - params.FEE_BPS / params.BPS  # of a payment, by whoever works
WORK = 0.57 / 0.8  # what a slot-round costs, in its price: the worker of benchmarks/economy bids 60 and is paid 80
RESERVE = 1.25  # what a verdict is paid, in the same: 100 to 80
NETWORK, HOSTILE, TURNS = (
    1_000,
    333,
    300,
)  # operators, each with a place among the auditors; turns in which the hostile lie
NETWORK_RATES = (params.DEFAULT_AUDIT_BPS, 2_000)
PLAYS = ROOT / "benchmarks" / "results" / "plays.json"


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


def caught(rate_bps: int, hostile: float = 1 - params.HONEST_PARTS / params.HONEST_OF) -> float:
    """Chance that one lie is found: drawn, by an honest auditor, who looks."""
    return rate_bps / params.BPS * (1 - hostile) * params.DILIGENT_PARTS / params.DILIGENT_OF


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


# --- a network, and plays ---------------------------------------------------------------------------------------------


def network_table() -> str:
    """Every hostile operator of a thousand lies in each of so many turns, in a job of its own; chance draws as Audits does."""
    rows = []
    for rate in NETWORK_RATES:
        detected_count = detected_lies(rate)
        lies = HOSTILE * TURNS
        share, locked = detected_count / lies, lock(rate)
        gained = (1 - share) * KEPT - share * LOST * locked
        rows.append(
            [
                percent(rate / params.BPS, 0),
                f"{lies:,}",
                f"{detected_count:,} ({percent(share, 2)})",
                percent(caught(rate), 2),
                f"{gained:+.2f} P",
                f"{gained - (KEPT - WORK):+.2f} P",
                f"{-LOST * locked - (KEPT - WORK):+.1f} P",
            ]
        )
    return table(
        ["audit rate s", "lies", "found", "p", "a lie earns", "against honest work", "where anybody looks"],
        rows,
    )


def detected_lies(rate_bps: int) -> int:
    """How many an honest auditor that looks was drawn for: of the hostile every third place is, and of the others every second looks."""
    detected_count = 0
    for turn in range(TURNS):
        draw = auditing.Draw(1, 1, NETWORK, 1, rate_bps, is_drawn=True, seed=turn.to_bytes(32, "big"))
        for author in range(1, NETWORK + 1):
            if not author % 3 and auditing.is_drawn(draw.seed, author, rate_bps):
                auditor, _ = auditing.assigned(draw, author, author, lambda place: place + 1)
                detected_count += auditor % 3 != 0 and auditor % 2 == 0
    return detected_count


def party_table() -> str:
    """What each party earns and risks a unit of its work, in prices P of a slot-round, at the default rate and the preset's numbers."""
    locked, fee = lock(params.DEFAULT_AUDIT_BPS), RESERVE
    lazy = fee * params.RESERVED_FEES
    tenth = locked * params.SLASH_BPS / params.BPS
    least = tenth * (1 - params.MAX_SET_ASIDE / params.MAX_REPUTATION)
    rows = [
        ["worker", f"{KEPT - WORK:+.2f} P", "skips a slot-round", f"{-0.05 * (1 - caught(500)) - (KEPT - WORK):+.2f} P by audits alone, {-LOST * locked:+.0f} P if anybody looks"],
        ["worker", f"{KEPT - WORK:+.2f} P", "gives its seat up, or is late", f"{-tenth:+.1f} P, and the seat"],
        ["worker with the best record", f"{KEPT - WORK:+.2f} P", "the same, once, and somebody takes the seat at its price", f"{-least:+.1f} P, and the seat"],
        ["aggregator", "its price, less its work", "a false checkpoint", f"{-LOST * locked:+.0f} of its prices and every round that rests on it, if anybody looks"],
        ["verifier", f"{percent(params.FALSE_TRIAL_BPS * params.FINDER_BPS / params.BPS**2, 0)} of the stake behind a false trial, {percent(params.BREACH_BPS * params.BREACH_FEE_BPS / params.BPS**2, 1)} of one behind a broken promise, {percent(params.LAPSE_BPS * params.RECALLER_BPS / params.BPS**2, 1)} of one whose recall lapses", "asks about a true trial", "nothing, and the asks"],
        ["auditor", f"{fee - WORK:+.2f} P a unit", '"clean" without a look', f"{fee:+.2f} P, less {lazy:.0f} P for each lie that somebody shows: it pays below one lie in {lazy / WORK:.0f} units"],
        ["auditor", f"{fee - WORK:+.2f} P a unit", '"false" of a true unit', "nothing, and the asks"],
        ["custodian", "its fee a signature", "does not sign where too few do", f"the turn's pay and {percent(params.CUSTODY_LAPSE_BPS / params.BPS, 0)} of its reserve"],
        ["submitter", "its model", "judges its own aggregator to train for nothing", "every undone round at the maximum from its own lock"],
        ["bidder", "its critical price", "does not open its bid", f"{-RESERVE:+.2f} P a unit"],
    ]  # fmt: skip
    return table(["party", "honest", "dishonest", "earns"], rows)


def plays_table() -> str:
    """Of the last search (benchmarks/plays.py): the best of every party alone, and of so many together."""
    last = json.loads(PLAYS.read_text())
    rows = []
    best = {tuple(each["coalition"]): each["profit"] for each in last["best"]}
    for size in range(1, 1 + max(map(len, best))):
        of_size = [each for each in last["best_that_bends"] if len(each["coalition"]) == size]
        chosen = of_size if size == 1 else [max(of_size, key=lambda each: each["profit"])]
        for each in chosen:
            of_all = max(
                profit for of, profit in best.items() if len(of) == size and (size > 1 or of[0] in each["coalition"])
            )
            who = each["coalition"][0] if size == 1 else f"{size} together, {len(of_size)} coalitions"
            play = "; ".join(each["play"])
            rows.append([who, f"{of_all:+.3f}", f"{each['profit']:+.3f}", each["circumstances"], play])
    said = f"{last['plays']:,} different plays of {last['strategies']:,} strategies, {last['calls']:,} calls of the specification:\n\n"
    return said + table(["coalition", "best, in slot-rounds", "best that bends", "where", "by"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "detection": detection_table,
    "bonds": bond_table,
    "returns": return_table,
    "emission": emission_table,
    "attacks": attack_table,
    "parties": party_table,
    "network": network_table,
    "plays": plays_table,
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
