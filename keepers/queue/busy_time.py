"""How long this operator's workers computed, until its keeper counts it (zoo_compute/spending.py)."""

from __future__ import annotations

import logging
from typing import Any

from redis.exceptions import RedisError

from zoo_compute.spending import Spent

log = logging.getLogger("zoo.worker")

_KEY = "zoo:busy"
MOST = 1e12  # of any sum between two looks
BUSY, WATTS, UNKNOWN = b"busy_s", b"watt_s", b"unknown_s"


class BusyTime:
    """Sums in the operator's Redis: every worker adds, also on other machines, the keeper takes."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def add(self, seconds: float, watts: float | None) -> None:
        """watts: None if nobody knows them."""
        try:
            self._redis.hincrbyfloat(_KEY, BUSY, seconds)
            self._redis.hincrbyfloat(_KEY, *((UNKNOWN, seconds) if watts is None else (WATTS, seconds * watts)))
        except RedisError as error:  # no work fails for this
            log.warning("%.0f busy seconds were not counted: %s", seconds, error)

    def take(self) -> Spent:
        """What was added since the last call. A crash after it loses it, and never counts it twice."""
        both = self._redis.pipeline(transaction=True)
        both.hgetall(_KEY)
        both.delete(_KEY)
        sums, _ = both.execute()
        busy, watts, unknown = (_sum(sums.get(key, 0)) for key in (BUSY, WATTS, UNKNOWN))
        return Spent(busy_s=busy, watt_s=watts, unknown_s=unknown)


def _sum(written: Any) -> float:
    """0 for what no worker wrote: whoever can write the broker can write anything."""
    try:
        value = float(written)
    except ValueError:
        return 0.0
    return value if 0 <= value < MOST else 0.0
