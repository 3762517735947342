"""The store over two real IPFS daemons that exchange blocks on loopback. `make test-ipfs`."""

import hashlib
import http.server
import threading
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.integration import ipfs_daemon
from tests.store.test_behaviour import StoreBehaviour
from tests.store.test_cid import FROM_THE_DAEMON, content_of
from tests.support.waiting import ended
from zoo_compute.store import (
    BlockStore,
    ContentMissing,
    ContentTampered,
    KuboStore,
    StoreError,
    StoreUnreachable,
    cid_of,
    open_store,
    raw_cid,
)
from zoo_compute.store.cid import normalise

pytestmark = pytest.mark.ipfs


@pytest.fixture(scope="module")
def daemons(tmp_path_factory):
    """Two daemons, connected. A failure to install or start them fails the tests; it does not skip them."""
    folder = tmp_path_factory.mktemp("ipfs")
    first = ipfs_daemon.start(folder / "first")
    try:
        second = ipfs_daemon.start(folder / "second")
        try:
            second.connect(first)
            yield first, second
        finally:
            second.stop()
    finally:
        first.stop()


@pytest.fixture(scope="module")
def first(daemons):
    return open_store(f"kubo:{daemons[0].api}")


@pytest.fixture(scope="module")
def second(daemons):
    return open_store(f"kubo:{daemons[1].api}")


class TestDaemon(StoreBehaviour):
    @pytest.fixture
    def writer(self, first):
        return first

    @pytest.fixture
    def reader(self, first):
        return first

    def test_add__stream_that_breaks__tells_the_cause_and_pins_nothing(self, tmp_path):
        """On a daemon of its own: after an upload that broke off, ipfs-daemon 0.16.1 never collects garbage again."""
        daemon = ipfs_daemon.start(tmp_path)
        try:
            super().test_add__stream_that_breaks__tells_the_cause_and_pins_nothing(KuboStore(daemon.api))
        finally:
            daemon.stop()


class TestTwoDaemons(StoreBehaviour):
    same_store = False
    test_add__stream_that_breaks__tells_the_cause_and_pins_nothing = None  # see above

    @pytest.fixture
    def writer(self, first):
        return first

    @pytest.fixture
    def reader(self, second):
        return second


@pytest.mark.parametrize("size", FROM_THE_DAEMON)
def test_daemon__asked_without_our_code__makes_the_constants_of_the_unit_tests(daemons, size, tmp_path):
    (tmp_path / "file").write_bytes(content_of(size))
    answer = daemons[0].client(60).add(tmp_path / "file", cid_version=1, raw_leaves=True, only_hash=True)
    assert normalise(answer["Hash"]) == FROM_THE_DAEMON[size]


def test_daemon__that_is_asked_for_every_block__gives_those_of_the_embedded_store(first, tmp_path):
    content = content_of(2**18 * 200)
    embedded = BlockStore(tmp_path)
    cid = embedded.add(content)
    assert first.add(content) == cid
    for path in (tmp_path / "blocks").rglob("baf*"):
        assert first._client.block.get(path.name, timeout=10) == path.read_bytes()


def test_unreachable_daemon__says_what_to_do(tmp_path):
    for store in (KuboStore("http://127.0.0.1:1"), KuboStore("/ip4/127.0.0.1/tcp/1/http")):
        for attempt in (
            lambda: store.add(b"x"),  # noqa: B023
            lambda: store.read(cid_of(b"x"), max_bytes=1),  # noqa: B023
            lambda: store.has(cid_of(b"x")),  # noqa: B023
            lambda: store.pins(),  # noqa: B023
            lambda: store.collect_garbage(),  # noqa: B023
        ):
            with pytest.raises(StoreUnreachable, match="ipfs daemon"):
                attempt()


def test_daemon__killed__is_unreachable_and_does_not_hang(tmp_path):
    daemon = ipfs_daemon.start(tmp_path)
    store = KuboStore(daemon.api)
    cid = store.add(content_of(1_000_000))
    stream = store.open(cid)
    stream.read(1)
    daemon.process.kill()
    daemon.stop()
    with pytest.raises(StoreUnreachable):
        store.read(cid, max_bytes=1_000_000, timeout_s=5)


@pytest.mark.parametrize("api", ["", "127.0.0.1:5001", "ftp://127.0.0.1", "http://127.0.0.1:5001/api/v0", "http://:1"])
def test_store__of_a_text_that_is_no_rpc__is_refused(api):
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:5001"):
        KuboStore(api)


class LyingDaemon(http.server.BaseHTTPRequestHandler):
    """Speaks enough of the RPC to lie in it. server.lie: what it answers for a block; server.asked: how often it did."""

    def do_POST(self):
        size = self.headers.get("Content-Length")
        if size is None:  # a chunked upload
            while (length := int(self.rfile.readline(), 16)) or self.rfile.readline().strip():
                self.rfile.read(length + 2)
        url = urlsplit(self.path)
        if url.path.endswith("/block/get"):
            self.server.asked += 1
            self.answer(self.server.lie(parse_qs(url.query)["arg"][0]))
        elif url.path.endswith("/add"):
            self.answer([b'{"Name": "x", "Hash": "%s"}' % FROM_THE_DAEMON[1].encode()])
        elif url.path.endswith("/pin/ls"):
            self.answer([b'{"Keys": {}}'])
        else:
            self.answer([b'{"Version": "0"}'])

    def answer(self, pieces):
        self.send_response(200)
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def liar():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), LyingDaemon)
    server.asked = 0
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    server.store = KuboStore(f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_lying_daemon__other_bytes__are_tampered(liar):
    liar.lie = lambda cid: [b"other"]
    with pytest.raises(ContentTampered, match="do not hash"):
        liar.store.read(cid_of(b"true"), max_bytes=100)
    assert liar.asked == 1


def test_lying_daemon__in_the_last_block_only__is_tampered_before_that_block_is_handed_out(liar, tmp_path):
    content = content_of(2**18 * 4 + 5)
    honest = BlockStore(tmp_path / "honest")
    cid = honest.add(content)
    last = raw_cid(hashlib.sha256(content[-5:]).digest())
    blocks = {path.name: path.read_bytes() for path in (tmp_path / "honest/blocks").rglob("baf*")}
    liar.lie = lambda cid: [b"other" if cid == last else blocks[cid]]
    with liar.store.open(cid) as stream:
        assert stream.read(2**18 * 4) == content[: 2**18 * 4]
        with pytest.raises(ContentTampered):
            stream.read()
    with pytest.raises(ContentTampered):
        liar.store.get(cid, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_lying_daemon__endless_block__is_cut_off(liar):
    def endless(cid):
        while True:
            yield bytes(65536)

    liar.lie = endless
    with pytest.raises(ContentTampered, match="more than"):
        liar.store.read(cid_of(b"true"), max_bytes=100)


def test_lying_daemon__that_drips__ends_in_time(liar):
    def drip(cid):
        while True:  # until it is hung up on
            time.sleep(0.05)
            yield b"x"

    liar.lie = drip
    with pytest.raises((ContentMissing, StoreUnreachable)):
        ended(lambda: liar.store.read(cid_of(b"true"), max_bytes=100, timeout_s=1))


def test_lying_daemon__that_stored_another_file__is_told_apart(liar):
    with pytest.raises(StoreError, match="Import options"):
        liar.store.add(b"true")
