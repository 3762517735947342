"""Keepers that share a broker: at every moment at most one may send, whatever becomes of the broker, its clock aside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import redis
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keepers.queue.seals import Seals
from keepers.queue.sender_lease import KEY, OUTBOX, RENEWALS, SenderLease, holder
from tests.chain.test_pending_transactions import entry
from tests.keepers.shared_broker import Broker, Clock
from zoo_compute.errors import ConfigError, Unreachable

SEALS = Seals(bytes(32))
OTHERS = Seals(bytes(31) + b"\1")
LEASE_S = 15.0


class Lost(Exception):
    """The process would have ended."""


def end(why: str) -> NoReturn:
    raise Lost(why)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def broker(clock: Clock) -> Broker:
    return Broker(clock)


def keeper(broker: Broker, clock: Callable[[], float], name: str = "alpha") -> SenderLease:
    return SenderLease(broker, SEALS, name=name, account="1-0xab", lease_s=LEASE_S, clock=clock, lose=end)


def may_send(lease: SenderLease) -> bool:
    try:
        lease.check()
    except (Lost, SystemExit):
        return False
    return True


def pass_time(clock: Clock, seconds: float, *renewing: SenderLease) -> None:
    """In steps of a renewal."""
    while seconds > 0:
        step = min(seconds, LEASE_S / RENEWALS)
        clock.now += step
        seconds -= step
        for lease in renewing:
            lease.renew()


def test_of_two__the_second_waits_and_sends_a_lease_after_the_first_ended(broker: Broker, clock: Clock) -> None:
    first, second = keeper(broker, clock), keeper(broker, clock, "alpha-2")
    assert first.take()
    assert not second.take()
    assert first.waits_s() == LEASE_S
    pass_time(clock, LEASE_S, first)
    assert may_send(first)
    assert holder(broker, SEALS) == "alpha"
    clock.now += LEASE_S - 0.1
    assert not second.take(), "the first one's last renewal is younger than the lease"
    clock.now += 0.1
    assert second.take()
    pass_time(clock, LEASE_S - 1, second)
    assert not may_send_quietly(second), "the first one might still have been sending"
    pass_time(clock, 1, second)
    assert may_send(second)


def may_send_quietly(lease: SenderLease) -> bool:
    """Without ending the lease where it may not."""
    return lease.waits_s() == 0 and lease._is_fresh(lease._clock())


def test_a_process_that_was_stopped__sends_nothing_when_it_goes_on(broker: Broker, clock: Clock) -> None:
    lease = keeper(broker, clock)
    assert lease.take()
    pass_time(clock, LEASE_S, lease)
    clock.now += LEASE_S * 0.8 - 0.01
    lease.check()
    clock.now += 0.01
    with pytest.raises(Lost, match="not renewed in time"):
        lease.check()


def test_a_stopped_process__does_not_renew_a_lease_that_nobody_took(broker: Broker, clock: Clock) -> None:
    lease = keeper(broker, clock)
    assert lease.take()
    pass_time(clock, LEASE_S, lease)
    clock.now += LEASE_S * 0.9
    assert broker.get(KEY) is not None
    with pytest.raises(Lost, match="not renewed in time"):
        lease.renew()


def test_a_broker_that_does_not_answer__ends_the_right_to_send_and_nothing_before_that(
    broker: Broker, clock: Clock
) -> None:
    lease = keeper(broker, clock)
    assert lease.take()
    pass_time(clock, LEASE_S, lease)
    broker.is_down = True
    pass_time(clock, LEASE_S / 2, lease)
    assert may_send(lease)
    broker.is_down = False
    lease.renew()
    broker.is_down = True
    clock.now += LEASE_S * 0.8
    assert not may_send(lease)


def test_a_renewal__counts_from_its_beginning(broker: Broker) -> None:
    """The answer to it may come late."""
    times = iter([0.0, 0.0])  # of taking
    now = [0.0]
    lease = keeper(broker, lambda: next(times, now[0]))
    broker._clock.now = 0.0
    assert lease.take()
    lease._taken = -LEASE_S  # long ago
    slow = broker.eval

    def late(*args: Any) -> int:
        now[0] = 10.0
        return slow(*args)

    now[0] = 5.0
    broker.eval = late  # type: ignore[method-assign]
    lease.renew()
    now[0] = 5.0 + LEASE_S * 0.8
    assert not may_send(lease)


def test_the_wait_of_a_successor__counts_from_the_answer(broker: Broker, clock: Clock) -> None:
    """Until then the one before may have renewed."""
    lease, quick = keeper(broker, clock), broker.set

    def late(*args: Any, **options: Any) -> bool:
        clock.now += 3
        return quick(*args, **options)

    broker.set = late  # type: ignore[method-assign]
    assert lease.take()
    assert lease.waits_s() == LEASE_S
    assert not lease._is_fresh(clock.now + LEASE_S * 0.8 - 3), "its own time counts from the question"


def test_an_emptied_broker__gives_the_lease_to_one_that_waits_until_the_other_has_ended(
    broker: Broker, clock: Clock
) -> None:
    first, second = keeper(broker, clock), keeper(broker, clock, "alpha-2")
    assert first.take()
    pass_time(clock, LEASE_S, first)
    broker.records.clear()
    assert second.take()
    assert may_send(first)
    assert second.waits_s() == LEASE_S
    clock.now += LEASE_S / RENEWALS
    with pytest.raises(Lost, match="to another keeper, or lost it"):
        first.renew()
    assert not may_send(first)


def test_an_answer_that_was_lost__leaves_the_lease_to_who_took_it(broker: Broker, clock: Clock) -> None:
    lease = keeper(broker, clock)
    assert lease.take()
    clock.now += 1
    assert lease.take()
    assert lease.waits_s() == LEASE_S, "nobody knows when it was taken"


def test_a_clean_end__lets_the_other_one_take_it_at_once_and_ends_the_threads_that_send(
    broker: Broker, clock: Clock
) -> None:
    first, second = keeper(broker, clock), keeper(broker, clock, "alpha-2")
    assert first.take()
    pass_time(clock, LEASE_S, first)
    first.release()
    with pytest.raises(SystemExit):
        first.check()
    assert second.take()
    first.release()
    assert holder(broker, SEALS) == "alpha-2", "only its own lease is given up"


def test_a_lease_of_another_queue_key__says_what_to_copy_and_is_left_alone(broker: Broker, clock: Clock) -> None:
    other = SenderLease(broker, OTHERS, name="beta", account="1-0xab", lease_s=LEASE_S, clock=clock, lose=end)
    assert other.take()
    with pytest.raises(ConfigError, match="no seal of this folder's"):
        holder(broker, SEALS)
    assert not keeper(broker, clock).take()
    other.renew()


# -- what the successor reads


def test_pending_transactions__are_read_by_the_successor(broker: Broker, clock: Clock) -> None:
    first, second = keeper(broker, clock), keeper(broker, clock, "alpha-2")
    first.write({4: entry(4), 5: entry(5)}, ())
    first.write({5: entry(5, max_fee=9)}, [4])
    assert second.read() == {5: entry(5, max_fee=9)}
    second.offer({4: entry(4), 5: entry(5)})
    assert second.read() == {4: entry(4), 5: entry(5, max_fee=9)}, "what is there is not replaced"
    broker.is_down = True
    for call in (second.read, lambda: first.write({6: entry(6)}, ())):
        with pytest.raises(Unreachable, match="gone"):
            call()


def test_a_forged_or_moved_transaction__is_left_out(broker: Broker, clock: Clock) -> None:
    lease = keeper(broker, clock)
    lease.write({4: entry(4)}, ())
    records = broker.hashes[f"zoo:{OUTBOX}:1-0xab"]
    records[b"5"] = records[b"4"]
    records[b"6"] = OTHERS.close(OUTBOX, "1-0xab-6", {"nonce": 6}).encode()
    records[b"x"] = b"?"
    assert lease.read() == {4: entry(4)}


# -- at every moment at most one


class Process:
    """A keeper's process, second by second: it takes the lease, keeps it, and is started again when it ends. While it is stopped, nothing."""

    def __init__(self, broker: Broker, clock: Clock, name: str) -> None:
        self._broker, self._clock, self._name = broker, clock, name
        self.start()

    def start(self) -> None:
        self.lease, self._is_holder, self._renews = keeper(self._broker, self._clock, self._name), False, 0.0

    def step(self) -> None:
        try:
            if not self._is_holder:
                self._is_holder = self.lease.take()
                self._renews = self._clock.now + LEASE_S / RENEWALS
            elif self._clock.now >= self._renews:
                self._renews = self._clock.now + LEASE_S / RENEWALS
                self.lease.renew()
        except Lost:
            self.start()
        except redis.ConnectionError:
            pass


FAULTS = st.sampled_from(["none", "none", "emptied", "down", "killed"])
PHASES = st.lists(st.tuples(FAULTS, st.sets(st.integers(0, 2)), st.integers(1, 40)), min_size=4, max_size=12)


@settings(max_examples=150, deadline=None)
@given(PHASES)
@example([("none", set(), 40), ("emptied", {0}, 5)])
@example([("none", {1, 2}, 40), ("none", {0}, 40), ("none", set(), 40)])
def test_whatever_happens__at_most_one_may_send(phases: list[tuple[str, set[int], int]]) -> None:
    """phases: what befalls the broker, or all keepers, which keepers are stopped, and for how many seconds."""
    clock = Clock()
    broker = Broker(clock)
    processes = [Process(broker, clock, str(number)) for number in range(3)]
    for fault, stopped, seconds in phases:
        broker.is_down = fault == "down"
        if fault == "emptied":
            broker.records.clear()
        for process in processes if fault == "killed" else ():
            process.start()
        for _ in range(seconds):
            clock.now += 1
            for number, process in enumerate(processes):
                if number not in stopped:
                    process.step()
            assert sum(may_send_quietly(process.lease) for process in processes) <= 1


def test_of_three_that_run__one_sends_most_of_the_time() -> None:
    """Or the property above would say little."""
    clock = Clock()
    broker = Broker(clock)
    processes = [Process(broker, clock, str(number)) for number in range(3)]
    sending = 0
    for second in range(600):
        clock.now += 1
        if second == 300:
            broker.records.clear()
        for process in processes:
            process.step()
        sending += sum(may_send_quietly(process.lease) for process in processes)
    assert 600 - 2 * LEASE_S - 6 <= sending < 600
