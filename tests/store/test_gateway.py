"""The gateway: what it serves, what it refuses, and how it starts and ends as a process."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.store.test_cid import content_of
from tests.support.waiting import HANG_S, ended, wait_until
from zoo_compute.store import BlockStore, Gateway, StoreError, cid_of, gateway, pin_verdicts, raw_cid

ROOT = Path(__file__).parents[2]
CONTENT = content_of(300_000)
CID = cid_of(CONTENT)
ABSENT = raw_cid(b"\x01" * 32)


@pytest.fixture
def store(tmp_path):
    store = BlockStore(tmp_path / "store")
    store.add(CONTENT)
    store.add(b"small", pin=False)
    return store


@pytest.fixture
def served(store):
    with Gateway(store) as gateway:
        yield gateway


def port_of(gateway: Gateway) -> int:
    return int(gateway.url.rsplit(":", 1)[1])


def ask(served: Gateway, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(served), timeout=HANG_S)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def tell(served: Gateway, raw: bytes) -> bytes:
    """Send bytes, and return all that comes back until the gateway hangs up."""
    with socket.create_connection(("127.0.0.1", port_of(served)), timeout=HANG_S) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("?format=raw", {}),
        ("", {"Accept": "application/vnd.ipld.raw"}),
        ("?format=raw", {"Cache_Control": "only-if-cached"}),
    ],
)
def test_get__a_block__is_the_block_with_its_headers(served, store, query, headers):
    response, body = ask(served, f"/ipfs/{CID}{query}", **headers)
    assert response.status == 200
    assert body == next((store.root / "blocks").rglob(CID)).read_bytes()
    assert response.headers["Content-Type"] == "application/vnd.ipld.raw"
    assert "immutable" in response.headers["Cache-Control"]
    assert response.headers["Etag"] == f'"{CID}.raw"'
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_head__a_block__has_its_length_and_no_body(served):
    response, body = ask(served, f"/ipfs/{cid_of(b'small')}?format=raw", "HEAD")
    assert (response.status, response.headers["Content-Length"], body) == (200, "5", b"")


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        (f"/ipfs/{ABSENT}?format=raw", "GET", {}, 404),
        (f"/ipfs/{ABSENT}?format=raw", "GET", {"Cache_Control": "only-if-cached"}, 412),
        (f"/ipfs/{CID}", "GET", {}, 406),
        (f"/ipfs/{CID}?format=car", "GET", {"Accept": "application/vnd.ipld.raw"}, 406),
        (f"/ipfs/{CID}/file?format=raw", "GET", {}, 400),
        ("/ipfs/../../etc/passwd?format=raw", "GET", {}, 400),
        ("/ipfs/x?format=raw", "GET", {}, 400),
        ("/ipfs/", "GET", {}, 404),
        ("/pins/x", "GET", {}, 400),
        ("/", "GET", {}, 404),
        ("/health/x", "GET", {}, 404),
        (f"/ipfs/{CID}?" + "&".join("a=b" for _ in range(20)), "GET", {}, 400),
        (f"/ipfs/{CID}?format=raw", "POST", {}, 501),
        (f"/ipfs/{CID}", "PUT", {}, 501),
        (f"/pins/{CID}", "DELETE", {}, 501),
        (f"/ipfs/{CID}?format=raw", "GET", {"Content_Length": "5"}, 413),
        (f"/ipfs/{CID}?format=raw", "GET", {"Transfer_Encoding": "chunked"}, 413),
    ],
)
def test_requests__that_are_not_served__are_told_why(served, path, method, headers, status):
    response, body = ask(served, path, method, **headers)
    assert response.status == status
    assert body


def test_pins__pinned_and_not__say_so(served, store):
    for cid, pinned in ((CID, True), (cid_of(b"small"), False), (ABSENT, False)):
        response, body = ask(served, f"/pins/{cid}")
        assert response.status == 200
        assert json.loads(body) == {"cid": cid, "pinned": pinned}
        assert response.headers["X-Store-Id"] == store.id
    store.unpin(CID)
    assert json.loads(ask(served, f"/pins/{CID}")[1])["pinned"] is False


def test_pins__asked_again_and_again__are_walked_once_an_hour(served, store, monkeypatch):
    """p13: one small request took 1.5 s of a core for a file of 10 GiB."""
    walked, has = [], store.has
    monkeypatch.setattr(store, "has", lambda cid: walked.append(cid) or has(cid))
    now = time.monotonic()

    def pinned(after_s: float) -> bool:
        monkeypatch.setattr(pin_verdicts, "time", SimpleNamespace(monotonic=lambda: now + after_s))
        return json.loads(ask(served, f"/pins/{CID}")[1])["pinned"]

    hour, minute = pin_verdicts.COMPLETE_S, pin_verdicts.INCOMPLETE_S
    assert [pinned(after_s) for after_s in (0, 1, hour - 1)] == [True] * 3
    assert walked == [CID]
    for cid in [cid for cid in store._blocks if cid.text not in (CID, cid_of(b"small"))]:
        store._blocks.remove(cid)
    assert [pinned(hour + after_s) for after_s in (0, 1)] == [False] * 2
    assert walked == [CID] * 2
    store.add(CONTENT)
    assert pinned(hour + minute) is True
    store.unpin(CID)
    assert pinned(hour + minute) is False
    assert walked == [CID] * 3


def test_health__is_ok(served):
    assert json.loads(ask(served, "/health")[1]) == {"ok": True}


def test_get__a_damaged_block__is_not_served_and_removed(served, store):
    path = next((store.root / "blocks").rglob(cid_of(b"small")))
    path.write_bytes(b"smell")
    assert ask(served, f"/ipfs/{cid_of(b'small')}?format=raw")[0].status == 404
    assert not path.exists()


def test_gateway__never_fetches_for_others(tmp_path, served, store):
    middle = BlockStore(tmp_path / "middle", [served.url])
    with Gateway(middle) as between:
        assert ask(between, f"/ipfs/{CID}?format=raw")[0].status == 404
        assert json.loads(ask(between, f"/pins/{CID}")[1])["pinned"] is False
    assert list((tmp_path / "middle" / "blocks").iterdir()) == []


def test_connection__several_requests_on_one__are_answered_in_turn(served):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(served), timeout=HANG_S)
    for _ in range(3):
        connection.request("GET", f"/ipfs/{CID}?format=raw")
        assert connection.getresponse().read()
    connection.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\r\n\r\n",
        b"\x00\xff\x16\x03\x01" * 50,
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"b" * 100_000 + b"\r\n\r\n",
        b"GET //[/ HTTP/1.1\r\n\r\n",
        b"GET /ipfs/%00%ff HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_gateway__nonsense__is_refused_or_hung_up_on_and_it_goes_on(served, raw, capfd):
    answer = tell(served, raw)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5", b"<!DOCTYPE", b"<html"))
    assert ask(served, "/health")[0].status == 200
    assert "Traceback" not in capfd.readouterr().err


def test_gateway__client_that_drips_its_request__is_hung_up_on(store, monkeypatch):
    monkeypatch.setattr(gateway, "REQUEST_S", 0.4)
    with (
        Gateway(store) as served,
        socket.create_connection(("127.0.0.1", port_of(served)), timeout=HANG_S) as connection,
    ):
        for letter in b"GET /health HTTP/1.1\r\nX-Slow: xxxxxxxxxx":
            try:
                connection.sendall(bytes([letter]))
            except OSError:
                return  # hung up on while it was still sending
            time.sleep(0.05)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""


def test_gateway__more_connections_than_allowed__are_told_to_come_back(store, monkeypatch):
    monkeypatch.setattr(gateway, "MAX_CONNECTIONS", 3)
    with Gateway(store) as served:
        connections = [socket.create_connection(("127.0.0.1", port_of(served)), timeout=HANG_S) for _ in range(3)]
        time.sleep(0.3)
        assert tell(served, b"").startswith(b"HTTP/1.1 503")
        for connection in connections:
            connection.close()
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            try:
                if ask(served, "/health")[0].status == 200:
                    return
            except OSError:
                pass
        pytest.fail("the connections were not given back")


def test_stop__with_connections_open__waits_for_none_and_leaves_no_thread(store, monkeypatch):
    monkeypatch.setattr(gateway, "REQUEST_S", 10 * HANG_S)  # as long as it would wait for each of them
    before = set(threading.enumerate())
    served = Gateway(store).start()
    connections = [socket.create_connection(("127.0.0.1", port_of(served))) for _ in range(5)]
    assert ask(served, "/health")[0].status == 200
    ended(served.stop)
    ended(served.stop)
    wait_until("the end of its threads", lambda: set(threading.enumerate()) <= before)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(served)))
    for connection in connections:
        connection.close()


def test_gateway__port_in_use__says_so(served, store):
    with pytest.raises(StoreError, match=f"port {port_of(served)} .* is in use"):
        Gateway(store, port=port_of(served))


def test_gateway__address_of_another_machine__says_so(store):
    with pytest.raises(StoreError, match="address of this machine"):
        Gateway(store, host="192.0.2.1")


def run(*arguments: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "zoo_compute.store.gateway", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_process__prints_its_url_serves_and_ends_cleanly(store, tmp_path, number):
    process = run("--root", store.root, "--port", 0)
    try:
        url = process.stdout.readline().strip()
        assert BlockStore(tmp_path / "reader", [url]).read(CID, max_bytes=len(CONTENT)) == CONTENT
        process.send_signal(number)
        assert process.wait(HANG_S) == 0
        assert process.communicate()[1] == ""
    finally:
        process.kill()
        process.wait()


def test_process__port_in_use__is_one_line_and_a_failure(served, store):
    process = run("--root", store.root, "--port", port_of(served))
    out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert out == ""
    assert err.startswith("error: port")
    assert err.count("\n") == 1


def test_process__root_that_is_a_file__is_one_line_and_a_failure(tmp_path):
    (tmp_path / "file").touch()
    process = run("--root", tmp_path / "file", "--port", 0)
    err = process.communicate(timeout=HANG_S)[1]
    assert process.returncode == 1
    assert err.startswith("error: ")
    assert os.fspath(tmp_path / "file") in err
