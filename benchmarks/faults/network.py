"""A network on which every fault can be switched on at any time: three RPCs in front of the chain, disks of their own, processes that can die.

It needs root, for the disks (tmpfs), and Debian's `faketime`, for the clock of Redis.
"""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
import requests

from benchmarks.faults import windows
from benchmarks.faults.geth_node import GethNode
from benchmarks.faults.relays import HEADERS, Relay
from keepers.config import OperatorConfig
from keepers.processes.daemon import Daemon, SupervisedProcess, commands
from keepers.processes.local_network import LocalNetwork, OperatorPlan, is_ready, start_gateway
from keepers.queue.broker import socket_path
from zoo_compute.paths import STATUS
from zoo_compute.spec.params import ZEN
from zoo_compute.subprocesses import LOOPBACK, free_port

RPCS = 3
PUMP_S = 0.25
LOOK_S = 0.05
READY_S = 400.0  # of processes that die again and again
HOME_BYTES, STORE_BYTES = "320m", "256m"  # more than the space that operators keep free here
COLLATERAL = 20_000 * ZEN
PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=8, collateral=COLLATERAL),
    OperatorPlan(
        "beta",
        roles=("provider", "aggregator"),
        price="0.80",
        capacity=8,
        aggregator_price="0.50",
        collateral=COLLATERAL,
    ),
    OperatorPlan("epsilon", roles=("verifier",), sample_rate=0.25, ask_zen=100 * ZEN),
)


@dataclass
class ChaosNetwork(LocalNetwork):
    """As a LocalNetwork. Its own chain and submitter see no fault.

    dies: processes are killed at their steps from their first start on. looks: by operator, when its keeper completed one.
    """

    dies: bool = False

    node: GethNode = field(default_factory=GethNode)
    relays: list[Relay] = field(default_factory=list)
    looks: dict[str, list[float]] = field(default_factory=dict)
    _mounted: list[Path] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def control(self) -> Path:
        return self.folder / "control"

    @property
    def network_path(self) -> Path:
        """Of the submitter: the chain itself."""
        return self.folder / "direct.json"

    def start(self) -> None:
        windows.use()
        self.devnet.start()
        port = free_port()
        direct = dataclasses.replace(self.devnet.network, storage=(f"http://{LOOPBACK}:{port}",))
        direct.save(self.network_path)
        self.relays = [Relay(self.devnet.url, self.node) for _ in range(RPCS)]
        dataclasses.replace(direct, rpcs=tuple(relay.url for relay in self.relays)).save(self.devnet.network_file)
        self._gateway = start_gateway(self.submitter_store, port, self.folder / "submitter" / "gateway.log")
        for plan in self.plans:
            self._give_disks(plan.name)
            self.looks[plan.name] = []
            self.enlist(plan)
        for work in (self._pump, self._watch):
            threading.Thread(target=work, daemon=True).start()
        self.wait_ready(timeout_s=READY_S)

    def stop(self) -> None:
        self._ended.set()
        super().stop()
        for relay in self.relays:
            relay.stop()
        for path in reversed(self._mounted):
            subprocess.run(["umount", "-l", str(path)], check=False)

    def command_overrides(self, plan: OperatorPlan, config: OperatorConfig) -> dict[str, list[str]]:
        (self.control / plan.name).mkdir(parents=True, exist_ok=True)
        if self.dies:
            (self.control / plan.name / "on").touch()
        lines: dict[str, list[str]] = {}
        for name, command in commands(config).items():
            if name == "broker":
                lines[name] = [*faked_clock(self.control / plan.name / "skew.faketime"), *command]
            else:
                wrapped = ["-m", "benchmarks.faults.crashing", str(self.control / plan.name), name.split("-")[0]]
                lines[name] = [sys.executable, *wrapped, str(config.folder), *command[2:]]
        return lines

    def _give_disks(self, name: str) -> None:
        for path, size in ((self.folder / name, HOME_BYTES), (self.folder / name / "store", STORE_BYTES)):
            path.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(path)], check=True)
            self._mounted.append(path)

    # -- beside the network's own life

    def _pump(self) -> None:
        session = requests.Session()

        def ask(question: dict[str, Any]) -> dict[str, Any]:
            answer: dict[str, Any] = session.post(self.devnet.url, json=question, headers=HEADERS, timeout=60).json()
            return answer

        while not self._ended.wait(PUMP_S):
            try:
                self.node.pump(ask)
            except (OSError, KeyError, ValueError):
                continue

    def _watch(self) -> None:
        seen: dict[str, int] = {}
        while not self._ended.wait(LOOK_S):
            for name, looks in self.looks.items():
                try:
                    at = (self.folder / name / STATUS).stat().st_mtime_ns
                except OSError:
                    continue
                if at != seen.get(name):
                    seen[name] = at
                    looks.append(at / 1e9)

    def poll(self) -> None:
        """Have what was killed started again at once: who killed it knows why it ended. What ended by itself waits as always."""
        for daemon in self.daemons.values():
            for name, child in daemon.children.items():
                if child.process is not None and child.process.poll() == -signal.SIGKILL and not child.is_paused:
                    daemon.resume(name)
        super().poll()

    def wait(self, seconds: float) -> None:
        """Keep all processes running meanwhile."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.poll()
            time.sleep(0.1)

    def redis_of(self, name: str) -> redis.Redis:
        return redis.Redis.from_url(
            f"unix://{socket_path(self.daemons[name].config.folder).resolve()}", socket_timeout=2
        )

    def child(self, name: str, process: str) -> SupervisedProcess:
        return self.daemons[name].children[process]

    def is_useful(self, name: str, process: str, since: float) -> bool:
        """Whether the process did something useful after `since` (time.time): a look, an answer, taking work."""
        daemon, child = self.daemons[name], self.daemons[name].children[process]
        if process == "keeper":
            return any(look > since for look in self.looks[name][-50:])
        if not child.running:
            return False
        if process == "gateway":
            return _answers(daemon)
        if process == "broker":
            try:
                return bool(self.redis_of(name).ping())
            except redis.RedisError:
                return False
        return is_ready(child)


def _answers(daemon: Daemon) -> bool:
    try:
        answer = requests.get(f"http://{LOOPBACK}:{daemon.config.gateway_port}/health", timeout=2)
    except requests.RequestException:
        return False
    return answer.status_code == 200


def faked_clock(file: Path) -> list[str]:
    """What to put before a command, so that its clock is as `file` says."""
    libraries = list(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not libraries:
        raise SystemExit("the clock of Redis needs Debian's faketime: apt-get install faketime")
    file.write_text("+0s")
    settings = {
        "LD_PRELOAD": libraries[0],
        "FAKETIME_TIMESTAMP_FILE": file,
        "FAKETIME_CACHE_DURATION": 1,
        "FAKETIME_DONT_FAKE_MONOTONIC": 1,
    }
    return ["env", *(f"{key}={value}" for key, value in settings.items())]


@contextmanager
def running(folder: Path, *, dies: bool) -> Iterator[ChaosNetwork]:
    with ChaosNetwork(folder, PLANS, dies=dies) as network:
        yield network
