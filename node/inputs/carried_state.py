"""A slot's private state at the beginning of a round: from this machine's store, else recomputed from the last restart on.

A request about a slot names in `before` the rounds in which claims of one operator followed each other up to this one (oldest
first, each `round, checkpoint, start_root` as of a request, and its claim's `bundle, root, operator`), and in `private` the CID
of what the last of them left here, or null. No root is published of the whole of it: what is kept must be one's own. docs/protocol/computation.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.compute.cache import get_cached, put_async
from node.compute.programs import State
from node.compute.training import ShardResult, train_shard
from node.errors import BadInputs
from node.inputs.checkpoints import fetch_checkpoint
from node.inputs.fetching import UNAVAILABLE, root_from_hex
from node.inputs.job_files import Inputs
from node.inputs.states import get_own_state
from node.inputs.updates import fetch_results
from zoo_compute.spec.carry import is_restart
from zoo_compute.store.errors import ContentMissing, StoreUnreachable
from zoo_compute.store.interface import Store
from zoo_compute.training.rounds import private

LOCAL_READ_TIMEOUT_S = 5.0  # nobody else has it


def rounds_since_restart(request: Mapping[str, Any], carry: int) -> list[Mapping[str, Any]]:
    """The rounds of `before` since the last restart."""
    if is_restart(request["round"], carry):
        return []
    return list(request.get("before", []))[-(request["round"] % carry) :]


def load(request: Mapping[str, Any], inputs: Inputs, store: Store) -> State | None:
    """The private state that a slot begins the round with; None if it has none. Raises as `fetch_inputs`."""
    rounds = rounds_since_restart(request, inputs.manifest.carry)
    if not rounds:
        return None
    return _kept(request.get("private"), inputs, store) or replay(request, rounds, inputs, store).private


def replay(request: Mapping[str, Any], rounds: list[Mapping[str, Any]], inputs: Inputs, store: Store) -> ShardResult:
    """Recompute these rounds of the slot. Returns the last result; the programs then have its end state loaded."""
    manifest, programs, state = inputs.manifest, inputs.programs, None
    for each in rounds:
        root = root_from_hex(each["start_root"])
        checkpoint = fetch_checkpoint(
            store, manifest, programs.graph, request["job"], each["round"], each["checkpoint"], root
        )
        place = (each["round"], request["slot"])
        result = train_shard(manifest, programs, checkpoint, inputs.examples, *place, carried=state, start_root=root)
        state = result.private
    return result


def matches_claim(request: Mapping[str, Any], rounds: list[Mapping[str, Any]], last: ShardResult, store: Store) -> bool:
    """Whether the previous claim agrees with the recomputed state. If not, that claim is false, and this one is not judged."""
    claim = rounds[-1]
    start = root_from_hex(claim["start_root"])
    try:
        entry = fetch_results(store, {**request, "round": claim["round"]}, claim, start)[request["slot"]]
    except (*UNAVAILABLE, KeyError):
        return False
    return (entry.end_root, entry.update_root) == (last.end_root, last.update_root)


def save(store: Store, state: State, *, tag: str = "") -> str | None:
    """Store the private state for the slot's next round here. Returns its CID; None if the job carries nothing."""
    return put_async(store, state, tag=tag) if state else None


def _kept(cid: str | None, inputs: Inputs, store: Store) -> State | None:
    """The stored private state; None if it is gone or does not fit the program: then it is recomputed."""
    if cid is None:
        return None
    state = get_cached(store, cid)
    if state is not None:
        return state
    graph = inputs.programs.graph
    nodes = {entry.name: graph.nodes[entry.before] for entry in graph.state if entry.name in private(graph)}
    try:
        state = get_own_state(store, cid, nodes, timeout_s=LOCAL_READ_TIMEOUT_S)
    except (ContentMissing, StoreUnreachable, BadInputs):
        return None
    fits = {name: array.shape for name, array in state.items()} == {name: node.shape for name, node in nodes.items()}
    return state if fits else None
