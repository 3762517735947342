"""The user-space switch of the namespaces: a TUN device in each, packets shaped, delayed, dropped and damaged between them.

    python -m benchmarks.lab.switch HOSTS.json      {"ns": [address, mbit, delay_s], ...}

Commands are lines of JSON on stdin ({"do": ..., "host": address, ...}), each answered by a line on stdout. It ends with its stdin,
and its devices with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import ipaddress
import itertools
import json
import os
import select
import struct
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks.lab.link import DEVICE, MTU, Queue

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
TCP = 6


@dataclass
class Port:
    """A host as the switch sees it."""

    address: str
    fd: int
    up: Queue
    down: Queue
    delay_s: float
    is_cut: bool = False
    to_corrupt: int = 0
    to_repeat: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def shape(self, mbit: float, delay_s: float) -> None:
        self.up, self.down, self.delay_s = Queue(mbit), Queue(mbit), delay_s


class Switch:
    """Forwards until its stdin ends."""

    def __init__(self, ports: list[Port]) -> None:
        self._ports = {port.fd: port for port in ports}
        self._at = {ipaddress.ip_address(port.address).packed: port for port in ports}
        self._by_name = {port.address: port for port in ports}
        # due, order, has passed the second link, to, packet
        self._travelling: list[tuple[float, int, bool, Port, bytes]] = []
        self._order = itertools.count()

    def run(self) -> None:
        while True:
            wait = max(0.0, self._travelling[0][0] - time.monotonic()) if self._travelling else None
            ready, _, _ = select.select([0, *self._ports], [], [], wait)
            for fd in ready:
                if fd:
                    self._receive(self._ports[fd])
                elif not self._command():
                    return
            self._deliver()

    def _receive(self, port: Port) -> None:
        for _ in range(16):
            try:
                packet = os.read(port.fd, MTU + 64)
            except OSError:
                return
            to = self._at.get(packet[16:20])
            if packet[0] >> 4 != 4 or to is None:
                continue
            if port.is_cut or to.is_cut:
                port.counts["cut"] += 1
                continue
            copies = 1
            if port.to_corrupt and (damaged := corrupted(packet)) is not None:
                packet, port.to_corrupt = damaged, port.to_corrupt - 1
                port.counts["corrupted"] += 1
            if port.to_repeat and packet[9] == TCP and len(packet) > 100:
                copies, port.to_repeat = 2, port.to_repeat - 1
                port.counts["duplicated"] += 1
            for _ in range(copies):
                self._send(port, port.up, to, packet, is_last=False)

    def _send(self, port: Port, queue: Queue, to: Port, packet: bytes, *, is_last: bool) -> None:
        now = time.monotonic()
        if queue.is_full(now):
            port.counts["dropped"] += 1
            return
        due = queue.leaves_at(now, len(packet)) + (0.0 if is_last else port.delay_s + to.delay_s)
        heapq.heappush(self._travelling, (due, next(self._order), is_last, to, packet))

    def _deliver(self) -> None:
        now = time.monotonic()
        while self._travelling and self._travelling[0][0] <= now:
            _, _, is_last, to, packet = heapq.heappop(self._travelling)
            if not is_last:
                self._send(to, to.down, to, packet, is_last=True)
            elif not to.is_cut:
                with contextlib.suppress(OSError):
                    os.write(to.fd, packet)
                    to.counts["packets"] += 1
                    to.counts["bytes"] += len(packet)

    def _command(self) -> bool:
        line = sys.stdin.readline()
        if not line:
            return False
        order = json.loads(line)
        answer: dict[str, Any] = {}
        if order["do"] == "count":
            answer = {name: dict(port.counts) for name, port in self._by_name.items()}
        else:
            port = self._by_name[order["host"]]
            match order["do"]:
                case "shape":
                    port.shape(order["mbit"], order["delay_s"])
                case "cut":
                    port.is_cut = order["value"]
                case "corrupt":
                    port.to_corrupt += order["value"]
                case "repeat":
                    port.to_repeat += order["value"]
        print(json.dumps(answer), flush=True)
        return True


def corrupted(packet: bytes) -> bytes | None:
    """The packet with two words of its TCP payload exchanged, which TCP's checksum does not notice; None where there are none."""
    if packet[9] != TCP:
        return None
    head = 4 * (packet[0] & 15)
    first = head + 4 * (packet[head + 12] >> 4)
    for at in range(len(packet) - len(packet) % 2 - 2, first + 64, -2):
        one, other = packet[at - 2 : at], packet[at : at + 2]
        if at % 2 == 0 and one != other:
            return packet[: at - 2] + other + one + packet[at + 2 :]
    return None


def open_device(namespace: str) -> int:
    """A TUN device in the namespace; it goes when this process does."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/var/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH14x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    finally:
        libc.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)
    return fd


def main() -> int:
    hosts = json.loads(sys.argv[1])
    ports = [
        Port(address, open_device(namespace), Queue(mbit), Queue(mbit), delay_s)
        for namespace, (address, mbit, delay_s) in hosts.items()
    ]
    print("{}", flush=True)
    Switch(ports).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
