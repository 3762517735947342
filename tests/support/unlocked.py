"""Sends printed transactions on a devnet, from accounts whose keys nobody here has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zoo_compute.chain.events import scan
from zoo_compute.devnet.devnet import Devnet

RPC_KEYS = ("from", "to", "data", "value", "chainId", "gas")
MOVING = ("now", "at", "deadline", "exit_at", "until", "since")  # of events: read from the clock


def send_printed(devnet: Devnet, transactions: Sequence[dict[str, Any]]) -> list[int]:
    """Send them in order, as a wallet would; the gas that each used. Each must be mined and succeed."""
    used = []
    for each in transactions:
        devnet.rpc("anvil_impersonateAccount", [each["from"]])
        digest = devnet.rpc("eth_sendTransaction", [{key: each[key] for key in RPC_KEYS}])
        receipt = devnet.chain.w3.eth.wait_for_transaction_receipt(digest)
        assert receipt["status"] == 1, each
        assert receipt["gasUsed"] <= int(each["gas"], 16)
        used.append(receipt["gasUsed"])
    devnet.chain.forget_head()
    return used


def events_since(devnet: Devnet, block: int) -> list[tuple[str, dict[str, Any]]]:
    """What the contracts logged after a block, without times."""
    head = devnet.chain.head().number
    events = scan(devnet.chain, block + 1, head) if block < head else ()
    return [(event.name, {key: value for key, value in event.args.items() if key not in MOVING}) for event in events]
