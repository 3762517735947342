"""Receipts of answers that somebody admitted, from their events (docs/protocol/serving.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from zoo_compute.chain import views
from zoo_compute.chain.events import scan
from zoo_compute.spec import state
from zoo_compute.spec.frames import claim_hash
from zoo_compute.spec.receipts import AnswerReceipt
from zoo_compute.spec.state import ClaimStatus

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.events import Event


@dataclass(frozen=True)
class AdmittedReceipt:
    """A receipt and the claim that it became. deadline: the last second at which somebody can begin to ask about it."""

    claim: state.Claim
    receipt: AnswerReceipt
    deadline: int

    @cached_property
    def claim_hash(self) -> bytes:
        return claim_hash(self.claim)

    @property
    def view(self) -> views.Claim:
        """As a job's claim is shown."""
        claim = self.claim
        return views.Claim(
            claim.turn, claim.round, claim.seat, claim.operator, claim.scope, claim.price, claim.start_root, claim.root,
            deadline=self.deadline,
        )  # fmt: skip

    @classmethod
    def of(cls, event: Event) -> AdmittedReceipt:
        """From a `ReceiptAdmitted`."""
        args = event.args
        receipt = AnswerReceipt(*dict(args["receipt"]).values())
        return cls(state.Claim(*dict(args["claim"]).values()), receipt, args["deadline"])


def admitted_receipts(chain: Chain, operator: int) -> list[AdmittedReceipt]:
    """All receipts of the operator that were admitted."""
    head = chain.head("latest")
    events = scan(chain, chain.network.first_block, head.number, ("ReceiptAdmitted",), operator=operator)
    return [AdmittedReceipt.of(event) for event in events]


def is_pending(chain: Chain, claim: views.Claim) -> bool:
    """Whether this admitted receipt is neither dropped nor judged."""
    hash = claim_hash(state.Claim(*claim.fields))  # type: ignore[arg-type]
    return chain.serving.admitted(hash).status == ClaimStatus.PENDING


def droppable(chain: Chain, seat: int) -> list[AdmittedReceipt]:
    """Of a seat: those that nobody asked about in their window, and that nobody has dropped yet."""
    now, left = chain.time(), []
    for each in admitted_receipts(chain, chain.serving.seats(seat).operator):
        kept = chain.serving.admitted(each.claim_hash)
        is_pending = kept.status == ClaimStatus.PENDING and not kept.is_disputed
        if each.receipt.seat == seat and is_pending and now > kept.deadline:
            left.append(each)
    return left
