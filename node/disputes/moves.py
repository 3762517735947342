"""A game's moves, and what the committer's show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from zoo_compute.disputes.revealed import RevealedState
from zoo_compute.spec.frames import Phase


class Move(NamedTuple):
    """A function of the referee, and its arguments after the game's number, as records of the specification."""

    name: str
    args: tuple[Any, ...]


PHASE_ENTERED_BY = {
    "open_segment": Phase.STEPS,
    "open_step": Phase.NODES,
    "open_trace": Phase.NODES,
    "open_begin": Phase.STATE,
    "dispute_state": Phase.STATE,
    "open_node": Phase.ELEMENTS,
    "open_parts": Phase.PARTS,
}


def with_move(revealed: RevealedState, move: Move) -> RevealedState:
    """The state after a move, from the move itself: as `RevealedState` has it from the events."""
    name, args = move
    if name in PHASE_ENTERED_BY:
        children = args[-1] if name == "open_begin" else getattr(args[-1], "children", ())
        leaf = getattr(args[-1], {"open_node": "leaf", "open_parts": "last"}.get(name, ""), b"")
        entered = replace(revealed, phase=PHASE_ENTERED_BY[name])
        return entered.with_children(children) if children else entered.with_leaf(leaf)
    if name == "reveal":
        return revealed.with_children(args[0])
    return revealed.with_leaf(args[0]) if name == "open_leaf" else revealed
