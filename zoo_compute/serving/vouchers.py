"""Vouchers of payment channels: made, signed and verified (docs/protocol/channels.md).

An operator verifies one for each request, so this hashes and recovers by hand what a wallet does with typed data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coincurve import PrivateKey, PublicKey
from eth_utils.crypto import keccak

from repops.fields import BadField, read

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

_TOTAL = re.compile(r"0|[1-9][0-9]{0,77}")
_SIGNATURE = re.compile(r"0x[0-9a-f]{130}")
SIGNATURE_BYTES = 65  # r (32) | s (32) | v, 27 or 28
_DOMAIN_TYPE = keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
_NAME = keccak(text="Zoo Channels")
_VERSION = keccak(text="1")
_VOUCHER_TYPE = keccak(text="Voucher(uint256 channel,uint256 total)")
_V = 27  # of a signature whose point has an even y
# Half the order of secp256k1: the other of the two `s` that verify is refused, by the contract too.
_MOST_S = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


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
    address = bytes.fromhex(contract.removeprefix("0x"))
    return keccak(_DOMAIN_TYPE + _NAME + _VERSION + chain_id.to_bytes(32, "big") + address.rjust(32, b"\0"))


def domain_at(chain: Chain) -> bytes:
    """`domain_of` a network."""
    return domain_of(chain.network.chain_id, chain.network.contracts["channels"])


def sign(domain: bytes, voucher: Voucher, key: bytes) -> bytes:
    """`r | s | v` by a private key of 32 bytes. Raises ValueError for a number that is no uint256."""
    signature = PrivateKey(key).sign_recoverable(_digest(domain, voucher), hasher=None)
    return signature[:-1] + bytes([_V + signature[-1]])


def verify(domain: bytes, voucher: Voucher, signature: bytes, signer: str) -> bool:
    """Whether the contract would accept this signature as the signer's. Never raises, whatever strangers send."""
    if len(signature) != SIGNATURE_BYTES or signature[-1] not in (_V, _V + 1):
        return False
    if int.from_bytes(signature[32:64], "big") > _MOST_S:
        return False
    recoverable = signature[:-1] + bytes([signature[-1] - _V])
    try:
        point = PublicKey.from_signature_and_message(recoverable, _digest(domain, voucher), hasher=None)
    except Exception:  # noqa: BLE001 (coincurve raises this of r and s that are no signature's, and of numbers too large)
        return False
    return keccak(point.format(compressed=False)[1:])[12:] == bytes.fromhex(signer.removeprefix("0x"))


def _digest(domain: bytes, voucher: Voucher) -> bytes:
    """What is signed, by EIP-712."""
    try:
        numbers = voucher.channel.to_bytes(32, "big") + voucher.total.to_bytes(32, "big")
    except OverflowError:
        raise ValueError(f"{voucher} has a number that is no uint256: pass 0 .. 2**256 - 1") from None
    return keccak(b"\x19\x01" + domain + keccak(_VOUCHER_TYPE + numbers))
