"""A small network on the specification, played fast: calls change the world in place, and money is counted by party.

Work is paid for by whoever does it: it costs 95 % of what was bid for it. A price is thousandfold that
of the tests' small job, so that rounding is no matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import Any, ClassVar

from tests.support.job_driver import Offer
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import WEALTH, Stage, block_hash
from zoo_compute.spec.custodians import Note
from zoo_compute.spec.params import (
    AGGREGATOR_SEAT,
    BPS,
    CUSTODIANS_AT,
    FEE_BPS,
    MAX_REPUTATION,
    REPUTATION_PARTS,
    SIGNED_BYTES,
    STAKE_UNIT,
)
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim, Message
from zoo_compute.spec.world import EXTERNAL

K = 1_000  # smallest units of a unit of price
# Operators by role. "spare" is another name of whoever is hostile.
WORKERS = {"worker": Offer(60 * K, 2), "peer": Offer(60 * K, 2), "loser": Offer(80 * K, 2)}
AGGREGATORS = {"aggregator": Offer(30 * K), "rival": Offer(40 * K)}
AUDITORS = {"auditor": 1, "watcher": 2}  # places: a third of them hostile
CUSTODIANS = ("custodian", "keeper", "holder")
OPERATORS = (*WORKERS, *AGGREGATORS, "spare", *AUDITORS, *CUSTODIANS)
PARTIES = (*OPERATORS, "submitter", "sink")
LOSERS = ("loser", "rival")
CUSTODY_FEE = K


def cost(offer: Offer) -> int:
    """Of the work that somebody bids for truthfully."""
    return offer.price * (BPS - FEE_BPS) // BPS


# Of a slot-round and of an aggregation, by who does it; to all others what it costs the winners.
SLOT_COST, SLOT_COSTS = cost(WORKERS["worker"]), {"loser": cost(WORKERS["loser"])}
ROUND_COST, ROUND_COSTS = cost(AGGREGATORS["aggregator"]), {"rival": cost(AGGREGATORS["rival"])}


class Losers(Enum):
    """Who lost the auctions: they set the prices, and take vacant seats."""

    THERE = "losers take vacant seats"
    LEFT = "losers set the prices and left"
    NEVER = "nobody lost: seats cost the reserve"


@dataclass(frozen=True)
class Circumstances:
    """What a play begins with."""

    name: str
    rounds: int = 2
    depth: int = 2
    policy: int = 0
    audit_bps: int = 500
    is_watched: bool = (
        True  # somebody honest re-executes everything; else a lie is found with the chance that locks count on
    )
    losers: Losers = Losers.THERE
    has_audits: bool = False
    has_custody: bool = False
    has_record: bool = False  # everybody has the best reputation from the award on


CIRCUMSTANCES = (
    Circumstances("everything is re-executed"),
    Circumstances("a convicted worker's round is done again", policy=1),
    Circumstances("nobody looks but auditors", is_watched=False),
    Circumstances("nobody looks but auditors, and rounds are done again", policy=1, is_watched=False),
    Circumstances("losers left, 8 rounds", rounds=8, losers=Losers.LEFT),
    Circumstances("losers left", losers=Losers.LEFT),
    Circumstances("losers left, nobody looks but auditors", losers=Losers.LEFT, is_watched=False),
    Circumstances("nobody else ever bid, 8 rounds", rounds=8, losers=Losers.NEVER),
    Circumstances("nobody else ever bid, nobody looks but auditors", losers=Losers.NEVER, is_watched=False),
    Circumstances("everything is re-executed, good records", has_record=True),
    Circumstances("losers left, 8 rounds, good records", rounds=8, losers=Losers.LEFT, has_record=True),
    Circumstances("all is drawn for audits", audit_bps=10_000, has_audits=True),
    Circumstances("custodians sign", has_custody=True),
    Circumstances("all is drawn for audits, and custodians sign", audit_bps=10_000, has_audits=True, has_custody=True),
)


class _Hashes:
    """Of every block, without keeping them."""

    @staticmethod
    def get(number: int) -> bytes:
        return block_hash(number)


@dataclass
class Network(Stage):
    """A stage of these operators. Calls change the world in place."""

    TERMS: ClassVar[dict[str, Any]] = {
        **Stage.TERMS,
        "reserve": 100 * K,
        "max_price": 160 * K,
        "aggregator_reserve": 50 * K,
        "aggregator_max_price": 80 * K,
        "quorum": 2,
    }
    coverage: Coverage = field(default_factory=Coverage)
    spent: dict[str, int] = field(default_factory=dict)  # by party: what its work cost it
    calls: int = 0
    before: dict[str, int] = field(default_factory=dict)  # by party: what it had when the job was awarded
    slot_price: int = 0  # of a slot-round and of an aggregation, as auctioned
    round_price: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.world.block_hashes = _Hashes()  # type: ignore[assignment]
        for name in OPERATORS:
            for account in (f"{name} owner", f"{name} hot"):
                self.accounts[account] = account
                self.world.balances |= {(token, account): WEALTH for token in ("zen", "usd")}

    def attempt(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> str | None:
        """Only of functions that refuse before they write."""
        try:
            self.ok(contract, function, sender, *args, value=value)
        except Refused as refusal:
            return refusal.reason
        return None

    def ok(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> Any:
        self.calls += 1
        message = Message(self.accounts.get(sender, sender), self.now, value, 0, self.block, self.now)
        self.result = EXTERNAL[contract][function](self.world, message, *args)
        return self.result

    def to(self, now: int) -> None:
        """Somebody beats all the time."""
        self.block += now - self.now
        self.now = now

    def forked(self) -> Network:
        """To play on from here."""
        new = copy(self)
        new.world, new.spent, new.calls = self.world.fork(), {}, 0
        return new

    def work(self, name: str, slots: int) -> None:
        """It trains so many slots; 0: it aggregates."""
        cost = slots * SLOT_COSTS.get(name, SLOT_COST) if slots else ROUND_COSTS.get(name, ROUND_COST)
        self.spent[name] = self.spent.get(name, 0) + cost

    def named(self, operator: int) -> str:
        return OPERATORS[operator - 1]

    def wealth(self, names: Iterable[str]) -> int:
        """ZEN, wherever it is, less what their work cost."""
        w, zen, total = self.world, "zen", 0
        for name in names:
            for account in (f"{name} owner", f"{name} hot") if name in self.ids else (name,):
                total += w.balances.get((zen, account), 0) + w.owed.get((zen, account), 0)
                total += w.audit_owed.get((zen, account), 0)
            if name in self.ids:
                number = self.ids[name]
                total += w.operators[number].stake + w.deposit_of(number, zen).balance
                total += w.audit_funds_of(number, zen).balance + w.custody_funds.get((zen, number), 0)
                total += sum(role.reserve for (_, of), role in w.custody_roles.items() if of == number)
            total -= self.spent.get(name, 0)
        return total

    def posted_claim(self, job: int, seat: int, turn: int) -> Claim:
        return self.world.claims[job, seat, turn % (self.world.runs[job].depth + 1)].claim


@cache
def awarded(circumstances: Circumstances) -> Network:
    """The job, through its auctions, the money for audits and custody paid in, its custodians drawn. It is job 1."""
    n = Network()
    for name in OPERATORS:
        n.register(name)
        n.ok("registry", "deposit", f"{name} owner", n.ids[name], "zen", 1_000_000 * K)
    policy = circumstances.policy | (len(CUSTODIANS) << CUSTODIANS_AT if circumstances.has_custody else 0)
    terms = {"rounds": circumstances.rounds, "depth": circumstances.depth, "policy": policy}
    job = n.post(**terms, audit_bps=circumstances.audit_bps)
    if circumstances.has_custody:
        for name in CUSTODIANS:
            n.world.stake_notes[n.ids[name]] = Note(n.world.operators[n.ids[name]].stake // STAKE_UNIT, since=1)
            n.ok("custody", "deposit", "stranger", n.ids[name], "zen", 100_000 * K)
        n.ok("custody", "request", "submitter", job, CUSTODY_FEE, SIGNED_BYTES)
        n.ok("custody", "fund", "submitter", job, 2 * CUSTODY_FEE * len(CUSTODIANS) * 3 * circumstances.rounds)
        for name in CUSTODIANS:
            n.ok("custody", "offer", f"{name} hot", job, n.ids[name])
    lots = [
        {name: offer for name, offer in lot.items() if circumstances.losers != Losers.NEVER or name not in LOSERS}
        for lot in (WORKERS, AGGREGATORS)
    ]
    n.bid_all(job, *lots)
    n.reveal_all(job, *lots)
    n.award_all(job)
    if circumstances.has_audits:
        n.ok("audits", "fund", "submitter", job, 100_000 * K)
        for name, places in AUDITORS.items():
            n.ok("audits", "deposit", "stranger", n.ids[name], "zen", places * n.preset.audit_bond + 1_000_000 * K)
            n.ok("audits", "offer", f"{name} owner", n.ids[name], places)
    assert job == 1
    if circumstances.has_record:
        for number, operator in n.world.operators.items():
            parts = MAX_REPUTATION * REPUTATION_PARTS
            n.world.operators[number] = replace(operator, reputation=parts, rated_at=n.now)
    n.slot_price, n.round_price = n.world.seat(job, 0).price, n.world.seat(job, AGGREGATOR_SEAT).price
    assert {n.named(n.world.seat(job, seat).operator) for seat in (0, 1)} == {"worker", "peer"}
    n.before = {name: n.wealth([name]) for name in PARTIES}
    if circumstances.has_custody:
        n.to(max(n.now, n.world.custody_requests[job].closes_at))
        n.ok("custody", "schedule", "stranger", job)
        n.mine(n.preset.draw_blocks + 2)
        n.ok("custody", "draw", "stranger", job, ())
    return n
