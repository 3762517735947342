"""Settlement's disputes: what Referee and Availability say of claims, and its consequences (docs/protocol/settlement.md)."""

from dataclasses import replace

from zoo_compute.spec import bits, locks, seats, settlement
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import Terms
from zoo_compute.spec.params import POLICY_ROLL_BACK
from zoo_compute.spec.revert import require
from zoo_compute.spec.settlement import known, place_of, require_known
from zoo_compute.spec.state import Claim, ClaimStatus, JobState, Message, Posted, World


def dispute_terms(w: World, job: int, claim: Claim) -> Terms:
    """What the clocks and prices of a pending claim follow from. A claim of an operator convicted since is judged, too."""
    require_known(w, job, claim)
    slots = 1 if claim.is_aggregation else max(claim.count, w.stake_of(job, claim.operator, False).slots)
    deadline = seats.claim_deadline(w, job, claim.turn)
    return Terms(w.job(job).work_root, w.terms[job].reexecute_s, slots, 0 if deadline == UINT256_MAX else deadline)


def open_dispute(w: World, msg: Message, job: int, claim: Claim) -> None:
    """For Referee: a pending claim is not paid before its dispute is closed."""
    require(msg.sender == w.config.referee, "settlement: not a protocol contract")
    posted, run = require_known(w, job, claim), w.run(job)
    if not posted.is_disputed:
        require(claim.turn < run.turn or not run.has_custodians, "settlement: turn is open")
        w.claims[place_of(w, job, claim)] = replace(posted, is_disputed=True)


def close_dispute(w: World, msg: Message, job: int, claim: Claim, outcome: int, used_s: int, burned: int) -> None:
    """For Referee: how a dispute ended. Of a claim that is not pending any more nothing changes.

    used_s: of the committer's own clock; burned: of the prices of asks that exhausted it.
    """
    require(msg.sender == w.config.referee, "settlement: not a protocol contract")
    if known(w, job, claim) is None:
        return
    end = End(outcome)
    if end not in (End.FINAL, End.AGED):
        _convict(w, job, claim, end, burned, msg.now)
        return
    is_void = end == End.AGED or settlement.is_void(w, job, claim)
    settlement.end_claim(w, job, claim, ClaimStatus.VOID if is_void else ClaimStatus.PAID)
    if not is_void:
        settlement.pay(w, job, (claim,), msg.block_time, used_s)
    seats.open_next_turn(w, job, msg.now)


def reward_finder(w: World, msg: Message, job: int, claim: Claim, finder: str) -> None:
    """For Referee: what a judgement set aside goes to the finder of the oldest seal; of nobody, it burns."""
    require(msg.sender == w.config.referee, "settlement: not a protocol contract")
    locks.reward_finder(w, job, claim, finder)


def void(w: World, msg: Message, job: int, claim: Claim) -> None:
    """The claim's data is unavailable: convicts it, as silence does."""
    require(msg.sender == w.config.availability, "settlement: not a protocol contract")
    require_known(w, job, claim)
    _convict(w, job, claim, End.SILENT, 0, msg.now)


def hold(w: World, msg: Message, job: int) -> None:
    """Stops the open turn's clocks until `resume`."""
    require(msg.sender == w.config.availability, "settlement: not a protocol contract")
    run = w.run(job)
    w.runs[job] = replace(run, holds=run.holds + 1)


def resume(w: World, msg: Message, job: int, seconds: int) -> None:
    """Gives the open turn the lost time back."""
    require(msg.sender == w.config.availability, "settlement: not a protocol contract")
    run = w.run(job)
    assert run.holds > 0, "holds underflow"
    run = replace(run, holds=run.holds - 1)
    if run.opened_at:
        opened_at = min(msg.now, run.opened_at + seconds)
        due = run.aggregator_due + seconds
        run = replace(run, opened_at=opened_at, aggregator_due=due, held_s=run.held_s + seconds)
    w.runs[job] = run


def _convict(w: World, job: int, claim: Claim, end: End, burned: int, now: int) -> None:
    """The claim is never paid, its operator loses lock and seats, and rounds that depend on it are repeated, or paid back."""
    run, rounds = w.runs[job], _rounds_resting_on(w, job, claim)
    record, next_turn = w.record_of(job, claim.operator), seats.next_turn(run)
    w.records[job, claim.operator] = replace(record, void_before=next_turn)
    locks.convict(w, job, claim, rounds, end, burned, next_turn)
    seats.unseat(w, job, claim.operator, claim.is_aggregation, now)
    if claim.turn == run.turn:
        w.claims[place_of(w, job, claim)] = Posted(claim, status=ClaimStatus.CONVICTED)
        missing = run.missing | bits.bit(claim.seat)
        w.runs[job] = replace(run, missing=missing, committed=run.committed - claim.count)
        w.seats[job, claim.seat] = replace(w.seats[job, claim.seat], since=seats.since(run, now))
    else:
        settlement.end_claim(w, job, claim, ClaimStatus.CONVICTED)
    seats.give_time(w, job, now)
    if rounds:
        _roll_back(w, job, claim, now)
    seats.open_next_turn(w, job, now)


def _rounds_resting_on(w: World, job: int, claim: Claim) -> int:
    """How many rounds are done again, or paid back where the job was abandoned."""
    run = w.runs[job]
    can_roll_back = claim.is_aggregation or run.policy & POLICY_ROLL_BACK
    is_closed = claim.turn < run.turn and claim.round < run.round
    if not (can_roll_back and is_closed) or w.closed_turn(job, claim.turn).is_rolled_back:
        return 0
    # Of the open turn, or of the one in which the job was abandoned, claims are paid too.
    is_abandoned = run.state == JobState.ENDED and run.round < run.rounds
    has_open = run.is_open or (is_abandoned and not w.closed_turn(job, run.turn - 1).is_rolled_back)
    return run.round - claim.round + (1 if has_open else 0)


def _roll_back(w: World, job: int, claim: Claim, now: int) -> None:
    """The claim's round is done again from its start state; an abandoned job ends there."""
    is_complete = w.runs[job].round == w.runs[job].rounds
    seats.close_turn(w, job, now)
    run = w.runs[job]
    for turn in range(claim.turn, run.turn):
        w.closed_turns[job, turn] = replace(w.closed_turns[job, turn], is_rolled_back=True)
    w.runs[job] = replace(run, round=claim.round, start_root=w.closed_turns[job, claim.turn].start_root)
    if run.state == JobState.ENDED and is_complete:
        seats.advance(w, job, JobState.RUNNING)
