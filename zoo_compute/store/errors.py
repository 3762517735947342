"""The exceptions of the store.

StoreError
├── BadCid            the text is not a CID that we use                        (also a ValueError)
├── ContentMissing    neither here nor at any peer; may change with time or with more peers
├── ContentTampered   what was offered does not hash to its CID, and nobody offered better
├── ContentRefused    the content hashes to its CID, but is no file in our layout, or exceeds the caller's bound; final
├── StoreFull         the disk has no room; nothing was damaged
└── StoreUnreachable  the daemon, or every peer, did not answer; may change with time
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoo_compute.errors import ZooError


class StoreError(ZooError):
    """Base of all exceptions that `zoo_compute.store` raises on purpose."""


class BadCid(StoreError, ValueError):
    """The text is not a supported CID: version 1, raw or dag-pb, SHA2-256."""


class ContentMissing(StoreError):
    """The content is not in this store, and no peer that answered has it."""


class ContentTampered(StoreError):
    """The bytes do not hash to their CID."""


class ContentRefused(StoreError):
    """The content matches its CID, but is not a file in the layout of `ipfs add`, or is larger than allowed."""


class StoreFull(StoreError):
    """The disk is full. Stored content is not damaged."""


class StoreUnreachable(StoreError):
    """The daemon, or every peer that was asked, is down or too slow."""


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def full_disk_becomes_store_full(place: Path) -> Iterator[None]:
    """Turn "no space left" and "quota exceeded" into a StoreFull that names the folder. Other OSErrors pass through."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StoreFull(
            f"no room left while writing under {place} ({error.strerror}): nothing was damaged; "
            "free space there, or unpin content and collect garbage, then try again"
        ) from error
