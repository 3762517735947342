"""Locks: what operators have at stake in a job, what timeouts and convictions take of it, and to whom that goes (docs/protocol/locks.md)."""

from dataclasses import dataclass, replace

from zoo_compute.spec import jobs, node_registry
from zoo_compute.spec.clocks import End, silence_slash
from zoo_compute.spec.params import (
    AGGREGATOR_SEAT,
    AUDITS_BPS,
    BPS,
    FINDER_BPS,
    lock_of,
    lock_once,
    restitution,
    round_price,
    set_aside_of,
    slash_of,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Claim, JobState, Message, SetAside, Stake, World
from zoo_compute.spec.watching import NOBODY

ROLES = (False, True)  # whether an operator aggregates: its two locks never cover each other


@dataclass(frozen=True, slots=True)
class Taken:
    """What a conviction took of a lock, and where it went; the rest of `slashed` is burned."""

    slashed: int
    restored: int
    to_finder: int
    to_audits: int


def award(w: World, job: int, operator: int, seat: int, count: int, locked: int) -> None:
    """For Settlement: takes over what Auction locked behind a seat it awarded. An operator wins once in a role; an aggregator several seats."""
    key = job, operator, is_aggregator(seat)
    stake, slots = w.stakes.get(key, Stake()), slots_of(seat, count)
    w.stakes[key] = replace(
        stake, locked=stake.locked + locked, held=stake.held + 1, slots=stake.slots + slots, has_lock=True
    )


def take(w: World, job: int, operator: int, seat: int, count: int, price: int, dearer: int) -> None:
    """For Settlement: locks behind a seat that is taken over. What it costs more is restored, as far as these go, from what is set
    aside for it, and from the pot. Nobody is paid before the job is over."""
    is_new = not w.stake_of(job, operator, is_aggregator(seat)).has_lock
    token = w.job(job).token
    amount = _add(w, job, operator, seat, count, price, is_dearer=dearer > 0)
    node_registry.lock(w, operator, token, amount, new=is_new)
    leaver, share = _take_set_aside(w, job, seat, count)
    needed = min(needed_of(share, dearer), w.kept.get((job, leaver), 0))  # a conviction may have taken it
    if needed:
        w.kept[job, leaver] -= needed
    from_pot = min(w.job_pots.get(job, 0), dearer - needed)
    if from_pot:
        w.job_pots[job] -= from_pot
    restored = needed + from_pot
    if restored:
        node_registry.pay_out(w, token, restored)
        jobs.restore(w, job, restored, NOBODY, 0)


def vacate(
    w: World,
    job: int,
    operator: int,
    seat: int,
    count: int,
    price: int,
    *,
    whole: bool,
    left_turn: int,
    block_time: int,
) -> int:
    """For Settlement: slashes a tenth of the seat's lock; returns how much. price: the seat's; 0 slashes nothing.

    A part is set aside by the operator's reputation, the rest goes to the job's pot.
    """
    key = job, operator, is_aggregator(seat)
    stake = w.stakes[key]
    slashed = min(slash_of(lock_of(count * price, w.terms[job].audit_bps)), own_of(w, job, stake, key[2]))
    slots = stake.slots - slots_of(seat, count)
    held = stake.held - whole
    w.stakes[key] = replace(stake, locked=stake.locked - slashed, slots=slots, held=held, left_turn=left_turn)
    aside = set_aside_of(slashed, points_of(w, operator, stake, block_time)) if price else 0
    if aside:
        w.set_aside[job, seat] = SetAside(operator, count, aside)
        w.kept[job, operator] = w.kept.get((job, operator), 0) + aside
    w.job_pots[job] = w.job_pots.get(job, 0) + slashed - aside
    if price:
        node_registry.slash(w, operator, w.job(job).token, slashed, convicted=False)
    return slashed


def convict(w: World, job: int, claim: Claim, rounds: int, end: End, burned: int, left_turn: int) -> Taken:
    """For Settlement: takes a claim's lock, and the price of the rounds that rest on it; the operator's seats in that role are gone."""
    key = job, claim.operator, claim.is_aggregation
    stake, terms, token = w.stakes[key], w.terms[job], w.job(job).token
    lock = lock_of(claim.price, terms.audit_bps)
    lock = min(silence_slash(lock, burned, end), own_of(w, job, stake, claim.is_aggregation))
    restored = rounds * round_price(terms)
    assert restored <= restitution_of(w, job, claim.is_aggregation) - stake.drawn, "more rests on lies than is locked"
    w.stakes[key] = replace(
        stake,
        locked=stake.locked - lock - restored,
        drawn=stake.drawn + restored,
        left_turn=left_turn if stake.held else stake.left_turn,
        slots=0,
        held=0,
    )
    to_finder = lock * FINDER_BPS // BPS if end == End.JUDGED else 0
    to_audits = lock * AUDITS_BPS // BPS
    to_pot = slash_of(lock)
    w.finder_shares[job, claim] = to_finder
    w.taken_of_lock[job, claim] = lock
    node_registry.slash(w, claim.operator, token, lock + restored, convicted=True)
    if restored + to_audits:  # some tokens reject a transfer of 0
        node_registry.pay_out(w, token, restored + to_audits)
        jobs.restore(w, job, restored, w.config.audit_pool, to_audits)
    w.job_pots[job] = w.job_pots.get(job, 0) + to_pot + forfeit(w, job, claim.operator)
    node_registry.burn(w, token, lock - to_finder - to_audits - to_pot)
    return Taken(lock + restored, restored, to_finder, to_audits)


def reward_finder(w: World, job: int, claim: Claim, finder: str) -> None:
    """For Settlement: what a judgement set aside goes to the finder of the oldest seal; of nobody, it burns."""
    amount, token = w.finder_shares.get((job, claim), 0), w.job(job).token
    if not amount:
        return
    w.finder_shares[job, claim] = 0
    if finder == NOBODY:
        node_registry.burn(w, token, amount)
        return
    node_registry.pay_out(w, token, amount)
    jobs.restore(w, job, 0, finder, amount)


def burn(w: World, job: int) -> None:
    """For Settlement: the pot of a job that is over."""
    node_registry.burn(w, w.job(job).token, w.job_pots.get(job, 0))
    w.job_pots[job] = 0


def return_set_aside(w: World, msg: Message, job: int, operator: int) -> None:
    """Of a job that is over: what is set aside of an operator's slashes, and was not needed. It burns where the job was abandoned."""
    amount, run = w.kept.get((job, operator), 0), w.run(job)
    require(amount > 0, "locks: nothing set aside")
    _require_free(w, job, operator, run.turn, is_seated=True)
    w.kept[job, operator] = 0
    if run.round < run.rounds:
        node_registry.burn(w, run.token, amount)
    else:
        node_registry.pay_out(w, run.token, amount)
        jobs.restore(w, job, 0, w.operator(operator).owner, amount)


def release(w: World, msg: Message, job: int, operator: int) -> None:
    """Frees an operator's locks in a job once none of its claims can be convicted."""
    run = w.run(job)
    stakes = {role: w.stakes[job, operator, role] for role in ROLES if w.stake_of(job, operator, role).has_lock}
    require(len(stakes) > 0, "locks: nothing locked")
    is_seated = any(stake.held for stake in stakes.values())
    left = run.turn if is_seated else max(stake.left_turn for stake in stakes.values())
    _require_free(w, job, operator, left, is_seated=is_seated)
    for role, stake in stakes.items():
        w.stakes[job, operator, role] = Stake()
        node_registry.unlock(w, operator, run.token, stake.locked, last=True)


def is_aggregator(seat: int) -> bool:
    return seat >= AGGREGATOR_SEAT


def slots_of(seat: int, count: int) -> int:
    """How many slots a seat has; the aggregator's has none."""
    return 0 if is_aggregator(seat) else count


def seats_of(w: World, job: int, operator: int) -> int:
    """How many seats an operator has, in both roles."""
    return sum(w.stake_of(job, operator, role).held for role in ROLES)


def restitution_of(w: World, job: int, is_aggregation: bool) -> int:
    """What an operator locks once in a role, for rounds that its lies undo."""
    terms = w.terms[job]
    return restitution(terms) if is_aggregation else lock_once(terms)


def points_of(w: World, operator: int, stake: Stake, block_time: int) -> int:
    """The reputation that counts when an operator leaves a seat: none of an operator that took a dearer one. What escrow was paid for
    that seat would return to the submitter."""
    return 0 if stake.is_dearer else node_registry.reputation(w, operator, block_time)


def needed_of(share: int, dearer: int) -> int:
    """What of a set-aside goes to escrow when the seat is taken over: all of what it costs more, so nobody gains by leaving."""
    return min(share, dearer)


def forfeit(w: World, job: int, operator: int) -> int:
    """A conviction takes all that is set aside of an operator's slashes: a liar that left in time loses what it would without a record."""
    amount = w.kept.get((job, operator), 0)
    if amount:
        w.kept[job, operator] = 0
    return amount


def own_of(w: World, job: int, stake: Stake, is_aggregation: bool) -> int:
    """What a lock has left besides restitution."""
    return stake.locked - (restitution_of(w, job, is_aggregation) - stake.drawn)


def _require_free(w: World, job: int, operator: int, left: int, *, is_seated: bool) -> None:
    """left: the first turn in which the operator has surely no claim."""
    run = w.run(job)
    require(not is_seated or run.state == JobState.ENDED, "settlement: seat still occupied")
    is_settled = left <= run.turn and all(w.closed_turn(job, turn).pending == 0 for turn in range(left))
    require(is_settled and w.record_of(job, operator).parked == 0, "settlement: claims not final")


def _take_set_aside(w: World, job: int, seat: int, count: int) -> tuple[int, int]:
    """So many slots of a seat are taken over: who left it, and what was set aside for them."""
    record = w.set_aside.get((job, seat), SetAside())
    if not record.amount:
        return 0, 0
    share = record.amount * count // record.count
    left = replace(record, count=record.count - count, amount=record.amount - share)
    w.set_aside[job, seat] = left if left.count else SetAside()
    return record.operator, share


def _add(w: World, job: int, operator: int, seat: int, count: int, price: int, *, is_dearer: bool) -> int:
    """One seat more in a role; returns what it adds to the lock. Restitution is whole again."""
    role = is_aggregator(seat)
    stake = w.stake_of(job, operator, role)
    once = stake.drawn if stake.has_lock else restitution_of(w, job, role)
    amount = lock_of(count * price, w.terms[job].audit_bps) + once
    w.stakes[job, operator, role] = replace(
        stake,
        locked=stake.locked + amount,
        drawn=0,
        held=stake.held + 1,
        slots=stake.slots + slots_of(seat, count),
        is_dearer=stake.is_dearer or is_dearer,
        has_lock=True,
    )
    return amount
