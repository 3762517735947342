"""Lies that only computing again shows: by chance at once, or by a later doubt."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.support.seat_clients import COST, NEW, PROMPTS, Market, client, only, right
from tests.support.seat_servers import execution
from zoo_compute.errors import UserError
from zoo_compute.inference import client as client_module
from zoo_compute.inference.checking import is_true
from zoo_compute.inference.doubts import Doubts
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.receipt_file import ReceiptFile


def test_a_lie__is_found_by_computing_again_and_the_right_answer_is_returned(
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (liar, *_) = place
    liar.mode = "lying"
    with client(market, stored, tmp_path, draw=lambda: 0.0) as inference:
        answer = inference.complete(PROMPTS, NEW)
        assert (answer.texts, answer.seat, answer.checked, answer.is_true) == (right(stored), 1, True, False)
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


def test_a_lie_that_was_not_drawn__is_found_by_a_later_doubt(
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, (liar, second, _) = place
    liar.mode = "lying"
    with client(market, stored, tmp_path) as inference:
        assert inference.complete(PROMPTS, NEW).texts != right(stored)
        only(market, second)
        inference._seats._seen = None
        inference.complete(PROMPTS, NEW)
    with closing(Doubts(market.place, market.time, stored.store, tmp_path)) as later:
        files = {each.signed.receipt.seat: later.recheck(each) for each in later.unchecked()}
        assert files[2] is None
        assert ReceiptFile.from_bytes(files[1].read_bytes()).signed.receipt.seat == 1
        assert later.unchecked() == []
        assert later.read(files[1]).signed.receipt.seat == 1


def test_a_file_that_is_no_receipt_of_this_network__is_refused(
    place: Market, stored: StoredService, tmp_path: Path
) -> None:
    market, _ = place
    path = tmp_path / "receipt.json"
    with client(market, stored, tmp_path) as inference:
        file = inference.complete(PROMPTS, NEW).receipt
    with closing(Doubts(market.place, market.time, stored.store, tmp_path)) as doubts:
        for data, message in (
            (b"{", "not JSON"),
            (file.to_bytes().replace(b'"chain_id":31337', b'"chain_id":1'), "another network"),
            (file.to_bytes().replace(b'"steps":6', b'"steps":0'), "steps"),
            (file.to_bytes().replace(b'"signature":"0x', b'"signature":"0y'), "signature"),
        ):
            path.write_bytes(data)
            with pytest.raises(UserError, match=message):
                doubts.read(path)
        other = replace(file, question={**file.question, "prompts": [[1], [2]]})
        with pytest.raises(UserError, match="another question"):
            doubts.recheck(other)


def test_sampling__computes_as_many_answers_again_as_its_rate_says(
    place: Market, stored: StoredService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, rate, count = Random(7), 0.2, 120
    expected, same = Random(7), 0
    with client(place[0], stored, tmp_path, draw=random.random, check=rate) as inference:
        for _ in range(count):
            wanted = expected.random() < rate
            assert inference.complete("ab", 1).checked == wanted
            same += wanted
        assert len(inference.unchecked()) == count - same
    assert abs(same - rate * count) < 3 * (count * rate * (1 - rate)) ** 0.5


def test_the_draw__comes_from_the_system_and_after_the_receipt(
    place: Market, stored: StoredService, tmp_path: Path
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
