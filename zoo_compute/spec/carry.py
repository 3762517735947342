"""What a slot's private state is carried over from (docs/referee.md, "What is computed")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:

    class Held(Protocol):
        """A claim, however it is read."""

        @property
        def turn(self) -> int: ...
        @property
        def round(self) -> int: ...
        @property
        def operator(self) -> int: ...

    class OfSlots(Held, Protocol):
        @property
        def slots(self) -> range: ...

    Of = TypeVar("Of", bound=OfSlots)


def is_restart(round: int, carry: int) -> bool:
    """Whether the private state of every slot begins at zero in this round."""
    return carry <= 1 or round % carry == 0


def follows(claim: Held, aggregation: Held) -> bool:
    """Whether an aggregation ended the turn and the round before a claim's; after a rollback none did."""
    return (aggregation.turn, aggregation.round) == (claim.turn - 1, claim.round - 1)


def claim_before(claim: Held, slot: int, aggregation: Held | None, present: Iterable[Of]) -> Of | None:
    """The claim that a slot of `claim` goes on from, where its round is no restart; None where it begins at zero all the same.

    aggregation: what Settlement keeps in the aggregation's place of the turn before; present: the claims in its mask.
    """
    if aggregation is None or not follows(claim, aggregation):
        return None
    held = next((each for each in present if slot in each.slots), None)
    return held if held is not None and held.operator == claim.operator else None
