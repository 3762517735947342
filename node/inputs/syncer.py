"""Content in and out of the store: bounded when read, checked against roots before use, canonical when written."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from node.compute.cache import get_cached, is_cached
from node.compute.programs import Programs, State
from node.device import CPU, GB, computes_on, memory, parse_layout, pick_device, threads
from node.errors import BadInputs, FalseCheckpoint, NodeOutOfMemory
from node.inputs import bundles
from node.inputs.bundles import SlotResult
from node.inputs.fetching import missing_chunk, withheld_unless_fetched
from node.parallel.programs import RankedPrograms
from repops import encoding
from repops.commitments import state_root
from repops.files import FileRefused, parse_state, state_bytes
from repops.graph import OPTIMIZER, BadProgram, Graph, Node
from zoo_compute.codec import BadUpdateFile, files
from zoo_compute.codec.files import ReceivedUpdate, UpdateLayout
from zoo_compute.formats.bundles import MAX_POINTER_BYTES, BadRecord
from zoo_compute.formats.bundles import Pointer as Pointer
from zoo_compute.formats.manifest import MAX_MANIFEST_BYTES, Manifest
from zoo_compute.formats.tags import round_tag
from zoo_compute.jobs.files import batch_mismatch, shape_mismatch
from zoo_compute.store.blockstore import BlockStore
from zoo_compute.store.dag import prefetch
from zoo_compute.store.interface import Store
from zoo_compute.training.examples import Examples
from zoo_compute.training.memory import needed_bytes
from zoo_compute.training.outer_optimizers import OUTER
from zoo_compute.training.rounds import (
    HEADER_ROOM,
    RESIDUAL,
    batch_nodes,
    checkpoint_bytes,
    checkpoint_nodes,
    file_bytes,
    with_residuals,
)
from zoo_compute.training.work_root import work_of

TIMEOUT_S = 120.0
MAX_CONCURRENT_FETCHES = 4  # updates that are fetched side by side
MAX_DATA_BYTES = 2**34


@dataclass(frozen=True)
class Inputs:
    """All that a slot-round needs, checked."""

    manifest: Manifest
    programs: Programs
    checkpoint: State
    examples: Examples


@dataclass(frozen=True)
class JobFiles:
    """A job's own files, checked against its manifest."""

    programs: Programs
    checkpoint: State
    examples: Examples
    heldout: Examples


def root_from_hex(text: str) -> bytes:
    """A 32-byte root as requests carry it, with or without 0x. Raises BadInputs."""
    try:
        root = bytes.fromhex(text.removeprefix("0x"))
    except (ValueError, AttributeError) as error:
        raise BadInputs(f"expected a root in hex, got {text!r}") from error
    if len(root) != 32:
        raise BadInputs(f"expected a root of 32 bytes, got {text!r}")
    return root


def put_state(store: Store, state: State, *, tag: str = "") -> str:
    """Store a state's canonical file, pinned; its CID."""
    return store.add(state_bytes(state), tag=tag)


def get_state(store: Store, cid: str, root: bytes, *, max_bytes: int, timeout_s: float = TIMEOUT_S) -> State:
    """Fetch a state and check it against `root`. Raises BadInputs; the store's errors pass."""
    state = _parsed(store.read(cid, max_bytes=max_bytes, timeout_s=timeout_s), cid)
    found = state_root(state)
    if found != root:
        raise BadInputs(f"state {cid}: its root is {found.hex()}, expected {root.hex()}")
    return state


def put_update(store: Store, update: State, manifest: Manifest, step: Graph, *, tag: str = "") -> str:
    """Store a slot's update, pinned; the CID of what others read of it."""
    return files.put(store, update, UpdateLayout.of(step, manifest.compression), threads=threads(), tag=tag)


def get_update(
    store: Store, entry: SlotResult, manifest: Manifest, step: Graph, *, timeout_s: float = TIMEOUT_S, tag: str = ""
) -> ReceivedUpdate:
    """Fetch what a slot's author sent of its update, checked against its root. Raises BadInputs; the store's errors pass.

    tag: keep it under this one, for whoever may have to combine it again when its author is gone.
    """
    try:
        parts = UpdateLayout.of(step, manifest.compression)
        update = files.get(store, entry.update, parts, timeout_s=timeout_s, threads=threads())
    except BadUpdateFile as error:
        raise BadInputs(f"update {entry.update}: {error}") from error
    if update.tree.root != entry.update_root:
        found, wanted = update.tree.root.hex(), entry.update_root.hex()
        raise BadInputs(f"update {entry.update}: its root is {found}, expected {wanted}")
    if tag:
        _keep(store, entry.update, tag)
    return update


def _keep(store: Store, cid: str, tag: str) -> None:
    """Pin what others made and is here. A daemon knows no tags: there it is left to the daemon's own collection."""
    if isinstance(store, BlockStore) and not store.is_pinned(cid, tag=tag):
        store.pin(cid, timeout_s=TIMEOUT_S, tag=tag)


def get_updates(
    store: Store, entries: Mapping[int, SlotResult], manifest: Manifest, step: Graph, *, tag: str = ""
) -> dict[int, ReceivedUpdate]:
    """As `get_update`, of several slots, by slot; a few at once: one after the other waits for round trips."""
    slots = sorted(entries)
    found = prefetch(
        lambda slot: get_update(store, entries[slot], manifest, step, tag=tag), slots, MAX_CONCURRENT_FETCHES
    )
    return dict(zip(slots, found, strict=True))


def get_own_state(store: Store, cid: str, nodes: dict[str, Node], *, timeout_s: float) -> State:
    """A state that this machine stored, of tensors like these. Raises BadInputs; the store's errors pass."""
    return _parsed(store.read(cid, max_bytes=file_bytes(nodes), timeout_s=timeout_s), cid)


def fetch_manifest(store: Store, cid: str) -> Manifest:
    return Manifest.from_bytes(store.read(cid, max_bytes=MAX_MANIFEST_BYTES, timeout_s=TIMEOUT_S))


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
    _keep(store, commit["bundle"], round_tag(request["job"], request["round"]))
    return {result.slot: result for result in bundle.results}


def fetch_pointer(store: Store, cid: str) -> Pointer:
    """Raises BadInputs; the store's errors pass."""
    try:
        return Pointer.from_bytes(store.read(cid, max_bytes=MAX_POINTER_BYTES, timeout_s=TIMEOUT_S))
    except BadRecord as error:
        raise BadInputs(str(error)) from error


def fetch_programs(store: Store, manifest: Manifest, device: str | None = None) -> Programs:
    """The job's programs, checked against the manifest; the last job's stay ready. Raises BadInputs, NoDevice."""
    ranks, where = parse_layout(device), computes_on(pick_device(device))
    key = (manifest.program.cid, manifest.program.root, str(ranks or where))
    if key not in _programs:
        graph = _fetch_program(store, manifest)
        _programs[key] = RankedPrograms(graph, ranks, manifest.accumulate) if ranks else Programs(graph, where)
        while len(_programs) > 1:
            _programs.popitem(last=False)[1].close()
    programs = _programs[key]
    if manifest not in programs.checked:
        _check_program(manifest, programs)
        programs.checked.add(manifest)
    return programs


def fetch_checkpoint(
    store: Store, manifest: Manifest, step: Graph, job: int, round: int, pointer: str | None, root: bytes
) -> State:
    """The checkpoint that `round` starts from; `pointer` is None for the initial state, `root` is the chain's.

    Raises Withheld for a checkpoint that cannot be had, FalseCheckpoint, BadInputs; of the initial state the store's errors pass.
    """
    if pointer is None:
        if round > manifest.delay or root != manifest.state_root:
            raise BadInputs(f"round {round} starts from {root.hex()}, which is not the manifest's initial state")
        state = get_state(store, manifest.state.cid, root, max_bytes=checkpoint_bytes(step, manifest.aggregation_spec))
    else:
        state = _made_checkpoint(store, manifest, step, job, round, pointer, root)
    told = shape_mismatch(state, step, manifest.aggregation_spec)
    if told:
        refused = BadInputs if pointer is None else FalseCheckpoint
        raise refused(f"the checkpoint does not hold this program's tensors: {told}")
    return state


def _made_checkpoint(
    store: Store, manifest: Manifest, step: Graph, job: int, round: int, pointer: str, root: bytes
) -> State:
    nodes = checkpoint_nodes(step, manifest.aggregation_spec)
    with withheld_unless_fetched():
        found = fetch_pointer(store, pointer)
        is_near = 0 <= round - 1 - found.round <= manifest.delay  # the aggregator's, and of a delayed job the slots'
        if (found.job, found.root) != (job, root) or not is_near:
            raise BadInputs(
                f"checkpoint pointer {pointer} is of job {found.job}, round {found.round}, root {found.root.hex()}; "
                f"expected job {job}, round {round - 1}, root {root.hex()}"
            )
    with withheld_unless_fetched(lambda: missing_chunk(store, found.state, nodes)):
        state = get_cached(store, found.state, root)
        return get_state(store, found.state, root, max_bytes=file_bytes(nodes)) if state is None else state


def should_precompute(manifest: Manifest, step: Graph) -> bool:
    """Whether all updates of a round have fewer bytes than the checkpoint that is made of them."""
    compression = manifest.compression
    share = compression.bits / 32
    if compression.keep is not None:
        share = (compression.bits + math.log2(compression.chunk)) / 32 * compression.keep / compression.chunk
    update = sum(4 * step.nodes[entry.before].elements for entry in step.state if entry.name in step.exchanged)
    checkpoint = sum(4 * node.elements for node in checkpoint_nodes(step, manifest.aggregation_spec).values())
    return manifest.slots * share * update < checkpoint


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
    examples = _parsed(data, "held-out examples")
    _check_examples(examples, step, manifest, at_least=manifest.batch_size)
    return examples


def fetch_job(store: Store, manifest: Manifest) -> JobFiles:
    """Everything that the manifest names: what a replay starts from."""
    programs = fetch_programs(store, manifest)
    step = programs.graph
    checkpoint = fetch_checkpoint(store, manifest, step, 0, 0, None, manifest.state_root)
    return JobFiles(programs, checkpoint, fetch_examples(store, manifest, step), fetch_heldout(store, manifest, step))


def fetch_inputs(store: Store, request: Mapping[str, Any]) -> Inputs:
    """What a request's job, round, manifest, checkpoint pointer and start_root name.

    The request's `work_root`, `data_root`, `flops` and `terms`, the chain's, are compared when they are there. Raises BadInputs.
    """
    manifest = fetch_manifest(store, request["manifest"])
    _check_root(request, "data_root", manifest.data_root)
    if request.get("flops", manifest.flops) != manifest.flops:
        raise BadInputs(f"the manifest's flops are {manifest.flops:,} a slot-round, the chain's {request['flops']:,}")
    # The contracts find a step's data by the chain's slots: with others an honest claim would be false to them.
    for name, told in request.get("terms", {}).items():
        if told != getattr(manifest, name):
            raise BadInputs(f"the manifest has {getattr(manifest, name)} {name}, the chain {told}")
    if not 0 <= request["round"] < manifest.rounds:
        raise BadInputs(f"round {request['round']}: the job has {manifest.rounds} rounds")
    programs = fetch_programs(store, manifest, request.get("device"))
    _check_fits(manifest, programs)
    _check_root(request, "work_root", _work_root(request["manifest"], manifest, programs.graph))
    step, root = programs.graph, root_from_hex(request["start_root"])
    pointer = request.get("checkpoint")
    checkpoint = fetch_checkpoint(store, manifest, step, request["job"], request["round"], pointer, root)
    examples = fetch_examples(store, manifest, step)
    of_round = "" if pointer is None else round_tag(request["job"], request["round"])
    kept = dict.fromkeys(checkpoint_cids(store, manifest, pointer), of_round)
    for cid, tag in {**kept, request["manifest"]: "", manifest.program.cid: "", manifest.data.cid: ""}.items():
        if not is_cached(store, cid) and not store.is_pinned(cid, tag=tag):
            store.pin(cid, timeout_s=TIMEOUT_S, tag=tag)  # who trains on it keeps it: that is its redundancy
    return Inputs(manifest, programs, checkpoint, examples)


def _check_root(request: Mapping[str, Any], name: str, root: bytes) -> None:
    if name in request and root_from_hex(request[name]) != root:
        raise BadInputs(f"the manifest's {name} is {root.hex()}, the chain's {request[name]}")


def checkpoint_cids(store: Store, manifest: Manifest, pointer: str | None) -> tuple[str, ...]:
    """The files a checkpoint consists of: pointer and state; of the initial one, the manifest's state."""
    return (manifest.state.cid,) if pointer is None else (pointer, fetch_pointer(store, pointer).state)


def _work_root(cid: str, manifest: Manifest, step: Graph) -> bytes:
    """The root of the manifest's work; those of the last jobs are remembered, since it takes seconds where updates are compressed."""
    if cid not in _work_roots:
        _work_roots[cid] = work_of(manifest, step).root
        while len(_work_roots) > 8:
            _work_roots.popitem(last=False)
    return _work_roots[cid]


_work_roots: OrderedDict[str, bytes] = OrderedDict()  # by the manifest's CID
_examples: OrderedDict[tuple[str, str], Examples] = OrderedDict()
_programs: OrderedDict[tuple[str, str, str], Programs] = OrderedDict()


def _fetch_program(store: Store, manifest: Manifest) -> Graph:
    data = store.read(manifest.program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=TIMEOUT_S)
    try:
        graph = encoding.decode(data)
    except BadProgram as error:
        raise BadInputs(f"program {manifest.program.cid}: {error}") from error
    found = encoding.root(graph)
    if found != manifest.program_root:
        raise BadInputs(f"program {manifest.program.cid}: its root is {found.hex()}, expected {manifest.program.root}")
    return graph


def _check_program(manifest: Manifest, programs: Programs) -> None:
    """What the manifest says about its program is so."""
    flops, graph = programs.profile.flops, programs.graph
    if flops != manifest.program.flops:
        raise BadInputs(f"program: a step has {flops:,} flops, the manifest says {manifest.program.flops:,}")
    parts = (manifest.accumulate, manifest.batch_size // manifest.accumulate)[manifest.accumulate == 1 :]
    shapes = {name: node.shape for name, node in batch_nodes(graph).items()}
    if not shapes or any(shape[: len(parts)] != parts for shape in shapes.values()):
        raise BadInputs(f"program: its batch is {shapes or 'nothing'}, the manifest's steps have {parts} examples")
    if not graph.exchanged or any(entry.name.startswith(OUTER) for entry in graph.state):
        raise BadInputs(f"program: nothing to exchange, or a name that starts with {OUTER!r}")
    try:
        whole = not manifest.keeps_residuals or with_residuals(graph) == graph
    except BadProgram as error:
        raise BadInputs(str(error)) from error
    if not whole:
        raise BadInputs(f"program: its state lacks {RESIDUAL!r} of a tensor, which the manifest's compression needs")
    # What is carried of an entry of such a name is looked for in the update (docs/referee.md, "What is computed").
    named = {entry.name for entry in graph.state if entry.kind == OPTIMIZER and entry.name.startswith(RESIDUAL)}
    known = {RESIDUAL + name for name in graph.exchanged} if manifest.keeps_residuals else set()
    if manifest.carry > 1 and not named <= known:
        raise BadInputs(f"program: {min(named - known)!r} is an entry of the optimiser, and no residual of an update")


def _fetch_examples(store: Store, manifest: Manifest, step: Graph) -> Examples:
    room = HEADER_ROOM + _data_bytes(manifest, step)
    if room > MAX_DATA_BYTES:
        raise BadInputs(f"the data may have {room:,} bytes, more than the {MAX_DATA_BYTES:,} this node takes")
    data = store.read(manifest.data.cid, max_bytes=room, timeout_s=TIMEOUT_S)
    examples = _parsed(data, "examples")
    if state_root(examples) != manifest.data_root:
        raise BadInputs(f"data {manifest.data.cid}: does not match the manifest's root")
    return examples


def _data_bytes(manifest: Manifest, step: Graph) -> int:
    """The most bytes of the examples: each as large as in the batch (tokens, which become inputs and targets, half of that)."""
    words = sum(node.elements // manifest.batch_size for node in batch_nodes(step).values())
    return 4 * manifest.data.examples * words


def _check_examples(examples: Examples, step: Graph, manifest: Manifest, *, at_least: int) -> None:
    counts = {name: len(array) if array.ndim else 0 for name, array in examples.items()}
    if len(set(counts.values())) != 1 or min(counts.values()) < at_least:
        raise BadInputs(f"data: expected arrays of equally many examples, at least {at_least}, got {counts}")
    told = batch_mismatch(examples, step, manifest.batch_size, manifest.accumulate)
    if told:
        raise BadInputs(f"data: {told}")


def _parsed(data: bytes, what: str) -> State:
    try:
        return parse_state(data)
    except FileRefused as error:
        raise BadInputs(f"{what}: {error}") from error


def _check_fits(manifest: Manifest, programs: Programs) -> None:
    """Before anything large is fetched: the job fits this machine's memory. Raises NodeOutOfMemory."""
    needed, total = needed_bytes(programs.profile) + _data_bytes(manifest, programs.graph), memory(CPU)[1]
    if needed > total:
        raise NodeOutOfMemory(
            f"the job needs about {needed / GB:,.1f} GB with its data, this machine has {total / GB:,.1f} GB",
            hint="decline jobs of this size, or use a larger machine",
        )
