"""Whether a receipt is true: its question is answered again here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repops.backend import Runner, prepare
from repops.fields import BadField
from repops.graph import Graph
from zoo_compute.errors import UserError
from zoo_compute.serving import receipts, signatures
from zoo_compute.serving.execution import Ending, Execution
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.questions import Question
from zoo_compute.serving.receipt_file import ReceiptFile
from zoo_compute.spec.serving import claim_of
from zoo_compute.spec.state import Claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from zoo_compute.chain.connection import Chain
    from zoo_compute.store import Store


@dataclass(frozen=True)
class CheckedReceipt:
    """A receipt that its seat signed, with what this machine makes of its question."""

    file: ReceiptFile
    claim: Claim
    question: Question
    mine: Ending

    @property
    def agrees(self) -> bool:
        receipt = self.file.signed.receipt
        return (receipt.segments, receipt.end) == (self.mine.segments, self.mine.end)


def read_receipt_file(path: Path, chain: Chain) -> ReceiptFile:
    """Raises UserError for what is none, or is of another network."""
    try:
        file = ReceiptFile.from_bytes(path.read_bytes())
    except BadField as error:
        raise UserError(f"{path}: {error}", hint="take the file as `zoo complete` wrote it") from error
    serving = chain.network.contracts["serving"]
    if (file.chain_id, file.serving.lower()) != (chain.network.chain_id, serving.lower()):
        raise UserError(
            f"{path} is of the contract {file.serving} on chain {file.chain_id}; {chain.network.name} has {serving} on chain "
            f"{chain.network.chain_id}",
            hint="name the network of the receipt: --network",
        )
    return file


def check_receipt(
    chain: Chain, store: Store, file: ReceiptFile, runner: Callable[[Graph], Runner] = prepare, threads: int = 1
) -> CheckedReceipt:
    """Answer its question again. Raises UserError where it is not the seat's, or not of the question beside it, and the store's errors."""
    receipt = file.signed.receipt
    seat = chain.serving.seats(receipt.seat)
    if not seat.operator:
        raise UserError(f"there is no serving seat {receipt.seat}", hint="`zoo serving list` has all seats")
    domain = receipts.domain_of(file.chain_id, file.serving)
    if not signatures.is_signed(receipts.digest(receipt, domain), file.signed.signature, seat.signer):
        raise UserError(f"the receipt is not signed by the signer of seat {receipt.seat}", hint="so it convicts nobody")
    stored = StoredService.fetch(store, file.question["service"])
    question = stored.question(file.question)
    if question.receipt(receipt.seat, receipt.segments, receipt.end, receipt.issued) != receipt:
        raise UserError("the receipt is to another question than the one beside it", hint="ask who gave you the file")
    graph = stored.graph(question.program)
    execution = Execution(stored.service, graph, stored.weights(graph), runner(graph), threads)
    return CheckedReceipt(file, claim_of(seat.operator, receipt), question, execution.answer(question))
