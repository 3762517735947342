"""What an operator can bid for in a lot, and the reasons why it cannot bid, as text for its owner. Pure, as `duties`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from keepers.decisions.defence import COUNTED_REEXECUTIONS, PathClock, Promise, defensible_slots, overload
from keepers.decisions.orders import OperatorContext, Progress
from zoo_compute.amounts import CREDIT, ZEN, format_seconds
from zoo_compute.chain.views import JobView, Kind
from zoo_compute.gpus import TIERS
from zoo_compute.requirement_words import format_classes, format_region
from zoo_compute.spec.params import GPU_CLASSES
from zoo_compute.spec.pricing import least_capacity
from zoo_compute.spec.requirements import requirements_of, unmet
from zoo_compute.spec.schedule import Work, Worker, periods, suits

SHARES_MARGIN = 3  # what combining a share takes besides its arithmetic: updates are fetched, the checkpoint is stored
RECOVERY_S = 6  # in every estimate: a worker killed in the middle is back, and the commitment is mined
MEASURED_AGAIN = "; it is measured again after a while, in case this machine was busy"
ROLES = {Kind.SLOTS: "as provider", Kind.AGGREGATOR: "as aggregator"}


def reasons_not_to_bid(view: JobView, me: OperatorContext, progress: Progress) -> str:
    """Why I do not bid in an open job, for each of my roles that cannot; empty if every role can."""
    if me.token is None:
        return f"it pays in {view.token}, and operator.json has no price in it; zoo node configure --price N --token {view.token}"
    my_bids = {kind for (kind, operator), bid in view.bids.items() if operator == me.operator}
    why = {kind: obstacle(view, me, progress, kind) for kind in me.kinds if kind not in my_bids}
    reasons = {
        kind: text + (MEASURED_AGAIN if is_measured_short(view, me, progress, kind) else "")
        for kind, text in why.items()
        if text
    }
    if len(me.kinds) == 1:
        return "".join(reasons.values())
    return "; ".join(f"{ROLES[Kind(kind)]}: {text}" for kind, text in reasons.items())


def obstacle(view: JobView, me: OperatorContext, progress: Progress, kind: int) -> str | None:
    """The reason why I cannot bid in a lot, at any reserve; None if I can."""
    return next(_obstacles(view, me, progress, kind), None)


def biddable_units(view: JobView, me: OperatorContext, progress: Progress, kind: int) -> int:
    """Units that I can bid for: those I have workers and collateral for."""
    lot = view.lots[kind]
    room = min(
        lot.units, min(me.capacity, me.most_units) if kind == Kind.SLOTS else _shares_in_time(view, me, progress)
    )
    if lot.lock:
        room = min(room, max(0, free(view, me) - view.bid_lock(kind, 0)) // lot.lock)
    if kind == Kind.SLOTS and progress.slot_s is not None:
        room = min(room, _fitting(view, me, progress.slot_s), defensible(view, me, progress, room))
    return room if room >= least_capacity(lot.units) else 0


def _shares_in_time(view: JobView, me: OperatorContext, progress: Progress) -> int:
    """How many shares of the model I can combine, one after another, in the job's time for one. At least one: `why_not_aggregate`
    decides about that.
    """
    if me.aggregator_capacity == 1 or not progress.aggregation_s:
        return me.aggregator_capacity
    return max(1, min(me.aggregator_capacity, int(view.terms.aggregate_s / (SHARES_MARGIN * progress.aggregation_s))))


def free(view: JobView, me: OperatorContext) -> int:
    """My collateral that no lock binds once my dead bids in this job are reclaimed."""
    dead = 0
    for (kind, operator), bid in view.bids.items():
        lot = view.lots[kind]
        over = bid.attempt < lot.attempt or view.now >= lot.reveal_end
        dead += view.locked_by(kind, bid) if operator == me.operator and over and bid.revealed else 0
    return max(0, me.free + dead)


def is_measured_short(view: JobView, me: OperatorContext, progress: Progress, kind: int) -> bool:
    """Whether I would bid for more of a lot if my worker had measured the job as quicker. What my other jobs alone leave no room for would
    only be measured beside them, and their slots would wait for it.
    """
    quick = replace(
        progress, slot_s=None, opening_s=0.0, aggregation_s=0.0, failed=progress.failed and not progress.over_limit
    )
    if obstacle(view, me, quick, kind) is not None:
        return False
    idle = replace(me, busy_elsewhere_s=0.0, promises=())
    is_short = obstacle(view, idle, progress, kind) is not None
    return is_short or biddable_units(view, idle, progress, kind) < biddable_units(view, idle, quick, kind)


def times(progress: Progress) -> str:
    """What was measured, for people."""
    slot, opening = (format_seconds(round(seconds, 1)) for seconds in (progress.slot_s or 0.0, progress.opening_s))
    return f"a slot takes {slot} here, and answering one opening {opening}{MEASURED_AGAIN}"


def is_permanent(view: JobView, me: OperatorContext, kind: int) -> bool:
    """Whether I can never bid in this job, because of its submitter, my price, its length, or what my GPU is registered as."""
    return any(_for_ever(view, me, kind))


def not_served(view: JobView, me: OperatorContext) -> str:
    """Why I serve nothing of this submitter; empty if I do."""
    if view.submitter in me.deny:
        return f"its submitter {view.submitter} is in `deny` of operator.json"
    if me.allow and view.submitter not in me.allow:
        return f"its submitter {view.submitter} is not in `allow` of operator.json"
    return ""


def _for_ever(view: JobView, me: OperatorContext, kind: int) -> Iterator[str]:
    if why := not_served(view, me):
        yield why
    most, unit = view.lots[kind].max_reserve, "a slot-round" if kind == Kind.SLOTS else "an aggregation"
    if me.price_for(kind) > most:
        show = (me.token or ZEN).format
        yield f"the price is {show(me.price_for(kind))} {unit}, and the job pays {show(most)} at most"
    if max_job_s(view) > me.max_job_s:
        yield f"the job may take {format_seconds(max_job_s(view))}, and longest_job_days allows {format_seconds(me.max_job_s)}"
    yield from (REGISTERED[name](view, me) for name in unmet_by(view, me) if name in REGISTERED)
    if kind == Kind.SLOTS and not _is_for_me(view, me):
        yield "its slots are too heavy for this class of GPU"


def unmet_by(view: JobView, me: OperatorContext) -> tuple[str, ...]:
    """The names of the job's requirements that I do not meet now: the auction refuses my bids, and gives me no vacant seat."""
    return unmet(requirements_of(view.terms.requirements), me.capability)


def _asked_class(view: JobView, me: OperatorContext) -> str:
    asked = format_classes(requirements_of(view.terms.requirements).classes)
    return f"it asks for class {asked}, and this node is registered as {GPU_CLASSES[me.capability.gpu_class].name}"


def _asked_memory(view: JobView, me: OperatorContext) -> str:
    asked = requirements_of(view.terms.requirements).vram_gb
    return f"it asks for {asked} GB, and this node is registered with {me.capability.vram_gb} GB"


def _asked_tier(view: JobView, me: OperatorContext) -> str:
    asked, names = requirements_of(view.terms.requirements).tier, {number: name for name, number in TIERS.items()}
    return (
        f"it asks for tier {names[asked]} in this epoch and the next, and this node's is {names[me.capability.tier]}; "
        f"zoo node declare --tier {names[asked]} --hours 0-23"
    )


def _asked_hours(view: JobView, me: OperatorContext) -> str:
    asked = requirements_of(view.terms.requirements).hours
    return (
        f"it asks for {asked} promised hours in this epoch and the next, and this node promises {me.capability.hours}; "
        "zoo node declare --hours"
    )


def _asked_region(view: JobView, me: OperatorContext) -> str:
    asked = format_region(requirements_of(view.terms.requirements).region)
    declared = format_region(me.capability.region) or "none"
    return f"it asks for region {asked}, and this node declares {declared}; zoo node declare --region"


def _asked_admission(view: JobView, me: OperatorContext) -> str:
    return "it asks for machines that passed a trial, and this node's did not; zoo node admit"


# By the name of a requirement, why I do not meet it: what I am registered as stays, the rest its owner can change.
REGISTERED = {"classes": _asked_class, "vram_gb": _asked_memory}
OWNERS = {"admitted": _asked_admission, "tier": _asked_tier, "hours": _asked_hours, "region": _asked_region}


def _obstacles(view: JobView, me: OperatorContext, progress: Progress, kind: int) -> Iterator[str]:
    lot = view.lots[kind]
    least = least_capacity(lot.units)
    if me.no_room:
        yield f"the node takes no new jobs: {me.no_room}"
    elif me.is_drained:
        yield "the node takes no new jobs: it is draining or leaving, or its stake is too small; zoo node show"
    yield from _for_ever(view, me, kind)
    yield from (OWNERS[name](view, me) for name in unmet_by(view, me) if name in OWNERS)
    if kind == Kind.SLOTS and not _is_for_me(view, me, periods(view.wall(view.now), max_job_s(view), me.epoch_s)):
        yield "it would run in hours that availability_hours does not list"
    if kind in me.ring_conflicts:
        yield f"the bid in job {me.ring_conflicts[kind]} has its place on chain, and keeps it until that job is over"
    if progress.failed:
        yield f"its files cannot be used here: {progress.why or 'the worker says why in its log'}"
    if free(view, me) < view.bid_lock(kind, least):
        each = "" if kind == Kind.AGGREGATOR else " a slot" if least == 1 else f" for {least} slots"
        token = me.token or ZEN
        deposit = f"zoo node deposit {token.exact(view.bid_lock(kind, least) - free(view, me))}"
        if token.symbol == CREDIT.symbol:
            deposit = f"zoo credits pledge {token.exact(view.bid_lock(kind, least) - free(view, me))}"
        elif token.symbol != ZEN.symbol:
            deposit += f" --token {token.address}"
        yield f"collateral {token.format(free(view, me))} free, {token.format(view.bid_lock(kind, least))} needed{each}; {deposit}"
    if kind == Kind.SLOTS and me.most_units < least:
        yield f"a bid offers at least {least} slots, and the stake covers {me.most_units}; zoo node stake AMOUNT"
    if kind == Kind.SLOTS:
        yield from _too_slow_or_busy(view, me, progress.slot_s, least)
        yield from _indefensible(view, me, progress, least)
    elif why := why_not_aggregate(view, progress):
        yield why
    if me.unpriced.get(kind):
        yield f"price_script {me.unpriced[kind]}"


def why_not_aggregate(view: JobView, progress: Progress) -> str:
    """Why this machine cannot be the job's aggregator, as far as it was measured; empty if it can."""
    if progress.cannot_aggregate or progress.aggregation_s <= view.terms.aggregate_s:
        return progress.cannot_aggregate
    takes = format_seconds(round(progress.aggregation_s, 1))
    return f"combining a round's updates takes at least {takes} here, too long for the job's aggregate_s of {view.terms.aggregate_s}"


def _too_slow_or_busy(view: JobView, me: OperatorContext, slot_s: float | None, least: int) -> Iterator[str]:
    if me.capacity <= 0:
        yield "all slots of this node are in other jobs"
    elif me.capacity < least:
        yield f"a bid offers at least {least} slots, and this node has {me.capacity} free; capacity in operator.json"
    if slot_s is None:
        return
    takes = f"a slot takes {format_seconds(round(slot_s, 1))} here"
    if not can_defend(view, me, slot_s):
        yield f"{takes}, too long to do again in a dispute: the job's reexecute_s is {view.terms.reexecute_s}"
    elif _fitting(view, me, slot_s) < least:
        yield f"{takes} beside other jobs, too long for the job's slot_s of {view.terms.slot_s}"


def _indefensible(view: JobView, me: OperatorContext, progress: Progress, least: int) -> Iterator[str]:
    """What was measured, what the clocks allow, and what to do."""
    over = overload([_promise(view, me, progress, least), *me.promises])
    if over is None:
        return
    elsewhere = sum(promise.slots for promise in me.promises)
    beside = f" beside {elsewhere} in other jobs" if elsewhere else ""
    yield (
        f"answering one opening takes {format_seconds(round(progress.opening_s, 1))} here, most of it the trace of a step and "
        f"{progress.opening or 'its dearest node'}; with {least} of its slots{beside} up to {over.openings} could be owed at once, "
        f"{format_seconds(round(over.takes_s, 1))} of work, and job {over.job}'s clock gives {format_seconds(round(over.clock_s, 1))}: "
        "use a faster device, or lower capacity in operator.json so that you have fewer slots in other jobs"
    )


def defensible(view: JobView, me: OperatorContext, progress: Progress, slots: int) -> int:
    """How many of these slots of the job I can answer for in disputes, beside all my other promises."""
    return defensible_slots(_promise(view, me, progress, slots), me.promises)


def _promise(view: JobView, me: OperatorContext, progress: Progress, slots: int) -> Promise:
    return Promise(view.job, slots, progress.opening_s, PathClock(view.terms.reexecute_s, me.committer_s))


def max_job_s(view: JobView) -> int:
    """Seconds that the job's rounds take at most, unless seats are lost."""
    return view.terms.rounds * (2 * view.terms.slot_s + view.terms.aggregate_s)


def _is_for_me(view: JobView, me: OperatorContext, hours: int = 0) -> bool:
    """Whether the job is no more than my class is for, and I am there in all these hours. What a step needs of memory,
    preparing it shows."""
    terms = view.terms
    work = Work(
        terms.slots, inner_steps=1, slot_s=terms.slot_s, update_bytes=0, vram_gb=0, flops=terms.flops, hours=hours
    )
    return suits(work, Worker(0, me.operator, me.capability.gpu_class, vram_gb=0, step_us=1, kbps=1, hours=me.hours))


def _fitting(view: JobView, me: OperatorContext, slot_s: float) -> int:
    """How many slots of the job my workers can train in its slot time, beside my other jobs."""
    if not can_defend(view, me, slot_s):
        return 0
    room_s = view.terms.slot_s - RECOVERY_S - me.busy_elsewhere_s
    return sum(max(0, math.floor(room_s / (slot_s * pace))) for pace in me.relative_paces)


def can_defend(view: JobView, me: OperatorContext, slot_s: float) -> bool:
    """Whether I can do a slot-round again within the clock of a path, even where it is asked for as often as the clock counts."""
    return slot_s <= view.terms.reexecute_s + me.committer_s // COUNTED_REEXECUTIONS + 2 * RECOVERY_S
