"""A model of an access link: bytes queue for the rate, then travel for the delay."""

from __future__ import annotations

from dataclasses import dataclass

DEVICE = "zoo0"  # a host's network device in its namespace
MTU = 9000  # fewer packets for a switch in Python; the routes' first window is set to about what 1,500 gives
QUEUE_S = 0.2  # of bytes that may wait at a link before it drops what comes


@dataclass(frozen=True)
class Link:
    """A host's access link, alike both ways. Between two hosts a round trip takes twice the sum of both delays."""

    mbit: float
    delay_s: float

    @classmethod
    def of_round_trip(cls, mbit: float, rtt_s: float) -> Link:
        """The link that gives `rtt_s` between two hosts that both have it."""
        return cls(mbit, rtt_s / 4)


class Queue:
    """One direction of a link: when bytes that come now have left it."""

    def __init__(self, mbit: float) -> None:
        self._byte_s = 8 / (mbit * 1e6)
        self._free_at = 0.0

    def leaves_at(self, now: float, size: int) -> float:
        """The time at which the last of `size` bytes has left."""
        self._free_at = max(now, self._free_at) + size * self._byte_s
        return self._free_at

    def is_full(self, now: float) -> bool:
        return self._free_at - now > QUEUE_S
