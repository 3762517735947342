"""Hosts, their links and their processes. All are removed when the laboratory ends, or at the latest when the next one starts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.lab.link import DEVICE, MTU, Link
from zoo_compute.subprocesses import LOOPBACK, free_port, tied_to_parent

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "zoolab"
NETWORK = "10.77.0"
FIRST_WINDOW = 2  # of 9,000 bytes; Linux begins with ten of 1,500
STOP_S = 5.0
PROBE_PORT = 7077


@dataclass
class Laboratory:
    """Hosts with links. `kind` is tun or relay (the package's docstring)."""

    links: dict[str, Link]
    kind: str
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _middle: subprocess.Popen[str] | None = None

    def start(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """A process on the host; it ends with the laboratory, or with us. `options` are Popen's."""
        inside = ["ip", "netns", "exec", self._namespace(host), *command] if self.kind == "tun" else list(command)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
        process = subprocess.Popen(
            inside, env=environment, start_new_session=True, preexec_fn=tied_to_parent(), **options
        )
        self._processes.append(process)
        return process

    def address(self, host: str) -> str:
        """Where a server of the host listens."""
        return f"{NETWORK}.{10 + list(self.links).index(host)}" if self.kind == "tun" else LOOPBACK

    def endpoint(self, host: str, port: int, *, seen_from: str) -> tuple[str, int]:
        """Where processes of another host reach the port of this one."""
        if self.kind == "tun":
            return self.address(host), port
        return LOOPBACK, int(self._ask({"do": "listen", "host": host, "from": seen_from, "port": port})["port"])

    def free_port(self, preferred: int) -> int:
        """A port for a server: hosts with an address of their own have them all, the others share the loopback's."""
        return preferred if self.kind == "tun" else free_port()

    def shape(self, host: str, link: Link) -> None:
        self._ask({"do": "shape", "host": self._name(host), "mbit": link.mbit, "delay_s": link.delay_s})
        self.links[host] = link

    def order(self, what: str, host: str, **more: Any) -> None:
        """Have the links do something to a host's traffic (benchmarks.lab.faults). Raises RuntimeError where they cannot."""
        answer = self._ask({"do": what, "host": self._name(host), **more})
        if "refused" in answer:
            raise RuntimeError(answer["refused"])

    def counts(self) -> dict[str, dict[str, int]]:
        """What the links counted, by host: bytes and packets that arrived, dropped, cut, corrupted, duplicated."""
        answer = self._ask({"do": "count"})
        return {host: answer[self._name(host)] for host in self.links}

    def measured(self, server: str, client: str, size: int = 4_000_000) -> dict[str, float]:
        """Measure a download of `size` bytes from one host to another: `rtt_s`, `mbit`."""
        port = self.free_port(PROBE_PORT)
        probe = [sys.executable, "-m", "benchmarks.lab.probe"]
        serving = self.start(server, [*probe, "serve", str(port)])
        try:
            address, seen = self.endpoint(server, port, seen_from=client)
            command = [*probe, "measure", address, str(seen), str(size)]
            deadline = time.monotonic() + 30
            while True:
                asking = self.start(client, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                out, errors = asking.communicate(timeout=120)
                self._processes.remove(asking)
                if asking.returncode == 0:
                    return dict(json.loads(out))
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no measurement between {server} and {client}: {errors.decode()[-300:]}")
                time.sleep(0.1)
        finally:
            serving.kill()
            serving.wait()
            self._processes.remove(serving)

    def open(self) -> None:
        if self.kind == "tun":
            remove_abandoned()
            for host in self.links:
                _ip("netns", "add", self._namespace(host))
            hosts: dict[str, Any] = {
                self._namespace(host): (self.address(host), link.mbit, link.delay_s)
                for host, link in self.links.items()
            }
        else:
            hosts = {host: (link.mbit, link.delay_s) for host, link in self.links.items()}
        module = "benchmarks.lab.switch" if self.kind == "tun" else "benchmarks.lab.relay"
        self._middle = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(hosts)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
            preexec_fn=tied_to_parent(),
        )
        self._answer()
        if self.kind == "tun":
            for host in self.links:
                self._set_up(host)

    def _set_up(self, host: str) -> None:
        own = ("-n", self._namespace(host))
        _ip(*own, "link", "set", "lo", "up")
        _ip(*own, "link", "set", DEVICE, "mtu", str(MTU), "up")
        _ip(*own, "addr", "add", f"{self.address(host)}/32", "dev", DEVICE)
        _ip(*own, "route", "add", f"{NETWORK}.0/24", "dev", DEVICE, "initcwnd", str(FIRST_WINDOW))

    def close(self) -> None:
        """End every process, then the links and the hosts. May be called twice."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        if self._middle is not None:
            self._middle.kill()
            self._middle.communicate()
            self._middle = None
        if self.kind == "tun":
            for host in self.links:
                _remove(self._namespace(host))

    def _namespace(self, host: str) -> str:
        return f"{PREFIX}-{os.getpid()}-{host}"

    def _name(self, host: str) -> str:
        """What the switch or the relay calls the host."""
        if host not in self.links:
            raise KeyError(f"no host {host!r}; there are {sorted(self.links)}")
        return self.address(host) if self.kind == "tun" else host

    def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        assert self._middle is not None, "the laboratory is not open"
        assert self._middle.stdin is not None
        self._middle.stdin.write(json.dumps(order) + "\n")
        self._middle.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._middle is not None
        assert self._middle.stdout is not None
        line = self._middle.stdout.readline()
        if not line:
            raise RuntimeError("the laboratory's links ended")
        return dict(json.loads(line))


@contextlib.contextmanager
def laboratory(links: Mapping[str, Link], kind: str = "") -> Iterator[Laboratory]:
    """A laboratory of these hosts; kind: tun or relay, the best there is when left out."""
    lab = Laboratory(dict(links), kind or ("relay" if tun_missing() else "tun"))
    try:
        lab.open()
        yield lab
    finally:
        lab.close()


def tun_missing() -> str:
    """Why this machine cannot have hosts in namespaces; empty if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs Linux and root"
    if shutil.which("ip") is None or not os.path.exists("/dev/net/tun"):
        return "needs `ip` and /dev/net/tun"
    name = f"{PREFIX}-{os.getpid()}-try"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    _remove(name)
    return f"no network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def remove_abandoned() -> list[str]:
    """Remove namespaces of laboratories whose runner is gone."""
    named = re.compile(rf"{PREFIX}-(\d+)-")
    listing = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.splitlines()
    names = [line.split()[0] for line in listing if line.strip()]
    mine = {name: match for name in names if (match := named.match(name))}
    gone = [name for name, match in mine.items() if not os.path.exists(f"/proc/{match[1]}")]
    for name in gone:
        _remove(name)
    return gone


def _remove(namespace: str) -> None:
    inside = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout
    for pid in inside.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
