"""Child processes that end with their parent, whether a process is still the one it was, and free ports."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

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


def started_at(pid: int) -> str:
    """When the process of this number started, in the system's own terms; empty if there is none, or if it ended and nobody took note.

    A number alone says little: the next process in a container has the number of the last one.
    """
    if sys.platform != "linux":
        command = ["ps", "-p", str(pid), "-o", "lstart="]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (OSError, ValueError):
        return ""
    return "" if fields[0] == "Z" else f"{boot} {fields[19]}"


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
