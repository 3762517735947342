"""How many answers of one keeper come into one block, when hostile accounts ask all at once.

One keeper has all claims of a job, on results and on aggregations. Blocks come only when the benchmark orders one. A block with a demand
of every claim, and a first ask about every claim on results, is followed by blocks that are ordered when the keeper has sent nothing more
for QUIET_S: so a block has what the keeper sends without waiting for another block, however long its computations take here. The chain's
time advances by one second a block, so that a devnet's short time for an answer lasts for the three blocks after the demands.

answers_per_block      the most in one block: demands answered and asks answered, of one keeper
answers_by_kind        the most demands answered, and the most asks answered, in one block
answers_blocks         blocks until all was answered
answers_asked          demands and asks in the first block
answers_missed         of these, not answered in time
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.network.hostile_asker import HostileAsker
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from tests.support.local_jobs import TINY, submit
from tests.support.withholding_jobs import until
from zoo_compute.chain import explorations
from zoo_compute.chain.events import scan
from zoo_compute.chain.views import Commit, JobView
from zoo_compute.devnet.devnet import Devnet

PLANS = (OperatorPlan("alpha", roles=("provider", "aggregator"), price="0.80", aggregator_price="0.50"),)
QUIET_S = 3.0
FIRST_S = 15.0  # until it sends something at all
LONGEST_S = 60.0  # for what a block may have
MOST_BLOCKS = 40
ANSWERED = {"demands": ("DemandAnswered",), "asks": explorations.ANSWERS}

_seeds = count(1_000)


def measured(folder: Path, rounds: int) -> dict[str, Any]:
    """A job of so many rounds, whose claims are all open to challenge, and what is asked about each of them at once."""
    with LocalNetwork(folder, PLANS) as network:
        job = submit(network, _job(rounds))
        made = 2 * rounds
        view = until(network, job, "every claim", lambda v: len(v.pending) == made)
        askers = [HostileAsker(network, f"asker-{number}") for number in range(made)]
        claims = list(view.pending)
        calls = _questions(view, claims, askers)
        with _ordered_blocks(network.devnet):
            return _counted(network, job, calls)


def _job(rounds: int) -> dict[str, Any]:
    training = {"rounds": rounds, "slots": 1, "quorum": 1, "inner_steps": 4, "seed": next(_seeds)}
    limits = {"slot_s": 60, "aggregate_s": 60, "reexecute_s": 120, "depth": 64}
    return TINY | {"training": TINY["training"] | training, "limits": limits}


def _questions(view: JobView, claims: Sequence[Any], askers: Sequence[HostileAsker]) -> list[Callable[[], bool]]:
    """What sends each, as a function without arguments: each from an account of its own."""
    calls: list[Callable[[], bool]] = []
    for asker, claim in zip(askers, claims, strict=True):
        calls.append(partial(asker.demand, view, claim))
        if isinstance(claim, Commit):
            asker.prepare(view, claim)
            calls.append(partial(asker.ask, view, claim))
    return calls


@contextmanager
def _ordered_blocks(devnet: Devnet) -> Iterator[None]:
    """No block comes by itself, and each is a second after the one before."""
    devnet.rpc("evm_setAutomine", [False])
    devnet.rpc("evm_setIntervalMining", [0])
    devnet.rpc("anvil_setBlockTimestampInterval", [1])
    try:
        yield
    finally:
        devnet.rpc("anvil_removeBlockTimestampInterval", [])
        devnet.rpc("evm_setIntervalMining", [1])
        devnet.rpc("evm_setAutomine", [True])


def _counted(network: LocalNetwork, job: int, calls: Sequence[Callable[[], bool]]) -> dict[str, Any]:
    devnet = network.devnet
    with ThreadPoolExecutor(len(calls)) as pool:
        sending = [pool.submit(call) for call in calls]
        _wait_quiet(network, len(calls))
        devnet.rpc("evm_mine", [])
        asked = sum(each.result() for each in sending)
    blocks: list[Counter[str]] = []
    while len(blocks) < MOST_BLOCKS and _wait_quiet(network):
        devnet.rpc("evm_mine", [])
        at = network.devnet.chain.head().number
        names = Counter(event.name for event in scan(network.devnet.chain, at, at))
        blocks.append(Counter({kind: sum(names[name] for name in of) for kind, of in ANSWERED.items()}))
    return report(blocks, asked)


def report(blocks: Sequence[Counter[str]], asked: int) -> dict[str, Any]:
    """blocks: in order, by kind, what was answered in each."""
    answered = [sum(each.values()) for each in blocks]
    return {
        "answers_per_block": max(answered),
        "answers_by_kind": {kind: max(each[kind] for each in blocks) for kind in ANSWERED},
        "answers_blocks": sum(1 for each in answered if each),
        "answers_asked": asked,
        "answers_missed": asked - sum(answered),
    }


def _wait_quiet(network: LocalNetwork, wanted: int = 0) -> int:
    """Until `wanted` transactions wait for a block, or no more have come for QUIET_S. How many wait."""
    known, changed, began = 0, time.monotonic(), time.monotonic()
    while True:
        network.poll()
        waiting = int(network.devnet.rpc("txpool_status", [])["pending"], 16)
        if waiting != known:
            known, changed = waiting, time.monotonic()
        now = time.monotonic()
        is_quiet = now - changed > (QUIET_S if known else FIRST_S)
        if (wanted and waiting == wanted) or is_quiet or now - began > LONGEST_S:
            return waiting
        time.sleep(0.05)
