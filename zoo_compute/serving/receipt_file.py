"""A receipt as a file: all that whoever has it needs to compute the answer again, and to have the receipt judged."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from repops.fields import BadField, between, canonical_json, check_keys, parse_json
from zoo_compute.serving.receipts import SignedReceipt
from zoo_compute.serving.service import MAX_SERVICE_BYTES
from zoo_compute.spec.params import MAX_STEPS
from zoo_compute.spec.receipts import AnswerReceipt

MAX_RECEIPT_FILE_BYTES = 64 * MAX_SERVICE_BYTES  # of the longest prompts, written as numbers
_ROOTS = ("program", "start", "nonce", "segments", "end")
_NUMBERS = ("seat", "steps", "issued")
_ROOT = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"0x[0-9a-f]{130}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


def receipt_to_dict(receipt: AnswerReceipt) -> dict[str, Any]:
    """Plain JSON: roots as 64 hex digits."""
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in asdict(receipt).items()}


def receipt_of_dict(raw: object) -> AnswerReceipt:
    """Of what a stranger sends. Raises BadField."""
    fields = _mapping(raw, "receipt")
    check_keys(fields, {*_ROOTS, *_NUMBERS}, {*_ROOTS, *_NUMBERS}, "receipt")
    values: dict[str, Any] = {name: _number(f"receipt.{name}", fields[name]) for name in _NUMBERS}
    between("receipt.steps", values["steps"], 1, MAX_STEPS)
    values |= {name: bytes.fromhex(_text(_ROOT, f"receipt.{name}", fields[name])) for name in _ROOTS}
    return AnswerReceipt(**values)


def signature_of_text(raw: object) -> bytes:
    """Raises BadField."""
    return bytes.fromhex(_text(_SIGNATURE, "signature", raw)[2:])


@dataclass(frozen=True)
class ReceiptFile:
    """question: as `zoo_compute.serving.files.plain` has it. serving: the contract's address on that chain."""

    signed: SignedReceipt
    question: dict[str, Any]
    chain_id: int
    serving: str

    def to_bytes(self) -> bytes:
        return canonical_json(
            {
                "receipt": receipt_to_dict(self.signed.receipt),
                "signature": "0x" + self.signed.signature.hex(),
                "question": self.question,
                "chain_id": self.chain_id,
                "serving": self.serving,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> ReceiptFile:
        """Raises BadField for anything but such a file. The question is checked by the service that it names (StoredService.question)."""
        if len(data) > MAX_RECEIPT_FILE_BYTES:
            raise BadField(f"receipt file: {len(data):,} bytes, at most {MAX_RECEIPT_FILE_BYTES:,}")
        names = {"receipt", "signature", "question", "chain_id", "serving"}
        raw = _mapping(parse_json(data, "receipt file"), "receipt file")
        check_keys(raw, names, names, "receipt file")
        question = _mapping(raw["question"], "question")
        asked = {"service", "prompts", "new_tokens", "nonce"}
        check_keys(question, asked, asked, "question")
        if not isinstance(question["service"], str):
            raise BadField(f"question.service: expected a CID, got {question['service']!r}")
        signed = SignedReceipt(receipt_of_dict(raw["receipt"]), signature_of_text(raw["signature"]))
        chain_id = _number("chain_id", raw["chain_id"])
        return cls(signed, question, chain_id, _text(_ADDRESS, "serving", raw["serving"]))


def _mapping(raw: object, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise BadField(f"{where}: expected an object, got {type(raw).__name__}")
    return raw


def _number(where: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise BadField(f"{where}: expected a number from 0 on, got {value!r}")
    return value


def _text(pattern: re.Pattern[str], where: str, value: object) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise BadField(f"{where}: expected {pattern.pattern}, got {value!r}")
    return value
