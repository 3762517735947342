"""Settlement's disputes: verdicts of Referee and Availability on claims, and their consequences (docs/protocol/)."""

from dataclasses import replace

from zoo_compute.spec import bits, jobs, node_registry, seats
from zoo_compute.spec.params import (
    AUDITS_BPS,
    BPS,
    CHALLENGERS_BPS,
    MAX_DISPUTES,
    POLICY_ROLL_BACK,
    restitution,
    round_price,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.settlement import known, place_of
from zoo_compute.spec.state import Claim, ClaimStatus, JobState, Message, Posted, Run, World


def open_dispute(w: World, msg: Message, job: int, claim: Claim) -> None:
    """For Referee: a pending claim has one more open dispute."""
    require(msg.sender == w.config.referee, "settlement: not the referee")
    posted = known(w, job, claim)
    require(posted is not None, "settlement: unknown claim")
    require(msg.now <= seats.claim_deadline(w, job, claim.turn), "settlement: window closed")
    disputes = posted.disputes if posted else 0
    require(disputes < MAX_DISPUTES, "settlement: too many disputes")
    w.claims[place_of(w, job, claim)] = Posted(claim, disputes + 1)


def close_dispute(
    w: World, msg: Message, job: int, claim: Claim, convicted: bool, challengers: tuple[str, ...]
) -> None:
    """One open dispute less. If the claim was convicted meanwhile, nothing else changes."""
    require(msg.sender == w.config.referee, "settlement: not the referee")
    posted = known(w, job, claim)
    if posted is None:
        return
    require(posted.disputes > 0, "settlement: not in dispute")
    w.claims[place_of(w, job, claim)] = replace(posted, disputes=posted.disputes - 1)
    if convicted:
        _convict(w, job, claim, challengers, msg.now)


def void(w: World, msg: Message, job: int, claim: Claim) -> None:
    """The claim's data is unavailable: convicts it, without a reward for challengers."""
    require(msg.sender == w.config.availability, "settlement: not the availability")
    require(known(w, job, claim) is not None, "settlement: unknown claim")
    _convict(w, job, claim, (), msg.now)


def hold(w: World, msg: Message, job: int) -> None:
    """Stops the open turn's clocks until `resume`."""
    require(msg.sender == w.config.availability, "settlement: not the availability")
    run = w.run(job)
    w.runs[job] = replace(run, holds=run.holds + 1)


def resume(w: World, msg: Message, job: int, seconds: int) -> None:
    """Gives the open turn the lost time back."""
    require(msg.sender == w.config.availability, "settlement: not the availability")
    run = w.run(job)
    assert run.holds > 0, "holds underflow"
    run = replace(run, holds=run.holds - 1)
    if run.opened_at:
        opened_at = min(msg.now, run.opened_at + seconds)
        due = run.aggregator_due + seconds
        run = replace(run, opened_at=opened_at, aggregator_due=due, held_s=run.held_s + seconds)
    w.runs[job] = run


def _convict(w: World, job: int, claim: Claim, challengers: tuple[str, ...], now: int) -> None:
    """The claim is never paid, its operator loses seat and lock, and rounds that depend on it are repeated."""
    w.claims[place_of(w, job, claim)] = Posted(claim, status=ClaimStatus.CONVICTED)
    lock = seats.lock_of(w.runs[job], claim.seat, claim.count)
    slashed = seats.take_lock(w, job, claim.operator, lock, convicted=True)
    seats.remove_operator(w, job, claim.seat, claim.operator)
    run = w.runs[job]
    if claim.turn == run.turn:
        missing = run.missing | bits.bit(claim.seat)
        w.runs[job] = replace(run, missing=missing, committed=run.committed - claim.count)
        w.seats[job, claim.seat] = replace(w.seats[job, claim.seat], since=seats.since(run, now))
    else:
        seats.settle_claim(w, job, claim.turn)
    seats.give_time(w, job, now)
    cost = _cost_of_doing_again(w, job, claim)
    restored = _divide(w, job, claim, slashed, cost, challengers)
    if cost and restored == cost:
        _roll_back(w, job, claim, now)
    elif cost and run.state == JobState.RUNNING:  # the lock can no longer pay for it
        seats.close_turn(w, job, now, more=0)
        seats.end(w, job, now)
        return
    seats.open_next_turn(w, job, now)


def _can_roll_back(run: Run, claim: Claim) -> bool:
    return claim.is_aggregation or bool(run.policy & POLICY_ROLL_BACK)


def _cost_of_doing_again(w: World, job: int, claim: Claim) -> int:
    """The highest price of the rounds that depend on the claim; 0 if there are none."""
    run = w.runs[job]
    is_closed = claim.turn < run.turn and claim.round < run.round
    can_go_on = run.state == JobState.RUNNING or run.round == run.rounds
    if not (_can_roll_back(run, claim) and is_closed and can_go_on) or w.closed_turn(job, claim.turn).is_rolled_back:
        return 0
    rounds = run.round - claim.round + (1 if run.is_open else 0)
    cost = rounds * round_price(w.terms[job])
    assert cost <= restitution(w.terms[job]), "more rests on a claim than its lock was made for"
    return cost


def _divide(w: World, job: int, claim: Claim, slashed: int, cost: int, challengers: tuple[str, ...]) -> int:
    """Divides a slash: restitution, a reserve for more of it, challengers and audits; burns the rest."""
    run = w.runs[job]
    most = restitution(w.terms[job]) if _can_roll_back(run, claim) else 0
    from_slash = min(slashed, cost)
    from_reserve = min(run.reserve, cost - from_slash)
    kept = min(slashed, most) - from_slash
    rest = slashed - from_slash - kept
    share = rest * CHALLENGERS_BPS // BPS // len(challengers) if challengers else 0
    to_audits = rest * AUDITS_BPS // BPS
    restored, to_challengers = from_slash + from_reserve, share * len(challengers)
    paid_out = restored + to_challengers + to_audits
    w.runs[job] = replace(run, reserve=run.reserve - from_reserve + kept, pot=run.pot - paid_out)
    if paid_out:  # some tokens reject a transfer of 0
        node_registry.pay_out(w, run.token, paid_out)
        jobs.restore(w, job, restored, w.config.audit_pool, to_audits, challengers, share)
    seats.burn_from_pot(w, job, rest - to_challengers - to_audits)
    return restored


def _roll_back(w: World, job: int, claim: Claim, now: int) -> None:
    """Repeats the claim's round from its start state."""
    seats.close_turn(w, job, now, more=0)
    run = w.runs[job]
    for turn in range(claim.turn, run.turn):
        w.closed_turns[job, turn] = replace(w.closed_turns[job, turn], is_rolled_back=True)
    w.runs[job] = replace(run, round=claim.round, start_root=w.closed_turns[job, claim.turn].start_root)
    if run.state == JobState.ENDED:
        seats.advance(w, job, JobState.RUNNING)
