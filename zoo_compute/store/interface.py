"""What every store offers. Two exist: `BlockStore`, embedded, and `KuboStore`, over an IPFS daemon."""

from pathlib import Path
from typing import BinaryIO, Protocol

from zoo_compute.store.unixfs import MAX_CONTENT

Source = Path | bytes | BinaryIO


class Store(Protocol):
    """CIDs are text. A method that may wait takes `timeout_s`, for the whole call. Errors: `errors.py`.

    tag: whose pin it is, of those that go together; content stays while any pin of it does. An IPFS daemon knows no tags.
    """

    def add(self, source: Source, *, pin: bool = True, tag: str = "") -> str:
        """Store a file of any size in bounded memory; return its CID (version 1, base32)."""

    def open(self, cid: str, *, timeout_s: float = 30, max_bytes: int = MAX_CONTENT) -> BinaryIO:
        """A stream of the content, verified while it is read; fetched if absent."""

    def get(self, cid: str, destination: Path, *, timeout_s: float = 30, max_bytes: int = MAX_CONTENT) -> Path:
        """Write the content to `destination`, whole or not at all; return it."""

    def read(self, cid: str, *, max_bytes: int, timeout_s: float = 30) -> bytes:
        """The content as bytes. Raises ContentRefused if it has more than `max_bytes`."""

    def has(self, cid: str) -> bool:
        """The whole content is here. Asks no network."""

    def pin(self, cid: str, *, timeout_s: float = 30, tag: str = "") -> None:
        """Keep the content, after fetching what is absent."""

    def unpin(self, cid: str) -> None:
        """Let garbage collection take the content, whatever the tags of its pins. No error if it was not pinned."""

    def pins(self) -> set[str]: ...

    def is_pinned(self, cid: str, *, tag: str | None = None) -> bool:
        """Pinned, and here; with a tag: by a pin of that tag ("": by one that has none). Asks no network."""

    def tags(self) -> set[str]: ...

    def release_tag(self, tag: str) -> int:
        """Remove the pins of this tag, and what only they kept; the bytes that were freed."""

    def collect_garbage(self) -> int:
        """Remove what no pin keeps; return the number of blocks removed."""
