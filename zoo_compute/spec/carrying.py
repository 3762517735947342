"""What a slot's private state is carried over from (docs/referee.md, "What is computed")."""

from collections.abc import Iterable

from zoo_compute.spec.state import Claim


def is_restart(round: int, carry: int) -> bool:
    """Whether the private state of every slot begins at zero in this round."""
    return carry <= 1 or round % carry == 0


def follows(claim: Claim, aggregation: Claim) -> bool:
    """Whether an aggregation ended the turn and the round before a claim's; after a rollback none did."""
    return (aggregation.turn, aggregation.round) == (claim.turn - 1, claim.round - 1)


def claim_before(
    claim: Claim, slot: int, carry: int, aggregation: Claim | None, present: Iterable[Claim]
) -> Claim | None:
    """The claim that a slot of `claim` goes on from; None where its private state begins at zero.

    aggregation: what Settlement keeps of the aggregation in the place of the turn before; present: the claims in its mask.
    """
    if is_restart(claim.round, carry) or aggregation is None or not follows(claim, aggregation):
        return None
    held = next((each for each in present if slot in each.slots), None)
    return held if held is not None and held.operator == claim.operator else None
