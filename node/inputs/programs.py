"""A job's programs, checked against its manifest; those of the last job stay ready."""

from __future__ import annotations

from collections import OrderedDict

from node.backends import on_switch
from node.compute.programs import Programs
from node.device import computes_on, parse_layout, pick_device
from node.errors import BadInputs
from node.inputs.fetching import TIMEOUT_S
from node.parallel.programs import RankedPrograms
from repops import encoding
from repops.graph import OPTIMIZER, BadProgram, Graph
from zoo_compute.formats.manifest import Manifest
from zoo_compute.store.interface import Store
from zoo_compute.training.outer_optimizers import OUTER
from zoo_compute.training.rounds import RESIDUAL, batch_nodes, with_residuals
from zoo_compute.training.shapes import outputs_mismatch

CHECKED = 256  # manifests of one program that are remembered as checked: jobs without end may name it
_ready: OrderedDict[tuple[str, str, str], Programs] = OrderedDict()


def _forget() -> None:
    while _ready:
        _ready.popitem()[1].close()


on_switch(_forget)


def fetch_programs(store: Store, manifest: Manifest, device: str | None = None) -> Programs:
    """The job's programs, checked against the manifest; the last job's stay ready. Raises BadInputs, NoDevice."""
    ranks, where = parse_layout(device), computes_on(pick_device(device))
    key = (manifest.program.cid, manifest.program.root, str(ranks or where))
    if key not in _ready:
        graph = _fetch_program(store, manifest)
        _ready[key] = RankedPrograms(graph, ranks, manifest.accumulate) if ranks else Programs(graph, where)
        while len(_ready) > 1:
            _ready.popitem(last=False)[1].close()
    programs = _ready[key]
    if manifest not in programs.checked:
        check_program(manifest, programs)
        if len(programs.checked) >= CHECKED:
            programs.checked.clear()
        programs.checked.add(manifest)
    return programs


def _fetch_program(store: Store, manifest: Manifest) -> Graph:
    data = store.read(manifest.program.cid, max_bytes=encoding.MAX_BYTES, timeout_s=TIMEOUT_S)
    try:
        graph = encoding.decode(data)
    except BadProgram as error:
        raise BadInputs(f"program {manifest.program.cid}: {error}") from error
    root = encoding.root(graph)
    if root != manifest.program_root:
        raise BadInputs(f"program {manifest.program.cid}: its root is {root.hex()}, expected {manifest.program.root}")
    return graph


def check_program(manifest: Manifest, programs: Programs) -> None:
    """Check the manifest's statements about its program. Raises BadInputs."""
    flops, graph = programs.profile.flops, programs.graph
    if flops != manifest.program.flops:
        raise BadInputs(f"program: a step has {flops:,} flops, the manifest says {manifest.program.flops:,}")
    parts = (manifest.accumulate, manifest.batch_size // manifest.accumulate)[manifest.accumulate == 1 :]
    shapes = {name: node.shape for name, node in batch_nodes(graph).items()}
    if not shapes or any(shape[: len(parts)] != parts for shape in shapes.values()):
        raise BadInputs(f"program: its batch is {shapes or 'nothing'}, the manifest's steps have {parts} examples")
    if not graph.exchanged or any(entry.name.startswith(OUTER) for entry in graph.state):
        raise BadInputs(f"program: nothing to exchange, or a name that starts with {OUTER!r}")
    if mismatch := outputs_mismatch(graph, manifest):
        raise BadInputs(f"program: {mismatch}")
    try:
        whole = not manifest.keeps_residuals or with_residuals(graph) == graph
    except BadProgram as error:
        raise BadInputs(str(error)) from error
    if not whole:
        raise BadInputs(f"program: its state lacks {RESIDUAL!r} of a tensor, which the manifest's compression needs")
    # What is carried of an entry of such a name is looked for in the update (docs/protocol/computation.md).
    named = {entry.name for entry in graph.state if entry.kind == OPTIMIZER and entry.name.startswith(RESIDUAL)}
    known = {RESIDUAL + name for name in graph.exchanged} if manifest.keeps_residuals else set()
    if manifest.carry > 1 and not named <= known:
        raise BadInputs(f"program: {min(named - known)!r} is an entry of the optimiser, and no residual of an update")
