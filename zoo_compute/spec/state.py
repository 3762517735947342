"""The whole state of the protocol as plain values: what the contracts store, and the ghosts the invariants need.

Records are frozen; `World` holds dictionaries that only a fork is ever written to (`world.apply`).
Amounts are smallest units of their token, times Unix seconds. Claims keep the tuple that the contract hashes.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields
from enum import IntEnum, IntFlag
from functools import cache
from typing import cast

from zoo_compute.spec import merkle
from zoo_compute.spec.auditing import Budget, Draw, Funds, Statement
from zoo_compute.spec.custodians import Committee, Note, Offer, Progress, Record, Request, Role
from zoo_compute.spec.disputed_claims import Court, Explorations
from zoo_compute.spec.frames import Frame, Position, height_of
from zoo_compute.spec.params import AGGREGATOR_SEAT, DEVNET, Preset, Terms, custodians_of
from zoo_compute.spec.pricing import LosingRun
from zoo_compute.spec.receipts import Admitted, ServingSeat
from zoo_compute.spec.revert import Refused, require
from zoo_compute.spec.trials import Entry, Recall, Trial, Workload
from zoo_compute.spec.watching import Demand, Holding, Spent

ZERO_ADDRESS: str = "0x" + 40 * "0"
EMPTY_BYTES32: bytes = bytes(32)


class JobState(IntEnum):
    """docs/protocol/task-registry.md."""

    NONE = 0
    OPEN = 1
    AWARDED = 2
    RUNNING = 3
    ENDED = 4
    CANCELLED = 5


class Phase(IntEnum):
    """Of a lot; docs/protocol/auction.md."""

    NONE = 0
    OPEN = 1
    CLEARING = 2
    CLEARED = 3
    AWARDED = 4


@dataclass(frozen=True, slots=True)
class Message:
    """The caller, the protocol's time, the `value` in native coin, and the block's number, base fee and time.

    Whatever slashes or becomes final reads `now`; `block_time` is for epochs, pauses, signed deadlines and the speed of machines.
    """

    sender: str
    now: int
    value: int = 0
    base_fee: int = 0
    block: int = 0
    block_time: int = 0


def _nothing_holds(evidence: int, frame: Frame, position: Position, data: bytes) -> None:
    raise Refused("evidence: unknown evidence")


def _one_part(descriptor: bytes, element: int) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class Config:
    """The constants of a deployment. Names stand for addresses by default."""

    preset: Preset = DEVNET
    zen: str = "zen"
    deployer: str = "deployer"
    guardian: str = "guardian's contract"
    first_guardian: str = "guardian"
    governor: str = "deployer"  # of TaskRegistry: the timelock; on a devnet the deployer
    treasury_governor: str = "timelock"  # also of Guardian, Rewards and Credits
    needs_admission: bool = False  # every job asks for operators whose machine passed a trial; in production they do
    registry: str = "registry"
    tasks: str = "tasks"
    auction: str = "auction"
    rewards: str = "rewards"
    treasury: str = "treasury"
    credits: str = "credits"
    first_poster: str = "deployer"  # of rates
    referee: str = "referee"
    availability: str = "availability"
    audit_pool: str = "audit pool"
    audits: str = "audits"
    custody: str = "custody"
    admissions: str = "admissions"
    serving: str = "serving"
    channels: str = "channels"
    # The functions of Evidence and OpExecutor that Referee and Descent call.
    judge: Callable[[int, Frame, Position, bytes], None] = _nothing_holds
    part_count: Callable[[bytes, int], int] = _one_part


@dataclass(frozen=True, slots=True)
class Operator:
    owner: str = ZERO_ADDRESS
    stake: int = 0
    hot: str = ZERO_ADDRESS
    gpu_class: int = 0
    vram_gb: int = 0
    reputation: int = (
        0  # thousandths of a point, at `rated_at`; `node_registry.reputation_parts` says what is left of it
    )
    rated_at: int = 0  # Unix seconds, of its last change
    locks: int = 0  # lots in which it has collateral locked, over all tokens
    exit_at: int = 0  # 0: no exit requested
    is_admitted: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """The last pause of an intake."""

    end: int = 0
    is_governed: bool = False  # the governor set the end
    free_from: int = 0  # when the guardian may pause again


@dataclass(frozen=True, slots=True)
class Promise:
    tier: int = 0
    hours: int = 0  # bitmap of an epoch's periods


@dataclass(frozen=True, slots=True)
class Declaration:
    """An operator's last two declarations: the newest applies from epoch `since` on, the one before from `last_since` until then."""

    tier: int = 0
    hours: int = 0
    since: int = 0  # 0: none
    last_tier: int = 0
    last_hours: int = 0
    last_since: int = 0
    barred_from: int = 0  # no tier declared for an epoch before this one applies from it on; 0: no breach took a tier
    region: int = 0  # four letters as 32 bits; applies at once, and nobody checks it


@dataclass(frozen=True, slots=True)
class Consent:
    """The message that a key signs so that a sponsor can register it. Contract: its EIP-712 signature by the key `signer`."""

    signer: str
    owner: str
    hot: str
    gpu_class: int
    vram_gb: int
    stake: int
    endpoint: str
    nonce: int
    deadline: int


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
    escrow: int = 0  # what remains
    work_root: bytes = EMPTY_BYTES32
    state_root: bytes = EMPTY_BYTES32
    data_root: bytes = EMPTY_BYTES32
    manifest: bytes = EMPTY_BYTES32


@dataclass(frozen=True, slots=True)
class Lot:
    phase: Phase = Phase.NONE
    token: str = ZERO_ADDRESS
    units: int = 0
    reserve: int = 0
    max_reserve: int = 0
    lock: int = 0  # per unit of a bid, at this attempt's reserve
    once: int = 0  # what a bid locks besides its units
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
    """The fields that a seal hashes. Contract: keccak256(abi_encode(...)), upper 160 bits."""

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
    reserve: int = 0  # of its attempt: its lock follows from it
    capacity: int = 0
    revealed: bool = False
    price: int = 0
    discount_bps: int = 0
    won: int = 0
    first_slot: int = 0
    seal: Seal | None = None
    cleared_pass: int = 0  # not in the contract's view: the pass that cleared it last, 0 for none
    priced: bool = False  # not in the contract's view


class Said(IntFlag):
    """By custodians, of the open turn."""

    NOTHING = 0
    SIGNED = 1  # a majority holds inputs, and nobody commits any more
    SHORT = 2  # too few sign for a checkpoint
    SPARED = 4  # too few signed for one before, and the aggregator had its time anew or was replaced

    @property
    def is_short_again(self) -> bool:
        """Whether two aggregators in turn lacked signatures for their checkpoints."""
        return Said.SHORT | Said.SPARED in self


@dataclass(frozen=True, slots=True)
class Run:
    state: JobState = JobState.NONE
    round: int = 0  # also: rounds done so far
    turn: int = 0
    rounds: int = 0
    slots: int = 0
    quorum: int = 0
    aggregators: int = 0
    depth: int = 0
    policy: int = 0
    opened_at: int = 0  # 0: the turn waits
    window_s: int = 0
    slot_s: int = 0
    aggregate_s: int = 0
    aggregator_due: int = 0
    token: str = ZERO_ADDRESS
    flops: int = 0
    seats: int = 0  # of slots, awarded or split off
    missing: int = 0  # bitmap of seats
    committed: int = 0  # slots
    holds: int = 0
    held_s: int = 0  # seconds by which ended holds have moved the open turn
    start_root: bytes = EMPTY_BYTES32
    said: Said = Said.NOTHING
    posted: int = 0  # bitmap of aggregators

    @property
    def has_custodians(self) -> bool:
        return custodians_of(self.policy) > 0

    @property
    def is_signed(self) -> bool:
        """Whether custodians hold inputs of the open turn, and closed them."""
        return Said.SIGNED in self.said

    @property
    def lacks_custodians(self) -> bool:
        """Whether it is not the aggregator that is late: no majority signed for inputs, or two of them lacked signatures in turn."""
        return self.has_custodians and (not self.is_signed or self.said.is_short_again)

    @property
    def is_open(self) -> bool:
        return self.state == JobState.RUNNING and self.opened_at != 0

    @property
    def inputs_close(self) -> int:
        return self.opened_at + 2 * self.slot_s


@dataclass(frozen=True, slots=True)
class Seat:
    operator: int = 0  # 0 when vacant
    first: int = 0
    count: int = 0
    price: int = 0  # per slot-round
    left_turn: int = 0  # in which it fell vacant
    left_at: int = 0  # the second in which it did
    estimate_s: int = 0
    since: int = 0


@dataclass(frozen=True, slots=True)
class Stake:
    """What an operator has at stake in a job in one role: as a worker, or as an aggregator."""

    locked: int = 0
    drawn: int = 0  # what convictions took of its restitution
    left_turn: int = 0  # the first turn in which it surely has no claim, once it has no seat
    slots: int = 0  # of the seats it has; the aggregator's has none
    held: int = 0  # seats
    is_dearer: bool = False  # whether it took a seat over at a higher price than before
    has_lock: bool = False  # whether there is a lock; not in the contract's view


@dataclass(frozen=True, slots=True)
class SetAside:
    """Of a tenth of the lock behind a seat that somebody left: how much of what is set aside whoever takes the seat may need."""

    operator: int = 0  # that left
    count: int = 0  # slots that nobody took over yet
    amount: int = 0


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """What became of an operator's claims in a job."""

    void_before: int = 0  # the first turn after its last conviction
    parked: int = 0  # parked claims that are pending


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim. The contract stores only the hash of these fields."""

    turn: int
    round: int
    seat: int
    operator: int
    scope: int  # for slots: first << 16 | count; for an aggregation: the present seats
    price: int
    start_root: bytes
    root: bytes

    @property
    def is_aggregation(self) -> bool:
        return self.seat >= AGGREGATOR_SEAT

    @property
    def count(self) -> int:
        """How many slots it covers; 0 for an aggregation."""
        return 0 if self.is_aggregation else self.scope & 0xFFFF

    @property
    def slots(self) -> range:
        """The slots it covers; none for an aggregation."""
        first = self.scope >> 16
        return range(first, first + self.count)

    def has_result(self, slot: int, leaf: bytes, path: tuple[bytes, ...]) -> bool:
        """Whether a slot's result has this leaf. By a path of another height a crafted root would have two."""
        is_leaf = merkle.climb(leaf, slot - (self.scope >> 16), path) == self.root
        return len(path) == height_of(self.count) and is_leaf


class ClaimStatus(IntEnum):
    """docs/protocol/settlement.md."""

    PENDING = 1
    PAID = 2
    CONVICTED = 3
    VOID = 4
    PARKED = 5  # in the ring alone: `World.parked` has its status
    ABSENT = 6  # left out of its turn: too few custodians hold it


@dataclass(frozen=True, slots=True)
class Posted:
    """A stored claim. Contract: hash | whether it is disputed | status."""

    claim: Claim
    is_disputed: bool = False
    status: ClaimStatus = ClaimStatus.PENDING


@dataclass(frozen=True, slots=True)
class ClosedTurn:
    """A closed turn and its pending claims. The contract stores the last `depth` of them."""

    closed_at: int = 0
    pending: int = 0
    is_rolled_back: bool = False
    start_root: bytes = EMPTY_BYTES32  # its start state


@dataclass(frozen=True, slots=True)
class Epoch:
    weight: int = 0
    fees: int = 0
    budget: int = 0
    paid: int = 0


@dataclass(frozen=True, slots=True)
class MintEpoch:
    """Of Credits: what the accepted work of an epoch used up, its mint, and what of that was claimed."""

    accepted: int = 0
    budget: int = 0
    paid: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    weight: int = 0
    fees: int = 0


@dataclass(frozen=True, slots=True)
class JobFees:
    fees: int = 0
    verification: int = 0  # of them called by verification
    data: int = 0  # of them called by data


@dataclass(frozen=True, slots=True)
class CalledFees:
    """Of a flow, job and epoch: what was called, and the weights that divide it."""

    called: int = 0
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Earned:
    extra: int = 0  # uptime and bandwidth that were paid
    paid: int = 0


@dataclass(frozen=True, slots=True)
class Traffic:
    total: int = 0  # bytes by receipts
    counted: int = 0


@dataclass(frozen=True, slots=True)
class Signed:
    total: int = 0
    violated: bool = False


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt that a client signs. Contract: an EIP-712 signature of these by the key `signer`."""

    signer: str
    server: int
    client: int
    epoch: int
    total: int


@dataclass(frozen=True, slots=True)
class Dataset:
    contributor: str = ZERO_ADDRESS
    root: bytes = EMPTY_BYTES32
    size: int = 0
    cid: bytes = EMPTY_BYTES32
    name: bytes = EMPTY_BYTES32


@dataclass(frozen=True, slots=True)
class Citation:
    cited: tuple[int, ...] = ()
    scored: bool = False


@dataclass(frozen=True, slots=True)
class Channel:
    """A client's deposit for one operator."""

    client: str = ZERO_ADDRESS
    operator: int = 0
    token: str = ZERO_ADDRESS
    signer: str = ZERO_ADDRESS  # of its vouchers
    deposit: int = 0  # all that was paid in
    paid: int = 0  # of it, to the operator, the fee included
    ends_at: int = 0  # the protocol's time when the client may take back the rest; 0: no notice


@dataclass(frozen=True, slots=True)
class Voucher:
    """All that a channel owes so far. Contract: an EIP-712 signature of number and total by the key `signer`."""

    signer: str
    channel: int
    total: int


@dataclass(frozen=True, slots=True)
class JobLedger:
    """Ghost of a job's money: `escrowed + restored == paid + fees + refunded + jobs[job].escrow`."""

    escrowed: int = 0
    restored: int = 0
    paid: int = 0
    fees: int = 0
    refunded: int = 0


@dataclass(frozen=True, slots=True)
class SlashLedger:
    """Ghost of a token's slashes, stake included: `slashed == paid_out + burned + pot`."""

    slashed: int = 0
    paid_out: int = 0  # sent to TaskRegistry


# What is read where nothing is kept.
NO_OPERATOR = Operator()
NO_COLLATERAL = Collateral()
NO_JOB = Job()
NO_LOT = Lot()
NO_BID = Bid()
NO_RUN = Run()
NO_SEAT = Seat()
NO_STAKE = Stake()
NO_OPERATOR_RECORD = OperatorRecord()
NO_CLOSED_TURN = ClosedTurn()
NO_BUDGET = Budget()
NO_FUNDS = Funds()
NO_DRAW = Draw()
NO_EPOCH = Epoch()
NO_SHARE = Share()
NO_JOB_FEES = JobFees()
NO_CHANNEL = Channel()


@dataclass(slots=True)
class World:
    """Every contract's state. Absent keys mean the empty record, as in a contract's mapping."""

    config: Config = field(default_factory=Config)
    balances: dict[tuple[str, str], int] = field(default_factory=dict)  # (token, account)
    false_tokens: dict[str, bool] = field(default_factory=dict)  # answer `false` to every transfer
    # Guardian
    pauses: dict[str, Pause] = field(default_factory=dict)  # by the intake's address
    appointed: dict[str, str] = field(default_factory=dict)  # by contract: the guardian, once it was replaced
    # NodeRegistry
    operators: dict[int, Operator] = field(default_factory=dict)
    collateral: dict[tuple[int, str], Collateral] = field(default_factory=dict)  # (operator, token)
    declarations: dict[int, Declaration] = field(default_factory=dict)  # by operator
    beats: dict[tuple[int, int], int] = field(default_factory=dict)  # (operator, epoch): bitmap of periods
    total_beats: dict[int, int] = field(default_factory=dict)  # by epoch
    judged: dict[tuple[int, int], bool] = field(default_factory=dict)  # (operator, epoch): found in breach
    nonces: dict[str, int] = field(default_factory=dict)  # by owner: consents used
    # by operator, its owner and an account: may it answer asks in disputes beside the hot key?
    answer_keys: dict[tuple[int, str, str], bool] = field(default_factory=dict)
    offered_owners: dict[int, str] = field(default_factory=dict)  # by operator
    last_beat: int = 0  # block time; the deployment is one
    stopped_s: int = 0  # seconds for which the protocol's time stood still, up to the last beat
    stopped_epochs: dict[int, bool] = field(
        default_factory=dict
    )  # epochs that a halt reached into: nobody is judged for them
    pots: dict[str, int] = field(default_factory=dict)
    burned: dict[str, int] = field(default_factory=dict)
    # TaskRegistry
    allowed: dict[str, bool] = field(default_factory=dict)
    window_values: dict[str, int] = field(default_factory=dict)  # by token
    jobs: dict[int, Job] = field(default_factory=dict)
    terms: dict[int, Terms] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)  # by job: fixed when it was posted
    owed: dict[tuple[str, str], int] = field(default_factory=dict)  # (token, account)
    deposits: dict[int, int] = field(default_factory=dict)  # by job; of a cancelled one, a bid's part
    posted_coin: int = 0  # of the chain's, that TaskRegistry holds
    # Auction
    lots: dict[tuple[int, int], Lot] = field(default_factory=dict)  # (job, kind)
    bids: dict[tuple[int, int, int], Bid] = field(default_factory=dict)  # (job, kind, operator)
    # Settlement
    runs: dict[int, Run] = field(default_factory=dict)
    seats: dict[tuple[int, int], Seat] = field(default_factory=dict)  # (job, seat)
    records: dict[tuple[int, int], OperatorRecord] = field(default_factory=dict)  # (job, operator)
    claims: dict[tuple[int, int, int], Posted] = field(default_factory=dict)  # (job, seat, turn mod (depth + 1))
    share_roots: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (job, aggregator): what it posted last
    closed_turns: dict[tuple[int, int], ClosedTurn] = field(default_factory=dict)  # (job, turn)
    parked: dict[tuple[int, Claim], ClaimStatus] = field(default_factory=dict)  # (job, claim)
    # Locks
    stakes: dict[tuple[int, int, bool], Stake] = field(default_factory=dict)  # (job, operator, whether it aggregates)
    job_pots: dict[int, int] = field(default_factory=dict)  # by job: what timeouts left, in the registry's pot
    set_aside: dict[tuple[int, int], SetAside] = field(default_factory=dict)  # (job, seat)
    kept: dict[tuple[int, int], int] = field(default_factory=dict)  # (job, operator): set aside, in the registry's pot
    finder_shares: dict[tuple[int, Claim], int] = field(default_factory=dict)  # (job, claim); in the registry's pot
    taken_of_lock: dict[tuple[int, Claim], int] = field(default_factory=dict)  # (job, convicted claim)
    # Admissions, of which more is below
    trial_shares: dict[Claim, int] = field(default_factory=dict)  # by a judged trial; in the registry's pot
    # Rewards
    pool: int = 0
    epochs: dict[int, Epoch] = field(default_factory=dict)
    shares: dict[tuple[int, int, int], Share] = field(default_factory=dict)  # (operator, epoch, job)
    earned: dict[tuple[int, int], Earned] = field(default_factory=dict)  # (operator, epoch)
    job_fees: dict[int, JobFees] = field(default_factory=dict)
    called: dict[tuple[int, int], int] = field(default_factory=dict)  # (flow, epoch)
    reward_calls: dict[tuple[int, int, int], CalledFees] = field(default_factory=dict)  # (flow, job, epoch)
    works: dict[tuple[int, int | str, int, int], int] = field(default_factory=dict)  # (flow, who, job, epoch)
    total_bytes: dict[int, int] = field(default_factory=dict)  # by epoch
    served: dict[tuple[int, int], Traffic] = field(default_factory=dict)  # (server, epoch)
    pairs: dict[tuple[int, int, int], Traffic] = field(default_factory=dict)  # (server, client, epoch)
    signed: dict[tuple[int, int], Signed] = field(default_factory=dict)  # (client, epoch)
    # Datasets
    datasets: dict[int, Dataset] = field(default_factory=dict)
    dataset_names: dict[bytes, int] = field(default_factory=dict)
    citations: dict[int, Citation] = field(default_factory=dict)  # by job
    # Channels
    channels: dict[int, Channel] = field(default_factory=dict)  # those that are open
    channel_count: int = 0
    channels_owed: dict[tuple[str, str], int] = field(default_factory=dict)  # (token, account)
    # Availability
    demands: dict[tuple[int, Claim, int], Demand] = field(default_factory=dict)  # (job, claim, lane)
    signer_demands: dict[tuple[int, int, int], int] = field(default_factory=dict)  # open ones: (job, lane, signer)
    holdings: dict[int, Holding] = field(default_factory=dict)  # by job
    spent: dict[tuple[int, int], Spent] = field(default_factory=dict)  # (job, seat)
    coin_owed: dict[str, int] = field(default_factory=dict)  # by account
    coin: int = 0  # of the chain's, that it holds
    # Audits
    audit_budgets: dict[int, Budget] = field(default_factory=dict)  # by job
    audit_funds: dict[tuple[int, str], Funds] = field(default_factory=dict)  # (operator, token)
    # by place: who took it and when, oldest first; operator 0 where it is no place any more
    places: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    place_count: int = 0
    place_counts: dict[int, int] = field(default_factory=dict)  # by operator
    draws: dict[tuple[int, int], Draw] = field(default_factory=dict)  # (job, turn)
    statements: dict[tuple[int, int, int, int], Statement] = field(default_factory=dict)  # (job, turn, operator, role)
    audit_owed: dict[tuple[str, str], int] = field(default_factory=dict)  # (token, account)
    audits_burned: dict[str, int] = field(default_factory=dict)  # by token
    # Custody
    custody_requests: dict[int, Request] = field(default_factory=dict)  # by job
    custody: dict[int, Progress] = field(default_factory=dict)  # by job
    custody_escrows: dict[int, int] = field(default_factory=dict)  # by job
    custody_offers: dict[int, tuple[Offer, ...]] = field(default_factory=dict)  # by job
    custody_roles: dict[tuple[int, int], Role] = field(default_factory=dict)  # (job, operator)
    committees: dict[tuple[int, int], Committee] = field(default_factory=dict)  # (job, version)
    custody_records: dict[tuple[int, int], Record] = field(default_factory=dict)  # (job, turn mod (depth + 1))
    # (job, turn mod (depth + 1), seat): turn, seat, root, cid
    custody_checkpoints: dict[tuple[int, int, int], tuple[int, int, bytes, bytes]] = field(default_factory=dict)
    stake_notes: dict[int, Note] = field(default_factory=dict)  # by operator
    custody_funds: dict[tuple[str, int], int] = field(default_factory=dict)  # (token, operator)
    custody_burned: dict[str, int] = field(default_factory=dict)  # by token
    # Referee; whom it calls is known in a call alone (`court.disputes_at`)
    disputes: Explorations = field(default_factory=lambda: Explorations(cast(Court, None), DEVNET.clocks))
    # Admissions
    workloads: dict[int, Workload] = field(default_factory=dict)  # by VRAM in GB
    entries: dict[int, Entry] = field(default_factory=dict)  # by operator
    trials: dict[int, Trial] = field(default_factory=dict)  # by operator
    scores: dict[int, int] = field(default_factory=dict)  # by operator
    recalls: dict[int, Recall] = field(default_factory=dict)  # by operator
    recall_blocks: dict[int, int] = field(default_factory=dict)  # by epoch: the draw's block
    # Serving
    serving_seats: dict[int, ServingSeat] = field(default_factory=dict)  # by number, from 1 on
    receipts: dict[Claim, Admitted] = field(default_factory=dict)  # that were admitted, by their claims
    receipt_shares: dict[Claim, int] = field(
        default_factory=dict
    )  # of the lock that a judged receipt's conviction took
    serving_burned: int = 0
    # The chain
    block_hashes: dict[int, bytes] = field(default_factory=dict)  # that it still knows
    refuses_coin: dict[str, bool] = field(default_factory=dict)  # by account
    # Treasury
    buckets: dict[tuple[str, int], int] = field(default_factory=dict)  # (token, bucket)
    # Credits
    rate_posters: dict[str, str] = field(default_factory=dict)  # by contract: the poster, once it was replaced
    rate: int = 0  # smallest units of a dollar for a ZEN; 0 before the first
    rate_posted_at: int = 0
    zen_burned: int = 0
    pledges: dict[str, int] = field(default_factory=dict)  # by owner
    credits_earned: dict[str, int] = field(default_factory=dict)  # by account: owed to it for accepted work
    mint_pool: int = 0
    mint_epochs: dict[int, MintEpoch] = field(default_factory=dict)
    mint_shares: dict[tuple[str, int], int] = field(default_factory=dict)  # (account, epoch)
    # Ghosts
    credits_used: int = 0  # by accepted work
    job_ledgers: dict[int, JobLedger] = field(default_factory=dict)
    slash_ledgers: dict[str, SlashLedger] = field(default_factory=dict)
    donations: dict[tuple[str, str], int] = field(default_factory=dict)  # (token, account): plain transfers to it

    def fork(self) -> "World":
        """A copy that does not share writes with the original. Records are frozen, so shallow copies of dictionaries suffice."""
        new = copy(self)
        for name in _fields_of_world():
            value = getattr(self, name)
            if isinstance(value, dict):
                setattr(new, name, dict(value))
        new.disputes = self.disputes.fork()
        return new

    def operator(self, operator: int) -> Operator:
        return self.operators.get(operator, NO_OPERATOR)

    def deposit_of(self, operator: int, token: str) -> Collateral:
        return self.collateral.get((operator, token), NO_COLLATERAL)

    def job(self, job: int) -> Job:
        return self.jobs.get(job, NO_JOB)

    def lot(self, job: int, kind: int) -> Lot:
        return self.lots.get((job, kind), NO_LOT)

    def bid(self, job: int, kind: int, operator: int) -> Bid:
        return self.bids.get((job, kind, operator), NO_BID)

    def run(self, job: int) -> Run:
        return self.runs.get(job, NO_RUN)

    def seat(self, job: int, seat: int) -> Seat:
        return self.seats.get((job, seat), NO_SEAT)

    def stake_of(self, job: int, operator: int, is_aggregation: bool) -> Stake:
        return self.stakes.get((job, operator, is_aggregation), NO_STAKE)

    def record_of(self, job: int, operator: int) -> OperatorRecord:
        return self.records.get((job, operator), NO_OPERATOR_RECORD)

    def closed_turn(self, job: int, turn: int) -> ClosedTurn:
        return self.closed_turns.get((job, turn), NO_CLOSED_TURN)

    def budget_of(self, job: int) -> Budget:
        return self.audit_budgets.get(job, NO_BUDGET)

    def audit_funds_of(self, operator: int, token: str) -> Funds:
        return self.audit_funds.get((operator, token), NO_FUNDS)

    def draw_of(self, job: int, turn: int) -> Draw:
        return self.draws.get((job, turn), NO_DRAW)

    def epoch(self, epoch: int) -> Epoch:
        return self.epochs.get(epoch, NO_EPOCH)

    def share(self, operator: int, epoch: int, job: int) -> Share:
        return self.shares.get((operator, epoch, job), NO_SHARE)

    def fees_of(self, job: int) -> JobFees:
        return self.job_fees.get(job, NO_JOB_FEES)

    def move(self, token: str, source: str, target: str, amount: int, *, by: str) -> None:
        """An ERC-20 transfer by contract `by`; allowances are unlimited."""
        if token == self.config.credits:
            amount -= self._used_up(source, target, amount)
        balance = self.balances.get((token, source), 0)
        require(not self.false_tokens.get(token, False), f"{by}: transfer failed")
        require(balance >= amount, "erc20: transfer amount exceeds balance")
        self.balances[token, source] = balance - amount
        self.balances[token, target] = self.balances.get((token, target), 0) + amount

    def _used_up(self, source: str, target: str, amount: int) -> int:
        """Credits that end on their way: pay for accepted work, and collateral that becomes the ZEN that was pledged for it."""
        credits, used = self.config.credits, 0
        if source == self.config.tasks:
            used = self.credits_earned.get(target, 0)
            if used:
                self.credits_earned[target] = 0
                self.credits_used += used
        elif source == self.config.registry:
            used = min(amount, self.pledges.get(target, 0))
            if used:
                self.pledges[target] -= used
                self.move(self.config.zen, credits, target, used, by="credits")
        if used:
            self.balances[credits, source] -= used
        return used


@cache
def _fields_of_world() -> tuple[str, ...]:
    return tuple(item.name for item in fields(World))
