"""Signatures of custodians on their way to whoever hands them in: my own are published beside my store, others' are asked for.

Asking waits for others' machines, so it has a thread of its own; the keeper's looks read what was heard.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from keepers.decisions.custody_statements import MAX_BYTES, Statement
from repops.fields import BadField
from zoo_compute.atomic import write_atomically
from zoo_compute.store import BlockStore, Store
from zoo_compute.store.addresses import Scope
from zoo_compute.store.gateway import statement_path
from zoo_compute.store.peers import GatewayClient, HttpRequest, PeerFailed, is_gateway

log = logging.getLogger("zoo.custody")

ANSWER_S = 3.0  # for one statement
ASKED_AT_ONCE = 8
FORGET_AFTER_S = 60.0  # nobody wanted it for so long


class Wanted(NamedTuple):
    job: int
    operator: int


class Statements:
    """endpoints: by operator, where its gateway answers."""

    def __init__(self, store: Store, poll_s: float) -> None:
        self._root = store.root if isinstance(store, BlockStore) else None
        self._poll_s = poll_s
        self._mine: dict[int, Statement] = {}
        self._wanted: dict[Wanted, float] = {}  # and when it was wanted last
        self._heard: dict[Wanted, Statement] = {}
        self._tags: dict[Wanted, str] = {}  # of what was heard, which is not sent twice
        self.endpoints: Mapping[int, str] = {}
        self.scope = Scope.ANY  # where these may be

    def mine(self, job: int) -> Statement:
        if job not in self._mine:
            self._mine[job] = self._read(job)
        return self._mine[job]

    def publish(self, statement: Statement) -> None:
        """Others see it from now on, also after a restart."""
        if statement == self._mine.get(statement.job):
            return
        if self._root is not None:
            write_atomically(statement_path(self._root, statement.job), statement.to_bytes(), mode=0o644)
        self._mine[statement.job] = statement

    def forget(self, job: int) -> None:
        self._mine.pop(job, None)
        if self._root is not None:
            statement_path(self._root, job).unlink(missing_ok=True)

    def of(self, job: int, operator: int) -> Statement | None:
        """What another operator said last; asked for from now on."""
        wanted = Wanted(job, operator)
        self._wanted[wanted] = time.monotonic()
        return self._heard.get(wanted)

    def run(self, progressed: Callable[[], None] = lambda: None) -> None:
        while True:
            progressed()
            time.sleep(self._poll_s)
            try:
                self.poll_once()
            except Exception:
                log.exception("unexpected")

    def poll_once(self) -> None:
        """Ask for everything that is wanted, several at once: who does not answer keeps nobody waiting for long. What is the same as before is
        not sent again.
        """
        now = time.monotonic()
        for wanted in [each for each, at in self._wanted.items() if now - at > FORGET_AFTER_S]:
            del self._wanted[wanted]
            self._heard.pop(wanted, None)
            self._tags.pop(wanted, None)
        asked = [each for each in list(self._wanted) if is_gateway(self.endpoints.get(each.operator, ""))]
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            for each, answer in zip(asked, pool.map(self._ask, asked), strict=True):
                if answer is not None:
                    self._heard[each], self._tags[each] = answer

    def _ask(self, wanted: Wanted) -> tuple[Statement, str] | None:
        """What it says now, and the tag of that; None if it is what was heard, or nothing."""
        client = GatewayClient(self.endpoints[wanted.operator], self.scope)
        headers = {"If-None-Match": self._tags[wanted]} if self._tags.get(wanted) else {}
        request = HttpRequest("GET", f"/custody/{wanted.job}", headers)
        try:
            status, body, said = client.ask(request, deadline=time.monotonic() + ANSWER_S, max_bytes=MAX_BYTES)
            statement = Statement.from_bytes(body) if status == 200 else None
        except (PeerFailed, BadField) as error:
            log.debug("operator %d says nothing of job %d: %s", wanted.operator, wanted.job, error)
            return None
        finally:
            client.close()
        return (statement, said.get("Etag", "")) if statement is not None and statement.job == wanted.job else None

    def _read(self, job: int) -> Statement:
        try:
            return Statement.from_bytes(statement_path(self._root, job).read_bytes()) if self._root else Statement(job)
        except FileNotFoundError:
            return Statement(job)
        except BadField as error:  # whatever it was, I sign again
            log.warning("job %d: what I said before cannot be read: %s", job, error)
            return Statement(job)
