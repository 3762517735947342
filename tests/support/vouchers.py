"""Signing a channel's voucher as a wallet does: EIP-712 typed data by eth_account."""

from __future__ import annotations

from typing import Any

from eth_account.signers.local import LocalAccount

from tests.support.evm import chain

TYPES = {"Voucher": [{"name": "channel", "type": "uint256"}, {"name": "total", "type": "uint256"}]}


def voucher_signature(account: LocalAccount, contract: str, channel: int, total: int, **domain: Any) -> bytes:
    """`r | s | v`; `domain` changes what it is bound to."""
    bound = {"name": "Zoo Channels", "version": "1", "chainId": chain.chain_id, "verifyingContract": contract}
    signed = account.sign_typed_data({**bound, **domain}, TYPES, {"channel": channel, "total": total})
    return bytes(signed.signature)
