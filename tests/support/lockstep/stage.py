"""A stage: the specification, and in lockstep with it (where given) the contracts.

The law of every step: both accept and reach the same state, or both refuse for the same reason and nothing changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol

from eth_utils.crypto import keccak

from tests.support.lockstep import committed_results
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.invariants import check_invariants
from zoo_compute.spec import auction, seats
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import AGGREGATOR_SEAT, DEVNET, STRANGERS_LANE, ZEN, Preset, Terms
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim, ClaimStatus, Config, Operator, Seal, World
from zoo_compute.spec.world import Call, apply

START = 1_800_000_000  # Unix seconds: where the clock of every stage starts
FIRST_BLOCK = 1_000  # at START
BLOCKHASH_RANGE = 256  # blocks back that their hashes are known
WEALTH = 10**9 * ZEN  # of each account, in each token
CAST = ("deployer", "guardian", "submitter", "stranger", "timelock", "sink", "referee", "audit pool")
OPERATORS = ("alice", "bob", "carol", "dave", "erin")
AUDITORS = ("frank", "grace")  # operators that bid for nothing
ACCOUNTS = (*CAST, *(f"{name} {key}" for name in OPERATORS + AUDITORS for key in ("owner", "hot")))
DEPOSIT = 1_000_000  # each operator's collateral in each token


@cache
def block_hash(number: int) -> bytes:
    """Of a block of a stage without contracts; those run on a chain with hashes of its own."""
    return bytes(keccak(number.to_bytes(32, "big")))


class Mirror(Protocol):
    """The contracts' side of a stage."""

    config: Config
    accounts: dict[str, str]
    tokens: dict[str, str]

    def block_hash(self, number: int) -> bytes: ...

    def accept(self, call: Call, before: World, after: World, result: Any) -> None: ...

    def refuse(self, call: Call, reason: str, world: World) -> None: ...

    def compare(self, world: World) -> None: ...


@dataclass(frozen=True)
class Offer:
    """What an operator bids in a scenario."""

    price: int
    capacity: int = 1
    standby: bool = False


@dataclass
class Stage:
    """Drives both sides by one list of calls. Accounts and tokens go by name; operators by name or number."""

    coverage: Coverage
    mirror: Mirror | None = None
    preset: Preset = DEVNET
    now: int = START
    base_fee: int = 0
    block: int = FIRST_BLOCK
    world: World = field(init=False)
    accounts: dict[str, str] = field(init=False)
    tokens: dict[str, str] = field(init=False)
    ids: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mirror:
            self.accounts, self.tokens = dict(self.mirror.accounts), dict(self.mirror.tokens)
            config = self.mirror.config
        else:
            self.accounts, self.tokens = {name: name for name in ACCOUNTS}, {"zen": "zen", "usd": "usd", "bad": "bad"}
            config = Config(preset=self.preset)
        self.world = World(config=config)
        for token in self.tokens.values():
            for name in set(ACCOUNTS) - {"sink"}:
                self.world.balances[token, self.accounts[name]] = WEALTH
        self.world.refuses_coin[self.tokens["bad"]] = True
        for token in ("zen", "usd"):
            self.ok("tasks", "allow", "deployer", self.tokens[token], True, self.preset.window_value)

    def call(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> Call:
        """A call by an account's name or address, now."""
        sender = self.accounts.get(sender, sender)
        return Call(contract, function, sender, self.now, args, value, self.base_fee, self.block)

    def block_hash(self, number: int) -> bytes:
        return self.mirror.block_hash(number) if self.mirror else block_hash(number)

    # One step ------------------------------------------------------------------------------------------------------

    def attempt(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> str | None:
        """One call on both sides; the reason it was refused for, or None. Its result is in `self.result`."""
        call = self.call(contract, function, sender, *args, value=value)
        if self.block - 1 not in self.world.block_hashes:
            known = range(self.block - BLOCKHASH_RANGE, self.block)
            self.world = replace(self.world, block_hashes={number: self.block_hash(number) for number in known})
        try:
            after, self.result = apply(self.world, call)
        except Refused as refusal:
            self.coverage.refused(call, refusal.reason)
            if self.mirror:
                self.mirror.refuse(call, refusal.reason, self.world)
            return refusal.reason
        self.coverage.accepted(call, self.world, after)
        check_invariants(after)
        if self.mirror:
            self.mirror.accept(call, self.world, after, self.result)
        self.world = after
        return None

    def ok(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> Any:
        """A call that must be accepted; its result."""
        reason = self.attempt(contract, function, sender, *args, value=value)
        assert reason is None, f"{contract}.{function}{args} was refused: {reason}"
        return self.result

    def no(self, reason: str, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> None:
        """A call that must be refused for exactly this reason."""
        given = self.attempt(contract, function, sender, *args, value=value)
        assert given == reason, f"{contract}.{function}{args}: expected {reason!r}, got {given!r}"

    def to(self, now: int) -> None:
        """The clock jumps to `now`; a block passes each second."""
        assert now >= self.now, "time does not run backwards"
        self.mine(now - self.now)
        self.now = now

    def wait(self, seconds: int) -> None:
        self.to(self.now + seconds)

    def mine(self, blocks: int) -> None:
        """Blocks pass, and no time."""
        self.block += blocks

    # The cast ------------------------------------------------------------------------------------------------------

    def register(self, name: str, *, gpu_class: int = 1, vram_gb: int = 48, stake: int | None = None) -> int:
        """An operator with stake, and collateral in both tokens."""
        stake = self.preset.min_stake if stake is None else stake
        hot = self.accounts[f"{name} hot"]
        operator = self.ok("registry", "register", f"{name} owner", hot, gpu_class, vram_gb, stake, f"http://{name}")
        self.ids[name] = operator
        for token in ("zen", "usd"):
            self.ok("registry", "deposit", f"{name} owner", operator, self.tokens[token], DEPOSIT)
        return int(operator)

    def register_all(self, *names: str) -> None:
        for index, name in enumerate(names or OPERATORS):
            self.register(name, gpu_class=index % 4 + 1)

    def owner(self, operator: int) -> str:
        return self.world.operator(operator).owner

    def operator(self, name: str) -> Operator:
        return self.world.operator(self.ids[name])

    def terms(self, **changes: Any) -> Terms:
        """A small job; `token` by name."""
        token = self.tokens[changes.pop("token", "zen")]
        terms = Terms(
            token=token,
            work_root=b"p" * 32,
            state_root=b"s" * 32,
            data_root=b"d" * 32,
            manifest=b"m" * 32,
            rounds=3,
            slots=4,
            quorum=2,
            reserve=100,
            max_price=160,
            aggregator_reserve=50,
            aggregator_max_price=80,
            slot_s=30,
            aggregate_s=15,
            reexecute_s=5,
            flops=10**12,
            depth=4,
            policy=0,
        )
        return replace(terms, **changes)

    def post(self, **changes: Any) -> int:
        return int(self.ok("tasks", "post", "submitter", self.terms(**changes)))

    # A job's life --------------------------------------------------------------------------------------------------

    def seal(self, job: int, kind: int, name: str, price: int, capacity: int) -> Seal:
        attempt = self.world.lot(job, kind).attempt
        return Seal(job, kind, attempt, self.ids[name], price, capacity, self.salt(name))

    def salt(self, name: str) -> bytes:
        return name.encode().ljust(32, b"\0")

    def bid(self, job: int, kind: int, name: str, offer: Offer) -> None:
        seal = self.seal(job, kind, name, offer.price, offer.capacity)
        args = (job, kind, self.ids[name], seal, offer.capacity, offer.standby)
        self.ok("auction", "bid", f"{name} hot", *args)

    def reveal(self, job: int, kind: int, name: str, price: int) -> None:
        self.ok("auction", "reveal", "stranger", job, kind, self.ids[name], price, self.salt(name))

    def bid_all(self, job: int, slots: Mapping[str, Offer], aggregator: Mapping[str, Offer]) -> None:
        for kind, offers in enumerate((slots, aggregator)):
            for name, offer in offers.items():
                self.bid(job, kind, name, offer)

    def reveal_all(self, job: int, slots: Mapping[str, Offer], aggregator: Mapping[str, Offer]) -> None:
        """Every bid opened at the first second; then the reveal phase is over."""
        self.to(self.world.lot(job, 0).bid_end)
        for kind, offers in enumerate((slots, aggregator)):
            for name, offer in offers.items():
                self.reveal(job, kind, name, offer.price)
        self.to(self.world.lot(job, 0).reveal_end)

    def order(self, job: int, kind: int) -> tuple[int, ...]:
        """The clearing order of the revealed bids."""
        attempt = self.world.lot(job, kind).attempt
        bids = [
            auction.RevealedBid(operator, bid.price, bid.discount_bps, bid.capacity)
            for (of, which, operator), bid in self.world.bids.items()
            if (of, which) == (job, kind) and bid.revealed and bid.attempt == attempt
        ]
        return tuple(bid.operator for bid in auction.order_bids(bids))

    def winners(self, job: int, kind: int) -> tuple[int, ...]:
        return tuple(operator for operator in self.order(job, kind) if self.world.bid(job, kind, operator).won)

    def award_all(self, job: int) -> None:
        for kind in (0, 1):
            self.ok("auction", "clear", "stranger", job, kind, self.order(job, kind))
        for kind in (0, 1):
            self.ok("auction", "award", "stranger", job, kind, tuple(reversed(self.winners(job, kind))))

    def awarded(self, slots: Mapping[str, Offer], aggregator: Mapping[str, Offer], /, **changes: Any) -> int:
        """A job through its auctions."""
        job = self.post(**changes)
        self.bid_all(job, slots, aggregator)
        self.reveal_all(job, slots, aggregator)
        self.award_all(job)
        return job

    def running(self, slots: Mapping[str, Offer], aggregator: Mapping[str, Offer], /, **changes: Any) -> int:
        """A job whose holders are all ready, each with an estimate of a third of the slot's time."""
        job = self.awarded(slots, aggregator, **changes)
        for name in slots:
            if self.seats_of(job, name):
                self.ready(job, name)
        return job

    def seats_of(self, job: int, name: str) -> tuple[int, ...]:
        """The seats of slots that an operator holds in a job."""
        operator = self.ids[name]
        held = ((seat, record) for (of, seat), record in self.world.seats.items() if of == job)
        return tuple(seat for seat, record in held if record.operator == operator and seat != AGGREGATOR_SEAT)

    def seat_of(self, job: int, name: str) -> int:
        """The one seat of slots that an operator holds."""
        (seat,) = self.seats_of(job, name)
        return seat

    def name_of(self, operator: int) -> str:
        return next(name for name, number in self.ids.items() if number == operator)

    def ready(self, job: int, name: str, estimate_s: int | None = None) -> None:
        """For all seats of the operator that are missing."""
        estimate_s = self.world.run(job).slot_s // 3 if estimate_s is None else estimate_s
        for seat in self.seats_of(job, name):
            if self.world.run(job).missing >> seat & 1:
                self.ok("settlement", "ready", f"{name} hot", job, seat, estimate_s)

    def commit(self, job: int, name: str, seat: int | None = None) -> Claim:
        """A seat's results, by default those of the operator's only seat; the claim."""
        run, seat = self.world.run(job), self.seat_of(job, name) if seat is None else seat
        held = self.world.seat(job, seat)
        root = committed_results.round_root(held.first, held.count, run.turn, seats.slots_root(self.world, job))
        self.ok("settlement", "commit", f"{name} hot", job, seat, run.turn, root, b"b" * 32)
        return self.world.claims[job, seat, run.turn % (run.depth + 1)].claim

    def commit_all(self, job: int) -> None:
        """Every holder, for every seat that is missing."""
        for (of, number), seat in list(self.world.seats.items()):
            if of == job and seat.operator and self.world.run(job).missing >> number & 1:
                self.commit(job, self.name_of(seat.operator), number)

    def post_checkpoint(self, job: int) -> Claim:
        """The aggregator closes the open turn; its claim."""
        run = self.world.run(job)
        name = self.name_of(self.world.seat(job, AGGREGATOR_SEAT).operator)
        args = (job, run.turn, seats.present(run), committed_results.checkpoint_root(run.turn), b"c" * 32)
        self.ok("settlement", "post_checkpoint", f"{name} hot", *args)
        return self.world.claims[job, AGGREGATOR_SEAT, run.turn % (run.depth + 1)].claim

    def play_round(self, job: int) -> None:
        """Everyone commits; where a seat has no holder the turn waits for its inputs to close."""
        self.until_open(job)
        self.commit_all(job)
        run = self.world.run(job)
        if run.missing:
            self.to(max(self.now, run.inputs_close))
        self.post_checkpoint(job)

    def until_open(self, job: int) -> None:
        """A turn that waits opens once the claims in its way are final."""
        if not self.world.run(job).is_open:
            self.finalise_all(job)

    def take_over(self, job: int, seat: int, name: str, count: int | None = None, estimate_s: int = 10) -> int:
        """All of a vacant seat, or its last `count` slots; the number of the seat that the operator has then."""
        before = self.world.run(job).seats
        count = self.world.seat(job, seat).count if count is None else count
        self.ok("settlement", "take_over", f"{name} hot", job, seat, self.ids[name], count, estimate_s)
        return seat if self.world.run(job).seats == before else before

    def claims(self, job: int) -> tuple[Claim, ...]:
        """All claims of a job that are pending, by operator so that they are paid together."""
        posted = (posted for (of, _, _), posted in self.world.claims.items() if of == job)
        pending = (each.claim for each in posted if each.status == ClaimStatus.PENDING)
        return tuple(sorted(pending, key=lambda claim: (claim.operator, claim.turn, claim.seat)))

    def finalise_all(self, job: int) -> None:
        """Every claim of a closed turn is final and paid."""
        run = self.world.run(job)
        claims = tuple(claim for claim in self.claims(job) if claim.turn < run.turn)
        if claims:
            self.to(max(self.now, *(claim.deadline + 1 for claim in claims)))
        for index in range(0, len(claims), 64):
            self.ok("settlement", "finalise", "stranger", job, claims[index : index + 64])

    def convict(self, job: int, claim: Claim, *challengers: str) -> None:
        """The referee's verdict after one dispute; challengers by name."""
        referee = self.world.config.referee
        self.ok("settlement", "open_dispute", referee, job, claim)
        accounts = tuple(self.accounts[name] for name in challengers)
        self.ok("settlement", "close_dispute", referee, job, claim, True, accounts)

    def demand(self, job: int, claim: Claim, lane: int, sender: str) -> None:
        """The first chunk of a claim."""
        slot = 0 if claim.is_aggregation else claim.scope >> 16
        self.ok("availability", "demand", sender, job, claim, lane, slot, 0, 0, value=least_deposit(self.base_fee))

    def lose(self, job: int, claim: Claim) -> None:
        """Nobody shows a claim's data: it is void."""
        self.demand(job, claim, STRANGERS_LANE, "stranger")
        self.wait(self.preset.answer_s + 1)
        self.ok("availability", "close", "stranger", job, claim, STRANGERS_LANE)

    def settle(self, job: int) -> None:
        """Every claim is final and paid, every lock released, everything owed withdrawn."""
        self.finalise_all(job)
        for operator in self.locked(job):
            self.ok("settlement", "release", "stranger", job, operator)
        self.withdraw_all()

    def locked(self, job: int) -> Sequence[int]:
        """Operators with a lot in the job."""
        return sorted(of for (which, of), standing in self.world.standings.items() if which == job and standing.lots)

    def withdraw_all(self) -> None:
        for (token, account), amount in list(self.world.owed.items()):
            if amount:
                self.ok("tasks", "withdraw", "stranger", token, account)
