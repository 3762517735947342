"""An RPC that lies about time or a root, the first of the network file: the keeper does nothing that would cost it its lock."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
import requests
from eth_utils.crypto import keccak

from keepers.services.second_look import SecondLook
from tests.support.devnet_driver import DevnetDriver
from tests.support.waiting import HANG_S, wait_until
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.event_log import use_store
from zoo_compute.chain.provider import FailoverProvider
from zoo_compute.chain.rpc_http import TooOften
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.errors import FalseLook, RpcsDisagree

pytestmark = pytest.mark.integration

DEAD = "http://127.0.0.1:1"
Lie = Callable[[dict[str, Any], Any], Any]  # of a question and its result


def honest(question: dict[str, Any], result: Any) -> Any:
    return result


def time_lie(question: dict[str, Any], result: Any) -> Any:
    """An hour later than it is."""
    if question["method"] == "eth_getBlockByNumber" and result:
        return {**result, "timestamp": hex(int(result["timestamp"], 16) + 3_600)}
    return result


def state_lie(question: dict[str, Any], result: Any) -> Any:
    """Another word in what a view returns."""
    if question["method"] == "eth_call" and len(result) > 4 * 64:
        return result[: -2 * 64] + "77" * 32 + result[-64:]
    return result


def events_lie(question: dict[str, Any], result: Any) -> Any:
    """The last event never was."""
    return result[:-1] if question["method"] == "eth_getLogs" else result


class Liar:
    """An RPC in front of the devnet's. It answers as `lie` says. swallows: it takes transactions, and passes none on."""

    def __init__(self, devnet: Devnet) -> None:
        self.lie: Lie = honest
        self.swallows = False
        self.asked: list[str] = []
        liar = self

        class Relay(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                said = json.loads(body)
                questions = [said] if isinstance(said, dict) else said
                liar.asked += [each["method"] for each in questions]
                if liar.swallows and questions[0]["method"] == "eth_sendRawTransaction":
                    digest = keccak(hexstr=questions[0]["params"][0])
                    answers = [{"jsonrpc": "2.0", "id": questions[0]["id"], "result": "0x" + digest.hex()}]
                else:
                    headers = {"Content-Type": "application/json"}
                    answer = requests.post(devnet.url, data=body, timeout=HANG_S, headers=headers).json()
                    answers = [answer] if isinstance(said, dict) else answer
                lies = [
                    {**each, "result": liar.lie(question, each["result"])} if "result" in each else each
                    for question, each in zip(questions, answers, strict=True)
                ]
                content = json.dumps(lies[0] if isinstance(said, dict) else lies).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def liars(devnet: Devnet, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Liar]]:
    """Nothing looks at the newest blocks."""
    monkeypatch.setattr(FailoverProvider, "_start_looking", lambda self: None)
    started = [Liar(devnet), Liar(devnet)]
    yield started
    for each in started:
        each.server.shutdown()
        each.server.server_close()


def decline_of(chain: Chain, job: int) -> Callable[[SecondLook], None]:
    """What a keeper does before a decline."""
    return lambda look: look.confirm(chain.settlement.decline(job, 0, 1), read_job(chain, job))


@pytest.mark.parametrize("lie", [honest, time_lie, state_lie])
@pytest.mark.parametrize("second", ["another RPC", "none that answers", "none"])
def test_a_lie_of_the_first_rpc__is_found_out_where_another_answers(
    devnet: Devnet, liars: list[Liar], lie: Lie, second: str
) -> None:
    job = DevnetDriver(devnet).post()
    others = {"another RPC": (devnet.url,), "none that answers": (DEAD,), "none": ()}[second]
    chain = connect(replace(devnet.network, rpcs=(liars[0].url, *others)))
    liars[0].lie = lie
    view, look = read_job(chain, job), SecondLook(chain)
    decline = chain.settlement.decline(job, 0, 1)
    look.confirm(chain.settlement.ready(job, 0, 1), view)
    if lie is honest or second != "another RPC":
        look.confirm(decline, view)
        return
    for _ in range(2):
        with pytest.raises(RpcsDisagree, match=r"Settlement\.decline waits: the network's RPCs disagree"):
            look.confirm(decline, view)


@pytest.mark.parametrize("lie", [time_lie, state_lie])
@pytest.mark.parametrize("place", [1, 2])
def test_of_three_rpcs__one_that_lies_stops_nothing(devnet: Devnet, liars: list[Liar], lie: Lie, place: int) -> None:
    job = DevnetDriver(devnet).post()
    liar, honest_one = liars
    liar.lie = lie
    urls = [devnet.url, honest_one.url]
    urls.insert(place, liar.url)
    chain = connect(replace(devnet.network, rpcs=urls))
    decline_of(chain, job)(SecondLook(chain))
    wait_until("the liar was asked", lambda: liar.asked)


@pytest.mark.parametrize("lie", [time_lie, state_lie, events_lie])
def test_the_first_of_three__that_lies_is_not_used_any_more(devnet: Devnet, liars: list[Liar], lie: Lie) -> None:
    driver = DevnetDriver(devnet)
    job, bidder = driver.post(), driver.operator("alpha", 10)
    bidder.send(devnet.chain.auction.bid(job, 0, bidder.id, b"\1" * 32, 1))
    liar, honest_one = liars
    chain = connect(replace(devnet.network, rpcs=(liar.url, devnet.url, honest_one.url)))
    store = use_store(chain, devnet.folder / f"events-{lie.__name__}.sqlite3")
    liar.lie = lie
    decline, look = decline_of(chain, job), SecondLook(chain)
    with pytest.raises(FalseLook, match=r"disagree at block \d+(\n|$)"):
        decline(look)
    chain.wait_for_block(chain.head().number, HANG_S)
    with pytest.raises(FalseLook, match=f"{liar.url} is alone, and is not used for 10 minutes"):
        decline(look)
    asked = len(liar.asked)
    decline(look)
    assert len(liar.asked) == asked
    assert read_job(chain, job) == read_job(devnet.chain, job, chain.head())
    store.close()


def test_events_that_a_liar_gave__are_read_again_also_after_a_restart(
    devnet: Devnet, liars: list[Liar], tmp_path: Path
) -> None:
    """Those before a job's newest checkpoint stayed in the store for good."""
    driver, liar = DevnetDriver(devnet), liars[0]
    driver.post()
    chains = [connect(replace(devnet.network, rpcs=(liar.url, devnet.url))) for _ in range(2)]
    store = use_store(chains[0], tmp_path / "events.sqlite3")
    head = chains[0].head()
    honest_jobs = store.jobs_to_read(head)
    driver.post()
    liar.lie = lambda question, result: [] if question["method"] == "eth_getLogs" else result
    head = chains[0].head()
    assert store.jobs_to_read(head) == honest_jobs
    store.close()
    store = use_store(chains[1], tmp_path / "events.sqlite3")
    cast(FailoverProvider, chains[1].w3.provider).set_aside(liar.url)
    assert store.jobs_to_read(head) == honest_jobs
    store.forget_what_came_from(liar.url)
    assert len(store.jobs_to_read(head)) == len(honest_jobs) + 1
    store.forget_what_came_from("http://never.asked")
    assert liar.url not in store._path.read_bytes().decode(errors="replace")
    store.close()


@pytest.mark.parametrize("lie", [time_lie, state_lie])
def test_what_a_false_view_had_a_keeper_decide__never_goes_out(devnet: Devnet, liars: list[Liar], lie: Lie) -> None:
    """The first call had the liar set aside, and the next asked the honest ones whether they agree with each other."""
    driver = DevnetDriver(devnet)
    jobs = driver.post(), driver.post()
    liar, honest_one = liars
    chain = connect(replace(devnet.network, rpcs=(liar.url, devnet.url, honest_one.url)))
    liar.lie = lie
    look, views = SecondLook(chain), [read_job(chain, job) for job in jobs]
    for is_aside in (False, True):
        for view in views:
            for seat in (0, 1):
                with pytest.raises(RpcsDisagree):
                    look.confirm(chain.settlement.decline(view.job, seat, 1), view)
        if not is_aside:
            cast(FailoverProvider, chain.w3.provider).set_aside(liar.url)
    for view in [read_job(chain, job) for job in jobs]:
        look.confirm(chain.settlement.decline(view.job, 0, 1), view)


@pytest.mark.parametrize("others", ["rest", "do not answer"])
def test_what_an_rpc_that_was_set_aside_shows_while_the_others_rest__never_goes_out(
    devnet: Devnet, liars: list[Liar], others: str
) -> None:
    job = DevnetDriver(devnet).post()
    liar, honest_one = liars
    urls = (devnet.url, honest_one.url) if others == "rest" else (DEAD, f"{DEAD}0")
    chain = connect(replace(devnet.network, rpcs=(liar.url, *urls)))
    provider = cast(FailoverProvider, chain.w3.provider)
    provider.set_aside(liar.url)
    for each in provider.endpoints[1:]:
        each.failed(TooOften(HANG_S))
    liar.lie, asked = time_lie, len(liar.asked)
    view = read_job(chain, job)
    assert len(liar.asked) > asked
    look = SecondLook(chain)
    with pytest.raises(RpcsDisagree):
        look.confirm(chain.settlement.decline(job, 0, 1), view)
    for each in provider.endpoints[1:]:
        each.rests_until = 0.0
    with pytest.raises(RpcsDisagree):
        look.confirm(chain.settlement.decline(job, 0, 1), view)


def test_another_rpc_that_cannot_say__holds_nothing_up(devnet: Devnet, liars: list[Liar]) -> None:
    """It has no old events, and answers views with nonsense."""
    job = DevnetDriver(devnet).post()
    chain = connect(replace(devnet.network, rpcs=(devnet.url, liars[0].url)))
    liars[0].lie = lambda question, result: "0x12" if question["method"] == "eth_call" else result
    decline_of(chain, job)(SecondLook(chain))


def test_an_rpc_that_swallows_transactions__delays_none(devnet: Devnet, liars: list[Liar], tmp_path: Path) -> None:
    liars[0].swallows = True
    chain = connect(replace(devnet.network, rpcs=(liars[0].url, devnet.url)))
    sender = Sender(chain, devnet.account("submitter"), folder=tmp_path)
    for wei in (1, 2):
        sender.send_coin(devnet.account("alice").address, wei)
    assert liars[0].asked.count("eth_sendRawTransaction") == 2
