"""The lane of dispute games: whose games it plays, and that a move which failed is computed again."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.decisions.requests import move_name
from keepers.queue.work_queue import WorkStatus
from keepers.services import disputing
from keepers.services.disputing import RETRY_S, DisputePlayer
from zoo_compute.chain import games
from zoo_compute.chain.events import Event
from zoo_compute.chain.games import GameView
from zoo_compute.chain.generated.bindings import admissions as bindings
from zoo_compute.operators.admission import TrialAnswer
from zoo_compute.spec.admissions import claim_of
from zoo_compute.spec.frames import Awaits, Frame, Game
from zoo_compute.spec.trials import TRIALS, Workload

ME, OTHER = "0xme", "0xother"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Lane:
    """Of operator 7; what its worker answers is told by name."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.answers: dict[str, WorkStatus] = {}
        sender: Any = SimpleNamespace(address=ME)
        chain: Any = SimpleNamespace(head=lambda: SimpleNamespace(number=1, timestamp=10**10))
        self.lane = DisputePlayer(chain, sender, self._ask, operator=7, folder=folder)

    def _ask(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        self.asked.append(name)
        self.requests.append(request)
        return self.answers.get(name, WorkStatus("queued"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(disputing, "time", clock)
    return clock


def test_games_of_others__are_neither_read_nor_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each would cost gas and time: whoever opened many would keep every keeper from its own."""
    seen: list[GameView] = []

    def read(chain: Any, head: Any, *, wanted: Any) -> list[GameView]:
        every = [
            GameView(1, job=1, operator=3, challenger=OTHER),
            GameView(2, job=1, operator=7),
            GameView(3, job=1, challenger=ME),
        ]
        return [game for game in every if wanted(game)]

    def play(self: DisputePlayer, head: Any, game: GameView, view: Any) -> None:
        seen.append(game)

    monkeypatch.setattr(disputing, "read_games", read)
    monkeypatch.setattr(disputing, "read_job", lambda chain, job, block: None)
    monkeypatch.setattr(DisputePlayer, "_play", play)
    assert [game.number for game in Lane(tmp_path).lane.poll_once()] == [2, 3]
    assert [game.number for game in seen] == [2, 3]


class CountedReads:
    """A chain whose events tell of games, each opened by one event. tells: in how many a game was made from an event."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *jobs: int) -> None:
        self.events = [self.opened(number, job) for number, job in enumerate(jobs, 1)]
        self.read: list[int] = []
        self.tells = 0
        history = SimpleNamespace(events_until=lambda head: list(self.events))
        reader = games._GameReader(history)  # type: ignore[arg-type]
        self.chain: Any = SimpleNamespace(cached=lambda key, make: reader)
        changes_of = games._changes_of
        monkeypatch.setattr(games, "_changes_of", lambda *args: (self._count(), changes_of(*args))[1])
        monkeypatch.setattr(games, "read_all", self._read_all)
        monkeypatch.setattr(games, "_state", lambda game, shown: None)

    @staticmethod
    def opened(number: int, job: int) -> Event:
        args = dict.fromkeys(games.OPENING_FIELDS, 0) | {"game": number, "job": job}
        return Event("GameOpened", "referee", number, 0, f"0x{number}", b"", args)

    def _count(self) -> None:
        self.tells += 1

    def _read_all(self, chain: Any, block: int, reads: Any) -> list[Any]:
        self.read.extend(each.args[0] for each in reads)
        return [None for _ in reads]

    def games(self, **wanted: Any) -> list[int]:
        head: Any = SimpleNamespace(number=1)
        return [game.number for game in games.read_games(self.chain, head, **wanted)]


def test_read_games__reads_what_is_wanted_alone(monkeypatch: pytest.MonkeyPatch):
    reads = CountedReads(monkeypatch, 1, 1, 2)
    assert reads.games(job=1, wanted=lambda game: game.number != 1) == [2]
    assert reads.read == [2]


def test_read_games__makes_what_it_knows_of_new_events_alone_until_one_is_undone(monkeypatch: pytest.MonkeyPatch):
    reads = CountedReads(monkeypatch, 1, 1)
    assert (reads.games(), reads.tells) == ([1, 2], 2)
    reads.events.append(reads.opened(3, 2))
    assert (reads.games(), reads.tells) == ([1, 2, 3], 3)
    reads.events = [reads.events[0], reads.opened(2, 7)]  # a reorganisation: another game came to be the second
    assert (reads.games(job=7), reads.tells) == ([2], 5)


def test_a_job_that_cannot_be_read__keeps_no_other_game_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    played: list[int] = []

    def read_job(chain: Any, job: int, block: int) -> None:
        if job == 1:
            raise ValueError("hostile")

    monkeypatch.setattr(disputing, "read_games", lambda *_, **__: [GameView(1, job=1), GameView(2, job=2)])
    monkeypatch.setattr(disputing, "read_job", read_job)
    monkeypatch.setattr(DisputePlayer, "_play", lambda self, head, game, view: played.append(game.number))
    Lane(tmp_path).lane.poll_once()
    assert played == [2]


def test_a_game_about_ones_trial__is_answered_until_the_trial_is_convicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Silence would cost an honest operator its admission and a fifth of its stake."""
    spec = claim_of(7, Workload(b"p" * 32, b"s" * 32, 4, 1), b"seed" * 8, b"r" * 32)
    trial = TrialAnswer(bindings.Claim(*astuple(spec)), bindings.Workload(b"p" * 32, b"s" * 32, 4, 1), 5, 9)
    frame = Frame(job=TRIALS, claim=trial.claim_hash)
    state = Game(frame=frame, awaits=Awaits.REVEAL, at=10**10)
    game = GameView(1, operator=7, challenger=OTHER, claim_hash=trial.claim_hash, frame=frame, state=state)
    place, sent = Lane(tmp_path), []
    word = trial.claim_hash[:30] + b"\0\1"
    place.lane._chain.admissions = SimpleNamespace(claims=lambda *of: word if of == (TRIALS, 0, 7) else bytes(32))  # type: ignore[assignment]
    monkeypatch.setattr(disputing, "read_games", lambda *_, **__: [game])
    monkeypatch.setattr(disputing, "trial_answers", lambda chain, operator: [trial])
    monkeypatch.setattr(DisputePlayer, "_send", lambda self, game, name, args: sent.append((name, args)))
    place.answers = dict.fromkeys(
        [move_name(game, "committer")], WorkStatus("done", result={"name": "reveal", "args": []})
    )
    place.lane.poll_once()
    word = bytes(32)
    place.lane.poll_once()
    assert sent == [("reveal", ()), ("time_out", (tuple(trial.claim), astuple(frame)))]
    assert place.requests[0]["trial"] == [each.hex() for each in (b"p" * 32, b"s" * 32, b"seed" * 8)]


def test_a_move_that_failed__is_asked_for_again_after_a_while(tmp_path: Path, clock: Clock):
    place = Lane(tmp_path)
    place.answers = {"move": WorkStatus("failed", error="no memory"), "move-1": WorkStatus("failed", error="again")}
    await_move = place.lane._asked
    assert await_move("move", {}).error == "no memory"
    clock.sleep(RETRY_S - 1)
    assert await_move("move", {}).error == "no memory"
    clock.sleep(1)
    assert await_move("move", {}).error == "again"
    clock.sleep(RETRY_S)
    place.answers["move-2"] = WorkStatus("done", result={"name": None, "args": []})
    assert await_move("move", {}).state == "done"
    assert place.asked == ["move", "move", "move-1", "move-2"]
