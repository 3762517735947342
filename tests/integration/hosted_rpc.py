"""A hosted RPC and signer: asks for an API key, signs with one account, passes the rest on to the chain."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests
from eth_account.signers.local import LocalAccount

from tests.support.waiting import HANG_S


@contextmanager
def hosted(rpc: str, account: LocalAccount, key: str) -> Iterator[str]:
    """The URL of both."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Authorization") != f"Bearer {key}":
                self._answer(401, b"{}")
                return
            question = json.loads(body)
            if isinstance(question, dict) and question["method"] in ("eth_accounts", "eth_signTransaction"):
                self._answer(
                    200, json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": own(question)}).encode()
                )
                return
            self._answer(
                200, requests.post(rpc, data=body, headers={"Content-Type": "application/json"}, timeout=HANG_S).content
            )

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    def own(question: dict[str, Any]) -> Any:
        if question["method"] == "eth_accounts":
            return [account.address]
        transaction = {k: v for k, v in question["params"][0].items() if k != "from"}
        return "0x" + account.sign_transaction(transaction).raw_transaction.hex()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
