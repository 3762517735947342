"""A receipt from a file, and whether it is true: its question is answered again here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repops.fields import BadField
from zoo_compute.errors import UserError
from zoo_compute.inference.checking import Checker, is_true
from zoo_compute.inference.market import Place
from zoo_compute.serving import receipts, signatures
from zoo_compute.serving.execution import Ending
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.questions import Question
from zoo_compute.serving.receipt_file import MAX_RECEIPT_FILE_BYTES, ReceiptFile
from zoo_compute.spec.serving import claim_of
from zoo_compute.spec.state import Claim

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.store.interface import Store


@dataclass(frozen=True)
class CheckedReceipt:
    """A receipt that its seat signed, with what this machine makes of its question. claim: that it becomes once it is admitted."""

    file: ReceiptFile
    claim: Claim
    mine: Ending

    @property
    def agrees(self) -> bool:
        return is_true(self.file.signed.receipt, self.mine)


def read_receipt(path: Path, place: Place) -> ReceiptFile:
    """Raises UserError for a file that is no receipt of this network."""
    try:
        with path.open("rb") as stream:
            file = ReceiptFile.from_bytes(stream.read(MAX_RECEIPT_FILE_BYTES + 1))
    except (BadField, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} is no receipt: {error}", hint="`zoo complete` keeps receipts; an operator's answer has one"
        ) from None
    if (file.chain_id, file.serving.lower()) != (place.chain_id, place.serving.lower()):
        raise UserError(
            f"{path} is a receipt of another network: chain {file.chain_id}, Serving {file.serving}",
            hint="choose --network",
        )
    return file


def question_in(file: ReceiptFile, stored: StoredService) -> Question:
    """The question beside a receipt. Raises UserError where the receipt is of another one."""
    question, receipt = stored.question(file.question), file.signed.receipt
    if question.receipt(receipt.seat, receipt.segments, receipt.end, receipt.issued) != receipt:
        raise UserError("the receipt is of another question than the one in its file: nothing follows from it")
    return question


def check_receipt(chain: Chain, store: Store, file: ReceiptFile) -> CheckedReceipt:
    """Answer its question again. Raises UserError where the receipt is not the seat's, and the store's errors."""
    receipt = file.signed.receipt
    seat = chain.serving.seats(receipt.seat)
    if not seat.operator:
        raise UserError(f"there is no serving seat {receipt.seat}", hint="`zoo serving list` has all seats")
    domain = receipts.domain_of(file.chain_id, file.serving)
    if not signatures.is_signed(receipts.digest(receipt, domain), file.signed.signature, seat.signer):
        raise UserError(f"the receipt is not signed by the signer of seat {receipt.seat}", hint="so it convicts nobody")
    stored = StoredService.fetch(store, file.question["service"])
    ending = Checker(stored).answer(question_in(file, stored))
    return CheckedReceipt(file, claim_of(seat.operator, receipt), ending)
