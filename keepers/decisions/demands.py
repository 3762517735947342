"""Which claims of others a keeper fetches, when it demands unserved data on chain, and which demands it closes.

Pure decisions over one snapshot, as in `duties`. A keeper demands data that it needs for its own duty: an aggregator the updates it
combines, a provider the checkpoint it trains from. In a job with custodians it demands of one that signed for the data, once nobody
serves it; and of every signer of a checkpoint that does not serve it, from the lane that stops no clocks while it can. In a delayed job
a provider demands it one turn earlier, since the window for demands may be over when its own turn begins. Demands from seats' lanes stop
the turn's clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keepers.decisions.orders import (
    NEWEST_CHECKPOINT,
    DemandChunk,
    Duty,
    Fetch,
    MissingData,
    OperatorContext,
    Precompute,
    Progress,
    Send,
    Train,
)
from keepers.decisions.requests import present_claims
from zoo_compute.chain.demands import Demand
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, Claim, JobView, Run
from zoo_compute.spec.availability import SIGNER_DEMANDS
from zoo_compute.spec.params import LANE_DEMANDS, MAX_AGGREGATORS, STRANGERS_LANE

ANSWERED_CHECKS = 2  # of one signer in a job: then I look after it on chain no more


def fetch_or_demand(view: JobView, run: Run, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    """Fetch claims of the open turn as soon as they are committed; demand data that is not served."""
    if view.unposted_seats_of(me.operator):
        yield from (Fetch(commit.seat) for commit in present_claims(view) if commit.seat not in progress.fetched)
    for seat, missing in progress.missing.items():
        claim, lane = _claim_of(view, run, seat), _lane(view, run, me)
        if claim is None or claim.final or lane is None or claim.operator == me.operator:
            continue
        asked = [d for d in view.demands if d.lane == lane and d.claim.fields == claim.fields]
        signer = _next_signer(view, me, claim, lane)
        can_demand = not view.custodians or signer is not None
        if can_demand and _is_due(view, run, me, claim, lane, missing, asked):
            yield DemandChunk(claim, lane, missing.chunks, signer)
        if seat < AGGREGATOR_SEAT and any(d.has_bytes for d in asked):
            # It is shown 4 KiB at a time, and nobody serves it: recompute the slots from the turn's inputs.
            known = progress.trained | progress.failed_slots
            yield from (Train(slot) for slot in missing.chunks if slot not in known)


def shares_to_fetch(view: JobView, operator: int) -> tuple[int, ...]:
    """Which of several aggregators' shares of the updates an operator combines; empty for whole updates, which custodians keep."""
    is_custodian = view.custody is not None and view.custody.place_of(operator) is not None
    if view.terms.aggregators == 1 or is_custodian:
        return ()
    return tuple(n - AGGREGATOR_SEAT for n, seat in view.aggregator_seats.items() if seat.operator == operator)


def signers_to_check(view: JobView, me: OperatorContext, made: Checkpoint) -> Mapping[int, int]:
    """Those who signed for a checkpoint, by place: whoever has a seat sees that they serve it, while there is time to demand it. Not those
    who lost their place for that already.
    """
    custody = view.custody
    if custody is None or view.run is None or _lane(view, view.run, me) is None or view.now > _latest_demand(made, me):
        return {}
    signers = custody.signers_of(made.turn, made.seat)
    others = {place: operator for place, operator in signers.items() if operator not in (me.operator, made.operator)}
    return {place: operator for place, operator in others.items() if not custody.was_helped(operator)}


def _latest_demand(made: Checkpoint, me: OperatorContext) -> int:
    """When a demand of a signer still ends before the claim's window does."""
    return made.deadline - 2 * me.answer_s


def demand_of_silent(view: JobView, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    """Demand of signers what they do not serve, each once a claim, one after the other. From the lane that stops no clocks, as others
    serve it; from mine where others use that one up, so that nobody shields a custodian by demands of its own. Of one that answered me
    often enough no more: it has the data, and every answer earns it my deposit.
    """
    taken: set[object] = set()  # claims, and operators: the first demand without an answer costs it its place
    for made, place in progress.silent:
        operator, latest = signers_to_check(view, me, made).get(place), _latest_demand(made, me)
        if operator is None or made.final or taken & {made.fields, operator}:
            continue
        # Others' demand that was opened later leaves me too little time to wait for it.
        early = latest - me.answer_s * 3 // 2
        open_ = _open_of(view, operator, STRANGERS_LANE)
        if len(open_) >= SIGNER_DEMANDS and min(d.opened_at for d in open_) < early:
            continue
        asked = [d for d in view.demands if d.claim.fields == made.fields]
        awaited = [d for d in asked if d.is_open and (d.demander == me.hot or d.opened_at < early)]
        lane = _lane_to_check(view, me, operator, asked, awaited)
        is_busy = any(d.lane == lane for d in awaited)
        mine = [d for d in view.demands if d.operator == operator and d.demander == me.hot]
        is_asked = any(d.claim.fields == made.fields for d in mine)
        has_answered = sum(d.end == "bytes" for d in mine) >= ANSWERED_CHECKS
        if lane is not None and not (is_busy or is_asked or has_answered):
            taken |= {made.fields, operator}
            yield DemandChunk(made, lane, {0: None}, place, is_check=True)


def precompute(view: JobView, run: Run, me: OperatorContext, progress: Progress) -> Iterator[Duty]:
    """Make the next checkpoint as the aggregator will, and train from it before it is posted.

    A delayed job's next turn starts from what is known already: its training waits behind the open turn's, where a slot takes
    nothing over from its last round and no other job of mine needs the workers; else until all of mine is committed.
    """
    mine = view.seats_of(me.operator)
    if not mine or run.round + 1 >= run.rounds:
        return
    is_mine_done = not any(run.missing >> number & 1 for number in mine)
    is_complete = view.inputs_complete(view.now) and run.committed >= run.quorum
    follows_at_once = is_mine_done or not (progress.carries_state or me.busy_elsewhere_s)
    if (view.delay and follows_at_once) or (is_complete and progress.precomputed):
        yield from (Train(slot, ahead=True) for seat in mine.values() for slot in seat.slots)
    if not is_complete or progress.precomputed:
        return
    if (
        progress.should_precompute
        and not view.aggregates(me.operator)
        and progress.local_seats >= {c.seat for c in present_claims(view)}
    ):
        yield Precompute()


def close_expired(view: JobView, me: OperatorContext, patience_s: int) -> Iterator[Duty]:
    """Close unanswered demands: mine at once, others' when it is my turn, as they may stop the clocks; never those made of me."""
    concerned = me.operator in view.stakes
    for demand in view.demands:
        if not demand.is_open or demand.operator == me.operator:
            continue
        overdue_s = view.now - demand.opened_at - me.answer_s
        mine = demand.demander == me.hot
        if overdue_s > 0 and (mine or (concerned and overdue_s > me.stagger_s + patience_s)):
            yield Send("availability", "close", (view.job, demand.claim.fields, demand.lane))


def deposits_outstanding(view: JobView, demander: str) -> int:
    """An account's deposits that were not refunded, in wei; open demands count."""
    return sum(demand.deposit for demand in view.demands if demand.demander == demander and not demand.refunded)


def _claim_of(view: JobView, run: Run, seat: int) -> Claim | None:
    if seat >= AGGREGATOR_SEAT:
        start_root = run.start_root if seat >= NEWEST_CHECKPOINT else view.slots_root
        made = view.made_checkpoint(run.round, start_root, run.turn)
        share = (seat - AGGREGATOR_SEAT) % MAX_AGGREGATORS
        return made[share] if share < len(made) else None
    return next((commit for commit in present_claims(view) if commit.seat == seat), None)


def _next_signer(view: JobView, me: OperatorContext, claim: Claim, lane: int) -> int | None:
    """The place of one that signed for a claim and was not asked by me yet, nor by others in vain, and that my lane does not ask for too
    much already; each lane begins with another.
    """
    if view.custody is None:
        return None
    asked = [d for d in view.demands if d.claim.fields == claim.fields]
    known = {me.operator, *(d.operator for d in asked if d.is_open or d.in_vain or d.lane == lane)}
    signers = view.custody.signers_of(claim.turn, claim.seat)
    left = [
        place
        for place, operator in signers.items()
        if operator not in known and len(_open_of(view, operator, lane)) < SIGNER_DEMANDS
    ]
    able = [place for place in left if not view.custody.was_helped(signers[place])] or left
    return able[lane % len(able)] if able else None


def _lane(view: JobView, run: Run, me: OperatorContext) -> int | None:
    """The lane that is mine in this job."""
    own = [number for number, seat in view.aggregator_seats.items() if seat.operator == me.operator]
    return min(own or view.seats_of(me.operator), default=None)


def _lane_to_check(
    view: JobView, me: OperatorContext, operator: int, asked: Sequence[Demand], awaited: Sequence[Demand]
) -> int | None:
    """The strangers' lane; where it is spent, or others' open demands keep it or the signer too long, mine: half of its demands."""
    assert view.run is not None, "whoever has signers to check has a seat"
    for lane, most in ((STRANGERS_LANE, LANE_DEMANDS), (_lane(view, view.run, me), LANE_DEMANDS // 2)):
        made = [d for d in asked if d.lane == lane]
        is_free = lane is not None and len(_open_of(view, operator, lane)) < SIGNER_DEMANDS
        if is_free and len(made) < most and not any(d.is_open and d not in awaited for d in made):
            return lane
    return None


def _open_of(view: JobView, operator: int, lane: int) -> list[Demand]:
    """A lane's open demands of an operator, of whatever claims."""
    return [d for d in view.demands if d.is_open and d.lane == lane and d.operator == operator]


def _is_due(
    view: JobView, run: Run, me: OperatorContext, claim: Claim, lane: int, missing: MissingData, asked: Sequence[Demand]
) -> bool:
    """Whether the data was missing for long enough since it was committed, or since my last demand of it had to be answered."""
    latest = claim.deadline - 2 * me.answer_s
    if view.now > latest or len(asked) >= LANE_DEMANDS or any(d.is_open for d in asked):
        return False
    mine_is_due = run.aggregator_due if lane >= AGGREGATOR_SEAT else view.seats[lane].deadline(run)
    patience_s = min(
        me.demand_after_s,
        max(0, latest - claim.made_at) / 2,
        max(0, mine_is_due - max(claim.made_at, run.opened_at)) / 4,
    )
    since = asked[-1].opened_at + me.answer_s if asked else claim.made_at
    return missing.asked_at >= since + patience_s
