"""Which stores have copies of a job's files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zoo_compute.store import confirmations
from zoo_compute.store.addresses import Scope


@dataclass(frozen=True)
class Redundancy:
    """wanted: the manifest's `redundancy`. confirmed: distinct operators' stores that report pinning the newest checkpoint."""

    wanted: int
    confirmed: int


def confirmed(cids: Iterable[str], urls: Iterable[str], scope: Scope = Scope.ANY) -> set[str]:
    """The gateways that confirm all these files. A gateway counts once, even if several operators announce it. scope: where they may be."""
    asked = list(urls)
    return set.intersection(*(set(confirmations(cid, asked, scope=scope)) for cid in cids))
