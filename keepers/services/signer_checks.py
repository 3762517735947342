"""Whether custodians serve what they signed for: of each turn's checkpoint one signer, chosen by chance, is asked over HTTP.

Nobody misses a custodian that signs and keeps nothing, while others serve what it signed for. So every keeper with a seat looks after
one; together they look after all. Asking waits for others' machines, so it has a thread of its own.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

from keepers.decisions.demands import signer_to_check
from keepers.decisions.orders import OperatorContext
from zoo_compute.chain.views import Checkpoint, JobView
from zoo_compute.client.job import confirmed
from zoo_compute.errors import ZooError
from zoo_compute.formats.bundles import MAX_POINTER_BYTES, Pointer
from zoo_compute.store import Store
from zoo_compute.store.cid import raw_cid
from zoo_compute.store.peers import is_gateway

log = logging.getLogger("zoo.custody")

FETCH_TIMEOUT_S = 5.0  # of the checkpoint's pointer
LOOKS = 2  # in vain: a store that is started again is back at the next one


@dataclass
class Check:
    """Of one signer of a checkpoint. since: when it was chosen, by the protocol's time; failed: looks at which it did not serve it."""

    made: Checkpoint
    place: int
    operator: int
    since: int
    failed: int = 0
    serves: bool = False


class SignerChecks:
    """endpoints: by operator, where its gateway answers."""

    def __init__(self, store: Store, poll_s: float) -> None:
        self._store = store
        self._poll_s = poll_s
        self._checks: dict[int, Check] = {}  # by job, of its newest checkpoint
        self.endpoints: Mapping[int, str] = {}

    def silent(self, view: JobView, me: OperatorContext) -> tuple[Checkpoint, int] | None:
        """The newest checkpoint, and the place of the signer that I look after, if that has not served it for long enough."""
        check = self._checks.get(view.job)
        newest = view.checkpoint_of(view.run.round, view.run.start_root, view.run.turn) if view.run else None
        if newest is None or newest.final:
            self._checks.pop(view.job, None)
            return None
        if check is None or check.made.fields != newest.fields:
            chosen = signer_to_check(view, me, newest, secrets.randbits(32))
            if chosen is not None:
                self._checks[view.job] = Check(newest, *chosen, since=view.now)
            return None
        is_silent = not check.serves and check.failed >= LOOKS and view.now >= check.since + me.demand_after_s
        return (check.made, check.place) if is_silent else None

    def run(self) -> None:
        while True:
            time.sleep(self._poll_s)
            try:
                self.poll_once()
            except Exception:
                log.exception("unexpected")

    def poll_once(self) -> None:
        """Look at every signer that was not seen to serve what it signed for."""
        for check in [each for each in list(self._checks.values()) if not each.serves]:
            try:
                check.serves = self._serves(check)
            except (ZooError, ValueError) as error:  # the pointer cannot be read here: that says nothing of the signer
                log.debug("turn %d: %s", check.made.turn, error)
                continue
            check.failed += not check.serves

    def _serves(self, check: Check) -> bool:
        """A store that is asked in another way than over HTTP counts as serving: what it does not have, others miss."""
        url = self.endpoints.get(check.operator, "")
        if url and not is_gateway(url):
            return True
        pointer = raw_cid(check.made.cid)
        data = self._store.read(pointer, max_bytes=MAX_POINTER_BYTES, timeout_s=FETCH_TIMEOUT_S)
        return bool(url) and bool(confirmed([pointer, Pointer.from_bytes(data).state], [url]))
