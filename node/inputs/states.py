"""A state's canonical file in the store: bounded when read, checked against its root before use."""

from __future__ import annotations

from node.compute.programs import State
from node.errors import BadInputs
from node.inputs.fetching import TIMEOUT_S
from repops.commitments import state_root
from repops.files import FileRefused, parse_state, state_bytes
from repops.graph import Node
from zoo_compute.store.interface import Store
from zoo_compute.training.rounds import file_bytes


def put_state(store: Store, state: State, *, tag: str = "") -> str:
    """Store a state's canonical file, pinned; its CID."""
    return store.add(state_bytes(state), tag=tag)


def get_state(store: Store, cid: str, root: bytes, *, max_bytes: int) -> State:
    """Fetch a state and check it against `root`. Raises BadInputs; the store's errors pass."""
    state = parse_checked(store.read(cid, max_bytes=max_bytes, timeout_s=TIMEOUT_S), cid)
    actual = state_root(state)
    if actual != root:
        raise BadInputs(f"state {cid}: its root is {actual.hex()}, expected {root.hex()}")
    return state


def get_own_state(store: Store, cid: str, nodes: dict[str, Node], *, timeout_s: float) -> State:
    """A state that this machine stored, of tensors like these. Raises BadInputs; the store's errors pass."""
    return parse_checked(store.read(cid, max_bytes=file_bytes(nodes), timeout_s=timeout_s), cid)


def parse_checked(data: bytes, what: str) -> State:
    try:
        return parse_state(data)
    except FileRefused as error:
        raise BadInputs(f"{what}: {error}") from error
