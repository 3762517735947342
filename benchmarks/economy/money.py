"""What a play was worth to each side: money, less what work cost, and the rounds that the submitter has for its money."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from benchmarks.economy.network import CUSTODIANS, PARTIES, ROUND_COST, SLOT_COST, Network
from zoo_compute.spec.auditing import FIRST_SLOT_UNIT
from zoo_compute.spec.params import RESERVED_FEES
from zoo_compute.spec.state import Claim

JOB = 1
STRANGERS_LIE = 50  # one unit in so many of strangers, which somebody shows


@dataclass
class Worth:
    """Of one play. A submitter that is hostile has the worth of all true work, of rounds that were undone, too: of its own parties'
    what that cost them, since they could do it without the protocol."""

    network: Network
    hostile: set[str]
    claims: list[Claim] = field(default_factory=list)
    lies: set[Claim] = field(default_factory=set)
    tainted: dict[bytes, bool] = field(default_factory=dict)  # by the state that rounds start from
    unaggregated: set[int] = field(default_factory=set)
    risked: int = 0
    draws: dict[str, int] = field(default_factory=dict)  # by auditor: what honesty earns with its units
    bounties: int = 0  # of hostile auditors: the submitter's deposit pays them

    def closed(self, turn: int, claims: Iterable[Claim], lies: set[Claim], made: Claim | None) -> None:
        self.claims += claims
        self.lies = lies
        if made is not None:
            self.tainted[made.root] = made in lies or self.tainted.get(made.start_root, False)
        else:
            self.unaggregated.add(turn)

    def drawn(self, name: str, units: Mapping[int, Claim]) -> None:
        """Chance gave an auditor these units: with other draws it had earned otherwise, whatever it did."""
        for unit, claim in units.items():
            cost = ROUND_COST if unit < FIRST_SLOT_UNIT else SLOT_COST
            self.draws[name] = self.draws.get(name, 0) + self._fee(unit) - (0 if self.knows(name, claim) else cost)

    def looked(self, name: str, units: Mapping[int, Claim]) -> None:
        """Looking is doing again; a coalition knows what its own claims are."""
        for unit, claim in units.items():
            if not self.knows(name, claim):
                self.network.work(name, unit >= FIRST_SLOT_UNIT)

    def knows(self, name: str, claim: Claim) -> bool:
        return {name, self.network.named(claim.operator)} <= self.hostile

    def trusted(self, name: str, units: Mapping[int, Claim]) -> None:
        """Called clean without a look. Of strangers' units one in STRANGERS_LIE is a lie that somebody shows: here it costs its part."""
        for unit, claim in units.items():
            if self.network.named(claim.operator) not in self.hostile:
                self.risked += self._fee(unit) * RESERVED_FEES // STRANGERS_LIE

    def settled(self, name: str, units: Iterable[int], earned: int) -> None:
        """What an auditor has for these units beyond their fees is bounties."""
        if name in self.hostile:
            self.bounties += max(0, earned - sum(map(self._fee, units)))

    def _fee(self, unit: int) -> int:
        terms = self.network.world.terms[JOB]
        return terms.aggregator_reserve if unit < FIRST_SLOT_UNIT else terms.reserve

    # --- at the end

    def gained(self, names: Iterable[str]) -> int:
        """Money, less what work cost; of an auditor, less what honesty earns with its draws."""
        n = self.network
        return sum(n.wealth([name]) - n.before[name] - self.draws.get(name, 0) for name in names)

    def is_undone(self, claim: Claim) -> bool:
        """Rolled back, or resting on a lie."""
        closed = self.network.world.closed_turns.get((JOB, claim.turn))
        return (closed is not None and closed.is_rolled_back) or self.tainted.get(claim.start_root, False)

    def work(self, *, kept: bool) -> int:
        """The worth of true work at the prices of the honest course. kept: only of rounds that are in the model."""
        total = 0
        for claim in self.claims:
            if claim in self.lies:
                continue
            is_undone = self.is_undone(claim)
            is_own = self.network.named(claim.operator) in self.hostile
            if not is_undone or not (kept or is_own):
                total += self.network.round_price if claim.is_aggregation else claim.count * self.network.slot_price
            elif not kept:
                total += ROUND_COST if claim.is_aggregation else claim.count * SLOT_COST
        return total

    @property
    def of_coalition(self) -> int:
        own = self.gained(self.hostile) - self.risked
        if "submitter" not in self.hostile:
            return own
        custody = sum(max(0, self.gained([name])) for name in self.hostile.intersection(CUSTODIANS))
        return own + self.work(kept=False) - self.bounties - custody

    def honest_losses(self) -> dict[str, int]:
        """What honest parties paid more than they had for it; of the submitter, beyond its audits."""
        names = [name for name in PARTIES if name not in self.hostile]
        out = {name: -self.gained([name]) - self.draws.get(name, 0) for name in names}
        if "submitter" in out:
            out["submitter"] = self._paid_for_rounds() - self.work(kept=True)
        return out

    def _paid_for_rounds(self) -> int:
        ledger = self.network.world.job_ledgers[JOB]
        return ledger.escrowed - ledger.refunded
