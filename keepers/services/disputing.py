"""Plays dispute games (docs/protocol/referee.md): it defends an operator's claims, and continues the games that its key opened.

It runs beside the keeper's ticks, which wait for transactions and stores. At every look it reads the games from the chain, and
asks the operator's workers for moves, so a keeper that was killed resumes its games.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

from keepers.decisions.requests import move_name, move_request, trial_move_request
from keepers.queue.work_queue import MOVE_TASK, WorkStatus
from keepers.services.challenging import MismatchReports
from zoo_compute.chain.connection import Chain, Head
from zoo_compute.chain.games import GameView, read_games
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import JobView
from zoo_compute.disputes.revealed import CHALLENGER, COMMITTER
from zoo_compute.errors import Refusal, ZooError
from zoo_compute.json_codec import decode
from zoo_compute.operators.admission import SEAT, trial_answers
from zoo_compute.spec.params import COIN
from zoo_compute.spec.trials import TRIALS

log = logging.getLogger("zoo.disputes")

Fields = tuple[Any, ...]  # of a claim
Ask = Callable[[str, str, dict[str, Any]], WorkStatus]  # task, name of the work, request
PATIENCE_S = 1.0  # in which moves that are being computed are waited for, before the chain is looked at again
PAUSE_S = 0.05
GAME_POLL_S = 0.2  # between looks while a game is open: a game has some twenty moves, each a reply to the other side's
RETRY_S = 30.0  # after which a move that failed is computed again: silence would lose the game
HASH_BYTES = 30  # of a claim's hash, that the contracts keep
FOLDER = "disputes"  # in the operator's folder: what games' computations keep


class DisputePlayer:
    """Every open game of one account: as the committer of `operator`'s claims (0: of none), and as a challenger.

    mismatches: of a verifier, each of which opens a game.
    """

    def __init__(
        self,
        chain: Chain,
        sender: Sender,
        ask: Ask,
        *,
        operator: int,
        folder: Path,
        mismatches: MismatchReports | None = None,
    ) -> None:
        self._chain = chain
        self._sender = sender
        self._ask = ask
        self._operator = operator
        self._folder = folder / FOLDER
        self._mismatches = mismatches
        self._over: set[int] = set()  # games that are closed here too
        self._waiting: dict[str, dict[str, Any]] = {}  # by the name of a move that is being computed: its request
        self._failed: dict[str, list[float]] = {}  # by the name of a move: when it failed for good

    def run(self, pause_s: float) -> None:
        """Look again and again; a look that fails is followed by the next one."""
        while True:
            mine: list[GameView] = []
            try:
                mine = self.poll_once()
            except ZooError as error:
                log.warning("%s; will try again", error)
            except Exception:
                log.exception("unexpected")
            time.sleep(min(pause_s, GAME_POLL_S) if mine else pause_s)

    def poll_once(self) -> list[GameView]:
        """Ask for every move that is due, and make those that are computed, the earliest deadline first. Returns my open games."""
        self._waiting.clear()
        head = self._chain.head()
        games = read_games(self._chain, head, wanted=lambda game: bool(self._sides(game)))
        mine = [game for game in games if game.is_open]
        views: dict[int, JobView] = {}
        for game in sorted(mine, key=_due):
            with _contained(game):
                if game.job == TRIALS:
                    self._play_trial(head, game)
                    continue
                if game.job not in views:
                    views[game.job] = read_job(self._chain, game.job, head)
                self._play(head, game, views[game.job])
        kept = {self._kept(game) for game in mine}
        for game in games:
            if not game.is_open and game.number not in self._over and self._kept(game) not in kept:
                with _contained(game):
                    self._close(game)
        self._wait_for_a_move()
        if self._mismatches is not None:  # last: what it waits for costs no game its clock
            self._mismatches.challenge()
        return mine

    def _close(self, game: GameView) -> None:
        """Delete the files of a game that is over, and withdraw bonds and my share of the lock."""
        shutil.rmtree(self._kept(game), ignore_errors=True)
        me = self._sender.address
        tokens = [] if game.job == TRIALS else [read_job(self._chain, game.job).token]
        for asset in (COIN, *tokens):
            if self._chain.referee.owed(asset, me):
                self._sender.send(self._chain.referee.withdraw(asset, me))
        for token in tokens:
            if self._chain.tasks.owed(token, me):
                self._sender.send(self._chain.tasks.withdraw(token, me))
        self._over.add(game.number)

    def _sides(self, game: GameView) -> list[str]:
        """My sides in a game; empty in games of others."""
        mine = {
            COMMITTER: bool(self._operator) and game.operator == self._operator,
            CHALLENGER: game.challenger == self._sender.address,
        }
        return [side for side, is_mine in mine.items() if is_mine]

    def _play(self, head: Head, game: GameView, view: JobView) -> None:
        claim = game.claim_in(view)
        side = self._due_of_mine(head, game, claim.fields, claim.final)
        if side:
            self._move(game, side, claim.fields, move_request(view, claim, game, side, self._kept(game)))

    def _play_trial(self, head: Head, game: GameView) -> None:
        """A trial is run again as a slot-round is."""
        every = trial_answers(self._chain, game.operator)
        trial = next(each for each in reversed(every) if each.claim_hash == game.claim_hash)
        claim = tuple(trial.claim)
        kept = self._chain.admissions.claims(TRIALS, SEAT, game.operator)
        side = self._due_of_mine(head, game, claim, kept[:HASH_BYTES] != game.claim_hash[:HASH_BYTES])
        if side:
            self._move(game, side, claim, trial_move_request(trial, game, side, self._kept(game)))

    def _due_of_mine(self, head: Head, game: GameView, claim: Fields, is_final: bool) -> str:
        """The side that owes a move where that is mine. A game that is over otherwise is ended. is_final: convicted in another game."""
        state = game.state
        assert state is not None, "an open game has a state"
        side = CHALLENGER if state.is_challengers_turn else COMMITTER
        is_mine = side in self._sides(game)
        if is_final or (not is_mine and head.timestamp > state.due):
            self._send(game, "time_out", (claim, astuple(game.frame)))
            return ""
        return side if is_mine else ""

    def _move(self, game: GameView, side: str, claim: Fields, request: dict[str, Any]) -> None:
        status = self._asked(move_name(game, side), request)
        if status.state == "failed":
            log.error("game %d: no move: %s", game.number, status.error)
        if status.state != "done" or status.result is None:
            return
        name, args = status.result["name"], decode(status.result["args"])
        if name is None:
            log.error("game %d of job %d: the %s has no move that helps", game.number, game.job, side)
        elif name == "convict":
            self._send(game, name, (claim, *args[1:]))
        else:
            self._send(game, name, args)

    def _kept(self, game: GameView) -> Path:
        """What is computed for it: games about the same share it."""
        return self._folder / f"{game.claim_hash.hex()[:16]}-{game.frame.kind}-{game.frame.slot}"

    def _asked(self, name: str, request: dict[str, Any]) -> WorkStatus:
        """How far a move is. Failed work stays failed under its name, so after a while it is requested under another."""
        failed = self._failed.get(name, [])
        again = len(failed) - (bool(failed) and time.monotonic() < failed[-1] + RETRY_S)
        attempt = f"{name}-{again}" if again else name
        status = self._ask(MOVE_TASK, attempt, request)
        if status.state not in ("done", "failed"):
            self._waiting[attempt] = request
        if status.state == "failed" and again == len(failed):
            self._failed[name] = [*failed, time.monotonic()]
        return status

    def _wait_for_a_move(self) -> None:
        """Until one of those that are being computed is there, or for a while. No game waits for another one's move."""
        end = time.monotonic() + PATIENCE_S
        while self._waiting and time.monotonic() < end:
            states = {self._ask(MOVE_TASK, name, request).state for name, request in self._waiting.items()}
            if states & {"done", "failed"}:
                return
            time.sleep(PAUSE_S)

    def _send(self, game: GameView, function: str, args: tuple[Any, ...]) -> None:
        call = getattr(self._chain.referee, function)(game.number, *args)
        receipt = self._sender.send(call)
        log.info("game %d of job %d: %s in %s", game.number, game.job, function, receipt.transaction_hash)


@contextmanager
def _contained(game: GameView) -> Iterator[None]:
    """One game must not keep the others waiting."""
    try:
        yield
    except Refusal as refusal:  # the chain moved on; the next look sees where
        log.info("game %d: refused: %s", game.number, refusal.reason)
    except ZooError as error:
        log.error("game %d: %s (%s)", game.number, error, error.hint)
    except Exception:
        log.exception("game %d: unexpected", game.number)


def _due(game: GameView) -> int:
    return game.state.due if game.state is not None else 0
