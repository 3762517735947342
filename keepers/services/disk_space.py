"""Whether the node's disk has room for new work, by the operator's floor of free space and quota of the store.

Near either, files that nothing of this operator's needs are dropped (keepers/services/retention.py). Beyond, no new work is taken; what a
claim needs is never deleted.
"""

from __future__ import annotations

import shutil

from keepers.config import OperatorConfig
from keepers.monitoring import metrics
from zoo_compute.store import BlockStore, Store

GB = 10**9
NEAR = 2  # times the floor: from there on what nothing needs goes
NEAR_QUOTA = 0.9


class DiskSpace:
    """short: why no new work is taken; empty while there is room. is_near: whether what nothing needs should go."""

    def __init__(self, config: OperatorConfig, store: Store) -> None:
        self._config = config
        self._store = store
        self._stored = 0
        self.short, self.is_near = "", False
        metrics.DISK_FLOOR.set(config.free_space_gb * GB)
        metrics.STORE_MAX.set(config.store_max_gb * GB)

    def measure_store(self) -> None:
        """Walks the store, where there is a quota. For a loop that nothing waits for."""
        if self._config.store_max_gb and isinstance(self._store, BlockStore):
            self._stored = self._store.stored_bytes()
            metrics.STORE_BYTES.set(self._stored)

    def look(self) -> None:
        """Decide anew."""
        floor, quota = self._config.free_space_gb * GB, self._config.store_max_gb * GB
        free, place = min((shutil.disk_usage(path).free, str(path)) for path in self._places())
        self.is_near = free < NEAR * floor or bool(quota and self._stored > NEAR_QUOTA * quota)
        self.short = ""
        if free < floor:
            self.short = (
                f"{free / GB:.1f} GB are free at {place}, and free_space_gb keeps {self._config.free_space_gb:g}"
            )
        elif quota and self._stored >= quota:
            self.short = (
                f"the store has {self._stored / GB:.1f} GB, and store_max_gb allows {self._config.store_max_gb:g}"
            )

    @property
    def trouble(self) -> list[str]:
        """For the operator's status."""
        return [f"no new work is taken: {self.short}; see docs/guides/disk.md"] if self.short else []

    def _places(self) -> list[str]:
        places = [str(self._config.folder)]
        if isinstance(self._store, BlockStore):
            places.append(str(self._store.root))
        return places
