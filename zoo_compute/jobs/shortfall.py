"""What an open job and its network lack, in plain sentences. Reads the chain only.

The sentences are advice: which jobs a node takes depends on its operator's settings, which are not on chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zoo_compute.amounts import ZEN
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.views import JobState, JobView, Kind, Lot, LotPhase
from zoo_compute.requirement_words import described
from zoo_compute.spec.params import LEAST_PRICE
from zoo_compute.spec.requirements import ADMITTED
from zoo_compute.spec.schedule import Work, Worker, suits

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

MOST = 1_000  # newest operators to read: 31 requests
GB = 2**30  # of GPU memory
UNWILLING = (
    "by what the chain says there are operators enough, and they do not bid: a node measures a program that is new to it first, and "
    "does not bid where its machine is too slow for the job's clocks, or busy; then it measures again later. Operators see their "
    "reason in `zoo node status`. You can wait, or post the job again with longer `limits` (slot_s, aggregate_s, reexecute_s)"
)
USUAL_SLOTS = 4  # of one job per node, by default (`capacity` in operator.json)


@dataclass(frozen=True)
class JobRequirements:
    """What one job asks of operators.

    memory_bytes: of one step; None if unknown. lock: what a bid locks per slot, in the smallest unit of the offers' token;
    once: what it locks besides. flops: of one slot-round. asks: the job's requirements, as its terms have them.
    """

    slots: int
    memory_bytes: int | None
    lock: int = 0
    once: int = 0
    flops: int = 0
    asks: int = 0


@dataclass(frozen=True)
class Offer:
    """One registered operator. eligible: may bid now. meets: it is what the job asks for. free_collateral: not locked, in the smallest unit of a token."""

    operator: int
    vram_gb: int
    gpu_class: int
    eligible: bool
    free_collateral: int
    meets: bool = True


def offers(chain: Chain, token: str | None = None, block: int | None = None, asks: int = 0) -> tuple[Offer, ...]:
    """The newest MOST operators as of `block`, with their collateral in `token` (ZEN unless given), for a job with these
    requirements, and with admission where the network needs it. Raises Unreachable.
    """
    at = chain.head().number if block is None else block
    token = token or chain.network.contracts["zen"]
    first = [Read("registry", "operator_count", ()), Read("tasks", "needs_admission", ())]
    count, needs_admission = read_all(chain, at, first)
    asks |= ADMITTED if needs_admission else 0
    numbers = range(max(1, count - MOST + 1), count + 1)
    operators = read_all(chain, at, [Read("registry", "operators", (number,)) for number in numbers])
    eligible = read_all(
        chain,
        at,
        [Read("registry", "is_eligible", (n, each["hot"])) for n, each in zip(numbers, operators, strict=True)],
    )
    collateral = read_all(chain, at, [Read("registry", "collateral", (number, token)) for number in numbers])
    meeting = read_all(chain, at, [Read("registry", "meets", (number, asks)) for number in numbers if asks])
    return tuple(
        Offer(number, each["vram_gb"], each["gpu_class"], may_bid, money["balance"] - money["locked"], meets)
        for number, each, may_bid, money, meets in zip(
            numbers, operators, eligible, collateral, meeting or [True] * len(numbers), strict=True
        )
    )


def meeting_line(offers: Sequence[Offer]) -> str:
    """How many operators a job's requirements leave."""
    able = [offer for offer in offers if offer.eligible]
    return f"{sum(offer.meets for offer in able)} of {len(able)} operators that can bid now"


def shortfall(needs: JobRequirements, offers: Sequence[Offer]) -> list[str]:
    """Sentences such as "no operator has 130 GB; the largest has 24 GB". Empty if the network suffices."""
    if not offers:
        return ["no operator is registered"]
    able = [offer for offer in offers if offer.eligible]
    if not able:
        return ["no operator can bid: each one is leaving, or its stake is too small"]
    able = [offer for offer in able if offer.meets]
    if not able:
        asks = ", ".join(described(needs.asks) or described(ADMITTED))
        return [f"no operator that can bid meets the job's requirements: {asks}"]
    lacks = []
    memory_gb = -(-(needs.memory_bytes or 0) // GB)
    fitting = [offer for offer in able if offer.vram_gb >= memory_gb]
    if not fitting:
        lacks.append(f"no operator has {memory_gb} GB; the largest has {max(o.vram_gb for o in able)} GB")
    fitting = [offer for offer in fitting or able if _is_for(needs, offer)]
    if not fitting:
        lacks.append("every operator's card is of a class for light jobs, and this job's slots are heavy")
    funded = [offer for offer in fitting or able if offer.free_collateral >= needs.once + max(1, needs.lock)]
    if not funded:
        empty = not any(offer.free_collateral for offer in fitting or able)
        lacks.append(
            "every operator's collateral is locked or empty" if empty else "no operator's free collateral covers a slot"
        )
    return lacks or _too_few(needs, funded)


def missing(view: JobView, offered_by: Sequence[Offer], memory_bytes: int | None) -> list[str]:
    """What an open job lacks to be awarded. Empty for other jobs, and once both lots have enough bids."""
    if view.state != JobState.OPEN or any(lot.phase != LotPhase.OPEN for lot in view.lots.values()):
        return []
    newest = next((attempt.bids for attempt in reversed(view.attempts) if attempt.bids), {})
    offered = {kind: sum(newest[key] for key in newest if key[0] == kind) for kind in view.lots}
    slots = view.lots[Kind.SLOTS]
    lacks = []
    if offered[Kind.SLOTS] < slots.units:
        lacks.append(f"{offered[Kind.SLOTS] or 'none'} of {slots.units} slots have bids")
    if not offered[Kind.AGGREGATOR]:
        lacks.append("no aggregator has bid")
    lacks += [text for kind, lot in view.lots.items() if offered[kind] >= lot.units for text in _not_counted(view, lot)]
    if offered[Kind.SLOTS] < slots.units:
        mine = {who: view.locked_by(kind, bid) for (kind, who), bid in view.bids.items() if kind == Kind.SLOTS}
        free = [
            replace(o, free_collateral=o.free_collateral + mine.get(o.operator, 0)) for o in offered_by
        ]  # collateral locked by bids on this job is available to it
        terms = view.terms
        needs = JobRequirements(slots.units, memory_bytes, slots.lock, slots.once, terms.flops, terms.requirements)
        short = shortfall(needs, free)
        lacks += short or ([UNWILLING] if failed_attempts(view) else [])
    return lacks


def low_price(view: JobView, zen: str) -> list[str]:
    """That operators usually ask more than a job in ZEN pays, which is then the likeliest reason why nobody bids."""
    most = view.terms.max_price
    if view.token.lower() != zen.lower() or most >= LEAST_PRICE:
        return []
    return [
        f"operators usually ask {ZEN.format(LEAST_PRICE)} a slot-round, and this job pays at most {ZEN.format(most)}: cancel it, and post "
        "it with a larger budget or market.max_price"
    ]


def failed_attempts(view: JobView) -> int:
    """Auctions of an open job that found too few bids."""
    lots = view.lots.values()
    newest = max((lot.attempt for lot in lots), default=0)
    over = view.state == JobState.OPEN and any(view.now >= lot.reveal_end and not lot.enough_bids for lot in lots)
    return newest if over else max(0, newest - 1)


def _not_counted(view: JobView, lot: Lot) -> list[str]:
    """Why bids for all units were not enough, after the reveal."""
    if (
        view.now < lot.reveal_end
        or lot.enough_bids
        or not any(bid.attempt == lot.attempt for bid in view.bids.values())
    ):
        return []
    return [f"bids for only {lot.units_uncapped} of {lot.units} units were revealed"]


def _is_for(needs: JobRequirements, offer: Offer) -> bool:
    work = Work(needs.slots, inner_steps=1, slot_s=1, update_bytes=0, vram_gb=0, flops=needs.flops)
    return suits(work, Worker(0, offer.operator, offer.gpu_class, vram_gb=0, step_us=1, kbps=1))


def _too_few(needs: JobRequirements, funded: Sequence[Offer]) -> list[str]:
    """Why the operators that can bid may not cover all slots."""
    count = len(funded)
    who = "1 operator" if count == 1 else f"{count} operators"
    if needs.lock:
        covered = sum(min(needs.slots, (offer.free_collateral - needs.once) // needs.lock) for offer in funded)
        if covered < needs.slots:
            return [f"the free collateral of {who} covers {covered} of {needs.slots} slots"]
    if needs.slots > USUAL_SLOTS * count:
        each = -(-needs.slots // count)
        return [
            f"{needs.slots} slots for {who}: each would train {each} in every round, "
            f"and a node takes {USUAL_SLOTS} unless its operator allows more"
        ]
    return []
