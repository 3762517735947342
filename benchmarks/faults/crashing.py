"""An operator's process that dies by kill -9 at a persisted step, just before it and just after it: when the network first passes it, and once
more at another time.

    python -m benchmarks.faults.crashing CONTROL KIND HOME MODULE ARGUMENTS...      the rest is that of `python -m MODULE`

A step is what another process or a later life can see: a file of the operator's opened for writing, renamed, linked or removed, a
commit of SQLite, a write to Redis, a transaction handed to the RPCs. CONTROL is the operator's folder of orders: while it has a file
`on`, the process kills itself at each step whose name is not in `../fired.KIND`, and adds it there. `../seen.KIND` gets the name of
every step that was passed. `skew` has the seconds by which this process's wall clock is wrong.
"""

from __future__ import annotations

import datetime
import os
import random
import re
import runpy
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIME = time.time  # before it is made wrong
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
MOVES = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.truncate")
READS = frozenset(
    "GET MGET LLEN LRANGE LINDEX PING SCAN INFO TTL EXISTS KEYS SMEMBERS HGETALL CLIENT SELECT BRPOP HELLO AUTH "  # noqa: SIM905
    "STRLEN TIME DBSIZE ZREVRANGEBYSCORE ZRANGEBYSCORE".split()
)
LIVES = "ZOO_CHAOS_LIVES_S"  # in the environment, instead of the next
LIVES_S = 4.0  # at least, before it dies at a step for the second time
AGAIN = 1 / 8  # of such passes, so that they are spread over what the process does
_NAMES = (
    (re.compile(r"baf[a-z0-9]{20,}"), "CID"),
    (re.compile(r"/blocks/[a-z0-9]{2}\b"), "/blocks/NN"),
    (re.compile(r"\.[a-z0-9_]{8}$"), ".TMP"),
    (re.compile(r"\.[0-9a-f]{12}\.part$"), ".TMP"),
    (re.compile(r"0x[0-9a-f]{8,}|[0-9a-f]{8,}(-[0-9a-f]+)*"), "HASH"),
    (re.compile(r"\d+"), "N"),
)


def step_name(text: str) -> str:
    """Without what differs from one time to the next."""
    for pattern, name in _NAMES:
        text = pattern.sub(name, text)
    return text


class Killer:
    """Of one process."""

    def __init__(self, control: Path, kind: str, home: Path) -> None:
        self._control, self._home = control, str(home)
        self._fired_file, self._seen_file = control.parent / f"fired.{kind}", control.parent / f"seen.{kind}"
        self._seen: set[str] = set()
        self._pid, self._is_busy = os.getpid(), False
        self._again_from = time.monotonic() + float(os.environ.get(LIVES, LIVES_S))

    def listen(self) -> None:
        sys.addaudithook(self._heard)

    def _heard(self, event: str, values: tuple[Any, ...]) -> None:
        if event == "open":
            if not isinstance(values[2], int) or not values[2] & WRITES:
                return
        elif event not in MOVES:
            return
        path = str(values[0])
        if path.startswith(self._home):
            verb = "open" if event == "open" else event.removeprefix("os.")
            aim = values[1] if event == "os.rename" else path
            self.point(f"{verb} {str(aim).removeprefix(self._home)}")

    def point(self, what: str) -> None:
        """A step is next, or was just made."""
        if self._is_busy or os.getpid() != self._pid:  # a child's step is not this process's
            return
        self._is_busy = True
        try:
            name = step_name(what)
            if name not in self._seen:
                self._seen.add(name)
                _append(self._seen_file, name)
            if (self._control / "on").exists() and self._is_next(name):
                _append(self._fired_file, f"{name}\t{TIME()}\t{self._pid}")
                os.kill(self._pid, signal.SIGKILL)
        finally:
            self._is_busy = False

    def _is_next(self, name: str) -> bool:
        fired = self._fired_file.read_text().splitlines() if self._fired_file.exists() else []
        times = sum(line.partition("\t")[0] == name for line in fired)
        return not times or (times == 1 and time.monotonic() >= self._again_from and random.random() < AGAIN)

    def around(self, owner: Any, name: str, what: Callable[..., str]) -> None:
        """Two points at each call of a method whose `what(self, *arguments)` is not empty."""
        real = getattr(owner, name)

        def called(this: Any, *arguments: Any, **options: Any) -> Any:
            said = what(this, *arguments)
            if said:
                self.point(f"before {said}")
            result = real(this, *arguments, **options)
            if said:
                self.point(f"after {said}")
            return result

        setattr(owner, name, called)


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def watch_sqlite(killer: Killer) -> None:
    class Watched(sqlite3.Connection):
        def __exit__(self, *error: Any) -> Any:
            killer.point("before commit of SQLite")
            result = super().__exit__(*error)
            killer.point("after commit of SQLite")
            return result

    real = sqlite3.connect
    sqlite3.connect = lambda *args, **options: real(*args, **({"factory": Watched} | options))


def watch_redis(killer: Killer) -> None:
    import redis.client

    def command(_: Any, *arguments: Any) -> str:
        verb = str(arguments[0]).upper() if arguments else ""
        return "" if verb in READS else f"redis {verb} {_key(arguments)}"

    def pipeline(this: Any, *_: Any) -> str:
        queued = sorted({str(each[0][0]) for each in getattr(this, "command_stack", ()) if each[0]} - READS)
        return f"redis pipeline {' '.join(queued)}" if queued else ""

    killer.around(redis.client.Redis, "execute_command", command)
    killer.around(redis.client.Pipeline, "execute", pipeline)


def _key(arguments: tuple[Any, ...]) -> str:
    key = arguments[1] if len(arguments) > 1 else ""
    text = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
    return "" if "\n" in text else ":".join(text.split(":")[:2])


def watch_sending(killer: Killer) -> None:
    from zoo_compute.chain.provider import FailoverProvider

    def sent(_: Any, method: str, *__: Any) -> str:
        return "sending of a transaction" if method == "eth_sendRawTransaction" else ""

    killer.around(FailoverProvider, "make_request", sent)


class Clock:
    """The wall clock, wrong by what `skew` says. It is read four times a second."""

    def __init__(self, control: Path) -> None:
        self._file = control / "skew"
        self._read_at, self._skew = -1.0, 0.0

    def skew(self) -> float:
        if time.monotonic() - self._read_at > 0.25:
            self._read_at = time.monotonic()
            try:
                self._skew = float(self._file.read_text())
            except (OSError, ValueError):
                self._skew = 0.0
        return self._skew

    def use(self) -> None:
        clock, real = self, datetime.datetime

        class Kind(type):
            def __instancecheck__(cls, value: object) -> bool:
                return isinstance(value, real)

        class Skewed(real, metaclass=Kind):  # type: ignore[valid-type, misc]
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return real.now(tz) + datetime.timedelta(seconds=clock.skew())

            @classmethod
            def utcnow(cls) -> Any:
                return real.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(seconds=clock.skew())

        time.time = lambda: TIME() + clock.skew()
        time.time_ns = lambda: int(time.time() * 1e9)
        datetime.datetime = Skewed  # type: ignore[misc]


def main() -> None:
    control, kind, home, module = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    sys.argv = [module, *sys.argv[5:]]
    killer = Killer(control, kind, home)
    Clock(control).use()
    from benchmarks.faults import windows

    windows.use()
    watch_sqlite(killer)
    if kind != "gateway":
        watch_redis(killer)
    if kind == "keeper":
        watch_sending(killer)
    killer.listen()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
