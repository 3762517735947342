"""The checkpoint that a round starts from: its pointer, its state, and what makes it wrong."""

from __future__ import annotations

from node.compute.cache import get_cached
from node.compute.programs import State, Tensors
from node.errors import BadInputs, FalseCheckpoint
from node.inputs.fetching import TIMEOUT_S, missing_chunk, withheld_unless_fetched
from node.inputs.states import stream_state
from repops.files import TensorStream
from repops.graph import Graph
from zoo_compute.formats.bundles import MAX_POINTER_BYTES, BadRecord, Pointer
from zoo_compute.formats.manifest import Manifest
from zoo_compute.store.interface import Store
from zoo_compute.training.rounds import checkpoint_bytes, checkpoint_nodes, file_bytes
from zoo_compute.training.shapes import shape_mismatch


def fetch_pointer(store: Store, cid: str) -> Pointer:
    """Raises BadInputs; the store's errors pass."""
    try:
        return Pointer.from_bytes(store.read(cid, max_bytes=MAX_POINTER_BYTES, timeout_s=TIMEOUT_S))
    except BadRecord as error:
        raise BadInputs(str(error)) from error


def fetch_checkpoint(
    store: Store, manifest: Manifest, step: Graph, job: int, round: int, pointer: str | None, root: bytes
) -> State:
    """The checkpoint that `round` starts from; `pointer` is None for the initial state, `root` is the chain's.

    Raises Withheld for a checkpoint that cannot be had, FalseCheckpoint, BadInputs; of the initial state the store's errors pass.
    """
    return dict(stream_checkpoint(store, manifest, step, job, round, pointer, root))


def stream_checkpoint(
    store: Store, manifest: Manifest, step: Graph, job: int, round: int, pointer: str | None, root: bytes
) -> Tensors:
    """As `fetch_checkpoint`, with one tensor in memory at a time, for whoever takes them in ascending order of names."""
    state: Tensors
    if pointer is None:
        if round > manifest.delay or root != manifest.state_root:
            raise BadInputs(f"round {round} starts from {root.hex()}, which is not the manifest's initial state")
        most = checkpoint_bytes(step, manifest.aggregation_spec)
        state = stream_state(store, manifest.state.cid, root, max_bytes=most)
    else:
        state = _made_checkpoint(store, manifest, step, job, round, pointer, root)
    shapes = state.shapes if isinstance(state, TensorStream) else state
    mismatch = shape_mismatch(shapes, step, manifest.aggregation_spec)
    if mismatch:
        refused = BadInputs if pointer is None else FalseCheckpoint
        raise refused(f"the checkpoint does not hold this program's tensors: {mismatch}")
    return state


def _made_checkpoint(
    store: Store, manifest: Manifest, step: Graph, job: int, round: int, pointer: str, root: bytes
) -> Tensors:
    nodes = checkpoint_nodes(step, manifest.aggregation_spec)
    with withheld_unless_fetched():
        record = fetch_pointer(store, pointer)
        is_near = 0 <= round - 1 - record.round <= manifest.delay  # the aggregator's, and of a delayed job the slots'
        if (record.job, record.root) != (job, root) or not is_near:
            raise BadInputs(
                f"checkpoint pointer {pointer} is of job {record.job}, round {record.round}, root {record.root.hex()}; "
                f"expected job {job}, round {round - 1}, root {root.hex()}"
            )
    with withheld_unless_fetched(lambda: missing_chunk(store, record.state, nodes)):
        state = get_cached(store, record.state, root)
        return stream_state(store, record.state, root, max_bytes=file_bytes(nodes)) if state is None else state


def checkpoint_cids(store: Store, manifest: Manifest, pointer: str | None) -> tuple[str, ...]:
    """The files a checkpoint consists of: pointer and state; of the initial one, the manifest's state."""
    return (manifest.state.cid,) if pointer is None else (pointer, fetch_pointer(store, pointer).state)
