"""What the referee's events say of a call, from docs/protocol/: (name, fields in the event's order)."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from zoo_compute.spec.game_ends import is_pending
from zoo_compute.spec.frames import Awaits, Game, Outcome, Phase, claim_hash
from zoo_compute.spec.state import World
from zoo_compute.spec.world import Call

Event = tuple[str, tuple[Any, ...]]


def expected_events(call: Call, before: World, after: World) -> list[Event]:
    """Of an accepted call to the referee."""
    if call.function == "withdraw":
        return [("Withdrawn", (*call.args, before.referee_owed[call.args]))]
    if call.function == "challenge":
        return _opened(call, after.game_count, after.games[after.game_count])
    number = call.args[0]
    if after.games[number] == Game():
        return [_ended(number, before, after)]
    return _moved(call, number, after.games[number])


def _opened(call: Call, number: int, game: Game) -> list[Event]:
    job, claim, *_ = call.args
    bonds = call.value, game.tokens
    opened = (job, number, call.sender, claim.operator, claim_hash(claim), *bonds)
    return [("FrameFixed", (number, astuple(game.frame))), ("GameOpened", opened)]


def _moved(call: Call, number: int, game: Game) -> list[Event]:
    function, last = call.function, call.args[-1]
    if function == "reveal":
        return [("NodeRevealed", (number, last))]
    if function == "pick":
        return [("ChildPicked", call.args[:3])]
    if function == "dispute_state":
        return [("StateDisputed", (number,))]
    if function == "open_leaf":
        return [("LeafShown", (number, last))]
    fixed: Event = ("FrameFixed", (number, astuple(game.frame)))
    if game.awaits == Awaits.PICK:
        return [fixed, ("NodeRevealed", (number, last if function == "open_begin" else last.children))]
    if function == "ask_parts" or not game.is_open:
        return [fixed]
    return [fixed, ("LeafShown", (number, last.last if game.phase == Phase.PARTS else last.leaf))]


def _ended(number: int, before: World, after: World) -> Event:
    game = before.games[number]
    assert game.claim
    outcome = Outcome.DISMISSED if is_pending(after, game.job, game.claim) else Outcome.CONVICTED
    if not is_pending(before, game.job, game.claim):
        outcome = Outcome.SETTLED
    return "GameEnded", (game.job, number, game.challenger, int(outcome))
