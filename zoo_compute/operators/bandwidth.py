"""What an operator's receipts brought it: bytes redeemed by epoch, and its part of the rewards it claimed for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.events import scan
from zoo_compute.spec.params import REWARD_FLOW_BPS, Flow

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain


@dataclass(frozen=True)
class EpochBandwidth:
    """Of one epoch. redeemed: the bytes that count. earned: in ZEN's smallest unit, of what was claimed so far.

    Rewards pays uptime and bandwidth as one sum; each has its part of it in proportion to what was due.
    """

    epoch: int
    redeemed: int
    earned: int


def read_bandwidth(chain: Chain, operator: int) -> tuple[EpochBandwidth, ...]:
    """Every epoch in which the operator redeemed receipts."""
    head, first = chain.head().number, chain.network.first_block
    events = scan(chain, first, head, names=("ReceiptRedeemed",), server=operator)
    epochs = sorted({int(event.args["epoch"]) for event in events})
    reads = [
        each
        for epoch in epochs
        for each in (
            Read("rewards", "served", (operator, epoch)),
            Read("rewards", "total_bytes", (epoch,)),
            Read("rewards", "earned", (operator, epoch)),
            Read("registry", "beats", (operator, epoch)),
            Read("registry", "total_beats", (epoch,)),
        )
    ]
    answers = iter(read_all(chain, head, reads))
    made = []
    for epoch, served, total_bytes, earned, beats, total_beats in zip(epochs, *[answers] * 5, strict=True):
        # What was due for each, times the same number.
        bandwidth = REWARD_FLOW_BPS[Flow.BANDWIDTH] * served["counted"] * max(1, total_beats)
        uptime = REWARD_FLOW_BPS[Flow.UPTIME] * beats.bit_count() * total_bytes
        made.append(EpochBandwidth(epoch, served["counted"], earned["extra"] * bandwidth // max(1, bandwidth + uptime)))
    return tuple(made)
