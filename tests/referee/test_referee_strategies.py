"""Every strategy of a hostile side in a small game against an honest one, on the specification: the honest side wins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.referee.game_driver import JOB, GameDriver, check_money
from tests.referee.toy_computation import PROGRAM, WORK, Lie, ToyChallenger, ToyComputation, judge, places, tree_of
from tests.support.games.hashed_computation import Tree, noise
from tests.support.lockstep.coverage import Coverage
from zoo_compute.spec.games import Awaits, Game, Phase
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim, ClaimStatus, World
from zoo_compute.spec.world import Call, apply

GAME, BOB, DAVE = 1, "bob hot", "dave owner"
# Trees of height 2 at most: a reveal and a pick each, an opening between them.
MOST_MOVES = 12


class Table:
    """One game about bob's slot."""

    def __init__(self, *lies: Lie) -> None:
        self.contest = GameDriver(Coverage(), None)
        self.contest.work = WORK
        self.contest.build = lambda name, slot, start: ToyComputation(name, slot, start, lies=frozenset(lies))
        config = {"referee": "the contract", "judge": judge, "part_count": lambda descriptor, element: 1}
        self.contest.world.config = replace(self.contest.world.config, **config)
        self.contest.play_until_committed()
        self.contest.challenge("bob")
        self.author: Any = self.contest.side("bob", 0)
        self.claim: Claim = self.contest.named["bob"]
        self.begun = self.contest.now
        self.seen = 0

    def call(self, world: World, now: int, function: str, sender: str, *args: Any) -> World:
        after, _ = apply(world, Call("referee", function, sender, now, args))
        check_money(after)
        return after

    def is_refused(self, world: World, now: int, function: str, sender: str, *args: Any) -> bool:
        try:
            self.call(world, now, function, sender, *args)
        except Refused:
            return True
        return False

    def check_end(self, world: World, now: int, moves: int, status: ClaimStatus) -> None:
        """Who should have won has, in time, and every bond is owed or burned."""
        self.seen += 1
        assert world.games[GAME] == Game()
        assert world.claims[JOB, self.contest.seats["bob"], 0].status == status
        first = self.contest.world.games[GAME]
        assert moves <= MOST_MOVES
        assert now - self.begun <= 2 * first.committer_left + (moves + 1) * first.move_s + 1

    def silence(self, world: World, moves: int, status: ClaimStatus) -> None:
        late = world.games[GAME].due + 1
        self.check_end(
            self.call(world, late, "time_out", "stranger", GAME, self.claim, world.games[GAME].frame),
            late,
            moves,
            status,
        )


# --- a hostile committer


def variants(game: Game, author: ToyComputation) -> Iterator[ToyComputation]:
    """What a committer can go on with: what it committed, and other trees where it commits to a new one."""
    yield author
    if game.awaits != Awaits.OPEN or game.index == 0:
        return
    if game.phase == Phase.SEGMENTS and game.index == 1:
        yield author.pinned().with_trees(("beyond", Phase.STEPS, 0))
        other = author.pinned()
        other.memory["state", 1] = tree_of(tuple(noise("other", at) for at in range(PROGRAM.states)), False)
        yield other
    step = game.index - 1 if game.phase == Phase.STEPS else 2
    if game.phase == Phase.STEPS or game.index == 2:
        yield author.pinned().with_trees(("beyond", Phase.NODES, step))
        for node in range(len(PROGRAM.shapes)):
            yield author.pinned().with_trees(("data", step, node, 0))


def against_the_honest_challenger(
    table: Table, world: World, now: int, author: ToyComputation, moves: int, wait: bool
) -> None:
    game = world.games[GAME]
    if game.is_challengers_turn:
        honest = ToyChallenger(ToyComputation("honest", 0, author.start_root))
        name, args = honest.move(game, author)
        if name == "convict":
            kind, data = args
            world = table.call(world, now, "convict", DAVE, GAME, table.claim, game.frame, kind, data)
            table.check_end(world, now, moves, ClaimStatus.CONVICTED)
            return
        world = table.call(world, now, name, DAVE, GAME, *args)
        against_the_honest_challenger(table, world, now, author, moves + 1, wait)
        return
    table.silence(world, moves, ClaimStatus.CONVICTED)
    # Nobody can end it for the committer.
    assert table.is_refused(world, now, "concede", BOB, GAME, table.claim, game.frame)
    for other in variants(game, author):
        move = other.move(game)
        at = game.due if wait else now
        if move is None or table.is_refused(world, at, move[0], BOB, GAME, *move[1]):
            continue
        after = table.call(world, at, move[0], BOB, GAME, *move[1])
        against_the_honest_challenger(table, after, at, other, moves + 1, wait)


@pytest.mark.parametrize("wait", [False, True])
def test_every_lie_and_every_way_to_defend_it__loses_to_the_honest_challenger(wait):
    seen = 0
    for lie in places():
        table = Table(lie)
        if table.author.leaf() == ToyComputation("honest", 0, table.author.start_root).leaf():
            raise AssertionError(f"{lie} changes nothing")
        against_the_honest_challenger(table, table.contest.world, table.begun, table.author, 0, wait)
        seen += table.seen
    assert seen > 200


def test_two_lies__the_first_of_them_convicts():
    lies = list(places())
    for first, second in zip(lies, lies[7:], strict=False):
        table = Table(first, second)
        against_the_honest_challenger(table, table.contest.world, table.begun, table.author, 0, False)
        assert table.seen


# --- a hostile challenger


def attempts(game: Game, author: ToyComputation) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """All that a challenger can try on its turn."""
    if game.awaits == Awaits.PICK:
        children = author.tree(game).children(game.height, game.index)
        for place in range(len(children) + 1):
            child = children[place % len(children)]
            yield "pick", (place, child, Tree(children).path(place % len(children)))
            yield "pick", (place, noise("child"), Tree(children).path(place % len(children)))
        yield "dispute_state", (game.frame, PROGRAM.opened)
    for element in (0, 1, 299):
        yield "ask_parts", (game.frame, PROGRAM.descriptor(game.frame.node), element)


def check_no_evidence(table: Table, world: World, now: int) -> None:
    frame = world.games[GAME].frame
    last = table.author.segments.path(2)
    end = table.author.state(WORK.inner_steps).root
    for kind in range(10):
        for data in (b"", end + b"".join(last), noise("end") + b"".join(last), end + b"".join(last[:1])):
            assert table.is_refused(world, now, "convict", DAVE, GAME, table.claim, frame, kind, data)


def against_the_honest_committer(table: Table, world: World, now: int, moves: int, wait: bool) -> None:
    game = world.games[GAME]
    check_no_evidence(table, world, now)
    if not game.is_challengers_turn:
        move = table.author.move(game)
        assert move, "the honest committer owes a move that there is not"
        world = table.call(world, now, move[0], BOB, GAME, *move[1])
        against_the_honest_committer(table, world, now, moves + 1, wait)
        return
    table.silence(world, moves, ClaimStatus.PENDING)
    at = game.due if wait else now
    for name, args in attempts(game, table.author):
        if not table.is_refused(world, at, name, DAVE, GAME, *args):
            after = table.call(world, at, name, DAVE, GAME, *args)
            against_the_honest_committer(table, after, at, moves + 1, wait)


@pytest.mark.parametrize("wait", [False, True])
def test_no_challenger__wins_against_an_honest_committer(wait):
    table = Table()
    against_the_honest_committer(table, table.contest.world, table.begun, 0, wait)
    assert table.seen > 50
