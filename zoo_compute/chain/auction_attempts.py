"""The attempts of a job's auction, from its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zoo_compute.chain.events import Event


@dataclass(frozen=True)
class Attempt:
    """One attempt of a job's auction, for both lots. It has what events contain, not what happened to a bid later."""

    reveal_end: int
    reserves: Mapping[int, int]  # by kind
    bids: Mapping[tuple[int, int], int]  # (kind, operator) -> units that were sealed, whether or not they were revealed


def attempts_of(events: Sequence[Event]) -> list[Attempt]:
    """Attempt n of the auction is the nth."""
    attempts: list[Attempt] = []
    for event in events:
        args = event.args
        if event.name == "LotOpened":
            reserves = attempts.pop().reserves if len(attempts) == args["attempt"] else {}
            attempts.append(Attempt(args["reveal_end"], {**reserves, args["kind"]: args["reserve"]}, {}))
        elif event.name == "BidSealed":
            newest = attempts[-1]
            sealed = {**newest.bids, (args["kind"], args["operator"]): args["capacity"]}
            attempts[-1] = replace(newest, bids=sealed)
    return attempts
