"""Many games at once against one operator: its clocks let it answer one after the other."""

from dataclasses import replace

import pytest

from tests.referee.game_driver import JOB, GameDriver, game_driver
from tests.support.lockstep import stage
from zoo_compute.spec.games import Awaits, Game, Kind, span_of
from zoo_compute.spec.params import BOND_STEPS, MAX_CHALLENGERS, MAX_SECONDS, MOST_COUNTED, PRODUCTION
from zoo_compute.spec.state import ClaimStatus

REEXECUTE_S = 60
MOVES = 6  # of a committer in a game down to an element of node 9
PLACES = {1: 2, 2: 1, 4: 1, 5: 0}
MOST_MOVES = 34  # of one side: trees of 2^32 states and nodes, of 2^48 words and parts


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> GameDriver:
    """Its copies of a job have no escrow of their own."""
    monkeypatch.setattr(stage, "check_invariants", lambda w: None)
    return game_driver(on_chain=False, reexecute_s=REEXECUTE_S)


def challenged(court: GameDriver, count: int) -> list[int]:
    """So many games against bob, sixteen a claim; it has the same claim in several jobs."""
    seat, games = court.seats["bob"], []
    _, *args = court.challenge_args("bob", Kind.TRAINING, court.world.seat(JOB, seat).first)
    for at in range(count):
        w, job = court.world, JOB + at // MAX_CHALLENGERS
        if at % MAX_CHALLENGERS == 0 and at:
            w.jobs[job], w.terms[job], w.runs[job] = w.jobs[JOB], w.terms[JOB], w.runs[JOB]
            w.claims[job, seat, 0] = replace(w.claims[JOB, seat, 0], disputes=0)
        games.append(int(court.ok("referee", "challenge", "dave owner", job, *args)))
    return games


def test_a_hundred_games_at_once_against_an_honest_operator__are_answered_one_after_the_other(crowd: GameDriver):
    """Its one machine takes the seconds of a re-execution for each game, and goes on with what is due first."""
    games = challenged(crowd, 100)
    moves = dict.fromkeys(games, 0)
    while waiting := [number for number in games if crowd.game(number).awaits not in (Awaits.NOTHING, Awaits.EVIDENCE)]:
        number = min(waiting, key=lambda each: crowd.game(each).due)
        crowd.wait(REEXECUTE_S // MOVES)
        crowd.answer(number)
        moves[number] += 1
        here = crowd.game(number)
        if here.awaits == Awaits.PICK:
            crowd.pick(number, PLACES[here.phase])
    assert set(moves.values()) == {MOVES}
    for number in games:
        game = crowd.game(number)
        crowd.ok("referee", "concede", "dave owner", number, game.claim, game.frame)
    assert crowd.world.open_against(crowd.named["bob"].operator) == 0
    assert all(game == Game() for game in crowd.world.games.values())
    assert {claim.status for claim in crowd.world.claims.values()} == {ClaimStatus.PENDING}


def test_bonds_and_clocks__count_games_over_all_claims_of_the_operator__up_to_a_most(crowd: GameDriver):
    games = [crowd.game(number) for number in challenged(crowd, MOST_COUNTED + 2)]
    assert [game.coin // games[0].coin for game in games] == [min(k, BOND_STEPS) for k in range(1, len(games) + 1)]
    preset = crowd.world.config.preset
    counted = [min(k, MOST_COUNTED) for k in range(1, len(games) + 1)]
    assert [game.move_s for game in games] == [preset.move_s + k * REEXECUTE_S for k in counted]
    assert [game.committer_left for game in games] == [preset.side_s + k * REEXECUTE_S for k in counted]


def test_what_a_side_can_have_left__fits_its_32_bits():
    limit = PRODUCTION.move_s + MOST_COUNTED * MAX_SECONDS
    assert PRODUCTION.side_s + MOST_COUNTED * MAX_SECONDS + MOST_MOVES * limit < 2**32
    assert limit < 2**32


def test_a_side__makes_no_more_moves_than_its_clock_has_room_for():
    """Five trees one below another; a tree's first children come with what enters it. Words are shown last."""

    def moves(height: int) -> int:
        count = 0
        while height:
            count, height = count + 1, height - span_of(height)
        return count

    words = 48 - 7  # leaves of 128 words
    assert moves(32) + moves(32) + moves(32) + moves(words) + 1 + moves(words) + 1 == MOST_MOVES
