"""Settlement's disputes: what Referee and Availability say of claims, and its consequences (docs/protocol/settlement.md)."""

from dataclasses import replace

from zoo_compute.spec import bits, jobs, node_registry, seats, settlement
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.clocks import End, silence_slash
from zoo_compute.spec.disputed_claims import Terms
from zoo_compute.spec.params import (
    AUDITS_BPS,
    BPS,
    FINDER_BPS,
    POLICY_ROLL_BACK,
    restitution,
    round_price,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.settlement import known, place_of, require_known
from zoo_compute.spec.state import Claim, ClaimStatus, JobState, Message, Posted, Run, World
from zoo_compute.spec.watching import NOBODY


def dispute_terms(w: World, job: int, claim: Claim) -> Terms:
    """What the clocks and prices of a pending claim follow from. A claim of an operator convicted since is judged, too."""
    require_known(w, job, claim)
    slots = 1 if claim.is_aggregation else max(claim.count, w.stake_of(job, claim.operator).slots)
    deadline = seats.claim_deadline(w, job, claim.turn)
    return Terms(w.job(job).work_root, w.terms[job].reexecute_s, slots, 0 if deadline == UINT256_MAX else deadline)


def open_dispute(w: World, msg: Message, job: int, claim: Claim) -> None:
    """For Referee: a pending claim is not paid before its dispute is closed."""
    require(msg.sender == w.config.referee, "settlement: not the referee")
    posted = require_known(w, job, claim)
    if not posted.is_disputed:
        w.claims[place_of(w, job, claim)] = replace(posted, is_disputed=True)


def close_dispute(w: World, msg: Message, job: int, claim: Claim, outcome: int, used_s: int, burned: int) -> None:
    """For Referee: how a dispute ended. Of a claim that is not pending any more nothing changes.

    used_s: of the committer's own clock; burned: of the prices of asks that exhausted it.
    """
    require(msg.sender == w.config.referee, "settlement: not the referee")
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
    require(msg.sender == w.config.referee, "settlement: not the referee")
    amount = w.finder_shares.get((job, claim), 0)
    if not amount:
        return
    w.finder_shares[job, claim] = 0
    token = w.run(job).token
    if finder == NOBODY:
        node_registry.burn(w, token, amount)
        return
    node_registry.pay_out(w, token, amount)
    jobs.restore(w, job, 0, finder, amount)


def void(w: World, msg: Message, job: int, claim: Claim) -> None:
    """The claim's data is unavailable: convicts it, as silence does."""
    require(msg.sender == w.config.availability, "settlement: not the availability")
    require_known(w, job, claim)
    _convict(w, job, claim, End.SILENT, 0, msg.now)


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


def _convict(w: World, job: int, claim: Claim, end: End, burned: int, now: int) -> None:
    """The claim is never paid, its operator loses seat and lock, and rounds that depend on it are repeated."""
    lock, cost = seats.lock_of(w.runs[job], claim.seat, claim.count), _cost_of_doing_again(w, job, claim)
    loses = lock if end == End.JUDGED else max(silence_slash(lock, burned, end), min(lock, cost))
    slashed = seats.take_lock(w, job, claim.operator, loses, convicted=True)
    seats.remove_operator(w, job, claim.seat, claim.operator)
    run = w.runs[job]
    if claim.turn == run.turn:
        w.claims[place_of(w, job, claim)] = Posted(claim, status=ClaimStatus.CONVICTED)
        missing = run.missing | bits.bit(claim.seat)
        w.runs[job] = replace(run, missing=missing, committed=run.committed - claim.count)
        w.seats[job, claim.seat] = replace(w.seats[job, claim.seat], since=seats.since(run, now))
    else:
        settlement.end_claim(w, job, claim, ClaimStatus.CONVICTED)
    seats.give_time(w, job, now)
    restored = _divide(w, job, claim, slashed, cost, FINDER_BPS if end == End.JUDGED else 0)
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


def _divide(w: World, job: int, claim: Claim, slashed: int, cost: int, finder_bps: int) -> int:
    """Divides a slash: restitution, a reserve for more of it, a finder and audits; burns the rest."""
    run = w.runs[job]
    most = restitution(w.terms[job]) if _can_roll_back(run, claim) else 0
    from_slash = min(slashed, cost)
    from_reserve = min(run.reserve, cost - from_slash)
    kept = min(slashed, most) - from_slash
    rest = slashed - from_slash - kept
    to_finder, to_audits = rest * finder_bps // BPS, rest * AUDITS_BPS // BPS
    restored = from_slash + from_reserve
    paid_out = restored + to_audits
    w.runs[job] = replace(run, reserve=run.reserve - from_reserve + kept, pot=run.pot - paid_out - to_finder)
    w.finder_shares[job, claim] = to_finder
    if paid_out:  # some tokens reject a transfer of 0
        node_registry.pay_out(w, run.token, paid_out)
        jobs.restore(w, job, restored, w.config.audit_pool, to_audits)
    seats.burn_from_pot(w, job, rest - to_finder - to_audits)
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
