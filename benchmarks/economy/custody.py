"""What custodians sign in a play."""

from __future__ import annotations

from benchmarks.economy.table import JOB, Table
from zoo_compute.spec import bits, seats
from zoo_compute.spec.custodians import CheckpointSignature, InputsSignature, StartSignature
from zoo_compute.spec.params import AGGREGATOR_SEAT


class Custody(Table):
    """Three are drawn before the first turn; one of them may be hostile."""

    def hold_start(self) -> None:
        signed = tuple(StartSignature(place, each.key, JOB) for place, each in enumerate(self.committee))
        self.n.ok("custody", "hold_start", "stranger", JOB, self.committee, signed)

    def count_signatures(self) -> None:
        """Of turns that are final; nothing where there are none."""
        version = self.n.world.custody[JOB].version
        self.n.attempt("custody", "count", "stranger", JOB, version, self.committee)

    def hold_inputs(self, turn: int) -> None:
        """Honest custodians sign for what they were served; a hostile one for everything, or less. Seats that no majority holds are left out."""
        if turn > self.run.depth:
            self.count_signatures()
        present = seats.present(self.run)
        served = bits.without(present, sum(1 << seat for seat in self.unserved))
        for places in (self._places(is_hostile=False), self._places(is_hostile=True)):
            if not places:
                continue
            signs = ["signs", "does not", "signs for less"]
            does = self._pick_of(places[0], f"of the inputs of turn {turn}", *signs)
            if does != "does not":
                of = present if places[0] in self._places(is_hostile=True) else served
                of = bits.without(of, of & -of) if does == "signs for less" else of
                signed = tuple(InputsSignature(place, self.committee[place].key, JOB, turn, of) for place in places)
                self.n.ok("custody", "hold_inputs", "stranger", JOB, turn, self.committee, signed)
        if served != present:
            self.n.wait(self.n.preset.answer_s + 1)
            self.n.ok("custody", "leave_out", "stranger", JOB, turn)
        self.unserved.clear()

    def sign_checkpoint(self, turn: int, root: bytes, cid: bytes) -> tuple[CheckpointSignature, ...]:
        """Of whoever does, be it a lie: it is held, that is all they say."""
        return tuple(
            CheckpointSignature(place, each.key, JOB, turn, AGGREGATOR_SEAT, root, cid)
            for place, each in enumerate(self.committee)
            if self._pick_of(place, f"of the checkpoint of turn {turn}", "signs", "does not") == "signs"
        )

    def _places(self, *, is_hostile: bool) -> list[int]:
        return [
            place
            for place, each in enumerate(self.committee)
            if (self.n.named(each.operator) in self.hostile) == is_hostile
        ]

    def _pick_of(self, place: int, where: str, *options: str) -> str:
        return self.pick(self.n.named(self.committee[place].operator), where, *options)
