"""Receipts of answers: what an operator signs, and all that a client checks before it takes one (docs/protocol/serving.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from eth_account import Account
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from repops import commitments
from repops.commitments import Array
from repops.graph import Graph
from zoo_compute.errors import UserError
from zoo_compute.serving.execution import Ending
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import OUTPUTS
from zoo_compute.spec import merkle
from zoo_compute.spec.exploration import abi_words
from zoo_compute.spec.receipts import AnswerReceipt

_DOMAIN_TYPE = b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
_RECEIPT_TYPE = b"Receipt(uint256 seat,bytes32 program,uint256 steps,bytes32 start,bytes32 nonce,bytes32 segments,bytes32 end,uint256 issued)"


class BadReceipt(UserError):
    """An answer's receipt is not what the client asked for: nothing is paid for it."""


@dataclass(frozen=True)
class Domain:
    """What signatures are bound to. serving: the contract's address."""

    chain_id: int
    serving: str

    @property
    def separator(self) -> bytes:
        names = (keccak(_DOMAIN_TYPE), keccak(b"Zoo Serving"), keccak(b"1"))
        return bytes(keccak(abi_words(*names, self.chain_id, int(self.serving, 16))))


@dataclass(frozen=True)
class SignedReceipt:
    """signature: r | s | v of the seat's signer."""

    receipt: AnswerReceipt
    signature: bytes


def digest(receipt: AnswerReceipt, domain: Domain) -> bytes:
    """What the signer signs: EIP-712."""
    fields = keccak(keccak(_RECEIPT_TYPE) + abi_words(*asdict(receipt).values()))
    return bytes(keccak(b"\x19\x01" + domain.separator + fields))


def sign(receipt: AnswerReceipt, domain: Domain, key: bytes) -> SignedReceipt:
    return SignedReceipt(receipt, bytes(Account.unsafe_sign_hash(digest(receipt, domain), key).signature))


def signer_of(signed: SignedReceipt, domain: Domain) -> str:
    """The address of the key that signed. Raises BadReceipt for what is no signature."""
    try:
        return str(Account._recover_hash(digest(signed.receipt, domain), signature=signed.signature))
    except Exception as error:  # eth_keys has several of its own
        raise BadReceipt("the receipt has no valid signature") from error


def check(
    signed: SignedReceipt, question: Question, graph: Graph, ending: Ending, *,
    seat: int, signer: str, domain: Domain, now: int, slack_s: int,
) -> None:  # fmt: skip
    """That a receipt is of this question and of these outputs. Raises BadReceipt. What it does not show is judged.

    graph: the service's program. signer: the seat's; now: the protocol's time; slack_s: between two clocks, and for an answer's way.
    """
    receipt = signed.receipt
    expected = question.receipt(seat, receipt.segments, receipt.end, receipt.issued)
    for name, value in asdict(expected).items():
        if getattr(receipt, name) != value:
            raise BadReceipt(f"the receipt's {name} is not the question's")
    if abs(receipt.issued - now) > slack_s:
        raise BadReceipt(f"the receipt is dated {receipt.issued}, and it is {now}: more than {slack_s} s apart")
    if signer_of(signed, domain) != to_checksum_address(signer):
        raise BadReceipt(f"the receipt is not signed by the seat's signer {signer}")
    if not _opens(graph, ending.outputs, ending.path, receipt.end):
        raise BadReceipt("the answer is not the one that the receipt names")


def _opens(graph: Graph, outputs: Array, path: tuple[bytes, ...], end: bytes) -> bool:
    """Whether the state of this root has these outputs."""
    nodes: Mapping[str, tuple[int, ...]] = {entry.name: graph.nodes[entry.before].shape for entry in graph.state}
    if outputs.shape != nodes[OUTPUTS] or outputs.dtype != np.float32:
        return False
    names = sorted(nodes, key=str.encode)
    leaf = commitments.state_leaf(OUTPUTS, commitments.tensor_root(outputs))
    return 2 ** len(path) >= len(names) > 2 ** len(path) // 2 and merkle.climb(leaf, names.index(OUTPUTS), path) == end
