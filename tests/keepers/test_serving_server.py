"""A serving seat's HTTP server: paid by vouchers, answered with receipts that a client accepts, refused with words it can act on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepers.services.answered_questions import AnsweredQuestions, QuestionsOf
from keepers.serving import application
from keepers.serving.answers import Stream
from tests.support.served_model import served_model
from tests.support.served_seat import NOW, PRICE, LocalSeat, checked, local_seat
from tests.support.waiting import HANG_S, wait_until
from zoo_compute.serving.execution import Ending, tokens_of
from zoo_compute.serving.files import plain
from zoo_compute.serving.prices import cost_of
from zoo_compute.serving.questions import Question
from zoo_compute.serving.texts import ByteTexts
from zoo_compute.spec.frames import claim_hash
from zoo_compute.spec.serving import claim_of
from zoo_compute.store.cid import raw_cid

NONCE = b"n" * 32
COST = 6 * PRICE // 1000  # of "ab" and four new tokens
BODY = {"model": "tiny", "prompt": "ab", "max_tokens": 4}


@pytest.fixture
def seat(tmp_path: Path) -> Iterator[LocalSeat]:
    with local_seat(tmp_path) as made:
        yield made


def ask(seat: LocalSeat, total: int, body: dict[str, Any] | None = None, nonce: bytes = NONCE, **options: Any) -> Any:
    with seat.client() as client:
        return client.post("/v1/completions", json=BODY | (body or {}), headers=seat.headers(total, nonce, **options))


def events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


# --- answers


def test_an_answer__has_its_text_and_a_receipt_that_the_client_accepts(seat: LocalSeat) -> None:
    response = ask(seat, COST)
    assert response.status_code == 200, response.text
    answer, question = response.json(), seat.model.question(b"ab")
    receipt = checked(answer["zoo"], question, seat.model)
    outputs = seat.execution.answer(question).outputs
    (tokens,) = tokens_of(question, outputs)
    assert (answer["object"], answer["model"]) == ("text_completion", "tiny")
    text = bytes(tokens).decode(errors="replace")
    assert answer["choices"] == [{"text": text, "index": 0, "finish_reason": "length", "logprobs": None}]
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}
    assert answer["zoo"]["owed"] == str(COST)
    stored = seat.answered.get(claim_hash(claim_of(7, receipt)))
    assert stored == plain(raw_cid(seat.watched.seat.offer.service), question)
    assert receipt.issued == NOW


@pytest.mark.parametrize("prompt", ["ab", ["ab", "cde"], [97, 98], [[97, 98], [99, 100, 101]], ["ä"]])
def test_prompts__come_in_each_form_of_openai(seat: LocalSeat, prompt: Any) -> None:
    response = ask(seat, 10 * COST, {"prompt": prompt})
    assert response.status_code == 200, response.text
    texts = {"ab": [b"ab"], "['ab', 'cde']": [b"ab", b"cde"], "[97, 98]": [b"ab"], "['ä']": ["ä".encode()]}
    expected = texts.get(str(prompt), [b"ab", b"cde"])
    checked(response.json()["zoo"], seat.model.question(*expected), seat.model)
    assert len(response.json()["choices"]) == len(expected)


def test_a_stream__has_pieces_that_join_to_the_whole_and_ends_with_the_receipt(seat: LocalSeat) -> None:
    many = {"prompt": ["ab", "cde"], "max_tokens": 8}
    whole = ask(seat, 10 * COST, many).json()
    response = ask(seat, 20 * COST, many | {"stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    *pieces, last, done = events(response.text)
    assert done == "[DONE]"
    assert len(pieces) > 2
    joined = ["", ""]
    for piece in pieces:
        for choice in piece["choices"]:
            assert choice["finish_reason"] is None
            joined[choice["index"]] += choice["text"]
    assert joined == [choice["text"] for choice in whole["choices"]]
    assert [choice["finish_reason"] for choice in last["choices"]] == ["length", "length"]
    assert last["usage"] == whole["usage"]
    receipt = checked(last["zoo"], seat.model.question(b"ab", b"cde", new_tokens=8), seat.model)
    assert receipt.end.hex() == whole["zoo"]["receipt"]["end"]


@pytest.mark.parametrize(
    ("end", "made", "text"),
    [
        (None, [0x61, 0xE2, 0x82], "a\ufffd"),  # cut in the middle of a character
        (10, [0x61, 0xC3, 10, 0x62], "a\ufffd"),
        (10, [10, 10], ""),
    ],
)
def test_a_streams_text__ends_where_the_whole_one_does(end: int | None, made: list[int], text: str) -> None:
    service = replace(served_model().service, end=end)
    question = Question(service, ((97, 98),), len(made), NONCE)
    stream, outputs = Stream(question, ByteTexts()), np.array([[0, 0], *([each, 0] for each in made)], np.float32)
    said = [event for number, row in enumerate(outputs) if (line := stream.step(number, row)) for event in events(line)]
    assert "".join(choice["text"] for event in said for choice in event["choices"]) == text
    (tokens,) = tokens_of(question, outputs)
    assert ByteTexts().decode(tokens) == text


def test_two_requests_at_once__are_both_answered_and_paid(seat: LocalSeat) -> None:
    seat.open_channel(2)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, seat, n * COST, {"prompt": "ab" * n}, channel=n) for n in (1, 2)]
        both = [each.result(HANG_S) for each in asked]
    assert [each.status_code for each in both] == [200, 200]
    for prompt, response in zip((b"ab", b"abab"), both, strict=True):
        checked(response.json()["zoo"], seat.model.question(prompt), seat.model)


def test_models__say_seat_price_and_contracts(seat: LocalSeat) -> None:
    with seat.client() as client:
        (model,) = client.get("/v1/models").json()["data"]
    assert (model["id"], model["object"], model["owned_by"]) == ("tiny", "model", "operator 7")
    assert model["zoo"]["price"] == str(PRICE)
    assert model["zoo"]["service"] == raw_cid(seat.watched.seat.offer.service)
    assert (model["zoo"]["seat"], model["zoo"]["queue"]) == (5, 0)


# --- payment


def test_a_request_without_a_voucher__costs_402_and_says_what(seat: LocalSeat) -> None:
    with seat.client() as client:
        response = client.post("/v1/completions", json=BODY, headers={"Zoo-Nonce": NONCE.hex()})
    assert (response.status_code, response.json()["zoo"]) == (402, {"cost": str(COST)})
    assert seat.served.engine.waiting == 0


def test_a_client__that_stops_paying_is_answered_no_more(seat: LocalSeat) -> None:
    assert ask(seat, COST).status_code == 200
    for total in (COST, 2 * COST - 1):  # a replay, and too little
        response = ask(seat, total)
        assert (response.status_code, response.json()["zoo"]) == (402, {"owed": str(COST), "cost": str(COST)})
    newest = seat.served.book.newest(1)
    assert newest is not None
    assert newest.voucher.total == COST
    assert ask(seat, 2 * COST).status_code == 200


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": b"\x09" * 32}, "not signed by its signer"),
        ({"channel": 9}, "not open to operator 7|not signed"),
        ({"channel": 2}, "pays in the token"),
        ({"channel": 3}, "given notice"),
        ({"channel": 4}, "its deposit is 1"),
    ],
)
def test_a_voucher__that_pays_nothing_is_refused(seat: LocalSeat, options: dict[str, Any], words: str) -> None:
    seat.open_channel(2, token="0x" + 20 * "bb")
    seat.open_channel(3, ends_at=99)
    seat.open_channel(4, deposit=1)
    response = ask(seat, COST, **options)
    assert response.status_code == 402
    assert re.search(words, response.json()["error"]["message"])
    assert not seat.served.book.channels()
    assert seat.served.engine.waiting == 0


def test_a_new_price__counts_at_once(seat: LocalSeat) -> None:
    seat.watched.price = 2 * PRICE
    assert ask(seat, COST).json()["zoo"]["cost"] == str(2 * COST)
    assert cost_of(seat.model.question(b"ab"), 1) == 1  # rounded up


def test_a_crash_after_the_voucher__costs_the_client_this_request_and_the_operator_none(
    seat: LocalSeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> Ending:
        raise RuntimeError("the GPU fell off")

    with monkeypatch.context() as patched:
        patched.setattr(seat.execution, "answer", crash)
        response = ask(seat, COST)
    assert (response.status_code, response.json()["error"]["code"]) == (500, "failed")
    assert "GPU" not in response.text
    newest = seat.served.book.newest(1)
    assert newest is not None
    assert newest.voucher.total == COST
    assert ask(seat, COST).status_code == 402
    assert ask(seat, 2 * COST).status_code == 200  # the engine's thread lives


def test_an_answer__whose_question_cannot_be_stored_leaves_without_a_receipt(
    seat: LocalSeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(seat.answered, "add", full)
    response = ask(seat, COST)
    assert response.status_code == 500
    assert "receipt" not in response.text
    *_, last = events(ask(seat, 2 * COST, {"stream": True}).text)
    assert last["error"]["code"] == "failed"


# --- refusals


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"model": "other"}, 404, "expected 'tiny'"),
        ({"prompt": ""}, 400, "at least one token"),
        ({"prompt": None}, 400, "prompt: expected a text"),
        ({"prompt": [97, "b"]}, 400, "prompt: expected a text"),
        ({"prompt": [256]}, 400, "tokens 0 to 255"),
        ({"prompt": [-1]}, 400, "tokens 0 to 255"),
        ({"prompt": ["a", "b", "c"]}, 400, "at most 2"),
        ({"prompt": "ab" * 9}, 400, "shorten it"),
        ({"max_tokens": 0}, 400, "max_tokens: expected a number from 1"),
        ({"max_tokens": 10**30}, 400, "lower max_tokens"),
        ({"max_tokens": True}, 400, "max_tokens"),
        ({"temperature": 1}, 400, "samples at 0"),
        ({"n": 2}, 400, "n: it would change"),
        ({"n": True}, 400, "n: it would change"),
        ({"seed": 1}, 400, "seed: it would change"),
        ({"logprobs": 3}, 400, "logprobs: it would change"),
        ({"stop": ["x"]}, 400, "stop: it would change"),
        ({"tools": []}, 400, "tools: this server does not know"),
        ({"stream": "yes"}, 400, "stream: expected true or false"),
    ],
)
def test_a_request_that_cannot_be_answered__says_why_and_is_not_paid(
    seat: LocalSeat, change: dict[str, Any], status: int, words: str
) -> None:
    response = ask(seat, 10 * COST, change)
    assert response.status_code == status
    error = response.json()["error"]
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"
    assert not seat.served.book.channels()
    assert seat.served.engine.waiting == 0


def test_what_changes_nothing__is_accepted(seat: LocalSeat) -> None:
    same = {
        "user": "me",
        "n": 1,
        "seed": None,
        "logprobs": None,
        "temperature": 0,
        "top_p": 1.0,
        "echo": False,
        "stop": None,
    }
    assert ask(seat, COST, same).status_code == 200


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b"\xff\xfe", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b'{"model": "tiny", "model": "tiny"}', {}, 400),
        (b"9" * 5_000, {}, 400),
        (b" " * 2_000, {}, 413),
        (json.dumps(BODY).encode(), {"Zoo-Nonce": ""}, 400),
        (json.dumps(BODY).encode(), {"Zoo-Nonce": "AB" * 32}, 400),
        (json.dumps(BODY).encode(), {"Zoo-Voucher": "{}"}, 400),
        (json.dumps(BODY).encode(), {"Zoo-Voucher": '{"channel": 1, "total": "-1", "signature": "0x"}'}, 400),
    ],
)
def test_hostile_bodies_and_headers__are_refused(
    seat: LocalSeat, monkeypatch: pytest.MonkeyPatch, content: bytes, headers: dict[str, str], status: int
) -> None:
    monkeypatch.setattr(application, "MAX_BODY", 1_000 if status == 413 else 10**6)
    with seat.client() as client:
        response = client.post("/v1/completions", content=content, headers=seat.headers(COST) | headers)
        assert response.status_code == status, response.text
        assert set(response.json()["error"]) == {"message", "type", "code"}
        chunked = client.post("/v1/completions", content=iter([content]), headers=seat.headers(COST) | headers)
    assert chunked.status_code == status


def test_another_endpoint__is_refused(seat: LocalSeat) -> None:
    with seat.client() as client:
        response = client.post("/v1/embeddings", json={"model": "tiny", "input": "a"}, headers=seat.headers(COST))
        assert (response.status_code, response.json()["error"]["code"]) == (400, "wrong_endpoint")
        assert client.get("/v1/other").json()["error"]["code"] == "no_such_path"
        assert client.get("/v1/completions").status_code == 405


def test_a_full_queue__sends_away_before_the_client_pays(seat: LocalSeat) -> None:
    seat.execution.may_begin.clear()
    for number in (2, 3):
        seat.open_channel(number)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask, seat, COST, channel=number) for number in (1, 2)]
        assert seat.execution.began.acquire(timeout=HANG_S)
        wait_until("the second request", lambda: seat.served.engine.waiting == 2)
        response = ask(seat, COST, channel=3)
        assert (response.status_code, response.headers["retry-after"]) == (429, "2")
        assert seat.served.book.newest(3) is None
        seat.execution.may_begin.set()
        assert [each.result(HANG_S).status_code for each in waiting] == [200, 200]
    assert ask(seat, COST, channel=3).status_code == 200


def test_a_server_that_stops__answers_what_was_paid_for_and_refuses_others(seat: LocalSeat) -> None:
    seat.execution.may_begin.clear()
    seat.open_channel(2)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask, seat, COST)
        assert seat.execution.began.acquire(timeout=HANG_S)
        seat.served.engine.stop_taking()
        response = ask(seat, COST, channel=2)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "stopping")
        assert seat.served.book.newest(2) is None
        seat.execution.may_begin.set()
        assert running.result(HANG_S).status_code == 200
    seat.served.engine.stop(HANG_S)
    assert seat.served.engine.waiting == 0


def test_a_seat_that_was_left__answers_no_more(seat: LocalSeat) -> None:
    seat.watched.closed = "seat 5 was left"
    response = ask(seat, COST)
    assert (response.status_code, response.json()["error"]["message"]) == (503, "seat 5 was left")
    assert not seat.served.book.channels()


def test_a_client_that_hangs_up__ends_the_work_for_it(seat: LocalSeat) -> None:
    place = seat.served.engine.reserve()
    seat.execution.may_go_on.clear()
    steps: list[int] = []
    question = seat.model.question(b"ab", new_tokens=8)
    answer = place.ask(question, lambda step, _: steps.append(step))
    assert seat.execution.began.acquire(timeout=HANG_S)
    wait_until("a step", lambda: steps)
    place.leave()
    assert seat.served.engine.waiting == 1  # its thread is still at it
    seat.execution.may_go_on.set()
    assert answer.exception(HANG_S) is not None
    assert len(steps) == 1
    assert seat.served.engine.waiting == 0
    assert seat.answered.oldest() == float("inf")
    assert ask(seat, COST).status_code == 200


KILLED = """
import os, sys
from pathlib import Path
from keepers.services.answered_questions import AnsweredQuestions
book = AnsweredQuestions(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    book.add(number.to_bytes(32, "big"), {"number": number}, number)
os.kill(os.getpid(), 9)
"""


def test_questions__survive_a_kill_and_are_pruned_when_nobody_can_ask_any_more(tmp_path: Path) -> None:
    path = tmp_path / "questions.sqlite"
    reader = QuestionsOf(path)
    assert reader(bytes(32)) is None
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), "5"], check=False, capture_output=True)
    assert done.returncode == -9, done.stderr
    assert [reader(number.to_bytes(32, "big")) for number in range(6)] == [*({"number": n} for n in range(5)), None]
    book = AnsweredQuestions(path)
    assert path.stat().st_mode & 0o077 == 0
    assert book.prune(3, {(1).to_bytes(32, "big")}) == 2
    assert [reader(number.to_bytes(32, "big")) is not None for number in range(5)] == [False, True, False, True, True]
    book.add((1).to_bytes(32, "big"), {"number": 1}, 9)
    book.add((1).to_bytes(32, "big"), {"number": 1}, 2)
    assert book.oldest() == 3
    book.close()
