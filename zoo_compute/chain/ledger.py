"""Where the money went: an account's balances, and the account of a job, computed from contract events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from web3.exceptions import TransactionNotFound

from zoo_compute.chain.events import Event, scan
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState, Commit, JobView
from zoo_compute.chain.views import Claim as OnChain
from zoo_compute.spec.params import COIN, fee_of

if TYPE_CHECKING:
    from zoo_compute.amounts import Token
    from zoo_compute.chain.connection import Chain

CAUSES = {
    "decline": "declined its slots",
    "expire": "was not ready in time",
    "time_out": "did not commit in time",
}
LATE_AGGREGATOR = "did not aggregate in time"
CONVICTED = "was convicted"
UNKNOWN_CAUSE = "left its seat"
CAUSES_KEPT = 4_096  # remembered causes; a mined transaction never changes


@dataclass(frozen=True)
class Balances:
    """An account's balances in smallest units. balance: of the requested token; owed, coin_owed: what `zoo account withdraw` would send."""

    coin: int
    zen: int
    balance: int
    owed: int
    coin_owed: int


def balances(chain: Chain, account: str, token: Token) -> Balances:
    """Coin for gas, ZEN, and a payment token: its balance and the amount that TaskRegistry owes."""
    balance = chain.token(token.address).balanceOf(account)
    owed = chain.tasks.owed(token.address, account) + chain.channels.owed(token.address, account)
    coin_owed = chain.tasks.owed(COIN, account)
    return Balances(chain.coin(account), chain.zen.balanceOf(account), balance, owed, coin_owed)


@dataclass(frozen=True)
class ClaimRecord:
    """A claim on chain: of an operator's seat in a turn, or of an aggregation (no slots)."""

    turn: int
    round: int
    seat: int
    operator: int
    kind: str  # "slots" | "aggregation"
    slots: tuple[int, ...]
    state: str  # "in turn" | "challenge window" | "in dispute" | "payable" | "paid" | "convicted"
    deadline: (
        int | None
    )  # in wall time: last second of the challenge window, which begins when the turn closes; None until then
    amount: int  # gross: what the escrow pays or has paid
    fee: int  # the treasury's part of what was paid


@dataclass(frozen=True)
class Penalty:
    """Slashed collateral, and why."""

    block: int
    operator: int
    turn: int | None
    seat: int | None
    amount: int
    why: str
    returned: int = 0  # of it, what the operator had back when the job was completed: that leaving cost nobody anything

    @property
    def lost(self) -> int:
        return self.amount - self.returned


@dataclass(frozen=True)
class JobAccount:
    """A job's money. Exactly: escrowed + restored = paid + fee + refunded + held."""

    escrowed: int
    restored: int  # restitution, and what a seat taken over costs more, out of operators' locks
    paid: int  # to operators, after the fee
    fee: int  # to the treasury
    refunded: int
    held: int  # still in escrow
    slashed: int
    claims: tuple[ClaimRecord, ...]
    penalties: tuple[Penalty, ...]
    takeovers: tuple[Mapping[str, int], ...]

    @property
    def committed(self) -> int:
        """What pending claims will take from escrow once they are final."""
        return sum(claim.amount for claim in self.claims if claim.state not in ("paid", "convicted", "void", "absent"))

    def to_dict(self) -> dict[str, Any]:
        """For scripts: amounts as decimal strings in wei."""
        plain = asdict(self)
        return _amounts_as_text({**plain, "committed": self.committed})


_AMOUNTS = {
    "escrowed", "restored", "paid", "fee", "refunded", "held", "slashed", "amount", "committed", "price", "returned",
}  # fmt: skip


def _amounts_as_text(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _amounts_as_text(v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_amounts_as_text(item, key) for item in value]
    return str(value) if key in _AMOUNTS and isinstance(value, int) else value


def job_account(chain: Chain, view: JobView, events: Sequence[Event] | None = None) -> JobAccount:
    """The account of a job at the view's block. events: the job's events up to that block, if already read."""
    if events is None:
        events = list(scan(chain, view.posted_block, view.block, job=view.job))
    named = {name: [e for e in events if e.name == name] for name in {e.name for e in events}}
    posted = named.get("JobPosted", [])
    refunds = named.get("JobClosed", [])
    refunded = sum(e.args["refunded"] for e in refunds)
    escrowed = posted[0].args["escrow"] if posted else view.escrow
    payments = named.get("Paid", [])
    paid, fee = sum(e.args["net"] for e in payments), sum(e.args["fee"] for e in payments)
    restored = sum(e.args["amount"] for e in named.get("JobFunded", []))
    if named.get("JobCancelled"):
        refunded = escrowed - paid - fee
    penalties = tuple(_penalties(chain, events))
    return JobAccount(
        escrowed=escrowed,
        restored=restored,
        paid=paid,
        fee=fee,
        refunded=refunded,
        held=escrowed + restored - paid - fee - refunded,
        slashed=sum(p.lost for p in penalties),
        claims=tuple(_claims(view, events)),
        penalties=penalties,
        takeovers=tuple(
            {k: e.args[k] for k in ("turn", "seat", "operator", "price")} for e in named.get("SeatTakenOver", [])
        ),
    )


def net_payments(events: Iterable[Event]) -> Counter[int]:
    """operator -> what it was paid for claims in a job, less the fee, in wei. events: the job's, in their order."""
    net = Counter[int]()
    for claim, fee in _paid_claims(events):
        net[claim.args["operator"]] += claim.args["paid"] - fee
    return net


def _paid_claims(events: Iterable[Event]) -> Iterable[tuple[Event, int]]:
    """Each claim that was paid, with its part of the treasury's fee: by how much it raised the fee of what was paid together."""
    together: list[Event] = []  # of one operator: a payment follows
    for event in events:
        if event.name == "ClaimFinalised":
            together.append(event)
        elif event.name == "Paid":
            amount = 0
            for claim in together:
                before, amount = amount, amount + claim.args["paid"]
                yield claim, fee_of(amount) - fee_of(before)
            together.clear()


def _claims(view: JobView, events: Iterable[Event]) -> Iterable[ClaimRecord]:
    fees = {(claim.args["turn"], claim.args["seat"]): fee for claim, fee in _paid_claims(events)}
    for claim in sorted(view.claims, key=lambda c: (c.turn, c.seat, c.block)):
        yield ClaimRecord(
            turn=claim.turn,
            round=claim.round,
            seat=claim.seat,
            operator=claim.operator,
            kind="slots" if isinstance(claim, Commit) else "aggregation",
            slots=tuple(claim.slots) if isinstance(claim, Commit) else (),
            state=_state(view, claim),
            deadline=view.wall(claim.deadline) if view.is_closed(claim.turn) else None,
            amount=claim.price,
            fee=fees.get((claim.turn, claim.seat), 0) if claim.state == ClaimState.PAID else 0,
        )


def _state(view: JobView, claim: OnChain) -> str:
    if claim.final:
        return claim.state.name.lower()
    if claim.disputed:
        return "in dispute"
    if not view.is_closed(claim.turn):
        return "in turn"
    return "payable" if view.now > claim.deadline else "challenge window"


def _penalties(chain: Chain, events: Iterable[Event]) -> list[Penalty]:
    made: list[Penalty] = []
    aside: dict[tuple[int, int], int] = {}  # by operator and place in `made`
    for event in events:
        args = event.args
        if event.name == "SetAside":  # of the seat that the next event vacates
            aside[args["operator"], len(made)] = args["amount"]
        elif event.name == "SeatVacated" and args["slashed"]:
            why = LATE_AGGREGATOR if args["seat"] >= AGGREGATOR_SEAT else _cause(chain, event)
            made.append(Penalty(event.block, args["operator"], args["turn"], args["seat"], args["slashed"], why))
        elif event.name == "SetAsideReturned":  # of all its seats together: the oldest first
            left = args["amount"]
            for at in [at for operator, at in aside if operator == args["operator"]]:
                made[at] = replace(made[at], returned=min(left, aside[args["operator"], at]))
                left -= made[at].returned
        elif event.name == "ClaimConvicted":
            made.append(Penalty(event.block, args["operator"], args["turn"], args["seat"], args["slashed"], CONVICTED))
        elif event.name == "BidReclaimed" and args["forfeited"]:
            made.append(Penalty(event.block, args["operator"], None, None, args["forfeited"], "did not open its bid"))
    return made


def _cause(chain: Chain, event: Event) -> str:
    """The called function in words, because the event does not contain it. Raises Unreachable."""
    known: dict[str, str] = chain.cached("causes", dict)
    if event.tx not in known:
        try:
            data = bytes(chain.w3.eth.get_transaction(event.tx)["input"])  # type: ignore[arg-type]
        except TransactionNotFound:  # a pruned node; another one may have it
            return UNKNOWN_CAUSE
        known[event.tx] = _called_function(chain, data)
        while len(known) > CAUSES_KEPT:
            del known[next(iter(known))]
    return known[event.tx]


def _called_function(chain: Chain, data: bytes) -> str:
    try:
        function = chain.contract("settlement").get_function_by_selector(data[:4])
    except ValueError:  # not a function of Settlement: the call came through another contract
        return UNKNOWN_CAUSE
    return CAUSES.get(function.fn_name, function.fn_name)
