"""A local network in which somebody may withhold data, and jobs on it: what the tests of demands share."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from tests.support.local_jobs import TINY, poll_until_block, submit
from tests.support.waiting import HANG_S
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import JobView

PATIENCE_S = 2 * HANG_S
PLANS = (
    OperatorPlan("alpha", price="0.80"),  # the cheapest: wins the slots of every job
    OperatorPlan("beta", roles=("provider", "aggregator"), price="0.90", aggregator_price="0.90"),
    # Patient enough for a test to end a keeper before it is asked.
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50", demand_after_s=5),
)


_seeds = count(1)  # the same job is not posted twice


def post(network: LocalNetwork, rounds: int = 1, delay: int = 0) -> int:
    """A new job of two slots, whose claims stand open to demands for a minute."""
    training = TINY["training"] | {
        "rounds": rounds,
        "slots": 2,
        "quorum": 1,
        "inner_steps": 4,
        "seed": next(_seeds),
        "delay": delay,
    }
    return submit(
        network, TINY | {"training": training, "limits": {"slot_s": 30, "aggregate_s": 30, "reexecute_s": 20}}
    )


def number_of(network: LocalNetwork, name: str) -> int:
    return next(number for number, each in network.operators.items() if each == name)


def until(network: LocalNetwork, job: int, what: str, reached: Callable[[JobView], Any]) -> JobView:
    """The first view of which `reached` is true."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        network.poll()
        view = read_job(network.devnet.chain, job)
        if reached(view):
            return view
        assert time.monotonic() < deadline, f"{what} did not happen; {view.state!r}, logs in {network.folder}"
        poll_until_block(network, view.block)
