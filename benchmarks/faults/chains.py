"""Faults of the chain and of its nodes' pools: fees that jump, small blocks, stuck and dropped transactions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.faults.firing import Firing
from benchmarks.faults.machine import NAMES
from zoo_compute.chain.fees import GWEI

ALL = [(name, "keeper") for name in NAMES]
SPIKE_GWEI = 150  # from about 1: a transaction of a million gas costs 0.15 coins
STUCK_S = 75.0  # a sender raises a fee after 30 s without a block that takes it


def fee_spikes(firing: Firing, times: int) -> None:
    """Each block's base fee is 150 gwei, for as long as it lasts; then it falls by an eighth a block."""
    devnet = firing.network.devnet
    for _ in range(times):
        paid: list[int] = []
        seen: list[int] = [devnet.chain.w3.eth.block_number]

        def raise_fee(paid: list[int] = paid, seen: list[int] = seen) -> None:
            until = time.monotonic() + 12
            while time.monotonic() < until:
                devnet.rpc("anvil_setNextBlockBaseFeePerGas", [hex(SPIKE_GWEI * GWEI)])
                firing.wait(0.2)
                newest = devnet.chain.w3.eth.block_number
                for number in range(seen[0] + 1, newest + 1):
                    block: Any = devnet.chain.w3.eth.get_block(number)
                    if block["baseFeePerGas"] >= SPIKE_GWEI * GWEI // 2:
                        paid.append(len(block["transactions"]))
                seen[0] = newest

        firing.lasting(
            "fee spikes", raise_fee, lambda: None, hold_s=0, suffers=ALL, fired=lambda: len(paid)  # noqa: B023
        )  # fmt: skip
        row = firing.record.row("fee spikes")
        row.details["transactions"] = row.details.get("transactions", 0) + sum(paid)


def small_blocks(firing: Firing, times: int) -> None:
    """Blocks shrink from 30 to 2 million gas and less, so that few calls fit into one."""
    devnet = firing.network.devnet
    limit = int(devnet.chain.w3.eth.get_block("latest")["gasLimit"])
    for turn in range(times):
        small, first = (2_000_000, 1_500_000, 3_000_000)[turn % 3], devnet.chain.w3.eth.block_number
        fired: list[int] = []

        def restore(small: int = small, first: int = first, fired: list[int] = fired) -> None:
            devnet.rpc("evm_setBlockGasLimit", [hex(limit)])
            for number in range(first + 1, devnet.chain.w3.eth.block_number + 1):
                block: Any = devnet.chain.w3.eth.get_block(number)
                if block["gasLimit"] <= small and block["transactions"]:
                    fired.append(number)

        firing.lasting(
            "blocks shrink", lambda: devnet.rpc("evm_setBlockGasLimit", [hex(small)]), restore,  # noqa: B023
            hold_s=20, suffers=ALL, fired=lambda: len(fired),  # noqa: B023
        )  # fmt: skip


def pool(firing: Firing, times: int, *, fault: str, effect: str, count: int) -> None:
    """Geth's pool on all three RPCs: `count` transactions are stuck until they are replaced, or forgotten."""
    network = firing.network
    node = network.node
    for _ in range(times):
        before = node.fired[effect]

        def begin(before: int = before) -> None:
            for relay in network.relays:
                relay.mode = "pool"
            setattr(node, {"stuck": "stick", "dropped": "drop"}[effect], count)
            firing.until(lambda: node.fired[effect] > before, STUCK_S)
            if effect == "stuck":
                replaced = node.fired["replaced"]
                firing.until(lambda: node.fired["replaced"] > replaced or node.is_empty, STUCK_S)
            else:
                firing.wait(10)

        def end() -> None:
            node.release()
            firing.until(lambda: node.is_empty, 20)
            for relay in network.relays:
                relay.mode = "honest"

        firing.lasting(fault, begin, end, hold_s=0, suffers=ALL, fired=lambda: node.fired[effect])
    row = firing.record.row(fault)
    row.details["transactions"] = node.fired[effect]
    if effect == "stuck":
        row.details["replaced"] = node.fired["replaced"]


def stuck(firing: Firing, times: int) -> None:
    pool(firing, times, fault="transactions stuck in a pool by geth's rules", effect="stuck", count=2)


def dropped(firing: Firing, times: int) -> None:
    pool(firing, times, fault="transactions dropped by a pool", effect="dropped", count=3)


FAULTS: dict[str, tuple[Callable[[Firing, int], None], int]] = {
    "pool-stuck": (stuck, 3),
    "pool-dropped": (dropped, 3),
    "fees": (fee_spikes, 3),
    "small-blocks": (small_blocks, 3),
}
