"""Settlement's state machine below its callers: seats, vacancies, rounds, the end (docs/protocol.md, "Settlement")."""

from dataclasses import replace

from zoo_compute.spec import bits, jobs, registry
from zoo_compute.spec.params import KIND_AGGREGATOR, slash_of, window_s
from zoo_compute.spec.state import AggregatorSeat, JobState, Run, Seat, Takeover, Vacancy, World


def award(w: World, job: int, kind: int, operator: int, first: int, won: int, price: int, lock: int) -> None:
    """For Auction (`Settlement.seat`): what an operator won, at its critical price, with its whole lock."""
    if kind == KIND_AGGREGATOR:
        w.aggregator_seats[job, operator] = AggregatorSeat(price, lock)
        w.runs[job] = replace(w.run(job), aggregator=operator, aggregator_price=price)
    else:
        w.seats[job, operator] = Seat(price=price, locked=lock, held=bits.run_of(first, won))


def begin(w: World, job: int, lock: int, *, now: int) -> None:
    """For Auction: all seats are awarded, the ready window starts."""
    terms = w.terms[job]
    w.runs[job] = replace(
        w.run(job),
        state=JobState.AWARDED,
        rounds=terms.rounds,
        slots=terms.slots,
        quorum=terms.quorum,
        opened_at=now,
        window_s=window_s(w.config.preset, terms.reexecute_s),
        slot_s=terms.slot_s,
        aggregate_s=terms.aggregate_s,
        token=terms.token,
        lock=lock,
        flops=terms.flops,
        missing=bits.full(terms.slots),
    )
    jobs.advance(w, job, JobState.AWARDED)


def inputs_complete(run: Run, now: int) -> bool:
    """May the open round be closed, or found short of its quorum?"""
    return run.missing == 0 or now >= run.inputs_close


def present(run: Run) -> int:
    """The presence mask: slots that committed in the open round."""
    return bits.without(bits.full(run.slots), run.missing)


def has_quorum(run: Run) -> bool:
    return bits.popcount(present(run)) >= run.quorum


def deadline_of(run: Run, seat: Seat) -> int:
    """The last second at which the seat's slots may not be timed out."""
    return max(run.opened_at, seat.since) + min(2 * seat.estimate_s, run.slot_s)


def start_if_ready(w: World, job: int, now: int) -> None:
    """Round 0 opens once no slot is missing its holder's word."""
    run = w.runs[job]
    if run.missing == 0:
        jobs.advance(w, job, JobState.RUNNING)
        w.runs[job] = opened(replace(run, state=JobState.RUNNING), now)


def opened(run: Run, now: int) -> Run:
    """The run with its current round opened at `now`."""
    run = replace(run, opened_at=now, missing=bits.full(run.slots))
    return replace(run, aggregator_due=run.inputs_close + run.aggregate_s)


def vacate(w: World, job: int, operator: int, bitmap: int) -> None:
    """Slots lose their holder: each costs a tenth of its lock, set aside for who takes it over."""
    run, seat, slashed = w.runs[job], w.seats[job, operator], 0
    for slot in bits.slots_in(bitmap):
        is_taken = bool(seat.taken & bits.bit(slot))
        price = w.takeovers[job, slot, operator].escrow_price if is_taken else seat.price
        w.vacancies[job, slot] = Vacancy(price, slash_of(run.lock))
        slashed += slash_of(run.lock)
    w.seats[job, operator] = replace(
        seat,
        locked=seat.locked - slashed,
        held=bits.without(seat.held, bitmap),
        lost=seat.lost | bitmap,
    )
    missing = bits.without(run.missing, bitmap) if run.state == JobState.AWARDED else run.missing
    w.runs[job] = replace(run, missing=missing, vacant=run.vacant | bitmap, pot=run.pot + slashed)
    registry.slash(w, operator, run.token, slashed)


def split_vacancy(vacancy: Vacancy, bid: int, remaining: int) -> tuple[Takeover, int]:
    """What escrow and pot pay a standby per round for `remaining` rounds, and what of the pot is burned."""
    difference = max(0, bid - vacancy.price)
    pot_price = min(vacancy.pot, difference * remaining) // remaining
    return Takeover(bid - pot_price, pot_price), vacancy.pot - pot_price * remaining


def burn_from_pot(w: World, job: int, amount: int) -> None:
    """Part of a job's pot goes where nothing can spend it."""
    run = w.runs[job]
    w.runs[job] = replace(run, pot=run.pot - amount)
    registry.burn(w, run.token, amount)


def end(w: World, job: int, run: Run) -> None:
    """The job ends as `run`; money follows once nothing is outstanding."""
    w.runs[job] = replace(run, state=JobState.ENDED)
    jobs.advance(w, job, JobState.ENDED)
    close_if_settled(w, job)


def close_if_settled(w: World, job: int) -> None:
    """With the last payment of an ended job the rest of its pot is burned, of its escrow refunded."""
    run = w.runs[job]
    if run.state == JobState.ENDED and run.outstanding == 0:
        burn_from_pot(w, job, run.pot)
        jobs.close(w, job)
