"""`zoo serving dispute FILE`: compute the answer of a receipt again, and have the contract convict whoever signed a false one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keepers.cli.own_disputes import TURNS, disputing
from zoo_compute.amounts import format_seconds
from zoo_compute.cli.context import Settings, pass_settings
from zoo_compute.cli.output import StatusLine
from zoo_compute.cli.sending import Sending
from zoo_compute.client.disputes import ALONE, ENDS
from zoo_compute.errors import ServingRefusal, UserError
from zoo_compute.inference.checked_receipts import CheckedReceipt, check_receipt, read_receipt
from zoo_compute.inference.market import Place
from zoo_compute.json_codec import encode
from zoo_compute.operators.admitted_receipts import AdmittedReceipt, admitted_receipts
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import claim_key
from zoo_compute.spec.frames import Kind, Result, claim_hash
from zoo_compute.spec.receipts import RECEIPTS

if TYPE_CHECKING:
    from keepers.services.disputing import Disputing
    from zoo_compute.chain.explorations import DisputeView

FALSE_EXIT_CODE, UNPAID = 3, 4  # as of `zoo verify`
LOOK_S = 2.0


@click.command("dispute", cls=Sending, signs=TURNS)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="RECEIPT")
@click.option("--store", metavar="DIR|kubo:URL", help="Content store. [env ZOO_STORE]")
@pass_settings
def dispute(settings: Settings, file: Path, store: str | None) -> int:
    """Answer the question of RECEIPT again, and convict the seat that signed it if the receipt is false.

    RECEIPT is a file that `zoo complete` wrote. A true one costs nothing: nothing is sent. A false one is admitted as a claim, and
    asked about down to the false number, which the contract computes itself. Each ask prepays its answer; you get all of it back when
    the receipt is convicted, and a share of the seat's lock if yours is the oldest seal of the false step. If interrupted, rerun the
    command: it goes on from the chain.

    Exit code: 0 when the receipt is true; 3 when it is false; 4 when it is false and your account cannot pay for its dispute.
    """
    client = settings.client(store=store, with_account=True)
    client.use_peers()
    chain = settings.chain()
    checked = check_receipt(chain, client.store, read_receipt(file, Place.of(chain)))
    receipt = checked.file.signed.receipt
    answer: dict[str, Any] = {"seat": receipt.seat, "operator": checked.claim.operator, "agrees": checked.agrees}
    if checked.agrees:
        settings.emit(answer, f"the receipt of seat {receipt.seat} is true: the answer is the same here")
        return 0
    settings.say(f"the receipt of seat {receipt.seat} is FALSE: here the answer ends in {checked.mine.end.hex()[:16]}")
    judged = ReceiptDispute(settings, client.store, checked)
    line = StatusLine()
    for view in judged.rounds():
        line.show(f"{len(view.picture.nodes)} asks, {len(view.picture.open_asks)} not answered yet")
    line.end()
    end = judged.end
    lines = [f"dispute {judged.name}: {ENDS[end] if end else 'not over'}"]
    lines += [
        f"a share of the lock is yours after {format_seconds(wait)}: run the same command then"
        for wait in judged.rewards_due()
    ]
    report = answer | {
        "dispute": judged.name,
        "outcome": end.name.lower() if end else None,
        "convicted": end in (End.JUDGED, End.SILENT, End.EXHAUSTED),
        "asks": judged.asks,
    }
    for error in judged.unpaid:
        report |= {"error": str(error), "hint": error.hint}
        settings.say(f"zoo: the receipt is not disputed: {error}\n     {error.hint}")
    settings.emit(report, lines)
    return UNPAID if judged.unpaid else FALSE_EXIT_CODE


class ReceiptDispute:
    """Admits a false receipt, and asks about it until it is resolved. Everything is on chain: a second one goes on where a first was."""

    def __init__(self, settings: Settings, store: Any, checked: CheckedReceipt) -> None:
        self._chain, self._checked = settings.chain(), checked
        self._hash = claim_hash(checked.claim)
        self._key = claim_key(RECEIPTS, checked.claim)
        self._lane: Disputing = disputing(settings, store, None, questions=self._question)
        self._sender = settings.sender()
        self.unpaid: list[Any] = []
        self.end: End | None = None
        self.asks = 0

    @property
    def name(self) -> str:
        return f"{ALONE[RECEIPTS]}:{self._checked.claim.operator}"

    def rounds(self) -> Iterator[DisputeView]:
        """The dispute as it is at each look, until it is over or cannot be paid for."""
        admitted = self._admitted()
        receipt = self._checked.file.signed.receipt
        place = {"kind": int(Kind.TRAINING), "slot": 0, "result": encode(Result(receipt.segments, receipt.end))}
        self._lane.challenge(RECEIPTS, admitted.view, [place])
        while self.end is None and not self.unpaid:
            head = self._chain.head()
            mine = next((each for each in self._lane.poll_once() if each.key == self._key), None)
            if mine is not None:
                self.asks = max(self.asks, len(mine.picture.nodes))
                self.end = mine.end
                yield mine
            else:
                self.end = self._outcome()
            self.unpaid = [error for key, error in self._lane.unpaid.items() if key == self._key]
            if self.end is None:
                self._chain.wait_for_block(head.number, LOOK_S)
        self._lane.poll_once()  # what is over is settled, and withdrawn

    def rewards_due(self) -> list[int]:
        """Seconds after which a share of the lock can be collected."""
        now = self._chain.time()
        return [max(0, after + 1 - now) for key, after in self._lane.rewards_due.items() if key == self._key]

    def _question(self, hash: bytes) -> dict[str, Any] | None:
        return self._checked.file.question if hash == self._hash else None

    def _admitted(self) -> AdmittedReceipt:
        """The claim that it is; whoever made it one."""
        if not self._chain.serving.admitted(self._hash).status:
            signed = self._checked.file.signed
            with suppress(ServingRefusal):  # somebody did meanwhile, or nobody can: then no event is found below
                self._sender.send(self._chain.serving.admit(astuple(signed.receipt), signed.signature))  # type: ignore[arg-type]
        every = admitted_receipts(self._chain, self._checked.claim.operator)
        admitted = next((each for each in every if each.claim_hash == self._hash), None)
        if admitted is None:
            raise UserError(
                "the receipt cannot be admitted any more", hint="a receipt counts for a window after it was issued"
            )
        is_over = self._chain.time() > admitted.deadline and not self._chain.serving.admitted(self._hash).is_disputed
        if is_over and self._outcome() is None:
            raise UserError(
                "somebody admitted the receipt before, and nobody asked about it until its deadline",
                hint="dispute a false receipt as soon as you have it",
            )
        return admitted

    def _outcome(self) -> End | None:
        """How it ended, by the Referee's word; None while it is open or nobody has asked."""
        status = self._chain.referee.claims(self._key) & 0xF
        return End(status) if status in set(End) else None
