"""Large disputes at random, in seconds of the production preset: deep and wide trees, boundaries, many askers, money.

    python -m tests.campaigns.clocks.random_plays --plays 6000

A play is a list of planned transactions in order of their seconds; those of one second come in a random order, and what
the rules refuse is dropped. An honest side's transaction that is refused is a Violation.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.campaigns.clocks.model import Violation
from zoo_compute.spec import clock_costs, clocks
from zoo_compute.spec.clocks import PRODUCTION, End, PathClocks, Shares
from zoo_compute.spec.revert import Refused

GAS = 128_000
PRICE = 10**18  # of a re-execution


@dataclass
class Place:
    """A place that was asked about."""

    level: int
    false: bool
    clocks: PathClocks
    by_honest: bool
    fee: int
    heavy_fee: int
    above: Place | None
    unserved: bool = True  # no answer yet
    spent_s: int = 0  # LIE: askers' waiting; TRUE: the committer's delays; along the path


@dataclass
class RandomPlay:
    """One dispute. `is_lie`: one honest asker against a liar; else an honest committer against askers."""

    seed: int
    is_lie: bool
    places: list[Place] = field(default_factory=list)
    latest: int = 0
    end: End | None = None
    ended_at: int = 0
    convicting: Place | None = None
    earned: int = 0  # TRUE: fees less gas of answers, in the coin

    def __post_init__(self) -> None:
        self.chance = chance = random.Random(self.seed)
        self.deadline = 20_000
        self.depth = chance.randrange(1, 13)
        self.heavy_level = chance.randrange(1, self.depth + 1)
        self.reexecute_s = chance.choice((1, 60, 3_600))
        self.slots = chance.choice((1, 3))
        self.bound = clocks.bound(self.deadline, self.reexecute_s, PRODUCTION)
        self.base_fee = 10**9 * chance.randrange(1, 100)
        self.plans: list[tuple[int, float, Callable[[int], None]]] = []
        self.silence = chance.choice((0, 0, 0.01, 0.2))  # of the liar, at each ask
        self.workers = [0] * self.slots
        self.most_own_s = 0
        self.most_heavy = 0

    def plan(self, at: int, action: Callable[[int], None]) -> None:
        heapq.heappush(self.plans, (at, self.chance.random(), action))

    def play(self) -> End:
        """Play to the end; checks everything and returns how it ended."""
        first = clocks.first(self.deadline, PRODUCTION)
        for honest in (self.is_lie, *(False,) * self.chance.choice((1, 10, 120))):
            at = self.deadline if self.chance.random() < 0.5 else self.chance.randrange(self.deadline)
            self.plan(at, lambda now, honest=honest: self.ask(now, None, first, honest, honest))  # type: ignore[misc]
        while self.plans and self.end is None:
            now, _, action = heapq.heappop(self.plans)
            action(now)
        if self.end is None:
            self.end, self.ended_at = End.FINAL, max(self.deadline, self.latest) + 1
            if not clocks.is_final(self.ended_at, self.deadline, self.latest, self.open_asks()):
                raise Violation("nothing is planned, and the claim is not final")
        self.check()
        return self.end

    def open_asks(self, level: int = 0) -> int:
        return sum(place.unserved and level in (0, place.level) for place in self.places)

    # --- transactions

    def ask(self, now: int, above: Place | None, from_clocks: PathClocks, false: bool, honest: bool) -> None:
        level = above.level + 1 if above else 1
        heavy = level == self.heavy_level
        open_heavy = self.open_asks(self.heavy_level) + heavy
        if heavy and not self.is_lie and open_heavy > 32 * self.slots:
            return  # beyond it the operator may be exhausted; test_clocks has the formula
        in_time = above is not None or clocks.can_begin(now, self.deadline)
        try:
            if not in_time:
                raise Refused("clocks: a first ask after the deadline")
            after = clocks.asked(
                from_clocks, now, self.deadline, heavy, open_heavy, self.slots, self.reexecute_s, PRODUCTION
            )
        except Refused as refused:
            if honest:
                raise Violation("an honest asker is refused within its time") from refused
            return
        fee = clocks.answer_fee(self.open_asks() + 1, GAS, self.base_fee)
        place = Place(level, false, after, honest, fee, clocks.heavy_fee(PRICE, 0) if heavy else 0, above)
        if above:
            place.spent_s = above.spent_s
            if self.is_lie:
                place.spent_s += max(0, now - max(above.clocks.since, self.deadline))
        self.places.append(place)
        self.most_heavy = max(self.most_heavy, open_heavy)
        (self.plan_liars_answer if self.is_lie else self.plan_honest_answer)(now, place, heavy)

    def plan_liars_answer(self, now: int, place: Place, heavy: bool) -> None:
        left_s = place.clocks.committer_left_s
        used_s = self.chance.choice((0, 1, left_s, left_s // 2, self.chance.randrange(left_s + 1)))
        if self.chance.random() < self.silence or (self.seed % 8 == 0 and place.clocks.exhausted):
            used_s = left_s + 1  # silence
        self.plan(now + used_s, lambda at: self.answer(at, place))
        self.plan_expiry(now, place)

    def plan_expiry(self, now: int, place: Place) -> None:
        """Strangers try in the last second too, and in any other."""
        left_s = place.clocks.committer_left_s
        for after_s in (self.chance.randrange(left_s + 1), left_s, left_s + 1):
            self.plan(now + after_s, lambda at: self.expire(at, place))

    def plan_honest_answer(self, now: int, place: Place, heavy: bool) -> None:
        ready = now
        if heavy:
            worker = self.workers.index(min(self.workers))
            self.workers[worker] = ready = max(self.workers[worker], now) + self.reexecute_s
        rest_s = PRODUCTION.committer_s - place.spent_s
        own_s = self.chance.choice((0, rest_s // 8, rest_s, self.chance.randrange(rest_s + 1)))
        place.spent_s += own_s
        self.most_own_s = max(self.most_own_s, place.spent_s)
        self.plan(ready + own_s, lambda at: self.answer(at, place))
        self.plan_expiry(now, place)

    def answer(self, now: int, place: Place) -> None:
        try:
            place.clocks = clocks.answered(place.clocks, now)
        except Refused as refused:
            if not self.is_lie:
                raise Violation("an honest committer is refused within its time") from refused
            return
        place.unserved = False
        self.latest = clocks.latest(self.latest, place.clocks, self.deadline)
        gas_price = self.base_fee * self.chance.choice((1, 2, 4))  # a rise that the fee covers
        self.earned += place.fee - GAS * gas_price
        if place.false:
            rest_s = PRODUCTION.asker_s - place.spent_s
            waits_s = self.chance.choice((0, rest_s // 8, rest_s, self.chance.randrange(rest_s + 1)))
            at = max(now, self.deadline) + waits_s
            if place.level == self.depth:
                self.plan(at, lambda later: self.judge(later, place))
                return
            self.plan(at, lambda later: self.ask(later, place, place.clocks, True, True))
        if place.level < self.depth:
            end = clocks.asks_end(place.clocks, self.deadline)
            for _ in range(self.chance.randrange(3) if len(self.places) < 300 else 0):
                at = self.chance.choice((now, end, end + 1, self.chance.randrange(now, end + 1)))
                self.plan(at, lambda later: self.ask(later, place, place.clocks, False, False))

    def judge(self, now: int, place: Place) -> None:
        if clocks.is_final(now, self.deadline, self.latest, self.open_asks()):
            raise Violation("a lie became final")
        self.end, self.ended_at, self.convicting = End.JUDGED, now, place

    def expire(self, now: int, place: Place) -> None:
        if place.unserved and clocks.is_expired(place.clocks, now):
            exhausted = place.clocks.exhausted
            self.end, self.ended_at, self.convicting = End.EXHAUSTED if exhausted else End.SILENT, now, place

    # --- what is demanded

    def check(self) -> None:
        if self.ended_at > self.bound + 1:
            raise Violation(f"the dispute ended at {self.ended_at}, after the bound {self.bound}")
        if self.is_lie == (self.end is End.FINAL):
            raise Violation("a lie became final" if self.is_lie else "an honest committer is convicted")
        if not self.is_lie:
            delay = clock_costs.delay_s(self.most_own_s, self.most_heavy, self.slots, self.reexecute_s, PRODUCTION)
            if self.ended_at > self.deadline + delay + 1:
                raise Violation("an honest claim is delayed beyond the formula")
            if self.earned < 0:
                raise Violation("an honest committer is out of pocket")
        path = set()
        place = self.convicting
        while place is not None:
            path.add(id(place))
            place = place.above
        for place in self.places:
            assert self.end is not None
            coin = clocks.answer_shares(place.fee, self.end)
            token = clocks.heavy_shares(place.heavy_fee, self.end, id(place) in path)
            if self.end is End.EXHAUSTED:
                token = Shares(
                    token.asker + place.heavy_fee // 2
                )  # the one case in which an honest asker loses: half of one
            if id(place) in path and place.by_honest and (coin.asker, token.asker) != (place.fee, place.heavy_fee):
                raise Violation("an honest asker is out of pocket")


def play_many(plays: int, seed: int = 0) -> dict[str, int]:
    """Half of them lies, half true claims; how they ended, and the asks."""
    counted: dict[str, int] = {}
    for number in range(plays):
        played = RandomPlay(seed + number, is_lie=number % 2 == 0)
        name = played.play().name
        counted[name] = counted.get(name, 0) + 1
        counted["asks"] = counted.get("asks", 0) + len(played.places)
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description="Large disputes at random.")
    parser.add_argument("--plays", type=int, default=6_000)
    parser.add_argument("--seed", type=int, default=1_000)
    options = parser.parse_args()
    print(play_many(options.plays, options.seed))


if __name__ == "__main__":
    main()
