"""Child processes that end with their parent, and free ports for them."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable

LOOPBACK = "127.0.0.1"
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def tied_to_parent() -> Callable[[], None]:
    """A `preexec_fn`: the child gets SIGTERM when the *thread* that started it ends (Linux; elsewhere it does nothing)."""
    parent = os.getpid()

    def tie() -> None:
        if _LIBC is not None:
            _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

    return tie


def is_free(port: int) -> bool:
    """Whether no process listens on this loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A loopback port that no process listens on right now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
