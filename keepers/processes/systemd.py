"""What systemd hears from the daemon: that it is ready, that it is alive, that it ends (sd_notify(3)). Elsewhere nothing is said."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """state: READY=1, WATCHDOG=1 or STOPPING=1."""
    at = os.environ.get("NOTIFY_SOCKET")
    if not at:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(state.encode(), "\0" + at[1:] if at.startswith("@") else at)
        except OSError:
            return  # systemd is being restarted: it asks nobody who is alive meanwhile
