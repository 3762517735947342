"""Content-addressed files: one interface to an embedded store or to IPFS."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_compute.store.blockstore import BlockStore
from zoo_compute.store.cid import cid_of, digest_of, raw_cid
from zoo_compute.store.confirmations import confirmations
from zoo_compute.store.errors import (
    BadCid,
    ContentMissing,
    ContentRefused,
    ContentTampered,
    StoreError,
    StoreFull,
    StoreUnreachable,
)
from zoo_compute.store.interface import Store

if TYPE_CHECKING:
    from zoo_compute.store.gateway import Gateway
    from zoo_compute.store.kubo import KuboStore

__all__ = [
    "BadCid",
    "BlockStore",
    "ContentMissing",
    "ContentRefused",
    "ContentTampered",
    "Gateway",
    "KuboStore",
    "Store",
    "StoreError",
    "StoreFull",
    "StoreUnreachable",
    "cid_of",
    "confirmations",
    "digest_of",
    "open_store",
    "raw_cid",
]

_KUBO = "kubo:"


def open_store(location: str, peers: Sequence[str] = ()) -> Store:
    """location: a folder, or "kubo:" and the RPC of an IPFS daemon, as in "kubo:http://127.0.0.1:5001".

    peers: URLs of gateways that a folder store asks for what it lacks; a daemon has its own.
    """
    if not location.startswith(_KUBO):
        return BlockStore(Path(location).expanduser(), peers)
    from zoo_compute.store.kubo import KuboStore

    return KuboStore(location.removeprefix(_KUBO))


def __getattr__(name: str) -> Any:
    """`Gateway` (also a program) and `KuboStore` (whose client is slow to import) are loaded on first use."""
    if name == "Gateway":
        from zoo_compute.store.gateway import Gateway

        return Gateway
    if name == "KuboStore":
        from zoo_compute.store.kubo import KuboStore

        return KuboStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
