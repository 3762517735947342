"""A stage: the specification, and in lockstep with it (where given) the contracts.

The law of every step: both accept and reach the same state, or both refuse for the same reason and nothing changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Protocol

from eth_utils.crypto import keccak

from tests.support.job_driver import JobDriver
from tests.support.lockstep import committed_results
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.invariants import check_invariants
from zoo_compute.spec import node_registry, seats
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.clocks import End
from zoo_compute.spec.exploration import abi_words
from zoo_compute.spec.frames import Frame, Position
from zoo_compute.spec.params import DEVNET, STRANGERS_LANE, UNITS_PER_STAKE, ZEN, Preset
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim, ClaimStatus, Config, Operator, World
from zoo_compute.spec.world import Call, apply

START = 1_800_000_000  # Unix seconds: where the clock of every stage starts
FIRST_BLOCK = 1_000  # at START
BLOCKHASH_RANGE = 256  # blocks back that their hashes are known
WEALTH = 10**9 * ZEN  # of each account, in each token
CAST = ("deployer", "guardian", "submitter", "stranger", "timelock", "sink", "referee", "audit pool", "successor")
# Of the cast: contracts, by the mirror's names. They sign nothing and begin without tokens.
DEPLOYED = {"referee": "referee", "audit pool": "pool", "successor": "successor"}
PARTS = 3  # of every element, for the doubles of Evidence and OpExecutor
OPERATORS = ("alice", "bob", "carol", "dave", "erin")
AUDITORS = ("frank", "grace")  # operators that bid for nothing
ACCOUNTS = (*CAST, *(f"{name} {key}" for name in OPERATORS + AUDITORS for key in ("owner", "hot")))
DEPOSIT = 10_000_000  # each operator's collateral in each token


@cache
def block_hash(number: int) -> bytes:
    """The hash of a block, as revm makes one up: with and without contracts the same."""
    return bytes(keccak(text=str(number)))


def judge_by_hash(kind: int, frame: Frame, position: Position, data: bytes) -> None:
    """As EvidenceDouble: what shows a claim false is the hash of all that it is asked about."""
    if data != evidence_of(kind, frame, position):
        raise Refused("evidence: it does not hold")


def evidence_of(kind: int, frame: Frame, position: Position) -> bytes:
    return bytes(keccak(abi_words(kind, *astuple(frame), *astuple(position))))


def parts_of(descriptor: bytes, element: int) -> int:
    return PARTS


class Mirror(Protocol):
    """The contracts' side of a stage."""

    config: Config
    accounts: dict[str, str]
    tokens: dict[str, str]

    def accept(self, call: Call, before: World, after: World, result: Any) -> None: ...

    def refuse(self, call: Call, reason: str, world: World) -> None: ...

    def compare(self, world: World) -> None: ...


@dataclass
class Stage(JobDriver):
    """Drives both sides by one list of calls. Accounts and tokens go by name; operators by name or number."""

    TERMS: ClassVar[Mapping[str, Any]] = {
        "slots": 4,
        "reserve": 100,
        "max_price": 160,
        "aggregator_reserve": 50,
        "aggregator_max_price": 80,
        "slot_s": 30,
        "aggregate_s": 15,
        "reexecute_s": 5,
    }
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
        super().__init__(None, "zen", "submitter", "stranger")
        if self.mirror:
            self.accounts, self.tokens = dict(self.mirror.accounts), dict(self.mirror.tokens)
            config = self.mirror.config
        else:
            self.accounts, self.tokens = (
                {name: name for name in ACCOUNTS},
                {name: name for name in ("zen", "usd", "bad", "credits")},
            )
            config = Config(preset=self.preset, judge=judge_by_hash, part_count=parts_of)
        self.world = World(config=config, last_beat=self.now)
        for token in (self.tokens[name] for name in ("zen", "usd", "bad")):
            for name in set(ACCOUNTS) - {"sink", *DEPLOYED}:
                self.world.balances[token, self.accounts[name]] = WEALTH
        self.world.refuses_coin[self.tokens["bad"]] = True
        for token in ("zen", "usd"):
            self.ok("tasks", "allow", "deployer", self.tokens[token], True, self.preset.window_value)

    def call(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> Call:
        """A call by an account's name or address, now."""
        sender = self.accounts.get(sender, sender)
        return Call(contract, function, sender, self.now, args, value, self.base_fee, self.block)

    # One step ------------------------------------------------------------------------------------------------------

    def attempt(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> str | None:
        """One call on both sides; the reason it was refused for, or None. Its result is in `self.result`."""
        call = self.call(contract, function, sender, *args, value=value)
        if self.block - 1 not in self.world.block_hashes:
            known = range(self.block - BLOCKHASH_RANGE, self.block)
            self.world = replace(self.world, block_hashes={number: block_hash(number) for number in known})
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
        refused_for = self.attempt(contract, function, sender, *args, value=value)
        assert refused_for == reason, f"{contract}.{function}{args}: expected {reason!r}, got {refused_for!r}"

    def to(self, now: int) -> None:
        """The clock jumps to `now`; a block passes each second. Somebody beats on the way, so that the protocol's time does not stop."""
        outage_s = self.preset.clocks.outage_s
        while now > self.world.last_beat + outage_s:
            self.halt(max(0, self.world.last_beat + outage_s - self.now))
            self.ok("registry", "beat", "stranger")
        self.halt(now - self.now)

    def halt(self, seconds: int) -> None:
        """The clock jumps, and nobody beats."""
        assert seconds >= 0, "time does not run backwards"
        self.mine(seconds)
        self.now += seconds

    @property
    def time(self) -> int:
        """The protocol's, now."""
        return node_registry.protocol_time(self.world, self.now)

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

    def back(self, name: str, units: int) -> None:
        """More stake, for bids of so many units."""
        stake = self.preset.min_stake * units // UNITS_PER_STAKE - self.operator(name).stake
        self.ok("registry", "add_stake", f"{name} owner", self.ids[name], stake)

    def register_all(self, *names: str) -> None:
        for index, name in enumerate(names or OPERATORS):
            self.register(name, gpu_class=index % 4 + 1)

    def owner(self, operator: int) -> str:
        return self.world.operator(operator).owner

    def operator(self, name: str) -> Operator:
        return self.world.operator(self.ids[name])

    def terms(self, **changes: Any) -> Any:
        """A small job; `token` by name."""
        return super().terms(token=self.tokens[changes.pop("token", "zen")], **changes)

    # The chain behind the words ------------------------------------------------------------------------------------

    def send(self, contract: str, function: str, sender: Any, *args: Any, value: int = 0) -> Any:
        return self.ok(contract, function, sender, *args, value=value)

    def pack(self, value: Any) -> Any:
        return value

    def lot(self, job: int, kind: int) -> Any:
        return self.world.lot(job, kind)

    def bid_of(self, job: int, kind: int, operator: int) -> Any:
        return self.world.bid(job, kind, operator)

    def run(self, job: int) -> Any:
        return self.world.run(job)

    def seat(self, job: int, seat: int) -> Any:
        return self.world.seat(job, seat)

    def deadline(self, job: int, *claims: Claim) -> int:
        return max(seats.claim_deadline(self.world, job, claim.turn) for claim in claims)

    def slots_root(self, job: int) -> bytes:
        return seats.slots_root(self.world, job)

    def bidders(self, job: int, kind: int) -> Iterable[int]:
        return [operator for of, lot, operator in self.world.bids if (of, lot) == (job, kind)]

    def id_of(self, party: str) -> int:
        return self.ids[party]

    def hot_of(self, party: str) -> str:
        return f"{party} hot"

    def party(self, operator: int) -> str:
        return next(name for name, number in self.ids.items() if number == operator)

    def salt(self, party: str) -> bytes:
        return party.encode().ljust(32, b"\0")

    def results(self, job: int, turn: int, seat: Any) -> tuple[bytes, bytes]:
        return committed_results.round_root(seat.first, seat.count, turn, self.slots_root(job)), b"b" * 32

    def checkpoint(self, job: int, turn: int) -> tuple[bytes, bytes]:
        return committed_results.checkpoint_root(turn), b"c" * 32

    def record(self, job: int, claim: Claim) -> Claim:
        """As the specification keeps it: a seat that is done again may have another price."""
        return self.world.claims[job, claim.seat, claim.turn % (self.world.run(job).depth + 1)].claim

    def pending(self, job: int) -> tuple[Claim, ...]:
        turn = self.world.run(job).turn
        return tuple(claim for claim in self.claims(job) if claim.turn < turn)

    # A job's life --------------------------------------------------------------------------------------------------

    def award(self, job: int, kind: int, parties: Iterable[str] | None = None) -> None:
        """In the order that the contract does not expect."""
        args = (job, kind, self.winners(job, kind, parties)[::-1])
        self.send("auction", "award", self.anyone, *args)

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
            self.finalise(job)

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

    def close_dispute(self, job: int, claim: Claim, end: End, used_s: int = 0, burned: int = 0) -> None:
        """The referee's last word."""
        self.ok("settlement", "close_dispute", "referee", job, claim, int(end), used_s, burned)

    def convict(self, job: int, claim: Claim, finder: str = "") -> None:
        """The referee's judgement; the finder of the oldest seal has its share at once."""
        self.ok("settlement", "open_dispute", "referee", job, claim)
        self.close_dispute(job, claim, End.JUDGED)
        if finder:
            self.ok("settlement", "reward_finder", "referee", job, claim, self.accounts[finder])

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
        self.finalise(job)
        for operator in self.locked(job):
            self.ok("locks", "release", "stranger", job, operator)
        self.withdraw_all()

    def locked(self, job: int) -> Sequence[int]:
        """Operators with a lock in the job."""
        return sorted({of for (which, of, _), stake in self.world.stakes.items() if which == job and stake.has_lock})

    def withdraw_all(self) -> None:
        for (token, account), amount in list(self.world.owed.items()):
            if amount:
                self.ok("tasks", "withdraw", "stranger", token, account)
