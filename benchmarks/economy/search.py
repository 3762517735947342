"""Coalitions that learn: each keeps its best strategies in all circumstances, and tries what differs from them in a few decisions.

No play is made twice. Of strategies that are worth the same, the newest are kept: else the first dozen that lose nothing would stay.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from benchmarks.economy.choices import Chance, Played, Strategy, outcomes
from benchmarks.economy.network import CIRCUMSTANCES, Circumstances
from benchmarks.economy.play import Play
from benchmarks.economy.table import ROLES

KEPT = 12  # of a coalition's best strategies in some circumstances
FRESH = 0.2  # of strategies begin from nothing
MOST_CHANGES = 3  # of decisions of a kept strategy
BEGINNINGS = 8  # in which a coalition is searched, each with nothing kept: a search that is stuck is not all there is
DRAWN = 400  # strategies that were all played before: then hardly any is left


@dataclass(frozen=True)
class Best:
    """What a coalition gains over the honest course, expected over what chance does, and by which decisions."""

    profit: int
    circumstances: str
    decisions: dict[str, str]


@dataclass
class Result:
    """Of a coalition."""

    coalition: tuple[str, ...]
    plays: int = 0
    strategies: int = 0
    calls: int = 0
    best: Best | None = None
    bent: Best | None = None  # the best of plays in which somebody did more than ask about a true claim
    # by honest party: the most that a play costs it beyond what it has for it
    losses: dict[str, Best] = field(default_factory=dict)


def coalitions() -> Iterator[tuple[str, ...]]:
    """Every one there is of the roles, the smallest first."""
    for size in range(1, len(ROLES) + 1):
        yield from combinations(ROLES, size)


def concerns(circumstances: Circumstances, coalition: tuple[str, ...]) -> bool:
    """Whether all of a coalition can do something in these."""
    has_auditors = circumstances.has_audits or "auditor" not in coalition
    return has_auditors and (circumstances.has_custody or "custodian" not in coalition)


class Search:
    """Of one coalition in one set of circumstances."""

    def __init__(self, coalition: tuple[str, ...], circumstances: Circumstances, rng: random.Random) -> None:
        self.coalition, self.circumstances, self.rng = frozenset(coalition), circumstances, rng
        self.kept: list[tuple[float, dict[str, str]]] = []
        self.played, self.is_done = Played(), False
        honest = Play(circumstances, self.coalition, Strategy(rng, is_honest=True), Chance()).play()
        self.honest = honest.of_coalition

    def step(self, result: Result) -> None:
        """One strategy more."""
        strategy = self._new()
        if strategy is None:
            self.is_done = True
            return
        profit, met = self._value(strategy, result)
        result.strategies += 1
        made = Best(round(profit), self.circumstances.name, met)
        if result.best is None or made.profit > result.best.profit:
            result.best = made
        is_bent = any(not does.startswith("asks") for does in met.values())
        if is_bent and (result.bent is None or made.profit > result.bent.profit):
            result.bent = made
        self.kept.insert(0, (profit, strategy.decisions))
        self.kept.sort(key=lambda each: -each[0])
        del self.kept[KEPT:]

    def _new(self) -> Strategy | None:
        """A strategy that makes a play that nobody made; None where hardly any is left."""
        for _ in range(DRAWN):
            strategy = Strategy(self.rng, self._begun())
            if not self.played.has(strategy):
                return strategy
        return None

    def _begun(self) -> dict[str, str]:
        if not self.kept or self.rng.random() < FRESH:
            return {}
        decisions = dict(self.rng.choice(self.kept)[1])
        changes = self.rng.randint(1, MOST_CHANGES)
        for where in self.rng.sample(sorted(decisions), min(changes, len(decisions))):
            del decisions[where]
        return decisions

    def _value(self, strategy: Strategy, result: Result) -> tuple[float, dict[str, str]]:
        total, met = 0.0, {}

        def play(chance: Chance) -> None:
            nonlocal total
            strategy.begin()
            played = Play(self.circumstances, self.coalition, strategy, chance)
            worth = played.play()
            met.update(strategy.hostile)
            result.plays += self.played.add(strategy.course)
            total += chance.weight * (worth.of_coalition - self.honest)
            result.calls += played.n.calls
            if self.circumstances.is_watched:
                self._note_losses(worth.honest_losses(), strategy, result)

        outcomes(play)
        return total, met

    def _note_losses(self, losses: dict[str, int], strategy: Strategy, result: Result) -> None:
        for name, loss in losses.items():
            worst = result.losses.get(name)
            if loss > 0 and (worst is None or loss > worst.profit):
                result.losses[name] = Best(loss, self.circumstances.name, strategy.hostile)


def search(coalition: tuple[str, ...], plays: int, seed: int, only: str = "", seconds: float = float("inf")) -> Result:
    """So many different plays of one coalition, in all circumstances that concern it, in turns; fewer where there are no more, or no time.

    Plays make no cycles: nothing is to be collected.
    """
    gc.freeze()
    gc.disable()
    rng, until = random.Random(f"{seed} {coalition}"), time.monotonic() + seconds
    searches = [
        Search(coalition, each, rng) for each in CIRCUMSTANCES if only in each.name and concerns(each, coalition)
    ]
    result = Result(coalition)
    for beginning in range(BEGINNINGS):
        for each in searches:
            each.kept.clear()
        share = plays * (beginning + 1) // BEGINNINGS
        while searches and result.plays < share and time.monotonic() < until:
            for each in searches:
                each.step(result)
            searches = [each for each in searches if not each.is_done]
    return result
