"""Settlement's state machine below its callers: seats, turns, the end (docs/protocol/settlement.md)."""

from dataclasses import replace

from zoo_compute.spec import bits, jobs, node_registry
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.params import (
    AGGREGATOR_SEAT,
    KIND_AGGREGATOR,
    KIND_SLOTS,
    MAX_SEATS,
    POLICY_DELAYED,
    slash_of,
    turns_at_risk,
    window_s,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Claim, ClaimStatus, ClosedTurn, JobState, Run, Seat, World


def award(w: World, job: int, kind: int, operator: int, first: int, won: int, price: int, lock: int) -> None:
    """For Auction (`Settlement.seat`): an operator's winnings, at its critical price, with its whole lock."""
    run, stake = w.run(job), w.stake_of(job, operator)
    number = AGGREGATOR_SEAT if kind == KIND_AGGREGATOR else run.seats
    if kind == KIND_AGGREGATOR:
        w.runs[job] = replace(run, aggregator_lock=lock)
    else:
        w.runs[job] = replace(run, seats=run.seats + 1)
    w.seats[job, number] = Seat(operator=operator, first=first, count=won, price=price)
    slots = stake.slots + (won if kind == KIND_SLOTS else 0)
    lots, held = stake.lots + 1, stake.held + 1
    w.standings[job, operator] = replace(stake, locked=stake.locked + lock, lots=lots, held=held, slots=slots)


def begin(w: World, job: int, lock: int, *, now: int) -> None:
    """For Auction: all seats are awarded, the ready window starts."""
    terms, run = w.terms[job], w.run(job)
    w.runs[job] = replace(
        run,
        state=JobState.AWARDED,
        rounds=terms.rounds,
        slots=terms.slots,
        quorum=terms.quorum,
        depth=turns_at_risk(terms),
        policy=terms.policy,
        opened_at=now,
        window_s=window_s(w.config.preset, terms.reexecute_s, w.windows[job]),
        slot_s=terms.slot_s,
        aggregate_s=terms.aggregate_s,
        token=terms.token,
        lock=lock,
        flops=terms.flops,
        missing=bits.full(run.seats),
        start_root=terms.state_root,
    )
    jobs.advance(w, job, JobState.AWARDED)


# What a turn allows --------------------------------------------------------------------------------------------------


def inputs_closed(run: Run, now: int) -> bool:
    """Whether it is too late to commit in the open turn."""
    return run.holds == 0 and now >= run.inputs_close


def inputs_complete(w: World, job: int, now: int) -> bool:
    """Whether the open turn can be closed, or abandoned without a quorum. Once it has a quorum, it does not wait for vacant seats."""
    run = w.runs[job]
    occupied = [seat for seat in range(run.seats) if is_missing(run, seat) and w.seats[job, seat].operator]
    return inputs_closed(run, now) or run.missing == 0 or (run.committed >= run.quorum and not occupied)


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
        w.runs[job] = replace(run, opened_at=0, missing=bits.full(run.seats))
        advance(w, job, JobState.RUNNING)
        open_next_turn(w, job, now)


def close_turn(w: World, job: int, now: int, *, more: int) -> None:
    """Closes the open turn, if there is one: its claims become pending, and the next turn waits."""
    run = w.runs[job]
    if run.is_open:
        w.closed_turns[job, run.turn] = ClosedTurn(now, bits.popcount(present(run)) + more, start_root=run.start_root)
        w.runs[job] = replace(run, turn=run.turn + 1, opened_at=0, committed=0, missing=bits.full(run.seats))


def open_next_turn(w: World, job: int, now: int) -> None:
    """Opens a waiting turn when its count is 0; closes an ended job when nothing is pending, but for what parked claims may be paid."""
    run = w.runs[job]
    if run.state == JobState.RUNNING and not run.is_open and w.closed_turn(job, run.turn - run.depth).pending == 0:
        due = now + 2 * run.slot_s + run.aggregate_s
        w.runs[job] = replace(run, opened_at=now, held_s=0, aggregator_due=due)
    if run.state == JobState.ENDED and pending_of(w, job) == 0:
        kept = parked_of(w, job)
        w.runs[job] = replace(run, reserve=0)
        burn_from_pot(w, job, run.pot - sum(claim.pot_price for claim in kept))
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


def lock_of(run: Run, seat: int, count: int) -> int:
    """The lock for `count` slots, or for the aggregator's seat."""
    return run.aggregator_lock if seat == AGGREGATOR_SEAT else run.lock * count


def split(w: World, job: int, seat: int, count: int) -> int:
    """Splits the last `count` slots off a seat, unless they are the whole seat; returns the number of their seat."""
    run, whole = w.runs[job], w.seats[job, seat]
    if count == whole.count:
        return seat
    require(run.seats < MAX_SEATS, "settlement: too many seats")
    number, kept, pot = run.seats, whole.count - count, whole.pot * count // whole.count
    w.seats[job, seat] = replace(whole, count=kept, pot=whole.pot - pot)
    w.seats[job, number] = replace(whole, first=whole.first + kept, count=count, pot=pot)
    missing = run.missing | (bits.bit(number) if is_missing(run, seat) else 0)
    w.runs[job] = replace(run, seats=number + 1, missing=missing)
    if whole.operator:
        stake = w.standings[job, whole.operator]
        w.standings[job, whole.operator] = replace(stake, held=stake.held + 1)
    return number


def vacate(w: World, job: int, seat: int, now: int) -> None:
    """Vacates a seat: a tenth of its lock is set aside for the operator that takes it over; the aggregator's is burned."""
    run, left = w.runs[job], w.seats[job, seat]
    slashed = take_lock(w, job, left.operator, slash_of(lock_of(run, seat, left.count)), convicted=False)
    remove_operator(w, job, seat, left.operator)
    if seat == AGGREGATOR_SEAT:
        burn_from_pot(w, job, slashed)
        give_time(w, job, now)
        return
    vacant = w.seats[job, seat]
    w.seats[job, seat] = replace(vacant, pot=vacant.pot + slashed)
    if run.state == JobState.AWARDED:
        run = w.runs[job]
        w.runs[job] = replace(run, missing=bits.without(run.missing, bits.bit(seat)))
        start_if_ready(w, job, now)


def take_lock(w: World, job: int, operator: int, amount: int, *, convicted: bool) -> int:
    """Moves up to `amount` of an operator's lock in the job to the job's pot; returns how much."""
    run, stake = w.runs[job], w.standings[job, operator]
    slashed = min(stake.locked, amount)
    void_before = next_turn(run) if convicted else stake.void_before
    w.standings[job, operator] = replace(stake, locked=stake.locked - slashed, void_before=void_before)
    w.runs[job] = replace(run, pot=run.pot + slashed)
    node_registry.slash(w, operator, run.token, slashed, convicted=convicted)
    return slashed


def remove_operator(w: World, job: int, seat: int, operator: int) -> None:
    """Vacates the seat if it is still the operator's."""
    run, current = w.runs[job], w.seats[job, seat]
    if current.operator == operator:
        w.seats[job, seat] = replace(current, operator=0, pot_price=0)
        stake = w.standings[job, operator]
        slots = stake.slots - slots_of(current, seat)
        w.standings[job, operator] = replace(stake, held=stake.held - 1, slots=slots, left_turn=next_turn(run))


def slots_of(seat: Seat, number: int) -> int:
    """How many slots a seat has; the aggregator's has none."""
    return 0 if number == AGGREGATOR_SEAT else seat.count


def next_turn(run: Run) -> int:
    """The first turn in which nothing is committed yet."""
    return run.turn + (1 if run.is_open else 0)


def give_time(w: World, job: int, now: int) -> None:
    """The aggregator's deadline is `aggregate_s` from now."""
    run = w.runs[job]
    w.runs[job] = replace(run, aggregator_due=max(run.aggregator_due, now + run.aggregate_s))


def burn_from_pot(w: World, job: int, amount: int) -> None:
    """Burns part of a job's pot."""
    run = w.runs[job]
    w.runs[job] = replace(run, pot=run.pot - amount)
    node_registry.burn(w, run.token, amount)
