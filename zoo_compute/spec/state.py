"""The whole state of the protocol as plain values: what the contracts store, and the ghosts the invariants need.

Records are frozen; `World` holds dictionaries that only a fork is ever written to (`world.apply`).
Amounts are smallest units of their token, times Unix seconds. Claims keep the tuple that the contract hashes.
"""

from copy import copy
from dataclasses import dataclass, field, fields
from enum import IntEnum

from zoo_compute.spec.params import DEVNET, Preset, Terms
from zoo_compute.spec.pricing import LosingRun
from zoo_compute.spec.refusal import require

ZERO_ADDRESS: str = "0x" + 40 * "0"
EMPTY_BYTES32: bytes = bytes(32)


class JobState(IntEnum):
    """docs/protocol.md, "TaskRegistry"."""

    NONE = 0
    OPEN = 1
    AWARDED = 2
    RUNNING = 3
    ENDED = 4
    CANCELLED = 5


class Phase(IntEnum):
    """Of a lot; docs/protocol.md, "Auction"."""

    NONE = 0
    OPEN = 1
    CLEARING = 2
    CLEARED = 3
    AWARDED = 4


@dataclass(frozen=True, slots=True)
class Message:
    """Who calls, and when."""

    sender: str
    now: int


@dataclass(frozen=True, slots=True)
class Config:
    """What a deployment fixes. The names stand for addresses where nobody gives any."""

    preset: Preset = DEVNET
    zen: str = "zen"
    deployer: str = "deployer"
    guardian: str = "guardian"
    governor: str = "deployer"  # of TaskRegistry: the timelock; on a devnet the deployer
    treasury_governor: str = "timelock"
    registry: str = "registry"
    tasks: str = "tasks"
    rewards: str = "rewards"
    treasury: str = "treasury"


@dataclass(frozen=True, slots=True)
class Operator:
    owner: str = ZERO_ADDRESS
    stake: int = 0
    hot: str = ZERO_ADDRESS
    gpu_class: int = 0
    vram_gb: int = 0
    reputation: int = 0
    locks: int = 0  # lots it is locked in
    exit_at: int = 0  # 0: no exit requested


@dataclass(frozen=True, slots=True)
class Collateral:
    balance: int = 0
    locked: int = 0

    @property
    def free(self) -> int:
        return self.balance - self.locked


@dataclass(frozen=True, slots=True)
class Job:
    submitter: str = ZERO_ADDRESS
    token: str = ZERO_ADDRESS
    state: JobState = JobState.NONE
    escrow: int = 0  # what is left of it
    program_root: bytes = EMPTY_BYTES32
    state_root: bytes = EMPTY_BYTES32
    data_root: bytes = EMPTY_BYTES32
    manifest: bytes = EMPTY_BYTES32


@dataclass(frozen=True, slots=True)
class Lot:
    phase: Phase = Phase.NONE
    token: str = ZERO_ADDRESS
    units: int = 0
    rounds: int = 0
    reserve: int = 0
    max_reserve: int = 0
    lock: int = 0  # per unit
    attempt: int = 0
    bid_end: int = 0
    reveal_end: int = 0
    revealed: int = 0
    units_capped: int = 0
    units_uncapped: int = 0
    cleared: int = 0
    sold: int = 0
    winners: int = 0
    priced: int = 0
    cursor: int = 0  # score << 64 | operator, last cleared
    losing_units: int = 0
    cancelled_at: int = 0
    clearing_pass: int = 0  # not in the contract's view: which pass of clearing runs
    losing: tuple[LosingRun, ...] = ()  # not in the contract's view


@dataclass(frozen=True, slots=True)
class Seal:
    """What a seal hashes. Contract: keccak256(abi_encode(...)), upper 160 bits."""

    job: int
    kind: int
    attempt: int
    operator: int
    price: int
    capacity: int
    salt: bytes


@dataclass(frozen=True, slots=True)
class Bid:
    attempt: int = 0
    capacity: int = 0
    standby: bool = False
    revealed: bool = False
    price: int = 0
    discount_bps: int = 0
    won: int = 0
    first_slot: int = 0
    taken: int = 0  # units taken over as a standby
    seal: Seal | None = None
    cleared_pass: int = 0  # not in the contract's view: the pass that cleared it last, 0 for none
    priced: bool = False  # not in the contract's view


@dataclass(frozen=True, slots=True)
class Run:
    state: JobState = JobState.NONE
    round: int = 0  # also: rounds closed so far
    rounds: int = 0
    slots: int = 0
    quorum: int = 0
    opened_at: int = 0
    outstanding: int = 0
    window_s: int = 0
    slot_s: int = 0
    aggregate_s: int = 0
    aggregator: int = 0  # operator, 0 when vacant
    aggregator_price: int = 0
    aggregator_due: int = 0
    token: str = ZERO_ADDRESS
    lock: int = 0  # per slot
    flops: int = 0
    missing: int = 0  # bitmap
    vacant: int = 0  # bitmap
    pot: int = 0

    @property
    def inputs_close(self) -> int:
        return self.opened_at + 2 * self.slot_s


@dataclass(frozen=True, slots=True)
class Seat:
    price: int = 0
    locked: int = 0
    estimate_s: int = 0
    since: int = 0
    held: int = 0  # bitmap
    taken: int = 0  # bitmap
    lost: int = 0  # bitmap, not in the contract's view: slots it held once and no longer


@dataclass(frozen=True, slots=True)
class AggregatorSeat:
    price: int = 0
    locked: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim word hashes: for slots a bitmap and the round root, for an aggregation the mask and the new state."""

    operator: int
    bitmap: int
    root: bytes
    deadline: int


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """Names a claim in `finalise`, with all that its word hashes."""

    round: int
    key: int
    operator: int
    bitmap: int
    root: bytes
    deadline: int


@dataclass(frozen=True, slots=True)
class Vacancy:
    price: int = 0  # what escrow paid the last holder per round
    pot: int = 0


@dataclass(frozen=True, slots=True)
class Takeover:
    escrow_price: int = 0
    pot_price: int = 0


@dataclass(frozen=True, slots=True)
class Epoch:
    weight: int = 0
    fees: int = 0
    budget: int = 0
    paid: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    weight: int = 0
    fees: int = 0


@dataclass(frozen=True, slots=True)
class JobLedger:
    """Ghost of a job's money: `escrowed == paid + fees + refunded + jobs[job].escrow`."""

    escrowed: int = 0
    paid: int = 0
    fees: int = 0
    refunded: int = 0


@dataclass(frozen=True, slots=True)
class SlashLedger:
    """Ghost of a token's slashes: `slashed == credited + burned + pot`."""

    slashed: int = 0
    credited: int = 0


@dataclass(slots=True)
class World:
    """Every contract's state. Absent keys mean the empty record, as in a contract's mapping."""

    config: Config = field(default_factory=Config)
    balances: dict[tuple[str, str], int] = field(default_factory=dict)  # (token, account)
    false_tokens: dict[str, bool] = field(default_factory=dict)  # answer `false` to every transfer
    paused: dict[str, bool] = field(default_factory=dict)  # by contract
    # NodeRegistry
    operators: dict[int, Operator] = field(default_factory=dict)
    collateral: dict[tuple[int, str], Collateral] = field(default_factory=dict)  # (operator, token)
    pots: dict[str, int] = field(default_factory=dict)
    burned: dict[str, int] = field(default_factory=dict)
    # TaskRegistry
    allowed: dict[str, bool] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    terms: dict[int, Terms] = field(default_factory=dict)
    owed: dict[tuple[str, str], int] = field(default_factory=dict)  # (token, account)
    checkpoint_roots: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (job, round)
    checkpoint_cids: dict[int, bytes] = field(default_factory=dict)
    # Auction
    lots: dict[tuple[int, int], Lot] = field(default_factory=dict)  # (job, kind)
    bids: dict[tuple[int, int, int], Bid] = field(default_factory=dict)  # (job, kind, operator)
    # Settlement
    runs: dict[int, Run] = field(default_factory=dict)
    seats: dict[tuple[int, int], Seat] = field(default_factory=dict)  # (job, operator)
    aggregator_seats: dict[tuple[int, int], AggregatorSeat] = field(default_factory=dict)
    claims: dict[tuple[int, int, int], Claim] = field(default_factory=dict)  # (job, round, key)
    vacancies: dict[tuple[int, int], Vacancy] = field(default_factory=dict)  # (job, slot)
    takeovers: dict[tuple[int, int, int], Takeover] = field(default_factory=dict)  # (job, slot, operator)
    # Rewards
    pool: int = 0
    epochs: dict[int, Epoch] = field(default_factory=dict)
    shares: dict[tuple[int, int], Share] = field(default_factory=dict)  # (operator, epoch)
    # Treasury
    buckets: dict[tuple[str, int], int] = field(default_factory=dict)  # (token, bucket)
    # Ghosts
    job_ledgers: dict[int, JobLedger] = field(default_factory=dict)
    slash_ledgers: dict[str, SlashLedger] = field(default_factory=dict)
    donations: dict[tuple[str, str], int] = field(default_factory=dict)  # (token, account): plain transfers to it

    def fork(self) -> "World":
        """A copy whose writes the original does not see: records are frozen, so dictionaries are copied shallowly."""
        new = copy(self)
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, dict):
                setattr(new, item.name, dict(value))
        return new

    def operator(self, operator: int) -> Operator:
        return self.operators.get(operator, Operator())

    def deposit_of(self, operator: int, token: str) -> Collateral:
        return self.collateral.get((operator, token), Collateral())

    def job(self, job: int) -> Job:
        return self.jobs.get(job, Job())

    def lot(self, job: int, kind: int) -> Lot:
        return self.lots.get((job, kind), Lot())

    def bid(self, job: int, kind: int, operator: int) -> Bid:
        return self.bids.get((job, kind, operator), Bid())

    def run(self, job: int) -> Run:
        return self.runs.get(job, Run())

    def seat(self, job: int, operator: int) -> Seat:
        return self.seats.get((job, operator), Seat())

    def move(self, token: str, source: str, target: str, amount: int, *, by: str) -> None:
        """An ERC-20 transfer made by contract `by`; allowances are taken as unlimited."""
        balance = self.balances.get((token, source), 0)
        require(not self.false_tokens.get(token, False), f"{by}: transfer failed")
        require(balance >= amount, "erc20: transfer amount exceeds balance")
        self.balances[token, source] = balance - amount
        self.balances[token, target] = self.balances.get((token, target), 0) + amount
