"""A job's files, and all that a request's slot-round needs, fetched and checked in one call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from node.compute.cache import is_cached
from node.compute.programs import Programs, State, Tensors
from node.device import GB, memory
from node.errors import BadInputs, NodeOutOfMemory
from node.hardware import CPU
from node.inputs.checkpoints import checkpoint_cids, fetch_checkpoint, stream_checkpoint
from node.inputs.examples import StoredExamples, fetch_heldout
from node.inputs.fetching import TIMEOUT_S, root_from_hex
from node.inputs.programs import fetch_programs
from repops.graph import Graph
from zoo_compute.formats.manifest import MAX_MANIFEST_BYTES, Manifest
from zoo_compute.formats.tags import job_tag, round_tag
from zoo_compute.store.interface import Store
from zoo_compute.training.examples import Examples
from zoo_compute.training.memory import needed_bytes
from zoo_compute.training.work_root import work_of


@dataclass(frozen=True)
class Inputs:
    """All that a slot-round needs, checked. checkpoint: with one tensor in memory at a time where it was streamed."""

    manifest: Manifest
    programs: Programs
    checkpoint: Tensors
    store: Store

    @cached_property
    def examples(self) -> StoredExamples:
        """Those of a slot-round are here; an aggregation needs none."""
        return StoredExamples(self.store, self.manifest, self.programs.graph)


@dataclass(frozen=True)
class JobFiles:
    """A job's own files, checked against its manifest."""

    programs: Programs
    checkpoint: State
    examples: Examples
    heldout: Examples


def fetch_manifest(store: Store, cid: str) -> Manifest:
    return Manifest.from_bytes(store.read(cid, max_bytes=MAX_MANIFEST_BYTES, timeout_s=TIMEOUT_S))


def fetch_job(store: Store, manifest: Manifest) -> JobFiles:
    """Everything that the manifest names, in memory: what a replay starts from."""
    programs = fetch_programs(store, manifest)
    step = programs.graph
    checkpoint = dict(fetch_checkpoint(store, manifest, step, 0, 0, None, manifest.state_root))
    examples = {name: rows.whole() for name, rows in StoredExamples(store, manifest, step).items()}
    return JobFiles(programs, checkpoint, examples, fetch_heldout(store, manifest, step))


def fetch_inputs(
    store: Store,
    request: Mapping[str, Any],
    *,
    streamed: bool = False,
    share: int | None = None,
) -> Inputs:
    """What a request's job, round, manifest, checkpoint pointer and start_root name. streamed: the checkpoint; share: of it this alone.

    Fetches the examples of the request's `slot`, if it has one; in a job without custodians, all of them.
    The request's `work_root`, `data_root`, `flops` and `terms`, the chain's, are compared when they are there. Raises BadInputs.
    """
    manifest = fetch_manifest(store, request["manifest"])
    _check_root(request, "data_root", manifest.data_root)
    if request.get("flops", manifest.flops) != manifest.flops:
        raise BadInputs(f"the manifest's flops are {manifest.flops:,} a slot-round, the chain's {request['flops']:,}")
    # The contracts derive a step's data, and whether a claim may be parked, from the chain's terms: with others they would find an
    # honest claim false, or judge no lie of it.
    for name, value in request.get("terms", {}).items():
        if value != getattr(manifest, name):
            raise BadInputs(f"the manifest has {getattr(manifest, name)} {name}, the chain {value}")
    if not 0 <= request["round"] < manifest.rounds:
        raise BadInputs(f"round {request['round']}: the job has {manifest.rounds} rounds")
    programs = fetch_programs(store, manifest, request.get("device"))
    _check_fits(programs)
    _check_root(request, "work_root", _work_root(request["manifest"], manifest, programs.graph))
    step, root = programs.graph, root_from_hex(request["start_root"])
    pointers = request.get("checkpoint")
    fetch = stream_checkpoint if streamed else fetch_checkpoint
    checkpoint = fetch(store, manifest, step, request["job"], request["round"], pointers, root, share)
    inputs, of_job = Inputs(manifest, programs, checkpoint, store), job_tag(request["job"])
    own = [request["manifest"], manifest.program.cid]
    if not manifest.custodians:
        keep_examples(inputs, request["job"])
    elif "slot" in request:
        own.append(manifest.data.pieces)
        inputs.examples.fetch_round(request["round"], request["slot"])
    kept = dict.fromkeys(
        checkpoint_cids(store, manifest, pointers, share),
        of_job if pointers is None else round_tag(request["job"], request["round"]),
    )
    kept |= dict.fromkeys(own, of_job)
    for cid, tag in kept.items():
        if not is_cached(store, cid) and not store.is_pinned(cid, tag=tag):
            store.pin(cid, timeout_s=TIMEOUT_S, tag=tag)  # nodes keep what they train on: that is its redundancy
    return inputs


def keep_examples(inputs: Inputs, job: int) -> None:
    """Fetch, check and pin all of a job's examples: a custodian does, and everybody where there is none. Raises BadInputs."""
    data, store, tag = inputs.manifest.data, inputs.store, job_tag(job)
    if not store.is_pinned(data.cid, tag=tag):  # what is pinned was checked
        inputs.examples.fetch_all()
        for cid in (data.pieces, data.cid):
            store.pin(cid, timeout_s=TIMEOUT_S, tag=tag)


def _check_root(request: Mapping[str, Any], name: str, root: bytes) -> None:
    if name in request and root_from_hex(request[name]) != root:
        raise BadInputs(f"the manifest's {name} is {root.hex()}, the chain's {request[name]}")


_work_roots: OrderedDict[str, bytes] = OrderedDict()  # by the manifest's CID


def _work_root(cid: str, manifest: Manifest, step: Graph) -> bytes:
    """The root of the manifest's work. Cached for the last jobs: it takes seconds if updates are compressed."""
    if cid not in _work_roots:
        _work_roots[cid] = work_of(manifest, step).root
        while len(_work_roots) > 8:
            _work_roots.popitem(last=False)
    return _work_roots[cid]


def _check_fits(programs: Programs) -> None:
    """Check that the job fits this machine's memory, before large files are fetched. Raises NodeOutOfMemory."""
    # What a GPU computes passes through main memory; what the CPU computes is counted by the choice.
    needed, total = needed_bytes(programs.profile) if programs.device != CPU else 0, memory(CPU)[1]
    if needed > total:
        raise NodeOutOfMemory(
            f"the job needs about {needed / GB:,.1f} GB, this machine has {total / GB:,.1f} GB",
            hint="decline jobs of this size, or use a larger machine",
        )
    _ = programs.memory
