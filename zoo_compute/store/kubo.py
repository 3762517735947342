"""A store over the RPC of an IPFS daemon (Kubo or compatible). The daemon is not trusted: every block is hashed.

Content is read block by block: `open` returns only verified bytes, and the same rules for layout and size apply as in the
embedded store.
"""

import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

import ipfshttpclient
import requests
from ipfshttpclient import exceptions as ipfs

from zoo_compute.store import dag
from zoo_compute.store.durable_files import remove_abandoned, replacing, sync_folder
from zoo_compute.store.errors import (
    BadCid,
    ContentMissing,
    ContentRefused,
    ContentTampered,
    StoreError,
    StoreUnreachable,
)
from zoo_compute.store.interface import Source
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.peers import GatewayClient, HttpRequest, PeerFailed, PeerSentWrongBytes
from zoo_compute.store.unixfs import CHUNK, MAX_BLOCK, MAX_CONTENT, DagBuilder

warnings.filterwarnings(
    "ignore", message="The 'strict' parameter", category=FutureWarning
)  # ipfshttpclient and urllib3

CALL_S = 120.0  # for calls without a time limit in the interface; while adding a file, for silence
_PARALLEL = 8
_OK, _REFUSED = 200, 500  # the RPC reports every failure as 500 with a message
_MULTIADDR = re.compile(r"/(ip4|ip6|dns|dns4|dns6)/([^/]+)/tcp/(\d{1,5})(?:/(http|https))?")
T = TypeVar("T")


class KuboStore:
    """api: the daemon's RPC, such as "http://127.0.0.1:5001" or "/ip4/127.0.0.1/tcp/5001/http"."""

    def __init__(self, api: str) -> None:
        self.api = api
        scheme, kind, host, port = _parts(api)
        # Not `connect()`, which refuses daemons newer than the client.
        self._client = ipfshttpclient.Client(f"/{kind}/{host}/tcp/{port}/{scheme}", chunk_size=CHUNK, timeout=CALL_S)
        self._blocks = GatewayClient(f"{scheme}://{f'[{host}]' if kind == 'ip6' else host}:{port}")

    def add(self, source: Source, *, pin: bool = True, tag: str = "") -> str:
        with dag.open_source(source) as stream:
            watched = _Watched(stream)
            try:
                answer = self._ask(
                    lambda: self._client.add(
                        watched, pin=pin, cid_version=1, raw_leaves=True, chunker=f"size-{CHUNK}", timeout=CALL_S
                    )
                )
            except StoreError:
                if watched.error is not None:
                    raise watched.error from None
                raise
        ours, theirs = watched.cid(), _parsed(answer.get("Hash"))
        if theirs != ours:
            if theirs is not None:
                self.unpin(theirs.text)
            raise StoreError(
                f"the daemon at {self.api} stored the file as {theirs} where `ipfs add --cid-version=1 --raw-leaves` makes "
                f"{ours}; set its Import options back to 256 KiB chunks and 174 links"
            )
        return ours.text

    def open(self, cid: str, *, timeout_s: float = 30, max_bytes: int = MAX_CONTENT) -> BinaryIO:
        """The daemon fetches while you read the stream: each block has `timeout_s`, and `read` raises the errors."""
        return dag.stream_of(self._chunks(cid, max_bytes, lambda: time.monotonic() + timeout_s))

    def get(self, cid: str, destination: Path, *, timeout_s: float = 30, max_bytes: int = MAX_CONTENT) -> Path:
        deadline = time.monotonic() + timeout_s
        chunks = self._chunks(cid, max_bytes, lambda: deadline)
        remove_abandoned(destination.parent, destination.name)
        with replacing(destination) as stream:
            for chunk in chunks:
                stream.write(chunk)
        sync_folder(destination.parent)
        return destination

    def read(self, cid: str, *, max_bytes: int, timeout_s: float = 30) -> bytes:
        deadline = time.monotonic() + timeout_s
        return b"".join(self._chunks(cid, max_bytes, lambda: deadline))

    def read_part(self, cid: str, start: int, end: int, *, timeout_s: float = 30) -> bytes:
        deadline = time.monotonic() + timeout_s

        def fetch(cid: Cid) -> bytes:
            return self._block(cid, deadline)

        return dag.read_part(dag.root_of(Cid.parse(cid), fetch), fetch, start, end, _PARALLEL)

    def has(self, cid: str) -> bool:
        """Lists all of the daemon's blocks, because some daemons cannot be asked for one without searching the network."""
        listing = self._ask(lambda: self._client.unstable.refs.local(timeout=CALL_S))
        here = {known.digest for entry in listing if (known := _parsed(entry.get("Ref", ""))) is not None}

        def fetch(wanted: Cid) -> bytes:
            if wanted.digest not in here:
                raise ContentMissing(f"{wanted} is not here")
            return self._block(wanted, time.monotonic() + CALL_S)

        try:
            return all(leaf.cid.digest in here for leaf in dag.leaves(dag.root_of(Cid.parse(cid), fetch), fetch))
        except (ContentMissing, ContentTampered, ContentRefused):
            return False

    def pin(self, cid: str, *, timeout_s: float = 30, tag: str = "") -> None:
        deadline = time.monotonic() + timeout_s
        wanted = Cid.parse(cid)

        def fetch(cid: Cid) -> bytes:
            return self._block(cid, deadline)

        for _ in dag.walk(dag.root_of(wanted, fetch), fetch):
            pass  # the layout is ours; the daemon fetches the leaves
        self._ask(lambda: self._client.pin.add(wanted.text, timeout=_left(deadline)), waits_for=wanted)

    def unpin(self, cid: str) -> None:
        wanted = Cid.parse(cid).text
        if wanted in self.pins():
            self._ask(lambda: self._client.pin.rm(wanted, timeout=CALL_S))

    def pins(self) -> set[str]:
        """The pins with a supported CID; a daemon may have others."""
        answer = self._ask(lambda: self._client.pin.ls(type="recursive", timeout=CALL_S))
        return {cid.text for key in answer.get("Keys") or {} if (cid := _parsed(key)) is not None}

    def is_pinned(self, cid: str, *, tag: str | None = None) -> bool:
        return cid in self.pins()

    def tags(self) -> set[str]:
        return set()

    def release_tags(self, *tags: str) -> int:
        """Does nothing: a daemon does not record who pinned a file, and other programs' pins must stay."""
        return 0

    def collect_garbage(self, *, older_s: float = 0) -> int:
        return len(self._ask(lambda: self._client.repo.gc(timeout=CALL_S)))

    def _chunks(self, cid: str, max_bytes: int, deadline: Callable[[], float]) -> Iterator[bytes]:
        """Fetches and checks the root at once, the rest while reading, some blocks ahead."""

        def fetch(cid: Cid) -> bytes:
            return self._block(cid, deadline())

        root = dag.root_of(Cid.parse(cid), fetch, max_bytes)
        return dag.prefetch(lambda leaf: dag.fetch_chunk(leaf, fetch), dag.leaves(root, fetch), _PARALLEL)

    def _block(self, cid: Cid, deadline: float) -> bytes:
        """One block, verified. Does not use ipfshttpclient, which has no limit on an answer's size or time."""
        request = HttpRequest("POST", f"/api/v0/block/get?arg={cid}", {})
        try:
            status, body, _ = self._blocks.ask(request, deadline=deadline, max_bytes=MAX_BLOCK)
        except PeerSentWrongBytes as lie:
            raise ContentTampered(f"the daemon at {self.api}, asked for {cid}, {lie}; repair it") from None
        except PeerFailed as failure:
            if not self._answers():
                raise self._unreachable(str(failure)) from None
            raise self._nobody_has(cid, str(failure)) from None
        if status == _REFUSED:
            raise self._nobody_has(cid, body[:200].decode(errors="replace"))
        if status != _OK:
            raise self._unreachable(f"answered HTTP {status}")
        if not cid.matches(body):
            raise ContentTampered(
                f"the daemon at {self.api} answered {cid} with bytes that do not hash to it; repair it"
            )
        return body

    def _ask(self, call: Callable[[], T], *, waits_for: Cid | None = None) -> T:
        """Make one call, and turn its errors into ours. waits_for: content that the daemon may search for without success."""
        try:
            return call()
        except ipfs.TimeoutError:
            if waits_for is None or not self._answers():
                raise self._unreachable("did not answer in time") from None
            raise self._nobody_has(waits_for, "it did not answer in time") from None
        except ipfs.ErrorResponse as error:
            if waits_for is not None:
                raise self._nobody_has(waits_for, str(error)) from None
            raise StoreError(f"the daemon at {self.api} refused: {error}") from None
        except (ipfs.Error, requests.RequestException) as error:
            raise self._unreachable(f"cannot be used ({type(error).__name__})") from None

    def _answers(self) -> bool:
        try:
            self._client.version(timeout=5)
        except (ipfs.Error, requests.RequestException):
            return False
        return True

    def _nobody_has(self, cid: Cid, why: str) -> ContentMissing:
        return ContentMissing(
            f"the daemon at {self.api} cannot give {cid} ({why}); try later, or connect it to a peer that has it"
        )

    def _unreachable(self, why: str) -> StoreUnreachable:
        return StoreUnreachable(
            f"the IPFS daemon at {self.api} {why}; expected the Kubo RPC there: start it with `ipfs daemon`, "
            "or use a folder as the store instead"
        )


class _Watched:
    """A stream that computes the CID of the bytes sent to the daemon, and remembers read errors."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._builder = DagBuilder()
        self._rest = bytearray()
        self._pushed = False
        self.error: Exception | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._stream.read(size)
        except Exception as error:
            self.error = error
            raise
        self._rest += data
        while len(self._rest) >= CHUNK:
            self._push(bytes(self._rest[:CHUNK]))
        return data

    def cid(self) -> Cid:
        if self._rest or not self._pushed:
            self._push(bytes(self._rest))
        return self._builder.finish().cid

    def _push(self, chunk: bytes) -> None:
        self._builder.push(chunk)
        self._pushed = True
        del self._rest[:CHUNK]


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise ipfs.TimeoutError(TimeoutError("time is up"))
    return left


def _parsed(text: Any) -> Cid | None:
    try:
        return Cid.parse(str(text))
    except BadCid:
        return None


def _parts(api: str) -> tuple[str, str, str, int]:
    """Scheme, address type (as in a multiaddr), host and port of the RPC."""
    if multiaddr := _MULTIADDR.fullmatch(api):
        kind, host, port, scheme = multiaddr.groups()
        return scheme or "http", kind, host, int(port)
    parts = urlsplit(api)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or "@" in parts.netloc
        or parts.path not in ("", "/")
    ):
        raise ValueError(f"not the RPC of a daemon: {api!r}; expected something like 'http://127.0.0.1:5001'")
    host = parts.hostname
    kind = "ip6" if ":" in host else "ip4" if host.replace(".", "").isdigit() else "dns"
    return parts.scheme, kind, host, parts.port or 5001
