"""The work of a node for its keeper: prepare, train, fetch, aggregate, verify. Requests and answers are plain JSON objects.

A request names content and roots. All content is checked against its root before use. Roots are hex, `checkpoint`
is the CID of the pointer to the checkpoint a round starts from (null for round 0), `start_root` the chain's root of it:

    every request   job, manifest (CID), round, checkpoint, start_root, [work_root, data_root, flops, terms, device]
    run_shard       + slot, [before, private] (node.inputs.carried_state)
    run_aggregation + [share], mask, bundles [{bundle (CID), root, operator, slots, start_root}]
    run_precompute  as run_aggregation
    run_aggregation_check + root, operator, bundles
    run_verification  + slot, operator, bundle (CID), root, shown (the result that an answer on chain revealed, or null), [slots of the bundle, before]
    run_fetching      + slots, operator, bundle (CID), root, timeout_s, [shares]
    run_pinning     job, manifest, checkpoint only
    run_holding     round may be the number of rounds: the checkpoint after the last one
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from node.backends import falls_back, remember
from node.compute.aggregation import aggregate, should_precompute
from node.compute.cache import put_async
from node.compute.memory_choice import why_not_aggregate
from node.compute.programs import Tensors
from node.compute.reexecution import Mismatch, verify_slot
from node.compute.report import ShardReport
from node.compute.training import Progress, ShardResult, probe_losses, root_of, train_shard
from node.device import as_node_memory_errors, parse_layout
from node.disputes.player import AGGREGATION_DISPUTE, dispute_of, result_in
from node.errors import BadInputs, NodeOutOfMemory, OverLimit, Withheld
from node.hardware import TIME_MARGIN, time_margin
from node.inputs import carried_state
from node.inputs.bundles import SlotResult
from node.inputs.checkpoints import checkpoint_cids, fetch_pointer, fetch_posted, pointers_of
from node.inputs.examples import fetch_heldout
from node.inputs.fetching import TIMEOUT_S, UNAVAILABLE, missing_update_chunk, root_from_hex
from node.inputs.job_files import Inputs, fetch_inputs, fetch_manifest, keep_examples
from node.inputs.programs import fetch_programs
from node.inputs.states import put_state
from node.inputs.updates import (
    fetch_results,
    get_update,
    get_updates,
    get_whole_update,
    pin_received,
    put_update,
    updates_at_once,
)
from node.measurement.step_cost import MeasuredProgram, limits_for, step_cost
from repops import backend
from zoo_compute.codec.files import UpdateLayout
from zoo_compute.formats.bundles import Pointer
from zoo_compute.formats.tags import job_tag, round_tag
from zoo_compute.json_codec import decode, finite_or_none
from zoo_compute.spec.frames import Result
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.store.dag import prefetch
from zoo_compute.store.interface import Store
from zoo_compute.training.examples import batch_of
from zoo_compute.training.held_bytes import LINK_BYTES, round_bytes
from zoo_compute.training.memory import aggregation_flops
from zoo_compute.training.outliers import harmful_slots, scores_of
from zoo_compute.training.rounds import aggregation_shares, checkpoint_bytes

log = logging.getLogger("zoo.worker")
Tamper = Callable[[Inputs, ShardResult], ShardResult]


def prepare(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """Fetch and check a job's inputs, check that it fits in memory, and measure its step in a child process with limits.

    Answers `slot_s`, of a slot-round, `load_s`, of its checkpoint over a slow link, `opening_s`, of a step's trace and its dearest opening, which `opening` names, and `aggregation_s`,
    the least for a round's updates; or `refused`, why not. `memory`: how the job fits this machine, if values are computed again
    for that. `cannot_aggregate`: why the memory is too small for that; empty if it is not.
    `measured_at`, `again_at`: when the program was measured, and may be again; a request with `too_slow_at` asks for that.
    """
    inputs = fetch_inputs(store, request, streamed=True)
    manifest, programs = inputs.manifest, inputs.programs
    profile, device, chosen = programs.profile, programs.device, programs.memory
    batch = batch_of(inputs.examples, manifest.examples_for(0, 0, 0), manifest.accumulate)
    layout = parse_layout(request.get("device"))
    measured = MeasuredProgram(
        manifest.program.cid,
        programs.graph,
        f"{layout.kind}:{layout.ranks}" if layout else str(device),
        manifest.accumulate,
        chosen.limit,
        chosen.folder,
    )
    limits = limits_for(measured, manifest.slot_s + manifest.reexecute_s)
    try:
        cost = step_cost(measured, inputs.checkpoint, batch, limits, too_slow_at=request.get("too_slow_at"))
    except OverLimit as error:
        refused = f"before a bid its program was measured here, and {error}"
        return {"job": request["job"], "refused": refused, "again_at": error.again_at}
    if not cost.kernels.startswith("cuda") and cost.kernels != backend.current():
        remember(request, cost.kernels, "others failed when the program was measured")
    slot_s = time_margin() * (cost.step_s * manifest.inner_steps + cost.root_s * (len(manifest.segments()) + 4))
    return {
        "job": request["job"],
        "advances": should_precompute(manifest, programs.graph),
        "step_s": cost.step_s,
        "slot_s": slot_s,
        "load_s": checkpoint_bytes(programs.graph, manifest.aggregation_spec) / LINK_BYTES,
        "trace_s": cost.trace_s,
        "opening_s": TIME_MARGIN * (cost.trace_s + cost.opening_s),
        "opening": cost.opening,
        "kernels": cost.kernels,
        "device": str(device),
        "needed_bytes": chosen.needed,
        "memory": chosen.line,
        "flops_per_s": profile.flops / cost.step_s,
        "aggregation_s": aggregation_flops(programs.graph, manifest.aggregation_spec) * cost.step_s / profile.flops,
        "cannot_aggregate": why_not_aggregate(manifest, programs.graph),
        "carry": manifest.carry,
        "measured_at": cost.measured_at,
        "again_at": cost.again_at,
    }


@falls_back
def run_shard(
    request: Mapping[str, Any],
    store: Store,
    *,
    progress: Progress | None = None,
    tamper: Tamper | None = None,
) -> dict[str, Any]:
    """Train one slot of one round, store its update, and answer its ShardReport.

    tamper: for fault injection.
    Raises BadInputs, NodeOutOfMemory and the store's errors; nothing is stored then.
    """
    began = time.perf_counter()
    inputs = fetch_inputs(store, request, streamed=True)
    programs, slots = inputs.programs, inputs.manifest.slots
    if not 0 <= request["slot"] < slots:
        raise BadInputs(f"slot {request['slot']}: the job has {slots} slots")
    inputs.examples.fetch_ahead(request["round"] + 1, request["slot"])
    with as_node_memory_errors(programs.profile, programs.device):
        result = train_shard(
            inputs.manifest,
            programs,
            inputs.checkpoint,
            inputs.examples,
            *(request["round"], request["slot"]),
            progress=progress,
            carried=carried_state.load(request, inputs, store),
            start_root=root_from_hex(request["start_root"]),
        )
    if tamper is not None:
        result = tamper(inputs, result)
    tag = round_tag(request["job"], request["round"])
    update = put_update(store, result.update, inputs.manifest, programs.graph, tag=tag)
    kept = carried_state.save(store, result.private, tag=tag)
    wall_s = time.perf_counter() - began
    return ShardReport.of(
        request, inputs.manifest, programs, result, update=update, private=kept, wall_s=wall_s
    ).to_dict()


def run_fetching(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """Fetch the data of one commitment as soon as possible: it can be demanded only for a while; in a job with custodians all that the
    updates commit to, but of an aggregator's `shares` these alone. Raises Withheld."""
    manifest = fetch_manifest(store, request["manifest"])
    graph = fetch_programs(store, manifest, request.get("device")).graph
    start, timeout_s, shares = root_from_hex(request["start_root"]), request["timeout_s"], request.get("shares") or ()
    try:
        entries = fetch_results(store, request, request, start, timeout_s)
    except UNAVAILABLE as error:
        raise Withheld(f"bundle {request['bundle']}: {error}", dict.fromkeys(request["slots"])) from error
    tag = round_tag(request["job"], request["round"])

    def problem(entry: SlotResult) -> str:
        try:
            for share in shares:
                get_update(store, entry, manifest, graph, timeout_s=timeout_s, tag=tag, share=share, streamed=True)
            if not shares:
                get_one = get_whole_update if manifest.custodians else get_update
                get_one(store, entry, manifest, graph, timeout_s=timeout_s, tag=tag)
        except UNAVAILABLE as error:
            return str(error) or type(error).__name__
        return ""

    problems = dict(zip(entries, prefetch(problem, entries.values(), updates_at_once()), strict=True))
    lacking = {slot: why for slot, why in problems.items() if why}
    if lacking:
        missing = {s: missing_update_chunk(store, entries[s].update, UpdateLayout.of(graph, manifest)) for s in lacking}
        raise Withheld(f"updates of slots {sorted(missing)}: {lacking[max(lacking)]}", missing)
    return {"job": request["job"], "slots": sorted(entries), "bundle": request["bundle"]}


@falls_back
def run_aggregation(request: Mapping[str, Any], store: Store, *, must_last: bool = True) -> dict[str, Any]:
    """Combine a round's committed updates; store the next checkpoint and its pointer. Answers `root` and `pointer`.

    must_last: the checkpoint is on the disk when this returns, since others will ask for it."""
    began = time.perf_counter()
    inputs = fetch_inputs(store, request, share=request.get("share"))
    entries, updates = _received(request, store, inputs, request.get("share"))
    checkpoint = aggregate(inputs.manifest, inputs.programs, inputs.checkpoint, updates, request.get("share"))
    mask = sum(1 << slot for slot in entries)
    root = root_of(checkpoint)
    tag = round_tag(request["job"], request["round"] + 1)  # a checkpoint belongs to the round that starts from it
    cid = put_state(store, checkpoint, tag=tag) if must_last else put_async(store, checkpoint, root, tag=tag)
    pointer = Pointer(request["job"], request["round"], cid, root, mask)
    return {
        "job": request["job"],
        "round": request["round"],
        "mask": hex(mask),
        "root": root.hex(),
        "state": cid,
        "pointer": store.add(pointer.to_bytes(), tag=tag),
        "updates": {str(slot): entry.update for slot, entry in sorted(entries.items())},
        "seconds": time.perf_counter() - began,
    }


@falls_back
def run_precompute(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """As `run_aggregation` of all `shares`, for a node that is not the aggregator. `root` is None if an input is missing or not as committed."""
    try:
        spec = fetch_manifest(store, request["manifest"]).aggregation_spec
        made = [
            run_aggregation({**request, "share": share}, store, must_last=share is not None)
            for share in aggregation_shares(spec)
        ]
        root = root_of_shares([root_from_hex(each["root"]) for each in made]).hex()
        return {"job": request["job"], "round": request["round"], "root": root, "shares": made}
    except (Withheld, *UNAVAILABLE) as error:
        log.warning("round %d's checkpoint is not made here and will be downloaded: %s", request["round"] + 1, error)
        return {"job": request["job"], "round": request["round"], "root": None, "message": str(error)}


@falls_back
def run_aggregation_check(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """Repeat an aggregation and compare the posted root. Answers `agrees`; if not, the place of a dispute, else the
    losses of a probe of the updates."""
    began = time.perf_counter()
    inputs = fetch_inputs(store, request, share=request.get("share"))
    updates = _received(request, store, inputs, request.get("share"))[1]
    made = aggregate(inputs.manifest, inputs.programs, inputs.checkpoint, updates, request.get("share"))
    root = root_of(made)
    posted = root_from_hex(request["root"])
    answer: dict[str, Any] = {name: request[name] for name in ("job", "round", "operator")}
    answer |= {"agrees": root == posted, "segments": 0}
    message = f"the checkpoint's root is {root.hex()}, posted was {posted.hex()}"
    false = {"field": "root", "message": message, "dispute": AGGREGATION_DISPUTE}
    answer |= _probed(request, store) if root == posted else false
    return {**answer, "seconds": time.perf_counter() - began}


def _probed(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """`odd`: [round, slot] of each update that by itself makes the loss worse; `probe`: the losses that say so. Empty if the
    probe is not possible: no verdict waits for files that a submitter may withhold. Of several shares, the first one's check does it."""
    if request.get("share"):
        return {}
    round_ = request["round"]
    try:
        inputs = fetch_inputs(store, request)
        manifest, programs = inputs.manifest, inputs.programs
        if not (heldout := fetch_heldout(store, manifest, programs.graph)):
            return {}
        updates = _received(request, store, inputs)[1]
        with as_node_memory_errors(programs.profile, programs.device):
            before, after = probe_losses(manifest, programs, inputs.checkpoint, heldout, round_, updates)
    except (*UNAVAILABLE, Withheld, NodeOutOfMemory) as error:
        log.warning("round %d's updates are not probed: %s", round_, error)
        return {}
    losses = {str(slot): finite_or_none(loss) for slot, loss in sorted(after.items())}
    odd = [[round_, slot] for slot in harmful_slots(before, after)]
    return {"odd": odd, "probe": {"before": finite_or_none(before), "after": losses}}


def _received(
    request: Mapping[str, Any], store: Store, inputs: Inputs, share: int | None = None
) -> tuple[dict[int, SlotResult], dict[int, Tensors]]:
    """The results that a checkpoint combines, and their updates, or one share of these, by slot."""
    entries: dict[int, SlotResult] = {}
    for commit in request["bundles"]:
        entries |= fetch_results(store, request, commit, root_from_hex(commit["start_root"]))
    tag = round_tag(request["job"], request["round"])
    received = get_updates(store, entries, inputs.manifest, inputs.programs.graph, tag=tag, share=share)
    return entries, {slot: each.state for slot, each in received.items()}


@falls_back
def run_verification(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """Re-execute one committed slot-round. Answers `agrees`, `segments`, and where the first difference is; and
    `odd`, [round, slot] of each update that the checkpoint it starts from has an odd score of."""
    began = time.perf_counter()
    answer = {name: request[name] for name in ("job", "round", "slot", "operator")}
    start = root_from_hex(request["start_root"])
    try:
        entry, result = _result(request, store, start)
    except (BadInputs, KeyError) as error:
        # The content has the committed CID, but is not the bundle of the committed root: the commitment itself is wrong.
        return {**answer, "agrees": False, "segments": 0, "field": "bundle", "message": str(error)}
    inputs = fetch_inputs(store, request, streamed=True)
    programs = inputs.programs
    rounds = carried_state.rounds_since_restart(request, inputs.manifest.carry)
    update, problem = None, ""
    try:
        tag = round_tag(request["job"], request["round"])
        update = get_update(store, entry, inputs.manifest, programs.graph, tag=tag, streamed=True).state
    except UNAVAILABLE as error:
        # Compare the roots without it: otherwise withholding it would hide a false result.
        problem = str(error) if isinstance(error, BadInputs) else ""
    with as_node_memory_errors(programs.profile, programs.device):
        last = carried_state.replay(request, rounds, inputs, store) if rounds else None
        outcome = verify_slot(
            inputs.manifest,
            programs,
            inputs.checkpoint,
            inputs.examples,
            request["round"],
            entry,
            update=update,
            carried=last.private if last is not None else None,
            start_root=start,
        )
    if isinstance(outcome, Mismatch):
        answer |= {"message": str(outcome), "dispute": dispute_of(entry.slot, result, outcome.field)}
        if last is not None and not carried_state.matches_claim(request, rounds, last, store):
            answer |= {"message": f"{outcome}, after a claim that is false, or cannot be had", "dispute": None}
    states = [root.hex() for root in outcome.states]
    odd = [score.slot for score in scores_of(inputs.checkpoint) if score.is_outlier]
    answer["odd"] = [[fetch_pointer(store, pointers_of(request["checkpoint"])[0]).round, slot] for slot in odd]
    answer |= {**outcome.to_dict(), "states": states, "seconds": time.perf_counter() - began}
    if problem and answer["agrees"]:
        answer |= {"agrees": False, "field": "update", "message": problem}
    return answer


def _result(request: Mapping[str, Any], store: Store, start: bytes) -> tuple[SlotResult, Result]:
    """A slot's result, without and with its path to the claim's root: from the bundle, else from an answer on chain."""
    slot = request["slot"]
    try:
        entries = fetch_results(store, request, request, start)
        return entries[slot], result_in(list(entries.values()), entries[slot])
    except (*UNAVAILABLE, KeyError):
        if request.get("shown") is None:
            raise
    result = Result(*decode(request["shown"]))
    return SlotResult(
        slot, "", start, *(result.segment_root, result.end_root, result.update_root), (0.0, 0.0), 0.0
    ), result


def run_pinning(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """Fetch and pin the last checkpoint of a job, which nobody trains on any more."""
    manifest = fetch_manifest(store, request["manifest"])
    kept = checkpoint_cids(store, manifest, request["checkpoint"])
    for cid in kept:
        store.pin(cid, timeout_s=TIMEOUT_S, tag=job_tag(request["job"]))
    return {"job": request["job"], "pinned": list(kept)}


def run_holding(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """Fetch, check and keep what a custodian signs for: a checkpoint, or program, data and first state of a job.

    Answers `round_bytes`, of one round, and whether the job has parents. Raises BadInputs, Withheld.
    """
    manifest = fetch_manifest(store, request["manifest"])
    if request["checkpoint"] is None:
        keep_examples(fetch_inputs(store, request), request["job"])
    graph = fetch_programs(store, manifest, request.get("device")).graph
    if request["checkpoint"] is not None:
        root, tag = root_from_hex(request["start_root"]), round_tag(request["job"], request["round"])
        at = (request["job"], request["round"], request["checkpoint"], root)
        fetch_posted(store, manifest, graph, *at, request.get("share"))
        for cid in checkpoint_cids(store, manifest, request["checkpoint"]):
            pin_received(store, cid, tag)
    return {"job": request["job"], "round_bytes": round_bytes(graph, manifest), "is_merged": bool(manifest.parents)}
