"""Settlement: readiness, results, windows, timeouts, takeovers, payment (docs/protocol.md, "Settlement")."""

from dataclasses import replace

from zoo_compute.spec import auction, bits, jobs, registry, rewards, seats
from zoo_compute.spec.params import (
    AGGREGATION_KEY,
    GPU_CLASSES,
    KIND_AGGREGATOR,
    KIND_SLOTS,
    slash_of,
)
from zoo_compute.spec.refusal import require
from zoo_compute.spec.state import (
    AggregatorSeat,
    Claim,
    ClaimRef,
    JobState,
    Message,
    Run,
    World,
)


def ready(w: World, msg: Message, job: int, operator: int, estimate_s: int) -> None:
    """The holder has the inputs and timed a step."""
    run, seat = w.run(job), w.seat(job, operator)
    require(run.state == JobState.AWARDED, "settlement: not awarded")
    _require_hot(w, msg, operator)
    require(seat.held & run.missing != 0, "settlement: nothing to ready")
    _require_estimate(run, estimate_s)
    w.seats[job, operator] = replace(seat, estimate_s=estimate_s)
    w.runs[job] = replace(run, missing=bits.without(run.missing, seat.held))
    seats.start_if_ready(w, job, msg.now)


def decline(w: World, msg: Message, job: int, operator: int) -> None:
    """The holder gives its slots back, and pays for it."""
    require(w.run(job).state == JobState.AWARDED, "settlement: not awarded")
    _require_hot(w, msg, operator)
    _vacate_unready(w, job, operator, msg.now)


def expire(w: World, msg: Message, job: int, operator: int) -> None:
    """Silence past the ready window counts as a decline."""
    run = w.run(job)
    require(run.state == JobState.AWARDED, "settlement: not awarded")
    require(msg.now > run.opened_at + w.config.preset.ready_window_s, "settlement: ready window open")
    _vacate_unready(w, job, operator, msg.now)


def commit(
    w: World, msg: Message, job: int, round: int, operator: int, bitmap: int, root: bytes, bundle: bytes
) -> None:
    """One claim for all slots in `bitmap`, which their holder trained this round."""
    run, seat = w.run(job), w.seat(job, operator)
    require(run.state == JobState.RUNNING, "settlement: not running")
    require(round == run.round, "settlement: not the current round")
    require(msg.now < run.inputs_close, "settlement: inputs closed")
    _require_hot(w, msg, operator)
    _require_uncommitted(run, seat.held, bitmap)
    w.claims[job, round, bits.lowest(bitmap)] = Claim(operator, bitmap, root, msg.now + run.window_s)
    w.runs[job] = replace(run, missing=bits.without(run.missing, bitmap))


def time_out(w: World, msg: Message, job: int, operator: int, bitmap: int) -> None:
    """Slots whose holder is late become vacant; who took over too late to commit is spared this round."""
    run, seat = w.run(job), w.seat(job, operator)
    require(run.state == JobState.RUNNING, "settlement: not running")
    _require_uncommitted(run, seat.held, bitmap)
    deadline = seats.deadline_of(run, seat)
    require(deadline < msg.now and deadline <= run.inputs_close, "settlement: deadline not passed")
    seats.vacate(w, job, operator, bitmap)


def take_over(w: World, msg: Message, job: int, slot: int, operator: int, estimate_s: int) -> None:
    """A standby takes a vacant slot at its own bid; the last holder's slash pays the difference."""
    run, seat = w.run(job), w.seat(job, operator)
    require(run.state in (JobState.AWARDED, JobState.RUNNING), "settlement: not running")
    _require_hot(w, msg, operator)
    require(run.vacant & bits.bit(slot) != 0, "settlement: slot not vacant")
    require(seat.lost & bits.bit(slot) == 0, "settlement: held it before")
    _require_estimate(run, estimate_s)
    bid = auction.take(w, job, KIND_SLOTS, operator)
    takeover, burned = seats.split_vacancy(w.vacancies.pop((job, slot)), bid, run.rounds - run.round)
    w.takeovers[job, slot, operator] = takeover
    w.seats[job, operator] = replace(
        seat,
        locked=seat.locked + run.lock,
        estimate_s=estimate_s,
        since=msg.now,
        held=seat.held | bits.bit(slot),
        taken=seat.taken | bits.bit(slot),
    )
    w.runs[job] = replace(run, vacant=bits.without(run.vacant, bits.bit(slot)))
    seats.burn_from_pot(w, job, burned)
    registry.lock(w, operator, run.token, run.lock, new=seat.locked == 0)


def post_checkpoint(
    w: World, msg: Message, job: int, round: int, operator: int, mask: int, root: bytes, cid: bytes
) -> None:
    """The aggregator closes the round over exactly the slots that committed."""
    run = w.run(job)
    require(run.state == JobState.RUNNING, "settlement: not running")
    require(round == run.round, "settlement: not the current round")
    require(operator == run.aggregator, "settlement: not the aggregator")
    _require_hot(w, msg, operator)
    require(seats.inputs_complete(run, msg.now), "settlement: inputs open")
    require(mask == seats.present(run), "settlement: mask differs")
    require(seats.has_quorum(run), "settlement: quorum not reached")
    w.claims[job, round, AGGREGATION_KEY] = Claim(operator, mask, root, msg.now + run.window_s)
    jobs.record_checkpoint(w, job, round + 1, root, cid)
    run = replace(run, round=round + 1, outstanding=run.outstanding + bits.popcount(mask) + 1)
    if run.round == run.rounds:
        seats.end(w, job, run)
    else:
        w.runs[job] = seats.opened(run, msg.now)


def time_out_aggregator(w: World, msg: Message, job: int) -> None:
    """A silent aggregator loses its seat and a tenth of its lock, which is burned."""
    run = w.run(job)
    require(run.state == JobState.RUNNING, "settlement: not running")
    require(run.aggregator != 0, "settlement: aggregator vacant")
    require(msg.now > run.aggregator_due, "settlement: deadline not passed")
    require(seats.has_quorum(run), "settlement: quorum not reached")
    seat = w.aggregator_seats[job, run.aggregator]
    slashed = slash_of(seat.locked)
    w.aggregator_seats[job, run.aggregator] = replace(seat, locked=seat.locked - slashed)
    w.runs[job] = replace(run, aggregator=0, aggregator_price=0, aggregator_due=msg.now + run.aggregate_s)
    registry.slash(w, run.aggregator, run.token, slashed)
    registry.burn(w, run.token, slashed)


def take_over_aggregator(w: World, msg: Message, job: int, operator: int) -> None:
    """A standby takes the vacant seat at its own bid, with the whole lock."""
    run = w.run(job)
    require(run.state == JobState.RUNNING, "settlement: not running")
    _require_hot(w, msg, operator)
    require(run.aggregator == 0, "settlement: aggregator not vacant")
    require((job, operator) not in w.aggregator_seats, "settlement: held it before")
    price = auction.take(w, job, KIND_AGGREGATOR, operator)
    lock = w.lot(job, KIND_AGGREGATOR).lock
    w.aggregator_seats[job, operator] = AggregatorSeat(price, lock)
    due = msg.now + run.aggregate_s
    w.runs[job] = replace(run, aggregator=operator, aggregator_price=price, aggregator_due=due)
    registry.lock(w, operator, run.token, lock, new=True)


def abandon(w: World, msg: Message, job: int) -> None:
    """Ends a job that cannot go on; what was committed in the open round stays payable."""
    run = w.run(job)
    require(run.state == JobState.RUNNING, "settlement: not running")
    is_short = seats.inputs_complete(run, msg.now) and not seats.has_quorum(run)
    is_leaderless = run.aggregator == 0 and msg.now > run.aggregator_due
    require(is_short or is_leaderless, "settlement: job can go on")
    seats.end(w, job, replace(run, outstanding=run.outstanding + bits.popcount(seats.present(run))))


def finalise(w: World, msg: Message, job: int, claims: tuple[ClaimRef, ...]) -> None:
    """Pays claims whose window is over, each once."""
    require(len(claims) > 0, "settlement: no claims")
    for ref in claims:
        run = w.run(job)
        require(ref.round < run.round or run.state == JobState.ENDED, "settlement: round still open")
        claim = Claim(ref.operator, ref.bitmap, ref.root, ref.deadline)
        require(w.claims.get((job, ref.round, ref.key)) == claim, "settlement: unknown claim")
        require(msg.now > ref.deadline, "settlement: window open")
        del w.claims[job, ref.round, ref.key]
        if ref.key == AGGREGATION_KEY:
            _pay_aggregation(w, job, ref.operator)
        else:
            _pay_slots(w, job, claim, msg.now)
    seats.close_if_settled(w, job)


def release(w: World, msg: Message, job: int, operator: int) -> None:
    """When all of a job is final, an operator's locks in it are free."""
    run, seat = w.run(job), w.seat(job, operator)
    require(run.state == JobState.ENDED and run.outstanding == 0, "settlement: job not over")
    aggregator = w.aggregator_seats.get((job, operator), AggregatorSeat())
    require(seat.locked + aggregator.locked > 0, "settlement: nothing locked")
    if seat.locked:
        w.seats[job, operator] = replace(seat, locked=0)
        registry.unlock(w, operator, run.token, seat.locked, last=True)
    if aggregator.locked:
        w.aggregator_seats[job, operator] = replace(aggregator, locked=0)
        registry.unlock(w, operator, run.token, aggregator.locked, last=True)


def _pay_slots(w: World, job: int, claim: Claim, now: int) -> None:
    """Slots won cost the seat's price, slots taken over their own; the pot adds to the latter."""
    run, seat = w.runs[job], w.seats[job, claim.operator]
    count = bits.popcount(claim.bitmap)
    from_escrow = bits.popcount(bits.without(claim.bitmap, seat.taken)) * seat.price
    from_pot = 0
    for slot in bits.slots_in(claim.bitmap & seat.taken):
        takeover = w.takeovers[job, slot, claim.operator]
        from_escrow += takeover.escrow_price
        from_pot += takeover.pot_price
    w.runs[job] = replace(run, outstanding=run.outstanding - count, pot=run.pot - from_pot)
    assert run.pot >= from_pot, "the job's pot underflows"
    owner = registry.reward_outcome(w, claim.operator, count)
    fee = jobs.pay(w, job, owner, from_escrow)
    registry.credit(w, claim.operator, run.token, from_pot)
    if run.token == w.config.zen:
        multiplier = GPU_CLASSES[w.operators[claim.operator].gpu_class].multiplier_percent
        rewards.record(w, claim.operator, run.flops * count * multiplier // 100, fee, now=now)


def _pay_aggregation(w: World, job: int, operator: int) -> None:
    run = w.runs[job]
    w.runs[job] = replace(run, outstanding=run.outstanding - 1)
    jobs.pay(w, job, w.operators[operator].owner, w.aggregator_seats[job, operator].price)


def _vacate_unready(w: World, job: int, operator: int, now: int) -> None:
    unready = w.seat(job, operator).held & w.runs[job].missing
    require(unready != 0, "settlement: nothing to ready")
    seats.vacate(w, job, operator, unready)
    seats.start_if_ready(w, job, now)


def _require_hot(w: World, msg: Message, operator: int) -> None:
    require(w.operator(operator).hot == msg.sender, "settlement: not the hot key")


def _require_estimate(run: Run, estimate_s: int) -> None:
    require(1 <= estimate_s <= run.slot_s, "settlement: estimate out of range")


def _require_uncommitted(run: Run, held: int, bitmap: int) -> None:
    require(bitmap != 0, "settlement: no slots")
    require(bits.without(bitmap, held) == 0, "settlement: slot not held")
    require(bits.without(bitmap, run.missing) == 0, "settlement: slot already committed")
