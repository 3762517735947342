"""Reorganisations of 1 to 64 blocks, each right after something that an operator did, which it undoes.

The new blocks have what others sent, and nothing of the operators': as if these transactions had never reached who mined the other branch.
64 blocks under the newest one are final on this chain.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from typing import Any

from web3.exceptions import TransactionNotFound

from benchmarks.faults.firing import Firing, NotFired
from benchmarks.faults.machine import NAMES
from zoo_compute.chain import keystore
from zoo_compute.chain.events import Event, scan
from zoo_compute.paths import HOT_KEY

DEPTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 56, 64)
LONGEST_S = 420.0
BLOCK_S = 1  # from the first reorganisation on a transaction waits for its block, as on a real chain
SLACK = 3  # blocks that come while the others are read: so much deeper than a depth counts for it
EVERY_S = 4.0  # time between two: a keeper completes a look
# What operators do in a job that nobody disputes, and in their network: each must have been undone.
ACTIONS = (
    "BidSealed",
    "BidRevealed",
    "SeatReady",
    "ResultsCommitted",
    "CheckpointPosted",
    "ClaimFinalised",
    "Withdrawn",
)


def reorganisations(firing: Firing, times: int) -> None:
    network, row = firing.network, firing.record.row("reorganisations of 1 to 64 blocks")
    chain = network.devnet.chain
    hot = {str(keystore.address_of(network.folder / name / HOT_KEY)) for name in NAMES}
    undone: Counter[str] = Counter()
    left, first = list(DEPTHS), firing.record.first + max(DEPTHS)
    deeper = cycle(DEPTHS[:8])
    depths: set[int] = set()
    began, seen = time.monotonic(), chain.head().number
    while (left or _missing(undone)) and time.monotonic() - began < LONGEST_S:
        _mine_beside(firing)
        newest = chain.w3.eth.block_number
        done = [event for event in _events(chain, seen + 1, newest) if _by(chain, event, hot)]
        seen = max(seen, newest)
        if not left:  # jobs go on to what was not undone yet
            done = [event for event in done if event.name in _missing(undone)]
        if not done:
            continue
        done.sort(key=lambda event: undone[event.name])
        depth = next((each for each in left if each > newest - done[0].block), 0) or next(deeper)
        if newest - depth <= first:
            continue
        depth, lost = _undo(firing, done[0], depth, hot)
        since = time.time()
        left = [each for each in left if each > depth or each < depth - SLACK]
        undone.update(lost)
        depths.add(depth)
        row.fired += 1
        firing.say(f"reorganisation of {depth}: undid {dict(Counter(lost))}")
        firing.recover(row, [(name, "keeper") for name in NAMES], since)
        firing.wait(EVERY_S)
        seen = min(seen, newest - depth)
    row.details["depths"] = sorted(depths)
    row.details["undone"] = dict(undone)
    if left or _missing(undone):
        raise NotFired(f"no reorganisation of {left} blocks, none undid {_missing(undone)}; undone: {dict(undone)}")


def _undo(firing: Firing, event: Event, depth: int, hot: set[str]) -> tuple[int, list[str]]:
    """Replace as many blocks as it takes for an event to be gone. Their number, and the names of the operators' events in them."""
    devnet, chain = firing.network.devnet, firing.network.devnet.chain
    was_in = _block_of(chain, event.tx)
    devnet.rpc("evm_setIntervalMining", [0])  # a block that comes meanwhile would be replaced instead of the oldest
    try:
        newest = chain.w3.eth.block_number
        first = min(event.block, newest - depth + 1)
        lost = [each.name for each in _events(chain, first, newest) if _by(chain, each, hot)]
        others = _of_others(chain, first, newest, hot)
        devnet.rpc("anvil_reorg", [newest - first + 1, [[raw, 0] for raw in others]])
    finally:
        devnet.rpc("evm_setIntervalMining", [BLOCK_S])
    if _block_of(chain, event.tx) == was_in:
        raise NotFired(f"a reorganisation from block {first} on left {event.name} in the chain")
    return newest - first + 1, lost


def _block_of(chain: Any, tx: str) -> bytes:
    """The hash of the block that a transaction is in; empty if it is in none."""
    try:
        return bytes(chain.w3.eth.get_transaction_receipt(tx)["blockHash"])
    except TransactionNotFound:
        return b""


def _missing(undone: Counter[str]) -> list[str]:
    return [name for name in ACTIONS if not undone[name]]


def _mine_beside(firing: Firing) -> None:
    """More blocks a second, so that a deep branch takes little time."""
    for _ in range(3):
        firing.network.devnet.rpc("evm_mine", [])
    firing.wait(0.3)


def _events(chain: Any, first: int, last: int) -> list[Event]:
    return list(scan(chain, first, last)) if first <= last else []


def _by(chain: Any, event: Event, accounts: set[str]) -> bool:
    return str(chain.w3.eth.get_transaction(event.tx)["from"]) in accounts


def _of_others(chain: Any, first: int, last: int, accounts: set[str]) -> list[str]:
    """Raw transactions of all other accounts, in their order."""
    raws = []
    for number in range(first, last + 1):
        for transaction in chain.w3.eth.get_block(number, full_transactions=True)["transactions"]:
            if str(transaction["from"]) not in accounts:
                raws.append("0x" + bytes(chain.w3.eth.get_raw_transaction(transaction["hash"])).hex())
    return raws


FAULTS: dict[str, tuple[Callable[[Firing, int], None], int]] = {"reorgs": (reorganisations, 1)}
