"""A job's data: examples and held-out examples, checked against its manifest."""

from __future__ import annotations

from collections import OrderedDict

from node.errors import BadInputs
from node.inputs.fetching import TIMEOUT_S
from node.inputs.states import parse_checked
from repops.commitments import state_root
from repops.graph import Graph
from zoo_compute.formats.manifest import Manifest
from zoo_compute.store.interface import Store
from zoo_compute.training.examples import Examples
from zoo_compute.training.rounds import HEADER_ROOM, batch_nodes
from zoo_compute.training.shapes import batch_mismatch

MAX_DATA_BYTES = 2**34


_examples: OrderedDict[tuple[str, str], Examples] = OrderedDict()


def fetch_examples(store: Store, manifest: Manifest, step: Graph) -> Examples:
    """The shuffled examples, checked against the manifest's root; the last ones used stay in memory."""
    key = (manifest.data.cid, manifest.data.root)
    if key not in _examples:
        _examples[key] = _fetch_examples(store, manifest, step)
        while len(_examples) > 2:
            _examples.popitem(last=False)
    _check_examples(_examples[key], step, manifest, at_least=1)
    if len(next(iter(_examples[key].values()))) != manifest.data.examples:
        raise BadInputs(f"data {manifest.data.cid}: does not match the manifest's count of examples")
    return _examples[key]


def fetch_heldout(store: Store, manifest: Manifest, step: Graph) -> Examples:
    data = store.read(manifest.heldout.cid, max_bytes=MAX_DATA_BYTES, timeout_s=TIMEOUT_S)
    examples = parse_checked(data, "held-out examples")
    _check_examples(examples, step, manifest, at_least=manifest.batch_size)
    return examples


def data_bytes(manifest: Manifest, step: Graph) -> int:
    """The most bytes of the examples: each as large as in the batch (tokens, which become inputs and targets, half of that)."""
    words = sum(node.elements // manifest.batch_size for node in batch_nodes(step).values())
    return 4 * manifest.data.examples * words


def _fetch_examples(store: Store, manifest: Manifest, step: Graph) -> Examples:
    room = HEADER_ROOM + data_bytes(manifest, step)
    if room > MAX_DATA_BYTES:
        raise BadInputs(f"the data may have {room:,} bytes, more than the {MAX_DATA_BYTES:,} this node takes")
    data = store.read(manifest.data.cid, max_bytes=room, timeout_s=TIMEOUT_S)
    examples = parse_checked(data, "examples")
    if state_root(examples) != manifest.data_root:
        raise BadInputs(f"data {manifest.data.cid}: does not match the manifest's root")
    return examples


def _check_examples(examples: Examples, step: Graph, manifest: Manifest, *, at_least: int) -> None:
    counts = {name: len(array) if array.ndim else 0 for name, array in examples.items()}
    if len(set(counts.values())) != 1 or min(counts.values()) < at_least:
        raise BadInputs(f"data: expected arrays of equally many examples, at least {at_least}, got {counts}")
    mismatch = batch_mismatch(examples, step, manifest.batch_size, manifest.accumulate)
    if mismatch:
        raise BadInputs(f"data: {mismatch}")
