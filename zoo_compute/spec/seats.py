"""Settlement's state machine below its callers: seats, turns, the end (docs/protocol/settlement.md)."""

from dataclasses import replace

from zoo_compute.spec import bits, jobs, locks
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.params import (
    AGGREGATION_STEPS,
    AGGREGATOR_SEAT,
    KIND_AGGREGATOR,
    KIND_SLOTS,
    MAX_SEATS,
    POLICY_DELAYED,
    turns_at_risk,
    vacant_price,
    window_s,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Claim, ClaimStatus, ClosedTurn, JobState, Message, Run, Said, Seat, World


def award(w: World, job: int, kind: int, operator: int, first: int, won: int, price: int, locked: int) -> None:
    """For Auction (`Settlement.seat`): an operator's winnings, at its critical price, and what of its bid's lock stays behind them."""
    run = w.run(job)
    if kind == KIND_SLOTS:
        number = run.seats
        w.runs[job] = replace(run, seats=run.seats + 1)
        w.seats[job, number] = Seat(operator=operator, first=first, count=won, price=price)
        locks.award(w, job, operator, number, won, locked)
        return
    for share in range(first, first + won):
        w.seats[job, AGGREGATOR_SEAT + share] = Seat(operator=operator, first=share, count=1, price=price)
        locks.award(w, job, operator, AGGREGATOR_SEAT + share, 1, locked if share == first else 0)


def begin(w: World, job: int, *, now: int) -> None:
    """For Auction: all seats are awarded, the ready window starts."""
    terms, run = w.terms[job], w.run(job)
    w.runs[job] = replace(
        run,
        state=JobState.AWARDED,
        rounds=terms.rounds,
        slots=terms.slots,
        quorum=terms.quorum,
        aggregators=terms.aggregators,
        depth=turns_at_risk(terms),
        policy=terms.policy,
        opened_at=now,
        window_s=window_s(w.config.preset, terms.reexecute_s, w.windows[job]),
        slot_s=terms.slot_s,
        aggregate_s=terms.aggregate_s,
        token=terms.token,
        flops=terms.flops,
        missing=bits.full(run.seats),
        start_root=terms.state_root,
    )
    jobs.advance(w, job, JobState.AWARDED)


# What a turn allows --------------------------------------------------------------------------------------------------


def inputs_closed(run: Run, now: int) -> bool:
    """Whether it is too late to commit in the open turn."""
    return run.is_signed or (run.holds == 0 and now >= run.inputs_close)


def inputs_complete(w: World, job: int, now: int) -> bool:
    """Whether the open turn can be closed, or abandoned without a quorum. Once it has a quorum, it does not wait for vacant seats."""
    run = w.runs[job]
    occupied = [seat for seat in range(run.seats) if is_missing(run, seat) and w.seats[job, seat].operator]
    return inputs_closed(run, now) or run.missing == 0 or (run.committed >= run.quorum and not occupied)


def has_posted(run: Run, seat: int) -> bool:
    """Whether an aggregator posted its share in the open turn."""
    return run.posted & bits.bit(seat - AGGREGATOR_SEAT) != 0


def lacks_aggregator(w: World, job: int) -> bool:
    """Whether nobody holds the seat of an aggregator that has not posted."""
    run = w.run(job)
    numbers = range(AGGREGATOR_SEAT, AGGREGATOR_SEAT + run.aggregators)
    return any(not has_posted(run, seat) and w.seat(job, seat).operator == 0 for seat in numbers)


def present(run: Run) -> int:
    """The presence mask: seats that committed in the open turn."""
    return bits.without(bits.full(run.seats), run.missing)


def is_missing(run: Run, seat: int) -> bool:
    return run.missing & bits.bit(seat) != 0


def deadline_of(run: Run, seat: Seat) -> int:
    """The last second in which the seat cannot be timed out."""
    return max(run.opened_at, seat.since + run.held_s) + min(2 * seat.estimate_s, run.slot_s)


def since(run: Run, now: int) -> int:
    """Now, minus the time that holds have stopped the open turn, so that a later `resume` treats all operators alike."""
    return now - run.held_s


def claim_deadline(w: World, job: int, turn: int) -> int:
    """The last second in which a turn's pending claims can be challenged: a window after its close.

    0 for a turn whose place another one has, unless claims of it were parked.
    """
    closed, run = w.closed_turns.get((job, turn)), w.run(job)
    if closed is None:
        return UINT256_MAX
    is_kept = turn + run.depth >= run.turn or any((of, claim.turn) == (job, turn) for of, claim in w.parked)
    return closed.closed_at + run.window_s if is_kept else 0


def slots_root(w: World, job: int) -> bytes:
    """The state that the newest turn's slots start from: in a delayed job the start of the turn before, unless it was rolled back."""
    run = w.runs[job]
    before = w.closed_turns.get((job, run.turn - 1))
    is_behind = run.policy & POLICY_DELAYED and before is not None and not before.is_rolled_back
    return before.start_root if before is not None and is_behind else run.start_root


# Turns ---------------------------------------------------------------------------------------------------------------


def start_if_ready(w: World, job: int, now: int) -> None:
    """Turn 0 opens once every seat's operator is ready."""
    run = w.runs[job]
    if run.missing == 0:
        due = now + w.config.preset.ready_window_s if run.has_custodians else run.aggregator_due
        w.runs[job] = replace(run, opened_at=0, missing=bits.full(run.seats), aggregator_due=due)
        advance(w, job, JobState.RUNNING)
        if not run.has_custodians:
            open_next_turn(w, job, now)


def close_turn(w: World, job: int, now: int) -> None:
    """Closes the open turn, if there is one: its claims become pending, and the next turn waits."""
    run = w.runs[job]
    if run.is_open:
        count = bits.popcount(present(run)) + bits.popcount(run.posted)
        # Of a turn without claims nothing is done again, as of one that was rolled back.
        w.closed_turns[job, run.turn] = ClosedTurn(now, count, is_rolled_back=count == 0, start_root=run.start_root)
        w.runs[job] = replace(run, turn=run.turn + 1, opened_at=0, committed=0, missing=bits.full(run.seats))


def open_next_turn(w: World, job: int, now: int) -> None:
    """Opens a waiting turn when its count is 0; closes an ended job when nothing is pending, but for what parked claims may be paid."""
    run = w.runs[job]
    if run.state == JobState.RUNNING and not run.is_open and w.closed_turn(job, run.turn - run.depth).pending == 0:
        due = now + 2 * run.slot_s + run.aggregate_s
        due += w.config.preset.ready_window_s if run.has_custodians else 0
        w.runs[job] = replace(run, opened_at=now, held_s=0, aggregator_due=due, said=Said.NOTHING, posted=0)
    if run.state == JobState.ENDED and pending_of(w, job) == 0:
        kept = parked_of(w, job)
        locks.burn(w, job)
        jobs.close(w, job, sum(claim.price for claim in kept))


def pending_of(w: World, job: int) -> int:
    """Claims of closed turns that are neither paid, convicted nor void."""
    return sum(count.pending for (of, _), count in w.closed_turns.items() if of == job)


def parked_of(w: World, job: int) -> list[Claim]:
    """Parked claims whose disputes are open."""
    return [claim for (of, claim), status in w.parked.items() if of == job and status == ClaimStatus.PENDING]


def settle_claim(w: World, job: int, turn: int) -> None:
    """One claim of a closed turn is no longer pending."""
    count = w.closed_turns[job, turn]
    assert count.pending > 0, "a pending count underflows"
    w.closed_turns[job, turn] = replace(count, pending=count.pending - 1)


def advance(w: World, job: int, state: JobState) -> None:
    w.runs[job] = replace(w.runs[job], state=state)
    jobs.advance(w, job, state)


def end(w: World, job: int, now: int) -> None:
    """Ends the job: no turn is open. The escrow is paid out once no claim is pending."""
    advance(w, job, JobState.ENDED)
    open_next_turn(w, job, now)


# Seats ---------------------------------------------------------------------------------------------------------------


def split(w: World, job: int, seat: int, count: int) -> int:
    """Splits the last `count` slots off a seat, unless they are the whole seat; returns the number of their seat."""
    run, whole = w.runs[job], w.seats[job, seat]
    if count == whole.count:
        return seat
    require(run.seats < MAX_SEATS, "settlement: too many seats")
    number, kept = run.seats, whole.count - count
    w.seats[job, seat] = replace(whole, count=kept)
    w.seats[job, number] = replace(whole, first=whole.first + kept, count=count)
    missing = run.missing | (bits.bit(number) if is_missing(run, seat) else 0)
    w.runs[job] = replace(run, seats=number + 1, missing=missing)
    return number


def vacate(w: World, job: int, seat: int, msg: Message, *, whole: bool = True) -> None:
    """Vacates a seat: a tenth of its lock is lost or set aside, unless its aggregator is short of custodians' signatures.

    whole: whether it is not a part that was split off.
    """
    run, left = w.runs[job], w.seats[job, seat]
    price = 0 if seat >= AGGREGATOR_SEAT and Said.SHORT in run.said else left.price
    turn = next_turn(run)
    locks.vacate(w, job, left.operator, seat, left.count, price, whole=whole, left_turn=turn, block_time=msg.block_time)
    leave(w, job, seat, msg.now)
    if seat >= AGGREGATOR_SEAT:
        give_time(w, job, msg.now)
    elif run.state == JobState.AWARDED:
        w.runs[job] = replace(run, missing=bits.without(run.missing, bits.bit(seat)))
        start_if_ready(w, job, msg.now)


def leave(w: World, job: int, seat: int, now: int) -> None:
    """The seat is vacant from now on."""
    w.seats[job, seat] = replace(w.seats[job, seat], operator=0, left_turn=w.runs[job].turn, left_at=now)


def unseat(w: World, job: int, operator: int, is_aggregation: bool, now: int) -> None:
    """The operator loses all its seats in a role."""
    for (of, number), seat in list(w.seats.items()):
        if of == job and seat.operator == operator and (number >= AGGREGATOR_SEAT) == is_aggregation:
            leave(w, job, number, now)


def price_now(w: World, job: int, number: int, now: int) -> int:
    """What whoever takes a vacant seat now is paid for it: a tenth more for each turn in which it was vacant.

    The aggregator's rises within the time of an aggregation instead: no turn ends without one. It does not in a turn in which one
    was spared: nobody takes its seat back for more. Neither rises above the reserve
    of the auction that sold it: who gives a seat up and takes it back is paid no more than a lone bidder was.
    """
    run, seat = w.run(job), w.seat(job, number)
    if number >= AGGREGATOR_SEAT:
        is_spared = Said.SPARED in run.said
        steps = 0 if is_spared else AGGREGATION_STEPS * (now - seat.left_at) // run.aggregate_s
        return vacant_price(seat.price, steps, w.lot(job, KIND_AGGREGATOR).reserve)
    return vacant_price(seat.price, run.turn - seat.left_turn, w.lot(job, KIND_SLOTS).reserve)


def next_turn(run: Run) -> int:
    """The first turn in which nothing is committed yet."""
    return run.turn + (1 if run.is_open else 0)


def give_time(w: World, job: int, now: int) -> None:
    """The aggregators' deadline is `aggregate_s` from now. Whoever lacked signatures is spared once a turn."""
    run = w.runs[job]
    said = run.said & (Said.SIGNED | Said.SPARED) | (Said.SPARED if Said.SHORT in run.said else Said.NOTHING)
    w.runs[job] = replace(run, aggregator_due=max(run.aggregator_due, now + run.aggregate_s), said=said)
