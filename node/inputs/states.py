"""A state's canonical file in the store: bounded when read, checked against its root before use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from node.compute.programs import State
from node.errors import BadInputs
from node.hardware import threads
from node.inputs.fetching import TIMEOUT_S
from repops.commitments import Array, state_root_of
from repops.files import FileRefused, TensorStream, parse_state, read_tensors, roots_and_shapes, state_pieces
from repops.graph import Node
from zoo_compute.store import dag
from zoo_compute.store.interface import Store
from zoo_compute.training.rounds import file_bytes


def put_state(store: Store, state: State, *, tag: str = "") -> str:
    """Store a state's canonical file, pinned; its CID."""
    return store.add(dag.stream_of(state_pieces(state)), tag=tag)


def stream_state(store: Store, cid: str, root: bytes, *, max_bytes: int) -> TensorStream:
    """A state with one tensor in memory at a time: its file is fetched and read now for its root, and again for its values.

    Raises BadInputs; the store's errors pass.
    """
    with as_bad_inputs(cid):
        roots, shapes = roots_and_shapes(_tensors(store, cid, max_bytes), threads=threads())
    actual = state_root_of(roots)
    if actual != root:
        raise BadInputs(f"state {cid}: its root is {actual.hex()}, expected {root.hex()}")
    return TensorStream(lambda: _tensors(store, cid, max_bytes), shapes)


def _tensors(store: Store, cid: str, max_bytes: int) -> Iterator[tuple[str, Array]]:
    with store.open(cid, max_bytes=max_bytes, timeout_s=TIMEOUT_S) as stream:
        yield from read_tensors(stream, max_bytes=max_bytes)


def get_own_state(store: Store, cid: str, nodes: dict[str, Node], *, timeout_s: float) -> State:
    """A state that this machine stored, of tensors like these. Raises BadInputs; the store's errors pass."""
    return parse_checked(store.read(cid, max_bytes=file_bytes(nodes), timeout_s=timeout_s), cid)


def parse_checked(data: bytes, what: str) -> State:
    with as_bad_inputs(what):
        return parse_state(data)


@contextmanager
def as_bad_inputs(what: str) -> Iterator[None]:
    try:
        yield
    except FileRefused as error:
        raise BadInputs(f"{what}: {error}") from error
