"""EIP-712 signatures as the contracts recover them: made and verified for each request, so by hand and not by a wallet's library."""

from __future__ import annotations

from coincurve import PrivateKey, PublicKey
from eth_utils.crypto import keccak

SIGNATURE_BYTES = 65  # r (32) | s (32) | v, 27 or 28
_DOMAIN_TYPE = keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
_VERSION = keccak(text="1")
_V = 27  # of a signature whose point has an even y
# Half the order of secp256k1: the other of the two `s` that verify is refused, by the contracts too.
_MOST_S = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


def domain_of(name: str, chain_id: int, contract: str) -> bytes:
    """What binds signatures to one chain and one contract, of this EIP-712 name: 32 bytes, made once."""
    address = bytes.fromhex(contract.removeprefix("0x"))
    words = chain_id.to_bytes(32, "big") + address.rjust(32, b"\0")
    return keccak(_DOMAIN_TYPE + keccak(text=name) + _VERSION + words)


def digest(domain: bytes, fields: bytes) -> bytes:
    """What is signed. fields: the struct's type hash and its words."""
    return keccak(b"\x19\x01" + domain + keccak(fields))


def sign(digest: bytes, key: bytes) -> bytes:
    """`r | s | v` by a private key of 32 bytes."""
    signature = PrivateKey(key).sign_recoverable(digest, hasher=None)
    return signature[:-1] + bytes([_V + signature[-1]])


def is_signed(digest: bytes, signature: bytes, signer: str) -> bool:
    """Whether the contracts would accept this signature as the signer's, an address. Never raises, whatever strangers send."""
    if len(signature) != SIGNATURE_BYTES or signature[-1] not in (_V, _V + 1):
        return False
    if int.from_bytes(signature[32:64], "big") > _MOST_S:
        return False
    recoverable = signature[:-1] + bytes([signature[-1] - _V])
    try:
        point = PublicKey.from_signature_and_message(recoverable, digest, hasher=None)
    except Exception:  # noqa: BLE001 (coincurve raises this of r and s that are no signature's, and of numbers too large)
        return False
    return keccak(point.format(compressed=False)[1:])[12:] == bytes.fromhex(signer.removeprefix("0x"))
