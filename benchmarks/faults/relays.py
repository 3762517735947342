"""RPCs in front of the devnet's, which operators use instead of it: each answers as its `mode` says.

honest     passes all on
time, state, events   a lie: an hour later than it is; another word in what a view returns; the last event never was
lags       shows the chain of twenty blocks ago
hangs      does not answer
drips      answers a byte at a time
limits     says that it is asked too often
swallows   takes transactions and passes none on
forks      shows another chain, which parted from this one a while ago
pool       has the transactions go through a pool by geth's rules (geth_node.py)
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests
from eth_utils.crypto import keccak

from benchmarks.faults.geth_node import GethNode

TIMEOUT_S = 60.0
BEHIND = 20  # blocks
HEADERS = {"Content-Type": "application/json"}
Question = dict[str, Any]


def time_lie(question: Question, result: Any) -> Any:
    if question["method"] == "eth_getBlockByNumber" and result:
        return {**result, "timestamp": hex(int(result["timestamp"], 16) + 3_600)}
    return result


def state_lie(question: Question, result: Any) -> Any:
    if question["method"] == "eth_call" and isinstance(result, str) and len(result) > 4 * 64:
        return result[: -2 * 64] + "77" * 32 + result[-64:]
    return result


def events_lie(question: Question, result: Any) -> Any:
    return result[:-1] if question["method"] == "eth_getLogs" and isinstance(result, list) else result


LIES: dict[str, Callable[[Question, Any], Any]] = {"time": time_lie, "state": state_lie, "events": events_lie}


class Relay:
    """One RPC. fired: how many answers each mode spoiled. asked: how many requests came."""

    def __init__(self, rpc: str, node: GethNode) -> None:
        self.rpc, self.node = rpc, node
        self.mode, self.fork, self.asked = "honest", "", 0
        self.fired: Counter[str] = Counter()
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                self.session = requests.Session()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    relay._answer(self, body, self.session)
                except (OSError, ValueError, KeyError):  # who asked has gone, or the chain ends
                    self.close_connection = True

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Who asked has died: that is what is done to it here."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.mode = "honest"
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, body: bytes, session: requests.Session) -> None:
        mode = self.mode
        self.asked += 1
        said = json.loads(body)
        questions: list[Question] = [said] if isinstance(said, dict) else said
        if mode == "hangs":
            self.fired[mode] += 1
            until = time.monotonic() + TIMEOUT_S
            while self.mode == mode and time.monotonic() < until:
                time.sleep(0.1)
            handler.close_connection = True
            return
        if mode == "limits":
            self.fired[mode] += 1
            _send(handler, 429, b'{"error": "too many requests"}')
            return
        if mode == "honest":
            _send(handler, 200, session.post(self.rpc, data=body, headers=HEADERS, timeout=TIMEOUT_S).content)
            return
        answers = [self._of(mode, question, session) for question in questions]
        content = json.dumps(answers[0] if isinstance(said, dict) else answers).encode()
        if mode == "drips":
            self.fired[mode] += 1
            self._drip(handler, content)
        else:
            _send(handler, 200, content)

    def _drip(self, handler: BaseHTTPRequestHandler, content: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        for at in range(len(content)):
            handler.wfile.write(content[at : at + 1])
            handler.wfile.flush()
            if self.mode == "drips":
                time.sleep(0.5)

    def _of(self, mode: str, question: Question, session: requests.Session) -> dict[str, Any]:
        if mode == "swallows" and question["method"] == "eth_sendRawTransaction":
            self.fired[mode] += 1
            return _result(question, "0x" + keccak(hexstr=question["params"][0]).hex())
        if mode == "pool":
            answer = self.node.answer(question, lambda asked: _ask(session, self.rpc, asked))
            if answer is not None:
                return answer
        if mode == "forks" and self.fork:
            self.fired[mode] += 1
            return _ask(session, self.fork, question)
        if mode == "lags":
            self.fired[mode] += 1
            return self._late(question, session)
        answer = _ask(session, self.rpc, question)
        if mode in LIES and "result" in answer:
            true = answer["result"]
            answer = {**answer, "result": LIES[mode](question, true)}
            self.fired[mode] += answer["result"] != true
        return answer

    def _late(self, question: Question, session: requests.Session) -> dict[str, Any]:
        newest = int(_ask(session, self.rpc, {**question, "method": "eth_blockNumber", "params": []})["result"], 16)
        late = max(0, newest - BEHIND)
        if question["method"] == "eth_blockNumber":
            return _result(question, hex(late))
        if question["method"] == "eth_sendRawTransaction":
            return _ask(session, self.rpc, question)
        params = [hex(late) if each in ("latest", "pending") else each for each in question["params"]]
        if question["method"] == "eth_getBlockByNumber" and int(params[0], 16) > late:
            return _result(question, None)
        return _ask(session, self.rpc, {**question, "params": params})


def _ask(session: requests.Session, rpc: str, question: Question) -> dict[str, Any]:
    answer: dict[str, Any] = session.post(rpc, data=json.dumps(question), headers=HEADERS, timeout=TIMEOUT_S).json()
    return answer


def _result(question: Question, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


def _send(handler: BaseHTTPRequestHandler, status: int, content: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content)))
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    handler.wfile.write(content)
