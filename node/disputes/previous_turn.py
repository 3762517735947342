"""What a slot continues from, as an asker shows it: the claim before, or that there is none (docs/protocol/evidence.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from node.disputes.computation import Roots, tensor_in
from zoo_compute.disputes.evidence import Begin, PresentClaim
from zoo_compute.spec.carry import ends_previous_turn
from zoo_compute.spec.frames import Result
from zoo_compute.spec.state import Claim
from zoo_compute.training.rounds import RESIDUAL


@dataclass(frozen=True)
class SeatClaim:
    """A claim of slots that was aggregated, with the results of its slots, each with its path to the claim's root."""

    claim: Claim
    results: Mapping[int, Result]


@dataclass(frozen=True)
class PreviousTurn:
    """The turn before that of a slot-round, where its round is no restart.

    aggregation: what Settlement keeps in the aggregation's place of that turn, None where it keeps nothing; seated: the claims
    in its mask; end, update: roots of the tensors that the slot ended with and of its update, where there is a claim before.
    """

    aggregation: Claim | None = None
    seated: Sequence[SeatClaim] = ()
    end: Roots = field(default_factory=dict)
    update: Roots = field(default_factory=dict)

    def begin(self, zero: Begin, name: str, claim: Claim, slot: int) -> Begin:
        """What a slot of a claim has in a private entry at first. zero: as if that were nothing."""
        if self.aggregation is None:
            return replace(zero, claim=claim)
        proof = replace(zero, claim=claim, aggregation=self.aggregation)
        if not ends_previous_turn(claim, self.aggregation):
            return proof
        every = sorted(self.seated, key=lambda each: each.claim.seat)
        holder = next((each for each in every if slot in each.claim.slots), None)
        if holder is None:
            return replace(proof, present=tuple(PresentClaim.of(each.claim) for each in every))
        proof = replace(proof, present=(PresentClaim.of(holder.claim),))
        if holder.claim.operator != claim.operator:
            return proof
        tensor = tensor_in(self.update if name.startswith(RESIDUAL) else self.end, name)
        return replace(proof, tensor=tensor, descriptor=b"", path=(), result=holder.results[slot])
