"""One dispute played against the contract, as the events it leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

from node.disputes.trees import Trees
from tests.support.explorations.exploration_board import deployed, dispute, training_claim
from tests.support.explorations.lying_jobs import mlp
from zoo_compute.chain.events import signatures

STEP = 3


class Played(NamedTuple):
    """An event, the second of its block, and its arguments by name."""

    name: str
    at: int
    args: dict[str, Any]


def played_dispute() -> list[Played]:
    """A lie about one part of an element of the first dot, from the first ask to the conviction."""
    deployed()
    case = mlp()
    dot = next(at for at, node in enumerate(case.graph.nodes) if node.op == "dot")
    liar = case.lying()
    liar.elements, liar.part, liar.states = {(STEP, dot): 5}, 1, {STEP: 0}
    theirs = Trees(liar)
    played = dispute(case, training_claim(case, theirs), theirs, Trees(case.honest))
    assert played.end is not None
    names = {each.name: [entry["name"] for entry in each.inputs] for each in signatures() if each.contract == "referee"}
    events = [each for each in played.picture.events if each.name in names]
    return [Played(each.name, each.at, dict(zip(names[each.name], each.args, strict=True))) for each in events]
