"""The relay of hosts that have no namespaces: TCP on the loopback, paced and delayed as two access links would.

    python -m benchmarks.lab.relay HOSTS.json       {"host": [mbit, delay_s], ...}

Commands as of `benchmarks.lab.switch`, and {"do": "listen", "host": server, "from": client, "port": port} -> {"port": relay's}.
A stream has no packets: there are no losses, TCP windows or duplicates, and a cut link only delays what is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from typing import Any

from benchmarks.lab.link import Queue

LOOPBACK = "127.0.0.1"
CHUNK = 16 * 1024
AHEAD_S = 0.02  # a stream may be read so long before its bytes leave: timers are coarser than the pace of chunks
LOOK_S = 0.02  # how often a stream checks whether its cut link is healed


class End:
    """A host as the relay sees it."""

    def __init__(self, mbit: float, delay_s: float) -> None:
        self.shape(mbit, delay_s)
        self.is_cut, self.to_corrupt = False, 0
        self.counts: Counter[str] = Counter()

    def shape(self, mbit: float, delay_s: float) -> None:
        self.up, self.down, self.delay_s = Queue(mbit), Queue(mbit), delay_s


class Relay:
    """Streams between ends."""

    def __init__(self, ends: dict[str, End]) -> None:
        self._ends = ends
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, server: str, client: str, port: int) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            near, far = self._ends[client], self._ends[server]
            await asyncio.sleep(2 * (near.delay_s + far.delay_s))  # the handshake
            try:
                there, back = await asyncio.open_connection(LOOPBACK, port)
            except OSError:
                writer.transport.abort()
                return
            for task in (self._pump(reader, back, near, far), self._pump(there, writer, far, near)):
                running = asyncio.create_task(task)
                self._tasks.add(running)
                running.add_done_callback(self._tasks.discard)

        listening = await asyncio.start_server(accept, LOOPBACK, 0)
        return int(listening.sockets[0].getsockname()[1])

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, near: End, far: End) -> None:
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        writing = asyncio.create_task(self._write(due, sink, near, far))
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                leaves = near.up.leaves_at(time.monotonic(), len(data))
                due.put_nowait((leaves + near.delay_s + far.delay_s, data))
                if leaves - time.monotonic() > AHEAD_S:
                    await asyncio.sleep(leaves - time.monotonic() - AHEAD_S / 2)
        due.put_nowait((time.monotonic() + near.delay_s + far.delay_s, b""))
        await writing

    async def _write(
        self, due: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter, near: End, far: End
    ) -> None:
        with contextlib.suppress(OSError):
            while True:
                arrives, data = await due.get()
                await asyncio.sleep(arrives - time.monotonic())
                while near.is_cut or far.is_cut:
                    near.counts["cut"] += 1
                    await asyncio.sleep(LOOK_S)
                if not data:
                    break
                await asyncio.sleep(far.down.leaves_at(arrives, len(data)) - time.monotonic())
                if near.to_corrupt and len(data) > 64:
                    data, near.to_corrupt = data[:-1] + bytes([data[-1] ^ 1]), near.to_corrupt - 1
                    near.counts["corrupted"] += 1
                sink.write(data)
                far.counts["bytes"] += len(data)
                await sink.drain()
        sink.close()

    async def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["do"] == "count":
            return {name: dict(end.counts) for name, end in self._ends.items()}
        end = self._ends[order["host"]]
        match order["do"]:
            case "listen":
                return {"port": await self.listen(order["host"], order["from"], order["port"])}
            case "shape":
                end.shape(order["mbit"], order["delay_s"])
            case "cut":
                end.is_cut = order["value"]
            case "corrupt":
                end.to_corrupt += order["value"]
            case other:
                return {"refused": f"a relay of streams cannot {other}"}
        return {}


async def serve(hosts: dict[str, tuple[float, float]]) -> None:
    relay = Relay({name: End(*link) for name, link in hosts.items()})
    print("{}", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await relay.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
