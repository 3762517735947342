"""The broker's memory has an end: near it, outcomes that nobody asked for lately are deleted, and their work is done again if somebody does.

Redis refuses writes beyond `maxmemory` and drops nothing by itself (`noeviction`): whatever it dropped could be a bid's price or a request.
"""

from __future__ import annotations

import logging
from typing import Any

from redis.exceptions import RedisError

from keepers.monitoring import metrics
from keepers.queue.worker_leases import DONE
from zoo_compute.errors import NeedsOperator

log = logging.getLogger("zoo.keeper")

FULL, ROOM = 0.9, 0.75  # of maxmemory: from where outcomes go, and until where
LATELY_S = 60  # an outcome that is wanted is read at every look, and one that was just recorded was not read yet
PART = 16  # of the outcomes one in so many is deleted between two looks at the memory


def relieve(client: Any) -> list[str]:
    """`make_room`, for a loop that goes on whatever happens. What needs a person."""
    try:
        if gone := make_room(client):
            metrics.OUTCOMES_DELETED.inc(gone)
    except NeedsOperator as error:
        log.error("%s (%s)", error, error.hint)
        return [f"broker: {error}: {error.hint}"]
    except RedisError as error:
        log.warning("the broker does not answer: %s", error)
    return []


def make_room(client: Any) -> int:
    """Delete outcomes that were not read lately, if the memory is nearly full, the oldest first; how many. Raises NeedsOperator where that
    does not help. client: redis.Redis.
    """
    used, most = memory_of(client)
    if not most or used < FULL * most:
        return 0
    ages = [
        (int(client.object("idletime", key) or 0), key) for key in client.scan_iter(match=f"zoo:{DONE}:*", count=1000)
    ]
    keys = [key for idle_s, key in sorted(ages, reverse=True) if idle_s >= LATELY_S]
    gone, at_once = 0, max(1, len(keys) // PART)
    while keys and memory_of(client)[0] > ROOM * most:
        gone += int(client.delete(*keys[:at_once]))
        del keys[:at_once]
    used, _ = memory_of(client)
    log.warning(
        "the broker's memory was nearly full: %d outcomes are deleted; %d of %d bytes are used now", gone, used, most
    )
    if used >= FULL * most:
        raise NeedsOperator(
            f"the broker uses {used:,} of {most:,} bytes, and little of that is outcomes of work that nobody reads",
            hint="see what else is in it (`redis-cli --bigkeys`), or give it more memory (`broker_max_mb`, or its own `maxmemory`)",
        )
    return gone


def memory_of(client: Any) -> tuple[int, int]:
    """Used bytes, and the most that may be used; 0: there is no limit."""
    memory = client.info("memory")
    return int(memory["used_memory"]), int(memory.get("maxmemory", 0))
