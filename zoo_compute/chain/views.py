"""Views of one job and of one operator at one block, for keepers and clients. Frozen; `snapshot.py` builds them.

Fields have the names of docs/protocol/. Values are integers, 32 `bytes`, and checksummed address strings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.spec.params import (
    AGGREGATION_STEPS,
    KIND_AGGREGATOR,
    KIND_SLOTS,
    POLICY_CARRIES,
    POLICY_DELAYED,
    POLICY_ROLL_BACK,
    Terms,
    custodians_of,
    lock_of,
    lock_once,
    restitution,
    vacant_price,
)
from zoo_compute.spec.params import AGGREGATOR_SEAT as AGGREGATOR_SEAT
from zoo_compute.spec.requirements import Capability
from zoo_compute.spec.state import JobState as JobState
from zoo_compute.spec.state import Phase, Said

if TYPE_CHECKING:
    from zoo_compute.chain.auction_attempts import Attempt
    from zoo_compute.chain.custody import CustodyView
    from zoo_compute.chain.demands import Demand

LotPhase = Phase  # of `Auction.lots(job, kind).phase`; bidding or revealing follows from the lot's ends and `now`


class Kind(IntEnum):
    """What a lot sells."""

    SLOTS = KIND_SLOTS
    AGGREGATOR = KIND_AGGREGATOR


@dataclass(frozen=True)
class Lot:
    """`Auction.lots(job, kind)`."""

    phase: int
    token: str
    units: int
    reserve: int
    max_reserve: int
    lock: int  # per unit of a bid in this attempt
    once: int  # per bid besides
    attempt: int  # from 1
    bid_end: int
    reveal_end: int
    revealed: int  # bids revealed in this attempt
    units_capped: int
    units_uncapped: int
    cleared: int
    sold: int
    winners: int
    priced: int
    losing_units: int
    cursor: int = 0  # score << 64 | operator of the bid last cleared

    def bidding(self, now: int) -> bool:
        """Sealed bids are accepted (the job must be OPEN too)."""
        return self.phase == LotPhase.OPEN and now < self.bid_end

    def revealing(self, now: int) -> bool:
        return self.phase == LotPhase.OPEN and self.bid_end <= now < self.reveal_end

    @property
    def enough_bids(self) -> bool:
        return self.units_uncapped >= self.units


@dataclass(frozen=True)
class Bid:
    """`Auction.bids(job, kind, operator)`."""

    attempt: int
    reserve: int  # of its attempt: its lock follows from it
    capacity: int
    revealed: bool
    price: int
    discount_bps: int
    won: int
    first_slot: int
    seal: bytes  # its upper 160 bits, then zeros; all zeros once revealed


@dataclass(frozen=True)
class Run:
    """`Settlement.runs(job)`; all zero before the job is awarded."""

    state: int
    round: int
    turn: int  # rounds opened so far, including repeated ones
    rounds: int
    slots: int
    quorum: int
    depth: int
    policy: int
    opened_at: int  # 0 while the newest turn waits for earlier claims, and after the last turn
    window_s: int
    slot_s: int
    aggregate_s: int
    aggregators: int  # seats that combine the updates, each of a share of the tensors
    aggregator_due: int
    token: str
    flops: int
    seats: int  # awarded or split off so far
    missing: int  # bitmap of seats: not yet committed this turn; in AWARDED, not yet ready
    committed: int  # slots of the open turn with a claim
    holds: int  # demands for data that stop the turn's clocks
    held_s: int  # seconds by which ended holds have moved the open turn
    start_root: bytes  # the state the newest turn starts from
    said: int = 0  # of the open turn, by custodians (`Said`)
    posted: int = 0  # of the open turn: bitmap of aggregators that posted

    @property
    def is_waiting(self) -> bool:
        """Whether the newest turn waits: it opens when the claims `depth` turns before it are final."""
        return self.opened_at == 0

    @property
    def inputs_close(self) -> int:
        return self.opened_at + 2 * self.slot_s

    def inputs_closed(self, now: int) -> bool:
        """Whether the open turn accepts no more commits."""
        return self.holds == 0 and now >= self.inputs_close


@dataclass(frozen=True)
class Seat:
    """`Settlement.seats(job, seat)`: a run of consecutive slots, or the aggregator's seat."""

    operator: int  # 0 when vacant
    first: int
    count: int
    price: int  # per slot-round; of a vacant seat what it was: `JobView.price_now` says what it is now
    left_turn: int  # of a vacant seat: the turn in which it fell vacant
    left_at: int  # and the second
    estimate_s: int
    since: int

    @property
    def slots(self) -> range:
        return range(self.first, self.first + self.count)

    def deadline(self, run: Run) -> int:
        """Last second of the open turn in which the seat cannot be timed out."""
        return max(run.opened_at, self.since + run.held_s) + min(2 * self.estimate_s, run.slot_s)


@dataclass(frozen=True)
class JobStake:
    """`Locks.stakes(job, operator, role)`, both roles together."""

    locked: int
    lots: int  # roles in which it has a lock
    held: int  # seats
    left_turn: int  # first turn in which it surely has no claim, once it has no seat


NO_DEADLINE: int = UINT256_MAX  # of a claim whose turn is open


class ClaimState(IntEnum):
    """The state of a claim."""

    PENDING = 1
    PAID = 2
    CONVICTED = 3
    VOID = 4  # unpaid and unslashed
    ABSENT = 6  # the same, of a claim that too few custodians hold: left out of its turn


@dataclass(frozen=True)
class Claim:
    """A claim on chain, and its state. The contract hashes the first eight fields."""

    turn: int
    round: int
    seat: int
    operator: int
    scope: int  # of slots: first << 16 | count; of an aggregation: the presence mask, a bitmap of seats
    price: int  # for all of its slots
    start_root: bytes
    root: bytes
    deadline: int  # last second of its window, which begins when its turn closes; NO_DEADLINE until then
    state: ClaimState = ClaimState.PENDING
    disputed: bool = False  # somebody asked about it, and that is not resolved
    # While it is disputed: turns, payments and the job's end do not wait for it, its operator's lock does.
    parked: bool = False
    block: int = 0
    made_at: int = 0  # time of its block; known of a pending claim of the newest turns

    @property
    def final(self) -> bool:
        """Whether the claim's state can no longer change."""
        return self.state != ClaimState.PENDING

    @property
    def fields(self) -> tuple[int | bytes, ...]:
        """The struct that `Settlement.finalise` takes."""
        return (
            self.turn, self.round, self.seat, self.operator, self.scope, self.price, self.start_root, self.root,
        )  # fmt: skip


@dataclass(frozen=True)
class Commit(Claim):
    """A claim on the results of a seat in a turn (`ResultsCommitted`)."""

    bundle: bytes = bytes(32)  # SHA-256 digest of the bundle's CID

    @property
    def first(self) -> int:
        return self.scope >> 16

    @property
    def count(self) -> int:
        return self.scope & 0xFFFF

    @property
    def slots(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class Checkpoint(Claim):
    """A claim on an aggregation (`CheckpointPosted`), which closed `turn` and made checkpoint `round + 1`."""

    cid: bytes = bytes(32)  # SHA-256 digest of the checkpoint pointer's CID

    @property
    def mask(self) -> int:
        """The seats that were present, a bitmap."""
        return self.scope


def checkpoint_root(made: Sequence[Checkpoint]) -> bytes:
    """The root of what all aggregators posted, in the order of their seats."""
    return root_of_shares([each.root for each in made])


@dataclass(frozen=True)
class Rollback:
    """A job was rolled back: `turn` repeats `round`."""

    turn: int
    round: int
    block: int


@dataclass(frozen=True)
class JobView:
    """One job, every read pinned to `block`; `now` is the protocol's time there (never this machine's clock)."""

    job: int
    block: int
    now: int
    state: JobState
    submitter: str
    token: str
    terms: Terms  # exactly as posted
    escrow: int
    posted_block: int
    run: Run | None  # None before the award
    lots: Mapping[int, Lot]  # by kind
    bids: Mapping[tuple[int, int], Bid]  # by (kind, operator); spent ones are absent
    seats: Mapping[int, Seat]  # by number; from AGGREGATOR_SEAT on they are of aggregators
    stakes: Mapping[int, JobStake]  # by operator
    checkpoint_roots: Mapping[int, bytes]  # by round, after all rollbacks; 0 is the initial state
    # By round from 1: digests of the pointers' CIDs, one an aggregator.
    checkpoint_cids: Mapping[int, tuple[bytes, ...]]
    commits: Sequence[Commit]  # in the order they were made
    checkpoints: Sequence[Checkpoint]
    lost_slots: Mapping[int, int] = field(
        default_factory=dict
    )  # by operator: the slots it timed out of or gave up, a bitmap
    set_aside: Mapping[int, int] = field(
        default_factory=dict
    )  # by operator that left a seat: its own once the job is completed
    rollbacks: Sequence[Rollback] = ()
    demands: Sequence[Demand] = ()  # for claims' data, in the order they were made
    closed: bool = False  # the rest of the escrow is owed to the submitter
    closed_block: int = 0  # in which it was closed or cancelled; 0: it is not
    bidders: frozenset[int] = frozenset()  # operators that ever revealed a bid
    attempts: Sequence[Attempt] = ()  # of the auction: attempt n is the nth
    stopped_s: int = 0  # seconds for which the protocol's time has stood still: block time less `now`
    # Of the open turn of a job with custodians: a majority of them is on record for its inputs; and whether that, or what is known
    # off chain, is not enough for what committed (keepers/services/custody.py).
    inputs_signed: bool = False
    awaits_custodians: bool = False
    custody: CustodyView | None = None  # as a keeper read it

    @property
    def custodians(self) -> int:
        """How many custodians sign for what the job commits; 0: it runs without any."""
        return custodians_of(self.terms.policy)

    def wall(self, second: int) -> int:
        """When a second of the protocol's time is, as clocks on walls have it, if time does not stop before."""
        return second + self.stopped_s

    @property
    def over(self) -> bool:
        return self.state in (JobState.ENDED, JobState.CANCELLED)

    @property
    def settled(self) -> bool:
        """Whether the job is over, every claim is paid or convicted, and the escrow is paid out."""
        return self.state == JobState.CANCELLED or self.closed

    @property
    def completed_rounds(self) -> int:
        """Completed rounds, after all rollbacks."""
        return max(self.checkpoint_roots, default=0)

    @property
    def slot_seats(self) -> Mapping[int, Seat]:
        """The seats of slots, by number."""
        return {number: seat for number, seat in self.seats.items() if number < AGGREGATOR_SEAT}

    @property
    def aggregator_seats(self) -> Mapping[int, Seat]:
        """The seats of aggregators, by number."""
        return {number: seat for number, seat in self.seats.items() if number >= AGGREGATOR_SEAT}

    @property
    def unposted_seats(self) -> Mapping[int, Seat]:
        """The seats of aggregators that have not posted in the open turn, by number."""
        posted = 0 if self.run is None else self.run.posted
        return {n: seat for n, seat in self.aggregator_seats.items() if not posted >> n - AGGREGATOR_SEAT & 1}

    def unposted_seats_of(self, operator: int) -> list[int]:
        """The seats of aggregators in which the operator has not posted in the open turn."""
        return [number for number, seat in self.unposted_seats.items() if seat.operator == operator]

    def aggregates(self, operator: int) -> bool:
        """Whether the operator has a seat of an aggregator."""
        return any(seat.operator == operator for seat in self.aggregator_seats.values())

    def seats_of(self, operator: int) -> Mapping[int, Seat]:
        """The seats of slots an operator holds, by number."""
        return {number: seat for number, seat in self.slot_seats.items() if seat.operator == operator}

    def slot_count_of(self, operator: int) -> int:
        """How many slots an operator holds."""
        return sum(seat.count for seat in self.seats_of(operator).values())

    def price_now(self, number: int) -> int:
        """What whoever takes this vacant seat now is paid: for a slot-round, or for an aggregation."""
        run, seat = self.run, self.seats[number]
        assert run is not None, "there are seats after the award"
        if number >= AGGREGATOR_SEAT:
            is_spared = Said.SPARED in Said(run.said)
            steps = 0 if is_spared else AGGREGATION_STEPS * (self.now - seat.left_at) // run.aggregate_s
            return vacant_price(seat.price, steps, self.lots[Kind.AGGREGATOR].reserve)
        return vacant_price(seat.price, run.turn - seat.left_turn, self.lots[Kind.SLOTS].reserve)

    def takeover_lock(self, number: int, count: int, operator: int) -> int:
        """What an operator locks, at most, for so many slots of a vacant seat."""
        lock = lock_of(count * self.price_now(number), self.terms.audit_bps)
        if number >= AGGREGATOR_SEAT:
            return lock + restitution(self.terms)
        return lock + (0 if self.seats_of(operator) else lock_once(self.terms))

    def bid_lock(self, kind: int, capacity: int) -> int:
        """What a bid for so many units locks in this attempt."""
        return self.lots[kind].lock * capacity + self.lots[kind].once

    def locked_by(self, kind: int, bid: Bid) -> int:
        """What a bid locked, in this attempt or in one before."""
        return lock_of(bid.reserve, self.terms.audit_bps) * bid.capacity + self.lots[kind].once

    @property
    def vacant_seats(self) -> Mapping[int, Seat]:
        """The seats of slots that nobody holds, by number."""
        return self.seats_of(0)

    def inputs_complete(self, now: int) -> bool:
        """Whether the open turn waits for no seat. Once it has a quorum, it does not wait for vacant seats."""
        run = self.run
        assert run is not None, "a turn is open"
        awaited = any(seat.operator and run.missing >> number & 1 for number, seat in self.slot_seats.items())
        return (
            run.missing == 0
            or run.inputs_closed(now)
            or self.inputs_signed
            or (run.committed >= run.quorum and not awaited)
        )

    @property
    def delay(self) -> int:
        """Turns that slots start behind their own (`Terms.policy`)."""
        return int(bool(self.terms.policy & POLICY_DELAYED))

    @property
    def slots_root(self) -> bytes:
        """The state that the newest turn's slots start from. In a delayed job, it is the start of the turn before, unless that was rolled back."""
        assert self.run is not None, "there are turns after the award"
        closed = [c for c in self.checkpoints if c.turn < self.run.turn]
        newest = max(closed, key=lambda c: c.turn, default=None)
        follows = newest is not None and (newest.turn, newest.round) == (self.run.turn - 1, self.run.round - 1)
        return newest.start_root if newest is not None and self.delay and follows else self.run.start_root

    def is_closed(self, turn: int) -> bool:
        """Whether there is a newer turn, even one that waits or never opens. Claims of a closed turn can be finalised."""
        return self.run is not None and turn < self.run.turn

    @property
    def claims(self) -> Sequence[Commit | Checkpoint]:
        """All claims, on results and on aggregations."""
        return [*self.commits, *self.checkpoints]

    @property
    def pending(self) -> Sequence[Commit | Checkpoint]:
        """Claims that are neither paid nor convicted, void nor parked, the oldest first: turns wait for them."""
        return sorted((c for c in self.claims if not c.final and not c.parked), key=lambda c: (c.turn, c.seat))

    @property
    def payable(self) -> Sequence[Commit | Checkpoint]:
        """Pending claims of closed turns, after their window and without disputes; the oldest first."""
        return [c for c in self.pending if self.is_closed(c.turn) and self.now > c.deadline and not c.disputed]

    @property
    def parkable(self) -> Sequence[Commit | Checkpoint]:
        """Disputed claims after their window that `finalise` parks: their conviction would undo nothing, and their lock is no
        aggregator's."""
        if self.run is None or self.run.policy & (POLICY_ROLL_BACK | POLICY_CARRIES):
            return []
        over = (c for c in self.pending if c.disputed and self.is_closed(c.turn) and self.now > c.deadline)
        return [c for c in over if c.seat < AGGREGATOR_SEAT and not self.aggregates(c.operator)]

    @property
    def final_rounds(self) -> int:
        """Completed rounds whose checkpoint is final: no claim up to its turn is pending."""
        oldest = min((c.turn for c in self.pending), default=None)
        line = [self.checkpoint_of(round_) for round_ in range(1, self.completed_rounds + 1)]
        return max((c.round + 1 for c in line if c and (oldest is None or c.turn < oldest)), default=0)

    def checkpoint_of(self, round_: int, start_root: bytes | None = None, turn: int | None = None) -> Checkpoint | None:
        """The aggregation before `turn` that made the checkpoint with this root, from which `round_` starts; None for the initial state.

        Where several made it, the first seat's.
        """
        return next(iter(self.made_checkpoint(round_, start_root, turn)), None)

    def made_checkpoint(
        self, round_: int, start_root: bytes | None = None, turn: int | None = None
    ) -> tuple[Checkpoint, ...]:
        """As `checkpoint_of`: what all aggregators posted of it, in the order of their seats.

        In a delayed job it may be one round earlier. Of several with this root, takes the earliest round, and in it the newest:
        otherwise anyone could post the same root later without publishing its file, and claims could not be defended.
        """
        root = self.checkpoint_roots.get(round_) if start_root is None else start_root
        oldest = round_ - 1 - (0 if start_root is None else self.delay)
        if oldest < 0 and root == self.checkpoint_roots[0]:
            return ()
        made = defaultdict[int, dict[int, Checkpoint]](dict)
        for c in self.checkpoints:
            if oldest <= c.round < round_ and (turn is None or c.turn < turn):
                made[c.turn][c.seat] = c
        whole = [tuple(by_seat[n] for n in sorted(by_seat)) for by_seat in made.values()]
        of_root = [each for each in whole if self._is_whole(each) and checkpoint_root(each) == root]
        return max(of_root, key=lambda each: (-each[0].round, each[0].turn), default=())

    def _is_whole(self, made: Sequence[Checkpoint]) -> bool:
        return len(made) == self.terms.aggregators

    def slot_rounds(self, since: int, round_: int) -> int:
        """Slot-rounds that checkpoint `round_` was trained on since checkpoint `since`. Fixed once the checkpoint is final.

        Counts the slots whose commit is in the mask of the aggregation that made a checkpoint, and is not convicted.
        """
        slots = 0
        for aggregation in (self.checkpoint_of(number) for number in range(since + 1, round_ + 1)):
            assert aggregation is not None, "every round that is done has its aggregation"
            commits = {c.seat: c for c in self.committed(aggregation.turn).values()}
            slots += sum(c.count for c in commits.values() if aggregation.mask >> c.seat & 1)
        return slots

    def committed(self, turn: int) -> Mapping[int, Commit]:
        """The commit that covers each slot of a turn."""
        commits = [c for c in self.commits if c.turn == turn and c.state != ClaimState.CONVICTED]
        return {slot: c for c in commits for slot in c.slots}


@dataclass(frozen=True)
class OperatorView:
    """One operator, every read pinned to `block`; `now` is the protocol's time there."""

    operator: int
    block: int
    now: int
    owner: str
    hot: str
    stake: int
    gpu_class: int
    vram_gb: int
    reputation: int
    locks: int  # jobs in which it has collateral locked
    exit_at: int  # 0: no exit requested
    tier: int  # declared last: 0 none, 1 bronze, 2 silver, 3 gold
    hours: int  # declared last: bitmap of an epoch's periods
    discount_bps: int
    eligible: bool  # its hot key can bid now
    admitted: bool  # its machine passed a trial
    multiplier_percent: int  # current weight of its verified compute
    endpoint: str  # its store's URL, from the newest announcement
    collateral: Mapping[str, tuple[int, int]]  # token -> (balance, locked)
    owed: Mapping[str, int]  # token -> what TaskRegistry.withdraw would send its owner
    hot_coin: int  # wei of the hot key, for gas
    deposits: Mapping[str, int] = field(
        default_factory=dict
    )  # by owner and hot key: wei that Availability.withdraw would send
    coin_owed: Mapping[str, int] = field(
        default_factory=dict
    )  # by owner and hot key: wei that TaskRegistry.withdraw would send, parts of posting deposits
    stopped_s: int = 0  # block time less `now`
    region: int = 0  # declared: `requirement_words.format_region` shows it
    bound_tier: int = 0  # that binds in this epoch and the next: the lower one
    bound_hours: int = 0  # likewise: how many

    @property
    def capability(self) -> Capability:
        """What jobs may ask of it."""
        return Capability(
            gpu_class=self.gpu_class,
            vram_gb=self.vram_gb,
            is_admitted=self.admitted,
            region=self.region,
            tier=self.bound_tier,
            hours=self.bound_hours,
        )

    @property
    def block_time(self) -> int:
        """Epochs and their periods are counted in it."""
        return self.now + self.stopped_s

    def free(self, token: str) -> int:
        balance, locked = self.collateral.get(token, (0, 0))
        return balance - locked
