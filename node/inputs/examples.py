"""A job's data: examples and held-out examples, checked against its manifest. Examples are read piece by piece, as they are used."""

from __future__ import annotations

import logging
import threading

import numpy as np

from node.errors import BadInputs
from node.inputs.fetching import TIMEOUT_S
from node.inputs.states import as_bad_inputs, parse_checked
from repops.graph import Graph
from repops.pieces import PIECE_BYTES, ROOT_BYTES, PiecedState
from zoo_compute.errors import ZooError
from zoo_compute.formats.manifest import Manifest
from zoo_compute.store.interface import Store
from zoo_compute.store.unixfs import MAX_CONTENT
from zoo_compute.training.examples import ExampleRows, Examples
from zoo_compute.training.rounds import batch_nodes
from zoo_compute.training.shapes import batch_mismatch

MAX_DATA_BYTES = MAX_CONTENT
MAX_HELDOUT_BYTES = 2**34
HEADER_BYTES = 2**16  # a few names and shapes

log = logging.getLogger("zoo.worker")


class StoredExamples(PiecedState):
    """The shuffled examples of a job. Reading raises BadInputs where the data are not the chain's; the store's errors pass."""

    def __init__(self, store: Store, manifest: Manifest, step: Graph) -> None:
        self._store, self._manifest = store, manifest
        room = HEADER_BYTES + _most_bytes(manifest, step)
        if room > MAX_DATA_BYTES:
            raise BadInputs(f"the data may have {room:,} bytes, more than the {MAX_DATA_BYTES:,} this node takes")
        most = ROOT_BYTES * (room // PIECE_BYTES + len(batch_nodes(step)) + 1)
        roots = store.read(manifest.data.pieces, max_bytes=most, timeout_s=TIMEOUT_S)
        with as_bad_inputs(what := f"data {manifest.data.cid}"):
            super().__init__(
                self._between, roots, header_bytes=HEADER_BYTES, refused=lambda why: BadInputs(f"{what}: {why}")
            )
        if self.root != manifest.data_root:
            raise BadInputs(f"{what}: the roots of its pieces do not make the manifest's root")
        shapes = {name: np.broadcast_to(np.zeros((), rows.dtype), rows.shape) for name, rows in self.items()}
        _check_examples(shapes, step, manifest, at_least=1)
        if len(next(iter(self.values()))) != manifest.data.examples:
            raise BadInputs(f"{what}: does not match the manifest's count of examples")

    def fetch(self, first: int, count: int) -> None:
        """Fetch and check `count` examples from number `first` on, which is taken modulo their number."""
        of = self._manifest.data.examples
        first, count = first % of, min(count, of)
        for tensor in self.values():
            tensor.check(first, min(count, of - first))
            tensor.check(0, max(0, first + count - of))

    def fetch_all(self) -> None:
        """Fetch the whole file, and check all of it."""
        self._store.open(self._manifest.data.cid, max_bytes=self.file_bytes, timeout_s=TIMEOUT_S).close()
        self.fetch(0, self._manifest.data.examples)

    def fetch_round(self, round: int, slot: int) -> None:
        """Fetch and check a slot's examples of one round."""
        count = self._manifest.inner_steps * self._manifest.batch_size
        self.fetch((round * self._manifest.slots + slot) * count, count)

    def fetch_ahead(self, round: int, slot: int) -> None:
        """As `fetch_round`, beside other work, where not all is here. What fails is fetched when it is needed, which then says why."""
        if round < self._manifest.rounds and self._manifest.custodians:
            threading.Thread(target=self._try_round, args=(round, slot), name="examples-ahead", daemon=True).start()

    def _try_round(self, round: int, slot: int) -> None:
        try:
            self.fetch_round(round, slot)
        except (ZooError, OSError) as error:
            log.debug("examples of round %d, slot %d: %s", round, slot, error)

    def _between(self, start: int, end: int) -> bytes:
        return self._store.read_part(self._manifest.data.cid, start, end, timeout_s=TIMEOUT_S)


def fetch_heldout(store: Store, manifest: Manifest, step: Graph) -> Examples:
    """Empty of a map. Raises BadInputs."""
    if manifest.heldout is None:
        return {}
    data = store.read(manifest.heldout.cid, max_bytes=MAX_HELDOUT_BYTES, timeout_s=TIMEOUT_S)
    examples = parse_checked(data, "held-out examples")
    _check_examples(examples, step, manifest, at_least=manifest.batch_size)
    return examples


def _most_bytes(manifest: Manifest, step: Graph) -> int:
    """Of the examples: each is as large as in the batch (tokens, which become inputs and targets, half of that)."""
    words = sum(node.elements // manifest.batch_size for node in batch_nodes(step).values())
    return 4 * manifest.data.examples * words


def _check_examples(examples: ExampleRows, step: Graph, manifest: Manifest, *, at_least: int) -> None:
    counts = {name: len(array) if array.ndim else 0 for name, array in examples.items()}
    if len(set(counts.values())) != 1 or min(counts.values()) < at_least:
        raise BadInputs(f"data: expected arrays of equally many examples, at least {at_least}, got {counts}")
    mismatch = batch_mismatch(examples, step, manifest.batch_size, manifest.accumulate)
    if mismatch:
        raise BadInputs(f"data: {mismatch}")
