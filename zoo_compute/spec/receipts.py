"""What Serving keeps (docs/protocol/serving.md), and the receipts of answers that operators sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo_compute.spec.trials import TRIALS

if TYPE_CHECKING:
    from zoo_compute.spec.state import ClaimStatus

RECEIPTS = 2**32 - 1  # the job number of claims that are receipts: no job has it


def is_of_job(job: int) -> bool:
    """Whether claims of this number are of a job: else each is of one run, from a start of its own, with its seed in its round."""
    return job not in (TRIALS, RECEIPTS)


@dataclass(frozen=True, slots=True)
class ServingSeat:
    """An operator's. signer: signs its receipts; lock: ZEN behind them; left_at: 0 until it is left; pending: receipts that are."""

    operator: int
    signer: str
    lock: int
    left_at: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Offer:
    """service: the digest in the CID of the file that says what is served; price: for 1,000 tokens, in the token's smallest unit."""

    service: bytes
    price: int
    token: str
    url: str


@dataclass(frozen=True, slots=True)
class AnswerReceipt:
    """Which program ran how many steps, from which start, and where it ended: roots. issued: in the protocol's time.

    nonce: the client's, 32 bytes. segments: over the states before the first step and after the last one; end: the latter.
    """

    seat: int
    program: bytes
    steps: int
    start: bytes
    nonce: bytes
    segments: bytes
    end: bytes
    issued: int


@dataclass(frozen=True, slots=True)
class ReceiptSignature:
    """Contract: an EIP-712 signature of the receipt by the key `signer`."""

    signer: str
    receipt: AnswerReceipt


@dataclass(frozen=True, slots=True)
class Admitted:
    """A receipt that was admitted. deadline: the last second at which it can be disputed."""

    status: ClaimStatus
    work_root: bytes
    deadline: int
    is_disputed: bool = False
