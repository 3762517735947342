"""What happened to the money: an account's balances, and a job's account, every figure from the contracts' events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from web3.exceptions import TransactionNotFound

from zoo_compute.chain.events import Event, scan
from zoo_compute.chain.views import Checkpoint, Commit, JobView
from zoo_compute.spec.bits import popcount, slots_in

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

CAUSES = {
    "decline": "declined its slots",
    "expire": "was not ready in time",
    "time_out": "did not commit in time",
    "time_out_aggregator": "did not aggregate in time",
}
UNTOLD = "left its seat"
CAUSES_KEPT = 4_096  # transactions whose cause is remembered: what is mined stays what it was


@dataclass(frozen=True)
class Balances:
    """Of an account, in the smallest unit. owed: what `TaskRegistry.withdraw` would send it."""

    coin: int
    zen: int
    owed: int


def balances(chain: Chain, account: str) -> Balances:
    """Coin for gas, ZEN, and ZEN owed by the task registry."""
    zen = chain.network.contracts["zen"]
    return Balances(chain.coin(account), chain.zen.balanceOf(account), chain.tasks.owed(zen, account))


@dataclass(frozen=True)
class Claimed:
    """Work that was accepted on chain: an operator's slots of a round, or an aggregation (slots empty)."""

    round: int
    operator: int
    kind: str  # "slots" | "aggregation"
    slots: tuple[int, ...]
    state: str  # "in round" | "challenge window" | "payable" | "paid"
    deadline: int  # last second of the challenge window
    amount: int  # gross: what the escrow pays, or paid
    fee: int  # of which the treasury's


@dataclass(frozen=True)
class Penalty:
    """Collateral that was taken, and why."""

    block: int
    operator: int
    round: int | None
    slots: tuple[int, ...]
    amount: int
    why: str


@dataclass(frozen=True)
class Account:
    """A job's money. To the wei: escrowed = paid + fee + refunded + held."""

    escrowed: int
    paid: int  # to operators, after the fee
    fee: int  # to the treasury
    refunded: int
    held: int  # still in escrow
    from_pot: int  # paid to standbys out of slashed collateral, not out of escrow
    slashed: int
    claims: tuple[Claimed, ...]
    penalties: tuple[Penalty, ...]
    takeovers: tuple[Mapping[str, int], ...]

    @property
    def committed(self) -> int:
        """What accepted work will still take from escrow, once it is final."""
        return sum(claim.amount for claim in self.claims if claim.state != "paid")

    def to_dict(self) -> dict[str, Any]:
        """For scripts: amounts as decimal strings in wei."""
        plain = asdict(self)
        return _amounts_as_text({**plain, "committed": self.committed})


_AMOUNTS = {
    "escrowed", "paid", "fee", "refunded", "held", "from_pot", "slashed", "amount", "committed", "escrow_price", "pot_price", "burned",
}  # fmt: skip


def _amounts_as_text(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _amounts_as_text(v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_amounts_as_text(item, key) for item in value]
    return str(value) if key in _AMOUNTS and isinstance(value, int) else value


def job_account(chain: Chain, view: JobView, events: Sequence[Event] | None = None) -> Account:
    """The account of a job as of the view's block. events: the job's own, up to that block, if they are known."""
    if events is None:
        events = list(scan(chain, view.posted_block, view.block, job=view.job))
    named = {name: [e for e in events if e.name == name] for name in {e.name for e in events}}
    posted = named.get("JobPosted", [])
    refunds = named.get("JobClosed", [])
    refunded = sum(e.args["refunded"] for e in refunds)
    escrowed = posted[0].args["escrow"] if posted else view.escrow
    payments = named.get("Paid", [])
    paid, fee = sum(e.args["net"] for e in payments), sum(e.args["fee"] for e in payments)
    if named.get("JobCancelled"):
        refunded = escrowed - paid - fee
    penalties = tuple(_penalties(chain, events))
    return Account(
        escrowed=escrowed,
        paid=paid,
        fee=fee,
        refunded=refunded,
        held=escrowed - paid - fee - refunded,
        from_pot=sum(e.args["from_pot"] for e in named.get("ClaimFinalised", [])),
        slashed=sum(p.amount for p in penalties),
        claims=tuple(_claims(view, named.get("ClaimFinalised", []), payments)),
        penalties=penalties,
        takeovers=tuple(
            {k: e.args[k] for k in ("round", "slot", "operator", "escrow_price", "pot_price", "burned")}
            for e in named.get("SlotTakenOver", [])
        ),
    )


def _claims(view: JobView, finalised: Iterable[Event], payments: Iterable[Event]) -> Iterable[Claimed]:
    # A finalisation is told right after its payment, in the same transaction: pair them in order.
    paid: dict[tuple[int, int], tuple[int, int]] = {}
    queue = sorted([*finalised, *payments], key=lambda e: (e.block, e.log_index))
    last: Event | None = None
    for event in queue:
        if event.name == "Paid":
            last = event
            continue
        gross_and_fee = (
            (last.args["net"] + last.args["fee"], last.args["fee"]) if last and last.tx == event.tx else (0, 0)
        )
        paid[(event.args["round"], event.args["key"])] = gross_and_fee
        last = None
    claims: list[Commit | Checkpoint] = [*view.commits, *view.checkpoints]
    for claim in sorted(claims, key=lambda c: (c.round, c.key)):
        amount, fee = paid.get((claim.round, claim.key), (_price(view, claim), 0))
        yield Claimed(
            round=claim.round,
            operator=claim.operator,
            kind="slots" if isinstance(claim, Commit) else "aggregation",
            slots=tuple(slots_in(claim.bitmap)) if isinstance(claim, Commit) else (),
            state=_state(view, claim),
            deadline=claim.deadline,
            amount=amount,
            fee=fee,
        )


def _state(view: JobView, claim: Commit | Checkpoint) -> str:
    if claim.finalised:
        return "paid"
    if not view.closed(claim.round):
        return "in round"
    return "payable" if view.now > claim.deadline else "challenge window"


def _price(view: JobView, claim: Commit | Checkpoint) -> int:
    """What escrow will pay for an open claim, at the seat's price (a slot taken over may differ)."""
    if isinstance(claim, Checkpoint):
        seat = view.aggregator_seats.get(claim.operator)
        return seat.price if seat else 0
    slots = view.seats.get(claim.operator)
    return slots.price * popcount(claim.bitmap) if slots else 0


def _penalties(chain: Chain, events: Iterable[Event]) -> Iterable[Penalty]:
    for event in events:
        args = event.args
        if event.name in ("SlotsVacated", "AggregatorVacated"):
            slots = tuple(slots_in(args["bitmap"])) if event.name == "SlotsVacated" else ()
            yield Penalty(event.block, args["operator"], args["round"], slots, args["slashed"], _cause(chain, event))
        elif event.name == "BidReclaimed" and args["forfeited"]:
            yield Penalty(event.block, args["operator"], None, (), args["forfeited"], "did not open its bid")


def _cause(chain: Chain, event: Event) -> str:
    """The function that was called, in words: the event itself does not say. Raises Unreachable."""
    known = chain.causes
    if event.tx not in known:
        try:
            data = bytes(chain.w3.eth.get_transaction(event.tx)["input"])  # type: ignore[arg-type]
        except TransactionNotFound:  # a node that forgets old transactions: another one may know
            return UNTOLD
        known[event.tx] = _called(chain, data)
        while len(known) > CAUSES_KEPT:
            del known[next(iter(known))]
    return known[event.tx]


def _called(chain: Chain, data: bytes) -> str:
    try:
        function = chain.contracts["settlement"].get_function_by_selector(data[:4])
    except ValueError:  # no function of Settlement: the call came through another contract
        return UNTOLD
    return CAUSES.get(function.fn_name, function.fn_name)
