"""Write the tables of docs/guides/costs.md: what three jobs cost, and what they bring three machines.

    python -m scripts.generate examples [--check]

The numbers are those of `zoo quote` and `zoo node estimate`, computed by the same functions on the production preset.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from scripts.generate.computed_pages import build, table
from zoo_compute.amounts import format_count, format_seconds
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.loading import plan_job
from zoo_compute.jobs.quote import Quote, outline_terms, quote
from zoo_compute.operators.estimate import Costs, Offer, estimate
from zoo_compute.operators.profit import COIN_PRICE
from zoo_compute.spec.params import PRODUCTION, REFERENCE_FLOPS, ZEN

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "costs.md"
JOBS: dict[str, dict[str, Any]] = {
    "a try": {
        "model": {"name": "gpt-1m"},
        "training": {"batch_size": 16, "inner_steps": 100, "rounds": 10, "slots": 4},
    },
    "a GPT-2": {
        "model": {"name": "gpt2"},
        "training": {"batch_size": 8, "inner_steps": 300, "rounds": 40, "slots": 8},
    },
    "a Llama of 1.1 billion": {
        "model": {"name": "llama-1b"},
        "training": {"batch_size": 4, "inner_steps": 500, "rounds": 100, "slots": 16},
    },
}
GAS_GWEI = 1
POWER_PRICE = "0.3"  # ZEN a kWh


class Machine(NamedTuple):
    """speed: FLOP/s that it sustains in the network's programs. price: that it asks for a slot-round, in ZEN."""

    speed: float
    watts: int
    slots: int
    price: str


MACHINES = {
    "a gaming card at home": Machine(REFERENCE_FLOPS / 2, 300, 1, "1"),
    "a card like the reference": Machine(REFERENCE_FLOPS, 400, 2, "1"),
    "a server with eight of them": Machine(REFERENCE_FLOPS * 8, 3_600, 8, "1"),
}


@cache
def job_of(name: str) -> ComputeJob:
    return plan_job({**JOBS[name], "data": {"path": "corpus.txt"}}).job


@cache
def quote_of(name: str) -> Quote:
    return quote(job_of(name), PRODUCTION)


def described() -> str:
    rows = []
    for name, said in JOBS.items():
        sizes, job = said["training"], quote_of(name)
        steps = f"{sizes['rounds']} rounds, {sizes['slots']} slots, {sizes['inner_steps']} steps of {sizes['batch_size']} examples"
        size, update = format_count(job.parameters), format_count(job.update_bytes, "B")
        rows.append((name, f"`{said['model']['name']}`", size, steps, format_count(job.tokens), update))
    return table(("job", "model", "parameters", "training", "tokens", "update of a slot"), rows)


def costs() -> str:
    rows = []
    for name in JOBS:
        each = quote_of(name)
        rows.append(
            (
                name,
                f"{each.gpu_hours:,.1f}" if each.gpu_hours > 1 else f"{each.gpu_hours:.4f}",
                _zen(each.expected),
                _zen(each.escrow),
                _zen(each.per_gpu_hour),
                _zen(each.per_million_tokens),
                format_seconds(each.round_longest_s),
                format_seconds(each.longest_s),
            )
        )
    head = (
        "job",
        "GPU-hours",
        "expected",
        "at most",
        "a GPU-hour",
        "a million tokens",
        "a round, at most",
        "in all, at most",
    )
    return table(head, rows)


def earnings() -> str:
    rows = []
    for machine, about in MACHINES.items():
        for name in JOBS:
            job = job_of(name)
            terms = outline_terms(job, job.profile)
            seconds = terms.flops / about.speed * about.slots
            made = estimate(
                Offer(terms, terms.reserve, PRODUCTION.bid_window_s + PRODUCTION.reveal_window_s),
                Costs(
                    price=int(about.price) * ZEN,
                    units=about.slots if about.slots < terms.slots else terms.slots,
                    slot_s=terms.flops / about.speed,
                    watts=about.watts,
                    gas_price=GAS_GWEI * 10**9,
                    coin_price=int(COIN_PRICE) * ZEN,
                    power_price=int(float(POWER_PRICE) * ZEN),
                ),
                PRODUCTION,
            )
            profit = _both(made.least_profit, made.most_profit)
            fits = seconds <= terms.slot_s
            cells = (
                str(made.units),
                format_seconds(max(1, round(seconds))),
                _both(made.least_price, made.most_price),
                _zen(made.gas),
            )
            rest = (_zen(made.power), profit, _zen(made.capital), format_seconds(made.first_payment_s))
            rows.append((machine, name, *cells, *rest) if fits else (machine, name, "too slow", *[""] * 7))
    head = (
        "machine",
        "job",
        "slots",
        "a round takes",
        "price",
        "gas",
        "power",
        "profit",
        "locks",
        "first payment after",
    )
    return table(head, rows)


def _zen(units: int) -> str:
    return f"{units / ZEN:,.2f}"


def _both(least: int, most: int) -> str:
    return _zen(least) if least == most else f"{_zen(least)} to {_zen(most)}"


if __name__ == "__main__":
    sys.exit(build(PAGE, {"jobs": described, "costs": costs, "earnings": earnings}, {}, __doc__))
