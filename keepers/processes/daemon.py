"""`zoo node start`: broker, gateway, keeper and workers of one operator, each its own process, kept running.

A process that ends is started again, with a longer pause each time it ends soon after its start. A spare, which has its imports
done (keepers/processes/spare.py), replaces a worker, and a new spare gets ready in the background. Stopping the daemon ends all
processes; on Linux, so does its death.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import redis

from keepers.config import EMBEDDED, OperatorConfig
from keepers.monitoring import logs, metrics
from keepers.monitoring.server import SOCKET, Monitor
from keepers.processes import spare
from keepers.processes.watchdog import Watchdog, is_asked
from keepers.queue import broker, seals
from keepers.queue.app import DISPUTE_QUEUE
from keepers.queue.worker_leases import WorkLog, worker_name
from zoo_compute.errors import ConfigError
from zoo_compute.paths import REPORTS, TRANSACTIONS
from zoo_compute.store.durable_files import locked
from zoo_compute.subprocesses import LOOPBACK, tied_to_parent

log = logging.getLogger("zoo.daemon")

DISPUTES = "worker-disputes"
SERVERS = ("broker", "gateway")  # the other processes need them to the end
# A kernel's doing, and not a person's or the memory's: its work is done again on other kernels (node/backends.py).
CRASHES = (signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT)
# Names of variables that only the keeper's process gets.
SECRET = re.compile("PASS|SECRET|TOKEN|KEY|CREDENTIAL|AUTH|PRIVATE|MNEMONIC|SEED", re.IGNORECASE)
STOP_TIMEOUT_S = 10.0
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 60.0
STABLE_AFTER_S = 30.0
LOOK_AT_LOGS_S = 1.0
DUMP_S = 0.5  # in which a hung process logs what its threads do
MB = 10**6


@dataclass
class SupervisedProcess:
    """One supervised process."""

    name: str
    command: list[str]
    log_path: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    backoff_s: float = FIRST_BACKOFF_S
    is_paused: bool = False  # not started again until `resume`
    was_hung: bool = False  # and was ended for that

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass
class Daemon:
    """The processes of one operator. `poll()` must be called now and then; `stop()` ends them all.

    only: one part: broker, gateway, keeper or worker. instead: other command lines, by process.
    """

    config: OperatorConfig
    only: str | None = None
    command_overrides: Mapping[str, list[str]] = field(default_factory=dict)
    children: dict[str, SupervisedProcess] = field(default_factory=dict)
    _locks: ExitStack = field(default_factory=ExitStack)  # locks of this daemon's parts
    _looked_at_logs: float = 0.0
    _watchdog: Watchdog | None = None
    _monitor: Monitor | None = None

    def start(self) -> None:
        """Start everything, the broker and the gateway first.

        Raises ConfigError where one of its parts runs already, BrokerUnreachable when the broker does not come up.
        """
        wanted = {**commands(self.config), **self.command_overrides}
        wanted = {name: command for name, command in wanted.items() if self.only in (None, component_of(name))}
        for name in wanted:
            self._hold(name)
        self._watchdog = Watchdog(self._running)
        for name, command in wanted.items():
            child = SupervisedProcess(name, command, self.config.log_path(name), self._environment(name))
            self.children[name] = child
            _count_from_zero(name)
            _spawn(child)
            if name == "broker":
                broker.wait_ready(self.config.broker, self.config.folder, child.process)

        if not self.children:
            raise ConfigError(
                f"this operator runs no {self.only} of its own",
                hint="its broker or store is a server of its own; start the other parts",
            )
        self._watchdog.start()
        if self.config.metrics_port:
            self._monitor = _monitor(self._watchdog, self.config.metrics_port)

    def _running(self) -> dict[str, float]:
        """Processes that run, and since when."""
        return {name: child.started for name, child in list(self.children.items()) if child.running}

    def _environment(self, name: str) -> dict[str, str]:
        """What a process learns from its daemon."""
        return {SOCKET: str(self._watchdog.socket(name))} if self._watchdog and is_asked(name) else {}

    def _hold(self, name: str) -> None:
        """Lock one part: two of a kind would share keys, store and broker, and end each other's processes."""
        folder = self.config.folder / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._locks.enter_context(locked(folder / name, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            raise ConfigError(
                f"{self.config.folder}: {name} of this operator runs already",
                hint="end that one first (Ctrl-C where `zoo node start` runs); another operator needs another --home",
            ) from None

    def poll(self) -> None:
        """Restart processes that ended, and rotate logs that are too long."""
        self._rotate_logs()
        self._end_hung()
        for child in self.children.values():
            if child.running or child.is_paused:
                continue
            now = time.monotonic()
            if now - child.started > STABLE_AFTER_S:
                child.backoff_s = FIRST_BACKOFF_S
            if now - child.started < child.backoff_s:
                continue
            code = child.process.returncode if child.process else None
            log.warning("%s of %s ended (%s); starting it again", child.name, self.config.name, code)
            self._give_up_leases(child, code)
            metrics.RESTARTS.labels(child.name, "hung" if child.was_hung else "ended").inc()
            child.was_hung = False
            child.backoff_s = min(MAX_BACKOFF_S, child.backoff_s * 2)
            if not self._take_spare(child):
                _spawn(child)

    def _end_hung(self) -> None:
        """End a process that makes no progress; it is started again as any that ended. Its log says what each of its threads did."""
        for name, child in self.children.items():
            metrics.UP.labels(name).set(child.running)
        for name, why in self._watchdog.hung().items() if self._watchdog else ():
            child = self.children[name]
            if child.process is None or not child.running or child.is_paused:
                continue
            log.error("%s of %s hangs (%s); it is ended and started again", name, self.config.name, why)
            child.was_hung = True
            child.process.send_signal(signal.SIGUSR1)
            time.sleep(DUMP_S)
            child.process.kill()
            child.process.wait()

    def _rotate_logs(self) -> None:
        if time.monotonic() - self._looked_at_logs < LOOK_AT_LOGS_S:
            return
        self._looked_at_logs = time.monotonic()
        for path in (self.config.log_path("daemon"), *(child.log_path for child in self.children.values())):
            try:
                if logs.rotate(path, int(self.config.log_max_mb * MB), self.config.log_files):
                    metrics.ROTATIONS.labels(path.stem).inc()
            except OSError as error:
                log.warning("%s is not rotated: %s", path, error)
        for path in (self.config.folder / name for name in (TRANSACTIONS, REPORTS)):
            try:
                logs.rotate_records(path, int(self.config.log_max_mb * MB), self.config.log_files)
            except OSError as error:
                log.warning("%s is not rotated: %s", path, error)

    def _take_spare(self, child: SupervisedProcess) -> bool:
        """Have a spare become `child`, and start another; whether there was one for it."""
        if not is_training_worker(child.name) or not spare.can_become(child.command):
            return False
        for other in self.children.values():
            if not is_spare(other.name) or not other.running or other.process is None:
                continue
            try:
                spare.assign(other.process, child.command, child.log_path, child.environment)
            except OSError:  # it has just died, and is seen to at the next look
                continue
            child.process, child.started = other.process, time.monotonic()
            _spawn(other)
            return True
        return False

    def _give_up_leases(self, child: SupervisedProcess, code: int | None) -> None:
        """What a worker was doing when it died is sent again now, not when its lease expires or its successor is ready."""
        worker = self._worker_of(child.name)
        if worker is not None:
            is_killed = code == -signal.SIGKILL  # the kernel does so if memory is short, whoever took it
            others = [name for each in self.children if (name := self._worker_of(each)) not in (None, worker)]
            try:
                client = broker.connect(self.config.broker, self.config.folder, timeout_s=0.5)
                WorkLog(client, seals.load(self.config.folder), worker).release_leases(
                    crashed=code is not None and -code in CRASHES, died=True, beside=others if is_killed else ()
                )
            except (broker.BrokerUnreachable, redis.RedisError) as error:  # then it expires
                log.warning("the leases of %s were not given up: %s", child.name, error)

    def _worker_of(self, child: str) -> str | None:
        """Its name in leases; None: it is no worker."""
        role, _, name = child.partition("-")
        return worker_name(self.config.name, name) if role == "worker" else None

    def kill(self, name: str, *, hold: bool = False) -> int:
        """Kill one process as a power cut would; the pid it had. With `hold` it stays down until `resume`."""
        child = self.children[name]
        child.is_paused = hold
        assert child.process is not None, f"{name} was never started"
        child.process.kill()
        child.process.wait()
        return child.process.pid

    def resume(self, name: str) -> None:
        """Start it again at the next poll, without a pause: the caller knows why it ended."""
        child = self.children[name]
        child.is_paused, child.backoff_s = False, FIRST_BACKOFF_S

    def begin_stop(self) -> None:
        """Ask keeper and workers to end, all at once: each may take seconds."""
        for child in self.children.values():
            if child.name not in SERVERS and child.running and child.process is not None:
                child.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """End all processes, the broker last."""
        self.begin_stop()
        for child in reversed(self.children.values()):
            if child.running and child.process is not None:
                if child.name in SERVERS:
                    child.process.send_signal(signal.SIGTERM)
                try:
                    child.process.wait(STOP_TIMEOUT_S if child.name in SERVERS else STOP_TIMEOUT_S / 2)
                except subprocess.TimeoutExpired:
                    child.process.kill()
                    child.process.wait()
        if self._monitor is not None:
            self._monitor.stop()
        if self._watchdog is not None:
            self._watchdog.stop()
        self._monitor = self._watchdog = None
        self._locks.close()


def is_training_worker(name: str) -> bool:
    """Whether the process of this name is a worker that trains, not one for disputes."""
    return name.startswith("worker-") and not name.startswith(DISPUTES)


def is_spare(name: str) -> bool:
    return name.startswith("spare-")


def component_of(name: str) -> str:
    """The part of the daemon that a process belongs to: spares are of the workers."""
    return "worker" if is_spare(name) else name.partition("-")[0]


def inherited(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What a process gets of the daemon's environment: all but the keeper do without what may be secret."""
    if component_of(name) == "keeper":
        return dict(environ)
    return {key: value for key, value in environ.items() if not SECRET.search(key) and _is_for_all(key)}


def _is_for_all(key: str) -> bool:
    return not key.startswith("ZOO_") or key == "ZOO_HOME"


def gateway_command(store: str, host: str, port: int, operator: int = 0) -> list[str]:
    """The command line of a store's gateway. operator: whose store it is."""
    module = [sys.executable, "-m", "keepers.processes.gateway"]
    return [*module, "--root", store, "--host", host, "--port", str(port), "--operator", str(operator)]


def commands(config: OperatorConfig) -> dict[str, list[str]]:
    """Name -> command line of each process, in the order they start."""
    lines: dict[str, list[str]] = {}
    if config.broker == EMBEDDED:
        lines["broker"] = broker.server_command(config.folder, config.broker_max_mb)
    if not config.store.startswith("kubo:"):
        where = (config.gateway_host, config.gateway_port)
        lines["gateway"] = gateway_command(config.store_location, *where, config.operator)
    home = ["--home", str(config.folder), *(part for role in config.roles for part in ("--role", role))]
    lines["keeper"] = [sys.executable, "-m", "keepers.processes.run", "keeper", *home]
    for index in range(config.workers):
        lines[f"worker-{index}"] = [
            sys.executable,
            "-m",
            "keepers.processes.run",
            "worker",
            *home,
            "--name",
            str(index),
        ]
    for index in range(config.dispute_workers):
        disputes = ["--name", f"disputes-{index}", "--queue", DISPUTE_QUEUE]
        lines[f"{DISPUTES}-{index}"] = [sys.executable, "-m", "keepers.processes.run", "worker", *home, *disputes]
    return lines | {f"spare-{index}": spare.COMMAND for index in range(config.spares)}


def _count_from_zero(name: str) -> None:
    """A counter that first appears with its first event shows Prometheus no increase."""
    for why in ("ended", "hung"):
        metrics.RESTARTS.labels(name, why).inc(0)
    if is_asked(name):
        metrics.RESPONDS.labels(name).set(0)


def _monitor(watchdog: Watchdog, port: int) -> Monitor:
    """Serve the metrics of all processes on loopback. Raises ConfigError where another program has the port."""
    try:
        return Monitor(watchdog, watchdog.health, (LOOPBACK, port)).start()
    except OSError as error:
        raise ConfigError(
            f"/metrics cannot be served on port {port}: {error}",
            hint="choose another with `zoo node configure --metrics-port`; `--metrics-port` of `zoo node start` overrides it",
        ) from None


def _spawn(child: SupervisedProcess) -> None:
    child.log_path.parent.mkdir(parents=True, exist_ok=True)
    with child.log_path.open("ab") as output:
        child.process = subprocess.Popen(
            child.command,
            stdin=subprocess.PIPE if is_spare(child.name) else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C in the terminal reaches the daemon alone, which ends them in order
            preexec_fn=tied_to_parent(),
            umask=0o077,
            env={**inherited(child.name, os.environ), "PYTHONUNBUFFERED": "1", **child.environment},
        )
    child.started = time.monotonic()
