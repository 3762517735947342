"""Measure a link from inside: round trips and throughput over TCP.

python -m benchmarks.lab.probe serve PORT
python -m benchmarks.lab.probe measure ADDRESS PORT BYTES      -> {"rtt_s", "mbit", "bytes"}
"""

from __future__ import annotations

import json
import socket
import statistics
import struct
import sys
import threading
import time

ROUND_TRIPS = 15
CHUNK = 64 * 1024


def serve(port: int) -> None:
    with socket.create_server(("", port)) as listening:
        while True:
            threading.Thread(target=_answer, args=(listening.accept()[0],), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    """Each request is a length; the answer has as many bytes."""
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while len(asked := connection.recv(8, socket.MSG_WAITALL)) == 8:
            connection.sendall(bytes(struct.unpack("!Q", asked)[0]))


def measure(address: str, port: int, size: int) -> dict[str, float]:
    """Throughput of the last three quarters of `size` bytes: what comes before is TCP finding its window."""
    with socket.create_connection((address, port), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = []
        for _ in range(ROUND_TRIPS):
            began = time.perf_counter()
            connection.sendall(struct.pack("!Q", 1))
            connection.recv(1)
            trips.append(time.perf_counter() - began)
        connection.sendall(struct.pack("!Q", size))
        got, first, began = 0, 0, 0.0
        while got < size:
            got += len(connection.recv(CHUNK))
            if not first and got >= size // 4:
                first, began = got, time.perf_counter()
        mbit = 8e-6 * (got - first) / (time.perf_counter() - began)
    return {"rtt_s": statistics.median(trips), "mbit": mbit, "bytes": size}


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
