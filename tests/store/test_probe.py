"""A peer's word on an endpoint: what a gateway tries for others, and above all what it does not."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest

from keepers.peer_directory import PeerDirectory
from tests.support.waiting import HANG_S
from zoo_compute.operators.reachability import reach
from zoo_compute.store import BlockStore, Gateway, probe
from zoo_compute.store.addresses import Scope
from zoo_compute.store.cid import cid_of
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.probe import MAX_BYTES, Prober, ProbeRefused, save_endpoints

SMALL = b"s" * 64


class Answer(BaseHTTPRequestHandler):
    """Answers every path with the server's bytes, or a redirect; counts."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        status, headers, body = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def answering(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Answer)
    server.answer, server.asked = (status, headers or {}, body), []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def url_of(server: HTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Gateway]:
    """The gateway whose reachability is asked about."""
    store = BlockStore(tmp_path / "mine")
    store.add(SMALL)
    store.add(b"L" * (MAX_BYTES + 1))
    with Gateway(store) as gateway:
        yield gateway


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr(probe, "ENDPOINT_PAUSE_S", 0.0)
    with Gateway(BlockStore(tmp_path / "peer")) as gateway:
        yield gateway


def asked(peer: Gateway, endpoint: str, content: bytes = SMALL) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", int(peer.url.rsplit(":", 1)[1]), timeout=HANG_S)
    try:
        connection.request("GET", "/reach?" + urlencode({"endpoint": endpoint, "cid": cid_of(content)}))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def announced(tmp_path: Path, *endpoints: str) -> None:
    save_endpoints(tmp_path / "peer", endpoints)


def test_an_announced_endpoint_that_serves__is_said_to(mine: Gateway, peer: Gateway, tmp_path: Path) -> None:
    announced(tmp_path, mine.url)
    status, body = asked(peer, mine.url)
    assert status == 200
    assert json.loads(body) == {"endpoint": mine.url, "cid": cid_of(SMALL), "served": True}


def test_an_endpoint_that_no_operator_announced__is_never_contacted(peer: Gateway, tmp_path: Path) -> None:
    with answering(SMALL) as stranger:
        assert asked(peer, url_of(stranger))[0] == 403, "no keeper listed anything"
        announced(tmp_path, "http://127.0.0.1:1")
        assert asked(peer, url_of(stranger))[0] == 403
        assert asked(peer, url_of(stranger) + "/")[0] == 403
        assert stranger.asked == []  # type: ignore[attr-defined]


def test_what_answers_other_bytes_too_many_bytes_or_elsewhere__does_not_serve(
    mine: Gateway, peer: Gateway, tmp_path: Path
) -> None:
    large = b"L" * (MAX_BYTES + 1)
    announced(tmp_path, mine.url)
    assert json.loads(asked(peer, mine.url, large)[1])["served"] is False, "only a small block is fetched"
    with answering(SMALL) as elsewhere:
        with answering(b"", 302, {"Location": url_of(elsewhere)}) as redirecting, answering(b"secret") as other:
            announced(tmp_path, url_of(redirecting), url_of(other))
            for endpoint in (url_of(redirecting), url_of(other)):
                body = asked(peer, endpoint)[1]
                assert json.loads(body)["served"] is False
                assert b"secret" not in body
        assert elsewhere.asked == [], "a redirect is not followed"  # type: ignore[attr-defined]


def test_nobody_there__is_a_verdict_too(peer: Gateway, tmp_path: Path) -> None:
    announced(tmp_path, "http://127.0.0.1:9")
    assert json.loads(asked(peer, "http://127.0.0.1:9")[1])["served"] is False


def test_a_gateway_that_serves_the_world__never_contacts_its_own_machine(tmp_path: Path) -> None:
    with answering(SMALL) as inside:
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            endpoint = f"http://{host}:{inside.server_address[1]}"
            save_endpoints(tmp_path, [endpoint])
            assert Prober(tmp_path, local=False).serves(endpoint, Cid.parse(cid_of(SMALL))) is False
        assert inside.asked == []  # type: ignore[attr-defined]


def test_a_name_that_resolves_to_a_private_address_beside_a_public_one__is_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []
    answers = [(0, 0, 0, "", (address, 80)) for address in ("93.184.216.34", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    monkeypatch.setattr(socket, "create_connection", lambda at, timeout: tried.append(at) or _refused())
    save_endpoints(tmp_path, ["http://node.example"])
    assert Prober(tmp_path, local=False).serves("http://node.example", Cid.parse(cid_of(SMALL))) is False
    assert tried == []
    answers.pop()
    assert Prober(tmp_path, local=False).serves("http://node.example", Cid.parse(cid_of(SMALL))) is False
    assert set(tried) == {("93.184.216.34", 80)}, "the address that was judged, not the name"


def _refused() -> None:
    raise ConnectionRefusedError


def test_probes__are_rare_by_endpoint_few_by_minute_and_few_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_can_fetch", lambda *_, **__: True)
    cid = Cid.parse(cid_of(SMALL))
    urls = [f"http://203.0.114.7:{port}" for port in range(1, 2 + probe.PROBES_PER_MINUTE)]
    save_endpoints(tmp_path, urls)
    prober = Prober(tmp_path, local=False)
    assert prober.serves(urls[0], cid)
    with pytest.raises(ProbeRefused, match="too often") as refused:
        prober.serves(urls[0], cid)
    assert refused.value.status == 429
    for url in urls[1 : probe.PROBES_PER_MINUTE]:
        prober.serves(url, cid)
    with pytest.raises(ProbeRefused, match="too often"):
        prober.serves(urls[-1], cid)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    assert prober.serves(urls[-1], cid), "a minute later it may be asked again"

    busy = Prober(tmp_path, local=False)
    for _ in range(probe.CONCURRENT_PROBES):
        busy._busy.acquire()
    with pytest.raises(ProbeRefused, match="being tested"):
        busy.serves(urls[0], cid)


@pytest.mark.parametrize(
    "path", ["/reach", "/reach?endpoint=http://127.0.0.1:9", "/reach?endpoint=http://x&cid=nonsense"]
)
def test_a_question_without_endpoint_or_cid__is_refused(peer: Gateway, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(peer.url.rsplit(":", 1)[1]), timeout=HANG_S)
    connection.request("GET", path)
    assert connection.getresponse().status == 400
    connection.close()


# -- the side that asks


def test_a_peer_that_fetched_it__is_counted_and_the_block_goes_again(
    mine: Gateway, peer: Gateway, tmp_path: Path
) -> None:
    announced(tmp_path, mine.url)
    store = BlockStore(tmp_path / "mine")
    pins = set(store.pins())
    result = reach(mine.url, store, [peer.url, mine.url, "not a url"])
    assert (result.served, result.peers) == (True, 1)
    assert str(result) == f"1 peer fetched a block from {mine.url}"
    assert set(store.pins()) == pins


def test_an_endpoint_that_peers_cannot_fetch_from__is_unreachable_whatever_this_machine_sees(
    mine: Gateway, peer: Gateway, tmp_path: Path
) -> None:
    announced(tmp_path, "http://127.0.0.1:9")
    result = reach("http://127.0.0.1:9", BlockStore(tmp_path / "mine"), [peer.url])
    assert (result.served, result.peers) == (False, 1)
    with answering(json.dumps({"served": False}).encode()) as doubting:
        result = reach(mine.url, BlockStore(tmp_path / "mine"), [url_of(doubting)])
        assert (result.served, result.peers) == (False, 1)


def test_where_no_peer_can_say__this_machine_tries_and_says_that_it_was_alone(
    mine: Gateway, peer: Gateway, tmp_path: Path
) -> None:
    store = BlockStore(tmp_path / "mine")
    with answering(b"[" * 5_000) as raving, answering(b'{"served": "yes"}') as vague:
        result = reach(mine.url, store, [peer.url, url_of(raving), url_of(vague), "http://127.0.0.1:9"])
    assert (result.served, result.peers) == (True, 0)
    assert "no peer tried" in str(result)
    assert reach("http://127.0.0.1:9", store, []).served is False


def test_a_keeper__lists_what_operators_announced_and_nothing_else(tmp_path: Path) -> None:
    prefetcher = SimpleNamespace(set_peers=lambda *_: None)
    askers = [SimpleNamespace(), SimpleNamespace()]
    directory: Any = SimpleNamespace(
        _store=BlockStore(tmp_path), _prefetcher=prefetcher, scope=Scope.PUBLIC, _askers=askers
    )
    announced = {1: "http://203.0.114.7:8600", 2: "ftp://203.0.114.8", 3: "", 4: "http://203.0.114.9:1?x=1"}
    PeerDirectory.use(directory, ["http://storage.example", announced[1]], announced)
    assert json.loads((tmp_path / probe.ENDPOINTS).read_text()) == ["http://203.0.114.7:8600"]
    assert [(each.endpoints, each.scope) for each in askers] == [(announced, Scope.PUBLIC)] * 2
