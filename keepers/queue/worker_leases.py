"""A worker's lease on its work, and the outcome. When a worker dies, its lease expires and the keeper sends the work again."""

from __future__ import annotations

import json
import secrets
import threading
import time
from base64 import b64decode
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from keepers.queue.app import KEEPER_QUEUE, RESULT_TTL_S, WORK_QUEUE
from keepers.queue.names import DISPUTE_PREFIX, round_of
from keepers.queue.seals import Seals

RedisClient = Any  # redis.Redis, whose every answer is typed as a value or an awaitable

# Records of an outcome, each sealed. Under "failed" and "deaths" an earlier release left others, which are not read.
DONE, MISSING, FAILED, DEATHS = "done", "missing", "failures", "killed"
LEASE_S = 10
LEASE_RENEWAL_S = 2.0
QUARANTINE_S = 86_400
DISPUTE_QUARANTINE_S = 600
PASSING_S = 150.0  # of a failure that others can end, the first time


def quarantine_s(name: str) -> int:
    """How long work that killed a worker is not forgotten. An answer in a dispute is owed, and tried again soon."""
    return DISPUTE_QUARANTINE_S if name.startswith(DISPUTE_PREFIX) else QUARANTINE_S


def _name_in(message: bytes) -> str:
    """Of the work that a message asks for, as Celery writes it."""
    arguments, *_ = json.loads(b64decode(json.loads(message)["body"]))
    return str(arguments[0])


def worker_name(operator: str, name: str) -> str:
    """A worker's name in its leases. name: unique among the operator's workers."""
    return f"{operator}-{name}"


class WorkLog:
    """The worker's side: a lease while it works, and the outcome, each under the work's name."""

    def __init__(self, client: RedisClient, seals: Seals, worker: str = "worker") -> None:
        self._redis = client
        self._seals = seals
        self._worker = worker

    def release_leases(self, *, crashed: bool = False, died: bool = False, beside: Collection[str] = ()) -> None:
        """Give up the leases of the last process with this worker's name, which is gone.

        died: nobody ended it on purpose, so that its work counts as having killed it. crashed: of a fault in what it computed.
        beside: the machine's other workers, where the kernel may have killed this one for the memory that their work took.
        """
        leases = {key: self._redis.get(key) for key in self._redis.scan_iter(match="zoo:lease:*", count=1000)}
        works = {key for key in leases if not key.startswith(b"zoo:lease:lane-")}
        is_alone = {name.encode() for name in beside}.isdisjoint(leases[key] for key in works)
        for key, holder in leases.items():
            if holder == self._worker.encode():
                self._redis.delete(key)
                name = key.decode().removeprefix("zoo:lease:")
                if died:
                    self._count(DEATHS, name, {"alone": is_alone}, quarantine_s(name))
                if crashed:
                    self._redis.set(f"zoo:crashed:{name}", self._worker, ex=RESULT_TTL_S)

    def _count(self, kind: str, name: str, what: dict[str, Any], for_s: int) -> None:
        """Add to a list of records. Each has a number and a time, so that it counts once, and not for longer than it should."""
        record = {"id": secrets.token_hex(8), "at": time.time(), **what}
        self._redis.rpush(f"zoo:{kind}:{name}", self._seals.close(kind, name, record))
        self._redis.expire(f"zoo:{kind}:{name}", for_s)

    def is_asked_for(self, task: str, name: str, request: dict[str, Any], seal: str) -> bool:
        """Whether this operator's keeper sent the request."""
        return self._seals.is_of(seal, task, name, request)

    def take_crash(self, name: str) -> bool:
        """Whether a worker crashed in this work since the last call."""
        return bool(self._redis.delete(f"zoo:crashed:{name}"))

    def finished(self, name: str) -> bool:
        return bool(self._redis.exists(f"zoo:done:{name}"))

    def is_awaited(self, name: str) -> bool:
        """Whether the keeper should look now that `name` is done: nothing of its round is taken next, and no look is due anyway."""
        waiting = self._redis.lindex(WORK_QUEUE, -1)
        alike = waiting is not None and round_of(_name_in(waiting)) == round_of(name)
        return not alike and not self._redis.llen(KEEPER_QUEUE)

    def is_wanted(self, request: dict[str, Any]) -> bool:
        """Whether training can still be committed: it is of the chain's newest turn, or of the round after it."""
        newest = json.loads(self._redis.get(f"zoo:newest:{request['job']}") or "null")
        ahead = newest is not None and request["round"] == newest[0] + 1
        return newest is None or ahead or [request["round"], request["start_root"]] == newest

    @contextmanager
    def lease(self, name: str) -> Iterator[bool]:
        """Keep the lease while the block runs. Yields False if another worker has it.

        The message is spent with it: where there is neither lease nor outcome, the worker died, and the work is sent again at once.
        """
        key = f"zoo:lease:{name}"
        if not self._redis.set(key, self._worker, nx=True, ex=LEASE_S):
            yield False
            return
        self._redis.incr(f"zoo:begun:{name}")  # by workers that did not live to see its end
        self._redis.expire(f"zoo:begun:{name}", RESULT_TTL_S)
        self.allow_resend(name)
        stop = threading.Event()

        def renew() -> None:
            while not stop.wait(LEASE_RENEWAL_S):
                self._redis.set(key, self._worker, ex=LEASE_S)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield True
        finally:
            stop.set()
            thread.join()
            self._redis.delete(key, f"zoo:begun:{name}")

    @contextmanager
    def lane(self, job: object, most: int) -> Iterator[bool]:
        """Be one of at most `most` workers that compute answers and asks for a job while the block runs. Yields False if so many do already."""
        with ExitStack() as stack:
            yield any(stack.enter_context(self.lease(f"lane-{job}-{number}")) for number in range(most))

    def record(self, name: str, result: dict[str, Any]) -> None:
        self._redis.set(f"zoo:by:{name}", self._worker, ex=RESULT_TTL_S)
        self._redis.set(f"zoo:{DONE}:{name}", self._seals.close(DONE, name, result), ex=RESULT_TTL_S)
        self._redis.delete(*(f"zoo:{kind}:{name}" for kind in (FAILED, MISSING, DEATHS)))

    def record_unavailable(self, name: str, missing: dict[str, Any]) -> None:
        """Record data that others do not serve, and let the keeper send the work again."""
        self._redis.set(f"zoo:{MISSING}:{name}", self._seals.close(MISSING, name, missing), ex=RESULT_TTL_S)
        self.allow_resend(name)

    def allow_resend(self, name: str) -> None:
        """Let the keeper send the work again: this attempt gave nothing, and nobody is to blame."""
        self._redis.delete(f"zoo:sent:{name}")

    def record_failure(self, name: str, error: str, *, for_s: float = RESULT_TTL_S) -> None:
        """for_s: after which it does not count any more."""
        self._count(FAILED, name, {"error": error[:2000], "for_s": for_s}, RESULT_TTL_S)
        self._redis.delete(f"zoo:sent:{name}")

    def record_passing(self, name: str, error: str) -> None:
        """A failure that others can end. Each next one counts for twice as long."""
        before = min(int(self._redis.llen(f"zoo:{FAILED}:{name}")), 20)
        self.record_failure(name, error, for_s=min(RESULT_TTL_S, PASSING_S * 2**before))
