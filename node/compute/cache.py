"""States that this process made last: at hand at once, and on their way to the store.

Only of what can be made again: a process that dies before they are written takes them along.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from node.compute.programs import State
from repops.files import state_bytes
from zoo_compute.errors import ZooError
from zoo_compute.store.cid import cid_of
from zoo_compute.store.interface import Store

log = logging.getLogger("zoo.worker")

CAPACITY = 2  # of a store: the checkpoint, and what a slot's last round left

_recent: WeakKeyDictionary[Store, OrderedDict[str, tuple[State, bytes]]] = WeakKeyDictionary()
_writer = ThreadPoolExecutor(1, thread_name_prefix="to-store")


def put_async(store: Store, state: State, root: bytes = b"", *, tag: str = "") -> str:
    """As `node.inputs.states.put_state`, without waiting for the disk. root: the state's, where anybody will ask for it."""
    data = state_bytes(state)
    cid = cid_of(data)
    kept = _kept(store)
    kept[cid] = (state, root)
    kept.move_to_end(cid)
    while len(kept) > CAPACITY:
        kept.popitem(last=False)
    _writer.submit(_add, store, data, tag)
    return cid


def get_cached(store: Store, cid: str, root: bytes = b"") -> State | None:
    """The state of this file, if it was made here lately and has this root."""
    entry = _kept(store).get(cid)
    return entry[0] if entry is not None and entry[1] == root else None


def is_cached(store: Store, cid: str) -> bool:
    """Whether the file was made here lately: it is pinned, or will be at once."""
    return cid in _kept(store)


def flush() -> None:
    """Until everything is written."""
    _writer.submit(lambda: None).result()


def _kept(store: Store) -> OrderedDict[str, tuple[State, bytes]]:
    return _recent.setdefault(store, OrderedDict())


def _add(store: Store, data: bytes, tag: str) -> None:
    try:
        store.add(data, tag=tag)
    except (ZooError, OSError) as error:
        log.warning("a state that can be made again was not kept: %s", error)
