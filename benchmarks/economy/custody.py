"""What custodians sign in a play."""

from __future__ import annotations

from benchmarks.economy.table import JOB, Table
from zoo_compute.spec import seats
from zoo_compute.spec.custodians import CheckpointSignature, InputsSignature, StartSignature
from zoo_compute.spec.state import Claim


class Custody(Table):
    """Three are drawn before the first turn; one of them may be hostile."""

    def draw_custodians(self) -> None:
        n = self.n
        n.to(max(n.now, n.world.custody_requests[JOB].closes_at))
        n.ok("custody", "schedule", "stranger", JOB)
        n.mine(n.preset.draw_blocks + 2)
        n.ok("custody", "draw", "stranger", JOB, ())
        self.committee = n.world.committees[JOB, 1]
        signed = tuple(StartSignature(place, each.key, JOB) for place, each in enumerate(self.committee))
        n.ok("custody", "hold_start", "stranger", JOB, self.committee, signed)

    def count_signatures(self) -> None:
        """Of turns that are final; nothing where there are none."""
        version = self.n.world.custody[JOB].version
        self.n.attempt("custody", "count", "stranger", JOB, version, self.committee)

    def _signers(self, what: str, turn: int) -> list[int]:
        return [
            place
            for place, each in enumerate(self.committee)
            if self.pick(self.n.named(each.operator), f"of the {what} of turn {turn}", "signs", "does not") == "signs"
        ]

    def sign_inputs(self, turn: int) -> None:
        if turn > self.run.depth:
            self.count_signatures()
        seen = seats.present(self.run)
        signed = tuple(
            InputsSignature(place, self.committee[place].key, JOB, turn, seen)
            for place in self._signers("inputs", turn)
        )
        self.n.ok("custody", "hold_inputs", "stranger", JOB, turn, self.committee, signed)

    def sign_checkpoint(self, made: Claim) -> None:
        signed = tuple(
            CheckpointSignature(place, self.committee[place].key, JOB, made.turn, made.root)
            for place in self._signers("checkpoint", made.turn)
        )
        self.n.ok("custody", "hold_turn", "stranger", JOB, made, self.committee, (), signed)
