"""The contracts in one process: deployed, wired, and played by named operators. For unit, stateful and differential tests.

`deploy_all` takes a preset and gives the contracts; `Play` drives jobs through them, so that a test says only what matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.support import sources
from tests.support.contract import Contract
from tests.support.evm import Reverted, chain
from zoo_compute.spec.params import DEVNET, POLICY_DELAYED, ZEN, Preset

START = 1_800_000_000  # Unix seconds
SUPPLY = 10**9 * ZEN
UNLIMITED = 2**256 - 1
SLOTS, AGGREGATOR = 0, 1  # kinds of lots
AGGREGATION = 128  # the aggregator's seat, and its claims'


@dataclass(frozen=True)
class Deployer:
    """Of a contract; see `tests.support.sources`."""

    name: str

    def deploy(self, *args: Any, sender: Any = None, value: int = 0) -> Contract:
        return chain.deploy(sources.load(self.name), *args, sender=sender, value=value)


def load(name: str) -> Deployer:
    """A contract, or a mock (`mocks/FalseToken`)."""
    return Deployer(name)


def deploy_all(preset: Preset = DEVNET) -> SimpleNamespace:
    """All contracts, wired. The deployer governs the payment tokens and the timelock, and ZEN is allowed."""
    deployer = chain.account("deployer")
    guardian = chain.account("guardian")
    # Accounts here: the referee says, Settlement does.
    referee, audit_pool = chain.account("referee"), chain.account("audit pool")
    # Says who is admitted; the contract has a kit of its own.
    admissions = chain.account("admissions")
    with chain.prank(deployer):
        zen = load("ZenToken").deploy(SUPPLY)
        timelock = load("Timelock").deploy(preset.timelock_s, [deployer])
        treasury = load("Treasury").deploy(timelock)
        registry = load("NodeRegistry").deploy(zen, guardian, preset.min_stake, preset.exit_delay_s, preset.epoch_s)
        tasks = load("TaskRegistry").deploy(treasury, deployer, guardian)
        rewards = load("Rewards").deploy(
            zen, registry, preset.epoch_s, preset.emission_per_epoch, preset.weight_per_fee
        )
        datasets = load("Datasets").deploy(tasks, rewards)
        auction = load("Auction").deploy(registry, tasks, guardian, preset.bid_window_s, preset.reveal_window_s)
        settlement = load("Settlement").deploy(
            registry, tasks, auction, rewards, zen, preset.ready_window_s, preset.min_window_s
        )
        availability = load("Availability").deploy(registry, tasks, settlement, preset.answer_s)
        audits = load("Audits").deploy(registry, tasks, settlement, rewards, zen, preset.audit_bond, preset.draw_blocks)
        registry.wire(auction, settlement, tasks, rewards, admissions)
        tasks.wire(auction, settlement)
        rewards.wire(settlement, audits, datasets)
        audits.wire(referee)
        auction.wire(settlement)
        settlement.wire(referee, availability, audit_pool)
        tasks.allow(zen, True, preset.window_value)
    return SimpleNamespace(
        zen=zen,
        timelock=timelock,
        treasury=treasury,
        registry=registry,
        tasks=tasks,
        rewards=rewards,
        datasets=datasets,
        auction=auction,
        settlement=settlement,
        deployer=deployer,
        guardian=guardian,
        referee=referee,
        availability=availability,
        audits=audits,
        audit_pool=audit_pool,
        admissions=admissions,
    )


def events_of(contract: Any, of: Any = None) -> list[tuple[str, dict[str, Any]]]:
    """The events of the last call, as (name, fields): those that `of` told, the called contract when nothing is said."""
    address = (of or contract).address
    events = [(type(event).__name__, event._asdict()) for event in contract.get_logs()]
    return [
        (name, {key: fields[key] for key in fields if key != "address"})
        for name, fields in events
        if fields["address"] == address
    ]


@dataclass(frozen=True)
class Operator:
    """A registered operator with its two keys."""

    id: int
    owner: Any
    hot: Any


@dataclass(frozen=True)
class Offer:
    """What an operator bids."""

    price: int
    capacity: int = 1
    standby: bool = False


Offers = Mapping[Operator, Offer]


@dataclass
class Play:
    """Moves operators, jobs and the clock. Sends as whoever the protocol expects."""

    kit: SimpleNamespace
    preset: Preset = DEVNET
    token: Any = None
    submitter: Any = None
    anyone: Any = None
    sealed: dict[tuple[int, int, int], Offer] = field(default_factory=dict)
    refs: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    made: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # the newest aggregation's claim

    def __post_init__(self) -> None:
        self.token = self.token or self.kit.zen
        self.submitter = chain.account("submitter")
        self.anyone = chain.account("anyone")
        self.fund(self.submitter, 10**6 * ZEN, self.kit.tasks)

    # --- accounts and clock

    @property
    def now(self) -> int:
        return int(chain.timestamp)

    def to(self, second: int) -> None:
        """Jump to a second."""
        chain.timestamp = second

    def fund(self, account: Any, amount: int, spender: Any, token: Any = None) -> None:
        """Give tokens to an account, which lets `spender` pull them."""
        token = token or self.token
        token.transfer(account, amount, sender=self.kit.deployer)
        token.approve(spender, UNLIMITED, sender=account)

    def register(self, name: str, *, gpu_class: int = 1, vram_gb: int = 48, deposit: int = 10**9) -> Operator:
        """A new operator with the least stake, and collateral in the play's token."""
        owner, hot = chain.account(f"{name} owner"), chain.account(f"{name} hot")
        registry = self.kit.registry
        self.fund(owner, self.preset.min_stake, registry, self.kit.zen)
        operator = registry.register(hot, gpu_class, vram_gb, self.preset.min_stake, f"http://{name}", sender=owner)
        if deposit:
            self.fund(owner, deposit, registry)
            registry.deposit(operator, self.token, deposit, sender=owner)
        return Operator(operator, owner, hot)

    def register_all(self, count: int) -> list[Operator]:
        return [self.register(f"operator {index}") for index in range(count)]

    # --- a job's auctions

    def terms(self, **changes: Any) -> tuple[Any, ...]:
        """Terms of a small job, in the order of the struct."""
        terms = {
            "token": self.token.address,
            "work_root": b"\x01" * 32,
            "state_root": b"\x02" * 32,
            "data_root": b"\x03" * 32,
            "manifest": b"\x04" * 32,
            "rounds": 3,
            "slots": 3,
            "quorum": 2,
            "reserve": 1_000,
            "max_price": 2_000,
            "aggregator_reserve": 500,
            "aggregator_max_price": 1_000,
            "slot_s": 60,
            "aggregate_s": 30,
            "reexecute_s": 20,
            "flops": 10**12,
            "depth": 4,
            "policy": 0,
        }
        unknown = changes.keys() - terms.keys()
        assert not unknown, f"no such terms: {unknown}"
        return tuple({**terms, **changes}.values())

    def post(self, **changes: Any) -> int:
        return int(self.kit.tasks.post(self.terms(**changes), sender=self.submitter))

    def seal(self, job: int, kind: int, operator: Operator, offer: Offer, attempt: int = 1) -> bytes:
        values = (job, kind, attempt, operator.id, offer.price, offer.capacity, self.salt(operator))
        return keccak(encode(["uint256"] * 6 + ["bytes32"], values))

    def salt(self, operator: Operator) -> bytes:
        return operator.id.to_bytes(32, "big")

    def bid(self, job: int, kind: int, operator: Operator, offer: Offer) -> None:
        attempt = self.kit.auction.lots(job, kind).attempt
        seal = self.seal(job, kind, operator, offer, attempt)
        self.kit.auction.bid(job, kind, operator.id, seal, offer.capacity, offer.standby, sender=operator.hot)
        self.sealed[job, kind, operator.id] = offer

    def reveal(self, job: int, kind: int, operator: Operator) -> None:
        offer = self.sealed[job, kind, operator.id]
        self.kit.auction.reveal(job, kind, operator.id, offer.price, self.salt(operator), sender=self.anyone)

    def bid_all(self, job: int, slots: Offers, aggregator: Offers) -> None:
        for kind, offers in ((SLOTS, slots), (AGGREGATOR, aggregator)):
            for operator, offer in offers.items():
                self.bid(job, kind, operator, offer)

    def reveal_all(self, job: int, slots: Offers, aggregator: Offers) -> None:
        """All bids revealed at the first second of the phase; the clock then stands at its end."""
        lot = self.kit.auction.lots(job, SLOTS)
        self.to(lot.bid_end)
        for kind, offers in ((SLOTS, slots), (AGGREGATOR, aggregator)):
            for operator in offers:
                self.reveal(job, kind, operator)
        self.to(lot.reveal_end)

    def ordered(self, job: int, kind: int, operators: Sequence[Operator] | Offers) -> list[int]:
        """Operators' numbers in the order of (score, operator)."""
        bids = {operator.id: self.kit.auction.bids(job, kind, operator.id) for operator in operators}
        return sorted(bids, key=lambda each: (bids[each].price * (10_000 - bids[each].discount_bps), each))

    def clear(self, job: int, kind: int, offers: Offers) -> None:
        order = self.ordered(job, kind, offers)
        for index in range(0, len(order), 64):
            self.kit.auction.clear(job, kind, order[index : index + 64], sender=self.anyone)

    def award(self, job: int, kind: int, offers: Offers) -> None:
        winners = [each.id for each in offers if self.kit.auction.bids(job, kind, each.id).won]
        for index in range(0, len(winners), 64):
            self.kit.auction.award(job, kind, winners[index : index + 64], sender=self.anyone)

    def awarded(self, slots: Offers, aggregator: Offers, /, **changes: Any) -> int:
        """A job through its auctions."""
        job = self.post(**changes)
        self.bid_all(job, slots, aggregator)
        self.reveal_all(job, slots, aggregator)
        for kind, offers in ((SLOTS, slots), (AGGREGATOR, aggregator)):
            self.clear(job, kind, offers)
        for kind, offers in ((SLOTS, slots), (AGGREGATOR, aggregator)):
            self.award(job, kind, offers)
        return job

    # --- a job's rounds

    def seats_of(self, job: int, operator: Operator) -> list[int]:
        """The seats of slots that an operator holds."""
        count = self.kit.settlement.runs(job).seats
        return [seat for seat in range(count) if self.kit.settlement.seats(job, seat).operator == operator.id]

    def seat_of(self, job: int, operator: Operator) -> int:
        (seat,) = self.seats_of(job, operator)
        return seat

    def ready(self, job: int, *operators: Operator, estimate_s: int = 10) -> None:
        """For every seat of theirs that is missing."""
        for operator in operators:
            for seat in self.seats_of(job, operator):
                if self.kit.settlement.runs(job).missing >> seat & 1:
                    self.kit.settlement.ready(job, seat, estimate_s, sender=operator.hot)

    def running(self, slots: Offers, aggregator: Offers, /, **changes: Any) -> int:
        """A job whose holders are all ready: turn 0 is open."""
        job = self.awarded(slots, aggregator, **changes)
        self.ready(job, *slots)
        return job

    def commit(self, job: int, operator: Operator, seat: int | None = None) -> tuple[Any, ...]:
        """Commits the operator's only seat, or `seat`; returns the claim."""
        seat = self.seat_of(job, operator) if seat is None else seat
        run, held = self.kit.settlement.runs(job), self.kit.settlement.seats(job, seat)
        root = keccak(encode(["uint256"] * 3, (job, run.turn, seat)))
        self.kit.settlement.commit(job, seat, run.turn, root, b"\x05" * 32, sender=operator.hot)
        scope = held.first << 16 | held.count
        prices = (held.count * held.price, held.count * held.pot_price)
        fixed = (run.turn, run.round, seat, operator.id, scope, *prices, self._slots_root(job, run), root)
        return self._remember(job, (*fixed, self.now + run.window_s))

    def post_checkpoint(self, job: int, operator: Operator) -> tuple[Any, ...]:
        """Closes the turn with what was committed; returns the claim."""
        run, held = self.kit.settlement.runs(job), self.kit.settlement.seats(job, AGGREGATION)
        mask = (2**run.seats - 1) & ~run.missing
        root = keccak(encode(["uint256"] * 2, (job, run.turn + 1)))
        self.kit.settlement.post_checkpoint(job, run.turn, mask, root, b"\x06" * 32, sender=operator.hot)
        fixed = (run.turn, run.round, AGGREGATION, operator.id, mask, held.price, 0, run.start_root, root)
        self.made[job] = (*fixed, self.now + run.window_s)
        return self._remember(job, self.made[job])

    def _slots_root(self, job: int, run: Any) -> bytes:
        """What slots start from: in a delayed job what the aggregation of the turn before did, where that stands."""
        made = self.made.get(job)
        follows = made is not None and (made[0] + 1, made[1] + 1) == (run.turn, run.round)
        return bytes(made[7]) if made and follows and run.policy & POLICY_DELAYED else bytes(run.start_root)

    def _remember(self, job: int, ref: tuple[Any, ...]) -> tuple[Any, ...]:
        self.refs.setdefault(job, []).append(ref)
        return ref

    def round(self, job: int, holders: Sequence[Operator], aggregator: Operator) -> None:
        for holder in holders:
            self.commit(job, holder)
        self.post_checkpoint(job, aggregator)

    def finalise(self, job: int) -> None:
        """Pays all claims that were committed and not yet paid, after the last of their windows."""
        refs = self.refs.pop(job)
        self.to(max(self.now, max(ref[9] for ref in refs) + 1))
        for index in range(0, len(refs), 64):
            self.kit.settlement.finalise(job, refs[index : index + 64], sender=self.anyone)

    def release(self, job: int, *operators: Operator) -> None:
        for operator in operators:
            self.kit.settlement.release(job, operator.id, sender=self.anyone)

    @contextmanager
    def refused(self, reason: str) -> Iterator[None]:
        """A block in which a call must be refused for exactly this reason, whichever contract gives it."""
        try:
            yield
        except Reverted as error:
            given = error.reason
            assert given == reason, f"refused with {given!r}, expected {reason!r}"
        else:
            raise AssertionError(f"accepted, expected {reason!r}")
