"""Opening a game and going on with it, as keepers and `zoo verify` do: what it costs, that it is opened once, how silence ends it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keepers.queue.work_queue import WorkStatus
from keepers.services.challenging import MismatchReports, challenge
from keepers.services.disputing import DisputePlayer
from tests.integration.cli_network import CliNetwork, Zoo, cli_network, zoo_fixture  # noqa: F401
from tests.support.disputed_job import RESULT, WORK, Dispute
from zoo_compute.chain.games import GameView, read_games
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import ClaimState
from zoo_compute.errors import NeedsOperator, UserError
from zoo_compute.json_codec import encode
from zoo_compute.spec.frames import Outcome
from zoo_compute.spec.params import COIN, ZEN

pytestmark = pytest.mark.integration

DISPUTE = {"kind": 0, "slot": 0, "work": encode(tuple(WORK)), "result": encode(tuple(RESULT))}


class Stranger:
    """An account with a key and a lane of its own; its worker never has a move."""

    def __init__(self, dispute: Dispute, folder: Path, zen: int) -> None:
        self.dispute, self.chain = dispute, dispute.chain
        account = dispute.devnet.account("stranger", zen=zen)
        self.sender = Sender(self.chain, account, folder=dispute.devnet.folder)
        self.asked: list[dict[str, Any]] = []
        self.lane = DisputePlayer(self.chain, self.sender, self._ask, operator=0, folder=folder)

    def _ask(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        self.asked.append(request)
        return WorkStatus("done", result={"name": None, "args": []})

    def challenge(self) -> int:
        view = read_job(self.chain, self.dispute.job)
        return challenge(self.chain, self.sender, view, self.dispute.claim(0), DISPUTE)

    def game(self, number: int) -> GameView:
        return next(g for g in read_games(self.chain, self.chain.head()) if g.number == number)


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliNetwork]:
    with cli_network(tmp_path_factory.mktemp("place")) as place:
        yield place


@pytest.fixture
def stranger(place: CliNetwork, tmp_path: Path) -> Stranger:
    return Stranger(Dispute(place.devnet), tmp_path / "stranger", 0)


def test_a_game__is_opened_once_and_won_by_the_committers_silence(stranger: Stranger, zoo: Zoo, tmp_path: Path):
    chain, dispute = stranger.chain, stranger.dispute
    with pytest.raises(NeedsOperator, match="needs a bond of"):
        stranger.challenge()
    dispute.devnet.account("stranger", zen=10 * ZEN)
    number = stranger.challenge()
    assert stranger.challenge() == number, "one conviction is enough"
    game = stranger.game(number)
    assert (game.is_open, game.operator, game.frame.slot, game.coin > 0) == (True, dispute.parties[0].id, 0, True)

    listed = zoo.json("dispute", "list", "--job", str(dispute.job))["games"]
    assert [(g["game"], g["turn_of"], g["awaits"]) for g in listed] == [(number, "committer", "reveal")]
    assert "owes a move (reveal)" in zoo.run("dispute", "show", str(number))[1]
    assert "there is no game 99" in zoo.refused("dispute", "show", "99")

    assert [g.number for g in stranger.lane.poll_once()] == [number]
    assert stranger.asked == [], "it is the committer's turn"
    assert game.state is not None
    dispute.devnet.warp_to(game.state.due + 1)
    stranger.lane.poll_once()
    assert stranger.game(number).outcome == Outcome.CONVICTED
    assert dispute.claim(0).state == ClaimState.CONVICTED
    assert stranger.lane.poll_once() == []
    assert chain.referee.owed(COIN, stranger.sender.address) == 0, "what it brought was fetched"
    assert chain.zen.balanceOf(stranger.sender.address) > 10 * ZEN

    answer = zoo.json("dispute", "replay", str(number))
    assert [(m["function"], m["by"]) for m in answer["moves"]] == [
        ("challenge", "challenger"),
        ("time_out", "challenger"),
    ]
    assert (answer["outcome"], answer["verdict"]) == ("convicted", None)
    assert "the committer did not move in time" in zoo.run("dispute", "replay", str(number))[1]
    with pytest.raises(UserError, match="cannot be challenged any more"):
        challenge(chain, dispute.parties[2].sender, read_job(chain, dispute.job), dispute.claim(0), DISPUTE)


def test_mismatches__are_challenged_as_they_are_reported_and_tried_again_until_there_is_a_bond(
    stranger: Stranger, tmp_path: Path
):
    path = tmp_path / "verified.jsonl"
    mismatches = MismatchReports(stranger.chain, stranger.sender, path)
    mismatches.challenge()
    root = stranger.dispute.claim(0).root.hex()
    line = _line({"name": "it", "job": stranger.dispute.job, "turn": 0, "seat": 0, "root": root, "dispute": DISPUTE})
    path.write_text(_line({"name": "fine", "agrees": True}) + line[:-9])
    mismatches.challenge()
    assert read_games(stranger.chain, stranger.chain.head()) == [], "the line is still being written"
    with path.open("a") as file:
        file.write(line[-9:])
    mismatches.challenge()
    assert read_games(stranger.chain, stranger.chain.head()) == [], "there is no bond yet"
    stranger.dispute.devnet.account("stranger", zen=10 * ZEN)
    mismatches.challenge()
    mismatches.challenge()
    assert [g.challenger for g in read_games(stranger.chain, stranger.chain.head())] == [stranger.sender.address]


def _line(report: dict[str, Any]) -> str:
    return json.dumps(report) + "\n"
