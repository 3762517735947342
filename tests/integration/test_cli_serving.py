"""`zoo serving` on a real chain: published, taken, served by a process, paid through a channel that the keeper closes, left, released."""

from __future__ import annotations

import base64
import json
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from eth_account import Account
from hexbytes import HexBytes
from starlette.testclient import TestClient

from keepers.config import OperatorConfig, from_dict, save
from keepers.decisions.vouchers import CLOSE_GAS
from keepers.queue.work_queue import WorkStatus
from keepers.services.disputing import Disputing
from keepers.services.served_channels import ServedChannels
from keepers.serving.process import opened_seat
from node.disputes.player import run_dispute
from tests.integration.cli_network import CliNetwork, Zoo, zoo_fixture  # noqa: F401
from tests.support.waiting import HANG_S
from zoo_compute.chain import keystore
from zoo_compute.chain.events import scan
from zoo_compute.chain.sender import Sender
from zoo_compute.inference.books import ClientBook, client_book
from zoo_compute.inference.seats import read_seat
from zoo_compute.paths import RECEIPT_KEY
from zoo_compute.serving import receipts
from zoo_compute.serving.execution import Ending
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.questions import Question
from zoo_compute.spec.frames import Kind, claim_hash
from zoo_compute.spec.params import ZEN, window_s
from zoo_compute.spec.receipts import RECEIPTS, AnswerReceipt
from zoo_compute.spec.serving import claim_of, work_of
from zoo_compute.spec.state import ClaimStatus
from zoo_compute.store import open_store

pytestmark = pytest.mark.integration

OPERATOR = 1  # `somebody`, of cli_network
KEY = b"\x07" * 32
FILE = """
model: {layers: 1, heads: 2, width: 16, context: 32, vocab: 256}
serve: {kind: completions, model: tiny, context: 32, rows: [1, 2]}
"""


@pytest.fixture(name="config")
def config_fixture(place: CliNetwork, tmp_path: Path) -> OperatorConfig:
    folder = tmp_path / "node"
    # coin_price: with the default one the voucher of one request is not worth its gas.
    raw = {
        "name": "somebody",
        "network": str(place.devnet.network_file),
        "operator": OPERATOR,
        "store": place.store,
        "device": "cpu",
        "coin_price": "1",
    }
    made = from_dict(raw, folder)
    save(made)
    return made


@pytest.fixture(name="service")
def service_fixture(zoo: Zoo, tmp_path: Path) -> str:
    (tmp_path / "service.yaml").write_text(FILE)
    return str(zoo.json("serving", "publish", tmp_path / "service.yaml")["service"])


@pytest.fixture
def client(place: CliNetwork, tmp_path: Path) -> Iterator[ClientBook]:
    book = client_book(tmp_path / "client.sqlite", place.devnet.chain, KEY)
    yield book
    book.close()


def as_operator(place: CliNetwork) -> tuple[str, Path]:
    return "--account", place.devnet.key_file("somebody")


def taken(zoo: Zoo, place: CliNetwork, config: OperatorConfig, service: str) -> int:
    options = ("--lock", "5", "--price", "0.5", "--url", "http://127.0.0.1:8000", "--operator", str(OPERATOR))
    answer = zoo.json("serving", "take", service, *options, "--home", config.folder, *as_operator(place))
    assert answer["signer"] == keystore.address_of(config.folder / RECEIPT_KEY)
    return int(answer["seat"])


class Server:
    """`zoo serving start`, in a process."""

    def __init__(self, config: OperatorConfig, seat: int) -> None:
        command = [
            sys.executable,
            "-m",
            "zoo_compute.cli.main",
            "serving",
            "start",
            "--seat",
            str(seat),
            "--port",
            "0",
            "--json",
        ]
        self.process = subprocess.Popen(
            [*command, "--home", str(config.folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate(timeout=HANG_S)[1])
        self.url = json.loads(line)["url"]

    def post(self, body: dict[str, Any], headers: dict[str, str]) -> requests.Response:
        return requests.post(f"{self.url}/v1/completions", json=body, headers=headers, timeout=HANG_S)

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=HANG_S)
        return self.process.returncode, said


def answered(zoo: dict[str, Any]) -> tuple[receipts.SignedReceipt, Ending]:
    raw = {name: bytes.fromhex(value) if isinstance(value, str) else value for name, value in zoo["receipt"].items()}
    receipt = AnswerReceipt(**raw)
    outputs = np.frombuffer(base64.b64decode(zoo["outputs"]), "<f4").reshape(zoo["shape"])
    ending = Ending(receipt.segments, receipt.end, outputs, tuple(map(bytes.fromhex, zoo["path"])))
    return receipts.SignedReceipt(receipt, bytes.fromhex(zoo["signature"][2:])), ending


def test_a_seat__is_taken_listed_changed_left_and_released(
    zoo: Zoo, place: CliNetwork, config: OperatorConfig, service: str
) -> None:
    number = taken(zoo, place, config, service)
    (mine,) = zoo.json("serving", "list", service)["seats"]
    assert (mine["seat"], mine["service"], mine["lock"]) == (number, service, str(5 * ZEN))
    assert (mine["price"], mine["url"]) == (str(ZEN // 2), "http://127.0.0.1:8000")
    zoo.json("serving", "offer", str(number), "--price", "0.25", *as_operator(place))
    (mine,) = zoo.json("serving", "list")["seats"]
    assert (mine["price"], mine["url"]) == (str(ZEN // 4), "http://127.0.0.1:8000")
    assert "say what to change" in zoo.refused("serving", "offer", str(number), *as_operator(place))
    assert "not the operator" in zoo.refused("serving", "leave", str(number))
    chain = place.devnet.chain
    left = zoo.json("serving", "leave", str(number), *as_operator(place))
    assert left["wait_s"] == 2 * window_s(chain.params, chain.params.receipt_s, 1)
    assert zoo.json("serving", "list", service)["seats"] == []
    assert "receipts open" in zoo.refused("serving", "release", str(number))
    assert "was left" in zoo.refused("serving", "start", "--seat", str(number), "--home", config.folder)
    place.devnet.warp(left["wait_s"] + 1)
    assert zoo.json("serving", "release", str(number))["released"] == str(5 * ZEN)
    assert "CID" in zoo.refused("serving", "list", "nonsense")


def test_start__refuses_a_seat_with_another_signer_or_operator(
    zoo: Zoo, place: CliNetwork, config: OperatorConfig, service: str, tmp_path: Path
) -> None:
    number = taken(zoo, place, config, service)
    other = replace(config, folder=tmp_path / "other")
    save(other)
    said = zoo.refused("serving", "start", "--seat", str(number), "--home", other.folder)
    assert "this folder's key is" in said
    save(replace(other, operator=2))
    assert "operator 1's" in zoo.refused("serving", "start", "--seat", str(number), "--home", other.folder)
    assert "no serving seat 99" in zoo.refused("serving", "start", "--seat", "99", "--home", config.folder)


def test_a_server__answers_is_paid_by_the_keeper_and_its_receipt_becomes_a_claim(
    zoo: Zoo, place: CliNetwork, config: OperatorConfig, service: str, client: ClientBook
) -> None:
    chain, number = place.devnet.chain, taken(zoo, place, config, service)
    opened = zoo.json("channel", "open", "10", "--operator", str(OPERATOR), "--signer", Account.from_key(KEY).address)
    channel, stored = int(opened["channel"]), StoredService.fetch(open_store(place.store), service)
    question = Question(stored.service, ((97, 98),), 4, secrets.token_bytes(32))
    cost = 6 * ZEN // 2 // 1_000
    server = Server(config, number)
    try:
        (model,) = requests.get(f"{server.url}/v1/models", timeout=HANG_S).json()["data"]
        assert (model["zoo"]["seat"], model["zoo"]["price"]) == (number, str(ZEN // 2))
        headers = {"Zoo-Nonce": question.nonce.hex(), "Zoo-Voucher": json.dumps(client.pay(channel, cost).to_dict())}
        body = {"model": "tiny", "prompt": "ab", "max_tokens": 4}
        response = server.post(body, headers)
        assert response.status_code == 200, response.text
        assert server.post(body, headers).status_code == 402  # a replay
    finally:
        code, said = server.stop()
    assert (code, "what was paid for is answered" in said) == (0, True), said

    signed, ending = answered(response.json()["zoo"])
    seat = read_seat(chain, number)
    domain = receipts.domain_of(chain.network.chain_id, chain.network.contracts["serving"])
    graph = stored.graph(question.program)
    receipts.check(
        signed, question, graph, ending, seat=number, signer=seat.signer, domain=domain, now=chain.time(), slack_s=3_600
    )

    sender = Sender(
        chain, keystore.unlock(place.devnet.key_file("somebody"), place.devnet.passphrase_file.read_text().strip())
    )
    keeper = ServedChannels(config, chain, sender)
    admitted = sender.send(chain.serving.admit(astuple(signed.receipt), signed.signature)).event("ReceiptAdmitted")
    assert admitted.args["operator"] == OPERATOR
    hash = claim_hash(claim_of(OPERATOR, signed.receipt))
    keeper.look()
    assert keeper.questions(hash) is not None
    assert chain.channels.channels(channel).paid == 0

    zoo.json("channel", "leave", str(channel))
    keeper.look()
    assert chain.channels.channels(channel).operator == OPERATOR  # not before every process has seen the notice
    place.devnet.warp(2 * chain.params.notice_s // 10)
    keeper.look()
    assert chain.channels.channels(channel).operator == 0
    (closed,) = scan(chain, chain.network.first_block, chain.head().number, names=("VoucherPaid",))
    assert (closed.args["channel"], closed.args["total"]) == (channel, cost)
    assert chain.w3.eth.get_transaction_receipt(HexBytes(closed.tx))["gasUsed"] < CLOSE_GAS
    place.devnet.warp(3 * window_s(chain.params, chain.params.receipt_s, 1))
    keeper.look()
    assert keeper.questions(hash) is not None  # the claim is pending
    sender.send(chain.serving.drop(tuple(admitted.args["claim"].values())))
    keeper.look()
    assert keeper.questions(hash) is None


def test_an_honest_receipt_that_a_stranger_asks_about__is_answered_from_the_stored_question_and_stays_true(
    zoo: Zoo, place: CliNetwork, config: OperatorConfig, service: str, client: ClientBook, tmp_path: Path
) -> None:
    devnet, chain, number = place.devnet, place.devnet.chain, taken(zoo, place, config, service)
    opened = zoo.json("channel", "open", "10", "--operator", str(OPERATOR), "--signer", Account.from_key(KEY).address)
    voucher = client.pay(int(opened["channel"]), ZEN)
    with opened_seat(config, number, 4, lambda _: None) as seat, TestClient(seat.application()) as http:
        headers = {"Zoo-Nonce": "ab" * 32, "Zoo-Voucher": json.dumps(voucher.to_dict())}
        response = http.post("/v1/completions", json={"model": "tiny", "prompt": ["ab", "c"]}, headers=headers)
    signed, _ = answered(response.json()["zoo"])
    receipt = signed.receipt

    stranger = Sender(chain, devnet.account("stranger"), folder=tmp_path / "stranger")
    stranger.send(chain.serving.admit(astuple(receipt), signed.signature))
    nothing: Any = (0, (bytes(32), bytes(32), []), [])
    work, roots = astuple(work_of(receipt)), (receipt.segments, receipt.end, bytes(32), [])
    claim = astuple(claim_of(OPERATOR, receipt))
    about: Any = (RECEIPTS, claim, int(Kind.TRAINING), 0, work, roots)
    stranger.send(chain.referee.ask_claim(*about, *nothing), value=10**17)

    key = keystore.unlock(devnet.key_file("somebody"), devnet.passphrase_file.read_text().strip())
    sender, store = Sender(chain, key), open_store(config.store_location)
    keeper = ServedChannels(config, chain, sender)

    def answer_now(task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        return WorkStatus("done", result=run_dispute({**request, "device": "cpu"}, store))

    lane = Disputing(chain, sender, answer_now, operator=OPERATOR, folder=tmp_path, questions=keeper.questions)
    (dispute,) = lane.poll_once()
    assert len(dispute.picture.open_asks) == 1
    (dispute,) = lane.poll_once()
    assert dispute.picture.open_asks == []
    devnet.warp(2 * window_s(chain.params, chain.params.receipt_s, 1) + chain.params.clocks.asker_s + 1)
    keeper.look()
    assert keeper.questions(claim_hash(claim_of(OPERATOR, receipt))) is not None  # its dispute is open
    lane.poll_once()
    assert chain.serving.admitted(claim_hash(claim_of(OPERATOR, receipt))).status == ClaimStatus.VOID
    assert chain.serving.seats(number).lock == 5 * ZEN
    keeper.look()
    assert keeper.questions(claim_hash(claim_of(OPERATOR, receipt))) is None
