"""Bundles and updates that the slots of a round committed to: fetched, checked and stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.compute.programs import State
from node.device import memory
from node.errors import BadInputs
from node.hardware import CPU, threads
from node.inputs import bundles
from node.inputs.bundles import SlotResult
from node.inputs.fetching import TIMEOUT_S, root_from_hex
from repops.commitments import state_root
from repops.files import FileRefused
from repops.graph import Graph
from zoo_compute.codec import BadUpdateFile, files
from zoo_compute.codec.files import ReceivedUpdate, UpdateLayout
from zoo_compute.formats.manifest import Manifest
from zoo_compute.formats.tags import round_tag
from zoo_compute.store.blockstore import BlockStore
from zoo_compute.store.dag import prefetch
from zoo_compute.store.interface import Store
from zoo_compute.training.memory import aggregation_bytes

LEAST_AT_ONCE = 4


def updates_at_once() -> int:
    """How many updates are fetched and decoded side by side: round trips overlap, and cores share the decoding."""
    return max(LEAST_AT_ONCE, threads())


def fetch_results(
    store: Store,
    request: Mapping[str, Any],
    commit: Mapping[str, Any],
    start_root: bytes,
    timeout_s: float = TIMEOUT_S,
) -> dict[int, SlotResult]:
    """The results of one commitment, by slot, after checking its bundle. Raises BadInputs."""
    data = store.read(commit["bundle"], max_bytes=bundles.MAX_BUNDLE_BYTES, timeout_s=timeout_s)
    bundle = bundles.parse_bundle(data)
    bundles.verify_bundle(
        bundle,
        job=request["job"],
        round=request["round"],
        operator=commit["operator"],
        slots=commit.get("slots") or [result.slot for result in bundle.results],
        root=root_from_hex(commit["root"]),
        start_root=start_root,
    )
    pin_received(store, commit["bundle"], round_tag(request["job"], request["round"]))
    return {result.slot: result for result in bundle.results}


def put_update(store: Store, update: State, manifest: Manifest, step: Graph, *, tag: str = "") -> str:
    """Store and pin a slot's update. Returns its CID."""
    return files.put(store, update, UpdateLayout.of(step, manifest), threads=threads(), tag=tag)


def get_update(
    store: Store,
    entry: SlotResult,
    manifest: Manifest,
    step: Graph,
    *,
    timeout_s: float = TIMEOUT_S,
    tag: str = "",
    streamed: bool = False,
    share: int | None = None,
) -> ReceivedUpdate:
    """Fetch a slot's update as its author sent it, and check its root. Raises BadInputs; the store's errors pass.

    tag: pin it under this tag, since it may have to be combined again when its author is gone. streamed: with one tensor in memory
    at a time. share: one aggregator's part of it alone.
    """
    try:
        parts = UpdateLayout.of(step, manifest)
        get = files.get_streamed if streamed else files.get
        update = get(store, entry.update, parts, share=share, timeout_s=timeout_s, threads=threads())
    except BadUpdateFile as error:
        raise BadInputs(f"update {entry.update}: {error}") from error
    if update.tree.root != entry.update_root:
        actual, wanted = update.tree.root.hex(), entry.update_root.hex()
        raise BadInputs(f"update {entry.update}: its root is {actual}, expected {wanted}")
    for cid in dict.fromkeys((entry.update, *update.cids)) if tag else ():
        pin_received(store, cid, tag)
    return update


def get_whole_update(
    store: Store, entry: SlotResult, manifest: Manifest, step: Graph, *, timeout_s: float = TIMEOUT_S, tag: str = ""
) -> None:
    """Fetch all that a slot's update commits to, and check its root: what its author sends everybody, and what it keeps.

    A custodian is asked for any of it. As `get_update` otherwise.
    """
    parts = UpdateLayout.of(step, manifest)
    update = get_update(store, entry, manifest, step, timeout_s=timeout_s, tag=tag, streamed=not parts.kept)
    if not parts.kept:
        return
    try:
        whole = files.whole(store, update, parts, timeout_s=timeout_s)
    except FileRefused as error:
        raise BadInputs(f"what the author of {entry.update} keeps: {error}") from error
    if state_root(whole) != entry.update_root:
        raise BadInputs(f"what the author of {entry.update} keeps makes another root than {entry.update_root.hex()}")
    if tag:
        pin_received(store, update.private, tag)


def get_updates(
    store: Store,
    entries: Mapping[int, SlotResult],
    manifest: Manifest,
    step: Graph,
    *,
    tag: str = "",
    share: int | None = None,
) -> dict[int, ReceivedUpdate]:
    """As `get_update` for several slots, by slot; some at once. Streamed if they do not fit in memory."""
    slots = sorted(entries)
    streamed = aggregation_bytes(step, manifest.aggregation_spec) > memory(CPU)[0]
    received = prefetch(
        lambda slot: get_update(store, entries[slot], manifest, step, tag=tag, streamed=streamed, share=share),
        slots,
        updates_at_once(),
    )
    return dict(zip(slots, received, strict=True))


def pin_received(store: Store, cid: str, tag: str) -> None:
    """Pin content of others in the store. An IPFS daemon knows no tags, so there its own garbage collection decides."""
    if isinstance(store, BlockStore) and not store.is_pinned(cid, tag=tag):
        store.pin(cid, timeout_s=TIMEOUT_S, tag=tag)
