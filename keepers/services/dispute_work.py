"""What a lane of disputes asks its operator's workers for, and when it asks again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from keepers.queue.work_queue import DISPUTE_TASK, WorkStatus
from zoo_compute.disputes.roles import AUTHORS, FALSE

Ask = Callable[[str, str, dict[str, Any]], WorkStatus]  # task, name of the work, request
PATIENCE_S = 1.0  # in which what is being computed is waited for, before the chain is looked at again
PAUSE_S = 0.05
RETRY_S = 30.0  # after which work that failed is asked for again: silence would lose the claim


class DisputeWork:
    """Work that failed stays failed under its name, and so does an answer that had to be left out. After a while this asks for it
    under another name.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: dict[str, dict[str, Any]] = {}  # by the name of work that is being computed: its request
        self._failed: dict[bytes, dict[str, list[float]]] = {}  # when, by the claim's key and the name of work

    def begin_look(self, open_: Collection[bytes]) -> None:
        """open_: keys of the claims that are in dispute; of others nothing is kept."""
        self._waiting.clear()
        self._failed = {key: failed for key, failed in self._failed.items() if key in open_}

    def submitted(self, key: bytes, name: str, request: dict[str, Any]) -> WorkStatus:
        """How far work on the claim of this key is."""
        of_claim = self._failed.setdefault(key, {})
        failed = of_claim.get(name, [])
        again = len(failed) - (bool(failed) and time.monotonic() < failed[-1] + RETRY_S)
        attempt = f"{name}-{again}" if again else name
        status = self._ask(DISPUTE_TASK, attempt, request)
        if status.state not in ("done", "failed"):
            self._waiting[attempt] = request
        elif again == len(failed) and (status.state == "failed" or failing(status.result)):
            of_claim[name] = [*failed, time.monotonic()]
        return status

    @property
    def is_waiting(self) -> bool:
        """Whether something is being computed, or was when the last look ended."""
        return bool(self._waiting)

    def wait(self) -> None:
        """Until some of what is being computed is there, or for a while. No dispute waits for another one's."""
        end = time.monotonic() + PATIENCE_S
        while self._waiting and time.monotonic() < end:
            states = {self._ask(DISPUTE_TASK, name, request).state for name, request in self._waiting.items()}
            if states & {"done", "failed"}:
                return
            time.sleep(PAUSE_S)


def failing(result: dict[str, Any] | None) -> dict[str, str]:
    """By the id of an ask, in hex: why it could not be computed. Whose claim is false, or needs a key, is no failure."""
    unanswered = result["unanswered"] if result else {}
    return {id: why for id, why in unanswered.items() if why not in (AUTHORS, FALSE)}
