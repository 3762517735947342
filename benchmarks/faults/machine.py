"""Faults of an operator's machine: processes killed at their steps, Redis, disks, the store, the clock."""

from __future__ import annotations

import errno
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import redis

from benchmarks.faults.firing import Firing, NotFired
from benchmarks.faults.network import STORE_BYTES

WHOLE_JOBS = 2
KINDS = ("keeper", "worker", "gateway")
EVERY_STEP_S = 600.0  # for all steps, each twice if it is passed so often
SKEW_S = 600
NAMES = ("alpha", "beta", "epsilon")


def steps(firing: Firing, times: int) -> None:
    """kill -9 at every persisted step of keeper, workers and gateway, from their first start on (`ChaosNetwork.dies`): when it is first passed,
    and once more.
    """
    network, row = firing.network, firing.record.row("kill -9 at every persisted step")
    ons = [network.control / name / "on" for name in NAMES]
    for on in ons:
        on.touch()
    known: dict[str, int] = dict.fromkeys(KINDS, 0)
    began = time.monotonic()
    since = time.time()  # a process that is not ready yet takes longer
    pending: list[tuple[str, str, float]] = []
    while time.monotonic() - began < EVERY_STEP_S:
        firing.wait(0.3)
        for kind in KINDS:
            fresh = _lines(network.control / f"fired.{kind}")[known[kind] :]
            for line in fresh:
                known[kind] += 1
                step, at, pid = line.split("\t")
                row.fired += 1
                victim = _who(firing, kind, int(pid))
                pending = [each for each in pending if each[:2] != victim]  # it died again before it was useful
                if victim and float(at) > since:
                    pending.append((*victim, float(at)))
                firing.say(f"killed {kind} {victim} at {step}")
        for each in list(pending):
            if network.is_useful(*each):
                pending.remove(each)
                row.recovered.append(time.time() - each[2])
    for on in ons:
        on.unlink()
    for name, process, killed_at in pending:
        firing.recover(row, [(name, process)], killed_at)
    seen = {kind: len(set(_lines(network.control / f"seen.{kind}"))) for kind in KINDS}
    left = _left(firing)
    row.details |= {"steps": seen, "kills": dict(known), "not_killed_at": left}
    whole = firing.record.closed(firing.network.devnet.chain)
    if left or whole < WHOLE_JOBS:
        raise NotFired(f"{row.fault}: {len(left)} steps are left, and {whole} jobs were over, which have all steps")


def _left(firing: Firing) -> list[str]:
    """Steps that were passed and at which nothing was killed yet."""
    control, left = firing.network.control, []
    for kind in KINDS:
        fired = {line.partition("\t")[0] for line in _lines(control / f"fired.{kind}")}
        left += [f"{kind}: {step}" for step in sorted(set(_lines(control / f"seen.{kind}")) - fired)]
    return left


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _who(firing: Firing, kind: str, pid: int) -> tuple[str, str] | None:
    """Operator and process; it may have been started again already, so the log is asked too."""
    for name, daemon in firing.network.daemons.items():
        for process, child in daemon.children.items():
            if process.split("-")[0] == kind and child.process is not None and child.process.pid == pid:
                return name, process
    for name, daemon in firing.network.daemons.items():
        for process in daemon.children:
            log = daemon.config.log_path(process)
            if process.split("-")[0] == kind and log.exists() and f"ready as process {pid}" in log.read_text():
                return name, process
    return None


def redis_killed(firing: Firing, times: int) -> None:
    for turn in range(times):
        name = NAMES[turn % len(NAMES)]
        daemon, killed = firing.network.daemons[name], list[int]()
        firing.lasting(
            "Redis killed",
            lambda: killed.append(daemon.kill("broker", hold=True)),  # noqa: B023
            lambda: daemon.resume("broker"),  # noqa: B023
            hold_s=4,
            suffers=[(name, "broker"), (name, "keeper")],
            fired=lambda: len(killed),  # noqa: B023
        )


def redis_emptied(firing: Firing, times: int) -> None:
    for turn in range(times):
        name, gone = NAMES[turn % len(NAMES)], list[int]()

        def empty(name: str = name, gone: list[int] = gone) -> None:
            client = firing.network.redis_of(name)
            keys = int(client.dbsize())  # type: ignore[arg-type]
            client.flushall()
            gone.extend(range(keys))

        firing.lasting(
            "Redis emptied", empty, lambda: None, hold_s=2,
            suffers=[(name, "keeper")], fired=lambda: len(gone),  # noqa: B023
        )  # fmt: skip


def redis_slow(firing: Firing, times: int) -> None:
    """It runs a twentieth of the time, in pauses of a second and a half."""
    for turn in range(times):
        name, slow = NAMES[turn % len(NAMES)], list[float]()
        child = firing.network.child(name, "broker")
        assert child.process is not None
        process = child.process

        def pause(name: str = name, slow: list[float] = slow, process: subprocess.Popen[bytes] = process) -> None:
            for _ in range(8):
                process.send_signal(signal.SIGSTOP)
                began = time.monotonic()
                try:
                    firing.wait(1.5)
                finally:
                    process.send_signal(signal.SIGCONT)
                slow.append(time.monotonic() - began)
                time.sleep(0.08)

        firing.lasting(
            "Redis slow", pause, lambda: None, hold_s=0,
            suffers=[(name, "broker"), (name, "keeper")], fired=lambda: len(slow),  # noqa: B023
        )  # fmt: skip


def disk_full(firing: Firing, times: int) -> None:
    for turn in range(times):
        name = NAMES[turn % len(NAMES)]
        home = firing.network.folder / name
        refused: list[int] = []

        def fill(home: Path = home, refused: list[int] = refused) -> None:
            for folder in (home, home / "store"):
                refused.append(_fill(folder / "filler"))

        def empty(home: Path = home) -> None:
            for folder in (home, home / "store"):
                _fill(folder / "filler2")  # still full: what was free meanwhile, its processes have used
                for filler in ("filler", "filler2"):
                    (folder / filler).unlink(missing_ok=True)

        firing.lasting(
            "disk full", fill, empty, hold_s=12, suffers=[(name, "keeper")], fired=lambda: len(refused)  # noqa: B023
        )  # fmt: skip


def _fill(path: Path) -> int:
    """Until the disk is full; how many bytes it took. Raises AssertionError if it never was."""
    size = 0
    try:
        with path.open("ab", buffering=0) as file:
            while True:
                size += file.write(bytes(65_536)) or 0
                assert size < 2**30, f"{path} takes all"
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    return size


def store_gone(firing: Firing, times: int) -> None:
    """Another, empty disk is where the store was: its own comes back later."""
    for turn in range(times):
        name = NAMES[turn % len(NAMES)]
        store = firing.network.folder / name / "store"
        hidden: list[int] = []

        def hide(store: Path = store, hidden: list[int] = hidden) -> None:
            there = len(list(store.iterdir()))
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={STORE_BYTES},mode=700", "tmpfs", str(store)], check=True
            )
            assert not list(store.iterdir())
            hidden.extend(range(there))

        def back(store: Path = store) -> None:
            subprocess.run(["umount", "-l", str(store)], check=True)
            assert list(store.iterdir())

        firing.lasting(
            "store gone", hide, back, hold_s=10,
            suffers=[(name, "keeper"), (name, "gateway")], fired=lambda: len(hidden),  # noqa: B023
        )  # fmt: skip


def store_read_only(firing: Firing, times: int) -> None:
    for turn in range(times):
        name = NAMES[turn % len(NAMES)]
        store = firing.network.folder / name / "store"
        refused: list[int] = []

        def protect(store: Path = store, refused: list[int] = refused) -> None:
            assert firing.until(lambda: _remount(store, "ro"), 10), "a file stays open for writing"
            try:
                (store / "probe").touch()
            except OSError as error:
                refused.append(error.errno or 0)

        def release(store: Path = store) -> None:
            assert _remount(store, "rw")

        firing.lasting(
            "store read-only", protect, release, hold_s=10,
            suffers=[(name, "keeper"), (name, "gateway")], fired=lambda: len(refused),  # noqa: B023
        )  # fmt: skip


def _remount(folder: Path, mode: str) -> bool:
    return subprocess.run(["mount", "-o", f"remount,{mode}", str(folder)], capture_output=True).returncode == 0


def clock_wrong(firing: Firing, times: int) -> None:
    """Ten minutes ahead, then ten minutes behind: of every process of one operator, Redis among them."""
    for turn in range(times):
        name, skew_s = NAMES[turn // 2 % len(NAMES)], SKEW_S if turn % 2 == 0 else -SKEW_S
        folder = firing.network.control / name
        seen: list[float] = []

        def skew(name: str = name, folder: Path = folder, skew_s: int = skew_s, seen: list[float] = seen) -> None:
            (folder / "skew").write_text(str(skew_s))
            (folder / "skew.faketime").write_text(f"{skew_s:+d}s")
            firing.wait(2.5)
            said = _redis_time(firing.network.redis_of(name))
            if abs(said - time.time() - skew_s) < 60:
                seen.append(said)

        def right(folder: Path = folder) -> None:
            (folder / "skew").write_text("0")
            (folder / "skew.faketime").write_text("+0s")

        firing.lasting(
            "clock ten minutes wrong", skew, right, hold_s=12, suffers=[(name, "keeper")],
            fired=lambda: len(seen),  # noqa: B023
        )  # fmt: skip


def _redis_time(client: redis.Redis) -> float:
    seconds, _ = client.time()  # type: ignore[misc]
    return float(seconds)


FAULTS: dict[str, tuple[Callable[[Firing, int], None], int]] = {
    "steps": (steps, 1),
    "redis-killed": (redis_killed, 6),
    "redis-emptied": (redis_emptied, 6),
    "redis-slow": (redis_slow, 3),
    "disk-full": (disk_full, 3),
    "store-gone": (store_gone, 3),
    "store-read-only": (store_read_only, 3),
    "clock": (clock_wrong, 4),
}
