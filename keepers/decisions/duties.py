"""The duties of a keeper in a job: pure decisions over one snapshot of the chain.

Each function takes a `JobView` (every read at one block), who I am, and how far my own work is; it returns what to do, in
order. No I/O, no clock (`now` is the snapshot's block time), so the same snapshot always gives the same duties, and a keeper
that died at any line takes up where the chain says it is. Doing a duty twice is harmless: the contract refuses the second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from keepers.decisions import demands
from keepers.decisions.bidding import BATCH, auction_duties, reclaim_dead_bids, stagger_delay_s
from keepers.decisions.obstacles import RECOVERY_S, can_defend, defensible, is_permanent, unmet_by, why_not_aggregate
from keepers.decisions.orders import (
    Aggregate,
    AskPrice,
    CommitTrained,
    Duty,
    OperatorContext,
    PostAggregate,
    Prepare,
    Progress,
    Send,
    Train,
)
from keepers.decisions.requests import present_claims, present_mask
from zoo_compute.chain.views import (
    AGGREGATOR_SEAT,
    Checkpoint,
    ClaimState,
    Commit,
    JobStake,
    JobState,
    JobView,
    Kind,
    Run,
)
from zoo_compute.spec.bits import full
from zoo_compute.spec.pricing import least_taken
from zoo_compute.spec.schedule import Pace, makespan
from zoo_compute.spec.state import Said

TROUBLE_S = 60  # in what I announce; the deadline has it twice
PAYMENT_DELAY_S = 86_400  # the longest a payable claim waits to be paid together with others


def duties(view: JobView, me: OperatorContext, progress: Progress) -> list[Duty]:
    """Everything I should do for the job as of the snapshot's block, in order."""
    due: list[Duty] = [*demands.close_expired(view, me, stagger_delay_s(view, me, 0)), *reclaim_dead_bids(view, me)]
    due += demands.demand_of_silent(view, me, progress)
    if view.state == JobState.OPEN:
        due += auction_duties(view, me, progress)
    elif view.run is not None and view.state == JobState.AWARDED:
        due += _while_awarded(view, view.run, me, progress)
    elif view.run is not None and view.state == JobState.RUNNING:
        due += _while_running(view, view.run, me, progress)
    return due + list(_closing(view, me))


# -- ready -----------------------------------------------------------------------------------------------------------


def _while_awarded(view: JobView, run: Run, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    mine = view.slot_count_of(me.operator)
    for number, seat in view.seats_of(me.operator).items():
        if not _missing(run, number):
            continue
        if progress.failed:
            yield Send("settlement", "decline", (view.job, number, seat.count))
        elif progress.slot_s is None:
            yield Prepare()
        else:
            estimate = announced_s(progress, mine, me, run)
            yield Send("settlement", "ready", (view.job, number, estimate))
    if view.now > run.opened_at + me.ready_window_s + stagger_delay_s(view, me, 0):
        for number, seat in view.slot_seats.items():
            if _missing(run, number) and seat.operator != me.operator:
                yield Send("settlement", "expire", (view.job, number))
    yield from _take_vacant(view, run, me, progress)


# -- turns -----------------------------------------------------------------------------------------------------------


def _while_running(view: JobView, run: Run, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    if run.is_waiting:
        yield from _finalise(view, _awaited(view, run, me))
        if view.custodians and run.turn == 0 and view.now > run.aggregator_due + stagger_delay_s(view, me, 0):
            yield Send(
                "settlement", "abandon", (view.job,)
            )  # they never signed that they hold what the job starts from
        yield from _take_vacant(view, run, me, progress)
        return
    yield from demands.fetch_or_demand(view, run, me, progress)
    yield from _train_and_commit(view, run, me, progress)
    yield from _time_out_others(view, run, me, stagger_delay_s(view, me, run.turn))
    yield from _take_vacant(view, run, me, progress)
    yield from _aggregate(view, run, me, progress)
    yield from demands.precompute(view, run, me, progress)
    yield from _replace_aggregators(view, run, me, progress)
    if progress.slot_s is None and not progress.failed and view.seats_of(me.operator):
        yield Prepare()  # its record expired: bids elsewhere count what this job takes


def _awaited(view: JobView, run: Run, me: OperatorContext) -> list[Commit | Checkpoint]:
    """Others' claims that keep the next turn from opening, when it is my turn to finalise them."""
    others = [claim for claim in view.payable if claim.operator != me.operator and _is_needed(run, claim)]
    return [claim for claim in others if view.now > claim.deadline + me.stagger_s + stagger_delay_s(view, me, run.turn)]


def _is_needed(run: Run, claim: Commit | Checkpoint) -> bool:
    """Whether the next turn to open takes the place of the claim's turn."""
    return claim.turn + run.depth <= run.turn + (not run.is_waiting)


def _missing(run: Run, seat: int) -> bool:
    return bool(run.missing >> seat & 1)


def _train_and_commit(view: JobView, run: Run, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    """Train the seat that is due first, each seat from its first slot on; commit a seat when all its slots are trained."""
    due = {number: seat for number, seat in view.seats_of(me.operator).items() if _missing(run, number)}
    if run.inputs_closed(view.now) or view.inputs_signed:
        return
    for number, seat in sorted(due.items(), key=lambda item: item[1].deadline(run)):
        known = progress.trained | progress.failed_slots
        yield from (Train(slot) for slot in seat.slots if slot not in known)
        whole = next((i for i, slot in enumerate(seat.slots) if slot not in progress.trained), seat.count)
        lost_slots = whole < seat.count and seat.slots[whole] in progress.failed_slots
        pressed = view.now >= seat.deadline(run) - 2 * me.stagger_s
        if whole == seat.count:
            yield CommitTrained(number)
        elif lost_slots or (
            whole and pressed
        ):  # what is trained is committed once the chain says that the seat ends there
            yield Send("settlement", "decline", (view.job, number, seat.count - whole))


def _time_out_others(view: JobView, run: Run, me: OperatorContext, patience_s: int) -> Iterator[Duty]:
    # What too few custodians hold is absent, and the seat was not late.
    left_out = {commit.seat for commit in view.commits if (commit.turn, commit.state) == (run.turn, ClaimState.ABSENT)}
    for number, seat in view.slot_seats.items():
        deadline = seat.deadline(run)
        if seat.operator in (0, me.operator) or not _missing(run, number) or number in left_out:
            continue
        if not run.holds and deadline <= run.inputs_close and view.now > deadline + patience_s:
            yield Send("settlement", "time_out", (view.job, number))


def _take_vacant(view: JobView, run: Run, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    """Take as many slots of a vacant seat as I have capacity and collateral for, and time to train in this turn, once it pays my price."""
    vacant = {n: seat for n, seat in view.vacant_seats.items() if view.price_now(n) >= me.price}
    if not vacant or not _may_take(view, me, progress, Kind.SLOTS) or progress.failed:
        return
    slots = view.slot_count_of(me.operator)
    spare, free = me.capacity - slots, me.free
    spare = min(spare, defensible(view, me, progress, slots + max(spare, 0)) - slots)
    if spare <= 0:
        return
    if progress.slot_s is None:
        yield Prepare()
        return
    if not can_defend(view, me, progress.slot_s):
        return
    if Kind.SLOTS in me.unpriced:
        yield AskPrice(Kind.SLOTS, spare)
        return
    waiting = sum(seat.count for n, seat in view.seats_of(me.operator).items() if _missing(run, n))
    for number, seat in vacant.items():
        if view.lost_slots.get(me.operator, 0) & full(seat.count) << seat.first:
            continue  # what made me lose it may do so again: leave it to others
        room = min(spare, seat.count)
        if view.state == JobState.RUNNING and not _missing(run, number) and room < seat.count:
            continue  # its claim in this turn covers all of its slots, so it cannot be split now
        least = least_taken(run.slots, seat.count)
        counts = (c for c in range(room, least - 1, -1) if view.takeover_lock(number, c, me.operator) <= free)
        count = next((c for c in counts if _in_time(view, run, me, progress.slot_s, slots + c, waiting + c)), 0)
        if count:
            estimate = announced_s(progress, slots + count, me, run)
            yield Send("settlement", "take_over", (view.job, number, me.operator, count, estimate))
            spare, slots, waiting = spare - count, slots + count, waiting + count
            free -= view.takeover_lock(number, count, me.operator)


def _may_take(view: JobView, me: OperatorContext, progress: Progress, kind: Kind) -> bool:
    """Whether I take vacant seats of this kind: I do if I would bid for the job at all."""
    can = kind in me.kinds and not me.is_drained and not is_permanent(view, me, kind)
    if me.unpriced.get(kind) or (kind == Kind.AGGREGATOR and why_not_aggregate(view, progress)):
        return False
    return me.standby and can and not unmet_by(view, me)


def _in_time(view: JobView, run: Run, me: OperatorContext, slot_s: float, slots: int, waiting: int) -> bool:
    """Whether I can train `slots` slots in every turn, and `waiting` of them before the open turn's inputs close."""
    is_open = view.state == JobState.RUNNING and not run.is_waiting
    late = is_open and view.now + estimate_s(slot_s, waiting, me) >= run.inputs_close
    return not late and estimate_s(slot_s, slots, me) <= run.slot_s


def announced_s(progress: Progress, slots: int, me: OperatorContext, run: Run) -> int:
    """The seconds I announce on chain for `slots` slots: my seat's deadline is twice as long. With time for the round's checkpoint, and for
    what a keeper survives, which takes as long for a slot of seconds as for one of hours: an RPC that hangs, a stuck transaction, a restart.
    """
    assert progress.slot_s is not None, "I announce what I measured"
    training_s = estimate_s(progress.slot_s, slots, me) - RECOVERY_S
    trouble_s = max(RECOVERY_S, min(TROUBLE_S, me.ready_window_s // 3))  # a devnet's windows have no room for more
    return min(run.slot_s, training_s + math.ceil(progress.load_s) + trouble_s)


def estimate_s(slot_s: float, slots: int, me: OperatorContext) -> int:
    """The seconds that `slots` slots take on my workers, beside my other jobs; one worker may die once."""
    return math.ceil(training_time_s(slot_s, slots, me.relative_paces) + me.busy_elsewhere_s) + RECOVERY_S


def training_time_s(slot_s: float, slots: int, relative_paces: Sequence[float]) -> float:
    """Seconds in which workers of these paces train so many slots: the faster ones more of them (keepers/queue/presence.py)."""
    each = [Pace(number, max(1, math.ceil(1_000 * slot_s * pace))) for number, pace in enumerate(relative_paces)]
    return makespan(slots, each) / 1_000


# -- aggregation -----------------------------------------------------------------------------------------------------


def _aggregate(view: JobView, run: Run, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    mine = view.unposted_seats_of(me.operator)
    if not mine or not view.inputs_complete(view.now) or run.committed < run.quorum:
        return
    if view.awaits_custodians:
        return
    yield from _time_out_others(view, run, me, 0)  # a silent holder must not escape its slash by the turn's end
    is_fetched = progress.fetched.issuperset(commit.seat for commit in present_claims(view))
    for seat in mine:
        if seat in progress.aggregated:
            yield PostAggregate(present_mask(view, run), seat)
        elif is_fetched:
            yield Aggregate(seat)


def _replace_aggregators(view: JobView, run: Run, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    """End a job that cannot close its turn; replace aggregators that stay silent, one at a time: the next look has what that changes."""
    turn = stagger_delay_s(view, me, run.turn)
    if run.committed < run.quorum:
        if view.inputs_complete(view.now - turn):
            yield Send("settlement", "abandon", (view.job,))
        return
    replacing = (_replace_aggregator(view, run, me, progress, seat, turn) for seat in view.unposted_seats)
    due = next((duty for duty in replacing if duty is not None), None)
    if due is not None:
        yield due


def _replace_aggregator(
    view: JobView, run: Run, me: OperatorContext, progress: Progress, number: int, turn: int
) -> Duty | None:
    """turn: the seconds that I leave to others."""
    operator, is_late = view.seats[number].operator, view.now > run.aggregator_due + turn
    if operator and view.custodians and is_late:
        # Nobody is late where no majority signed for inputs, or two aggregators in turn lacked signatures for their checkpoints.
        if not view.inputs_signed or Said(run.said).is_short_again:
            return Send("settlement", "abandon", (view.job,))
        if operator != me.operator:
            return Send("settlement", "time_out", (view.job, number))
    elif operator and is_late:
        if operator != me.operator and not run.holds:
            return Send("settlement", "time_out", (view.job, number))
    elif not operator:
        is_able = me.free >= view.takeover_lock(number, 1, me.operator)
        pays = view.price_now(number) >= me.aggregator_price
        may_take = is_able and pays and _may_take(view, me, progress, Kind.AGGREGATOR)
        if may_take and Kind.AGGREGATOR in me.unpriced:
            return AskPrice(Kind.AGGREGATOR, 1)
        if may_take:
            estimate = min(run.aggregate_s, run.slot_s)
            return Send("settlement", "take_over", (view.job, number, me.operator, 1, estimate))
        if is_late and not run.holds:
            return Send("settlement", "abandon", (view.job,))
    return None


# -- money -----------------------------------------------------------------------------------------------------------


def _closing(view: JobView, me: OperatorContext) -> Iterator[Duty]:
    """Finalise what is due (my own first; others' when they are late), release my lock, have back what is set aside."""
    mine = [claim for claim in view.payable if claim.operator == me.operator]
    left = [claim for claim in view.payable if claim.operator != me.operator and _left_lying(view, me, claim)]
    yield from _finalise(view, [*(mine if _worth_paying(view, mine, me) else ()), *left])
    yield from _finalise(view, _to_park(view, me))
    stake = view.stakes.get(me.operator)
    is_parked = any(c.parked and not c.final for c in view.claims if c.operator == me.operator)
    if stake is not None and not is_parked and _releasable(view, stake):
        yield Send("locks", "release", (view.job, me.operator))
    is_complete = view.run is not None and view.run.round == view.run.rounds  # otherwise it burns
    if view.closed and is_complete and not is_parked and view.set_aside.get(me.operator):
        yield Send("locks", "return_set_aside", (view.job, me.operator))


def _to_park(view: JobView, me: OperatorContext) -> list[Commit | Checkpoint]:
    """Disputed claims for which the next turn, or the job's end, need not wait: whoever has money in the job sets them aside."""
    run, stake = view.run, view.stakes.get(me.operator)
    if run is None or stake is None or stake.lots == 0:
        return []
    waits = view.state == JobState.RUNNING and run.is_waiting
    due = [claim for claim in view.parkable if view.state == JobState.ENDED or (waits and _is_needed(run, claim))]
    turn_s = me.stagger_s + stagger_delay_s(view, me, run.turn)
    return [claim for claim in due if claim.operator == me.operator or view.now > claim.deadline + turn_s]


def _finalise(view: JobView, claims: Sequence[Commit | Checkpoint]) -> Iterator[Duty]:
    """One operator's claims follow each other: the contract pays them together."""
    ordered = sorted(claims, key=lambda c: (c.operator, c.seat >= AGGREGATOR_SEAT, c.turn, c.seat))
    for start in range(0, len(ordered), BATCH):
        yield Send("settlement", "finalise", (view.job, [c.fields for c in ordered[start : start + BATCH]]))


def _worth_paying(view: JobView, due: Sequence[Commit | Checkpoint], me: OperatorContext) -> bool:
    """Several turns are paid at once: when their place is needed, when the last window is over, or after a day at most."""
    if not due or view.run is None:
        return False
    if view.state == JobState.ENDED:
        pending = [claim for claim in view.pending if claim.operator == me.operator and not claim.disputed]
        return all(claim in due for claim in pending)
    return _is_needed(view.run, due[0]) or view.now > due[0].deadline + PAYMENT_DELAY_S


def _releasable(view: JobView, stake: JobStake) -> bool:
    """Whether a lock can be released: with a seat, when the job is over; else when no claim from before it left is pending."""
    if stake.lots == 0 or view.run is None:
        return False
    if stake.held:
        return view.state == JobState.ENDED and not view.pending
    return stake.left_turn <= view.run.turn and all(claim.turn >= stake.left_turn for claim in view.pending)


def _left_lying(view: JobView, me: OperatorContext, claim: Commit | Checkpoint) -> bool:
    """Whether another operator's claim is payable for so long that its operator seems gone."""
    due = claim.deadline + PAYMENT_DELAY_S
    if view.state == JobState.ENDED:
        due = max(c.deadline for c in view.pending if c.operator == claim.operator and not c.disputed)
    return view.now > due + 3 * me.stagger_s + stagger_delay_s(view, me, 0)
