"""Against an honest committer no challenger has evidence, wherever it goes."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from node.disputes.defender import Defender
from node.disputes.trees import Trees
from tests.referee.test_players_programs import MODELS
from tests.support.games.game_board import GameBoard, play
from tests.support.games.hostile_challenger import Hostile
from tests.support.games.lying_jobs import SEATS, Case, after_root, mlp
from zoo_compute.spec.frames import Awaits, Kind, Result
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.referee import opened_game

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]
GAMES = 400  # of some 600 nodes few are inputs, and a walk ends at one node
CASES = {"mlp": mlp, **MODELS}


def check_games(case: Case, prover: Defender, hostile: Hostile, result: Result, kind: Kind, games: int) -> Counter[str]:
    """The committer has an answer to everything; it is never convicted. How the games ended."""
    ends: Counter[str] = Counter()
    claim = case.claim(case.leaf(case.slot, result))
    if kind == Kind.AGGREGATION:
        mask = sum(1 << seat for seat in SEATS)
        claim = case.claim(after_root(prover), seat=AGGREGATOR_SEAT, scope=mask)
    for _ in range(games):
        game = opened_game(1, claim, kind, 0 if kind == Kind.AGGREGATION else case.slot, case.work, result)
        played = play(GameBoard(game), prover, hostile, hostile.judge)
        assert not played.is_convicted, played
        assert played.game.awaits >= Awaits.PICK, "the committer owes nothing"
        ends[played.game.phase.name] += 1
    return ends


@pytest.mark.parametrize("name", CASES)
def test_wherever_a_challenger_goes__true_openings_convict_nobody(name):
    case, tried = CASES[name](), Counter()
    trees = Trees(case.honest)
    hostile = Hostile(Trees(case.honest), random.Random(name), case.judge, tried)
    ends = check_games(case, Defender(trees), hostile, case.result(trees), Kind.TRAINING, GAMES)
    assert {1, 3, 4, 8} <= tried.keys()
    assert {"STATE", "ELEMENTS", "PARTS"} <= ends.keys()


def test_wherever_a_challenger_of_an_update_goes__true_openings_convict_nobody():
    case, tried = mlp(), Counter()
    result = replace(case.result(Trees(case.honest)), update_root=after_root(Defender(Trees(case.update))))
    hostile = Hostile(Trees(case.update), random.Random(2), case.judge, tried)
    check_games(case, Defender(Trees(case.update)), hostile, result, Kind.UPDATE, GAMES)
    assert tried.keys() == {3, 4, 8}


def test_wherever_a_challenger_of_an_aggregation_goes__true_openings_convict_nobody():
    case, tried = mlp(), Counter()
    prover = Defender(Trees(case.aggregated()))
    mask = sum(1 << seat for seat in SEATS)
    claim = case.claim(after_root(prover), seat=AGGREGATOR_SEAT, scope=mask)
    hostile = Hostile(Trees(case.aggregated(claim=claim)), random.Random(3), case.judge, tried)
    check_games(case, prover, hostile, Result(), Kind.AGGREGATION, GAMES)
    assert tried.keys() == {3, 4, 7, 8}
