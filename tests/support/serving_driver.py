"""What a serving seat's signer signs (docs/protocol/serving.md), by eth_account: beside the contract and the package."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from eth_account.messages import encode_typed_data

from tests.support.evm import chain
from zoo_compute.spec.receipts import AnswerReceipt

NUMBERS = ("seat", "steps", "issued")
TYPES = {
    "Receipt": [
        {"name": name, "type": "uint256" if name in NUMBERS else "bytes32"}
        for name in ("seat", "program", "steps", "start", "nonce", "segments", "end", "issued")
    ]
}


def answer_signature(account: Any, contract: str, receipt: AnswerReceipt, **domain: Any) -> bytes:
    """`domain` changes what it is bound to."""
    bound = {"name": "Zoo Serving", "version": "1", "chainId": chain.chain_id, "verifyingContract": contract}
    return bytes(account.sign_message(encode_typed_data({**bound, **domain}, TYPES, asdict(receipt))).signature)
