"""What a worker does for a dispute game: the next move of one side, from the job's files and the game's record.

    run_move   + slot, kind, side (committer, challenger), game, shown, claim, folder, [bundles of an aggregation]

`game` and `shown` are records as plain JSON (zoo_compute.plain); answers `name` and `args` of a function of the referee,
without the game's number, `name` null where no move helps.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from node import syncer
from node.disputes.challenger import Challenger
from node.disputes.computation import Computation, SlotRound
from node.disputes.moves import Shown
from node.disputes.prover import Prover
from node.disputes.trees import Trees
from node.programs import Programs
from repops.merkle import Tree
from zoo_compute.plain import plain, raw
from zoo_compute.records import SlotResult
from zoo_compute.spec.games import Awaits, Frame, Game, Kind, Phase, Result
from zoo_compute.spec.state import Claim
from zoo_compute.store.interface import Store
from zoo_compute.work import work_of

COMMITTER, CHALLENGER = "committer", "challenger"
KEPT = 2  # computations held at a time, each with a state of the job

_trees: OrderedDict[tuple[Any, ...], Trees] = OrderedDict()


def run_move(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """Raises BadInputs, Withheld and the store's errors."""
    trees = _trees_of(request, store)
    game = _game(request)
    shown = Shown(Phase(request["shown"][0]), *map(_by_phase, request["shown"][1:]))
    move = Prover(trees).answer(game) if request["side"] == COMMITTER else Challenger(trees).next(game, shown)
    return {"name": move and move.name, "args": plain(move.args) if move else []}


def dispute_of(
    inputs: syncer.Inputs, results: Sequence[SlotResult], entry: SlotResult, field: str
) -> dict[str, Any] | None:
    """What opens a game about one of a claim's results, whose `field` is false; None where that is no question of arithmetic."""
    if field not in ("segment_root", "end_root", "update_root"):
        return None
    ordered = sorted(results, key=lambda result: result.slot)
    path = Tree([result.root for result in ordered]).path(ordered.index(entry))
    kind = Kind.UPDATE if field == "update_root" else Kind.TRAINING
    return {
        "kind": int(kind),
        "slot": entry.slot,
        "work": plain(work_of(inputs.manifest, inputs.programs.graph)),
        "result": plain(Result(entry.segment_root, entry.end_root, entry.update_root, path)),
    }


def _trees_of(request: Mapping[str, Any], store: Store) -> Trees:
    key = tuple(request[name] for name in ("job", "manifest", "start_root", "round", "slot", "kind", "side"))
    if key not in _trees:
        _trees[key] = Trees(_computation(request, store))
        while len(_trees) > KEPT:
            _trees.popitem(last=False)
    _trees.move_to_end(key)
    return _trees[key]


def _computation(request: Mapping[str, Any], store: Store) -> Computation:
    inputs = syncer.fetch_inputs(store, request)
    # Of its own: the programs that are kept for training hold the state of another slot-round.
    programs = Programs(inputs.programs.graph, inputs.programs.device)
    folder = Path(request["folder"])
    return SlotRound(
        inputs.manifest,
        programs,
        inputs.checkpoint,
        inputs.examples,
        request["round"],
        request["slot"],
        folder=folder,
    )


def _game(request: Mapping[str, Any]) -> Game:
    """As `plain` has it, but for the claim, which the referee keeps as a hash."""
    values = dict(zip(_FIELDS, raw(request["game"]), strict=True))
    values |= {"frame": Frame(*values["frame"]), "claim": Claim(*raw(request["claim"]))}
    return replace(Game(**values), awaits=Awaits(values["awaits"]), phase=Phase(values["phase"]))


_FIELDS = tuple(Game.__dataclass_fields__)


def _by_phase(values: Mapping[str, Any]) -> dict[Phase, Any]:
    return {Phase(int(phase)): raw(each) for phase, each in values.items()}
