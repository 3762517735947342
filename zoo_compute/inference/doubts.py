"""Receipts that a client has, looked at later: their answers are computed again, and what is false becomes evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from zoo_compute.inference.checked_receipts import question_in, read_receipt
from zoo_compute.inference.checking import Checker, is_true
from zoo_compute.inference.market import Place
from zoo_compute.inference.receipts import Receipts
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.receipt_file import ReceiptFile

if TYPE_CHECKING:
    from zoo_compute.store.interface import Store


class Doubts:
    """time: the protocol's. home: the client's folder for this network. Sends nothing, and needs no account."""

    def __init__(self, place: Place, time: Callable[[], int], store: Store, home: Path) -> None:
        self._place, self._time, self._store = place, time, store
        self._receipts = Receipts(home, place.window_s)
        self._checkers: dict[str, tuple[StoredService, Checker]] = {}

    def unchecked(self) -> list[ReceiptFile]:
        """Those of answers that nobody computed again, as long as they count."""
        return list(self._receipts.unchecked(self._time()))

    def read(self, path: Path) -> ReceiptFile:
        """Raises UserError for a file that is no receipt of this network."""
        return read_receipt(path, self._place)

    def recheck(self, file: ReceiptFile) -> Path | None:
        """None if the receipt is true, else the file of evidence. Raises UserError and the store's errors."""
        cid = file.question["service"]
        if cid not in self._checkers:
            stored = StoredService.fetch(self._store, cid)
            self._checkers[cid] = stored, Checker(stored)
        stored, checker = self._checkers[cid]
        if is_true(file.signed.receipt, checker.answer(question_in(file, stored))):
            self._receipts.checked(file)
            return None
        return self._receipts.accuse(file)

    def close(self) -> None:
        self._receipts.close()
