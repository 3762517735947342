"""Content-addressed files: one interface to an embedded store or to IPFS. Stores are loaded on first use: errors are cheap."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_compute.store.errors import (
    BadCid,
    ContentMissing,
    ContentRefused,
    ContentTampered,
    StoreError,
    StoreFull,
    StoreUnreachable,
)

if TYPE_CHECKING:
    from zoo_compute.store.blockstore import BlockStore
    from zoo_compute.store.cid import cid_of, digest_of, raw_cid
    from zoo_compute.store.gateway import Gateway
    from zoo_compute.store.interface import Store
    from zoo_compute.store.kubo import KuboStore
    from zoo_compute.store.pin_confirmations import confirmations

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
_HOMES = {
    "BlockStore": "blockstore",
    "Gateway": "gateway",
    "KuboStore": "kubo",
    "Store": "interface",
    "cid_of": "cid",
    "confirmations": "pin_confirmations",
    "digest_of": "cid",
    "raw_cid": "cid",
}


def open_store(location: str, peers: Sequence[str] = ()) -> "Store":
    """location: a folder, or "kubo:" and the RPC of an IPFS daemon, as in "kubo:http://127.0.0.1:5001".

    peers: URLs of gateways that a folder store asks for what it lacks; a daemon has its own.
    """
    if not location.startswith(_KUBO):
        from zoo_compute.store.blockstore import BlockStore

        return BlockStore(Path(location).expanduser(), peers)
    from zoo_compute.store.kubo import KuboStore

    return KuboStore(location.removeprefix(_KUBO))


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"zoo_compute.store.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
