"""Committees and custodians' signatures of the specification, as the contract has them."""

from __future__ import annotations

from typing import Any

from eth_abi import encode
from eth_account import Account
from eth_utils import keccak

from tests.support.consent import CHAIN_ID
from zoo_compute.spec.custodians import CheckpointSignature, Committee, InputsSignature, Member, StartSignature

Signed = StartSignature | InputsSignature | CheckpointSignature
UINT, WORD = "uint256", "bytes32"
TYPES: dict[type, tuple[str, dict[str, str]]] = {
    StartSignature: ("Start", {"job": UINT}),
    InputsSignature: ("Inputs", {"job": UINT, "turn": UINT, "seats": UINT}),
    CheckpointSignature: ("Checkpoint", {"job": UINT, "turn": UINT, "seat": UINT, "root": WORD, "cid": WORD}),
}


def member_words(member: Member) -> tuple[int, int]:
    return member.operator << 24 | member.from_turn, int(member.key, 16)


def committee_words(committee: Committee) -> list[tuple[int, int]]:
    return [member_words(member) for member in committee]


def committee_hash(committee: Committee | None) -> bytes:
    """Zeros for a version there never was."""
    if committee is None:
        return bytes(32)
    return bytes(keccak(encode(["(uint256,uint256)[]"], [committee_words(committee)])))


def checkpoint_message(job: int, turn: int, seat: int, root: bytes, cid: bytes) -> bytes:
    """What is signed of a checkpoint, without the domain."""
    name, parts = TYPES[CheckpointSignature]
    kind = keccak(text=f"{name}({','.join(f'{kind} {part}' for part, kind in parts.items())})")
    return bytes(keccak(encode([WORD, *parts.values()], [kind, job, turn, seat, root, cid])))


def compact(key: bytes, custody: str, signed: Signed, chain_id: int = CHAIN_ID) -> tuple[bytes, bytes]:
    """`r` and `vs` (EIP-2098) of the message."""
    name, parts = TYPES[type(signed)]
    domain = {"name": "Zoo Custody", "version": "1", "chainId": chain_id, "verifyingContract": custody}
    types = {name: [{"name": part, "type": kind} for part, kind in parts.items()]}
    message = {part: getattr(signed, part) for part in parts}
    signature = Account.from_key(key).sign_typed_data(domain, types, message)
    return signature.r.to_bytes(32, "big"), (signature.s | (signature.v - 27) << 255).to_bytes(32, "big")


def signature_words(key: bytes, custody: str, signed: Signed) -> tuple[Any, ...]:
    seats = (signed.seats,) if isinstance(signed, InputsSignature) else ()
    return (signed.index, *seats, *compact(key, custody, signed))
