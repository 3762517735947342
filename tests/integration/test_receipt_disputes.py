"""A receipt on a real chain: a true one costs nothing; a false one is admitted, asked about and convicted from its file alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from keepers.cli.own_disputes import InProcessWorker
from keepers.services.disputing import Disputing
from node.disputes import player
from node.disputes.alone import Answer
from repops.backend import prepare
from tests.integration.cli_network import CliNetwork, Zoo, zoo_fixture  # noqa: F401
from tests.support.devnet_driver import DevnetOperator
from tests.support.liars.faults import LyingTraining
from tests.support.served_model import served_model, stored
from zoo_compute.serving import receipts
from zoo_compute.serving.execution import Execution
from zoo_compute.serving.files import StoredService, plain
from zoo_compute.serving.receipt_file import ReceiptFile
from zoo_compute.spec.frames import Frame, Phase
from zoo_compute.spec.params import ZEN
from zoo_compute.store import open_store

pytestmark = pytest.mark.integration
KEY, LOCK = b"\x09" * 32, 5 * ZEN
PROMPTS = ((1, 2), (3, 4, 5))


class Seat:
    """An operator with a serving seat, whose answers this process makes."""

    def __init__(self, place: CliNetwork, folder: Path) -> None:
        self.place, self.chain, self.folder = place, place.devnet.chain, folder
        self.operator = DevnetOperator(place.devnet, f"server {folder.name}", price=1)
        self.signer = Account.from_key(KEY).address
        self.operator.send(self.chain.zen.approve(self.chain.serving.address, LOCK))
        offer = (bytes(32), ZEN // 1000, self.chain.zen.address, "http://127.0.0.1:1")
        taken = self.operator.send(self.chain.serving.take(self.operator.id, self.signer, LOCK, offer))
        self.number = int(taken.event("ServingSeatTaken").args["seat"])
        self.store = open_store(place.store)
        self.stored = StoredService.fetch(self.store, stored(served_model(), self.store))
        self.question = self.stored.question(
            {"prompts": PROMPTS, "new_tokens": 4, "nonce": (folder.name.encode() * 32)[:32].hex()}
        )

    def receipt(self, liar: Answer | None = None) -> Path:
        """As a client keeps it."""
        question, model = self.question, served_model()
        if liar is None:
            execution = Execution(self.stored.service, model.graph, model.weights, prepare(model.graph))
            ending = execution.answer(question)
            segments, end = ending.segments, ending.end
        else:
            trees = player.Trees(liar)
            shape = Frame(inner_steps=question.steps, segment_steps=question.steps)
            segments, end = trees.tree(shape, Phase.SEGMENTS).root, trees.states(shape, Phase.SEGMENTS)[-1]
        receipt = question.receipt(self.number, segments, end, self.chain.time())
        at = self.chain.serving.address
        domain = receipts.domain_of(self.chain.network.chain_id, at)
        signed = receipts.sign(receipt, domain, KEY)
        file = ReceiptFile(signed, plain(self.stored.cid, question), self.chain.network.chain_id, at)
        path = self.folder / "receipt.json"
        path.write_bytes(file.to_bytes())
        return path

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Its keeper's lane of disputes runs beside."""
        asked = plain(self.stored.cid, self.question)
        lane = Disputing(
            self.chain, self.operator.sender, InProcessWorker(self.store, None), operator=self.operator.id,
            folder=self.folder, questions=lambda _: asked,
        )  # fmt: skip
        over, failed = threading.Event(), list[Exception]()

        def run() -> None:
            while not over.wait(0.05):
                try:
                    lane.poll_once()
                except Exception as error:  # noqa: BLE001 - raised below
                    failed.append(error)
                    return

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert not failed, failed


class LyingAnswer(LyingTraining, Answer):
    """An answer with one false token, by somebody who answers for it as if it were right."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        token = next(entry.after for entry in self.graph.state if entry.name == "outputs")
        self.elements[(4, token)] = 8
        self.bit = 22


@pytest.fixture
def seat(place: CliNetwork, tmp_path: Path) -> Seat:
    return Seat(place, tmp_path)


def test_a_true_receipt__costs_nothing(zoo: Zoo, seat: Seat) -> None:
    path = seat.receipt()
    count = seat.chain.w3.eth.get_transaction_count(zoo.json("account", "show")["address"])
    answer = zoo.json("serving", "dispute", path)
    assert (answer["agrees"], answer["seat"]) == (True, seat.number)
    assert seat.chain.w3.eth.get_transaction_count(zoo.json("account", "show")["address"]) == count
    assert seat.chain.serving.seats(seat.number).pending == 0


def test_a_false_receipt__is_convicted_from_its_file(zoo: Zoo, seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its operator answers for it as if it were right; silence is in tests/support/scenarios/serving.py."""
    model = served_model()
    path = seat.receipt(LyingAnswer(model.programs(), model.weights, seat.question))
    honest, thread = player.Answer, threading.current_thread()
    monkeypatch.setattr(
        player, "Answer", lambda *a, **o: (honest if threading.current_thread() is thread else LyingAnswer)(*a, **o)
    )
    with seat.answering():
        code, out, err = zoo.run("serving", "dispute", path, "--json")
    answer = json.loads(out)
    assert (code, answer.get("agrees"), answer.get("convicted")) == (3, False, True), (out, err)
    assert answer["outcome"] == "judged"
    place = seat.chain.serving.seats(seat.number)
    assert (place.lock, place.pending) == (0, 0)
    again = zoo.run("serving", "dispute", path, "--json")
    assert (again[0], json.loads(again[1])["outcome"]) == (3, "judged")
    assert f"receipt:{seat.operator.id}" in zoo.run("dispute", "list")[1]


@pytest.mark.parametrize("change", ["signature", "question", "seat", "chain_id"])
def test_a_forged_receipt__is_refused(zoo: Zoo, seat: Seat, change: str) -> None:
    path = seat.receipt()
    raw = json.loads(path.read_bytes())
    if change == "signature":
        raw["signature"] = "0x" + "11" * 64 + "1b"
    elif change == "question":
        raw["question"]["prompts"][0][0] += 1
    elif change == "seat":
        raw["receipt"]["seat"] = 999
    else:
        raw["chain_id"] += 1
    path.write_text(json.dumps(raw, sort_keys=True, separators=(",", ":")))
    expected = {
        "signature": "not signed",
        "question": "another question",
        "seat": "no serving seat",
        "chain_id": "--network",
    }
    assert expected[change] in zoo.refused("serving", "dispute", path)
