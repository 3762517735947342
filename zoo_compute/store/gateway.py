"""Serves a store's own blocks and pins over HTTP, read only.

GET, HEAD /ipfs/CID?format=raw   one block (or `Accept: application/vnd.ipld.raw`)
GET, HEAD /pins/CID              {"cid": CID, "pinned": true or false}
GET, HEAD /custody/JOB           what this operator says about a job's custody (keepers/decisions/custody_statements.py), with an ETag
GET, HEAD /receipts/OPERATOR      this operator's newest receipt for what OPERATOR sent it (keepers/decisions/receipts.py)
GET, HEAD /health                {"ok": true}
GET /reach?endpoint=URL&cid=CID  {"endpoint": URL, "cid": CID, "served": true or false}: whether an announced endpoint serves
                                 a small block, within the limits of probe.py

Every answer names the store, and with --operator the operator that it belongs to.

    python -m zoo_compute.store.gateway --root DIR [--host 127.0.0.1] [--port 8080] [--operator 7]
"""

import argparse
import contextlib
import errno
import io
import json
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from zoo_compute.store.addresses import is_loopback
from zoo_compute.store.blockstore import BlockStore
from zoo_compute.store.errors import BadCid, ContentTampered, StoreError
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.pin_verdicts import PinVerdicts
from zoo_compute.store.probe import Prober, ProbeRefused
from zoo_compute.timed_sockets import TimedSocket

MAX_CONNECTIONS = 64
REQUEST_S = 15.0  # for a client to send its request, and again to read the answer
MAX_DIGITS = 20  # of a job's number, and an operator's
_RAW_TYPE = "application/vnd.ipld.raw"


def statement_path(root: Path, job: int) -> Path:
    """The file, in a store's folder, of what its operator says about a job's custody."""
    return root / "custody" / f"{job}.json"


Answered = Callable[[int, int], object]  # status and bytes of each answer


def receipt_path(root: Path, server: int) -> Path:
    """The file, in a store's folder, of the receipt that its operator signed for another one."""
    return root / "receipts" / f"{server}.json"


class Gateway:
    """Serves `store` until `stop`. port: 0 for a free one. operator: whose it is; 0: nobody's. answered: called after each answer.

    Raises StoreError if the address cannot be used.
    """

    def __init__(
        self,
        store: BlockStore,
        host: str = "127.0.0.1",
        port: int = 0,
        operator: int = 0,
        answered: Answered = lambda *_: None,
    ) -> None:
        try:
            self._server = _Server(store, host, port, operator, answered)
        except OSError as error:
            raise StoreError(_cannot_listen(host, port, error)) from error
        url_host = f"[{host}]" if ":" in host else host
        self.url = f"http://{url_host}:{self._server.server_address[1]}"
        self._thread: threading.Thread | None = None

    def start(self) -> "Gateway":
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop answering, close all connections, free the port. Can be called twice."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()
        self._server.hang_up()

    def __enter__(self) -> "Gateway":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, store: BlockStore, host: str, port: int, operator: int, answered: Answered) -> None:
        self.store, self.operator = store, operator
        self.pins = PinVerdicts(store)
        self.answered = answered
        self.prober = Prober(store.root, local=is_loopback(host))
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.settimeout(0.5)
                request.sendall(
                    b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
            self.shutdown_request(request)
            return
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._open_lock:
                self._open.discard(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect; prints any other error, which is a bug of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        """Close all open connections, and wait for their threads."""
        with self._open_lock:
            for request in self._open:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)
        end = time.monotonic() + 5
        while self._open and time.monotonic() < end:
            time.sleep(0.01)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "zoo-compute-store"
    sys_version = ""

    wfile: io.BytesIO

    def setup(self) -> None:
        self.connection = self.request
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self._timed = TimedSocket(self.request)
        self.rfile = self._timed.makefile()
        self.wfile = io.BytesIO()

    def finish(self) -> None:
        self.rfile.close()

    def handle_one_request(self) -> None:
        """One request and its answer. The client has REQUEST_S to send the request, and REQUEST_S to read the answer."""
        self._timed.deadline = time.monotonic() + REQUEST_S
        try:
            super().handle_one_request()
            self._timed.deadline = time.monotonic() + REQUEST_S
            if answer := self.wfile.getvalue():
                self._timed.sendall(answer)
        except OSError:
            self.close_connection = True
        self.wfile.seek(0)
        self.wfile.truncate()

    def do_GET(self) -> None:
        if self.headers.get("Transfer-Encoding") or self.headers.get("Content-Length", "0") != "0":
            self.close_connection = True  # what follows is a body, not a request
            return self._say(413, "requests here have no body")
        try:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query, max_num_fields=8)
        except ValueError as error:
            return self._say(400, f"bad request: {error}")
        _, _, kind_and_rest = parts.path.partition("/")
        kind, _, rest = kind_and_rest.partition("/")
        if kind == "health" and not rest:
            return self._json({"ok": True})
        if kind == "reach" and not rest:
            return self._reach(query)
        path_of = {"custody": statement_path, "receipts": receipt_path}.get(kind)
        if path_of is not None and rest.isdecimal() and len(rest) < MAX_DIGITS:
            return self._said(path_of(self.server.store.root, int(rest)))
        if kind not in ("ipfs", "pins") or not rest:
            return self._say(
                404, "expected /ipfs/CID?format=raw, /pins/CID, /custody/JOB, /receipts/OPERATOR, /reach or /health"
            )
        try:
            cid = Cid.parse(rest)
        except BadCid as error:
            return self._say(400, str(error))
        if kind == "pins":
            return self._json({"cid": cid.text, "pinned": self.server.pins.is_pinned(cid.text)})
        asked_format = query.get("format", [self.headers.get("Accept", "")])[0]
        if asked_format != "raw" and _RAW_TYPE not in asked_format:
            return self._say(406, f"only single blocks are served: use ?format=raw or Accept: {_RAW_TYPE}")
        return self._block(cid)

    do_HEAD = do_GET

    def _reach(self, query: dict[str, list[str]]) -> None:
        """Whether another operator's endpoint served the block. Never returns what it answered."""
        if self.command != "GET" or not query.keys() >= {"endpoint", "cid"}:
            return self._say(400, "expected GET /reach?endpoint=URL&cid=CID")
        endpoint = query["endpoint"][0]
        try:
            cid = Cid.parse(query["cid"][0])
            served = self.server.prober.serves(endpoint, cid)
        except BadCid as error:
            return self._say(400, str(error))
        except ProbeRefused as refused:
            return self._say(refused.status, str(refused))
        return self._json({"endpoint": endpoint, "cid": cid.text, "served": served})

    def _said(self, path: Path) -> None:
        try:
            said = path.read_bytes()
        except FileNotFoundError:
            return self._say(404, "nothing is said here about that")
        tag = f'"{sha256(said).hexdigest()}"'  # it is asked for every second, and changes a few times in a round
        if self.headers.get("If-None-Match") == tag:
            return self._answer(304, b"", {"Etag": tag})
        self._answer(200, said, {"Content-Type": "application/json", "Cache-Control": "no-cache", "Etag": tag})

    def _block(self, cid: Cid) -> None:
        try:
            block = self.server.store.local_block(cid)
        except ContentTampered:
            block = None  # it has been removed, and this store's owner will fetch it again
        if block is None:
            only_cached = "only-if-cached" in self.headers.get("Cache-Control", "")
            return self._say(412 if only_cached else 404, f"{cid} is not here")
        self._answer(
            200,
            block,
            {
                "Content-Type": _RAW_TYPE,
                "Cache-Control": "public, max-age=29030400, immutable",
                "Etag": f'"{cid}.raw"',
                "X-Ipfs-Path": f"/ipfs/{cid}",
                "X-Content-Type-Options": "nosniff",
                "Content-Disposition": f'attachment; filename="{cid}.bin"',
            },
        )

    def _json(self, value: dict[str, object]) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json", "Cache-Control": "no-store"})

    def _say(self, status: int, text: str) -> None:
        self._answer(status, (text + "\n").encode(), {"Content-Type": "text/plain; charset=utf-8"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("X-Store-Id", self.server.store.id)
        if self.server.operator:
            self.send_header("X-Operator", str(self.server.operator))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.server.answered(status, self.wfile.tell())

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: a store answers thousands of blocks."""


def _cannot_listen(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use by another process; choose another with --port, or stop that process"
    return f"cannot listen on {host}:{port} ({error.strerror or error}); --host must be an address of this machine"


def main(answered: Answered = lambda *_: None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m zoo_compute.store.gateway", description="Serve the blocks of a store."
    )
    parser.add_argument("--root", type=Path, required=True, help="folder of the store; made if absent")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one (default: 8080)")
    parser.add_argument("--operator", type=int, default=0, help="number of the operator whose store it is")
    options = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        gateway = Gateway(BlockStore(options.root), options.host, options.port, options.operator, answered)
    except (StoreError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    with gateway:
        print(gateway.url, flush=True)
        ended.wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
