"""Asks, lies that are found, and how claims end in a play."""

from __future__ import annotations

from benchmarks.economy.table import JOB, Dispute, Table
from zoo_compute.spec import seats, settlement
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import DisputedClaim, Finder, claim_key
from zoo_compute.spec.params import BPS, DILIGENT_OF, DILIGENT_PARTS, HONEST_OF, HONEST_PARTS
from zoo_compute.spec.state import Claim


class Disputes(Table):
    """The referee's word is taken as given: true claims stand, lies that are found are convicted."""

    def look(self, claim: Claim) -> None:
        name = self.n.named(claim.operator)
        if (
            claim in self.lies
            and self.is_pending(claim)
            and (self.circumstances.is_watched or self._is_detected_by_chance(claim))
        ):
            self._dispute(claim, name)

    def ask(self, turn: int, claims: list[Claim]) -> None:
        """A coalition may ask about one true claim of others, to keep what rests on it waiting. Its author answers."""
        true = {
            f"asks about seat {claim.seat}{until}": (claim, turns)
            for claim in claims
            if claim not in self.lies and self.n.named(claim.operator) not in self.hostile and self.is_pending(claim)
            for turns, until in enumerate(("", " for a turn", " for two turns"))
        }
        asks = self.pick("sink", f"after turn {turn}", "asks nothing", *true)
        if asks in true:
            claim, turns = true[asks]
            self._open(Dispute(claim, turns, End.FINAL, ""))

    def _is_detected_by_chance(self, claim: Claim) -> bool:
        """As locks count on it: drawn, its auditor honest, and looking; each slot for itself."""
        p = self.circumstances.audit_bps * HONEST_PARTS * DILIGENT_PARTS / (BPS * HONEST_OF * DILIGENT_OF)
        is_detected = self.chance.detects(1 - (1 - p) ** max(claim.count, 1))
        self.strategy.chance(is_detected=is_detected)
        return is_detected

    def _dispute(self, claim: Claim, name: str) -> None:
        where = f"whose lie in turn {claim.turn}, seat {claim.seat} is found,"
        how = self.pick(name, where, "is judged", "is judged, with its own seal first", "is silent")
        when = self.pick(name, where + " is late", "at once", "by a turn", "by two turns")
        finder = "sink" if "own seal" in how else "stranger"
        turns = ("at once", "by a turn", "by two turns").index(when)
        self._open(Dispute(claim, turns, End.SILENT if how == "is silent" else End.JUDGED, finder))

    def _open(self, dispute: Dispute) -> None:
        if dispute.claim not in self.disputes:
            self.n.ok("settlement", "open_dispute", "referee", JOB, dispute.claim)
            self.disputes[dispute.claim] = dispute
            self._tell_audits(dispute.claim, None)

    def resolve(self, dispute: Dispute) -> None:
        claim = dispute.claim
        del self.disputes[claim]
        if dispute.end == End.FINAL:
            self.n.to(max(self.n.now, seats.claim_deadline(self.n.world, JOB, claim.turn) + 1))
        self.n.ok("settlement", "close_dispute", "referee", JOB, claim, int(dispute.end), 0, 0)
        if dispute.end == End.JUDGED:
            self.n.ok("settlement", "reward_finder", "referee", JOB, claim, dispute.finder)
        self._tell_audits(claim, dispute.end, dispute.finder)
        self._drop(claim)

    def _tell_audits(self, claim: Claim, end: End | None, finder: str = "") -> None:
        """What they read of a dispute in the referee."""
        if not self.circumstances.has_audits:
            return
        disputes, key = self.n.world.disputes, claim_key(JOB, claim)
        known = disputes.claims.get(key)
        deadline = known.deadline if known else seats.claim_deadline(self.n.world, JOB, claim.turn)
        slots, slot = max(claim.count, 1), claim.scope >> 16
        disputes.claims[key] = DisputedClaim(
            JOB, claim.operator, claim.turn, 5, slots, deadline, end=end, slot=slot, left_s=0
        )
        if end == End.JUDGED:
            disputes.finders[key] = Finder(finder, 0, is_rewarded=True)

    def _drop(self, claim: Claim) -> None:
        kept = self.pending.get(claim.turn)
        if kept is not None and claim in kept:
            kept.remove(claim)
            if not kept and claim.turn != self.run.turn:
                del self.pending[claim.turn]

    def finalise(self, turn: int) -> None:
        """All claims of a turn, at the end of its window; disputes that it waits for end now."""
        for claim in list(self.pending[turn]):
            if claim in self.disputes and not settlement.is_parkable(self.n.world, JOB, claim):
                self.resolve(self.disputes[claim])
        due = [claim for claim in self.pending.get(turn, ()) if settlement.known(self.n.world, JOB, claim) is not None]
        self.pending.pop(turn, None)
        if due:
            self.n.to(max(self.n.now, self.n.deadline(JOB, *due) + 1))
            self.n.ok("settlement", "finalise", "stranger", JOB, tuple(due))
