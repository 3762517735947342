"""Peers that are down, slow, or lie; and who confirms a pin."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.test_cid import content_of
from tests.support.waiting import ended
from zoo_compute.store import (
    BadCid,
    BlockStore,
    ContentMissing,
    ContentRefused,
    ContentTampered,
    Gateway,
    StoreUnreachable,
    cid_of,
    confirmations,
    peers,
    pin_verdicts,
)

Answer = Callable[[socket.socket, bytes], None]
CONTENT = content_of(600_000)
CID = cid_of(CONTENT)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"


class HostilePeer:
    """A socket that answers every request by `answer(connection, request)`, and counts them."""

    def __init__(self, answer: Answer) -> None:
        self.asked = 0
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with connection:
            try:
                request = connection.recv(65536)
                self.asked += 1
                self._answer(connection, request)
            except OSError:
                pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextmanager
def hostile(answer: Answer) -> Iterator[HostilePeer]:
    peer = HostilePeer(answer)
    try:
        yield peer
    finally:
        peer.close()


def say(body: bytes) -> Answer:
    return lambda connection, request: connection.sendall(OK % len(body) + body)


def drip(connection: socket.socket, request: bytes) -> None:
    connection.sendall(OK % 1000)
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def drip_headers(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def never_end(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(bytes(65536))


LIES: dict[str, Answer] = {
    "says nothing": lambda connection, request: connection.recv(1) and None,  # until it is hung up on
    "hangs up": lambda connection, request: None,
    "other bytes": say(b"other bytes"),
    "no bytes": say(b""),
    "too many bytes": say(bytes(3 * 2**20)),
    "endless bytes": never_end,
    "drips": drip,
    "drips headers": drip_headers,
    "promises more than it sends": lambda connection, request: connection.sendall(OK % 1000 + b"x"),
    "no HTTP": lambda connection, request: connection.sendall(b"\x00\xff" * 100),
    "endless line": lambda connection, request: connection.sendall(b"HTTP/1.1 200 " + b"x" * 10**6),
    "broken chunks": lambda connection, request: connection.sendall(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"
    ),
    "negative length": lambda connection, request: connection.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nxxxxx"
    ),
    "server error": lambda connection, request: connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
    "redirect": lambda connection, request: connection.sendall(
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"
    ),
}


@pytest.fixture
def honest(tmp_path):
    store = BlockStore(tmp_path / "honest")
    store.add(CONTENT)
    with Gateway(store) as gateway:
        yield gateway


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_read__first_peer_hostile__the_next_is_asked_and_the_first_is_left_alone(lie, honest, tmp_path):
    with hostile(lie) as peer:
        reader = BlockStore(tmp_path / "reader", [peer.url, honest.url])
        assert reader.read(CID, max_bytes=len(CONTENT), timeout_s=4) == CONTENT
        assert peer.asked == 1


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_read__only_peer_hostile__ends_in_time_and_stores_nothing(lie, tmp_path):
    with hostile(lie) as peer:
        reader = BlockStore(tmp_path / "reader", [peer.url])
        with pytest.raises((ContentTampered, StoreUnreachable), match=peer.url):
            ended(lambda: reader.read(CID, max_bytes=len(CONTENT), timeout_s=0.5))
        assert peer.asked >= 1
        assert list((tmp_path / "reader" / "blocks").rglob("baf*")) == []


@contextmanager
def silent_peers(count: int) -> Iterator[list[str]]:
    """Sockets that accept and never answer."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        yield [f"http://127.0.0.1:{each.getsockname()[1]}" for each in listeners]
    finally:
        for each in listeners:
            each.close()


@pytest.mark.parametrize("count", [2, 100])
def test_read__many_silent_peers_before_a_slow_honest_one__is_read_from_that_one(count, honest, tmp_path, monkeypatch):
    """Each had a share of the time: of a hundred, less than a round trip takes."""
    real = peers.GatewayClient.block_of

    def far(self, cid, *, deadline, **options):
        if self.url == honest.url:
            time.sleep(min(0.3, max(0.0, deadline - time.monotonic())))
        return real(self, cid, deadline=deadline, **options)

    monkeypatch.setattr(peers.GatewayClient, "block_of", far)
    with silent_peers(count) as silent:
        reader = BlockStore(tmp_path / "reader", [*silent, honest.url])
        assert reader.read(CID, max_bytes=len(CONTENT), timeout_s=4) == CONTENT


def test_read__peers_that_are_all_silent__ends_in_time_and_names_them(tmp_path):
    with silent_peers(3) as silent:
        reader = BlockStore(tmp_path / "reader", silent)
        with pytest.raises(StoreUnreachable, match="did not answer in time") as failure:
            ended(lambda: reader.read(CID, max_bytes=len(CONTENT), timeout_s=1))
        assert all(url in str(failure.value) for url in silent)


def test_read__a_liar_among_peers_without_it__is_named(tmp_path):
    with hostile(say(b"lie")) as liar, Gateway(BlockStore(tmp_path / "empty")) as empty:
        reader = BlockStore(tmp_path / "reader", [empty.url, liar.url])
        with pytest.raises(ContentTampered, match=f"{liar.url} answered 3 bytes") as failure:
            reader.read(CID, max_bytes=len(CONTENT))
        assert f"{empty.url} does not have it" in str(failure.value)


def test_read__peers_down_and_without_it__is_missing_and_all_down__is_unreachable(tmp_path):
    with Gateway(BlockStore(tmp_path / "empty")) as empty:
        down = "http://127.0.0.1:1"
        with pytest.raises(ContentMissing, match="unreachable"):
            BlockStore(tmp_path / "reader", [down, empty.url]).read(CID, max_bytes=10)
        with pytest.raises(StoreUnreachable, match="check the network"):
            BlockStore(tmp_path / "reader", [down]).read(CID, max_bytes=10)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_read__peer_that_damages_one_block__is_found_out(tmp_path_factory, data):
    """Whatever the change to whichever block, the reader gets the true content or an error."""
    true = BlockStore(tmp_path_factory.mktemp("true"))
    true.add(CONTENT)
    blocks = {path.name: path.read_bytes() for path in (true.root / "blocks").rglob("baf*")}
    victim = data.draw(st.sampled_from(sorted(blocks)))
    at = data.draw(st.integers(0, len(blocks[victim])))
    junk = data.draw(st.binary(max_size=8))
    blocks[victim] = blocks[victim][:at] + junk + blocks[victim][at + len(junk) :] + data.draw(st.binary(max_size=3))
    changed = cid_of(CONTENT) != CID or blocks[victim] != (next((true.root / "blocks").rglob(victim))).read_bytes()

    def answer(connection: socket.socket, request: bytes) -> None:
        block = blocks[request.split(b"/ipfs/")[1].split(b"?")[0].decode()]
        connection.sendall(OK % len(block) + block)

    with hostile(answer) as peer:
        reader = BlockStore(tmp_path_factory.mktemp("reader"), [peer.url])
        if changed:
            with pytest.raises((ContentTampered, StoreUnreachable)):
                reader.read(CID, max_bytes=len(CONTENT), timeout_s=5)
        else:
            assert reader.read(CID, max_bytes=len(CONTENT), timeout_s=5) == CONTENT


def test_read__hostile_dag_under_its_true_hash__is_refused_and_other_peers_are_not_blamed(tmp_path):
    from zoo_compute.store import unixfs
    from zoo_compute.store.multiformats import DAG_PB, Cid

    leaf = unixfs.Link(Cid.parse(cid_of(b"x")), 2**18, 2**18)
    block = unixfs.encode_node([leaf] * 500)
    with hostile(say(block)) as peer:
        reader = BlockStore(tmp_path / "reader", [peer.url])
        with pytest.raises(ContentRefused, match="more than 174"):
            reader.read(Cid.of_block(DAG_PB, block).text, max_bytes=2**40)
        assert peer.asked == 1


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "file:///etc", "http://", "http://a:99999", "http://u:p@h", None])
def test_peers__what_is_no_url__is_refused(tmp_path, url):
    with pytest.raises(ValueError, match=r"gateway URL|Port|port"):
        BlockStore(tmp_path, [url])


def test_peers__after_a_fork__connections_are_not_shared(honest, tmp_path):
    reader = BlockStore(tmp_path / "reader", [honest.url])
    assert reader.read(CID, max_bytes=len(CONTENT)) == CONTENT
    client = reader._peers._clients[0]
    assert client._idle
    child = os.fork()
    if child == 0:
        os._exit(0 if client._take_idle() is None else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_peers__gateway_restarted_on_its_port__a_stale_connection_is_replaced(tmp_path):
    store = BlockStore(tmp_path / "store")
    cids = [store.add(b"one"), store.add(b"two")]
    reader = BlockStore(tmp_path / "reader")
    with Gateway(store) as gateway:
        port = int(gateway.url.rsplit(":", 1)[1])
        reader.set_peers([gateway.url])
        assert reader.read(cids[0], max_bytes=3) == b"one"
    with Gateway(store, port=port):
        assert reader.read(cids[1], max_bytes=3) == b"two"


# Who confirms a pin


def test_confirmations__those_who_pin__in_the_order_given(tmp_path, monkeypatch):
    monkeypatch.setattr(
        pin_verdicts, "COMPLETE_S", 0.0
    )  # of a hole that appears later, a gateway learns within an hour
    stores = [BlockStore(tmp_path / name) for name in ("pins", "has", "lacks", "pins too")]
    for index, store in enumerate(stores):
        if index != 2:
            store.add(CONTENT, pin=index != 1)
    gateways = [Gateway(store).start() for store in stores]
    try:
        urls = [gateway.url for gateway in gateways]
        assert confirmations(CID, urls) == [urls[0], urls[3]]
        assert confirmations(CID, urls[::-1]) == [urls[3], urls[0]]
        stores[0].unpin(CID)
        assert confirmations(CID, urls) == [urls[3]]
        next((stores[3].root / "blocks").rglob("bafkrei*")).unlink()  # pinned, with a hole
        assert confirmations(CID, urls) == []
    finally:
        for gateway in gateways:
            gateway.stop()


def test_confirmations__one_store_under_several_urls__counts_once(honest, tmp_path):
    store = BlockStore(tmp_path / "honest")
    with Gateway(store) as second:
        urls = [honest.url, honest.url + "/", honest.url.upper().replace("HTTP", "http"), second.url]
        assert confirmations(CID, urls) == [honest.url]


def test_confirmations__who_is_down_slow_or_lies__does_not_confirm_and_is_not_waited_for(honest):
    yes = b'{"cid": "%s", "pinned": true}' % CID.encode()
    answers = [*LIES.values(), say(yes), say(yes.replace(b"true", b"1")), say(b"[" * 4000), say(b'{"pinned": true}')]
    peers = [HostilePeer(answer) for answer in answers]
    try:
        urls = [*(peer.url for peer in peers), "http://127.0.0.1:1", honest.url]
        assert ended(lambda: confirmations(CID, urls, timeout_s=1)) == [honest.url]
        assert all(peer.asked for peer in peers)
    finally:
        for peer in peers:
            peer.close()


def test_confirmations__of_no_cid_or_no_url__is_the_callers_mistake():
    with pytest.raises(BadCid):
        confirmations("x", [])
    with pytest.raises(ValueError, match="gateway URL"):
        confirmations(CID, ["x"])
    assert confirmations(CID, []) == []
