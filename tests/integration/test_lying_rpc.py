"""An RPC that lies about time or a root, the first of the network file: the keeper does nothing that would cost it its lock."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests

from keepers.services.second_look import SecondLook
from tests.support.devnet_driver import DevnetDriver
from tests.support.waiting import HANG_S
from zoo_compute.chain.connection import connect
from zoo_compute.chain.provider import FailoverProvider
from zoo_compute.chain.snapshot import read_job
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.errors import RpcsDisagree

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


@pytest.fixture
def lying(devnet: Devnet) -> Iterator[Any]:
    """An RPC in front of the devnet's. It answers as `lying.lie` says."""

    class Relay(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = requests.post(devnet.url, data=body, timeout=HANG_S, headers={"Content-Type": "application/json"})
            questions, answers = json.loads(body), answer.json()
            one = isinstance(questions, dict)
            pairs = [(questions, answers)] if one else zip(questions, answers, strict=True)
            told = [{**a, "result": server.lie(q, a["result"])} if "result" in a else a for q, a in pairs]
            content = json.dumps(told[0] if one else told).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    server.lie = honest
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("lie", [honest, time_lie, state_lie])
@pytest.mark.parametrize("second", ["another RPC", "none that answers", "none"])
def test_a_lie_of_the_first_rpc__is_found_out_where_another_answers(
    devnet: Devnet, lying: Any, lie: Lie, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FailoverProvider, "_start_looking", lambda self: None)
    driver = DevnetDriver(devnet)
    job = driver.post()
    others = {"another RPC": (devnet.url,), "none that answers": (DEAD,), "none": ()}[second]
    chain = connect(replace(devnet.network, rpcs=(f"http://127.0.0.1:{lying.server_port}", *others)))
    lying.lie = lie
    view, look = read_job(chain, job), SecondLook(chain)
    decline = chain.settlement.decline(job, 0, 1)
    look.confirm(chain.settlement.ready(job, 0, 1), view)
    if lie is honest or second != "another RPC":
        look.confirm(decline, view)
        return
    for _ in range(2):
        with pytest.raises(RpcsDisagree, match=r"Settlement\.decline waits: the network's RPCs disagree"):
            look.confirm(decline, view)


def test_another_rpc_that_cannot_say__holds_nothing_up(
    devnet: Devnet, lying: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no old events, and answers views with nonsense."""
    monkeypatch.setattr(FailoverProvider, "_start_looking", lambda self: None)
    job = DevnetDriver(devnet).post()
    chain = connect(replace(devnet.network, rpcs=(devnet.url, f"http://127.0.0.1:{lying.server_port}")))
    view, look = read_job(chain, job), SecondLook(chain)
    lying.lie = lambda question, result: "0x12" if question["method"] == "eth_call" else result
    look.confirm(chain.settlement.decline(job, 0, 1), view)
