"""A client against honest seats on loopback: answers, balance, and money to the wei, also after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.embedding_model import embedding_model
from tests.support.seat_clients import COST, DEPOSIT, NEW, PROMPTS, Market, client, joined, only, right, streamed
from tests.support.seat_market import PLACE
from tests.support.seat_servers import PRICE, seats, stored_service
from zoo_compute.errors import UserError, VoucherRefused
from zoo_compute.inference import usable
from zoo_compute.inference.answers import Completions
from zoo_compute.inference.client import Inference, NotAnswered, Terms
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.receipt_file import ReceiptFile
from zoo_compute.spec.receipts import Offer

# -- an honest seat


def test_an_answer__has_texts_tokens_seat_price_and_a_receipt(
    place: Market, stored: StoredService, tmp_path: Path
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


def test_tokens_in_place_of_texts__are_the_same_question(place: Market, stored: StoredService, tmp_path: Path) -> None:
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
    prompts: Any, new: int, message: str, place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, made = place
    with client(market, stored, tmp_path) as inference:
        with pytest.raises(ValueError if message not in ("list of tokens",) else UserError, match=message):
            inference.complete(prompts, new)
        with pytest.raises(UserError, match="service of completions"):
            inference.embed("a")
    assert (market.sent, sum(each.asked for each in made)) == ([], 0)


def test_a_stream__yields_pieces_that_join_to_the_answer(place: Market, stored: StoredService, tmp_path: Path) -> None:
    with client(place[0], stored, tmp_path) as inference:
        pieces, answer = streamed(inference)
        assert joined(pieces) == answer.texts == right(stored)
        assert len(pieces) > 2


def test_embeddings__are_the_vectors_of_the_opened_outputs_and_a_lie_in_them_is_found(tmp_path: Path) -> None:
    model = embedding_model()
    stored = stored_service(tmp_path / "store", model)
    vectors = model.model.embedding.weight.detach().numpy()
    with seats(stored, tmp_path / "seats", [PRICE]) as (market, (seat,)):
        with client(market, stored, tmp_path) as inference:
            answer = inference.embed(["ab", "c"])
            assert (answer.cost, answer.vectors.shape) == (3 * PRICE // 1_000, (2, 5))
            filled = np.array([[97, 98, *[0] * 10], [99, *[0] * 11]])
            np.testing.assert_allclose(answer.vectors, vectors[filled].mean(1), rtol=1e-5, atol=1e-6)
            with pytest.raises(UserError, match="service of embeddings"):
                inference.complete("ab")
        seat.mode = "lying"
        with client(market, stored, tmp_path, draw=lambda: 0.0) as inference:
            again = inference.embed(["ab", "c"])
            assert (again.is_true, again.vectors.tolist()) == (False, answer.vectors.tolist())


# -- balance and money


def test_the_cheapest_seat__is_asked_first_and_a_dearer_one_than_allowed_never(
    place: Market, stored: StoredService, tmp_path: Path
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


def test_a_seat_whose_price_rose__is_looked_at_again_and_paid_its_new_price(
    place: Market, stored: StoredService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    market, (first, *_) = place
    monkeypatch.setattr(usable, "AGAIN_S", 0.0)
    only(market, first)
    with client(market, stored, tmp_path, max_price=2 * PRICE) as inference:
        inference.complete(PROMPTS, NEW)
        assert market.looks == 1
        first.price = 2 * PRICE
        only(market, first)
        with pytest.raises(NotAnswered, match="HTTP 402"):
            inference.complete(PROMPTS, NEW)
        assert inference.complete(PROMPTS, NEW).cost == 2 * COST
        assert inference._purse.signed(first.operator) == first.owes() == first.served == 3 * COST


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offer": Offer(bytes(32), PRICE + 1, PLACE.zen, "http://127.0.0.1:1")}, "its price is"),
        ({"offer": Offer(bytes(32), PRICE, PLACE.serving, "http://127.0.0.1:1")}, "not in ZEN"),
        ({"left_at": 5}, "it was left"),
        ({"lock": 1}, "its lock is 1 wei, and should be"),
    ],
)
def test_a_seat_that_is_not_good_enough__is_not_asked(
    changes: Any, message: str, place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (first, *_) = place
    market.listed = [first.seat(**changes)]
    with client(market, stored, tmp_path) as inference, pytest.raises(NotAnswered, match=message):
        inference.complete(PROMPTS, NEW)
    assert (first.asked, market.sent) == (0, [])


def test_several_requests_at_once__are_spread_and_vouchers_stay_equal_to_the_wei(
    place: Market, stored: StoredService, tmp_path: Path
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
    place: Market, stored: StoredService, tmp_path: Path
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
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    with (
        client(place[0], stored, tmp_path, deposit=COST - 1) as inference,
        pytest.raises(UserError, match="deposit of a channel"),
    ):
        inference.complete(PROMPTS, NEW)
    assert place[0].sent == []


def test_a_channel_that_its_operator_closed__is_replaced(place: Market, stored: StoredService, tmp_path: Path) -> None:
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
from tests.support.seat_clients import *
from tests.support.seat_servers import seats, stored_service
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
    with seats(stored, tmp_path / "seats", [PRICE]) as (market, (seat,)):  # noqa: SIM117
        with closing(Inference(market, stored, tmp_path, Terms(PRICE, DEPOSIT), say=lambda _: None)) as again:
            market.open(seat.operator, again._purse.signer, DEPOSIT)
            assert again._purse.signed(seat.operator) >= signed
            assert len(again.unchecked()) >= kept
            with pytest.raises(VoucherRefused):
                again._purse.pay(seat.operator, DEPOSIT)
            assert json.loads(json.dumps(again._purse.pay(seat.operator, 1).to_dict()))["channel"] == 1
