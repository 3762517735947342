"""The protocol's CIDs: of files, and of single raw blocks, which contracts store as 32 bytes."""

import io
from pathlib import Path

from zoo_compute.store import unixfs
from zoo_compute.store.errors import BadCid
from zoo_compute.store.multiformats import DAG_PB, RAW, Cid

__all__ = ["cid_of", "digest_of", "file_cid", "file_digest", "normalise", "raw_cid"]


def cid_of(content: Path | bytes) -> str:
    """The CID that `add` would return, without storing anything."""
    if isinstance(content, (bytes, bytearray, memoryview)):
        return unixfs.build(unixfs.chunks_of(io.BytesIO(content))).cid.text
    with content.open("rb") as stream:
        return unixfs.build(unixfs.chunks_of(stream)).cid.text


def raw_cid(digest: bytes) -> str:
    """The CID of a file of at most 256 KiB. digest: its SHA2-256, as a contract stores it."""
    if len(digest) != 32:
        raise BadCid(f"a digest has 32 bytes, this one {len(digest)}")
    return Cid(RAW, bytes(digest)).text


def digest_of(cid: str) -> bytes:
    """The inverse of `raw_cid`. Raises BadCid for dag-pb CIDs, which a digest alone cannot restore."""
    parsed = Cid.parse(cid)
    if parsed.codec != RAW:
        raise BadCid(
            f"{cid} is a file of several blocks; only a file of at most {unixfs.CHUNK} bytes fits in 32 bytes on chain"
        )
    return parsed.digest


def file_digest(cid: str) -> bytes:
    """The digest in the CID of a file of any size; `file_cid` restores the CID from digest and size."""
    return Cid.parse(cid).digest


def file_cid(digest: bytes, size: int) -> str:
    """The CID of the file of `size` bytes with this digest: one raw block if it fits, else a tree of blocks."""
    if len(digest) != 32:
        raise BadCid(f"a digest has 32 bytes, this one {len(digest)}")
    return Cid(RAW if size <= unixfs.CHUNK else DAG_PB, bytes(digest)).text


def normalise(cid: str) -> str:
    """The CID in lower-case base32, from any base."""
    return Cid.parse(cid).text
