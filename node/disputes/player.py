"""What a worker does for a dispute game: the next move of one side, from the job's files and the game's record.

    run_move   + slot, kind, side (committer, challenger), game, shown, claim, folder, bundles (of an aggregation, each with its claim),
                 before (node.inputs.carried_state), aggregated (the claim that is kept in the aggregation's place of the turn before, or null),
                 bundles_before (of the turn before, as bundles)

Of a trial `trial` (its program's root, its start's, its seed) is in the place of slot, bundles and what names a job's files.
`game` and `shown` are records as plain JSON (zoo_compute.json_codec); answers `name` and `args` of a function of the referee,
without the game's number, `name` null where no move helps.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from node.admission import benchmark
from node.admission.trial import LoadedWorkload
from node.backends import falls_back, on_switch
from node.compute.programs import Programs, State
from node.device import computes_on, pick_device
from node.disputes.challenger import Challenger
from node.disputes.computation import Computation, SlotRound
from node.disputes.defender import Defender
from node.disputes.previous_turn import PreviousTurn, SeatClaim
from node.disputes.rounds import Aggregation, Update
from node.disputes.trees import Trees
from node.disputes.trials import Trial
from node.inputs import carried_state
from node.inputs.fetching import root_from_hex
from node.inputs.job_files import Inputs, fetch_inputs
from node.inputs.updates import fetch_results, get_updates
from repops.commitments import tensor_roots
from repops.merkle import Tree
from zoo_compute.codec.pruning import PrunedTree
from zoo_compute.disputes.revealed import COMMITTER, RevealedState
from zoo_compute.formats.bundles import SlotResult
from zoo_compute.json_codec import decode, encode
from zoo_compute.spec.carry import is_restart
from zoo_compute.spec.frames import Awaits, Frame, Game, Kind, Phase, Result
from zoo_compute.spec.state import Claim
from zoo_compute.store.interface import Store
from zoo_compute.training.work_root import work_of

log = logging.getLogger("zoo.disputes")

SlotRoundFactory = Callable[..., SlotRound]
KEPT = 2  # computations kept in memory, each with a state of the job

_trees: OrderedDict[tuple[Any, ...], Trees] = OrderedDict()
on_switch(_trees.clear)


@falls_back
def run_move(request: Mapping[str, Any], store: Store, *, made: SlotRoundFactory = SlotRound) -> dict[str, Any]:
    """Raises BadInputs, Withheld and the store's errors. made: for fault injection.

    Training may hold the GPU's memory, and a move's clock does not wait for it: the move is then computed on the CPU.
    """
    return _move(request, store, made)


def _move(request: Mapping[str, Any], store: Store, made: SlotRoundFactory) -> dict[str, Any]:
    trees = _trees_of(request, store, made)
    game = _game(request)
    revealed = RevealedState(Phase(request["shown"][0]), *map(_by_phase, request["shown"][1:]))
    try:
        move = Defender(trees).answer(game) if request["side"] == COMMITTER else Challenger(trees).next(game, revealed)
    except BaseException:
        _trees.clear()  # a step that memory did not suffice for may be done by half: it must not be gone on from
        raise
    return {"name": move and move.name, "args": encode(move.args) if move else []}


def dispute_of(inputs: Inputs, slot: int, result: Result, field: str) -> dict[str, Any] | None:
    """What opens a game about a slot's result, whose `field` is false; None where that is no question of arithmetic."""
    if field not in ("segment_root", "end_root", "update_root"):
        return None
    kind = Kind.UPDATE if field == "update_root" else Kind.TRAINING
    return {
        "kind": int(kind),
        "slot": slot,
        "work": encode(work_of(inputs.manifest, inputs.programs.graph)),
        "result": encode(result),
    }


def aggregation_dispute(inputs: Inputs) -> dict[str, Any]:
    """As `dispute_of`, about an aggregation."""
    work = work_of(inputs.manifest, inputs.programs.graph)
    return {"kind": int(Kind.AGGREGATION), "slot": 0, "work": encode(work), "result": encode(Result())}


def result_in(results: Sequence[SlotResult], entry: SlotResult) -> Result:
    """One of a claim's results with its path to the claim's root."""
    ordered = sorted(results, key=lambda result: result.slot)
    path = Tree([result.root for result in ordered]).path(ordered.index(entry))
    return Result(entry.segment_root, entry.end_root, entry.update_root, path)


def _key(request: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("device", "folder", "manifest", "start_root", "round", "slot", "kind", "side")
    return tuple(request.get(name) for name in names)


def _trees_of(request: Mapping[str, Any], store: Store, made: SlotRoundFactory) -> Trees:
    key = _key(request)
    if key not in _trees:
        _trees[key] = Trees(_computation(request, store, made))
        while len(_trees) > KEPT:
            _trees.popitem(last=False)
    _trees.move_to_end(key)
    return _trees[key]


def _computation(request: Mapping[str, Any], store: Store, made: SlotRoundFactory) -> Computation:
    folder = Path(request["folder"])
    if "trial" in request:
        return _trial(request, folder)
    inputs = fetch_inputs(store, request)
    if request["kind"] == Kind.AGGREGATION:
        return _aggregation(request, store, inputs, folder)
    # Of its own: the programs that are kept for training hold the state of another slot-round.
    programs = Programs(inputs.programs.graph, inputs.programs.device)
    place = (request["round"], request["slot"])
    begins: dict[str, Any] = {"carried": None, "before": None}
    if not is_restart(request["round"], inputs.manifest.carry):
        begins = _going_on(request, store, inputs)
    computed = made(inputs.manifest, programs, inputs.checkpoint, inputs.examples, *place, folder=folder, **begins)
    return Update(computed, folder=folder / "update") if request["kind"] == Kind.UPDATE else computed


def _going_on(request: Mapping[str, Any], store: Store, inputs: Inputs) -> dict[str, Any]:
    """What a slot-round goes on from, done again, and what shows it: claims are the chain's, of one the results too."""
    rounds, kept = carried_state.rounds_since_restart(request, inputs.manifest.carry), request["aggregated"]
    last = carried_state.replay(request, rounds, inputs, store) if rounds else None
    end = inputs.programs.tensor_roots() if last else {}
    seated, slot = [], request["slot"]
    for commit in request["bundles_before"]:
        claim = Claim(*decode(commit["claim"]))
        entries = {}
        if rounds and slot in claim.slots:
            entries = fetch_results(store, {**request, "round": claim.round}, commit, claim.start_root)
        results = {slot: result_in(list(entries.values()), entries[slot])} if entries else {}
        seated.append(SeatClaim(claim, results))
    before = PreviousTurn(
        Claim(*decode(kept)) if kept else None, seated, end, tensor_roots(last.update) if last else {}
    )
    return {"carried": last.private if last is not None else None, "before": before}


def _trial(request: Mapping[str, Any], folder: Path) -> Trial:
    """Of this installation's benchmark. Raises BadInputs where the workload is another."""
    program_root, state_root, seed = map(bytes.fromhex, request["trial"])
    programs = Programs(benchmark.fixed_program(), computes_on(pick_device(request.get("device"))))
    return Trial(LoadedWorkload(programs, program_root, state_root), seed, folder=folder)


def _aggregation(request: Mapping[str, Any], store: Store, inputs: Inputs, folder: Path) -> Aggregation:
    """From what the present seats committed, fetched and checked."""
    step = inputs.programs.graph
    updates, trees, seated = dict[int, State](), dict[int, PrunedTree](), []
    for commit in request["bundles"]:
        entries = fetch_results(store, request, commit, root_from_hex(commit["start_root"]))
        for slot, received in get_updates(store, entries, inputs.manifest, step).items():
            updates[slot], trees[slot] = received.state, received.tree
        results = {slot: result_in(list(entries.values()), entry) for slot, entry in entries.items()}
        seated.append(SeatClaim(Claim(*decode(commit["claim"])), results))
    claim = Claim(*decode(request["claim"]))
    sent: Any = {"claim": claim, "seated": seated, "trees": trees, "folder": folder}
    return Aggregation(inputs.manifest, step, inputs.checkpoint, updates, **sent)


def _game(request: Mapping[str, Any]) -> Game:
    """As `plain` has it, but for the claim, which the referee keeps as a hash."""
    values = dict(zip(_FIELDS, decode(request["game"]), strict=True))
    values |= {"frame": Frame(*values["frame"]), "claim": Claim(*decode(request["claim"]))}
    return replace(Game(**values), awaits=Awaits(values["awaits"]), phase=Phase(values["phase"]))


_FIELDS = tuple(Game.__dataclass_fields__)


def _by_phase(values: Mapping[str, Any]) -> dict[Phase, Any]:
    return {Phase(int(phase)): decode(each) for phase, each in values.items()}
