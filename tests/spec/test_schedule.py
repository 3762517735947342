"""The schedule: every slot once, winners only, as early as can be; the same whatever the order of its input."""

import random
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo_compute.spec import schedule as s
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.schedule import APPLE, CONSUMER, DATACENTER, PROFESSIONAL, Pace, Size, Work, Worker

WORK = Work(slots=24, inner_steps=30, slot_s=600, update_bytes=20_000, vram_gb=8, flops=10**16, slots_a_chunk=3)
PACES = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=6)


def paces_of(drawn: list[tuple[int, int, int]]) -> list[Pace]:
    return [Pace(number, each, once, cost=cost) for number, (each, once, cost) in enumerate(drawn)]


def finish(counts: dict[int, int], paces: list[Pace]) -> int:
    return max((pace.finish(counts.get(pace.number, 0)) for pace in paces), default=0)


def queued(slots: int, paces: list[Pace]) -> int:
    """A shared queue: whoever is free takes the next slot, however slow it is."""
    free = {pace.number: pace.once for pace in paces}
    each = {pace.number: pace.each for pace in paces}
    last = 0
    for _ in range(slots):
        taker = min(free, key=lambda number: (free[number], number))
        free[taker] += each[taker]
        last = max(last, free[taker])
    return last


def worker(number: int, operator: int = 1, **changed: object) -> Worker:
    made = Worker(number, operator, CONSUMER, vram_gb=24, step_us=1_000_000, kbps=100_000)
    return replace(made, **changed)  # type: ignore[arg-type]


def runs_of(won: dict[int, int]) -> dict[int, range]:
    """Operator -> consecutive slots, as the auction seats them."""
    start, seated = 0, {}
    for operator, count in won.items():
        seated[operator] = range(start, start + count)
        start += count
    return seated


@st.composite
def networks(draw: st.DrawFn) -> tuple[Work, dict[int, int], list[Worker]]:
    """Winners whose workers can train what they won, each of another speed and with other data."""
    won = dict(enumerate(draw(st.lists(st.integers(1, 12), min_size=1, max_size=4)), start=1))
    work = replace(WORK, slots=sum(won.values()), slots_a_chunk=draw(st.integers(1, 5)), slot_s=86_400)
    workers = []
    for operator in won:
        for _ in range(draw(st.integers(1, 3))):
            step = draw(st.integers(1_000, 5_000_000))
            holds = draw(st.frozensets(st.integers(0, 12), max_size=5))
            workers.append(worker(len(workers), operator, step_us=step, holds=holds))
    return work, won, workers


@given(st.integers(0, 9), PACES)
def test_counts__are_as_good_as_any(slots: int, drawn: list[tuple[int, int, int]]):
    paces = paces_of(drawn[:4])
    counts = s.shares(slots, paces)
    every = product(range(slots + 1), repeat=len(paces))
    best = min(finish(dict(enumerate(each)), paces) for each in every if sum(each) == slots)
    assert sum(counts.values()) == slots
    assert finish(counts, paces) == best == s.makespan(slots, paces)


@given(st.integers(1, 200), PACES)
def test_counts__beat_a_shared_queue_by_at_most_one_slot_of_the_slowest(slots: int, drawn: list[tuple[int, int, int]]):
    paces = paces_of(drawn)
    assert (
        s.makespan(slots, paces)
        <= queued(slots, paces)
        <= s.makespan(slots, paces) + max(p.each + p.once for p in paces)
    )


def left(slots: int, paces: list[Pace]) -> int:
    """A shared queue whose takers leave to others what these are done with sooner."""
    free, waiting, now, last = {pace.number: 0 for pace in paces}, slots, 0, 0
    each = {pace.number: pace.each for pace in paces}
    while waiting:
        idle = sorted((number for number in free if free[number] <= now), key=lambda n: -each[n])
        took = False
        for number in idle:
            others = [Pace(n, each[n], max(0, free[n] - now)) for n in free if n != number]
            if waiting and not s.leaves(waiting, Pace(number, each[number]), others):
                free[number] = now + each[number]
                last, waiting, took = max(last, free[number]), waiting - 1, True
        if not took:
            now = min(at for at in free.values() if at > now)
    return last


@given(st.integers(0, 60), st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_a_shared_queue__whose_takers_leave_slots_to_faster_ones__ends_as_early_as_can_be(
    slots: int, speeds: list[int]
):
    paces = [Pace(number, each) for number, each in enumerate(speeds)]
    assert left(slots, paces) == s.makespan(slots, paces)


def test_a_shared_queue__waits_for_the_slow_one_that_took_the_last_slot():
    paces = [Pace(0, 10), Pace(1, 60)]
    assert queued(4, paces) == 60
    assert s.shares(4, paces) == {0: 4}
    assert s.makespan(4, paces) == 40


@given(st.integers(0, 200), PACES, st.integers(1, 60))
def test_the_makespan__grows_with_slots_and_shrinks_with_workers(
    slots: int, drawn: list[tuple[int, int, int]], each: int
):
    paces = paces_of(drawn)
    least = s.makespan(slots, paces)
    assert s.makespan(slots + 1, paces) >= least
    assert s.makespan(slots, [*paces, Pace(99, each)]) <= least
    faster = [replace(paces[0], each=min(each, paces[0].each)), *paces[1:]]
    assert s.makespan(slots, faster) <= least


@given(st.integers(1, 60), PACES, st.integers(0, 600))
def test_time_to_spare__goes_to_the_cheapest_who_can(slots: int, drawn: list[tuple[int, int, int]], within: int):
    paces = paces_of(drawn)
    counts, hurried = s.shares(slots, paces, within=within), s.shares(slots, paces)
    cost = {pace.number: pace.cost for pace in paces}
    assert finish(counts, paces) <= max(within, s.makespan(slots, paces))
    assert sum(n * cost[who] for who, n in counts.items()) <= sum(n * cost[who] for who, n in hurried.items())


def test_a_worker__trains_no_more_than_its_most():
    paces = [Pace(0, 1, most=2), Pace(1, 50)]
    assert s.shares(4, paces) == {0: 2, 1: 2}
    with pytest.raises(Refused, match="schedule: too few workers"):
        s.shares(3, paces[:1])


def test_sending__goes_on_while_the_next_slot_trains():
    slow_link = s.pace_of(WORK, worker(0, kbps=4))  # 40 s for an update, 30 s for a slot
    assert (slow_link.each, slow_link.once) == (40_000, 30_000)
    assert slow_link.finish(2) == 110_000  # trains 30, sends until 70 and until 110


@given(networks())
def test_every_slot__is_trained_once_by_a_worker_of_who_holds_it(drawn: tuple[Work, dict[int, int], list[Worker]]):
    work, won, workers = drawn
    seated = runs_of(won)
    made = s.schedule(work, seated, workers)
    owner = {worker.number: worker.operator for worker in workers}
    assert sorted(slot for mine in made.slots.values() for slot in mine) == list(range(work.slots))
    assert not made.unplaced
    for number, mine in made.slots.items():
        assert set(mine) <= set(seated[owner[number]])


@given(networks(), st.randoms(use_true_random=False))
def test_the_schedule__does_not_depend_on_the_order_of_its_input(
    drawn: tuple[Work, dict[int, int], list[Worker]], chance: random.Random
):
    work, won, workers = drawn
    seated = runs_of(won)
    shuffled, operators = list(workers), list(seated.items())
    chance.shuffle(shuffled)
    chance.shuffle(operators)
    assert s.schedule(work, dict(operators), shuffled) == s.schedule(work, seated, workers)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.frozensets(st.integers(0, 3))), min_size=1, max_size=4),
    st.integers(1, 3),
)
def test_at_least_half__of_the_slots_that_could_be_local_are(
    drawn: list[tuple[int, frozenset[int]]], slots_a_chunk: int
):
    counts = dict(enumerate(count for count, _ in drawn))
    holds = dict(enumerate(chunks for _, chunks in drawn))
    work = replace(WORK, slots=sum(counts.values()), slots_a_chunk=slots_a_chunk)
    placed = s.place(range(work.slots), counts, holds, work)
    local = sum(work.chunk(slot) in holds[who] for who, mine in placed.items() for slot in mine)
    assert 2 * local >= most_local(work, counts, holds)
    assert Counter({who: len(mine) for who, mine in placed.items()}) == +Counter(counts)


def most_local(work: Work, counts: dict[int, int], holds: dict[int, frozenset[int]]) -> int:
    """The greatest matching of slots with who holds their data, by augmenting paths."""
    places = [who for who, count in counts.items() for _ in range(count)]
    taken: dict[int, int] = {}

    def augment(slot: int, seen: set[int]) -> bool:
        for index, who in enumerate(places):
            if work.chunk(slot) in holds[who] and index not in seen:
                seen.add(index)
                if index not in taken or augment(taken[index], seen):
                    taken[index] = slot
                    return True
        return False

    return sum(augment(slot, set()) for slot in range(work.slots))


def test_what_is_not_local__is_given_in_runs():
    work = replace(WORK, slots=6)
    assert s.place(range(6), {1: 2, 2: 4}, {2: [0]}, work) == {1: (3, 4), 2: (0, 1, 2, 5)}
    with pytest.raises(Refused, match="schedule: counts differ from slots"):
        s.place(range(6), {1: 2, 2: 3}, {}, work)


def test_what_an_operator_cannot_train_in_time__is_said():
    work = replace(WORK, slots=30)
    made = s.schedule(work, {1: range(24), 2: range(24, 30)}, [worker(0), worker(1, 2)])
    assert made.unplaced == {1: 5}  # 30 s a slot: 19 in 600 s, with the last one sent
    assert len(made.slots[0]) == 19 == s.capacity(work, [worker(0)])
    assert made.makespan_ms == made.finish_ms[1] == 19 * 30_000 + 2


def test_an_operator_with_time__has_its_cheapest_worker_train():
    workers = [worker(0, cost=9, step_us=500_000), worker(1, cost=1)]
    stored = {1: range(6)}
    hurried, patient = (s.schedule(WORK, stored, workers, within_s=seconds) for seconds in (0, 10**6))
    assert {number: len(mine) for number, mine in hurried.slots.items()} == {0: 4, 1: 2}
    assert {number: len(mine) for number, mine in patient.slots.items()} == {1: 6}
    assert hurried.makespan_ms < patient.makespan_ms <= 1_000 * WORK.slot_s


@pytest.mark.parametrize(
    ("vram_gb", "flops", "size", "who"),
    [
        (8, 10**15, Size.LIGHT, (CONSUMER, PROFESSIONAL, DATACENTER, APPLE)),
        (8, 10**16, Size.SMALL, (CONSUMER, PROFESSIONAL, DATACENTER)),
        (16, 10**15, Size.STANDARD, (CONSUMER, PROFESSIONAL, DATACENTER)),
        (40, 10**15, Size.LARGE, (DATACENTER,)),
    ],
)
def test_a_class__does_what_it_is_meant_for(vram_gb: int, flops: int, size: Size, who: tuple[int, ...]):
    work = replace(WORK, vram_gb=vram_gb, flops=flops)
    memory = {CONSUMER: 24, PROFESSIONAL: 32, DATACENTER: 80, APPLE: 64}
    workers = [worker(index, gpu_class=each, vram_gb=gb) for index, (each, gb) in enumerate(memory.items())]
    assert s.size_of(work) == size
    assert tuple(each.gpu_class for each in workers if s.suits(work, each)) == who
    best = min((each for each in workers if s.suits(work, each)), key=lambda each: s.rank(work, each))
    assert s.MEANT_FOR[best.gpu_class] == size


def test_a_worker__is_left_out_in_hours_in_which_it_is_away():
    work = replace(WORK, hours=0b110)
    assert s.suits(work, worker(0))
    assert s.suits(work, worker(0, hours=0b111))
    assert not s.suits(work, worker(0, hours=0b011))


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 0, {0}),
        (3_599, 0, {0}),
        (3_599, 1, {0, 1}),
        (23 * 3_600, 3_600, {23, 0}),
        (5 * 3_600, 86_400, set(range(24))),
    ],
)
def test_periods__are_those_that_the_time_touches(start: int, length: int, expected: set[int]):
    assert s.periods(86_400 + start, length, 86_400) == sum(1 << period for period in expected)
