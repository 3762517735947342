# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Auction
@license Apache-2.0
@notice Sealed-bid reverse auctions of a job's slots (kind 0) and of its aggregator's seat (kind 1). Lowest scores win,
        nobody more than a third when three or more bid, and every winner is paid its critical price.
@dev Both lots of a job keep the same windows. Calls go to the registry, to the task registry and to the settlement only,
     none of which calls a stranger back while it serves them: where a loop interleaves effects and calls, nothing else runs.
"""


from .interfaces import IAuction
from .interfaces import INodeRegistry
from .interfaces import ISettlement
from .interfaces import ITaskRegistry
from .modules import auction_words as words
from .modules import bits
from .modules import numbers
from .modules import protocol_time
from .modules import terms as terms_of


implements: IAuction


# Phases of a lot; 0 is no lot.
OPEN: constant(uint256) = 1
CLEARING: constant(uint256) = 2
CLEARED: constant(uint256) = 3
AWARDED: constant(uint256) = 4

BATCH: constant(uint256) = 64
# With so many revealed bids the cap is a third, or the least above it that fills the lot.
CAP_FROM: constant(uint256) = 3
# A bid is for at least a 64th of the lot, so that seats suffice for its winners.
MAX_WINNERS: constant(uint256) = 64
# Losing runs that price the winners; beyond them the reserve does.
MAX_RUNS: constant(uint256) = 128
# Seconds from the end of an auction that nobody clears or opens again until anyone may close the job.
LAPSE_S: constant(uint256) = 2_592_000
# Places an operator has for bids of a kind: job `n` uses place `n mod 256`.
RING: constant(uint256) = 256


registry: public(immutable(address))
tasks: public(immutable(address))
# May pause `bid`, and nothing else.
guardian: public(immutable(address))
bid_window_s: public(immutable(uint256))
reveal_window_s: public(immutable(uint256))
deployer: public(immutable(address))


struct Lot:
    phase: uint256
    token: address
    units: uint256
    reserve: uint256
    max_reserve: uint256
    # Behind a unit of a bid in this attempt, and behind each bid besides.
    lock: uint256
    once: uint256
    attempt: uint256
    bid_end: uint256
    reveal_end: uint256
    revealed: uint256
    units_capped: uint256
    units_uncapped: uint256
    cleared: uint256
    sold: uint256
    winners: uint256
    priced: uint256
    cursor: uint256
    losing_units: uint256
    cancelled_at: uint256


struct Bid:
    attempt: uint256
    # Of its attempt: its lock follows from it.
    reserve: uint256
    capacity: uint256
    revealed: bool
    price: uint256
    discount_bps: uint256
    won: uint256
    first_slot: uint256
    # The upper 160 bits of the seal, in place; 0 once revealed.
    seal: bytes32


# Side by side in storage, where a bid finds both by one hash.
struct LotWords:
    # phase (8) | attempt (32) | units (16) | bid_end (40) | asks (8) | audit_bps (32) | reserve (80) | cancelled_at (40)
    clock: uint256
    # token (160) | what a bid locks besides its units (96): restitution, where the winner may have to pay for rounds done again
    security: uint256


# Records the seats; set once by `wire`.
settlement: public(address)
# job -> kind -> the words that a bid reads
lot_words: HashMap[uint256, HashMap[uint256, LotWords]]
# job -> what it asks of its operators: the word of requirements.vy
requirements: public(HashMap[uint256, uint256])
# job -> kind -> second_excess (16) | max_reserve (80) | revealed (24) | units_capped (32) | units_uncapped (32) | sold (16)
#                | winners (16) | priced (16)
tallies: HashMap[uint256, HashMap[uint256, uint256]]
# job -> attempt that is over -> its reserves, by which its bids are locked: of the slots (80) | of the aggregator (80)
past_reserves: HashMap[uint256, HashMap[uint256, uint256]]
# job -> kind -> cleared (24) | cursor (160) | losing_units (16) | runs (8) | sweep (32)
progresses: HashMap[uint256, HashMap[uint256, uint256]]
# operator -> kind (1) | job mod RING (8) -> job (40) | attempt (32) | capacity (16) | revealed (1), and either seal (160), or
#         priced (1) | price (80) | discount (10) | won (15) | first_slot (15) | sweep (30); SPENT in place of a bid that was
#         reclaimed
rings: HashMap[uint256, uint256[2 * RING]]
# job -> kind -> losing runs in the order of clearing: score (96) | operator (64) | units (16)
losing_runs: HashMap[uint256, HashMap[uint256, uint256[MAX_RUNS]]]


event LotOpened:
    job: indexed(uint256)
    kind: uint256
    attempt: uint256
    reserve: uint256
    bid_end: uint256
    reveal_end: uint256


event BidSealed:
    job: indexed(uint256)
    operator: indexed(uint256)
    kind: uint256
    capacity: uint256


event BidRevealed:
    job: indexed(uint256)
    operator: indexed(uint256)
    kind: uint256
    price: uint256
    discount_bps: uint256


event BidsCleared:
    job: indexed(uint256)
    kind: uint256
    cleared: uint256
    sold: uint256


event SeatAwarded:
    job: indexed(uint256)
    operator: indexed(uint256)
    kind: uint256
    price: uint256
    first: uint256
    count: uint256


event BidReclaimed:
    job: indexed(uint256)
    operator: indexed(uint256)
    kind: uint256
    forfeited: uint256


@deploy
def __init__(
    registry_: address, tasks_: address, guardian_: address, bid_window_s_: uint256, reveal_window_s_: uint256
):
    """
    @param registry_ Locks collateral for bids.
    @param tasks_ Opens and cancels lots.
    @param guardian_ May pause `bid`.
    @param bid_window_s_ Seconds in which sealed bids are accepted.
    @param reveal_window_s_ Seconds in which they are opened.
    """
    registry = registry_
    tasks = tasks_
    guardian = guardian_
    bid_window_s = bid_window_s_
    reveal_window_s = reveal_window_s_
    deployer = msg.sender


@external
def wire(settlement_: address):
    """
    @notice Names the settlement, once.
    """
    assert msg.sender == deployer, "auction: not the deployer"
    assert self.settlement == empty(address), "auction: already wired"
    self.settlement = settlement_


@external
def pause(until: uint256):
    """
    @notice Pauses `bid`, and nothing else, until a second; one that is over resumes it.
    """
    assert msg.sender == guardian, "auction: not the guardian"
    extcall INodeRegistry(registry).pause_bids(until)


@external
def open(
    job: uint256,
    kind: uint256,
    token: address,
    units: uint256,
    reserve: uint256,
    max_reserve: uint256,
    audit_bps: uint256,
    once: uint256,
    requirements: uint256,
):
    """
    @notice Opens a lot of a job just posted.
    @param audit_bps The job's: the lock of each unit of a bid follows from it and the reserve.
    @param once Locked behind each bid besides.
    @param requirements Of each operator that bids or takes over a seat; the same for both lots.
    """
    assert msg.sender == tasks, "auction: not the task registry"
    assert once < 2**96, "auction: lock out of range"
    self.tallies[job][kind] = words._pack_tally(
        words.Tally(
            max_reserve=max_reserve,
            revealed=0,
            units_capped=0,
            units_uncapped=0,
            second_excess=0,
            sold=0,
            winners=0,
            priced=0,
        )
    )
    self.lot_words[job][kind].security = words._pack_security(token, once)
    if requirements != 0:
        self.requirements[job] = requirements
    self._open_attempt(job, kind, 1, units, audit_bps, requirements != 0, reserve)


@external
def cancelled(job: uint256) -> uint256:
    """
    @notice Notes when the job was cancelled: bids that could still be revealed then forfeit nothing.
    @return How many revealed bids are paid for it: all of this attempt, unless it ended with too few.
    """
    assert msg.sender == tasks, "auction: not the task registry"
    bids: uint256 = 0
    if not self._has_failed(job):
        for kind: uint256 in range(2):
            bids += words._unpack_tally(self.tallies[job][kind]).revealed
    now: uint256 = protocol_time._now(registry)
    for kind: uint256 in range(2):
        clock: words.Clock = words._unpack_clock(self.lot_words[job][kind].clock)
        clock.cancelled_at = now
        self.lot_words[job][kind].clock = words._pack_clock(clock)
    return bids


@external
def bid(job: uint256, kind: uint256, operator: uint256, seal: bytes32, capacity: uint256):
    """
    @notice Seals a bid for up to `capacity` units and locks collateral for them, as for seats at this attempt's reserve.
    @param seal keccak256(abi_encode(job, kind, attempt, operator, price, capacity, salt)).
    """
    lot: LotWords = self.lot_words[job][kind]
    clock: uint256 = lot.clock
    # Of the clock's word: phase, cancelled_at and bid_end.
    assert (
        clock >> 248 == OPEN and clock & bits.U40 == 0 and protocol_time._now(registry) < clock >> 160 & bits.U40
    ), "auction: not bidding"
    units: uint256 = clock >> 200 & bits.U16
    assert (
        capacity <= units and unsafe_mul(capacity, MAX_WINNERS) >= units
    ), "auction: capacity out of range"
    # INVARIANT auction: only operators that are what the job asks for have its bids and its seats. What an operator is when it bids
    # counts; what it loses later takes no seat away.
    if clock >> words.ASKS_AT & 1 != 0:
        self._check_requirements(job, operator)
    # As `_place` has it.
    place: uint256 = kind << 8 | job & bits.U8
    current: uint256 = self.rings[operator][place]
    # Jobs count from 1: only a place that is spent, or was never used, is of none.
    if current > words.SPENT:
        assert self._is_free(current, job, kind), "auction: already bid"
    # A sealed word, as `auction_words` lays it out: job, attempt, capacity and the upper 160 bits of the seal.
    self.rings[operator][place] = (
        job << 216 | (clock >> 216 & bits.U32) << 184 | capacity << 168 | convert(seal, uint256) >> 96
    )
    log BidSealed(job=job, operator=operator, kind=kind, capacity=capacity)
    # INVARIANT locks: no price exceeds the reserve, so what a bid locks covers its seat. tests/support/lockstep/invariants.py
    lock: uint256 = terms_of._lock(clock >> 40 & bits.U80, clock >> 120 & bits.U32)
    # One call asks whether the operator may bid, and locks: below 2^88 a unit, for at most 2^14 units, and 2^96.
    if not extcall INodeRegistry(registry).lock_bid(
        operator,
        msg.sender,
        convert(lot.security >> 96, address),
        unsafe_add(unsafe_mul(lock, capacity), lot.security & bits.U96),
        capacity,
    ):
        assert (
            block.timestamp >= staticcall INodeRegistry(registry).bids_paused_until()
        ), "auction: intake paused"
        assert staticcall INodeRegistry(registry).is_eligible(operator, msg.sender), "auction: operator not eligible"
        raise "auction: stake below the capacity"


@external
def reveal(job: uint256, kind: uint256, operator: uint256, price: uint256, salt: bytes32):
    """
    @notice Opens a sealed bid. Anyone who knows the salt may.
    """
    clock: words.Clock = words._unpack_clock(self.lot_words[job][kind].clock)
    now: uint256 = protocol_time._now(registry)
    assert (
        clock.phase == OPEN
        and clock.cancelled_at == 0
        and now >= clock.bid_end
        and now < clock.bid_end + reveal_window_s
    ), "auction: not revealing"
    entry: words.Entry = self._entry(job, kind, operator)
    # Attempts count from 1: no bid at all has attempt 0.
    assert entry.attempt == clock.attempt and not entry.revealed, "auction: no bid"
    seal: bytes32 = keccak256(abi_encode(job, kind, clock.attempt, operator, price, entry.capacity, salt))
    assert convert(seal, uint256) >> 96 == entry.seal, "auction: seal does not match"
    assert price >= 1 and price <= clock.reserve, "auction: price out of range"
    entry.revealed = True
    entry.seal = 0
    entry.price = price
    entry.discount_bps = staticcall INodeRegistry(registry).discount_bps(operator)
    self._store(kind, operator, entry)
    tally: words.Tally = words._unpack_tally(self.tallies[job][kind])
    within: uint256 = min(entry.capacity, self._third(clock.units))
    # While at most two bids exceed a third, what they exceed it by in all is `units_uncapped - units_capped`. With a third such
    # bid the capped units fill the lot, and nobody asks for `second_excess` any more.
    largest: uint256 = tally.units_uncapped - tally.units_capped - tally.second_excess
    tally.second_excess = max(tally.second_excess, min(largest, entry.capacity - within))
    tally.revealed += 1
    tally.units_capped += within
    tally.units_uncapped += entry.capacity
    self.tallies[job][kind] = words._pack_tally(tally)
    log BidRevealed(job=job, operator=operator, kind=kind, price=price, discount_bps=entry.discount_bps)


@external
def reopen(job: uint256, kind: uint256):
    """
    @notice Starts the next attempt of both lots when either got too few bids; a short lot's reserve grows by a quarter.
    """
    clock: words.Clock = words._unpack_clock(self.lot_words[job][kind].clock)
    assert (
        clock.phase == OPEN and clock.cancelled_at == 0 and protocol_time._now(registry) >= clock.bid_end + reveal_window_s
    ), "auction: not due"
    # INVARIANT auction: a bid never waits for the other lot for longer than an attempt.
    assert not (self._has_enough(job, 0) and self._has_enough(job, 1)), "auction: enough bids"
    # While bids are paused a reserve does not grow: nobody could bid.
    grows: bool = block.timestamp >= staticcall INodeRegistry(registry).bids_paused_until()
    past: uint256 = 0
    for each: uint256 in range(2):
        lot: words.Clock = words._unpack_clock(self.lot_words[job][each].clock)
        past = past << 80 | lot.reserve
        tally: words.Tally = words._unpack_tally(self.tallies[job][each])
        reserve: uint256 = lot.reserve
        if grows and tally.units_uncapped < lot.units:
            reserve = min(tally.max_reserve, reserve * numbers.RESERVE_GROWTH_BPS // numbers.BPS)
        tally.revealed = 0
        tally.units_capped = 0
        tally.units_uncapped = 0
        tally.second_excess = 0
        self.tallies[job][each] = words._pack_tally(tally)
        self._open_attempt(job, each, lot.attempt + 1, lot.units, lot.audit_bps, lot.asks, reserve)
    self.past_reserves[job][clock.attempt] = past


@external
def clear(job: uint256, kind: uint256, operators: DynArray[uint256, BATCH]):
    """
    @notice Takes the next revealed bids in the order of (score, operator) and sells units to them.
    @dev Whoever calls could skip a bid: then its presentation, first in a call, starts the clearing again.
    """
    clock: words.Clock = words._unpack_clock(self.lot_words[job][kind].clock)
    assert (
        (clock.phase == OPEN or clock.phase == CLEARING)
        and clock.cancelled_at == 0
        and protocol_time._now(registry) >= clock.bid_end + reveal_window_s
    ), "auction: not due"
    # INVARIANT auction: clearing starts only when both lots can be sold, so that a job whose escrow can no longer be
    # cancelled is always awarded.
    assert self._has_enough(job, 0) and self._has_enough(job, 1), "auction: too few bids"
    assert len(operators) > 0, "auction: no operators"
    tally: words.Tally = words._unpack_tally(self.tallies[job][kind])
    progress: words.Progress = words._unpack_progress(self.progresses[job][kind])
    if clock.phase == OPEN:
        progress = words.Progress(cleared=0, cursor=0, losing_units=0, runs=0, sweep=1)
    elif self._was_skipped(job, kind, operators[0], clock.attempt, progress):
        progress = words.Progress(cleared=0, cursor=0, losing_units=0, runs=0, sweep=progress.sweep + 1)
        tally.sold = 0
        tally.winners = 0
    for operator: uint256 in operators:
        tally, progress = self._clear_one(job, kind, operator, clock, tally, progress)
    # INVARIANT auction: cursors ascend strictly, so as many cleared as revealed means all, each once, in order.
    clock.phase = CLEARED if progress.cleared == tally.revealed else CLEARING
    self.lot_words[job][kind].clock = words._pack_clock(clock)
    self.tallies[job][kind] = words._pack_tally(tally)
    self.progresses[job][kind] = words._pack_progress(progress)
    log BidsCleared(job=job, kind=kind, cleared=progress.cleared, sold=tally.sold)


@external
def award(job: uint256, kind: uint256, operators: DynArray[uint256, BATCH]):
    """
    @notice Prices and seats winners, in any order, each once. The last one of both lots starts the ready window.
    """
    clock: words.Clock = words._unpack_clock(self.lot_words[job][kind].clock)
    assert clock.phase == CLEARED, "auction: not cleared"
    tally: words.Tally = words._unpack_tally(self.tallies[job][kind])
    runs: uint256 = words._unpack_progress(self.progresses[job][kind]).runs
    token: address = empty(address)
    once: uint256 = 0
    token, once = words._unpack_security(self.lot_words[job][kind].security)
    lock: uint256 = terms_of._lock(clock.reserve, clock.audit_bps)
    for operator: uint256 in operators:
        entry: words.Entry = self._entry(job, kind, operator)
        assert (
            entry.attempt == clock.attempt and entry.revealed and entry.won > 0 and not entry.priced
        ), "auction: not an unpriced winner"
        entry.priced = True
        self._store(kind, operator, entry)
        tally.priced += 1
        price: uint256 = self._critical_price(job, kind, operator, entry, clock.reserve, runs)
        log SeatAwarded(
            job=job, operator=operator, kind=kind, price=price, first=entry.first_slot, count=entry.won
        )
        # INVARIANT locks: a bid locks for the reserve, a seat for its price, which is at most that. At the reserve they differ by
        # what each unit's lock is rounded up: less than one a unit, and it stays until `release`.
        spare: uint256 = 0
        if price < clock.reserve:
            spare = lock * entry.won - terms_of._lock(price * entry.won, clock.audit_bps)
        locked: uint256 = lock * entry.won - spare + once
        if kind == numbers.SLOTS:
            extcall ISettlement(self.settlement).seat(
                job, kind, operator, entry.first_slot, entry.won, price, locked
            )
        else:
            # Each aggregator's seat is one unit. All that is locked comes with the first.
            for i: uint256 in range(entry.won, bound=numbers.MAX_AGGREGATORS):
                extcall ISettlement(self.settlement).seat(
                    job, kind, operator, entry.first_slot + i, 1, price, locked if i == 0 else 0
                )
        if spare > 0:
            extcall INodeRegistry(registry).unlock(operator, token, spare, False)
    self.tallies[job][kind] = words._pack_tally(tally)
    if tally.priced == tally.winners:
        clock.phase = AWARDED
        self.lot_words[job][kind].clock = words._pack_clock(clock)
        if words._unpack_clock(self.lot_words[job][1 - kind].clock).phase == AWARDED:
            extcall ISettlement(self.settlement).begin(job)
            extcall ITaskRegistry(tasks).advance(job, numbers.AWARDED)


@external
def reclaim(job: uint256, kind: uint256, operator: uint256):
    """
    @notice Ends a bid that can no longer win and unlocks its collateral. A bid that could have been revealed and
            was not forfeits up to the reserve a unit, which is burned. A revealed bid of a job cancelled in its attempt is paid its
            part of the posting deposit.
    """
    entry: words.Entry = self._entry(job, kind, operator)
    assert entry.attempt != 0, "auction: no bid"
    clock: words.Clock = words._unpack_clock(self.lot_words[job][kind].clock)
    is_earlier: bool = entry.attempt < clock.attempt
    is_over: bool = protocol_time._now(registry) >= clock.bid_end + reveal_window_s
    # INVARIANT auction: a bid holds its lock only while it can win, or until its units are cleared.
    assert (
        is_earlier or (is_over and not entry.revealed) or clock.cancelled_at != 0
    ), "auction: bid still active"
    # A job cancelled before the end of the reveal phase left this attempt's bids nothing to reveal.
    had_its_chance: bool = is_earlier or (
        is_over and (clock.cancelled_at == 0 or clock.cancelled_at >= clock.bid_end + reveal_window_s)
    )
    self.rings[operator][self._place(job, kind)] = words.SPENT
    token: address = empty(address)
    once: uint256 = 0
    token, once = words._unpack_security(self.lot_words[job][kind].security)
    reserve: uint256 = self._reserve_of(job, kind, entry.attempt, clock)
    forfeited: uint256 = 0
    if had_its_chance and not entry.revealed:
        # Less than it locks, which is more than three reserves.
        forfeited = reserve * entry.capacity
    log BidReclaimed(job=job, operator=operator, kind=kind, forfeited=forfeited)
    if forfeited > 0:
        extcall INodeRegistry(registry).slash(operator, token, forfeited, False)
        extcall INodeRegistry(registry).burn(token, forfeited)
    locked: uint256 = terms_of._lock(reserve, clock.audit_bps) * entry.capacity + once
    extcall INodeRegistry(registry).unlock(operator, token, locked - forfeited, True)
    if entry.revealed and not is_earlier:
        # The job was cancelled. INVARIANT deposits: the place is spent, so no bid is paid twice.
        extcall ITaskRegistry(tasks).compensate(job, staticcall INodeRegistry(registry).owner_of(operator))


@external
@view
def paused_until() -> uint256:
    """
    @notice The second before which nobody bids.
    """
    return staticcall INodeRegistry(registry).bids_paused_until()


@external
@view
def is_cancellable(job: uint256) -> bool:
    """
    @notice Whether neither lot of the job is clearing or cleared.
    """
    return (
        words._unpack_clock(self.lot_words[job][0].clock).phase <= OPEN
        and words._unpack_clock(self.lot_words[job][1].clock).phase <= OPEN
    )


@external
@view
def is_lapsed(job: uint256) -> bool:
    """
    @notice Whether anyone may close the job: its last auction ended 30 days ago, and was neither cleared nor opened again.
    """
    # Both lots have the same windows.
    clock: words.Clock = words._unpack_clock(self.lot_words[job][0].clock)
    return (
        clock.phase == OPEN
        and protocol_time._now(registry) >= clock.bid_end + reveal_window_s + LAPSE_S
        and words._unpack_clock(self.lot_words[job][1].clock).phase == OPEN
    )


@external
@view
def takeover_reserve(job: uint256, kind: uint256, operator: uint256, hot: address) -> uint256:
    """
    @notice For Settlement: refuses an operator that could not bid for a seat with this hot key.
    @return The reserve of the lot's attempt that was awarded: the most that its seats may cost.
    """
    assert staticcall INodeRegistry(registry).is_eligible(operator, hot), "auction: operator not eligible"
    clock: uint256 = self.lot_words[job][kind].clock
    if clock >> words.ASKS_AT & 1 != 0:
        self._check_requirements(job, operator)
    return clock >> 40 & bits.U80


@external
@view
def lots(job: uint256, kind: uint256) -> Lot:
    """
    @notice Everything known of a lot; zeros when there is none.
    """
    clock: words.Clock = words._unpack_clock(self.lot_words[job][kind].clock)
    tally: words.Tally = words._unpack_tally(self.tallies[job][kind])
    progress: words.Progress = words._unpack_progress(self.progresses[job][kind])
    if clock.phase == 0:
        return empty(Lot)
    token: address = empty(address)
    once: uint256 = 0
    token, once = words._unpack_security(self.lot_words[job][kind].security)
    return Lot(
        phase=clock.phase,
        token=token,
        units=clock.units,
        reserve=clock.reserve,
        max_reserve=tally.max_reserve,
        lock=terms_of._lock(clock.reserve, clock.audit_bps),
        once=once,
        attempt=clock.attempt,
        bid_end=clock.bid_end,
        reveal_end=clock.bid_end + reveal_window_s,
        revealed=tally.revealed,
        units_capped=tally.units_capped,
        units_uncapped=tally.units_uncapped,
        cleared=progress.cleared,
        sold=tally.sold,
        winners=tally.winners,
        priced=tally.priced,
        cursor=progress.cursor,
        losing_units=progress.losing_units,
        cancelled_at=clock.cancelled_at,
    )


@external
@view
def bids(job: uint256, kind: uint256, operator: uint256) -> Bid:
    """
    @notice An operator's bid; zeros when there is none. `won` and `first_slot` are settled once the lot is cleared.
    """
    entry: words.Entry = self._entry(job, kind, operator)
    clock: words.Clock = words._unpack_clock(self.lot_words[job][kind].clock)
    return Bid(
        attempt=entry.attempt,
        reserve=self._reserve_of(job, kind, entry.attempt, clock),
        capacity=entry.capacity,
        revealed=entry.revealed,
        price=entry.price,
        discount_bps=entry.discount_bps,
        won=entry.won,
        first_slot=entry.first_slot,
        seal=convert(entry.seal << 96, bytes32),
    )


@internal
def _open_attempt(
    job: uint256,
    kind: uint256,
    attempt: uint256,
    units: uint256,
    audit_bps: uint256,
    asks: bool,
    reserve: uint256,
):
    clock: words.Clock = words.Clock(
        phase=OPEN,
        attempt=attempt,
        units=units,
        bid_end=protocol_time._now(registry) + bid_window_s,
        audit_bps=audit_bps,
        asks=asks,
        reserve=reserve,
        cancelled_at=0,
    )
    self.lot_words[job][kind].clock = words._pack_clock(clock)
    log LotOpened(
        job=job,
        kind=kind,
        attempt=attempt,
        reserve=reserve,
        bid_end=clock.bid_end,
        reveal_end=clock.bid_end + reveal_window_s,
    )


@internal
@view
def _check_requirements(job: uint256, operator: uint256):
    assert (
        staticcall INodeRegistry(registry).meets(operator, self.requirements[job])
    ), "auction: requirements not met"


@internal
@view
def _reserve_of(job: uint256, kind: uint256, attempt: uint256, clock: words.Clock) -> uint256:
    """
    @return The reserve of an attempt, the present one or one before: its bids are locked by it.
    """
    if attempt == clock.attempt:
        return clock.reserve
    past: uint256 = self.past_reserves[job][attempt]
    return past >> 80 if kind == numbers.SLOTS else past & bits.U80


@internal
def _clear_one(
    job: uint256, kind: uint256, operator: uint256, clock: words.Clock, tally: words.Tally, progress: words.Progress
) -> (words.Tally, words.Progress):
    """
    @dev Sells units to one bid, keeps what of it lost, and unlocks what it did not win.
    """
    entry: words.Entry = self._entry(job, kind, operator)
    assert entry.revealed and entry.attempt == clock.attempt, "auction: no bid"
    score: uint256 = self._score(entry)
    key: uint256 = score << 64 | operator
    assert key > progress.cursor, "auction: out of order"
    cap: uint256 = self._cap(clock.units, tally)
    usable: uint256 = min(entry.capacity, cap)
    # The units whose lock it still has. An earlier sweep can only have missed bids before this one: a sweep that misses
    # none gives every bid at most what each earlier one gave it, and is never limited by `reserved`.
    reserved: uint256 = entry.capacity if entry.sweep == 0 else entry.won
    won: uint256 = min(min(usable, reserved), clock.units - tally.sold)
    entry.won = won
    entry.first_slot = tally.sold
    entry.sweep = progress.sweep
    self._store(kind, operator, entry)
    lost: uint256 = min(usable - won, cap - progress.losing_units)
    if lost > 0 and progress.runs < MAX_RUNS:
        self.losing_runs[job][kind][progress.runs] = words._pack_run(score, operator, lost)
        progress.runs += 1
        progress.losing_units += lost
    unlocked: uint256 = reserved - won
    if unlocked > 0:
        token: address = empty(address)
        once: uint256 = 0
        token, once = words._unpack_security(self.lot_words[job][kind].security)
        if won > 0:
            once = 0
        lock: uint256 = terms_of._lock(clock.reserve, clock.audit_bps)
        extcall INodeRegistry(registry).unlock(operator, token, lock * unlocked + once, won == 0)
    tally.sold += won
    if won > 0:
        tally.winners += 1
    progress.cleared += 1
    progress.cursor = key
    return tally, progress


@internal
@view
def _was_skipped(
    job: uint256, kind: uint256, operator: uint256, attempt: uint256, progress: words.Progress
) -> bool:
    entry: words.Entry = self._entry(job, kind, operator)
    return (
        entry.revealed
        and entry.attempt == attempt
        and entry.sweep != progress.sweep
        and (self._score(entry) << 64 | operator) < progress.cursor
    )


@internal
@view
def _critical_price(
    job: uint256, kind: uint256, operator: uint256, entry: words.Entry, reserve: uint256, runs: uint256
) -> uint256:
    """
    @notice The mean of the thresholds of the units that the winner displaces, rounded down.
    @dev The winner's own losing units are no competitors of its bid.
    """
    keep: uint256 = numbers.BPS - entry.discount_bps
    total: uint256 = 0
    due: uint256 = entry.won
    for index: uint256 in range(runs, bound=MAX_RUNS):
        if due == 0:
            break
        score: uint256 = 0
        loser: uint256 = 0
        units: uint256 = 0
        score, loser, units = words._unpack_run(self.losing_runs[job][kind][index])
        if loser != operator:
            displaced: uint256 = min(units, due)
            total += displaced * min(reserve, score // keep)
            due -= displaced
    # INVARIANT auction: bid <= price <= reserve. Every loser's score is at least the winner's own.
    return (total + due * reserve) // entry.won


@internal
@pure
def _place(job: uint256, kind: uint256) -> uint256:
    """
    @notice Where an operator's ring keeps its bid: the low byte of the job's number, above it the kind, which is 0 or 1.
    """
    return kind << 8 | job & bits.U8


@internal
@view
def _entry(job: uint256, kind: uint256, operator: uint256) -> words.Entry:
    """
    @notice An operator's bid, empty when the place is another job's, spent or unused.
    """
    if kind <= numbers.AGGREGATOR:
        word: uint256 = self.rings[operator][self._place(job, kind)]
        if words._job(word) == job:
            return words._unpack_entry(word)
    return empty(words.Entry)


@internal
def _store(kind: uint256, operator: uint256, entry: words.Entry):
    """
    @dev Of a revealed bid.
    """
    self.rings[operator][self._place(entry.job, kind)] = words._pack_entry(entry)


@internal
@view
def _is_free(word: uint256, job: uint256, kind: uint256) -> bool:
    """
    @notice Whether a bid in `job` may take the place of the bid that is there.
    """
    other: uint256 = words._job(word)
    entry: words.Entry = words._unpack_entry(word)
    if other == job or not entry.revealed:
        return False
    if entry.won > 0:
        return entry.priced
    # A loser's bid is needed until its lot is cleared: till then the clearing may start again.
    clock: words.Clock = words._unpack_clock(self.lot_words[other][kind].clock)
    return clock.phase >= CLEARED and entry.attempt == clock.attempt


@internal
@view
def _has_failed(job: uint256) -> bool:
    """
    @notice Whether the attempt is over, and a lot has too few bids.
    """
    return (
        protocol_time._now(registry) >= words._unpack_clock(self.lot_words[job][0].clock).bid_end + reveal_window_s
        and not (self._has_enough(job, 0) and self._has_enough(job, 1))
    )


@internal
@view
def _has_enough(job: uint256, kind: uint256) -> bool:
    units: uint256 = words._unpack_clock(self.lot_words[job][kind].clock).units
    return words._unpack_tally(self.tallies[job][kind]).units_uncapped >= units


@internal
@pure
def _third(units: uint256) -> uint256:
    return (units + 2) // 3


@internal
@pure
def _cap(units: uint256, tally: words.Tally) -> uint256:
    """
    @notice The most units that one operator may win: a third, or the least above it with which the bids fill the lot.
    @dev Does not depend on prices. Where a third is too little, fewer than three bids offer that much: at most two grow with
         the cap, by their excess over a third.
    """
    if tally.revealed < CAP_FROM:
        return units
    third: uint256 = self._third(units)
    if tally.units_capped >= units:
        return third
    missing: uint256 = units - tally.units_capped
    half: uint256 = (missing + 1) // 2
    # INVARIANT auction: the bids of a lot that is cleared fill it within the cap. Both larger ones grow alike, till the smaller of
    # them is used up.
    return third + (half if half <= tally.second_excess else missing - tally.second_excess)


@internal
@pure
def _score(entry: words.Entry) -> uint256:
    return entry.price * (numbers.BPS - entry.discount_bps)
