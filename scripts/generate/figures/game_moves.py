"""The legal moves of a dispute game, by trying them. For scripts/generate/figures/pictures.py.

Every party tries every move of `zoo_compute.spec.referee` in every position of small games; accepted moves are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import sha256
from typing import Any

from tests.support.games.hashed_computation import AGGREGATION, UPDATE, HashedComputation, HashedProgram, Tree
from zoo_compute.spec import referee
from zoo_compute.spec.frames import Awaits, Game, Hashes, Kind, Phase, Work
from zoo_compute.spec.merkle import climb
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim, Config, Message, Operator, World

COMMITTER, CHALLENGER, ANYBODY = "the committer", "the challenger", "anybody"
NUMBER, LONG = 1, 10**9
SOMEBODY = 7
Place = tuple[Phase, Awaits]

# So large that every tree takes several moves, but for the update's state, which is one leaf.
TRAINING = HashedProgram("training", ((), (300,), (40, 129), (0, 3), *[(1,)] * 36), 40)
PROGRAMS = {Kind.TRAINING: TRAINING, Kind.UPDATE: UPDATE, Kind.AGGREGATION: AGGREGATION}
ROOTS = (TRAINING.opened.root, UPDATE.opened.root, AGGREGATION.opened.root)
WORKS = (Work(ROOTS, 7, 3, 16), Work(ROOTS, 1200, 35, 16))


@dataclass(frozen=True, order=True)
class Edge:
    """A move: the position before it, who may make it, the position after it."""

    at: Place
    move: str
    by: str
    to: Place


class SpecificationBoard:
    """The specification with one game, set up anew for each move."""

    def __init__(self, parts: int = 300) -> None:
        self.world = World(config=Config(part_count=lambda descriptor, element: parts))
        self.world.operators[SOMEBODY] = Operator(owner=COMMITTER, hot=COMMITTER)

    def after(self, game: Game, by: str, move: str, *args: Any) -> Game | None:
        """The game after the move; None if the move is refused."""
        self.world.games[NUMBER] = replace(
            game, challenger=CHALLENGER, move_s=LONG, committer_left=LONG, challenger_left=LONG
        )
        try:
            getattr(referee, move)(self.world, Message(by, 0), NUMBER, *args)
        except Refused:
            return None
        return self.world.games[NUMBER]


def descent(leaves: int, leaf: int) -> list[tuple[int, int]]:
    """(children revealed, place of the one picked), from a tree's root to its leaf: as many at once as `reveal` takes."""
    game = Game(claim=_claim(bytes(32), bytes(32)), phase=Phase.NODES, count=leaves, awaits=Awaits.REVEAL)
    same = [sha256(b"leaf").digest()]  # a tree whose leaves are all alike
    while len(same) <= game.height_of_tree:
        same.append(sha256(b"\x01" + same[-1] * 2).digest())
    game, board, steps = replace(game, height=game.height_of_tree, node=same[-1]), SpecificationBoard(), []
    while game.awaits == Awaits.REVEAL:
        below, revealed = next(
            (at, after)
            for at in range(game.height + 1)
            if (after := board.after(game, ANYBODY, "reveal", (same[at],) * (1 << game.height - at)))
        )
        place = leaf >> below & (1 << game.height - below) - 1
        steps.append((1 << game.height - below, place))
        picked = board.after(revealed, CHALLENGER, "pick", place, same[below], tuple(same[below : game.height]))
        assert picked, "a child was revealed and cannot be picked"
        game = picked
    return steps


class Author(HashedComputation):
    """A computation that caches its results."""

    __hash__ = object.__hash__
    state = cache(HashedComputation.state)
    trace = cache(HashedComputation.trace)
    segments = cached_property(HashedComputation.segments.fget)  # type: ignore[assignment, arg-type]
    steps = cache(HashedComputation.steps)


def edges() -> list[Edge]:
    """The moves of every kind of game, with several numbers of parts, and segments of one step and of more."""
    explored: set[Edge] = set()
    for parts in (1, 2, 40 * 128):
        board = SpecificationBoard(parts)
        for author, game in _beginnings():
            _explore(board, author, game, explored)
    return sorted(explored)


def beginnings() -> list[Place]:
    """Where games begin."""
    return sorted({(game.phase, game.awaits) for _, game in _beginnings()})


def _beginnings() -> Iterator[tuple[HashedComputation, Game]]:
    for work in WORKS:
        author = Author("author", 0, sha256(b"start").digest(), work=work, programs=PROGRAMS)
        for kind in Kind:
            root = author.state(-2).root if kind == Kind.AGGREGATION else author.leaf()
            yield author, referee.opened_game(1, _claim(author.start_root, root), kind, 0, work, author.result)


def _claim(start_root: bytes, root: bytes) -> Claim:
    return Claim(0, 0, 0, SOMEBODY, 1, 1, 1, start_root, root)


def _explore(board: SpecificationBoard, author: HashedComputation, first: Game, edges: set[Edge]) -> None:
    seen, left = set(), [first]
    while left:
        game = left.pop()
        key = (game.phase, game.awaits, game.height, game.index, game.count, game.is_open, game.frame.is_begin)
        if key in seen:
            continue
        seen.add(key)
        for move, args in _moves(author, game):
            takers = {
                by: after for by in (COMMITTER, CHALLENGER, ANYBODY) if (after := board.after(game, by, move, *args))
            }
            if takers:
                by, after = (ANYBODY, takers[ANYBODY]) if ANYBODY in takers else next(iter(takers.items()))
                edges.add(Edge((game.phase, game.awaits), move, by, (after.phase, after.awaits)))
                left.append(after)


def _moves(author: HashedComputation, game: Game) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """All moves that either side could try here."""
    program: HashedProgram = author.programs[Kind(game.frame.kind)]
    move = author.move(game)
    if move:
        yield move
    if game.awaits == Awaits.PICK:
        children = author.tree(game).children(game.height, game.index)
        for place, child in enumerate(children):
            yield "pick", (place, child, _path(children, place, game))
    yield "dispute_state", (game.frame, program.opened)
    if game.frame.descriptor != bytes(32):
        yield "ask_parts", (game.frame, program.descriptor(game.frame.node), 128 * game.index)


def _path(children: Hashes, place: int, game: Game) -> Hashes:
    path = Tree(children).path(place)
    assert climb(children[place], place, path) == game.node
    return path
