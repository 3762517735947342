"""What this operator's processes downloaded from other operators' gateways, until its keeper counts it (keepers/services/receipts.py)."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from keepers.config import OperatorConfig
from zoo_compute.store import BlockStore, Store, open_store

log = logging.getLogger("zoo.receipts")

_KEY = "zoo:received"


class Source(NamedTuple):
    """A gateway, and the operator that it says it belongs to."""

    operator: int
    url: str


class ReceivedBytes:
    """Bytes by source, in the operator's Redis, which survives restarts. Every process adds, the keeper takes."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def add(self, url: str, operator: int, count: int) -> None:
        try:
            self._redis.hincrby(_KEY, f"{operator} {url}", count)
        except RedisError as error:  # no download fails for this; fewer bytes are signed for
            log.warning("%d bytes from %s were not counted: %s", count, url, error)

    def take(self) -> dict[Source, int]:
        """What was added since the last call. A crash after it loses bytes, and never counts them twice."""
        both = self._redis.pipeline(transaction=True)
        both.hgetall(_KEY)
        both.delete(_KEY)
        counts, _ = both.execute()
        return {_source(field.decode()): int(count) for field, count in counts.items()}


def open_counted(config: OperatorConfig, client: Any) -> Store:
    """The operator's store, with what other operators send it counted. An IPFS daemon's downloads are its own affair."""
    store = open_store(config.store_location)
    if isinstance(store, BlockStore) and config.operator:
        store.received = ReceivedBytes(client).add
    return store


def _source(field: str) -> Source:
    operator, _, url = field.partition(" ")
    return Source(int(operator), url)
