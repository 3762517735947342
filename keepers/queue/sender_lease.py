"""Which of an operator's keepers sends: the one that has the lease in the broker that they share. The others wait.

The holder renews the lease at a third of its time, and may send only while its last renewal began less than four fifths of that time ago, by
its own clock: a process that was stopped and goes on sends nothing. Whoever gets the lease waits for its whole time before it sends anything,
whatever became of the one before: so a broker that was emptied, or whose writer deletes the lease, does not make two senders.
If two keepers send all the same, the chain takes one transaction of each nonce (zoo_compute/chain/sender.py, docs/design/decisions/0041-one-of-several-keepers-sends.md).
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any, NoReturn

import redis

from keepers.queue.seals import FILE, Seals
from zoo_compute.chain.pending_transactions import PendingTransaction
from zoo_compute.errors import ConfigError, Unreachable

log = logging.getLogger("zoo.keeper")

RedisClient = Any  # redis.Redis, whose every answer is typed as a value or an awaitable

KIND, OUTBOX = "sender", "outbox"  # of sealed records
KEY = f"zoo:{KIND}:lease"
MARGIN = 0.2  # of the lease's time, by which its holder stops before it ends
RENEWALS = 3  # in that time
EXIT = 75  # of a process that is not the sender any more: its daemon starts it again, and it waits
RENEW = """if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"""
RELEASE = """if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"""


def since_boot() -> float:
    """Seconds that also pass while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def end_process(why: str) -> NoReturn:
    """At once, wherever its threads are: as every keeper, it may end at any line."""
    log.error("this keeper is not the sender any more (%s); it ends, and waits after its restart", why)
    os._exit(EXIT)


def holder(client: RedisClient, seals: Seals) -> str:
    """The name of the keeper that has the lease; empty where none has. Raises redis.RedisError, ConfigError."""
    record = client.get(KEY)
    if record is None:
        return ""
    try:
        return str(seals.open(KIND, KEY, record)["holder"])
    except ValueError:
        raise ConfigError(
            f"the broker's {KEY} has no seal of this folder's {FILE}",
            hint=f"copy {FILE} from the other keeper's folder; if both have the same, somebody else writes the broker: delete that record",
        ) from None


class SenderLease:
    """The lease, and the holder's pending transactions, as `zoo_compute.chain.fence.Fence` asks for them.

    client: gives up soon, and repeats nothing. account: whose transactions these are. lose: called when the lease is lost; does not return.
    """

    def __init__(
        self,
        client: RedisClient,
        seals: Seals,
        *,
        name: str,
        account: str,
        lease_s: float,
        clock: Callable[[], float] = since_boot,
        lose: Callable[[str], NoReturn] = end_process,
    ) -> None:
        self._redis, self._seals, self._clock, self._lose = client, seals, clock, lose
        self.lease_s = lease_s
        self._account = account
        self._record = seals.close(KIND, KEY, {"holder": name, "token": secrets.token_hex(16)}).encode()
        self._outbox = f"zoo:{OUTBOX}:{account}"
        self._taken = self._renewed = -float("inf")  # when it was taken, and when the last renewal that succeeded began
        self._released = threading.Event()

    # -- the lease

    def take(self) -> bool:
        """Whether this process has the lease now. Raises redis.RedisError."""
        began = self._clock()
        taken = self._redis.set(KEY, self._record, nx=True, px=int(self.lease_s * 1_000))
        if not taken and self._redis.get(KEY) != self._record:  # else the answer to an earlier request was lost
            return False
        self._renewed, self._taken = began, self._clock()
        return True

    def renew(self) -> None:
        """Keep it; a broker that does not answer is asked again at the next renewal. Ends this process where it is lost."""
        began = self._clock()
        if not self._is_fresh(began):
            self.left("the lease was not renewed in time")
        try:
            kept = self._redis.eval(RENEW, 1, KEY, self._record, int(self.lease_s * 1_000))
        except redis.RedisError as error:
            log.warning("the sender's lease is not renewed: %s; will try again", error)
            return
        if not kept:
            self.left("the broker gave the lease to another keeper, or lost it")
        self._renewed = began

    def keep(self) -> None:
        """Renew it in a thread of its own until `release`."""

        def run() -> None:
            while not self._released.wait(self.lease_s / RENEWALS):
                self.renew()

        threading.Thread(target=run, name="sender lease", daemon=True).start()

    def waits_s(self) -> float:
        """How long until whoever had it before has surely stopped sending."""
        return max(0.0, self._taken + self.lease_s - self._clock())

    def release(self) -> None:
        """Let another keeper have it. Nothing is sent any more."""
        self._released.set()
        try:
            self._redis.eval(RELEASE, 1, KEY, self._record)
        except redis.RedisError as error:  # then it ends by itself
            log.warning("the sender's lease is not given up: %s", error)

    def _is_fresh(self, now: float) -> bool:
        return now - self._renewed < self.lease_s * (1 - MARGIN)

    # -- what a sender asks for (zoo_compute.chain.fence.Fence)

    def check(self) -> None:
        """Return only where this process may sign and send."""
        if self._released.is_set():
            raise SystemExit  # ends the thread: its process is about to end
        if self.waits_s() > 0 or not self._is_fresh(self._clock()):
            self.left("the lease was not renewed in time")

    def left(self, why: str) -> NoReturn:
        """Give the lease up, if it is still this process's, and end the process."""
        self.release()
        self._lose(why)

    def write(self, changed: Mapping[int, PendingTransaction], removed: Collection[int]) -> None:
        """Raises Unreachable."""
        try:
            for nonce, entry in changed.items():
                self._redis.hset(
                    self._outbox, str(nonce), self._seals.close(OUTBOX, self._name_of(nonce), asdict(entry))
                )
            if removed:
                self._redis.hdel(self._outbox, *map(str, removed))
        except redis.RedisError as error:
            raise Unreachable(
                f"a successor could not find what is sent now: {error}", hint="check the broker"
            ) from error

    def offer(self, entries: Mapping[int, PendingTransaction]) -> None:
        """What this process sent before it stood by, in case the broker lost it. Raises redis.RedisError."""
        for nonce, entry in entries.items():
            self._redis.hsetnx(self._outbox, str(nonce), self._seals.close(OUTBOX, self._name_of(nonce), asdict(entry)))

    def read(self) -> dict[int, PendingTransaction]:
        """Raises Unreachable."""
        try:
            records = self._redis.hgetall(self._outbox)
        except redis.RedisError as error:
            raise Unreachable(f"what was sent before cannot be read: {error}", hint="check the broker") from error
        entries = {}
        for field, record in records.items():
            try:
                nonce = int(field)
                entries[nonce] = PendingTransaction(**self._seals.open(OUTBOX, self._name_of(nonce), record))
            except (ValueError, TypeError) as error:
                log.error("%s: it is left out; somebody else writes the broker", error)
        return entries

    def _name_of(self, nonce: int) -> str:
        return f"{self._account}-{nonce}"
