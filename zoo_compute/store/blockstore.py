"""The embedded store: a folder of blocks, pins, and other stores to ask for what is missing.

ROOT/blocks/XY/CID   the blocks
ROOT/pins/CID        one empty file a pin, so that several processes can pin
ROOT/tags/TAG/CID    likewise, of a pin that belongs to TAG and goes with it
ROOT/temp/           files being written; abandoned ones are removed when a store opens
ROOT/lock            shared by processes that add or pin, exclusive for garbage collection
ROOT/id              a random name: two URLs with the same name are one store
"""

import fcntl
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from zoo_compute.store import dag, unixfs
from zoo_compute.store.addresses import Scope
from zoo_compute.store.blocks import Blocks
from zoo_compute.store.durable_files import locked, remove_abandoned, replacing, sync_folder
from zoo_compute.store.errors import (
    BadCid,
    ContentMissing,
    ContentRefused,
    ContentTampered,
    StoreError,
    full_disk_becomes_store_full,
)
from zoo_compute.store.interface import Source
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.peers import Peers, Received
from zoo_compute.store.unixfs import MAX_CONTENT, Link

_PARALLEL = 4  # blocks fetched at a time
_GARBAGE_WAIT_S = 60.0  # for others to finish adding


class BlockStore:
    """Threads and processes can share `root`. Any process may crash at any time.

    received: counts what peers send; set it before the peers.
    """

    def __init__(self, root: Path, peers: Sequence[str] = (), scope: Scope = Scope.ANY) -> None:
        self.root = Path(root)
        self._blocks = Blocks(self.root)
        self._pins = self.root / "pins"
        self._tags = self.root / "tags"
        self._lock = self.root / "lock"
        with full_disk_becomes_store_full(self.root):
            self._pins.mkdir(exist_ok=True)
            self._tags.mkdir(exist_ok=True)
        self._name_once()
        self.received: Received | None = None
        self.set_peers(peers, scope)

    @property
    def id(self) -> str:
        return (self.root / "id").read_text()

    def set_peers(self, urls: Sequence[str], scope: Scope = Scope.ANY) -> None:
        """scope: where these may be."""
        self._peers = Peers(urls, self.received, scope)

    def add(self, source: Source, *, pin: bool = True, tag: str = "") -> str:
        with dag.open_source(source) as stream, locked(self._lock, fcntl.LOCK_SH):
            with self._blocks.writing() as put:
                root = unixfs.build(unixfs.chunks_of(stream), put)
            if pin:
                self._write_pin(root.cid, tag)
        return root.cid.text

    def open(self, cid: str, *, timeout_s: float = 30, max_bytes: int = MAX_CONTENT) -> BinaryIO:
        root = self._bring(Cid.parse(cid), timeout_s, max_bytes)
        return dag.stream_of(self._chunks(root, timeout_s))

    def get(self, cid: str, destination: Path, *, timeout_s: float = 30, max_bytes: int = MAX_CONTENT) -> Path:
        root = self._bring(Cid.parse(cid), timeout_s, max_bytes)
        remove_abandoned(destination.parent, destination.name)
        with replacing(destination) as stream:
            for chunk in self._chunks(root, timeout_s):
                stream.write(chunk)
        sync_folder(destination.parent)
        return destination

    def read(self, cid: str, *, max_bytes: int, timeout_s: float = 30) -> bytes:
        return b"".join(self._chunks(self._bring(Cid.parse(cid), timeout_s, max_bytes), timeout_s))

    def read_part(self, cid: str, start: int, end: int, *, timeout_s: float = 30) -> bytes:
        deadline = time.monotonic() + timeout_s

        def fetch(cid: Cid) -> bytes:
            return self._block(cid, deadline)

        return dag.read_part(dag.root_of(Cid.parse(cid), fetch), fetch, start, end, _PARALLEL)

    def has(self, cid: str) -> bool:
        try:
            root = dag.root_of(Cid.parse(cid), self._own_block)
            return all(self._holds(leaf) for leaf in dag.leaves(root, self._own_block))
        except (ContentMissing, ContentTampered, ContentRefused):
            return False

    def first_missing_byte(self, cid: str) -> tuple[int, int] | None:
        """The position of the first missing byte, and the content's size. None if the root is missing, or nothing is."""
        offset = 0
        try:
            root = dag.root_of(Cid.parse(cid), self._own_block)
        except (ContentMissing, ContentTampered, ContentRefused):
            return None
        try:
            for leaf in dag.leaves(root, self._own_block):
                if not self._holds(leaf):
                    return offset, root.size
                offset += leaf.size
        except (ContentMissing, ContentTampered, ContentRefused):
            return offset, root.size
        return None

    def pin(self, cid: str, *, timeout_s: float = 30, tag: str = "") -> None:
        with locked(self._lock, fcntl.LOCK_SH):
            root = self._bring(Cid.parse(cid), timeout_s, MAX_CONTENT)
            self._blocks.sync(link.cid for link in dag.walk(root, self._own_block))
            self._write_pin(root.cid, tag)

    def unpin(self, cid: str) -> None:
        name = Cid.parse(cid).text
        for folder in self._pin_folders():
            with suppress(FileNotFoundError):
                (folder / name).unlink()
                sync_folder(folder)

    def pins(self) -> set[str]:
        return {name for folder in self._pin_folders() for name in _cids_in(folder)}

    def is_pinned(self, cid: str, *, tag: str | None = None) -> bool:
        """Whether the content is pinned and complete. Walks it."""
        return self.has_pin(cid, tag=tag) and self.has(cid)

    def has_pin(self, cid: str, *, tag: str | None = None) -> bool:
        """Whether the content is pinned; it may be incomplete."""
        folders = self._pin_folders() if tag is None else [self._pin_folder(tag)]
        name = Cid.parse(cid).text
        return any((folder / name).exists() for folder in folders)

    def tags(self) -> set[str]:
        return {folder.name for folder in self._tags.iterdir()}

    def release_tags(self, *tags: str) -> int:
        """Waits like `collect_garbage`. Removes children before parents, and pins last, so that a retry after a crash finishes the work."""
        if not all(tags):
            raise ValueError("use `unpin` for content that is pinned without a tag")
        every = [self._pin_folder(tag) for tag in tags]
        with self._alone():
            gone = [folder for folder in every if folder.exists()]
            released = {name for folder in gone for name in _cids_in(folder)}
            freed_cids = {cid: None for name in released for cid in self._local_blocks_of(name)}
            others = (_cids_in(folder) for folder in self._pin_folders() if folder not in gone) if freed_cids else ()
            for name in {name for names in others for name in names}:
                for link in self._pinned_links(name):
                    freed_cids.pop(link.cid, None)
            freed = sum(self._blocks.size(cid) or 0 for cid in freed_cids)
            for cid in reversed(freed_cids):
                self._blocks.remove(cid)
            for folder in gone:
                for name in _cids_in(folder):
                    (folder / name).unlink(missing_ok=True)
                folder.rmdir()
        return freed

    def local_block(self, cid: Cid) -> bytes | None:
        """One stored block, verified; never asks peers. Gateways serve these. Raises ContentTampered."""
        return self._blocks.get(cid)

    def stored_bytes(self) -> int:
        """Of all blocks. Walks them."""
        return sum(self._blocks.size(cid) or 0 for cid in self._blocks)

    def collect_garbage(self, *, older_s: float = 0) -> int:
        """Waits up to a minute for processes that add or pin. If a pinned file is incomplete, raises and removes nothing.

        older_s: what was written since may still be being fetched, and is left.
        """
        with self._alone():
            kept = {link.cid for pin in self.pins() for link in self._pinned_links(pin)}
            garbage = [cid for cid in self._blocks if cid not in kept and self._blocks.age_s(cid) >= older_s]
            for cid in garbage:
                self._blocks.remove(cid)
        return len(garbage)

    # Reading content

    def _bring(self, cid: Cid, timeout_s: float, max_bytes: int) -> Link:
        """Fetch every missing block of the content; return its root."""
        deadline = time.monotonic() + timeout_s

        def fetch(cid: Cid) -> bytes:
            return self._block(cid, deadline)

        root = dag.root_of(cid, fetch, max_bytes)
        absent = (leaf for leaf in dag.leaves(root, fetch) if not self._holds(leaf))
        for _ in dag.prefetch(lambda leaf: dag.fetch_chunk(leaf, fetch), absent, _PARALLEL):
            pass
        return root

    def _chunks(self, root: Link, timeout_s: float) -> Iterator[bytes]:
        """The content in order. Blocks damaged or removed since `_bring` are fetched again, each within `timeout_s`."""

        def fetch(cid: Cid) -> bytes:
            return self._block(cid, time.monotonic() + timeout_s)

        return (dag.fetch_chunk(leaf, fetch) for leaf in dag.leaves(root, fetch))

    def _block(self, cid: Cid, deadline: float) -> bytes:
        """One block, verified, from this store or a peer. Raises ContentTampered if ours is damaged and no peer has it."""
        damage: ContentTampered | None = None
        try:
            block = self._blocks.get(cid)
        except ContentTampered as error:
            block, damage = None, error
        if block is not None:
            return block
        if damage and not len(self._peers):
            raise damage
        try:
            block = self._peers.fetch(cid, deadline)
        except StoreError as error:
            raise (ContentTampered(f"{damage}; {error}") if damage else error) from None
        self._blocks.put(cid, block)
        return block

    def _own_block(self, cid: Cid) -> bytes:
        block = self._blocks.get(cid)
        if block is None:
            raise ContentMissing(f"{cid} is not here")
        return block

    def _holds(self, leaf: Link) -> bool:
        return self._blocks.size(leaf.cid) == leaf.size

    # Pins, locks, names

    def _pin_folder(self, tag: str) -> Path:
        if not re.fullmatch(r"[a-z0-9-]*", tag):
            raise ValueError(f"a tag may have lower-case letters, digits and hyphens, got {tag!r}")
        return self._tags / tag if tag else self._pins

    def _pin_folders(self) -> list[Path]:
        return [self._pins, *self._tags.iterdir()]

    def _write_pin(self, cid: Cid, tag: str) -> None:
        folder = self._pin_folder(tag)
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            sync_folder(folder.parent)
        with replacing(folder / cid.text, via=self.root / "temp"):
            pass
        sync_folder(folder)

    def _local_blocks_of(self, pin: str) -> Iterator[Cid]:
        """The stored blocks of a pinned file, parents first."""
        with suppress(ContentMissing, ContentTampered, ContentRefused):
            for link in dag.walk(dag.root_of(Cid.parse(pin), self._own_block), self._own_block):
                yield link.cid

    def _pinned_links(self, pin: str) -> Iterator[Link]:
        try:
            yield from dag.walk(dag.root_of(Cid.parse(pin), self._own_block), self._own_block)
        except (ContentMissing, ContentTampered) as error:
            raise type(error)(
                f"nothing was collected, because the pinned {pin} is incomplete ({error}); pin it again, or unpin it"
            ) from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        end = time.monotonic() + _GARBAGE_WAIT_S
        with ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(locked(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB))
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise StoreError(
                            f"others kept adding to {self.root} for {_GARBAGE_WAIT_S} s; collect later"
                        ) from None
                    time.sleep(0.05)
            yield

    def _name_once(self) -> None:
        if not (self.root / "id").exists():
            with replacing(self.root / "id", via=self.root / "temp") as stream:
                stream.write(secrets.token_hex(16).encode())


def _cids_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir() if _is_cid(path.name)]
    except FileNotFoundError:  # a tag that another process released
        return []


def _is_cid(name: str) -> bool:
    try:
        return Cid.parse(name).text == name
    except BadCid:
        return False
