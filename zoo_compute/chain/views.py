"""What a keeper or a client looks at: one job, one operator, as of one block. Frozen, built in `snapshot.py`.

Field names are those of docs/protocol.md. Everything is plain: integers, `bytes` of 32, checksummed address strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from zoo_compute.spec.bits import slots_in
from zoo_compute.spec.params import AGGREGATION_KEY, KIND_AGGREGATOR, KIND_SLOTS, STANDARD_CAP_BIDDERS, Terms
from zoo_compute.spec.state import JobState as JobState
from zoo_compute.spec.state import Phase

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
    rounds: int
    slots: int
    quorum: int
    opened_at: int
    outstanding: int
    window_s: int
    slot_s: int
    aggregate_s: int
    aggregator: int  # operator; 0 when vacant
    aggregator_price: int
    aggregator_due: int
    token: str
    lock: int  # per slot
    flops: int
    missing: int  # bitmap: not yet committed this round; in AWARDED, not yet ready
    vacant: int  # bitmap
    pot: int

    @property
    def inputs_close(self) -> int:
        return self.opened_at + 2 * self.slot_s

    def inputs_complete(self, now: int) -> bool:
        return self.missing == 0 or now >= self.inputs_close


@dataclass(frozen=True)
class Seat:
    """`Settlement.seats(job, operator)`: what an operator holds of the slots' lot."""

    price: int
    locked: int
    estimate_s: int
    since: int
    held: int  # bitmap
    taken: int  # bitmap: the slots of `held`, now or once, that came by takeover


@dataclass(frozen=True)
class AggregatorSeat:
    """`Settlement.aggregator_seats(job, operator)`."""

    price: int
    locked: int


@dataclass(frozen=True)
class Vacancy:
    """`Settlement.vacancies(job, slot)` of a vacant slot."""

    price: int  # what escrow paid the last holder per round
    pot: int


@dataclass(frozen=True)
class Commit:
    """A claim on results (`ResultsCommitted`), and whether it has been paid."""

    round: int
    operator: int
    bitmap: int
    root: bytes
    bundle: bytes  # SHA-256 digest of the bundle's CID
    deadline: int
    finalised: bool
    block: int

    @property
    def key(self) -> int:
        return (self.bitmap & -self.bitmap).bit_length() - 1


@dataclass(frozen=True)
class Checkpoint:
    """A claim on an aggregation (`CheckpointPosted`): it closed `round` and made checkpoint `round + 1`."""

    round: int
    operator: int
    mask: int
    root: bytes
    cid: bytes  # SHA-256 digest of the checkpoint pointer's CID
    deadline: int
    finalised: bool
    block: int

    @property
    def key(self) -> int:
        return AGGREGATION_KEY

    @property
    def bitmap(self) -> int:
        return self.mask


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
    bids: Mapping[tuple[int, int], Bid]  # by (kind, operator); reclaimed ones are absent
    seats: Mapping[int, Seat]  # by operator
    aggregator_seats: Mapping[int, AggregatorSeat]  # by operator
    vacancies: Mapping[int, Vacancy]  # by slot, the vacant ones
    checkpoint_roots: Mapping[int, bytes]  # by round; 0 is the initial state
    checkpoint_cid: bytes  # of the newest; zero before the first checkpoint
    commits: Sequence[Commit]
    checkpoints: Sequence[Checkpoint]

    @property
    def over(self) -> bool:
        return self.state in (JobState.ENDED, JobState.CANCELLED)

    def closed(self, round_: int) -> bool:
        """A round is closed when a later one runs or the job has ended: its claims can be finalised."""
        return self.run is not None and (self.state == JobState.ENDED or round_ < self.run.round)

    @property
    def claims(self) -> Sequence[Commit | Checkpoint]:
        """All claims, on results and on aggregations."""
        return [*self.commits, *self.checkpoints]

    @property
    def payable(self) -> Sequence[Commit | Checkpoint]:
        """Claims whose window is over, whose round is closed, and which nobody finalised yet."""
        return [c for c in self.claims if not c.finalised and self.closed(c.round) and self.now > c.deadline]

    def committed(self, round_: int) -> Mapping[int, Commit]:
        """The commit that covers each slot of a round."""
        found = [c for c in self.commits if c.round == round_]
        return {slot: c for c in found for slot in slots_in(c.bitmap)}


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
    discount_bps: int
    eligible: bool  # may bid now with its hot key
    endpoint: str  # where its store serves blocks, newest announcement
    collateral: Mapping[str, tuple[int, int]]  # token -> (balance, locked)
    owed: Mapping[str, int]  # token -> what TaskRegistry.withdraw would send its owner
    hot_coin: int  # wei of the hot key, for gas

    def free(self, token: str) -> int:
        balance, locked = self.collateral.get(token, (0, 0))
        return balance - locked
