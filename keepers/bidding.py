"""Seals of bids. The salt follows from the operator's key, so that a keeper that lost everything else can still reveal."""

from __future__ import annotations

from eth_abi.abi import encode
from eth_utils.crypto import keccak


class Sealer:
    """Seals and salts from a 32-byte secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def salt(self, job: int, kind: int, attempt: int) -> bytes:
        """32 bytes nobody else can guess, the same every time they are asked for."""
        return keccak(self._secret + encode(["uint256"] * 3, [job, kind, attempt]))

    def seal(self, job: int, kind: int, attempt: int, operator: int, price: int, capacity: int) -> bytes:
        """What `Auction.bid` takes. Source: docs/protocol.md, Auction."""
        values = [job, kind, attempt, operator, price, capacity, self.salt(job, kind, attempt)]
        return keccak(encode(["uint256"] * 6 + ["bytes32"], values))
