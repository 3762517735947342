"""Signing the consent to a registration, as a wallet does: EIP-712 typed data by eth_account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from zoo_compute.operators.consent import DOMAIN, REGISTRATION

CHAIN_ID = 1  # of `tests.support.evm.chain`
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141  # of secp256k1
HALF_ORDER = ORDER // 2


@dataclass(frozen=True)
class Signer:
    """A key by name."""

    name: str

    @cached_property
    def _account(self) -> LocalAccount:
        return Account.from_key(keccak(text=self.name))

    @property
    def address(self) -> str:
        return str(self._account.address)

    def signs(self, kit: SimpleNamespace, terms: Mapping[str, Any], **domain: Any) -> bytes:
        """`r | s | v` of the registration; `domain` changes what it is bound to."""
        return self.signs_at(str(kit.registry.address), terms, **domain)

    def signs_at(self, registry: str, terms: Mapping[str, Any], **domain: Any) -> bytes:
        bound = {**DOMAIN, "chainId": CHAIN_ID, "verifyingContract": registry}
        signed = self._account.sign_typed_data({**bound, **domain}, {"Registration": REGISTRATION}, dict(terms))
        return bytes(signed.signature)


def signature_of(r: bytes, s: int, v: int) -> bytes:
    return r + s.to_bytes(32, "big") + bytes([v])
