"""A client against seats on loopback: answers, money to the wei, retries, and every way in which a seat can fail or lie."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.seat_servers import PRICE, FakeMarket, FakeSeat, execution, seats, stored_service
from zoo_compute.errors import UserError, VoucherRefused
from zoo_compute.inference import client as client_module
from zoo_compute.inference.answers import Completions
from zoo_compute.inference.checking import is_true
from zoo_compute.inference.client import FalseStream, Inference, NotAnswered, Terms
from zoo_compute.serving.execution import tokens_of
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.questions import Question
from zoo_compute.serving.receipt_file import ReceiptFile
from zoo_compute.store.addresses import Scope

PROMPTS, NEW = ["ab", "cde"], 4
COST = (2 + 3 + 2 * NEW) * PRICE // 1_000
DEPOSIT = 100 * COST


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredService:
    return stored_service(tmp_path_factory.mktemp("store"))


@pytest.fixture
def place(stored: StoredService, tmp_path: Path) -> Iterator[tuple[FakeMarket, list[FakeSeat]]]:
    with seats(stored, tmp_path / "seats", [PRICE] * 3) as made:
        yield made


def never() -> float:
    return 1.0 - 2**-53


@contextmanager
def client(
    market: FakeMarket, stored: StoredService, home: Path, draw: Callable[[], float] = never, **terms: Any
) -> Iterator[Inference]:
    chosen = {"max_price": PRICE, "deposit": DEPOSIT, "timeout_s": 5.0, "scope": Scope.LOOPBACK, **terms}
    with closing(Inference(market, stored, home, Terms(**chosen), draw=draw, say=lambda _: None)) as made:
        yield made


def right(stored: StoredService, prompts: list[str] = PROMPTS, new: int = NEW) -> tuple[str, ...]:
    """What the model says, by its own execution."""
    question = Question(stored.service, tuple(tuple(each.encode()) for each in prompts), new, b"r" * 32)
    tokens = tokens_of(question, execution().answer(question).outputs)
    return tuple(bytes(each).decode(errors="replace") for each in tokens)


def only(market: FakeMarket, *chosen: FakeSeat) -> None:
    market.listed = [each.seat() for each in chosen]


# -- an honest seat


def test_an_answer__has_texts_tokens_seat_price_and_a_receipt(
    place: Any, stored: StoredService, tmp_path: Path
) -> None:
    market, (first, *_) = place
    with client(market, stored, tmp_path) as inference:
        answer = inference.complete(PROMPTS, NEW)
        assert answer.texts == right(stored)
        assert (answer.seat, answer.operator, answer.cost, answer.paid) == (1, first.operator, COST, COST)
        assert answer.finish_reasons == ("length", "length")
        assert not answer.checked
        assert inference.unchecked() == [answer.receipt]
        assert ReceiptFile.from_bytes(answer.receipt.to_bytes()) == answer.receipt
        assert stored.question(answer.receipt.question).prompts == (tuple(b"ab"), tuple(b"cde"))
    assert market.sent == [f"open {first.operator} {DEPOSIT}"]


def test_tokens_in_place_of_texts__are_the_same_question(place: Any, stored: StoredService, tmp_path: Path) -> None:
    with client(place[0], stored, tmp_path) as inference:
        assert inference.complete([list(each.encode()) for each in PROMPTS], NEW).texts == right(stored)
        assert inference.complete("ab", NEW).texts == right(stored, ["ab"])


@pytest.mark.parametrize(
    ("prompts", "new", "message"),
    [
        ("", 4, "empty"),
        ("a" * 12, 4, "positions"),
        (["a"] * 3, 4, "texts in one request"),
        ("a", 0, "max_tokens"),
        ([[300]], 4, "tokens 0 to 255"),
        ([[1.5]], 4, "list of tokens"),
        ([7], 4, "list of tokens"),
    ],
)
def test_what_the_service_cannot_answer__is_refused_before_anything_is_paid(
    prompts: Any, new: int, message: str, place: Any, stored: StoredService, tmp_path: Path
) -> None:
    market, made = place
    with client(market, stored, tmp_path) as inference:
        with pytest.raises(ValueError if message not in ("list of tokens",) else UserError, match=message):
            inference.complete(prompts, new)
        with pytest.raises(UserError, match="service of completions"):
            inference.embed("a")
    assert (market.sent, sum(each.asked for each in made)) == ([], 0)


def test_a_stream__yields_pieces_that_join_to_the_answer(place: Any, stored: StoredService, tmp_path: Path) -> None:
    with client(place[0], stored, tmp_path) as inference:
        pieces, answer = streamed(inference)
        assert joined(pieces) == answer.texts == right(stored)
        assert len(pieces) > 2


def streamed(inference: Inference) -> tuple[list[Any], Completions]:
    pieces, stream = [], inference.stream(PROMPTS, NEW)
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as end:
            return pieces, end.value


def joined(pieces: list[Any]) -> tuple[str, ...]:
    return tuple("".join(each.text for each in pieces if each.index == index) for index in range(len(PROMPTS)))


# -- seats that fail: another one answers, and what is lost is one request's price at most

FAIL = ("cut", "hang", "drip", "busy", "redirect", "takes and refuses", "payment loop", "owes a fortune")
LIE = ("yesterday", "wrong signature", "garbage", "older receipt", "other nonce", "no json", "no receipt", "enormous")


@pytest.mark.parametrize("mode", FAIL)
def test_a_seat_that_fails__is_followed_by_another_and_rests(
    mode: str, place: Any, stored: StoredService, tmp_path: Path
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
    mode: str, place: Any, stored: StoredService, tmp_path: Path
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


def test_a_dead_seat__costs_nothing(place: Any, stored: StoredService, tmp_path: Path) -> None:
    market, (dead, *_) = place
    dead.die()
    with client(market, stored, tmp_path) as inference:
        assert inference.complete(PROMPTS, NEW).paid == COST
        assert inference._purse.signed(dead.operator) == 0


def test_retries__are_bounded_and_each_costs_one_voucher_at_most(
    place: Any, stored: StoredService, tmp_path: Path
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
    place: Any, stored: StoredService, tmp_path: Path
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
    place: Any, stored: StoredService, tmp_path: Path
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
    mode: str, place: Any, stored: StoredService, tmp_path: Path
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
    place: Any, stored: StoredService, tmp_path: Path
) -> None:
    market, (dying, *_) = place
    dying.mode = "cut"
    with client(market, stored, tmp_path) as inference:
        pieces, answer = streamed(inference)
        assert joined(pieces) == answer.texts == right(stored)
        assert (answer.seat, answer.paid, dying.asked) == (2, 2 * COST, 1)


@pytest.mark.parametrize("mode", ["false words", "two receipts"])
def test_a_stream_of_other_words_than_its_receipt__is_known_as_false(
    mode: str, place: Any, stored: StoredService, tmp_path: Path
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


def test_a_stream_that_nobody_reads_to_its_end__frees_its_seat(
    place: Any, stored: StoredService, tmp_path: Path
) -> None:
    market, (first, *_) = place
    only(market, first)
    with client(market, stored, tmp_path, at_once=1) as inference:
        stream = inference.stream(PROMPTS, NEW)
        next(stream)
        stream.close()
        assert inference.complete(PROMPTS, NEW).seat == 1
        assert inference._purse.signed(first.operator) == first.owes() == 2 * COST


# -- lies that only computing again shows


def test_a_lie__is_found_by_computing_again_and_the_right_answer_is_returned(
    place: Any, stored: StoredService, tmp_path: Path
) -> None:
    market, (liar, *_) = place
    liar.mode = "lying"
    with client(market, stored, tmp_path, draw=lambda: 0.0) as inference:
        answer = inference.complete(PROMPTS, NEW)
        assert (answer.texts, answer.seat, answer.checked) == (right(stored), 1, True)
        assert inference._receipts.is_dropped(liar.operator)
        assert inference.complete(PROMPTS, NEW).seat != 1
        receipt = answer.receipt.signed.receipt
        (path,) = (tmp_path / "receipts").iterdir()
        question = stored.question(answer.receipt.question)
        assert path.name == f"1-{question.id:064x}.json"
        file = ReceiptFile.from_bytes(path.read_bytes())
        assert file == answer.receipt
        assert not is_true(receipt, execution().answer(question))
        assert is_true(receipt, execution(lies=True).answer(question))


def test_a_lie_that_was_not_drawn__is_found_by_a_later_doubt(place: Any, stored: StoredService, tmp_path: Path) -> None:
    market, (liar, second, _) = place
    liar.mode = "lying"
    with client(market, stored, tmp_path) as inference:
        assert inference.complete(PROMPTS, NEW).texts != right(stored)
        only(market, second)
        inference._seats._seen = None
        inference.complete(PROMPTS, NEW)
    with client(market, stored, tmp_path) as later:
        files = {each.signed.receipt.seat: later.recheck(each) for each in later.unchecked()}
        assert files[2] is None
        assert ReceiptFile.from_bytes(files[1].read_bytes()).signed.receipt.seat == 1
        assert [each.signed.receipt.seat for each in later.unchecked()] == [1]
        market.now += market.place.window_s + 1
        assert later.unchecked() == []


def test_sampling__computes_as_many_answers_again_as_its_rate_says(
    place: Any, stored: StoredService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, rate, count = Random(7), 0.2, 120
    expected, same = Random(7), 0
    with client(place[0], stored, tmp_path, draw=random.random, check=rate) as inference:
        for _ in range(count):
            wanted = expected.random() < rate
            assert inference.complete("ab", 1).checked == wanted
            same += wanted
    assert abs(same - rate * count) < 3 * (count * rate * (1 - rate)) ** 0.5


def test_the_draw__comes_from_the_system_and_after_the_receipt(
    place: Any, stored: StoredService, tmp_path: Path
) -> None:
    market, made = place
    drawn_after: list[int] = []

    def draw() -> float:
        drawn_after.append(sum(each.served for each in made))
        return 1.0

    with client(market, stored, tmp_path, draw=draw) as inference:
        inference.complete(PROMPTS, NEW)
    assert drawn_after == [COST]
    assert type(client_module._draw.__self__).__name__ == "SystemRandom"


# -- balance and money


def test_the_cheapest_seat__is_asked_first_and_a_dearer_one_than_allowed_never(
    place: Any, stored: StoredService, tmp_path: Path
) -> None:
    market, made = place
    for each, price in zip(made, (PRICE, PRICE // 2, 2 * PRICE), strict=True):
        each.price = price
    market.listed = [each.seat() for each in made]
    with client(market, stored, tmp_path) as inference:
        assert [inference.complete(PROMPTS, NEW).seat for _ in range(3)] == [2, 2, 2]
        made[1].mode = "busy"
        assert inference.complete(PROMPTS, NEW).seat == 1
    assert made[2].asked == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left_at": 5}, "it was left"),
        ({"lock": 1}, "its lock is 1 wei, and should be"),
    ],
)
def test_a_seat_that_is_not_good_enough__is_not_asked(
    changes: Any, message: str, place: Any, stored: StoredService, tmp_path: Path
) -> None:
    market, (first, *_) = place
    market.listed = [first.seat(**changes)]
    with client(market, stored, tmp_path) as inference, pytest.raises(NotAnswered, match=message):
        inference.complete(PROMPTS, NEW)
    assert (first.asked, market.sent) == (0, [])


def test_several_requests_at_once__are_spread_and_vouchers_stay_equal_to_the_wei(
    place: Any, stored: StoredService, tmp_path: Path
) -> None:
    market, made = place
    for each in made:
        each.delay_s = 0.05
    out: list[Completions] = []
    with client(market, stored, tmp_path) as inference:
        threads = [threading.Thread(target=lambda: out.append(inference.complete(PROMPTS, NEW))) for _ in range(18)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [each.texts for each in out] == [right(stored)] * 18
        assert sum(each.served for each in made) == sum(each.paid for each in out) == 18 * COST
        for each in made:
            assert each.served > 0
            assert inference._purse.signed(each.operator) == each.owes() == each.served
            assert each.accepted == [COST] * (each.served // COST)
    assert len(market.sent) == 3


def test_a_channel__is_topped_up_when_it_is_spent_and_taken_up_by_the_next_process(
    place: Any, stored: StoredService, tmp_path: Path
) -> None:
    market, (first, *_) = place
    only(market, first)
    with client(market, stored, tmp_path, deposit=2 * COST) as inference:
        for _ in range(3):
            inference.complete(PROMPTS, NEW)
    with client(market, stored, tmp_path, deposit=2 * COST) as again:
        again.complete(PROMPTS, NEW)
        assert market.sent == [f"open {first.operator} {2 * COST}", f"add 1 {2 * COST}"]
        assert again._purse.signed(first.operator) == first.owes() == 4 * COST
        assert again.leave() == [1]
    assert market.channels[1].ends_at
    assert (tmp_path / "vouchers.key").stat().st_mode & 0o777 == 0o600


def test_a_request_that_costs_more_than_the_deposit__is_refused(
    place: Any, stored: StoredService, tmp_path: Path
) -> None:
    with (
        client(place[0], stored, tmp_path, deposit=COST - 1) as inference,
        pytest.raises(UserError, match="raise the deposit|deposit of a channel"),
    ):
        inference.complete(PROMPTS, NEW)
    assert place[0].sent == []


def test_a_channel_that_its_operator_closed__is_replaced(place: Any, stored: StoredService, tmp_path: Path) -> None:
    market, (first, *_) = place
    only(market, first)
    with client(market, stored, tmp_path) as inference:
        inference.complete(PROMPTS, NEW)
        market.close(1)
        market.channels[2] = market.read(1)  # numbers never come again
        first.book.forget(1)
        first.book.look(1)
        first.mode = "honest"
        inference._purse.look(first.operator)
        assert inference.complete(PROMPTS, NEW).paid == COST
    assert [each.split()[0] for each in market.sent] == ["open", "open"]


@pytest.mark.parametrize(
    "wrong", [{"check": 0.0}, {"check": 1.5}, {"deposit": 0}, {"tries": 0}, {"timeout_s": 0}, {"max_price": -1}]
)
def test_terms__that_make_no_sense__are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        Terms(**{"max_price": 1, "deposit": 1, **wrong})


KILLED = """
import sys
from pathlib import Path
from tests.serving.test_inference import *
stored = stored_service(Path(sys.argv[1]))
with seats(stored, Path(sys.argv[2]) / "seats", [PRICE]) as (market, made), client(market, stored, Path(sys.argv[2])) as inference:
    while True:
        answer = inference.complete(PROMPTS, NEW)
        print(inference._purse.signed(answer.operator), len(inference.unchecked()), flush=True)
"""


def test_a_client_that_is_killed__has_all_that_it_signed_and_every_receipt_that_it_returned(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path / "store", tmp_path], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in range(3)]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    signed, kept = map(int, lines[-1])
    assert (signed, kept) == (3 * COST, 3)
    stored = stored_service(tmp_path / "store")
    with seats(stored, tmp_path / "seats", [PRICE]) as (market, (seat,)):
        with closing(Inference(market, stored, tmp_path, Terms(PRICE, DEPOSIT), say=lambda _: None)) as again:
            market.open(seat.operator, again._purse.signer, DEPOSIT)
            assert again._purse.signed(seat.operator) >= signed
            assert len(again.unchecked()) >= kept
            with pytest.raises(VoucherRefused):
                again._purse.pay(seat.operator, DEPOSIT)
            assert json.loads(json.dumps(again._purse.pay(seat.operator, 1).to_dict()))["channel"] == 1
