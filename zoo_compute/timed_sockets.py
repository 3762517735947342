"""Sockets with a time limit on the whole exchange instead of each read, so that a peer that sends byte by byte times out."""

import io
import math
import socket
import time
from typing import Any


class TimedSocket:
    """A socket whose every operation must end before `deadline` (time.monotonic seconds), else TimeoutError."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.deadline = math.inf

    def arm(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("time is up")
        self._sock.settimeout(None if math.isinf(left) else left)

    def sendall(self, data: bytes) -> None:
        self.arm()
        self._sock.sendall(data)

    def makefile(self, mode: str = "rb", *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_TimedReads(self, self._sock.makefile("rb", buffering=0)), 65536)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class _TimedReads(io.RawIOBase):
    def __init__(self, timed: TimedSocket, raw: io.RawIOBase) -> None:
        self._timed, self._raw = timed, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._timed.arm()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
