"""The claim from which a slot's private state is carried over (docs/protocol/computation.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:

    class ClaimLike(Protocol):
        """A claim, however it is read."""

        @property
        def turn(self) -> int: ...
        @property
        def round(self) -> int: ...
        @property
        def operator(self) -> int: ...

    class SlotClaimLike(ClaimLike, Protocol):
        @property
        def slots(self) -> range: ...

    Of = TypeVar("Of", bound=SlotClaimLike)


def is_restart(round: int, carry: int) -> bool:
    """Whether every slot's private state starts at zero in this round."""
    return carry <= 1 or round % carry == 0


def ends_previous_turn(claim: ClaimLike, aggregation: ClaimLike) -> bool:
    """Whether an aggregation closed the turn and the round before a claim's; false after a rollback."""
    return (aggregation.turn, aggregation.round) == (claim.turn - 1, claim.round - 1)


def claim_before(claim: ClaimLike, slot: int, aggregation: ClaimLike | None, present: Iterable[Of]) -> Of | None:
    """The claim whose private state a slot of `claim` continues, if its round is no restart; None if it starts at zero anyway.

    aggregation: the aggregation that Settlement stores for the turn before; present: the claims in its mask.
    """
    if aggregation is None or not ends_previous_turn(claim, aggregation):
        return None
    covering = next((each for each in present if slot in each.slots), None)
    return covering if covering is not None and covering.operator == claim.operator else None
