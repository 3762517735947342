"""One game as it is played, by the specification's own moves. For tests, and for people who want to see one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from node.disputes.moves import PHASE_ENTERED_BY, Move, with_move
from repops.encoding import read_descriptor
from repops.parts import part_count
from zoo_compute.disputes.revealed import RevealedState
from zoo_compute.spec import referee
from zoo_compute.spec.frames import Frame, Game, Position
from zoo_compute.spec.revert import Refused, require
from zoo_compute.spec.state import Config, Message, Operator, World

COMMITTER, CHALLENGER, GAME = "the committer", "the challenger", 1
MOVES = frozenset({*PHASE_ENTERED_BY, "reveal", "pick", "open_leaf", "ask_parts"})
Judge = Callable[[int, Frame, Position, bytes], None]  # raises Refused where the evidence does not hold


class GameBoard:
    """Follows one game. The checks are the specification's; nobody runs out of time here.

    game: as `zoo_compute.spec.referee.begun` gives it, or where it stands, with what was shown until then.
    """

    def __init__(self, game: Game, revealed: RevealedState | None = None) -> None:
        assert game.claim is not None, "a game without its claim"
        self.revealed = revealed or RevealedState()
        self.moves: list[Move] = []
        self._world = World(config=Config(part_count=part_count_of))
        self._world.operators[game.claim.operator] = Operator(owner=COMMITTER, hot=COMMITTER)
        self._world.games[GAME] = replace(game, challenger=CHALLENGER)

    @property
    def game(self) -> Game:
        return self._world.games[GAME]

    def make(self, move: Move) -> None:
        """The side makes it whose turn it is. Raises Refused, and then nothing has changed."""
        require(move.name in MOVES, referee.TURNS)
        sender = CHALLENGER if self.game.is_challengers_turn else COMMITTER
        getattr(referee, move.name)(self._world, Message(sender, 0), GAME, *move.args)
        self.moves.append(move)
        self.revealed = with_move(self.revealed, move)

    def convict(self, move: Move, judge: Judge) -> None:
        """Whether the evidence of a `convict` holds here. Raises Refused."""
        _, frame, kind, data = move.args
        require(frame == self.game.frame, "referee: other frame")
        require(not self.game.is_beyond, "referee: no such leaf")
        judge(kind, frame, self.game.position, data)


class CommitterPlayer(Protocol):
    def answer(self, game: Game) -> Move | None: ...


class ChallengerPlayer(Protocol):
    def next(self, game: Game, revealed: RevealedState) -> Move | None: ...


@dataclass(frozen=True)
class GameRecord:
    """How a game went. evidence: its kind, or None where silence ended it; refused: why the last move was no move."""

    moves: tuple[Move, ...]
    game: Game
    is_convicted: bool
    evidence: int | None = None
    refused: str = ""

    @property
    def pairs(self) -> int:
        """Moves of the committer, each of which the challenger answers."""
        return sum(move.name not in ("pick", "dispute_state", "ask_parts") for move in self.moves)


def play(board: GameBoard, prover: CommitterPlayer, challenger: ChallengerPlayer, judge: Judge) -> GameRecord:
    """To the end: who has no move, or one that is refused, is silent and loses."""

    def ended(is_convicted: bool, evidence: int | None = None, refused: str = "") -> GameRecord:
        return GameRecord(tuple(board.moves), board.game, is_convicted, evidence, refused)

    while True:
        is_challengers = board.game.is_challengers_turn
        move = challenger.next(board.game, board.revealed) if is_challengers else prover.answer(board.game)
        if move is None:
            return ended(is_convicted=not is_challengers)
        try:
            if move.name == "convict":
                board.convict(move, judge)
                return ended(True, move.args[2])
            board.make(move)
        except Refused as refused:
            return ended(not is_challengers, refused=str(refused))


def part_count_of(descriptor: bytes, element: int) -> int:
    """As `OpExecutor` answers."""
    return part_count(read_descriptor(descriptor))
