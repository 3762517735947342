"""The checkpoint that a round starts from: its pointer, its state, and what makes it wrong."""

from __future__ import annotations

from collections.abc import Sequence

from node.compute.cache import get_cached
from node.compute.programs import Tensors
from node.errors import BadInputs, FalseCheckpoint
from node.inputs.fetching import TIMEOUT_S, missing_chunk, withheld_unless_fetched
from node.inputs.states import stream_state
from repops.files import TensorStream
from repops.graph import Graph
from zoo_compute.formats.bundles import MAX_POINTER_BYTES, BadRecord, Pointer
from zoo_compute.formats.manifest import Manifest
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.store.interface import Store
from zoo_compute.training.rounds import checkpoint_bytes, checkpoint_nodes, file_bytes
from zoo_compute.training.shapes import shape_mismatch
from zoo_compute.training.shares import SharedCheckpoint

# As a request names one: by its pointer, by one of each of several aggregators, or None for the initial one.
Checkpoint = str | Sequence[str] | None


def fetch_pointer(store: Store, cid: str) -> Pointer:
    """Raises BadInputs; the store's errors pass."""
    try:
        return Pointer.from_bytes(store.read(cid, max_bytes=MAX_POINTER_BYTES, timeout_s=TIMEOUT_S))
    except BadRecord as error:
        raise BadInputs(str(error)) from error


def pointers_of(checkpoint: Checkpoint) -> tuple[str, ...]:
    """In the order of the aggregators' seats."""
    if checkpoint is None:
        return ()
    return (checkpoint,) if isinstance(checkpoint, str) else tuple(checkpoint)


def fetch_checkpoint(
    store: Store,
    manifest: Manifest,
    step: Graph,
    job: int,
    round: int,
    checkpoint: Checkpoint,
    root: bytes,
    share: int | None = None,
) -> Tensors:
    """The checkpoint that `round` starts from; `root` is the chain's. share: of several aggregators' files this one's alone.

    Raises Withheld for a checkpoint that cannot be had, FalseCheckpoint, BadInputs; of the initial state the store's errors pass.
    """
    state = stream_checkpoint(store, manifest, step, job, round, checkpoint, root, share)
    if isinstance(state, SharedCheckpoint):
        return SharedCheckpoint(tuple(map(dict, state.shares)))
    return dict(state)


def stream_checkpoint(
    store: Store,
    manifest: Manifest,
    step: Graph,
    job: int,
    round: int,
    checkpoint: Checkpoint,
    root: bytes,
    share: int | None = None,
) -> Tensors:
    """As `fetch_checkpoint`, with one tensor in memory at a time, for whoever takes them in ascending order of names."""
    state: Tensors
    pointers = pointers_of(checkpoint)
    if not pointers:
        if round > manifest.delay or root != manifest.state_root:
            raise BadInputs(f"round {round} starts from {root.hex()}, which is not the manifest's initial state")
        most = checkpoint_bytes(step, manifest.aggregation_spec)
        state = stream_state(store, manifest.state.cid, root, max_bytes=most)
    else:
        state = _made_checkpoint(store, manifest, step, job, round, pointers, root, share)
    refused = FalseCheckpoint if pointers else BadInputs
    if isinstance(state, SharedCheckpoint):
        for number, part in enumerate(state.shares, share or 0):
            _check_shapes(part, step, manifest, number, refused)
    else:
        _check_shapes(state, step, manifest, None, refused)
    return state


def fetch_posted(
    store: Store,
    manifest: Manifest,
    step: Graph,
    job: int,
    round: int,
    pointer: str | None,
    root: bytes,
    share: int | None,
) -> Tensors:
    """What an aggregator posted of the checkpoint that `round` starts from: its share, or where it is the only one, all of it (None).

    Raises as `fetch_checkpoint`.
    """
    if pointer is None or share is None:
        return fetch_checkpoint(store, manifest, step, job, round, pointer, root)
    state = _share(store, manifest, step, _record(store, manifest, job, round, pointer, root), share)
    _check_shapes(state, step, manifest, share, FalseCheckpoint)
    return state


def _check_shapes(state: Tensors, step: Graph, manifest: Manifest, share: int | None, refused: type[BadInputs]) -> None:
    shapes = state.shapes if isinstance(state, TensorStream) else state
    mismatch = shape_mismatch(shapes, step, manifest.aggregation_spec, share)
    if mismatch:
        what = "checkpoint" if share is None else f"share of aggregator {share + 1}"
        raise refused(f"the {what} does not hold this program's tensors: {mismatch}")


def _made_checkpoint(
    store: Store,
    manifest: Manifest,
    step: Graph,
    job: int,
    round: int,
    pointers: Sequence[str],
    root: bytes,
    only: int | None,
) -> Tensors:
    aggregators = manifest.aggregators
    if len(pointers) != aggregators:
        raise BadInputs(f"a checkpoint of {len(pointers)} pointers; the job has {aggregators} aggregators")
    if aggregators == 1:
        return _share(store, manifest, step, _record(store, manifest, job, round, pointers[0], root), None)
    records = [_record(store, manifest, job, round, pointer, None) for pointer in pointers]
    whole = root_of_shares([record.root for record in records])
    if whole != root:
        with withheld_unless_fetched():
            raise BadInputs(f"checkpoint pointers of root {whole.hex()}; expected {root.hex()}")
    wanted = range(aggregators) if only is None else (only,)
    return SharedCheckpoint(tuple(_share(store, manifest, step, records[share], share) for share in wanted))


def _record(store: Store, manifest: Manifest, job: int, round: int, pointer: str, root: bytes | None) -> Pointer:
    """root: None where it is known with others' alone."""
    with withheld_unless_fetched():
        record = fetch_pointer(store, pointer)
        is_near = 0 <= round - 1 - record.round <= manifest.delay  # the aggregator's, and of a delayed job the slots'
        if record.job != job or root not in (None, record.root) or not is_near:
            raise BadInputs(
                f"checkpoint pointer {pointer} is of job {record.job}, round {record.round}, root {record.root.hex()}; "
                f"expected job {job}, round {round - 1}, root {'any' if root is None else root.hex()}"
            )
        return record


def _share(store: Store, manifest: Manifest, step: Graph, record: Pointer, share: int | None) -> Tensors:
    nodes = checkpoint_nodes(step, manifest.aggregation_spec, share)
    with withheld_unless_fetched(lambda: missing_chunk(store, record.state, nodes), share or 0):
        state = get_cached(store, record.state, record.root)
        return stream_state(store, record.state, record.root, max_bytes=file_bytes(nodes)) if state is None else state


def checkpoint_cids(
    store: Store, manifest: Manifest, checkpoint: Checkpoint, share: int | None = None
) -> tuple[str, ...]:
    """The files a checkpoint consists of, or one share of it: pointers and states; of the initial one, the manifest's state."""
    pointers = pointers_of(checkpoint)
    if not pointers:
        return (manifest.state.cid,)
    if share is not None and len(pointers) > 1:
        return (*pointers, fetch_pointer(store, pointers[share]).state)
    return tuple(cid for pointer in pointers for cid in (pointer, fetch_pointer(store, pointer).state))
