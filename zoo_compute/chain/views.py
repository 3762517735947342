"""What a keeper or a client looks at: one job, one operator, as of one block. Frozen, built in `snapshot.py`.

Field names are those of docs/protocol.md. Everything is plain: integers, `bytes` of 32, checksummed address strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from zoo_compute.spec.params import AGGREGATOR_SEAT as AGGREGATOR_SEAT
from zoo_compute.spec.params import KIND_AGGREGATOR, KIND_SLOTS, POLICY_DELAYED, STANDARD_CAP_BIDDERS, Terms
from zoo_compute.spec.state import JobState as JobState
from zoo_compute.spec.state import Phase

if TYPE_CHECKING:
    from zoo_compute.chain.auction_attempts import Attempt
    from zoo_compute.chain.demands import Demand

LotPhase = Phase  # of `Auction.lots(job, kind).phase`; whether an open lot is bidding or revealing follows from its ends and `now`


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
    rounds: int
    reserve: int
    max_reserve: int
    lock: int  # per unit
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
        return (self.units_capped if self.revealed >= STANDARD_CAP_BIDDERS else self.units_uncapped) >= self.units


@dataclass(frozen=True)
class Bid:
    """`Auction.bids(job, kind, operator)`."""

    attempt: int
    capacity: int
    standby: bool
    revealed: bool
    price: int
    discount_bps: int
    won: int
    first_slot: int
    taken: int
    seal: bytes  # its upper 160 bits, then zeros; all zeros once revealed


@dataclass(frozen=True)
class Run:
    """`Settlement.runs(job)`; all zero before the job is awarded."""

    state: int
    round: int
    turn: int  # rounds opened so far, those done again included
    rounds: int
    slots: int
    quorum: int
    depth: int
    policy: int
    opened_at: int  # 0 while the newest turn waits for its place, and after the last one
    window_s: int
    slot_s: int
    aggregate_s: int
    aggregator: int  # operator; 0 when vacant
    aggregator_due: int
    token: str
    lock: int  # per slot
    flops: int
    seats: int  # awarded or split off so far
    missing: int  # bitmap of seats: not yet committed this turn; in AWARDED, not yet ready
    committed: int  # slots of the open turn with a claim
    holds: int  # demands for data that stop the turn's clocks
    held_s: int  # for how long holds that are over moved the open turn
    pot: int
    start_root: bytes  # the state the newest turn starts from

    @property
    def is_waiting(self) -> bool:
        """The newest turn opens when the claims in its place, `depth` turns older, are final."""
        return self.opened_at == 0

    @property
    def inputs_close(self) -> int:
        return self.opened_at + 2 * self.slot_s

    def inputs_closed(self, now: int) -> bool:
        """Nothing more can be committed in the open turn."""
        return self.holds == 0 and now >= self.inputs_close


@dataclass(frozen=True)
class Seat:
    """`Settlement.seats(job, seat)`: a run of consecutive slots, or the aggregator's seat."""

    operator: int  # 0 when vacant
    first: int
    count: int
    price: int  # per slot-round, from escrow
    pot_price: int  # per slot-round, from the pot
    estimate_s: int
    since: int
    pot: int  # of a vacancy: what adds to the price for its takers

    @property
    def slots(self) -> range:
        return range(self.first, self.first + self.count)

    def deadline(self, run: Run) -> int:
        """Last second of the open turn in which the seat cannot be timed out."""
        return max(run.opened_at, self.since + run.held_s) + min(2 * self.estimate_s, run.slot_s)


@dataclass(frozen=True)
class JobStake:
    """`Settlement.stakes(job, operator)`."""

    locked: int
    lots: int  # that the registry counts it as locked in, for this job
    held: int  # seats
    left_turn: int  # first turn in which it has surely no claim, once it holds nothing


class ClaimState(IntEnum):
    """What became of a claim."""

    PENDING = 1
    PAID = 2
    CONVICTED = 3


@dataclass(frozen=True)
class Claim:
    """What was committed on chain, and what became of it. The first ten fields are those the contract hashes."""

    turn: int
    round: int
    seat: int
    operator: int
    scope: int  # of slots: first << 16 | count; of an aggregation: the presence mask, a bitmap of seats
    price: int  # from escrow
    pot_price: int  # from the pot
    start_root: bytes
    root: bytes
    deadline: int
    state: ClaimState = ClaimState.PENDING
    disputes: int = 0  # open ones
    block: int = 0

    @property
    def final(self) -> bool:
        """Nothing can become of it any more."""
        return self.state != ClaimState.PENDING

    @property
    def fields(self) -> tuple[int | bytes, ...]:
        """The struct that `Settlement.finalise` takes."""
        return (
            self.turn, self.round, self.seat, self.operator, self.scope, self.price, self.pot_price,
            self.start_root, self.root, self.deadline,
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
    """A claim on an aggregation (`CheckpointPosted`): it closed `turn`, and made checkpoint `round + 1`."""

    cid: bytes = bytes(32)  # SHA-256 digest of the checkpoint pointer's CID

    @property
    def mask(self) -> int:
        """The seats that were present, a bitmap."""
        return self.scope


@dataclass(frozen=True)
class Rollback:
    """A job set back: `turn` does `round` again."""

    turn: int
    round: int
    block: int


@dataclass(frozen=True)
class JobView:
    """One job, every read pinned to `block`; `now` is that block's timestamp (never the wall clock)."""

    job: int
    block: int
    now: int
    state: JobState
    submitter: str
    token: str
    terms: Terms  # as posted, word for word
    escrow: int
    posted_block: int
    run: Run | None  # None before the award
    lots: Mapping[int, Lot]  # by kind
    bids: Mapping[tuple[int, int], Bid]  # by (kind, operator); spent ones are absent
    seats: Mapping[int, Seat]  # by number; AGGREGATOR_SEAT is the aggregator's
    stakes: Mapping[int, JobStake]  # by operator
    checkpoint_roots: Mapping[int, bytes]  # by round, of the line that stands; 0 is the initial state
    checkpoint_cids: Mapping[int, bytes]  # by round from 1: digests of the pointers' CIDs
    commits: Sequence[Commit]  # in the order they were made
    checkpoints: Sequence[Checkpoint]
    lost_slots: Mapping[int, int] = field(
        default_factory=dict
    )  # by operator: the slots it timed out of or gave up, a bitmap
    rollbacks: Sequence[Rollback] = ()
    demands: Sequence[Demand] = ()  # for claims' data, in the order they were made
    closed: bool = False  # what was left of the escrow is owed to the submitter
    bidders: frozenset[int] = frozenset()  # operators that opened a bid, whatever became of it
    attempts: Sequence[Attempt] = ()  # of the auction: attempt n is the nth

    @property
    def over(self) -> bool:
        return self.state in (JobState.ENDED, JobState.CANCELLED)

    @property
    def settled(self) -> bool:
        """Over for good: every claim is paid or convicted, and the escrow is divided."""
        return self.state == JobState.CANCELLED or self.closed

    @property
    def completed_rounds(self) -> int:
        """Rounds done, of the line that stands."""
        return max(self.checkpoint_roots, default=0)

    @property
    def slot_seats(self) -> Mapping[int, Seat]:
        """The seats of slots, by number."""
        return {number: seat for number, seat in self.seats.items() if number != AGGREGATOR_SEAT}

    def seats_of(self, operator: int) -> Mapping[int, Seat]:
        """The seats of slots an operator holds, by number."""
        return {number: seat for number, seat in self.slot_seats.items() if seat.operator == operator}

    def slot_count_of(self, operator: int) -> int:
        """How many slots an operator holds."""
        return sum(seat.count for seat in self.seats_of(operator).values())

    @property
    def vacant_seats(self) -> Mapping[int, Seat]:
        """The seats of slots that nobody holds, by number."""
        return self.seats_of(0)

    def inputs_complete(self, now: int) -> bool:
        """Whether the open turn waits for no seat: with a quorum, not for those that nobody holds."""
        run = self.run
        assert run is not None, "a turn is open"
        awaited = any(seat.operator and run.missing >> number & 1 for number, seat in self.slot_seats.items())
        return run.missing == 0 or run.inputs_closed(now) or (run.committed >= run.quorum and not awaited)

    @property
    def delay(self) -> int:
        """Turns that slots start behind their own (`Terms.policy`)."""
        return int(bool(self.terms.policy & POLICY_DELAYED))

    @property
    def slots_root(self) -> bytes:
        """What the slots of the newest turn start from: of a delayed job what the turn before did, where its aggregation stands."""
        assert self.run is not None, "there are turns after the award"
        newest = max(self.checkpoints, key=lambda c: c.turn, default=None)
        follows = newest is not None and (newest.turn, newest.round) == (self.run.turn - 1, self.run.round - 1)
        return newest.start_root if newest is not None and self.delay and follows else self.run.start_root

    def is_closed(self, turn: int) -> bool:
        """A turn is closed when there is a newer one, which may be waiting, or never come: its claims can be finalised."""
        return self.run is not None and turn < self.run.turn

    @property
    def claims(self) -> Sequence[Commit | Checkpoint]:
        """All claims, on results and on aggregations."""
        return [*self.commits, *self.checkpoints]

    @property
    def pending(self) -> Sequence[Commit | Checkpoint]:
        """Claims that are neither paid nor convicted, the oldest first."""
        return sorted((c for c in self.claims if not c.final), key=lambda c: (c.turn, c.seat))

    @property
    def payable(self) -> Sequence[Commit | Checkpoint]:
        """Pending claims whose window is over, whose turn is closed, and which nobody disputes; the oldest first."""
        return [c for c in self.pending if self.is_closed(c.turn) and self.now > c.deadline and not c.disputes]

    def is_final(self, turn: int) -> bool:
        """Whether a turn is closed and all its claims are paid or convicted."""
        return self.is_closed(turn) and all(c.final for c in self.claims if c.turn == turn)

    @property
    def final_rounds(self) -> int:
        """Rounds of the line that stands whose checkpoint is final: no claim up to its turn is pending."""
        oldest = min((c.turn for c in self.pending), default=None)
        line = [self.checkpoint_of(round_) for round_ in range(1, self.completed_rounds + 1)]
        return max((c.round + 1 for c in line if c and (oldest is None or c.turn < oldest)), default=0)

    def checkpoint_of(self, round_: int, start_root: bytes | None = None, turn: int | None = None) -> Checkpoint | None:
        """The aggregation that made the checkpoint which `round_` starts from, with this root, before `turn`; None for the initial state.

        In a delayed job that may be the one before. Of several with this root it is one of the earliest round, and of those the
        newest: whoever later posts the same root with a file that nobody has must not take a claim's start from its defence.
        """
        root = self.checkpoint_roots.get(round_) if start_root is None else start_root
        oldest = round_ - 1 - (0 if start_root is None else self.delay)
        if oldest < 0 and root == self.checkpoint_roots[0]:
            return None
        made = [c for c in self.checkpoints if oldest <= c.round < round_ and (turn is None or c.turn < turn)]
        return max((c for c in made if c.root == root), key=lambda c: (-c.round, c.turn), default=None)

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
    """One operator, every read pinned to `block`."""

    operator: int
    block: int
    now: int
    owner: str
    hot: str
    stake: int
    gpu_class: int
    vram_gb: int
    reputation: int
    locks: int  # jobs it is locked in
    exit_at: int  # 0: no exit requested
    tier: int  # declared last: 0 none, 1 bronze, 2 silver, 3 gold
    hours: int  # declared last: bitmap of an epoch's periods
    discount_bps: int
    eligible: bool  # may bid now with its hot key
    admitted: bool  # its machine was shown
    multiplier_percent: int  # what its verified compute weighs now
    endpoint: str  # where its store serves blocks, newest announcement
    collateral: Mapping[str, tuple[int, int]]  # token -> (balance, locked)
    owed: Mapping[str, int]  # token -> what TaskRegistry.withdraw would send its owner
    hot_coin: int  # wei of the hot key, for gas
    deposits: Mapping[str, int] = field(
        default_factory=dict
    )  # by owner and hot key: wei that Availability.withdraw would send

    def free(self, token: str) -> int:
        balance, locked = self.collateral.get(token, (0, 0))
        return balance - locked
