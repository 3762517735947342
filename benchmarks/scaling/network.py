"""A made-up network for benchmarks/scaling/scale.py, and its jobs played on the specification from post to withdrawal.

Nodes are drawn from a seed: class, speed, link, region, building, data left from earlier rounds. The market is the specification's:
operators bid what their nodes can train in a round's slot time, and what a node does when follows from the schedule.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo_compute.spec import params, pricing, schedule, seats
from zoo_compute.spec.params import AGGREGATOR_SEAT, LIST_LIMIT, MAX_SLOTS, PRODUCTION, ZEN, Terms
from zoo_compute.spec.schedule import APPLE, CONSUMER, DATACENTER, PROFESSIONAL, Schedule, Work, Worker
from zoo_compute.spec.state import Claim, Config, JobState, Message, Posted, Seal, World
from zoo_compute.spec.world import EXTERNAL

STEP_FLOPS = 4 * 10**13
INNER_STEPS = 30
SLOT_S = 450
REGIONS = 8
SLOTS_A_CHUNK = 16


@dataclass(frozen=True)
class Kind:
    """A class of node: of a hundred, GFLOP/s at the median, links out in kbit/s, and VRAM."""

    percent: int
    gflops: int
    links: tuple[int, ...]
    vram_gb: int


KINDS: dict[int, Kind] = {
    CONSUMER: Kind(60, 20_000, (10_000, 20_000, 50_000, 100_000, 300_000), 12),
    PROFESSIONAL: Kind(20, 30_000, (100_000, 300_000, 1_000_000), 24),
    DATACENTER: Kind(12, 100_000, (1_000_000, 10_000_000), 80),
    APPLE: Kind(8, 8_000, (20_000, 50_000, 100_000), 32),
}


def nodes(count: int, operators: int, chunks: int, chance: random.Random) -> list[Worker]:
    """`count` nodes of `operators` operators, each of which has its nodes in one building of one region."""
    home = {
        operator: (chance.randrange(REGIONS), chance.randrange(4 * operators)) for operator in range(1, operators + 1)
    }
    classes = [gpu_class for gpu_class, kind in KINDS.items() for _ in range(kind.percent)]
    made = []
    for number in range(count):
        operator = 1 + number % operators
        region, building = home[operator]
        gpu_class = chance.choice(classes)
        kind = KINDS[gpu_class]
        gflops = kind.gflops * chance.randint(60, 160) // 100
        made.append(
            Worker(
                number,
                operator,
                gpu_class,
                kind.vram_gb,
                step_us=STEP_FLOPS // (1_000 * gflops),
                kbps=chance.choice(kind.links),
                cost=chance.randint(50, 150),
                domain=building,
                rtt_ms=tuple(5 + 40 * abs(region - other) + chance.randrange(15) for other in range(REGIONS)),
                holds=frozenset(chance.randrange(chunks) for _ in range(4)),
            )
        )
    return made


@dataclass
class Market:
    """The jobs of a network on the specification. `calls` counts (function, length of its list argument)."""

    config: Config = field(default_factory=lambda: Config(preset=PRODUCTION))
    calls: Counter[tuple[str, int]] = field(default_factory=Counter)
    now: int = 1_800_000_000

    def __post_init__(self) -> None:
        self.world = World(config=self.config)
        self.world.allowed["zen"] = True

    def call(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> Any:
        """Apply a call in place: a refusal is a bug in this file, so nothing need be undone."""
        size = max((len(arg) for arg in args if isinstance(arg, tuple)), default=0)
        self.calls[function, size] += 1
        return EXTERNAL[contract][function](self.world, Message(sender, self.now, value), *args)

    def listed(self, contract: str, function: str, job: int, kind: int, operators: tuple[int, ...]) -> None:
        for start in range(0, len(operators), LIST_LIMIT):
            self.call(contract, function, "submitter", job, kind, operators[start : start + LIST_LIMIT])

    def register(self, gpu_class: int) -> int:
        number = len(self.world.operators) + 1
        owner = f"owner {number}"
        self.world.balances["zen", owner] = 10**12 * ZEN
        stake = PRODUCTION.min_stake * params.MAX_SLOTS // params.UNITS_PER_STAKE  # for bids of any size
        args = (f"hot {number}", gpu_class, 80, stake, "")
        operator = int(self.call("registry", "register", owner, *args))
        self.call("registry", "deposit", owner, operator, "zen", 10**10 * ZEN)
        return operator

    def post(self, slots: int, rounds: int) -> int:
        self.world.balances["zen", "submitter"] = 10**12 * ZEN
        price = ZEN // 1_000
        terms = Terms(
            token="zen", work_root=b"p" * 32, state_root=b"s" * 32, data_root=b"d" * 32, manifest=b"m" * 32, rounds=rounds,
            slots=slots, quorum=slots // 2 + 1, reserve=price, max_price=price, aggregator_reserve=ZEN, aggregator_max_price=ZEN,
            slot_s=SLOT_S, aggregate_s=SLOT_S, reexecute_s=SLOT_S, flops=STEP_FLOPS * INNER_STEPS, depth=min(rounds, 16), policy=0,
            audit_bps=params.DEFAULT_AUDIT_BPS,
        )  # fmt: skip
        return int(self.call("tasks", "post", "submitter", terms, value=params.least_posting_deposit(0)))

    def auction(self, jobs: Mapping[int, Mapping[int, tuple[int, int]]], aggregator: int) -> None:
        """Of each job, operator -> (price, capacity). All jobs at once, so that they share their windows."""
        bids = [(job, 0, o, price, n) for job, offers in jobs.items() for o, (price, n) in offers.items()]
        bids += [(job, 1, aggregator, ZEN // 2, 1) for job in jobs]
        salt = b"s" * 32
        for job, kind, operator, price, count in bids:
            seal = Seal(job, kind, 1, operator, price, count, salt)
            self.call("auction", "bid", f"hot {operator}", job, kind, operator, seal, count)
        self.now += PRODUCTION.bid_window_s
        for job, kind, operator, price, _ in bids:
            self.call("auction", "reveal", "submitter", job, kind, operator, price, salt)
        self.now += PRODUCTION.reveal_window_s
        for kind in (0, 1):
            for job in jobs:
                ranked = [
                    (pricing.score(price, self.world.bid(job, kind, o).discount_bps), o)
                    for of, k, o, price, _ in bids
                    if (of, k) == (job, kind)
                ]
                order = tuple(operator for _, operator in sorted(ranked))
                self.listed("auction", "clear", job, kind, order)
                won = tuple(operator for operator in order if self.world.bid(job, kind, operator).won)
                self.listed("auction", "award", job, kind, won)

    def seats(self, job: int) -> dict[int, Any]:
        return {seat: self.world.seats[job, seat] for seat in range(self.world.run(job).seats)}

    def ready(self, job: int, finish_ms: Mapping[int, int]) -> None:
        for seat, record in self.seats(job).items():
            estimate = -(-finish_ms[record.operator] // 1_000)
            self.call("settlement", "ready", f"hot {record.operator}", job, seat, max(1, estimate))

    def turn(self, job: int, finish_ms: Mapping[int, int]) -> None:
        """Every seat commits when its slots are done, the aggregator when all have."""
        opened, turn = self.world.run(job).opened_at, self.world.run(job).turn
        by_finish = sorted(self.seats(job).items(), key=lambda item: finish_ms[item[1].operator])
        for seat, record in by_finish:
            self.now = opened + -(-finish_ms[record.operator] // 1_000)
            assert self.now <= seats.deadline_of(self.world.run(job), record), "a seat would be timed out"
            self.call("settlement", "commit", f"hot {record.operator}", job, seat, turn, b"r" * 32, b"b" * 32)
        operator = self._aggregator(job)
        mask = (1 << len(by_finish)) - 1
        self.call(
            "settlement", "post_checkpoint", f"hot {operator}", job, AGGREGATOR_SEAT, turn, mask, b"c" * 32, b"c" * 32
        )

    def _aggregator(self, job: int) -> int:
        return self.world.seats[job, AGGREGATOR_SEAT].operator

    def pay(self, jobs: Sequence[int]) -> None:
        """After all windows: every claim, an operator's together; then what is locked and what is owed."""
        pending: dict[int, list[Claim]] = defaultdict(list)
        for (job, _, _), posted in self.world.claims.items():
            if isinstance(posted, Posted):
                pending[job].append(posted.claim)
        closes = (
            seats.claim_deadline(self.world, job, claim.turn) for job, claims in pending.items() for claim in claims
        )
        self.now = max(closes) + 1
        for job in jobs:
            ordered = sorted(pending[job], key=lambda claim: (claim.operator, claim.turn))
            rounds = self.world.run(job).rounds
            batch = LIST_LIMIT // rounds * rounds or LIST_LIMIT
            for start in range(0, len(ordered), batch):
                self.call("settlement", "finalise", "submitter", job, tuple(ordered[start : start + batch]))
            assert self.world.job(job).state == JobState.ENDED
            operators = {seat.operator for seat in self.seats(job).values()}
            for operator in sorted({*operators, self._aggregator(job)}):
                self.call("locks", "release", "submitter", job, operator)
        for token, account in [key for key, amount in self.world.owed.items() if amount and key[1].startswith("owner")]:
            self.call("tasks", "withdraw", account, token, account)


def by_operator(workers: Iterable[Worker]) -> dict[int, list[Worker]]:
    owned: dict[int, list[Worker]] = defaultdict(list)
    for worker in workers:
        owned[worker.operator].append(worker)
    return owned


def of(owned: Mapping[int, Sequence[Worker]], operators: Iterable[int]) -> list[Worker]:
    """The workers of these operators."""
    return [worker for operator in operators for worker in owned[operator]]


def split_jobs(shards: int) -> list[int]:
    """The slots of as few jobs as hold so many shards."""
    count = -(-shards // MAX_SLOTS)
    return [shards * (i + 1) // count - shards * i // count for i in range(count)]


def work_of(slots: int, update_bytes: int) -> Work:
    return Work(
        slots, INNER_STEPS, SLOT_S, update_bytes, vram_gb=8, flops=STEP_FLOPS * INNER_STEPS, slots_a_chunk=SLOTS_A_CHUNK
    )


@dataclass
class NetworkRun:
    """The record of a network. slots: of each job, operator -> the slots of its seat."""

    schedules: dict[int, Schedule]
    works: dict[int, Work]
    slots: dict[int, dict[int, tuple[int, ...]]]
    barred: int  # operators that could not offer a 64th of a lot
    market: Market

    @property
    def seats(self) -> int:
        return sum(len(self.market.seats(job)) for job in self.works)


def play(
    workers: Sequence[Worker], shards: int, rounds: int, update_bytes: int, *, parts: int | None = None
) -> NetworkRun:
    """Bids, seats, schedules and `rounds` rounds of all jobs. parts: jobs, where more than needed are wanted."""
    market = Market()
    owned = by_operator(workers)
    for operator in sorted(owned):
        market.register(owned[operator][0].gpu_class)
    aggregator = market.register(DATACENTER)
    sizes = (
        split_jobs(shards) if parts is None else [shards * (i + 1) // parts - shards * i // parts for i in range(parts)]
    )
    jobs = {market.post(size, rounds): work_of(size, update_bytes) for size in sizes}
    offers: dict[int, dict[int, tuple[int, int]]] = {job: {} for job in jobs}
    barred = 0
    for index, operator in enumerate(sorted(owned)):
        job = 1 + index % len(jobs)
        capacity = min(schedule.capacity(jobs[job], owned[operator]), jobs[job].slots)
        if capacity < pricing.least_capacity(jobs[job].slots):
            barred += 1
        else:
            dear = sum(worker.cost for worker in owned[operator]) // len(owned[operator])
            offers[job][operator] = (ZEN // 1_000 * dear // 200, capacity)
    market.auction(offers, aggregator)
    owners = {
        job: {s.operator: tuple(range(s.first, s.first + s.count)) for s in market.seats(job).values()} for job in jobs
    }
    schedules = {job: schedule.schedule(work, owners[job], of(owned, owners[job])) for job, work in jobs.items()}
    for job, made in schedules.items():
        assert not made.unplaced, "an operator won more than its nodes train"
        market.ready(job, made.finish_ms)
    for job, made in schedules.items():
        for _ in range(rounds):
            market.turn(job, made.finish_ms)
    market.pay(list(jobs))
    return NetworkRun(schedules, jobs, owners, barred, market)


def queued_ms(work: Work, count: int, workers: Sequence[Worker]) -> int:
    """When a shared queue ends: any free worker takes the next slot, however slow it is."""
    paces = [schedule.pace_of(work, each) for each in workers if schedule.suits(work, each)]
    free = {pace.number: pace for pace in paces}
    done = dict.fromkeys(free, 0)
    heap = [(pace.once, number) for number, pace in free.items()]
    heapq.heapify(heap)
    last = 0
    for _ in range(count):
        at, number = heapq.heappop(heap)
        done[number] += 1
        last = max(last, at + free[number].each)
        heapq.heappush(heap, (at + free[number].each, number))
    return last


def equal_ms(work: Work, count: int, workers: Sequence[Worker]) -> int:
    """When equal shares end: every worker the same number of slots."""
    paces = [schedule.pace_of(work, each) for each in workers if schedule.suits(work, each)]
    return max(pace.finish(-(-count // len(paces))) for pace in paces)


def local(work: Work, placed: Mapping[int, Sequence[int]], workers: Sequence[Worker]) -> int:
    holds = {worker.number: worker.holds for worker in workers}
    return sum(work.chunk(slot) in holds[who] for who, mine in placed.items() for slot in mine)
