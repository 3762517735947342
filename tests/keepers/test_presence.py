"""Which slots a worker leaves to others, by what they tell of themselves."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from keepers.queue import presence
from keepers.queue.app import WORK_QUEUE
from keepers.queue.presence import Presence
from keepers.queue.work_queue import WorkQueue
from keepers.queue.worker_leases import WorkLog
from tests.keepers.redis_double import Redis
from tests.support.queue_seals import SEALS

FLOPS = 100
NOW = 1_000.0


def should_yield(
    monkeypatch: pytest.MonkeyPatch, mine_s: float, others: list[tuple[float, float]], waiting: int
) -> bool:
    """others: seconds a slot takes each, and how long it works at one by now (0: it is idle)."""
    monkeypatch.setattr(presence.time, "time", lambda: NOW)
    redis = Redis()
    me = Presence(redis, "me")
    if mine_s:
        me.record_speed(FLOPS, mine_s)
    for index, (each, spent) in enumerate(others):
        record = {"flops_per_s": FLOPS / each if each else 0, "since": NOW - spent if spent else 0}
        redis.set(f"zoo:worker:{index}", json.dumps(record))
        redis.sadd("zoo:workers", str(index))
    redis.queues[WORK_QUEUE] = waiting - 1
    return me.should_yield("it", FLOPS)


@pytest.mark.parametrize(
    ("mine_s", "others", "waiting", "expected"),
    [
        (60, [(10, 0)], 4, True),  # the other has done all four after 40 s
        (60, [(10, 0)], 5, False),  # after 50 s: no worthwhile gain
        (60, [(10, 5)], 4, True),  # busy for another 5 s, then 40 s
        (60, [(10, 0), (10, 0)], 9, False),
        (60, [(10, 0), (10, 0)], 8, True),
        (60, [(10, 21)], 1, False),  # it hangs: nobody waits for it
        (10, [(60, 0)], 1, False),  # I am the fast one
        (10, [(9, 0)], 1, False),  # as good as equal
        (0, [(10, 0)], 1, False),  # not timed yet: how else should it be
        (60, [(0, 0)], 1, False),  # the other is not timed
        (60, [], 1, False),
    ],
)
def test_a_worker__leaves_what_others_are_done_with_sooner(
    monkeypatch: pytest.MonkeyPatch, mine_s: float, others: list[tuple[float, float]], waiting: int, expected: bool
):
    assert should_yield(monkeypatch, mine_s, others, waiting) is expected


def test_what_was_put_back_and_came_again__is_left_to_the_busy_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(presence.time, "time", lambda: NOW)
    redis = Redis()
    me, idle = Presence(redis, "me"), Presence(redis, "idle")
    me.record_speed(FLOPS, 60)
    idle.record_speed(FLOPS, 10)
    assert me.should_yield("it", FLOPS)
    assert not me.should_yield("it", FLOPS)
    with idle.working():
        assert me.should_yield("it", FLOPS)
    with me.working():
        pass
    assert me.should_yield("it", FLOPS)


def test_the_paces_of_workers__are_told_over_that_of_the_one_that_timed_the_job():
    redis: Any = Redis()
    queue = WorkQueue(cast("Any", None), redis, SEALS)
    assert queue.relative_paces("prepare-1", 2) == (1.0, 1.0)  # nobody is present yet
    for worker, seconds in (("a", 10), ("b", 40)):
        Presence(redis, worker).announce()
        assert set(queue.relative_paces("prepare-1", 1)) == {1.0}  # present, not timed
        Presence(redis, worker).record_speed(FLOPS, seconds)
    Presence(redis, "c").announce()
    WorkLog(redis, SEALS, "b").record("prepare-1", {})
    assert queue.relative_paces("prepare-1", 4) == (0.25, 1.0, 1.0, 1.0)
    del redis.values["zoo:worker:b"]  # gone since
    assert queue.relative_paces("prepare-1", 2) == (0.25, 1.0)
