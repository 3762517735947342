"""Connecting and reading against a real anvil: wrong chains and contracts, failing RPCs, API keys, reorganisations."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from web3 import Web3

from scripts.demo.report import gas_of
from tests.support.devnet_driver import DevnetDriver
from tests.support.waiting import HANG_S
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.deployment import Web3Deployer, deploy
from zoo_compute.chain.event_log import History
from zoo_compute.chain.events import Event, scan
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.signer import RemoteSigner
from zoo_compute.chain.snapshot import read_job, read_operator
from zoo_compute.devnet.anvil import Anvil
from zoo_compute.devnet.devnet import CHAIN_ID, Devnet
from zoo_compute.errors import ConfigError, Unreachable, UserError, WrongChain, WrongDeployment
from zoo_compute.spec.params import PRESETS, ZEN

pytestmark = pytest.mark.integration

TOM = "0x00000000000000000000000000000000000070aa"
DEAD = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def devnet(running_devnet: Devnet) -> Devnet:
    """Shared as it is: its tests read from a block of their own on."""
    return running_devnet


class Relay:
    """An RPC in front of the devnet's: records headers, and fails when told to."""

    def __init__(self, target: str) -> None:
        self.authorizations: list[str | None] = []
        self.status = 200
        self.loses = "nothing"  # a method whose answers get lost,
        self.losses = 0  # so many times more
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                relay.authorizations.append(self.headers["Authorization"])
                answer = requests.post(target, data=body, headers={"Content-Type": "application/json"}, timeout=HANG_S)
                lost = relay.loses.encode() in body and relay.losses > 0
                relay.losses -= lost
                self.send_response(503 if lost else relay.status)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def relay(devnet: Devnet) -> Iterator[Relay]:
    relay = Relay(devnet.url)
    yield relay
    relay.server.shutdown()
    relay.server.server_close()


# -- connecting


def test_a_dead_rpc__is_passed_over(devnet: Devnet):
    chain = connect(replace(devnet.network, rpcs=(DEAD, devnet.url)))
    assert chain.head().number >= devnet.network.first_block
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1: connection failed"):
        connect(replace(devnet.network, rpcs=(DEAD,)))


def test_an_rpc_that_starts_to_fail__is_replaced_by_the_next(devnet: Devnet, relay: Relay):
    chain = connect(replace(devnet.network, rpcs=(relay.url, devnet.url)))
    assert relay.authorizations
    relay.status = 503
    served = len(relay.authorizations)
    assert chain.head().number >= devnet.network.first_block
    assert len(relay.authorizations) == served + 1
    chain.head()
    assert len(relay.authorizations) == served + 1  # it stays with the one that answers


def test_an_api_key__is_a_bearer_token_at_the_rpc(devnet: Devnet, relay: Relay):
    chain = connect(replace(devnet.network, rpcs=(relay.url,)), api_key="zoo-key")
    assert chain.zen.symbol() == "ZEN"
    assert set(relay.authorizations) == {"Bearer zoo-key"}
    relay.status = 401
    with pytest.raises(Unreachable, match="is the API key right") as caught:
        chain.head()
    assert "zoo-key" not in str(caught.value)


def test_a_hosted_signer__signs_for_the_sender(devnet: Devnet, relay: Relay):
    network = replace(devnet.network, signer=relay.url)
    signer = RemoteSigner(network, api_key="zoo-key")
    assert signer.address == devnet.chain.w3.eth.accounts[0]
    receipt = Sender(devnet.chain, signer, folder=devnet.folder).send(devnet.chain.zen.transfer(TOM, 1))
    assert receipt.event("Transfer").args["receiver"] == Web3.to_checksum_address(TOM)
    assert set(relay.authorizations) == {"Bearer zoo-key"}
    with pytest.raises(ConfigError, match="names no signer"):
        RemoteSigner(devnet.network)


def test_another_chain_id__is_refused(devnet: Devnet):
    with pytest.raises(WrongChain, match="serves chain 31337; the network file says 1"):
        connect(replace(devnet.network, chain_id=1))


def test_a_fallback_of_another_chain__is_refused_when_it_is_reached(devnet: Devnet, relay: Relay, tmp_path: Path):
    other = Anvil.start(chain_id=7, block_time=1, port=0, state=tmp_path / "s.json", log=tmp_path / "log")
    try:
        chain = connect(replace(devnet.network, rpcs=(relay.url, other.url)))
        relay.status = 503
        with pytest.raises(WrongChain, match="serves chain 7"):
            chain.head()
    finally:
        other.stop()


def test_an_address_without_code__is_refused(devnet: Devnet):
    with pytest.raises(WrongDeployment, match=f"no contract: Auction at {Web3.to_checksum_address(TOM)}"):
        connect(
            replace(devnet.network, contracts={**devnet.network.contracts, "auction": Web3.to_checksum_address(TOM)})
        )


def test_contracts_of_another_deployment__are_refused(devnet: Devnet):
    account = devnet.account("second", coin=10**20)
    w3 = Web3(Web3.HTTPProvider(devnet.url))
    second = deploy(Web3Deployer(w3, account), PRESETS["production"], devnet=True)
    network = replace(devnet.network, contracts={**devnet.network.contracts, "auction": second.contracts["auction"]})
    with pytest.raises(WrongDeployment, match="the code differs from the network file's: Auction"):
        connect(network)
    theirs = second.describe("second", PRESETS["production"], CHAIN_ID, [devnet.url])
    assert connect(theirs).auction.registry() == second.contracts["registry"]


def test_what_is_not_there__is_the_users_mistake(devnet: Devnet):
    with pytest.raises(UserError, match="no job 99"):
        read_job(devnet.chain, 99)
    with pytest.raises(UserError, match="no operator 99"):
        read_operator(devnet.chain, 99)
    with pytest.raises(Unreachable, match="does not have block 999999"):
        devnet.chain.head(999_999)


def test_a_lost_answer__does_not_send_twice(devnet: Devnet, relay: Relay):
    """The node took the transaction, and the connection broke before it said so."""
    account = devnet.account("unlucky", zen=100)
    chain = connect(replace(devnet.network, rpcs=(relay.url,)))
    sender = Sender(chain, account, folder=devnet.folder)
    before = chain.zen.balanceOf(TOM)
    relay.loses, relay.losses = "eth_sendRawTransaction", 2
    with pytest.raises(Unreachable):
        sender.send(chain.zen.transfer(TOM, 30))
    assert relay.losses == 0
    receipt = sender.send(chain.zen.transfer(TOM, 30))
    assert receipt.event("Transfer").args["value"] == 30
    assert chain.zen.balanceOf(TOM) - before == 30
    relay.losses = 1
    sender.send(chain.zen.transfer(TOM, 30))
    assert relay.losses == 0
    assert chain.zen.balanceOf(TOM) - before == 60


# -- events


def pay(devnet: Devnet, *amounts: int) -> None:
    sender = Sender(devnet.chain, devnet.account("payer", zen=1_000 * ZEN), folder=devnet.folder)
    for amount in amounts:
        sender.send(devnet.chain.zen.transfer(TOM, amount))


def paid(events: object) -> list[int]:
    return [event.args["value"] for event in events if event.args["receiver"].lower() == TOM]  # type: ignore[attr-defined]


def test_a_scan__is_in_order_and_bounded_by_its_blocks(devnet: Devnet, monkeypatch: pytest.MonkeyPatch):
    start = devnet.chain.head().number + 1
    pay(devnet, 11, 12, 13)
    end = devnet.chain.head().number
    events = list(scan(devnet.chain, start, end, names=["Transfer"]))
    assert paid(events)[-3:] == [11, 12, 13]
    monkeypatch.setattr("zoo_compute.chain.events.BLOCKS_PER_REQUEST", 1)
    assert list(scan(devnet.chain, start, end, names=["Transfer"])) == events
    assert list(scan(devnet.chain, end + 1, end, names=["Transfer"])) == []
    with pytest.raises(ValueError, match="no contract has an event Transferred"):
        list(scan(devnet.chain, start, end, names=["Transferred"]))


def test_a_scan_by_operator__finds_it_in_any_position(devnet: Devnet):
    chain, owner = devnet.chain, devnet.account("owner", zen=1_000 * ZEN)
    sender = Sender(chain, owner, folder=devnet.folder)
    sender.send(chain.zen.approve(chain.registry.address, 500 * ZEN))
    one, two = (
        sender.send(chain.registry.register(owner.address, 1, 8, 100 * ZEN, f"http://{name}")).event(
            "OperatorRegistered"
        )
        for name in ("one", "two")
    )
    head = chain.head().number
    scanned = list(scan(chain, devnet.network.first_block, head, operator=two.operator))
    assert [(event.name, event.operator) for event in scanned] == [("OperatorRegistered", two.operator)]
    assert {event.operator for event in scan(chain, 0, head, names=["OperatorRegistered"])} >= {
        one.operator,
        two.operator,
    }
    view = read_operator(chain, two.operator or 0)
    assert (view.endpoint, view.owner, view.eligible) == ("http://two", owner.address, True)
    sender.send(chain.registry.announce(two.operator, "http://moved"))
    assert read_operator(chain, two.operator or 0).endpoint == "http://moved"
    assert read_operator(chain, two.operator or 0, head).endpoint == "http://two"


def test_the_gas_of_blocks__is_summed_by_function(devnet: Devnet):
    chain, owner = devnet.chain, devnet.account("spender", zen=1_000 * ZEN)
    sender, start = Sender(chain, owner, folder=devnet.folder), devnet.chain.head().number + 1
    sent = [sender.send(chain.zen.approve(chain.registry.address, amount)) for amount in (ZEN, 2 * ZEN)]
    sent.append(sender.send(chain.zen.transfer(TOM, ZEN)))
    gas = gas_of(chain, start, chain.head().number)
    assert {name: of["count"] for name, of in gas.items()} == {"zen.approve": 2, "zen.transfer": 1}
    assert sum(of["total"] for of in gas.values()) == sum(each.gas_used for each in sent)


def test_a_history__asks_only_for_what_is_new(devnet: Devnet, monkeypatch: pytest.MonkeyPatch):
    history, asked = History(devnet.chain, names=["Transfer"]), []

    def counted(chain: Chain, start: int, end: int, **wanted: Any) -> Iterator[Event]:
        asked.append((start, end))
        return scan(chain, start, end, **wanted)

    monkeypatch.setattr("zoo_compute.chain.event_log.scan", counted)
    pay(devnet, 21, 22)
    first = devnet.chain.head()
    assert paid(history.events_until(first))[-2:] == [21, 22]
    assert paid(history.events_until(first))[-2:] == [21, 22]
    assert asked == [(devnet.network.first_block, first.number)]
    pay(devnet, 23)
    second = devnet.chain.head()
    assert paid(history.events_until(second))[-3:] == [21, 22, 23]
    assert asked[1:] == [(first.number + 1, second.number)]
    last = max(event.block for event in history.events_until(first))  # empty blocks may follow it
    assert paid(history.events_until(devnet.chain.head(last - 1)))[-1:] == [21]  # a look at the past
    assert paid(history.events_until(devnet.chain.head()))[-3:] == [21, 22, 23]


def test_a_history__of_which_a_read_failed_half_way__tells_each_event_once(
    devnet: Devnet, monkeypatch: pytest.MonkeyPatch
):
    history = History(devnet.chain, names=["Transfer"])
    pay(devnet, 31, 32)
    head = devnet.chain.head()

    def broken(*arguments: Any, **wanted: Any) -> Iterator[Event]:
        yield next(scan(*arguments, **wanted))
        raise Unreachable("gone")

    monkeypatch.setattr("zoo_compute.chain.event_log.scan", broken)
    with pytest.raises(Unreachable):
        history.events_until(head)
    monkeypatch.undo()
    assert history.events_until(head) == list(
        scan(devnet.chain, devnet.network.first_block, head.number, names=["Transfer"])
    )


@pytest.mark.parametrize("ahead", [None, 0, 3])  # None: the new chain is shorter than what was read
def test_a_reorganisation__is_forgotten_by_a_history(devnet: Devnet, ahead: int | None):
    pay(devnet, 1)
    history = History(devnet.chain, names=["Transfer"])
    before = paid(history.events_until(devnet.chain.head()))
    fork = devnet.rpc("evm_snapshot", [])
    for amount in (41, 42, 44, 46, 47, 48):
        pay(devnet, amount)
        lost = devnet.chain.head()
        history.events_until(lost)
    assert paid(history.events_until(lost)) == [*before, 41, 42, 44, 46, 47, 48]
    devnet.rpc("evm_revert", [fork])
    devnet.warp(1)  # other blocks than before
    pay(devnet, 43)
    while ahead is not None and devnet.chain.head().number < lost.number + ahead:
        devnet.rpc("evm_mine", [])
    head = devnet.chain.head()
    assert (head.number < lost.number) == (ahead is None)
    assert paid(history.events_until(head)) == [*before, 43]
    assert list(history.events_until(head)) == list(
        scan(devnet.chain, devnet.network.first_block, head.number, names=["Transfer"])
    )
    pay(devnet, 45)
    assert paid(history.events_until(devnet.chain.head())) == [*before, 43, 45]


def test_a_reorganisation_by_the_node__drops_the_lost_events(devnet: Devnet):
    history = History(devnet.chain, names=["Transfer"])
    pay(devnet, 51)
    before = paid(history.events_until(devnet.chain.head()))
    pay(devnet, 52)
    lost = devnet.chain.head()
    assert paid(history.events_until(lost)) == [*before, 52]
    devnet.rpc("anvil_reorg", [1, []])
    devnet.rpc("evm_mine", [])
    devnet.rpc("evm_mine", [])
    assert paid(history.events_until(devnet.chain.head())) == before
    with pytest.raises(Unreachable, match="was replaced"):  # who still holds the lost head is told so
        History(devnet.chain, names=["Transfer"]).events_until(lost)


def test_a_node_that_lags__makes_a_history_forget_nothing(devnet: Devnet, monkeypatch: pytest.MonkeyPatch):
    history = History(devnet.chain, names=["Transfer"])
    pay(devnet, 61)
    behind = devnet.chain.head()
    history.events_until(behind)
    pay(devnet, 62)
    newest = devnet.chain.head()
    known = paid(history.events_until(newest))
    assert paid(history.events_until(behind)) == known[:-1]
    monkeypatch.setattr("zoo_compute.chain.event_log.scan", None)  # nothing is asked again
    assert paid(history.events_until(newest)) == known


def test_a_job__is_read_once_a_block__and_again_where_that_is_replaced(devnet: Devnet, monkeypatch: pytest.MonkeyPatch):
    chain, job = devnet.chain, DevnetDriver(devnet).post()
    devnet.rpc("evm_setIntervalMining", [0])  # an empty block would be replaced by one alike
    devnet.rpc("evm_setAutomine", [True])
    pay(devnet, 71)
    head = chain.head()
    view = read_job(chain, job, head)
    with monkeypatch.context() as blind:
        blind.setattr("zoo_compute.chain.snapshot.read_all", None)
        assert read_job(chain, job, head) is view
    devnet.rpc("anvil_reorg", [1, []])
    replaced = chain.head(head.number)
    assert replaced.hash != head.hash
    assert read_job(chain, job, replaced) is not view
    earlier = read_job(chain, job, head.number - 1)
    assert (earlier.block, read_job(chain, job).block) == (head.number - 1, chain.head().number)
