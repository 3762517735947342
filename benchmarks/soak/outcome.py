"""What honest operators missed, lost and were paid, counted from the chain's events and its books at the end of a run.

deadlines_missed          seats that an honest operator lost or gave up, demands and asks of its claims that ran out, bids it did not reveal
honest_slashes            slashes of an honest operator's collateral, stake or reserve, and its convictions
payments_lost_or_doubled  claims of honest operators in closed jobs that were not paid exactly once at their price, payments with another fee
                          than the protocol's, jobs whose escrow is not what was paid and returned, and accounts whose balance is not what
                          they were paid, to the wei
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo_compute.chain.connection import Chain
from zoo_compute.chain.events import Event
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import AGGREGATOR_SEAT, fee_of

SLASHES = (
    "CollateralSlashed",
    "StakeSlashed",
    "ReserveForfeited",
    "CustodianLapsed",
    "ClaimConvicted",
    "TrialConvicted",
)
NOTES = 50  # that a report has
SILENT = (End.SILENT, End.EXHAUSTED)

Place = tuple[int, int, int]  # job, turn, seat


@dataclass
class Outcome:
    """Events are recorded in the chain's order. honest: operators' numbers."""

    honest: Collection[int]
    missed: list[Event] = field(default_factory=list)
    slashed: list[Event] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    closed: set[int] = field(default_factory=set)
    cancelled: set[int] = field(default_factory=set)
    claims: dict[Place, tuple[int, int]] = field(default_factory=dict)  # operator and price
    paid: dict[Place, list[int]] = field(default_factory=lambda: defaultdict(list))  # with the fee
    ended: set[Place] = field(default_factory=set)  # void or absent, which nobody is paid for
    disputed: set[Place] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)  # transactions in which an ask ran out
    convicted: dict[str, Event] = field(default_factory=dict)  # an honest operator's conviction, by transaction
    # job -> account, with the fee
    booked: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    escrows: Counter[int] = field(default_factory=Counter)  # what came in less what went out
    credited: Counter[str] = field(default_factory=Counter)  # by account, in ZEN's smallest unit
    withdrawn: Counter[tuple[str, str]] = field(default_factory=Counter)  # by account and contract
    wrong_fees: list[Event] = field(default_factory=list)  # payments whose fee is not the protocol's
    rewards: Counter[int] = field(default_factory=Counter)  # sent to an operator's owner, besides

    def record(self, event: Event, zen: str) -> None:
        self.events[event.name] += 1
        args, operator = event.args, event.operator
        if operator in self.honest:
            self._of_honest(event, args)
        match event.name:
            case "ResultsCommitted" | "CheckpointPosted":
                claim = args["claim"]
                place = (args["job"], claim["turn"], claim["seat"])
                self.claims[place] = (claim["operator"], claim["price"])
            case "ClaimFinalised":
                self.paid[args["job"], args["turn"], args["seat"]].append(args["paid"])
            case "ClaimVoided":
                self.ended.add((args["job"], args["turn"], args["seat"]))
            case "DisputeOpened":
                self.disputed.add((args["job"], args["turn"], args["seat"]))
            case "ClaimResolved" if args["outcome"] in SILENT:
                self.silent.add(event.tx)
            case "JobPosted":
                self.escrows[args["job"]] += args["escrow"]
            case "JobFunded":
                self.escrows[args["job"]] += args["amount"]
            case "Paid":
                if args["fee"] != fee_of(args["net"] + args["fee"]):
                    self.wrong_fees.append(event)
                self.escrows[args["job"]] -= args["net"] + args["fee"]
                self.booked[args["job"]][args["account"]] += args["net"] + args["fee"]
                self.credited[args["account"]] += args["net"]
            case "JobClosed":
                self.closed.add(args["job"])
                self.escrows[args["job"]] -= args["refunded"]
            case "JobCancelled":
                self.cancelled.add(args["job"])
            case "Owed" if args["token"] == zen:
                self.credited[args["account"]] += args["amount"]
            case "Withdrawn" if args["token"] == zen:
                self.withdrawn[args["account"], event.contract] += args["amount"]
            case "RewardClaimed" | "VerificationClaimed":
                self.rewards[args.get("operator", args.get("auditor", 0))] += args["amount"]
            case "AuditorPaidOut" if args["token"] == zen:
                self.rewards[args["operator"]] += args["amount"]

    def _of_honest(self, event: Event, args: Mapping[str, Any]) -> None:
        if event.name in SLASHES and args.get("amount", 1):
            self.slashed.append(event)
        if event.name in ("SeatVacated", "DemandUnanswered") or (event.name == "BidReclaimed" and args["forfeited"]):
            self.missed.append(event)
        if event.name == "ClaimConvicted":
            self.convicted[event.tx] = event

    @property
    def deadlines_missed(self) -> list[Event]:
        return [*self.missed, *(event for tx, event in self.convicted.items() if tx in self.silent)]

    def wrong_payments(
        self, chain: Chain, owners: Mapping[int, str], started_with: Mapping[str, int], block: int
    ) -> list[str]:
        """What of the payments is wrong at a block, up to which events were recorded.

        owners: by honest operator, each with an account of its own; started_with: their ZEN before the first job.
        """
        wrong = [f"claim {place}: {why}" for place, why in self._wrong_claims()]
        wrong += [_said(event, "wrong fee") for event in self.wrong_fees]
        for job in sorted(self.closed):
            earned = Counter[str]()
            for place, payments in self.paid.items():
                if place[0] == job and self.claims[place][0] in owners:
                    earned[owners[self.claims[place][0]]] += sum(payments)
            wrong += [
                f"job {job}: {account} was booked {self.booked[job][account]}, its claims say {amount}"
                for account, amount in earned.items()
                if self.booked[job][account] != amount
            ]
            if self.escrows[job] != chain.tasks.jobs(job, block).escrow:
                wrong.append(
                    f"job {job}: its escrow has {chain.tasks.jobs(job, block).escrow}, events say {self.escrows[job]}"
                )
        for operator, account in owners.items():
            owed, sent = chain.tasks.owed(chain.zen.address, account, block), self.withdrawn[account, "tasks"]
            if self.credited[account] != sent + owed:
                wrong.append(f"{account}: {self.credited[account]} credited, {sent} withdrawn, {owed} owed")
            came = self.rewards[operator] + sum(n for (whose, _), n in self.withdrawn.items() if whose == account)
            gained = chain.zen.balanceOf(account, block) - started_with[account]
            if gained != came:
                wrong.append(f"{account}: gained {gained}, and {came} was sent to it")
        return wrong

    def _wrong_claims(self) -> Iterable[tuple[Place, str]]:
        for place, (operator, price) in self.claims.items():
            if operator not in self.honest or place[0] not in self.closed or place in self.ended:
                continue
            payments = self.paid.get(place, [])
            fades = place[2] == AGGREGATOR_SEAT and place in self.disputed
            if len(payments) != 1:
                yield place, f"paid {len(payments)} times"
            elif payments[0] != price and not (fades and payments[0] <= price):
                yield place, f"paid {payments[0]} of {price}"


def _said(event: Event, what: str) -> str:
    args = {name: value for name, value in event.args.items() if isinstance(value, int | bool)}
    return f"{what}: {event.name} in block {event.block}: {args}"


def report(outcome: Outcome, wrong: Sequence[str]) -> dict[str, Any]:
    missed = outcome.deadlines_missed
    said = [
        *(_said(event, "missed") for event in missed),
        *(_said(event, "slashed") for event in outcome.slashed),
        *wrong,
    ]
    return {
        "deadlines_missed": len(missed),
        "payments_lost_or_doubled": len(wrong),
        "honest_slashes": len(outcome.slashed),
        "notes": said[:NOTES],
        "claims_paid": sum(len(payments) for payments in outcome.paid.values()),
        "chain_events": sum(outcome.events.values()),
    }
