"""Events as contracts emit them, of whole jobs on a network of any size: for what reads events and needs no chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo_compute.chain.events import Event
from zoo_compute.spec.params import AGGREGATOR_SEAT, KIND_AGGREGATOR, KIND_SLOTS, ZEN, fee_of
from zoo_compute.spec.state import JobState

TOKEN = "0x" + "11" * 20
PRICE = ZEN // 2
BLOCK_S = 12


@dataclass
class Chain:
    """Each call of `emit` is in the newest block; `mine` begins the next one."""

    block: int = 1
    at: int = 1_800_000_000
    times: dict[int, int] = field(default_factory=dict)
    log_index: int = 0

    def mine(self, seconds: int = BLOCK_S) -> None:
        self.block, self.at, self.log_index = self.block + 1, self.at + seconds, 0

    def emit(self, name: str, contract: str = "settlement", **args: Any) -> Event:
        self.times[self.block] = self.at
        self.log_index += 1
        tx = f"0x{self.block:056x}{self.log_index:08x}"
        return Event(name, contract, self.block, self.log_index, tx, hash_of(self.block), args)


def hash_of(block: int, fork: int = 0) -> bytes:
    return block.to_bytes(16, "big") + fork.to_bytes(16, "big")


def account(number: int) -> str:
    return f"0x{number:040x}"


def registered(chain: Chain, operator: int, endpoint: str = "http://203.0.113.7:8600") -> Iterator[Event]:
    yield chain.emit(
        "OperatorRegistered", "registry", operator=operator, owner=account(operator), hot=account(operator + 2**64), gpu_class=operator % 4 + 1,
        vram_gb=24, stake=1_000 * ZEN, endpoint=endpoint,
    )  # fmt: skip
    yield chain.emit("CollateralDeposited", "registry", operator=operator, token=TOKEN, amount=2_500 * ZEN)
    if operator % 3:
        yield chain.emit("AdmissionChanged", "registry", operator=operator, admitted=True)


def seat_taken(
    chain: Chain, seat: int, operator: int, price: int, url: str = "http://203.0.113.7:8000"
) -> Iterator[Event]:
    """A serving seat, and its offer."""
    yield chain.emit(
        "ServingSeatTaken", "serving", seat=seat, operator=operator, signer=account(operator), lock=50 * ZEN
    )
    offer = {"service": b"s" * 32, "price": price, "token": TOKEN, "url": url}
    yield chain.emit("Offered", "serving", seat=seat, service=b"s" * 32, offer=offer)


def posted(chain: Chain, job: int, *, rounds: int = 3, slots: int = 2, escrow: int = 100 * ZEN) -> Iterator[Event]:
    terms = {
        "token": TOKEN, "work_root": bytes(32), "state_root": bytes(32), "data_root": bytes(32), "manifest": bytes(32), "rounds": rounds,
        "slots": slots, "quorum": slots, "reserve": ZEN, "max_price": 2 * ZEN, "aggregator_reserve": ZEN, "aggregator_max_price": 2 * ZEN,
        "slot_s": 90, "aggregate_s": 90, "reexecute_s": 2, "flops": 10**12, "depth": 1, "policy": 0, "audit_bps": 0, "requirements": 0,
        "aggregators": 1,
    }  # fmt: skip
    yield chain.emit("JobPosted", "tasks", job=job, submitter=account(job % 50 + 2**80), manifest=bytes(32), terms=terms, escrow=escrow)  # fmt: skip
    for kind in (KIND_SLOTS, KIND_AGGREGATOR):
        yield chain.emit(
            "LotOpened", "auction", job=job, kind=kind, attempt=1, reserve=ZEN, bid_end=chain.at + 60, reveal_end=chain.at + 90
        )  # fmt: skip


def awarded(chain: Chain, job: int, operators: Sequence[int], aggregator: int) -> Iterator[Event]:
    """Slot n to the nth operator."""
    for kind, winners in ((KIND_SLOTS, operators), (KIND_AGGREGATOR, [aggregator])):
        for name in ("BidSealed", "BidRevealed"):
            for operator in winners:
                yield chain.emit(
                    name, "auction", job=job, operator=operator, kind=kind, capacity=1, price=PRICE, discount_bps=0
                )
        yield chain.emit("BidsCleared", "auction", job=job, kind=kind, cleared=len(winners), sold=len(winners))
        for first, operator in enumerate(winners):
            seat = AGGREGATOR_SEAT if kind == KIND_AGGREGATOR else first
            price = PRICE + job % 7 * ZEN // 100
            yield chain.emit(
                "SeatAwarded", "auction", job=job, operator=operator, kind=kind, price=price, first=first, count=1
            )
            yield chain.emit("SeatTaken", job=job, operator=operator, seat=seat, first=first, count=1, price=price)
    yield chain.emit("JobAdvanced", "tasks", job=job, state=int(JobState.AWARDED))


def claim(operator: int, turn: int, round_: int, seat: int) -> dict[str, Any]:
    scope = 0b11 if seat >= AGGREGATOR_SEAT else seat << 16 | 1
    return {
        "turn": turn, "round": round_, "seat": seat, "operator": operator, "scope": scope, "price": PRICE, "start_root": bytes(32),
        "root": bytes([turn + 1] * 32),
    }  # fmt: skip


def opened(chain: Chain, job: int, turn: int, round_: int) -> Event:
    return chain.emit("TurnOpened", job=job, turn=turn, round=round_, start_root=bytes(32), inputs_close=chain.at + 180)


def committed(chain: Chain, job: int, turn: int, round_: int, seat: int, operator: int) -> Event:
    return chain.emit("ResultsCommitted", job=job, operator=operator, claim=claim(operator, turn, round_, seat), bundle=bytes(32))  # fmt: skip


def aggregated(
    chain: Chain, job: int, turn: int, round_: int, operator: int, seat: int = AGGREGATOR_SEAT
) -> Iterator[Event]:
    made = claim(operator, turn, round_, seat)
    yield chain.emit("CheckpointPosted", job=job, operator=operator, claim=made, cid=bytes(32))
    yield chain.emit("TurnClosed", job=job, turn=turn, deadline=chain.at + 600)


def paid(chain: Chain, job: int, turn: int, seat: int, operator: int) -> Iterator[Event]:
    fee = fee_of(PRICE)
    yield chain.emit("ClaimFinalised", job=job, operator=operator, turn=turn, seat=seat, paid=PRICE)
    yield chain.emit("Paid", "tasks", job=job, account=account(operator), net=PRICE - fee, fee=fee)


def whole_job(
    chain: Chain, job: int, operators: Sequence[int], aggregator: int, *, rounds: int = 3, until: int | None = None
) -> Iterator[Event]:
    """From posting to the refund. until: how many rounds are trained; less than `rounds` leaves it running."""
    yield from posted(chain, job, rounds=rounds, slots=len(operators))
    chain.mine(90)
    yield from awarded(chain, job, operators, aggregator)
    for turn in range(rounds if until is None else until):
        chain.mine()
        yield opened(chain, job, turn, turn)
        for seat, operator in enumerate(operators):
            yield committed(chain, job, turn, turn, seat, operator)
        chain.mine()
        yield from aggregated(chain, job, turn, turn, aggregator)
    if until is not None and until < rounds:
        yield opened(chain, job, until, until)
        return
    chain.mine(700)
    for turn in range(rounds):
        for seat, operator in [*enumerate(operators), (AGGREGATOR_SEAT, aggregator)]:
            yield from paid(chain, job, turn, seat, operator)
    yield chain.emit("JobEnded", job=job, rounds_done=rounds, completed=True)
    yield chain.emit("JobAdvanced", "tasks", job=job, state=int(JobState.ENDED))
    left = 100 * ZEN - rounds * (len(operators) + 1) * PRICE
    yield chain.emit("JobClosed", "tasks", job=job, refunded=left)
