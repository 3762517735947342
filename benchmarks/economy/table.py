"""What the parts of a play share."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.economy.choices import Chance, Strategy
from benchmarks.economy.money import JOB, Worth
from benchmarks.economy.network import Circumstances, Network, awarded
from zoo_compute.spec import settlement
from zoo_compute.spec.auditing import FIRST_SLOT_UNIT, Role, Verdicts
from zoo_compute.spec.clocks import End
from zoo_compute.spec.custodians import Committee
from zoo_compute.spec.state import Claim, ClaimStatus, Run

# What each party of a coalition decides for. Every coalition has another name to take seats under, and an account that finds lies.
ROLES: dict[str, tuple[str, ...]] = {
    "submitter": ("submitter",),
    "provider": ("worker",),
    "second provider": ("peer",),
    "aggregator": ("aggregator",),
    "auditor": ("auditor",),
    "custodian": ("custodian",),
}
ALWAYS = ("spare", "sink")
MOST_TURNS = 4  # beyond the job's rounds, in which a coalition decides anything
MOST_CHANCES = 3  # lies of a play that are left to chance: each doubles its outcomes


@dataclass
class Dispute:
    """Of a claim: in how many turns it ends, and how."""

    claim: Claim
    turns: int
    end: End
    finder: str


@dataclass
class Table:
    """What everybody in a play sees: a coalition, what it decides, and what became of the claims."""

    circumstances: Circumstances
    coalition: frozenset[str]
    strategy: Strategy
    chance: Chance
    lies: set[Claim] = field(default_factory=set)
    pending: dict[int, list[Claim]] = field(default_factory=dict)  # by turn
    disputes: dict[Claim, Dispute] = field(default_factory=dict)
    said: dict[tuple[int, str, Role], Verdicts] = field(default_factory=dict)
    unserved: set[int] = field(default_factory=set)  # seats of the open turn whose updates nobody can have

    def __post_init__(self) -> None:
        self.n: Network = awarded(self.circumstances).forked()
        self.hostile = {name for role in self.coalition for name in ROLES[role]} | set(ALWAYS)
        self.worth = Worth(self.n, self.hostile)
        self.committee: Committee = self.n.world.committees.get((JOB, 1), ())

    @property
    def run(self) -> Run:
        return self.n.world.runs[JOB]

    def pick(self, name: str, where: str, *options: str) -> str:
        """What a party does; the first option is the honest one."""
        if name not in self.hostile or self.run.turn > self.circumstances.rounds + MOST_TURNS:
            return options[0]
        return self.strategy.pick(f"{name} {where}", *options)

    def operator(self, seat: int) -> int:
        return self.n.world.seats[JOB, seat].operator

    def holder(self, seat: int) -> str:
        return self.n.named(self.operator(seat))

    def is_pending(self, claim: Claim) -> bool:
        return settlement.status_of(self.n.world, JOB, claim) == ClaimStatus.PENDING


def units_of(claim: Claim) -> tuple[int, ...]:
    return (0,) if claim.is_aggregation else tuple(slot + FIRST_SLOT_UNIT for slot in claim.slots)


__all__ = ["JOB", "MOST_CHANCES", "ROLES", "Dispute", "Table", "units_of"]
