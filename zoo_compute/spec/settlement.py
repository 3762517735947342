"""Settlement: readiness, results, windows, timeouts, takeovers, payment (docs/protocol/settlement.md).

Disputes and convictions are in `convictions`.
"""

from dataclasses import replace
from itertools import groupby

from zoo_compute.spec import auction, bits, jobs, locks, merkle, node_registry, rewards, seats
from zoo_compute.spec.clocks import fading_pay
from zoo_compute.spec.params import (
    AGGREGATOR_SEAT,
    POLICY_CARRIES,
    POLICY_ROLL_BACK,
    fee_of,
)
from zoo_compute.spec.pricing import least_taken
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Claim, ClaimStatus, JobState, Message, Posted, Run, Said, Seat, World


def ready(w: World, msg: Message, job: int, seat: int, estimate_s: int) -> None:
    """The operator has the seat's inputs and has timed a step."""
    run, seat_state = w.run(job), w.seat(job, seat)
    require(run.state == JobState.AWARDED, "settlement: not awarded")
    _require_hot(w, msg, seat_state.operator)
    require(seats.is_missing(run, seat), "settlement: nothing to ready")
    _require_estimate(run, estimate_s)
    w.seats[job, seat] = replace(seat_state, estimate_s=estimate_s)
    w.runs[job] = replace(run, missing=bits.without(run.missing, bits.bit(seat)))
    seats.start_if_ready(w, job, msg.now)


def decline(w: World, msg: Message, job: int, seat: int, count: int) -> None:
    """The operator returns the seat's last `count` slots, and is slashed for it."""
    run, seat_state = w.run(job), w.seat(job, seat)
    require(run.state in (JobState.AWARDED, JobState.RUNNING), "settlement: not running")
    _require_hot(w, msg, seat_state.operator)
    require(seats.is_missing(run, seat), "settlement: already committed")
    require(1 <= count <= seat_state.count, "settlement: count out of range")
    seats.vacate(w, job, seats.split(w, job, seat, count), msg, whole=count == seat_state.count)


def expire(w: World, msg: Message, job: int, seat: int) -> None:
    """An operator that is not ready in time counts as having declined."""
    run = w.run(job)
    require(run.state == JobState.AWARDED, "settlement: not awarded")
    require(msg.now > run.opened_at + w.config.preset.ready_window_s, "settlement: ready window open")
    require(seats.is_missing(run, seat), "settlement: nothing to ready")
    seats.vacate(w, job, seat, msg)


def commit(w: World, msg: Message, job: int, seat: int, turn: int, root: bytes, bundle: bytes) -> None:
    """Posts one claim for all slots of a seat, trained in this turn."""
    run, seat_state = w.run(job), w.seat(job, seat)
    _require_open(run, turn)
    require(not seats.inputs_closed(run, msg.now), "settlement: inputs closed")
    _require_hot(w, msg, seat_state.operator)
    require(seats.is_missing(run, seat), "settlement: already committed")
    price, scope = seat_state.count * seat_state.price, seat_state.first << 16 | seat_state.count
    start_root = seats.slots_root(w, job)
    _post(w, job, Claim(turn, run.round, seat, seat_state.operator, scope, price, start_root, root))
    missing = bits.without(run.missing, bits.bit(seat))
    w.runs[job] = replace(run, missing=missing, committed=run.committed + seat_state.count)


def time_out(w: World, msg: Message, job: int, seat: int) -> None:
    """A late operator or aggregator loses its seat, unless it could not have acted in time."""
    run, seat_state = w.run(job), w.seat(job, seat)
    require(run.state == JobState.RUNNING, "settlement: not running")
    require(seat_state.operator != 0, "settlement: seat vacant")
    is_late = run.is_open and run.holds == 0
    if seat >= AGGREGATOR_SEAT:
        is_late = is_late and msg.now > run.aggregator_due and run.committed >= run.quorum
        is_late = is_late and not run.lacks_custodians and not seats.has_posted(run, seat)
    else:
        require(seats.is_missing(run, seat), "settlement: already committed")
        is_late = is_late and seats.deadline_of(run, seat_state) < min(msg.now, run.inputs_close + 1)
        is_late = is_late and not run.is_signed  # what custodians left out was committed in time
    require(is_late, "settlement: deadline not passed")
    seats.vacate(w, job, seat, msg)


def take_over(w: World, msg: Message, job: int, seat: int, operator: int, count: int, estimate_s: int) -> None:
    """An operator takes the last `count` slots of a vacant seat, at the seat's price now."""
    run, vacant = w.run(job), w.seat(job, seat)
    require(run.state in (JobState.AWARDED, JobState.RUNNING), "settlement: not running")
    auction.check_takeover(w, msg, job, operator)
    require(vacant.operator == 0 and vacant.count > 0, "settlement: seat not vacant")
    require(least_taken(run.slots, vacant.count) <= count <= vacant.count, "settlement: count out of range")
    _require_estimate(run, estimate_s)
    require(w.record_of(job, operator).void_before <= run.turn, "settlement: convicted this turn")
    is_divisible = run.state == JobState.AWARDED or seats.is_missing(run, seat)
    require(count == vacant.count or is_divisible, "settlement: already committed")
    price = seats.price_now(w, job, seat, msg.now)
    taken = seats.split(w, job, seat, count)
    if seat >= AGGREGATOR_SEAT:
        seats.give_time(w, job, msg.now)
    else:
        require(not (run.is_open and run.is_signed), "settlement: inputs closed")
    since = seats.since(run, msg.now)
    w.seats[job, taken] = Seat(operator, w.seats[job, taken].first, count, price, estimate_s=estimate_s, since=since)
    locks.take(w, job, operator, seat, count, price, (price - vacant.price) * count * (run.rounds - run.round))


def post_checkpoint(w: World, msg: Message, job: int, seat: int, turn: int, mask: int, root: bytes, cid: bytes) -> None:
    """An aggregator posts its share, of exactly the seats that committed; the last one closes the turn. Where there are custodians, by
    Custody.
    """
    run, seat_state = w.run(job), w.seat(job, seat)
    _require_open(run, turn)
    if run.has_custodians:
        require(msg.sender == w.config.custody, "settlement: not a protocol contract")
    else:
        _require_hot(w, msg, seat_state.operator)
    require(seats.inputs_complete(w, job, msg.now), "settlement: inputs open")
    require(mask == seats.present(run), "settlement: mask differs")
    require(run.committed >= run.quorum, "settlement: quorum not reached")
    require(not seats.has_posted(run, seat), "settlement: already committed")
    fixed = turn, run.round, seat, seat_state.operator, mask, seat_state.price, run.start_root
    _post(w, job, Claim(*fixed, root))
    w.share_roots[job, seat - AGGREGATOR_SEAT] = root
    run = replace(run, posted=run.posted | bits.bit(seat - AGGREGATOR_SEAT))
    w.runs[job] = run
    if run.posted != bits.full(run.aggregators):
        return
    seats.close_turn(w, job, msg.now)
    whole = merkle.root_of_shares([w.share_roots[job, share] for share in range(run.aggregators)])
    w.runs[job] = replace(w.runs[job], round=run.round + 1, start_root=whole)
    if run.round + 1 == run.rounds:
        seats.end(w, job, msg.now)
    else:
        seats.open_next_turn(w, job, msg.now)


def abandon(w: World, msg: Message, job: int) -> None:
    """Ends a job that cannot continue; claims of the open turn stay payable. One that never began pays its seats the posting deposit."""
    run = w.run(job)
    require(run.state == JobState.RUNNING, "settlement: not running")
    is_overdue = run.holds == 0 and msg.now > run.aggregator_due
    if run.is_open:
        is_short = seats.inputs_complete(w, job, msg.now) and run.committed < run.quorum
        can_end = is_short or (is_overdue and (seats.lacks_aggregator(w, job) or run.lacks_custodians))
    else:
        can_end = is_overdue and run.turn == 0
    require(can_end, "settlement: job can go on")
    if not run.is_open:
        jobs.forsake(w, job)
    seats.close_turn(w, job, msg.now)
    seats.end(w, job, msg.now)


def start(w: World, msg: Message, job: int) -> None:
    """For Custody: a majority of custodians holds what the job starts from."""
    require(w.run(job).state == JobState.RUNNING, "settlement: not running")
    seats.open_next_turn(w, job, msg.now)


def note_inputs(w: World, msg: Message, job: int, turn: int) -> None:
    """For Custody: a majority holds inputs. Nobody commits any more; others may sign for `answer_s`, then the aggregator has its time."""
    run = _require_complete(w, msg, job, turn)
    if not run.is_signed:
        due = msg.now + w.config.preset.answer_s + run.aggregate_s
        w.runs[job] = replace(run, said=run.said | Said.SIGNED, aggregator_due=max(run.aggregator_due, due))


def note_short(w: World, msg: Message, job: int, turn: int) -> None:
    """For Custody: too few sign for a checkpoint. Whoever aggregates has its time once more, and may then be replaced, unslashed; of the
    second in a turn, the job may end.
    """
    run = _require_complete(w, msg, job, turn)
    if Said.SHORT not in run.said:
        due = max(run.aggregator_due, msg.now + run.aggregate_s)
        w.runs[job] = replace(run, said=run.said | Said.SHORT, aggregator_due=due)


def leave_out(w: World, msg: Message, job: int, turn: int, mask: int) -> None:
    """For Custody: seats that committed, and whose inputs no majority holds, are missing again; their claims are absent."""
    run = w.run(job)
    _require_open(run, turn)
    for seat in bits.slots_in(bits.without(seats.present(run), mask)):
        claim = w.claims[job, seat, turn % (run.depth + 1)].claim
        w.claims[place_of(w, job, claim)] = Posted(claim, status=ClaimStatus.ABSENT)
        run = replace(run, missing=run.missing | bits.bit(seat), committed=run.committed - claim.count)
    w.runs[job] = run


def finalise(w: World, msg: Message, job: int, claims: tuple[Claim, ...]) -> None:
    """Pays claims whose window is over, each once; consecutive ones of one operator together. Disputed ones are parked."""
    require(len(claims) > 0, "settlement: no claims")
    due = []
    for claim in claims:
        is_disputed = require_known(w, job, claim).is_disputed
        require(not is_disputed or is_parkable(w, job, claim), "settlement: in dispute")
        require(msg.now > seats.claim_deadline(w, job, claim.turn), "settlement: window open")
        if is_disputed:
            park(w, job, claim)
        else:
            due.append(claim)
            end_claim(w, job, claim, ClaimStatus.VOID if is_void(w, job, claim) else ClaimStatus.PAID)
    pay(w, job, tuple(due), msg.block_time)
    seats.open_next_turn(w, job, msg.now)


def place_of(w: World, job: int, claim: Claim) -> tuple[int, int, int]:
    """The ring place of a claim. Claims stay one turn longer than they can be pending, for state that slots carry over."""
    return job, claim.seat, claim.turn % (w.run(job).depth + 1)


def known(w: World, job: int, claim: Claim) -> Posted | None:
    """The posted claim, if it is this one and pending; of a parked one its place in the ring may have another."""
    posted = w.claims.get(place_of(w, job, claim))
    if posted is not None and posted.claim == claim and posted.status == ClaimStatus.PENDING:
        return posted
    return Posted(claim, is_disputed=True) if is_parked(w, job, claim) else None


def require_known(w: World, job: int, claim: Claim) -> Posted:
    posted = known(w, job, claim)
    require(posted is not None, "settlement: unknown claim")
    assert posted is not None
    return posted


def is_void(w: World, job: int, claim: Claim) -> bool:
    """Whether its operator was convicted of another claim since: then it is not paid."""
    return claim.turn < w.record_of(job, claim.operator).void_before


def end_claim(w: World, job: int, claim: Claim, status: ClaimStatus) -> None:
    """A pending claim of a closed turn is paid, convicted or void."""
    if is_parked(w, job, claim):
        w.parked[job, claim] = status
        _count_parked(w, job, claim.operator, -1)
        return
    w.claims[place_of(w, job, claim)] = Posted(claim, status=status)
    seats.settle_claim(w, job, claim.turn)


def status_of(w: World, job: int, claim: Claim) -> ClaimStatus | None:
    """What became of a claim, while Settlement still has it; of a parked one, for ever."""
    posted = w.claims.get(place_of(w, job, claim))
    if posted is not None and posted.claim == claim and posted.status != ClaimStatus.PARKED:
        return posted.status
    return w.parked.get((job, claim))


def is_parked(w: World, job: int, claim: Claim) -> bool:
    """Whether its dispute goes on while nothing but its operator's lock waits for it."""
    return w.parked.get((job, claim)) == ClaimStatus.PENDING


def is_parkable(w: World, job: int, claim: Claim) -> bool:
    """Whether its conviction undoes nothing, and it is judged by itself."""
    keeps_its_place = claim.is_aggregation or w.run(job).policy & (POLICY_ROLL_BACK | POLICY_CARRIES)
    return not keeps_its_place and not is_parked(w, job, claim)


def park(w: World, job: int, claim: Claim) -> None:
    """Turns, payments and the job's end no longer wait for a disputed claim; `release` does."""
    end_claim(w, job, claim, ClaimStatus.PARKED)
    w.parked[job, claim] = ClaimStatus.PENDING
    _count_parked(w, job, claim.operator, 1)


def _count_parked(w: World, job: int, operator: int, change: int) -> None:
    record = w.record_of(job, operator)
    w.records[job, operator] = replace(record, parked=record.parked + change)


def pay(w: World, job: int, claims: tuple[Claim, ...], now: int, used_s: int = 0) -> None:
    """What is not void; an aggregation by how much of its own clock the operator used in the claim's dispute."""
    for (operator, is_aggregation), batch in groupby(claims, lambda claim: (claim.operator, claim.is_aggregation)):
        paid = tuple(claim for claim in batch if not is_void(w, job, claim))
        if is_aggregation:
            clock = w.config.preset.clocks
            paid = tuple(replace(claim, price=fading_pay(claim.price, used_s, clock)) for claim in paid)
        if paid:
            _pay(w, job, operator, is_aggregation, paid, now)


def _post(w: World, job: int, claim: Claim) -> None:
    place = place_of(w, job, claim)
    assert place not in w.claims or w.claims[place].claim != claim, "a claim is posted twice"
    w.claims[place] = Posted(claim)


def _pay(w: World, job: int, operator: int, is_aggregation: bool, claims: tuple[Claim, ...], now: int) -> None:
    run, count, price = w.runs[job], sum(c.count for c in claims), sum(claim.price for claim in claims)
    owner = node_registry.reward_outcome(w, operator, fee_of(price) if run.token == w.config.zen else 0, now=now)
    fee = jobs.pay(w, job, owner, price, now=now)
    if run.token == w.config.zen and not is_aggregation:
        weight = run.flops * count * node_registry.multiplier_of(w, operator) // 100
        rewards.record(w, job, operator, weight, fee, now=now)


def _require_open(run: Run, turn: int) -> None:
    require(run.state == JobState.RUNNING, "settlement: not running")
    require(turn == run.turn, "settlement: not the current turn")
    require(run.is_open, "settlement: depth reached")


def _require_complete(w: World, msg: Message, job: int, turn: int) -> Run:
    run = w.run(job)
    _require_open(run, turn)
    require(seats.inputs_complete(w, job, msg.now), "settlement: inputs open")
    return run


def _require_hot(w: World, msg: Message, operator: int) -> None:
    require(w.operator(operator).hot == msg.sender, "settlement: not the hot key")


def _require_estimate(run: Run, estimate_s: int) -> None:
    require(1 <= estimate_s <= run.slot_s, "settlement: estimate out of range")
