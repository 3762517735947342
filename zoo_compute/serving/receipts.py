"""Receipts of answers: what an operator signs, and all that a client checks before it takes one (docs/protocol/serving.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from eth_utils.crypto import keccak

from repops import commitments
from repops.commitments import Array
from repops.graph import Graph
from zoo_compute.errors import UserError
from zoo_compute.serving import signatures
from zoo_compute.serving.execution import Ending
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import OUTPUTS
from zoo_compute.spec import merkle
from zoo_compute.spec.exploration import abi_words
from zoo_compute.spec.receipts import AnswerReceipt

_RECEIPT_TYPE = keccak(
    text="Receipt(uint256 seat,bytes32 program,uint256 steps,bytes32 start,bytes32 nonce,bytes32 segments,bytes32 end,uint256 issued)"
)


class BadReceipt(UserError):
    """An answer's receipt is not what the client asked for: nothing is paid for it."""


@dataclass(frozen=True)
class SignedReceipt:
    """signature: r | s | v of the seat's signer."""

    receipt: AnswerReceipt
    signature: bytes


def domain_of(chain_id: int, contract: str) -> bytes:
    """What binds receipts to one chain and one contract Serving: 32 bytes, made once."""
    return signatures.domain_of("Zoo Serving", chain_id, contract)


def digest(receipt: AnswerReceipt, domain: bytes) -> bytes:
    """What a seat's signer signs: EIP-712."""
    return signatures.digest(domain, _RECEIPT_TYPE + abi_words(*asdict(receipt).values()))


def sign(receipt: AnswerReceipt, domain: bytes, key: bytes) -> SignedReceipt:
    return SignedReceipt(receipt, signatures.sign(digest(receipt, domain), key))


def check(
    signed: SignedReceipt, question: Question, graph: Graph, ending: Ending, *,
    seat: int, signer: str, domain: bytes, now: int, slack_s: int,
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
    if not signatures.is_signed(digest(receipt, domain), signed.signature, signer):
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
