"""Content in and out of the store: bounded when read, checked against roots before use, canonical when written."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from node.device import GB, memory, needed_bytes, reproducible
from node.errors import BadInputs, NodeOutOfMemory
from node.training import tensors_of
from repops.commitments import Array, state_root, tensor_root
from repops.files import FileRefused, parse_state, state_bytes
from repops.program import Program, State, build
from zoo_compute.manifest import MAX_MANIFEST_BYTES, Manifest
from zoo_compute.publish import OUTER
from zoo_compute.records import MAX_POINTER_BYTES, BadRecord
from zoo_compute.records import Pointer as Pointer
from zoo_compute.store.interface import Store

TIMEOUT_S = 120.0
HEADER_ROOM = 2**20
MAX_DATA_BYTES = 2**34


@dataclass(frozen=True)
class Inputs:
    """All that a slot-round needs, checked."""

    manifest: Manifest
    program: Program
    checkpoint: State
    examples: Tensor


def root_from_hex(text: str) -> bytes:
    """A 32-byte root as requests carry it, with or without 0x. Raises BadInputs."""
    try:
        root = bytes.fromhex(text.removeprefix("0x"))
    except (ValueError, AttributeError) as error:
        raise BadInputs(f"expected a root in hex, got {text!r}") from error
    if len(root) != 32:
        raise BadInputs(f"expected a root of 32 bytes, got {text!r}")
    return root


def put_state(store: Store, state: State | Mapping[str, Array]) -> str:
    """Store a state's canonical file, pinned; its CID."""
    arrays = {name: v.detach().cpu().numpy() if isinstance(v, Tensor) else v for name, v in state.items()}
    return store.add(state_bytes(arrays))


def get_state(store: Store, cid: str, root: bytes, *, max_bytes: int) -> State:
    """Fetch a state and check it against `root`. Raises BadInputs; the store's errors pass."""
    return tensors_of(_checked_state(store, cid, root, max_bytes))


def fetch_manifest(store: Store, cid: str) -> Manifest:
    return Manifest.from_bytes(store.read(cid, max_bytes=MAX_MANIFEST_BYTES, timeout_s=TIMEOUT_S))


def fetch_pointer(store: Store, cid: str) -> Pointer:
    """Raises BadInputs; the store's errors pass."""
    try:
        return Pointer.from_bytes(store.read(cid, max_bytes=MAX_POINTER_BYTES, timeout_s=TIMEOUT_S))
    except BadRecord as error:
        raise BadInputs(str(error)) from error


def fetch_checkpoint(store: Store, manifest: Manifest, job: int, round: int, pointer: str | None, root: bytes) -> State:
    """The checkpoint that `round` starts from; `pointer` is None for the initial state, `root` is the chain's."""
    room = HEADER_ROOM + 8 * manifest.spec.profile.parameters
    if pointer is None:
        if round != 0 or root != manifest.state_root:
            raise BadInputs(f"round {round} starts from {root.hex()}, which is not the manifest's initial state")
        return get_state(store, manifest.state.cid, root, max_bytes=room)
    found = fetch_pointer(store, pointer)
    if (found.job, found.round, found.root) != (job, round - 1, root):
        raise BadInputs(
            f"checkpoint pointer {pointer} is of job {found.job}, round {found.round}, root {found.root.hex()}; "
            f"expected job {job}, round {round - 1}, root {root.hex()}"
        )
    return get_state(store, found.state, root, max_bytes=room)


def update_bytes(manifest: Manifest) -> int:
    """The most bytes an update's file can have."""
    return HEADER_ROOM + 4 * manifest.spec.profile.parameters


def fetch_examples(store: Store, manifest: Manifest) -> Tensor:
    """The shuffled examples (E, T+1), checked against the manifest's root; the last ones used stay in memory."""
    key = (manifest.data.cid, manifest.data.root)
    if key not in _examples:
        _examples[key] = _fetch_examples(store, manifest)
        while len(_examples) > 2:
            _examples.popitem(last=False)
    return _examples[key]


def fetch_heldout(store: Store, manifest: Manifest) -> Tensor:
    data = store.read(manifest.heldout.cid, max_bytes=MAX_DATA_BYTES, timeout_s=TIMEOUT_S)
    return torch.from_numpy(_examples_of(_parsed(data, "held-out examples"), manifest))


def fetch_inputs(store: Store, request: Mapping[str, Any]) -> Inputs:
    """What a request's job, round, manifest, checkpoint pointer and start_root name.

    The request's `program_root` and `data_root`, the chain's, are compared when they are there. Raises BadInputs.
    """
    manifest = fetch_manifest(store, request["manifest"])
    for name in ("program_root", "data_root"):
        if name in request and root_from_hex(request[name]) != getattr(manifest, name):
            raise BadInputs(f"the manifest's {name} is {getattr(manifest, name).hex()}, the chain's {request[name]}")
    if not 0 <= request["round"] < manifest.rounds:
        raise BadInputs(f"round {request['round']}: the job has {manifest.rounds} rounds")
    _check_fits(manifest)
    program = build(manifest.spec)
    root = root_from_hex(request["start_root"])
    checkpoint = fetch_checkpoint(store, manifest, request["job"], request["round"], request.get("checkpoint"), root)
    _check_checkpoint(program, checkpoint)
    examples = fetch_examples(store, manifest)
    for cid in (request["manifest"], manifest.data.cid, *checkpoint_cids(store, manifest, request.get("checkpoint"))):
        store.pin(cid, timeout_s=TIMEOUT_S)  # who trains on it keeps it: that is the checkpoint's redundancy
    return Inputs(manifest, program, checkpoint, examples)


def checkpoint_cids(store: Store, manifest: Manifest, pointer: str | None) -> tuple[str, ...]:
    """The files a checkpoint consists of: pointer and state; of the initial one, the manifest's state."""
    return (manifest.state.cid,) if pointer is None else (pointer, fetch_pointer(store, pointer).state)


_examples: OrderedDict[tuple[str, str], Tensor] = OrderedDict()


def _fetch_examples(store: Store, manifest: Manifest) -> Tensor:
    room = HEADER_ROOM + 4 * manifest.data.examples * (manifest.spec.model.context + 1)
    if room > MAX_DATA_BYTES:
        raise BadInputs(f"the data may have {room:,} bytes, more than the {MAX_DATA_BYTES:,} this node takes")
    data = store.read(manifest.data.cid, max_bytes=room, timeout_s=TIMEOUT_S)
    array = _examples_of(_parsed(data, "examples"), manifest)
    if len(array) != manifest.data.examples or tensor_root(array) != manifest.data_root:
        raise BadInputs(f"data {manifest.data.cid}: does not match the manifest's root and count of examples")
    return torch.from_numpy(array)


def _examples_of(state: dict[str, Array], manifest: Manifest) -> Array:
    model = manifest.spec.model
    array = state.get("examples")
    if list(state) != ["examples"] or array is None or array.dtype.name not in ("uint8", "int32"):
        raise BadInputs("data: expected one tensor `examples` of u8 or i32")
    if array.ndim != 2 or not len(array) or array.shape[1] != model.context + 1:
        raise BadInputs(f"data: expected shape (examples, {model.context + 1}), got {array.shape}")
    if array.min() < 0 or array.max() >= model.vocab:
        raise BadInputs(f"data: a token is outside the vocabulary of {model.vocab}")
    return array


def _checked_state(store: Store, cid: str, root: bytes, max_bytes: int) -> dict[str, Array]:
    state = _parsed(store.read(cid, max_bytes=max_bytes, timeout_s=TIMEOUT_S), cid)
    found = state_root(state)
    if found != root:
        raise BadInputs(f"state {cid}: its root is {found.hex()}, expected {root.hex()}")
    return state


def _parsed(data: bytes, what: str) -> dict[str, Array]:
    try:
        return parse_state(data)
    except FileRefused as error:
        raise BadInputs(f"{what}: {error}") from error


def _check_fits(manifest: Manifest) -> None:
    """Before anything large is fetched: the job fits this machine's memory. Raises NodeOutOfMemory."""
    needed = needed_bytes(manifest.spec.profile) + 4 * manifest.data.examples * (manifest.spec.model.context + 1)
    total = memory(torch.device("cpu"))[1]
    if needed > total:
        raise NodeOutOfMemory(
            f"the job needs about {needed / GB:,.1f} GB with its data, this machine has {total / GB:,.1f} GB",
            hint="decline jobs of this size, or use a larger machine",
        )


def _check_checkpoint(program: Program, checkpoint: State) -> None:
    names = {*program.names, *(OUTER + name for name in program.names)}
    if set(checkpoint) != names:
        raise BadInputs(f"the checkpoint does not hold this program's tensors: {sorted(names ^ set(checkpoint))[:3]}")
    try:
        program.parameters_of(checkpoint)
        program.parameters_of({name: checkpoint[OUTER + name] for name in program.names})
    except ValueError as error:
        raise BadInputs(str(error)) from error


def heldout_loss(program: Program, checkpoint: State, heldout: Tensor) -> float:
    """Mean held-out loss of a checkpoint in nats per token, on one thread as workers compute."""
    with reproducible(torch.device("cpu")):
        return program.loss(checkpoint, heldout)
