"""Decides which worker trains which slots: a pure function of measurements, declarations and auction results (docs/design/scaling.md).

The auction decides which operator wins which slots at which price; the schedule does not change that.
A slot's data is fixed by arithmetic, so the choice of worker changes no result, only the time of the round and what is fetched.
All slots of a job are equal work. A worker that trains one and sends the one before has finished `n` of them after
`n * max(train, send) + min(train, send)`, exactly: two machines in a row.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from zoo_compute.spec.params import GPU_CLASSES, PERIODS
from zoo_compute.spec.revert import require

CONSUMER, PROFESSIONAL, DATACENTER, APPLE = sorted(GPU_CLASSES)
LIGHT_FLOPS: int = 10**15  # of a slot-round: minutes on a laptop's GPU; up to here a job is light fine-tuning


class Size(IntEnum):
    """The size of a job, by the needs of one step; and the largest size that a class is meant for."""

    LIGHT = 0
    SMALL = 1
    STANDARD = 2
    LARGE = 3


# ZIP-0407: small batches, standard shards, large batches; Apple Silicon validates, and fine-tunes what is light.
MEANT_FOR: dict[int, Size] = {
    CONSUMER: Size.SMALL,
    PROFESSIONAL: Size.STANDARD,
    DATACENTER: Size.LARGE,
    APPLE: Size.LIGHT,
}


@dataclass(frozen=True, slots=True)
class Worker:
    """One GPU of an operator: its measured speed and link, and its operator's declarations."""

    number: int  # among all workers of the job
    operator: int
    gpu_class: int
    vram_gb: int
    step_us: int  # measured: one inner step
    kbps: int  # measured: upload
    cost: int = 0  # of one slot-round, to its operator
    domain: int = 0  # failure domain: a building, a provider
    hours: int = 0  # bitmap of the periods of a day in which it is available; 0: not declared, so always
    rtt_ms: tuple[int, ...] = ()  # measured, to each of the network's landmarks
    holds: frozenset[int] = frozenset()  # chunks of the job's data


@dataclass(frozen=True, slots=True)
class Work:
    """The facts of a job that a schedule needs."""

    slots: int
    inner_steps: int
    slot_s: int
    update_bytes: int  # that one slot-round sends
    vram_gb: int  # that one step needs
    flops: int  # of one slot-round
    hours: int = 0  # bitmap of the periods of a day in which its next rounds run
    slots_a_chunk: int = 1  # consecutive slots whose examples lie in one chunk of the data

    def chunk(self, slot: int) -> int:
        return slot // self.slots_a_chunk


@dataclass(frozen=True, slots=True)
class Pace:
    """`n` slots are finished after `each * n + once`; at most `most` of them. rank, cost: the order among equals."""

    number: int
    each: int
    once: int = 0
    most: int = 2**63
    rank: int = 0
    cost: int = 0

    def within(self, time: int) -> int:
        """Slots that are finished by `time`."""
        return max(0, min(self.most, (time - self.once) // self.each))

    def finish(self, count: int) -> int:
        return self.each * count + self.once if count else 0


@dataclass(frozen=True)
class Schedule:
    """slots: worker -> its slots, in training order. finish_ms: operator -> when its last worker finishes."""

    slots: Mapping[int, tuple[int, ...]]
    finish_ms: Mapping[int, int]
    unplaced: Mapping[int, int] = field(
        default_factory=dict
    )  # operator -> slots that none of its workers can train in time

    @property
    def makespan_ms(self) -> int:
        return max(self.finish_ms.values(), default=0)


# Counts --------------------------------------------------------------------------------------------------------------


def makespan(slots: int, paces: Sequence[Pace]) -> int:
    """The least time in which these workers finish `slots` slots. Exact, by binary search: all slots are equal."""
    require(slots <= sum(pace.most for pace in paces), "schedule: too few workers")
    low, high = 0, max((pace.finish(min(slots, pace.most)) for pace in paces), default=0)
    while low < high:
        middle = (low + high) // 2
        if sum(pace.within(middle) for pace in paces) >= slots:
            high = middle
        else:
            low = middle + 1
    return low


def shares(slots: int, paces: Sequence[Pace], *, within: int = 0) -> dict[int, int]:
    """Worker -> number of slots: finished as early as possible, or by `within` if later, with the cheapest workers.

    Faster workers get more; a worker whose first slot would end after all others' last gets none.
    """
    time = max(within, makespan(slots, paces))
    counts: dict[int, int] = {}
    for pace in sorted(paces, key=lambda each: (each.rank, each.cost, each.each, each.once, each.number)):
        count = min(slots, pace.within(time))
        if count:
            counts[pace.number] = count
            slots -= count
    return counts


def leaves(waiting: int, mine: Pace, others: Iterable[Pace]) -> bool:
    """Whether to leave the next of `waiting` equal slots to the other workers. `once`: until when each is busy.

    If they finish all slots before this worker finishes one, it would only delay the round; otherwise taking one helps. A queue
    whose workers follow this rule ends as early as possible.
    """
    return sum(other.within(mine.finish(1) - 1) for other in others) >= waiting


def capacity(work: Work, workers: Iterable[Worker]) -> int:
    """How many slots these workers can train in a round's slot time: the number to bid for."""
    return sum(pace_of(work, each).within(1_000 * work.slot_s) for each in workers if suits(work, each))


# Eligibility and preference ---------------------------------------------------------------------------------------------


def size_of(work: Work) -> Size:
    if work.vram_gb <= GPU_CLASSES[CONSUMER].least_vram_gb:
        return Size.LIGHT if work.flops <= LIGHT_FLOPS else Size.SMALL
    return Size.STANDARD if work.vram_gb <= GPU_CLASSES[PROFESSIONAL].least_vram_gb else Size.LARGE


def periods(start: int, length: int, epoch_s: int) -> int:
    """A bitmap of the periods of an epoch that the `length` seconds from `start` on touch."""
    first, last = (second * PERIODS // epoch_s for second in (start, start + length))
    return sum(1 << period % PERIODS for period in range(first, min(last + 1, first + PERIODS)))


def suits(work: Work, worker: Worker) -> bool:
    """Whether the worker has enough memory, is available during the rounds, and its class may train a job of this size."""
    away = worker.hours and work.hours & ~worker.hours
    validates = MEANT_FOR[worker.gpu_class] == Size.LIGHT and size_of(work) > Size.LIGHT
    return worker.vram_gb >= work.vram_gb and not away and not validates


def rank(work: Work, worker: Worker) -> int:
    """0 for a class meant for the job's size; more for a class needed elsewhere, or meant for smaller jobs."""
    return abs(MEANT_FOR[worker.gpu_class] - size_of(work))


def pace_of(work: Work, worker: Worker) -> Pace:
    train = max(1, -(-worker.step_us * work.inner_steps // 1_000))
    send = send_ms(work.update_bytes, worker.kbps)
    return Pace(worker.number, max(train, send), min(train, send), work.slots, rank(work, worker), worker.cost)


def send_ms(size: int, kbps: int) -> int:
    return -(-8 * size // kbps)


# Assignment --------------------------------------------------------------------------------------------------------------


def place(
    slots: Sequence[int], counts: Mapping[int, int], holds: Mapping[int, Iterable[int]], work: Work
) -> dict[int, tuple[int, ...]]:
    """Worker -> its slots, as many as `counts` says: first those whose data it has, then runs of the rest.

    No slot remains whose chunk a worker with room has, so at least half of the possible slots are local.
    """
    room = {who: counts[who] for who in sorted(counts)}
    require(sum(room.values()) == len(slots), "schedule: counts differ from slots")
    holders: dict[int, list[int]] = defaultdict(list)
    for who in reversed(room):
        for chunk in holds.get(who, ()):
            holders[chunk].append(who)
    assigned: dict[int, list[int]] = {who: [] for who in room}
    left: list[int] = []
    for slot in sorted(slots):
        near = holders[work.chunk(slot)]
        while near and not room[near[-1]]:
            near.pop()
        if near:
            room[near[-1]] -= 1
            assigned[near[-1]].append(slot)
        else:
            left.append(slot)
    start = 0
    for who, count in room.items():
        assigned[who] += left[start : start + count]
        start += count
    return {who: tuple(mine) for who, mine in assigned.items() if mine}


def schedule(
    work: Work, slots: Mapping[int, Sequence[int]], workers: Iterable[Worker], *, within_s: int = 0
) -> Schedule:
    """Divide every winner's slots among its own workers. slots: operator -> the slots that it won.

    within_s: finishing by then is early enough, so that cheaper workers may take longer; by default as early as possible.
    """
    allowed = 1_000 * min(within_s, work.slot_s)
    owned: dict[int, list[Worker]] = defaultdict(list)
    for worker in workers:
        owned[worker.operator].append(worker)
    placed: dict[int, tuple[int, ...]] = {}
    finish: dict[int, int] = {}
    unplaced: dict[int, int] = {}
    for operator, mine in sorted(slots.items()):
        own = [worker for worker in owned[operator] if suits(work, worker)]
        paces = [pace_of(work, worker) for worker in own]
        count = min(len(mine), sum(pace.within(1_000 * work.slot_s) for pace in paces))
        if count < len(mine):
            unplaced[operator] = len(mine) - count
        counts = shares(count, paces, within=allowed)
        placed |= place(sorted(mine)[:count], counts, {worker.number: worker.holds for worker in own}, work)
        finish[operator] = max((pace.finish(counts.get(pace.number, 0)) for pace in paces), default=0)
    return Schedule(placed, finish, unplaced)
