"""Which seat gets a request, and how large a lock must be, by a clock that a test turns."""

from __future__ import annotations

import threading
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.support.served_model import served_model
from zoo_compute.inference.balancing import LONGEST_REST_S, Balance, dearest, least_lock
from zoo_compute.inference.seats import Seat
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.receipts import Offer


def seat(number: int, price: int = 10, operator: int | None = None) -> Seat:
    return Seat(number, operator or number, "0x" + 20 * "11", ZEN, None, Offer(b"s" * 32, price, "0x", "http://h"))


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def balance(now: list[float]) -> Balance:
    return Balance(clock=lambda: now[0])


def chosen(balance: Balance, *seats: Seat) -> int | None:
    with balance.turn(seats, longest_s=0) as taken:
        return taken.number if taken else None


def test_the_cheapest__then_one_that_was_never_asked__then_the_fastest(balance: Balance) -> None:
    cheap, slow, fast, new = seat(9, 5), seat(1), seat(2), seat(3)
    balance.answered(slow, 8.0, 4)
    balance.answered(fast, 4.0, 4)
    assert chosen(balance, slow, fast, new, cheap) == 9
    assert chosen(balance, slow, fast, new) == 3
    assert chosen(balance, slow, fast) == 2
    for _ in range(9):
        balance.answered(fast, 40.0, 4)
    assert chosen(balance, slow, fast) == 1


def test_a_seat_that_fails__rests_twice_as_long_each_time_and_an_answer_ends_it(
    balance: Balance, now: list[float]
) -> None:
    bad = seat(1)
    for rest_s in (1.0, 2.0, 4.0):
        balance.failed(bad)
        now[0] += rest_s - 0.01
        assert chosen(balance, bad) is None
        now[0] += 0.01
        assert chosen(balance, bad) == 1
    for _ in range(2_000):
        balance.failed(bad)
    now[0] += LONGEST_REST_S
    assert chosen(balance, bad) == 1
    balance.answered(bad, 1.0, 1)
    balance.failed(bad)
    now[0] += 1.0
    assert chosen(balance, bad) == 1


def test_a_seat_that_asks_for_a_longer_rest__gets_it(balance: Balance, now: list[float]) -> None:
    balance.failed(seat(1), 30.0)
    now[0] += 29.9
    assert chosen(balance, seat(1)) is None
    now[0] += 0.1
    assert chosen(balance, seat(1)) == 1


def test_an_operator__gets_one_request_at_a_time_over_all_its_seats(balance: Balance) -> None:
    mine, same, other = seat(1, 1, operator=7), seat(2, 1, operator=7), seat(3, 99)
    with balance.turn([mine, same], longest_s=0):
        assert chosen(balance, mine, same) is None
        assert chosen(balance, mine, same, other) == 3
    assert chosen(balance, mine, same) == 1


def test_a_request__waits_for_an_operator_that_is_busy() -> None:
    balance, got = Balance(), list[int | None]()

    def ask() -> None:
        with balance.turn([seat(1)], longest_s=30.0) as taken:
            got.append(taken and taken.number)

    with balance.turn([seat(1)], longest_s=0):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(0.1)
        assert got == []
    thread.join(30.0)
    assert got == [1]


def test_a_request__waits_for_a_rest_that_ends_in_time() -> None:
    balance = Balance()
    balance.failed(seat(1))
    with balance.turn([seat(1)], longest_s=0.5) as taken:
        assert taken is None
    with balance.turn([seat(1)], longest_s=10.0) as taken:
        assert taken is not None


def test_the_lock__is_the_protocols_formula() -> None:
    assert least_lock(ZEN // 100, 0.01) == pytest.approx(1.65 * ZEN)
    assert least_lock(100, 1.0) == 0
    exact = 7 * (1 - Fraction(0.5)) / (Fraction(6, 10) * Fraction(0.5))
    assert least_lock(7, 0.5) == -(-exact.numerator // exact.denominator) == 12


def test_the_dearest_request__has_all_rows_and_all_positions() -> None:
    service = served_model().service
    model = served_model()
    longest = model.question(b"a" * 12, b"b" * 12, new_tokens=1)
    assert dearest(service, 1_000) == 2 * 13
    assert longest.positions == service.context
    assert dearest(replace(service, kind="embeddings"), 1_001) == -(-1_001 * 24 // 1_000)
