"""CIDs as values: version 1, codec raw or dag-pb, SHA2-256, written in lower-case base32.

Source: https://github.com/multiformats/cid. Base58 and CIDv0 are read, because daemons answer in them, but never written.
"""

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property

from zoo_compute.store.errors import BadCid

RAW = 0x55
DAG_PB = 0x70
_SHA2_256 = b"\x12\x20"  # multihash code, digest length
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LONGEST = 128  # characters; ours have 59


@dataclass(frozen=True)
class Cid:
    """codec: RAW or DAG_PB; digest: 32 bytes."""

    codec: int
    digest: bytes

    @classmethod
    def of_block(cls, codec: int, block: bytes) -> "Cid":
        return cls(codec, hashlib.sha256(block).digest())

    @classmethod
    def from_binary(cls, data: bytes) -> "Cid":
        """data: the 36 bytes of a dag-pb link. Raises BadCid."""
        if len(data) != 36 or data[0] != 1 or data[1] not in (RAW, DAG_PB) or data[2:4] != _SHA2_256:
            raise BadCid(f"not a CIDv1 of raw or dag-pb with SHA2-256: {data[:40].hex()}")
        return cls(data[1], data[4:])

    @classmethod
    def parse(cls, text: str) -> "Cid":
        """text: base32 (b...), or base58 (z..., Qm...). Raises BadCid."""
        if not isinstance(text, str) or not 0 < len(text) <= _LONGEST:
            raise BadCid(
                f"not a CID: {str(text)[:_LONGEST]!r}; expected 59 characters like 'bafkrei...' or 'bafybei...'"
            )
        try:
            return _decode(text)
        except ValueError as error:
            raise BadCid(f"not a supported CID: {text!r} ({error}); expected CIDv1, raw or dag-pb, SHA2-256") from None

    @property
    def binary(self) -> bytes:
        return bytes((1, self.codec)) + _SHA2_256 + self.digest

    @cached_property
    def text(self) -> str:
        return "b" + base64.b32encode(self.binary).decode().rstrip("=").lower()

    def __str__(self) -> str:
        return self.text

    def matches(self, block: bytes) -> bool:
        return hashlib.sha256(block).digest() == self.digest


def _decode(text: str) -> Cid:
    if text.startswith("Qm"):
        data = _base58(text)
        if data[:2] != _SHA2_256 or len(data) != 34:
            raise ValueError("a CIDv0 has 32 bytes of SHA2-256")
        return Cid(DAG_PB, data[2:])
    if text.startswith("z"):
        return Cid.from_binary(_base58(text[1:]))
    if text[0] not in "bB":
        raise ValueError("unknown base")
    body = text[1:] if text[0] == "B" else text[1:].upper()
    if text[0] == "b" and text != text.lower():
        raise ValueError("upper case in base32")
    cid = Cid.from_binary(base64.b32decode(body + "=" * (-len(body) % 8)))
    if cid.text != text.lower():
        raise ValueError("loose bits at the end")
    return cid


def _base58(text: str) -> bytes:
    number = 0
    for letter in text:
        number = number * 58 + _BASE58.index(letter)
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
