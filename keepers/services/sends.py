"""Transactions of one look at the chain: a job's one after another, those of different jobs side by side.

Each transaction waits for its block. Sent one by one, a keeper with many jobs would miss deadlines behind its own transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from zoo_compute.errors import NeedsOperator, Refusal

if TYPE_CHECKING:
    from keepers.services.second_look import SecondLook
    from zoo_compute.chain.call import Call
    from zoo_compute.chain.sender import Sender
    from zoo_compute.chain.views import JobView

log = logging.getLogger("zoo.keeper")

AT_ONCE = 32  # jobs


class Sends:
    """Of one keeper. progressed: called after each transaction."""

    def __init__(self, sender: Sender, second_look: SecondLook, progressed: Callable[[], None]) -> None:
        self._sender, self._second_look, self._progressed = sender, second_look, progressed
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sends")
        self._decided: list[tuple[Call, int]] = []
        self._started: list[tuple[int, Future[None]]] = []

    @property
    def address(self) -> str:
        """That of the key which sends."""
        return self._sender.address

    def add(self, view: JobView, call: Call, *, value: int = 0) -> None:
        """Send this once its job is started. value: wei sent along. Raises RpcsDisagree where other RPCs do not show the view."""
        self._second_look.confirm(call, view)
        self._decided.append((call, value))

    def drop(self) -> None:
        """Do not send what was added since the last start."""
        self._decided = []

    def start(self, job: int) -> None:
        """Send what was added, in this order."""
        decided, self._decided = self._decided, []
        if decided:
            self._started.append((job, self._pool.submit(self._send, job, decided)))

    def finished(self) -> Iterator[tuple[int, Callable[[], None]]]:
        """By job that was started, what waits for its transactions; it raises the errors of `Sender.send` but for Refusal, which is
        logged. The next look must begin after them, or it would send again what is on its way.
        """
        started, self._started = self._started, []
        yield from ((job, sent.result) for job, sent in started)

    def _send(self, job: int, calls: Sequence[tuple[Call, int]]) -> None:
        """One that needs a person is reported after the others are sent."""
        needs: NeedsOperator | None = None
        for call, value in calls:
            what = f"job {job}: {call.contract}.{call.function}"
            try:
                log.info("%s in %s", what, self._sender.send(call, value=value).transaction_hash)
            except Refusal as refusal:  # another operator was quicker, or the chain moved on
                log.info("%s refused: %s", what, refusal.reason)
            except NeedsOperator as error:
                needs = error
            self._progressed()
        if needs is not None:
            raise needs
