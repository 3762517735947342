"""The search for plays that pay: its yardstick is the honest course, and it finds what pays under rules that were mended."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from benchmarks.economy import search as searching
from benchmarks.economy.choices import Chance, Met, Played, Strategy, outcomes
from benchmarks.economy.money import Worth
from benchmarks.economy.network import CIRCUMSTANCES, PARTIES, Circumstances, awarded
from benchmarks.economy.play import Play
from benchmarks.economy.search import coalitions, concerns, search
from zoo_compute.spec import audit_ends, convictions, params
from zoo_compute.spec.state import Claim, World


def played(circumstances: Circumstances, coalition: tuple[str, ...], **decisions: str) -> Worth:
    """A play of these decisions, by where they are made; all others are honest."""

    class Fixed(Strategy):
        def pick(self, where: str, *options: str) -> str:
            return decisions.get(where, options[0])

    return Play(circumstances, frozenset(coalition), Fixed(random.Random(0)), Chance()).play()


def named(name: str) -> Circumstances:
    return next(each for each in CIRCUMSTANCES if each.name == name)


@pytest.mark.parametrize("circumstances", CIRCUMSTANCES, ids=lambda each: each.name)
def test_honest_course__pays_every_party_and_costs_none(circumstances: Circumstances) -> None:
    worth = played(circumstances, ())
    assert {name: loss for name, loss in worth.honest_losses().items() if loss > 0} == {}
    workers = [worth.network.wealth([name]) - worth.network.before[name] for name in ("worker", "peer", "aggregator")]
    assert min(workers) > 0
    assert worth.work(kept=True) == worth.work(kept=False) > 0


def test_money__is_neither_made_nor_lost() -> None:
    """What all parties and contracts have after a play is what they had before it."""
    strategy = Strategy(random.Random(3))
    circumstances = CIRCUMSTANCES[-1]
    before = sum(amount for (token, _), amount in awarded(circumstances).world.balances.items() if token == "zen")
    worth = Play(circumstances, frozenset({"provider", "aggregator", "auditor"}), strategy, Chance()).play()
    w = worth.network.world
    assert sum(amount for (token, _), amount in w.balances.items() if token == "zen") == before
    assert strategy.hostile, "a play that nobody bent shows nothing"


def test_chance__is_played_out_whole() -> None:
    weights: list[float] = []

    def play(chance: Chance) -> None:
        if not chance.detects(0.25):
            chance.detects(0.5)
        weights.append(chance.weight)

    assert outcomes(play) == 3
    assert sorted(weights) == [0.25, 0.375, 0.375]


def test_a_strategy__is_new_until_everything_that_chance_makes_of_it_was_played() -> None:
    def played_by(strategy: Strategy, *, is_detected: bool) -> list[Met]:
        strategy.begin()
        strategy.pick("round 0", "works", "lies")
        strategy.chance(is_detected=is_detected)
        if is_detected:
            strategy.pick("the end", "is judged", "is silent")
        return strategy.course

    liar = Strategy(random.Random(0), {"round 0": "lies", "the end": "is silent"})
    other = Strategy(random.Random(0), {"round 0": "lies", "the end": "is judged"})
    plays = Played()
    assert not plays.has(liar)
    assert plays.add(played_by(liar, is_detected=False))
    assert not plays.has(liar)
    assert plays.add(played_by(liar, is_detected=True))
    assert plays.has(liar)
    assert not plays.has(other)
    assert not plays.add(played_by(liar, is_detected=True))
    assert not plays.add(played_by(other, is_detected=False))
    assert plays.add(played_by(other, is_detected=True))
    assert not plays.has(Strategy(random.Random(0), {"round 0": "works"}))


def test_search__counts_different_plays_and_makes_few_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, tuple[Met, ...]]] = []

    class Counted(searching.Search):
        def step(self, result: searching.Result) -> None:
            add = self.played.add
            monkeypatch.setattr(
                self.played, "add", lambda course: made.append((self.circumstances.name, tuple(course))) or add(course)
            )
            super().step(result)
            monkeypatch.setattr(self.played, "add", add)

    monkeypatch.setattr(searching, "Search", Counted)
    result = search(("custodian", "auditor"), 150, seed=5)
    assert result.plays == len(set(made)) >= 150
    assert result.strategies <= result.plays <= len(made) < 1.1 * result.plays


def test_search__ends_where_no_play_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(Play):
        """Of two decisions."""

        def play(self) -> Worth:
            for where in ("first", "second"):
                self.strategy.pick(where, "works", "lies")
            return self.worth

    monkeypatch.setattr(searching, "Play", Short)
    result = search(("provider",), 100, seed=1, only="losers left, nobody")
    assert result.plays == 4


def test_every_coalition__plays_something() -> None:
    assert len(list(coalitions())) == 63
    assert all(any(concerns(each, coalition) for each in CIRCUMSTANCES) for coalition in coalitions())


def test_a_lie_alone__is_found_by_nobody_with_the_chance_that_locks_count_on() -> None:
    chances: list[float] = []

    def play(chance: Chance) -> None:
        decisions = {"worker in turn 0, seat 1": "lies"}

        class Liar(Strategy):
            def pick(self, where: str, *options: str) -> str:
                return decisions.get(where, options[0])

        Play(named("nobody looks but auditors"), frozenset({"provider"}), Liar(random.Random(0)), chance).play()
        chances.append(chance.weight)

    assert outcomes(play) == 2
    p = 500 / 10_000 * 2 / 3 / 2
    assert chances == pytest.approx([(1 - p) ** 2, 1 - (1 - p) ** 2])


# --- what plays found, under the rules as they were


def test_an_abandoned_turn_on_a_lie__is_paid_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The aggregator lies, delays its conviction and is silent: workers of the next turn are paid, and nothing of it is of use."""
    decisions = {
        "aggregator closes turn 0, attempt 0": "lies",
        "aggregator whose lie in turn 0, seat 128 is found, is late": "by a turn",
        "aggregator closes turn 1, attempt 0": "is silent",
    }
    where = named("nobody else ever bid, 8 rounds")

    def loss() -> int:
        return played(where, ("aggregator",), **decisions).honest_losses()["submitter"]

    assert loss() <= 0
    kept: Callable[[World, int, Claim], int] = convictions._rounds_resting_on

    def as_it_was(w: World, job: int, claim: Claim) -> int:
        rounds = kept(w, job, claim)
        return rounds - (1 if rounds and not w.runs[job].is_open else 0)

    monkeypatch.setattr(convictions, "_rounds_resting_on", as_it_was)
    assert loss() > 0


def test_a_submitter__gains_nothing_by_what_its_deposits_pay_its_own_parties() -> None:
    """The aggregator lies, its auditor has a bounty for it, and its custodian signs a turn more: all from the submitter's money."""
    decisions = {
        "aggregator closes turn 0, attempt 0": "lies",
        "aggregator whose lie in turn 0, seat 128 is found,": "is judged, with its own seal first",
        "spare seat 128 is vacant in turn 2": "taken by aggregator",
    }
    coalition = ("submitter", "aggregator", "auditor", "custodian")
    where = named("all is drawn for audits, and custodians sign")
    honest, worth = played(where, coalition), played(where, coalition, **decisions)
    custody = [each.network.wealth(["custodian"]) - each.network.before["custodian"] for each in (honest, worth)]
    assert worth.bounties > 0
    assert honest.bounties == 0
    assert custody[1] > custody[0] > 0
    profit = worth.of_coalition - honest.of_coalition
    assert profit < 0 < profit + worth.bounties + custody[1] - custody[0], "a play that a wrong yardstick calls good"


def test_search__finds_a_bounty_that_pays_for_its_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_ends, "bounty_of", lambda fee, taken: params.BOUNTY_FEES * fee)
    best = search(("provider", "auditor"), 400, seed=7).best
    assert best is not None
    assert best.profit > 0


def test_parties__have_each_a_name_of_their_own() -> None:
    assert len(set(PARTIES)) == len(PARTIES)
