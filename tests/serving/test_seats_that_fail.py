"""Seats that fail or send what is no answer: another one answers, and what is lost is one request's price at most."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.seat_clients import COST, NEW, PROMPTS, Market, client, joined, only, right, streamed
from zoo_compute.inference.client import FalseStream, NotAnswered
from zoo_compute.serving.files import StoredService
from zoo_compute.store.addresses import Scope

FAIL = ("cut", "hang", "drip", "busy", "redirect", "takes and refuses", "payment loop", "owes a fortune")
LIE = (
    "yesterday",
    "wrong signature",
    "garbage",
    "older receipt",
    "other nonce",
    "no json",
    "nested",
    "no receipt",
    "enormous",
)


@pytest.mark.parametrize("mode", FAIL)
def test_a_seat_that_fails__is_followed_by_another_and_rests(
    mode: str, place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (bad, *_) = place
    bad.mode = mode
    with client(market, stored, tmp_path, timeout_s=0.6) as inference:
        answer = inference.complete(PROMPTS, NEW)
        assert (answer.texts, answer.seat) == (right(stored), 2)
        assert COST <= answer.paid <= 2 * COST
        assert inference.complete(PROMPTS, NEW).seat != 1
        assert bad.asked == 1, "it rests"
        assert inference._purse.signed(bad.operator) <= COST
    assert not (tmp_path / "dropped").exists()


@pytest.mark.parametrize("mode", LIE)
def test_a_bad_answer__ends_all_payments_to_its_operator(
    mode: str, place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (bad, *_) = place
    only(market, bad)
    with client(market, stored, tmp_path) as inference:
        inference.complete(PROMPTS, NEW)
        bad.mode = mode
        with pytest.raises(NotAnswered, match="seat 1: "):
            inference.complete(PROMPTS, NEW)
        assert (bad.asked, inference._purse.signed(bad.operator)) == (2, 2 * COST)
        with pytest.raises(NotAnswered, match="gave a bad answer before"):
            inference.complete(PROMPTS, NEW)
    with client(market, stored, tmp_path) as again:
        with pytest.raises(NotAnswered, match="gave a bad answer before"):
            again.complete(PROMPTS, NEW)
        market.listed = [each.seat() for each in place[1]]
        again._seats._seen = None
        assert again.complete(PROMPTS, NEW).seat != 1
    assert bad.asked == 2


def test_a_dead_seat__costs_nothing(place: Market, stored: StoredService, tmp_path: Path) -> None:
    market, (dead, *_) = place
    dead.die()
    with client(market, stored, tmp_path) as inference:
        assert inference.complete(PROMPTS, NEW).paid == COST
        assert inference._purse.signed(dead.operator) == 0


def test_a_seat_whose_url_leads_into_this_machine__is_not_asked_unless_that_is_allowed(
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (first, *_) = place
    only(market, first)
    with client(market, stored, tmp_path, scope=Scope.PUBLIC) as inference:
        with pytest.raises(NotAnswered, match="an address that is not public"):
            inference.complete(PROMPTS, NEW)
        assert (first.asked, inference._purse.signed(first.operator)) == (0, 0)


def test_retries__are_bounded_and_each_costs_one_voucher_at_most(
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, made = place
    for each in made:
        each.mode = "takes and refuses"
    with client(market, stored, tmp_path, tries=2) as inference:
        with pytest.raises(NotAnswered, match=r"seat 1: HTTP 503: stopping; seat 2: HTTP 503: stopping"):
            inference.complete(PROMPTS, NEW)
        signed = [inference._purse.signed(each.operator) for each in made]
    assert ([each.asked for each in made], signed) == ([1, 1, 0], [COST, COST, 0])


def test_a_seat_that_keeps_vouchers_and_wants_more__gets_one_at_a_time(
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (greedy, *_) = place
    only(market, greedy)
    greedy.mode = "payment loop"
    with client(market, stored, tmp_path, timeout_s=2.5) as inference:
        for tries in (1, 2):
            with pytest.raises(NotAnswered):
                inference.complete(PROMPTS, NEW)
            assert inference._purse.signed(greedy.operator) <= tries * COST


def test_a_seat_that_refused_before_it_took_the_voucher__is_owed_nothing_for_it(
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (busy, *_) = place
    only(market, busy)
    busy.mode = "busy"
    with client(market, stored, tmp_path) as inference:
        with pytest.raises(NotAnswered):
            inference.complete(PROMPTS, NEW)
        busy.mode = "honest"
        inference.complete(PROMPTS, NEW)
        assert inference._purse.signed(busy.operator) == busy.owes() == busy.served == COST


@pytest.mark.parametrize("mode", ["hang", "cut", "takes and refuses"])
def test_a_voucher_that_came_though_its_answer_was_lost__is_paid_and_the_next_one_goes_on_from_it(
    mode: str, place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (lost, *_) = place
    only(market, lost)
    with client(market, stored, tmp_path, timeout_s=3.0) as inference:
        inference.complete(PROMPTS, NEW)
        lost.mode = mode
        with pytest.raises(NotAnswered):
            inference.complete(PROMPTS, NEW)
        lost.mode = "honest"
        inference.complete(PROMPTS, NEW)
        assert inference._purse.signed(lost.operator) == lost.owes() == 3 * COST
        assert lost.served == 2 * COST


def test_a_stream_whose_seat_dies__goes_on_at_another_without_a_repeated_letter(
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (dying, *_) = place
    dying.mode = "cut"
    with client(market, stored, tmp_path) as inference:
        pieces, answer = streamed(inference)
        assert joined(pieces) == answer.texts == right(stored)
        assert (answer.seat, answer.paid, dying.asked) == (2, 2 * COST, 1)


@pytest.mark.parametrize("mode", ["false words", "two receipts"])
def test_a_stream_of_other_words_than_its_receipt__is_known_as_false(
    mode: str, place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (bad, *_) = place
    bad.mode = mode
    with client(market, stored, tmp_path) as inference:
        if mode == "false words":
            with pytest.raises(FalseStream) as error:
                streamed(inference)
            assert error.value.answer.texts == right(stored)
            assert error.value.answer.checked
        else:
            assert streamed(inference)[1].seat == 2
        assert inference._receipts.is_dropped(bad.operator)


def test_a_stream_that_began_with_false_words_of_a_dead_seat__is_false_and_who_went_on_is_not_blamed(
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (bad, good, _) = place
    bad.mode = "false words, dead"
    with client(market, stored, tmp_path) as inference:
        with pytest.raises(FalseStream) as error:
            streamed(inference)
        answer = error.value.answer
        assert (answer.texts, answer.seat, answer.checked, answer.is_true) == (right(stored), 2, True, True)
        assert [inference._receipts.is_dropped(each.operator) for each in (bad, good)] == [True, False]


def test_a_stream_that_nobody_reads_to_its_end__frees_its_seat(
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (first, *_) = place
    only(market, first)
    with client(market, stored, tmp_path, at_once=1) as inference:
        stream = inference.stream(PROMPTS, NEW)
        next(stream)
        stream.close()
        assert inference.complete(PROMPTS, NEW).seat == 1
        assert inference._purse.signed(first.operator) == first.owes() == 2 * COST
