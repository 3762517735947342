"""Answers `GET /metrics` and `GET /health`, on a unix socket (each process, for its daemon) or on loopback (the daemon, for everybody).

A process knows its socket from ZOO_MONITOR; without it nothing is served.
"""

from __future__ import annotations

import faulthandler
import http.client
import json
import logging
import os
import signal
import socket
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

log = logging.getLogger("zoo.process")

SOCKET = "ZOO_MONITOR"  # in the environment of a process: where it answers its daemon
MAX_ANSWER = 4 * 2**20
REQUEST_S = 5.0
Health = Callable[[], dict[str, Any]]  # {"ok": bool, ...}


class Monitor:
    """A server in a thread of its own. at: a path of a unix socket, or (host, port)."""

    def __init__(self, registry: Collector, health: Health, at: Path | tuple[str, int]) -> None:
        if isinstance(at, Path):
            at.unlink(missing_ok=True)  # of a process that died
            self._server: _TcpServer | _UnixServer = _UnixServer(str(at), _Handler)
            at.chmod(0o600)
        else:
            self._server = _TcpServer(at, _Handler)
        self._server.registry, self._server.health = registry, health
        self._thread = threading.Thread(target=self._server.serve_forever, name="monitor", daemon=True)

    @property
    def port(self) -> int:
        """Of a server on loopback."""
        address: Any = self._server.server_address
        return int(address[1])

    def start(self) -> Monitor:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def serve_daemon(registry: Collector, health: Health) -> None:
    """Answer this process's daemon until the process ends; where there is no daemon, do nothing. SIGUSR1 logs what each thread does."""
    at = os.environ.get(SOCKET)
    if at:
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        try:
            Monitor(registry, health, Path(at)).start()
        except OSError as error:
            log.warning("no metrics are served: %s", error)


def get(at: Path, path: str, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of what a process answers at its socket. Raises OSError, HTTPException."""
    connection = _UnixConnection(at, timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(MAX_ANSWER)
    finally:
        connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, at: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._at = at

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._at))


class _Served:
    daemon_threads = True
    allow_reuse_address = True
    registry: Collector
    health: Health


class _TcpServer(_Served, socketserver.ThreadingTCPServer): ...


class _UnixServer(_Served, socketserver.ThreadingUnixStreamServer): ...


class _Handler(BaseHTTPRequestHandler):
    server: _TcpServer | _UnixServer
    timeout = REQUEST_S

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, CONTENT_TYPE_LATEST, generate_latest(cast(CollectorRegistry, self.server.registry)))
        elif path == "/health":
            health = self.server.health()
            self._answer(200 if health["ok"] else 503, "application/json", json.dumps(health).encode() + b"\n")
        else:
            self._answer(404, "text/plain", b"expected /metrics or /health\n")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "daemon"

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: Prometheus asks every few seconds."""
