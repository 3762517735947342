"""The interface of all stores: `BlockStore`, embedded, and `KuboStore`, over an IPFS daemon."""

from pathlib import Path
from typing import BinaryIO, Protocol

from zoo_compute.store.unixfs import MAX_CONTENT

Source = Path | bytes | BinaryIO


class Store(Protocol):
    """CIDs are text. Methods that wait take `timeout_s`, for the whole call. Errors: see `errors.py`.

    tag: whose pin it is, of those that go together; content stays while any pin of it does. An IPFS daemon knows no tags.
    """

    def add(self, source: Source, *, pin: bool = True, tag: str = "") -> str:
        """Store a file of any size in bounded memory; return its CID (version 1, base32)."""

    def open(self, cid: str, *, timeout_s: float = 30, max_bytes: int = MAX_CONTENT) -> BinaryIO:
        """A stream of the content, verified while reading; fetched from peers if missing."""

    def get(self, cid: str, destination: Path, *, timeout_s: float = 30, max_bytes: int = MAX_CONTENT) -> Path:
        """Write the content to `destination` atomically; return the path."""

    def read(self, cid: str, *, max_bytes: int, timeout_s: float = 30) -> bytes:
        """The content as bytes. Raises ContentRefused if it has more than `max_bytes`."""

    def read_part(self, cid: str, start: int, end: int, *, timeout_s: float = 30) -> bytes:
        """The content's bytes from `start` to `end`, fewer where it ends. Fetches the blocks that have them, and no others."""

    def has(self, cid: str) -> bool:
        """Whether the whole content is stored here. Never asks the network."""

    def pin(self, cid: str, *, timeout_s: float = 30, tag: str = "") -> None:
        """Fetch what is missing, and protect the content from garbage collection."""

    def unpin(self, cid: str) -> None:
        """Remove all pins of the content, with any tag, so that garbage collection can remove it. No error if it is not pinned."""

    def pins(self) -> set[str]: ...

    def is_pinned(self, cid: str, *, tag: str | None = None) -> bool:
        """Whether the content is pinned and complete; with a tag, by a pin of that tag ("": one without a tag). Never asks the network."""

    def tags(self) -> set[str]: ...

    def release_tags(self, *tags: str) -> int:
        """Remove the pins of these tags, and the content that only they protected; return the bytes freed."""

    def collect_garbage(self, *, older_s: float = 0) -> int:
        """Remove all blocks that no pin protects and that were written so long ago; return how many. A daemon minds no age."""
