"""Demands for a claim's data, from a job's events and the contract (docs/protocol/availability.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from zoo_compute.chain.events import Event
from zoo_compute.chain.views import Claim
from zoo_compute.spec.watching import NOBODY

_OF_EVENT = ("operator", "lane", "demander", "slot", "tensor", "group", "deposit", "holds")
CLAIM_TYPE = "(uint256,uint256,uint256,uint256,uint256,uint256,bytes32,bytes32)"


@dataclass(frozen=True)
class Demand:
    """One demand.

    operator: of which the data is demanded: the claim's author, or in a job with custodians one that signed for it. end: empty while it
    is open, then `bytes`, or, where it was not answered, `convicted` (the author's claim), `forfeited` (the custodian's reserve, or a
    part of it), or `unanswered` (it cost nothing). help_tx: in which somebody else showed what is demanded of a custodian.
    """

    claim: Claim
    operator: int
    lane: int
    slot: int
    tensor: int
    group: int
    deposit: int
    holds: bool
    block: int
    tx: str = ""
    end: str = ""
    end_block: int = 0
    end_tx: str = ""
    help_tx: str = ""
    demander: str = NOBODY
    opened_at: int = 0  # known for a lane's newest demand if the claim is pending or the demand is open

    @property
    def is_open(self) -> bool:
        return not self.end

    @property
    def has_bytes(self) -> bool:
        """Whether the bytes are on chain."""
        return self.end == "bytes" or self.help_tx != ""

    @property
    def in_vain(self) -> bool:
        """Whether whoever was asked did not answer."""
        return self.end in ("unanswered", "convicted", "forfeited")

    @property
    def refunded(self) -> bool:
        """Whether the deposit went back to the demander."""
        return self.in_vain and not self.help_tx


def claim_hash(claim: Claim) -> bytes:
    """The key of a claim's demands in Availability."""
    return keccak(encode([CLAIM_TYPE], [claim.fields]))


def demands_of(events: Sequence[Event], claims: Sequence[Claim]) -> list[Demand]:
    """Every demand of a job, in the order they were made."""
    demands: list[Demand] = []
    for event in events:
        args = event.args
        if event.name == "ChunkDemanded":
            asked = [c for c in claims if _is_of(args, c) and c.block <= event.block]
            place = {name: args[name] for name in _OF_EVENT}
            demands.append(Demand(claim=asked[-1], block=event.block, tx=event.tx, **place))
        elif event.name in ("DemandHelped", "DemandAnswered", "DemandUnanswered"):
            at = max(i for i, d in enumerate(demands) if d.is_open and d.lane == args["lane"] and _is_of(args, d.claim))
            if event.name == "DemandHelped":
                demands[at] = replace(demands[at], help_tx=event.tx, holds=False)
            else:
                demands[at] = replace(demands[at], end=_end(event), end_block=event.block, end_tx=event.tx)
    return demands


def demands_to_read(demands: Sequence[Demand]) -> list[tuple[bytes, int]]:
    """(claim hash, lane) of the demands whose state must be read from the contract."""
    return sorted({(claim_hash(d.claim), d.lane) for d in demands if d.is_open or not d.claim.final})


def with_contract_state(demands: Sequence[Demand], kept: Mapping[tuple[bytes, int], Mapping[str, Any]]) -> list[Demand]:
    """The demands, with the contract's state of each lane's newest one."""
    newest = {(claim_hash(d.claim), d.lane): i for i, d in enumerate(demands)}
    updated = list(demands)
    for key, values in kept.items():
        at = newest[key]
        updated[at] = replace(updated[at], opened_at=values["opened_at"])
    return updated


def _is_of(args: Mapping[str, Any], claim: Claim) -> bool:
    return (args["turn"], args["seat"], args["author"]) == (claim.turn, claim.seat, claim.operator)


def _end(event: Event) -> str:
    if event.name == "DemandAnswered":
        return "bytes"
    return next((cost for cost in ("convicted", "forfeited") if event.args[cost]), "unanswered")
