"""Vouchers of payment channels: made, signed and verified (docs/protocol/channels.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from eth_utils.crypto import keccak

from repops.fields import BadField, read
from zoo_compute.serving import signatures

_TOTAL = re.compile(r"0|[1-9][0-9]{0,77}")
_SIGNATURE = re.compile(r"0x[0-9a-f]{130}")
_VOUCHER_TYPE = keccak(text="Voucher(uint256 channel,uint256 total)")


@dataclass(frozen=True, slots=True)
class Voucher:
    """All that a channel owes so far, in smallest units of its token."""

    channel: int
    total: int


@dataclass(frozen=True, slots=True)
class SignedVoucher:
    """A voucher as a client sends it and an operator keeps it."""

    voucher: Voucher
    signature: bytes

    @property
    def args(self) -> tuple[int, int, bytes]:
        """Of Channels.redeem and Channels.close."""
        return self.voucher.channel, self.voucher.total, self.signature

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON. The total is text: numbers beyond 2^53 are not the same to every reader of JSON."""
        fields = {"channel": self.voucher.channel, "total": str(self.voucher.total)}
        return {**fields, "signature": "0x" + self.signature.hex()}

    @classmethod
    def of_dict(cls, raw: object) -> SignedVoucher:
        """Of what a stranger sends. Raises BadField, which says what was expected."""
        fields = read(_Fields, raw, "voucher")
        return cls(Voucher(fields.channel, int(fields.total)), bytes.fromhex(fields.signature[2:]))


@dataclass(frozen=True)
class _Fields:
    channel: int
    total: str
    signature: str

    def __post_init__(self) -> None:
        if not 0 < self.channel < 1 << 63:
            raise BadField(f"voucher: channel is {self.channel}, expected a channel's number, from 1 on")
        if not _TOTAL.fullmatch(self.total) or int(self.total) >= 1 << 256:
            raise BadField("voucher: total is no decimal text of a number below 2^256")
        if not _SIGNATURE.fullmatch(self.signature):
            raise BadField("voucher: signature is not 0x and 130 hex digits in lower case")


def domain_of(chain_id: int, contract: str) -> bytes:
    """What binds vouchers to one chain and one contract Channels: 32 bytes, made once."""
    return signatures.domain_of("Zoo Channels", chain_id, contract)


def sign(domain: bytes, voucher: Voucher, key: bytes) -> bytes:
    """`r | s | v` by a private key of 32 bytes. Raises ValueError for a number that is no uint256."""
    return signatures.sign(_digest(domain, voucher), key)


def verify(domain: bytes, voucher: Voucher, signature: bytes, signer: str) -> bool:
    """Whether the contract would accept this signature as the signer's. Never raises, whatever strangers send."""
    try:
        signed = _digest(domain, voucher)
    except ValueError:
        return False
    return signatures.is_signed(signed, signature, signer)


def _digest(domain: bytes, voucher: Voucher) -> bytes:
    """What is signed, by EIP-712."""
    try:
        numbers = voucher.channel.to_bytes(32, "big") + voucher.total.to_bytes(32, "big")
    except OverflowError:
        raise ValueError(f"{voucher} has a number that is no uint256: pass 0 .. 2**256 - 1") from None
    return signatures.digest(domain, _VOUCHER_TYPE + numbers)
