"""Rewards of dataset contributors: list and claim them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.events import scan
from zoo_compute.spec.params import CLAIM_EPOCHS, Flow

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Sender


@dataclass(frozen=True)
class DataShare:
    """A contributor's reward from one job in one epoch. amount: paid; None before the claim."""

    job: int
    epoch: int
    state: str  # "due" | "claimed" | "waiting" (its epoch is not over) | "expired"
    amount: int | None = None


def unclaimed_shares(chain: Chain, contributor: str) -> list[DataShare]:
    """Rewards that are not claimed yet, oldest first."""
    head = chain.head()
    events = scan(chain, chain.network.first_block, head.number, names=("DataRecorded",))
    recorded = sorted(
        {(int(e.args["epoch"]), int(e.args["job"])) for e in events if e.args["contributor"] == contributor}
    )
    who = int(contributor, 16)
    weights = read_all(
        chain, head.number, [Read("rewards", "works", (Flow.DATA, who, job, epoch)) for epoch, job in recorded]
    )
    now = head.timestamp // chain.params.epoch_s
    return [
        DataShare(job, epoch, "waiting" if epoch >= now else "expired" if now > epoch + CLAIM_EPOCHS else "due")
        for (epoch, job), weight in zip(recorded, weights, strict=True)
        if weight
    ]


def claim(sender: Sender, contributor: str) -> list[DataShare]:
    """Claim all due rewards. Anyone can send this; the contributor is paid. Running it again claims only what is left."""
    done = []
    for share in unclaimed_shares(sender.chain, contributor):
        if share.state == "due":
            receipt = sender.send(sender.chain.rewards.claim_data(contributor, share.job, share.epoch))
            share = DataShare(share.job, share.epoch, "claimed", int(receipt.event("DataClaimed").args["amount"]))
        done.append(share)
    return done
