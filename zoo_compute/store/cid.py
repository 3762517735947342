"""The CIDs of the protocol: of a file, and of single raw blocks that a contract keeps as 32 bytes."""

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
    """digest: the 32 bytes of SHA2-256 that a contract keeps for a file of at most 256 KiB."""
    if len(digest) != 32:
        raise BadCid(f"a digest has 32 bytes, this one {len(digest)}")
    return Cid(RAW, bytes(digest)).text


def digest_of(cid: str) -> bytes:
    """The inverse of `raw_cid`. Refuses dag-pb CIDs, which cannot be rebuilt from a digest alone."""
    parsed = Cid.parse(cid)
    if parsed.codec != RAW:
        raise BadCid(
            f"{cid} is a file of several blocks; only a file of at most {unixfs.CHUNK} bytes fits in 32 bytes on chain"
        )
    return parsed.digest


def file_digest(cid: str) -> bytes:
    """The digest in the CID of a file of any size: with the size, `file_cid` makes the CID of it again."""
    return Cid.parse(cid).digest


def file_cid(digest: bytes, size: int) -> str:
    """The CID of the file of `size` bytes with this digest: a raw block where it fits in one, else a tree of them."""
    if len(digest) != 32:
        raise BadCid(f"a digest has 32 bytes, this one {len(digest)}")
    return Cid(RAW if size <= unixfs.CHUNK else DAG_PB, bytes(digest)).text


def normalise(cid: str) -> str:
    """The same CID in lower-case base32, whatever base it came in."""
    return Cid.parse(cid).text
