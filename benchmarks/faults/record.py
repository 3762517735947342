"""What is known of each fault: how often it fired, how long recovery took, and what was lost after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.faults.network import ChaosNetwork
from benchmarks.soak.outcome import Outcome
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.events import scan
from zoo_compute.chain.snapshot import read_operator


@dataclass
class Row:
    """Of one fault. recovered: seconds from its end (of a kill: from the kill) to the next useful thing of who suffered."""

    fault: str
    only: str = ""  # the option that fires it
    fired: int = 0
    recovered: list[float] = field(default_factory=list)
    blind: list[float] = field(
        default_factory=list
    )  # the longest time without a completed look, from before it to after it
    details: dict[str, Any] = field(default_factory=dict)
    missed: int = 0
    doubled: int = 0
    slashed: int = 0

    def report(self) -> dict[str, Any]:
        return {
            "fault": self.fault,
            "only": self.only,
            "fired": self.fired,
            "worst_recovery_s": round(max(self.recovered), 1) if self.recovered else None,
            "longest_blind_s": round(max(self.blind), 1) if self.blind else None,
            "deadlines_missed": self.missed,
            "payments_lost_or_doubled": self.doubled,
            "honest_slashes": self.slashed,
            **({"details": self.details} if self.details else {}),
        }


@dataclass
class Record:
    """Rows, and when each fault fired, in blocks: what went wrong later counts for the last one before."""

    network: ChaosNetwork
    first: int
    owners: dict[int, str]
    money: dict[str, int]
    rows: dict[str, Row] = field(default_factory=dict)
    began: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def of(cls, network: ChaosNetwork) -> Record:
        chain = network.devnet.chain
        owners = {number: read_operator(chain, number).owner for number in network.operators}
        money = {account: chain.zen.balanceOf(account) for account in owners.values()}
        return cls(network, chain.head().number, owners, money)

    def row(self, fault: str) -> Row:
        if not self.began or self.began[-1][1] != fault:
            self.began.append((self.network.devnet.chain.w3.eth.block_number, fault))
        return self.rows.setdefault(fault, Row(fault))

    def closed(self, chain: Chain) -> int:
        """Jobs that are over."""
        return sum(1 for _ in scan(chain, self.first + 1, chain.head().number, names=("JobClosed", "JobCancelled")))

    def settle(self, say: Callable[[str], None]) -> dict[str, Any]:
        """Count what was missed, slashed and paid wrongly, once all jobs are over."""
        chain, outcome = self.network.devnet.chain, Outcome(set(self.owners))
        head = chain.head().number
        at: dict[int, int] = {}  # job -> the block in which it was closed
        for event in scan(chain, self.first + 1, head):
            outcome.record(event, chain.zen.address)
            if event.name == "JobClosed":
                at[event.args["job"]] = event.block
        for event in outcome.deadlines_missed:
            say(f"missed: {event.name} in block {event.block}: {dict(event.args)}")
            self._before(event.block).missed += 1
        for event in outcome.slashed:
            say(f"slashed: {event.name} in block {event.block}: {dict(event.args)}")
            self._before(event.block).slashed += 1
        wrong = outcome.wrong_payments(chain, self.owners, self.money, head)
        for each in wrong:
            say(f"wrong: {each}")
            self._before(head).doubled += 1
        return {
            "jobs": len(at),
            "claims_paid": sum(map(len, outcome.paid.values())),
            "deadlines_missed": len(outcome.deadlines_missed),
            "payments_lost_or_doubled": len(wrong),
            "honest_slashes": len(outcome.slashed),
        }

    def _before(self, block: int) -> Row:
        names = [fault for began, fault in self.began if began <= block]
        return self.rows[names[-1]] if names else self.row("none")
