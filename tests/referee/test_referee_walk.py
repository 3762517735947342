"""Random games in step: right moves, bent ones, moves of other games and jumps to the clocks' boundaries."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from tests.support.games.hashed_computation import PROGRAMS, noise
from zoo_compute.spec.games import Awaits, Game, Kind, span_of
from zoo_compute.spec.state import Claim

pytestmark = pytest.mark.long

STEPS = 100
CLAIMS = (("bob", Kind.TRAINING), ("bob", Kind.UPDATE), ("alice", Kind.TRAINING), ("carol", Kind.AGGREGATION))


def bent(rng: random.Random, value: Any) -> Any:
    """The same with one thing changed; a claim stays, it has tests of its own."""
    if isinstance(value, Claim | bool):
        return value
    if isinstance(value, int):
        return rng.choice((value + 1, max(value - 1, 0), 0, 2**256 - 1))
    if isinstance(value, bytes):
        at = rng.randrange(len(value)) if value else 0
        return value[:at] + bytes([value[at] ^ 1 << rng.randrange(8)]) + value[at + 1 :] if value else value
    if isinstance(value, tuple):
        if not value or rng.random() < 0.3:
            return value[:-1] if value and rng.random() < 0.5 else (*value, noise("more"))[:4]
        at = rng.randrange(len(value))
        return (*value[:at], bent(rng, value[at]), *value[at + 1 :])
    if is_dataclass(value) and not isinstance(value, type):
        name = rng.choice([each.name for each in fields(value) if each.name not in ("entries", "nodes")])
        changed = bent(rng, getattr(value, name))
        return replace(value, **{name: changed})
    return value


def proposal(court: Any, rng: random.Random, number: int) -> tuple[str, str, tuple[Any, ...]]:
    """A move that is due in this game, or an end."""
    game: Game = court.game(number)
    if court.now > game.due and rng.random() < 0.9:
        return "time_out", "stranger", (number, game.claim, game.frame)
    if rng.random() < 0.04:
        end = rng.choice(("concede", "time_out"))
        return end, rng.choice(("dave owner", "stranger")), (number, game.claim, game.frame)
    if rng.random() < 0.01:
        return "convict", "stranger", court.evidence(number)
    if game.awaits == Awaits.PICK:
        count = 1 << span_of(game.height)
        if game.frame.trace_root == game.node and rng.random() < 0.2:
            return "dispute_state", "dave owner", (number, game.frame, PROGRAMS[Kind(game.frame.kind)].opened)
        return "pick", "dave owner", court.pick_args(number, rng.randrange(count))
    if game.awaits == Awaits.EVIDENCE:
        program = PROGRAMS[Kind(game.frame.kind)]
        node = game.frame.node
        element = min(128 * game.index + rng.randrange(128), max(program.count(node) - 1, 0))
        return "ask_parts", "dave owner", (number, game.frame, program.descriptor(node), element)
    move = court.committer(number).move(game)
    if move is None:
        return "time_out", "stranger", (number, game.claim, game.frame)
    assert game.claim
    return move[0], f"{court.party(game.claim.operator)} hot", (number, *move[1])


@pytest.mark.parametrize("seed", range(2))
def test_random_games__agree_with_the_specification_at_every_call(court, seed):
    rng, reasons = random.Random(seed), Counter()
    for name, kind in 3 * CLAIMS:
        court.challenge(name, kind)
    for _ in range(STEPS):
        court.mirror.set_parts(rng.choice((1, 3, 128, 129, 300)))
        playing = [number for number, game in court.world.games.items() if game != Game()]
        if not playing:
            break
        number = rng.choice(playing)
        function, sender, args = proposal(court, rng, number)
        draw = rng.random()
        if draw < 0.15:
            at = rng.randrange(1, len(args))
            args = (*args[:at], bent(rng, args[at]), *args[at + 1 :])
        elif draw < 0.2:
            args = (rng.choice(playing), *args[1:])
        elif draw < 0.24:
            sender = rng.choice(("stranger", "bob hot", "dave owner"))
        elif draw < 0.25:
            court.to(max(court.now, court.game(number).due + rng.choice((-1, 0, 1))))
        elif draw < 0.3:
            court.wait(1)
        reasons[court.attempt("referee", function, sender, *args)] += 1
    assert reasons[None] > 30, reasons
    assert len(reasons) > 4, reasons
