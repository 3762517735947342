"""Plays every dispute of a small tree: at each second any transactions in any order, then the second passes.

The rules under test are the functions of `zoo_compute.spec.clocks`. What the model demands of them it reckons by itself,
from the seconds in which places were asked and answered:
- FREE: anyone does anything. No ask can be answered, and no place asked or judged, after the bound; final is for ever.
- LIE: one honest asker whose own waiting sums up to asker_s along a path, after the deadline, at most; the liar and
  any number of strangers do as they like. The claim is convicted.
- TRUE: an honest committer with a worker a slot, oldest heavy ask first, whose own delays sum up to committer_s along a
  path at most; askers do as they like. It is never convicted.
States that differ only in the order of siblings are one state; `plays` counts the orders of transactions that lead through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any

from tests.campaigns.clocks.trees import Tree
from zoo_compute.spec import clocks as c
from zoo_compute.spec.clocks import ClockPreset, PathClocks
from zoo_compute.spec.revert import Refused

UNASKED, ASKED, ANSWERED = range(3)
# Of a place: (status, tree) | (status, tree, clocks, history) | (status, tree, clocks, history, children)
Place = tuple[Any, ...]
Clocks = tuple[int, int, int, int, bool]  # PathClocks as a tuple: sortable


class Side(Enum):
    """Which side is honest."""

    FREE = "free"
    LIE = "lie"
    TRUE = "true"


class Violation(AssertionError):
    """The rules let through what they must not; the text says what."""


@dataclass(frozen=True)
class Rules:
    """The functions under test; a mutant replaces some."""

    first: Callable[..., PathClocks] = c.first
    can_begin: Callable[..., bool] = c.can_begin
    is_askable: Callable[..., bool] = c.is_askable
    asked: Callable[..., PathClocks] = c.asked
    is_expired: Callable[..., bool] = c.is_expired
    answered: Callable[..., PathClocks] = c.answered
    latest: Callable[..., int] = c.latest
    is_final: Callable[..., bool] = c.is_final


@dataclass(frozen=True)
class Setting:
    """A world of small numbers: seconds and counts."""

    deadline: int = 1
    committer_s: int = 2
    asker_s: int = 1
    counted: int = 1
    reexecute_s: int = 1
    slots: int = 1
    own_s: int | None = None  # TRUE: what the honest committer's own delays sum up to along a path; None: committer_s

    def preset(self) -> ClockPreset:
        return ClockPreset(
            committer_s=self.committer_s,
            asker_s=self.asker_s,
            exclusive_s=0,
            counted_reexecutions=self.counted,
            seal_lead_s=0,
            opening_s=1,
            outage_s=0,
            aged_factor=2,
            pay_fades_from_s=0,
            pay_gone_at_s=self.committer_s,
        )


@dataclass
class Played:
    """What an exhaustive play of one tree counted."""

    states: int = 0
    plays: int = 0
    convictions: int = 0
    finals: int = 0
    until: int = 0  # the last second in which anything could be asked, answered or judged
    final_at: int = 0  # the last second in which a claim became final


@dataclass
class Model:
    """All disputes of one tree (`trees`) in one setting, with one side honest."""

    tree: Tree
    setting: Setting
    side: Side
    rules: Rules = field(default_factory=Rules)
    played: Played = field(default_factory=Played)

    def __post_init__(self) -> None:
        self.preset = self.setting.preset()
        self.deadline = self.setting.deadline
        self.bound = (
            self.deadline
            + self.setting.committer_s
            + self.setting.asker_s
            + self.setting.counted * self.setting.reexecute_s
        )
        self.own_s = self.setting.committer_s if self.setting.own_s is None else self.setting.own_s
        self.memo: dict[Any, int] = {}
        rules, deadline, preset, s = self.rules, self.deadline, self.preset, self.setting

        @cache
        def asked(clocks: Clocks, now: int, heavy: bool, open_heavy: int) -> Clocks | None:
            try:
                return as_tuple(
                    rules.asked(PathClocks(*clocks), now, deadline, heavy, open_heavy, s.slots, s.reexecute_s, preset)
                )
            except Refused:
                return None

        @cache
        def answered(clocks: Clocks, now: int) -> Clocks | None:
            try:
                return as_tuple(rules.answered(PathClocks(*clocks), now))
            except Refused:
                return None

        @cache
        def is_askable(clocks: Clocks, now: int) -> bool:
            return rules.is_askable(PathClocks(*clocks), now, deadline)

        @cache
        def is_expired(clocks: Clocks, now: int) -> bool:
            return rules.is_expired(PathClocks(*clocks), now)

        self.asked, self.answered, self.is_askable, self.is_expired = asked, answered, is_askable, is_expired

    def play(self) -> Played:
        """Every play from the second before the deadline on. Raises Violation."""
        top = (ANSWERED, self.tree, as_tuple(self.rules.first(self.deadline, self.preset)), self._history_of_top())
        children = tuple((UNASKED, child) for child in self.tree[2])
        self.played.plays = self._plays(0, 0, (*top, children), (0,) * self.setting.slots)
        self.played.states = len(self.memo)
        return self.played

    def _history_of_top(self) -> tuple[int, ...]:
        return {Side.FREE: (), Side.LIE: (0, 0), Side.TRUE: (0, 0, 0, 0)}[self.side]

    def _plays(self, now: int, latest: int, top: Place, workers: tuple[int, ...]) -> int:
        """The number of plays from this state on; all are checked."""
        if self.side is Side.TRUE:
            workers = tuple(sorted(max(free, now) for free in workers))
        key = (now, latest, top, workers)
        if (known := self.memo.get(key)) is not None:
            return known
        places = list(places_of(top))
        open_asks = [place for place in places if place[0] == ASKED]
        final = self.rules.is_final(now, self.deadline, latest, len(open_asks))
        self._check(now, latest, top, open_asks, final)
        if final:
            self.played.finals += 1
            self.played.final_at = max(self.played.final_at, now)
            self.memo[key] = 1
            return 1
        open_heavy = sum(place[1][1] for place in open_asks)
        total = self._convictions(places, now)
        self.played.convictions += total > 0
        for after, moment, free in self._moves(top, now, open_heavy, workers, True):
            total += self._plays(now, latest if moment is None else self._latest(latest, moment), after, free)
        if now <= self.bound and not self._must_act(top, open_asks, now):
            total += self._plays(now + 1, latest, top, workers)
        if total == 0:
            raise Violation("nothing can be done, and yet the claim is neither final nor convicted")
        self.memo[key] = total
        return total

    def _latest(self, before: int, clocks: Clocks) -> int:
        return self.rules.latest(before, PathClocks(*clocks), self.deadline)

    # --- transactions

    def _moves(
        self, place: Place, now: int, open_heavy: int, workers: tuple[int, ...], is_top: bool = False
    ) -> Iterator[tuple[Place, Clocks | None, tuple[int, ...]]]:
        """Each ask and answer that the rules accept: the place afterwards, the clocks of an answer, when workers are free."""
        status, tree = place[0], place[1]
        if status == ASKED:
            clocks, history = place[2], place[3]
            if self.side is Side.TRUE and now < history[2]:
                return  # still computing
            if (after := self.answered(clocks, now)) is not None:
                children = tuple((UNASKED, child) for child in tree[2])
                yield (ANSWERED, tree, after, self._history_after_answer(history, now), children), after, workers
        if status != ANSWERED:
            return
        clocks, history, children = place[2], place[3], place[4]
        for i, child in enumerate(children):
            if i and children[i - 1] == child:
                continue  # the same as its twin
            rest = children[:i] + children[i + 1 :]
            if child[0] == UNASKED:
                heavy = child[1][1]
                if is_top and not self.rules.can_begin(now, self.deadline):
                    continue
                if (below := self.asked(clocks, now, bool(heavy), open_heavy + heavy)) is None:
                    continue
                past, free = self._history_after_ask(history, now, heavy, open_heavy + heavy, workers, is_top)
                asked = (ASKED, child[1], below, past)
                yield (*place[:4], tuple(sorted((*rest, asked)))), None, free
            else:
                for after, moment, free in self._moves(child, now, open_heavy, workers):
                    yield (*place[:4], tuple(sorted((*rest, after)))), moment, free

    def _history_after_ask(
        self, history: tuple[int, ...], now: int, heavy: int, open_heavy: int, workers: tuple[int, ...], is_top: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """LIE: the askers' waiting so far. TRUE: own delay so far, re-executions that count, when computed, exempt."""
        if self.side is Side.LIE:
            waited, answered_at = history
            return (waited + (0 if is_top else max(0, now - max(answered_at, self.deadline))), 0), workers
        if self.side is Side.TRUE:
            own, counted, _, exempt = history
            ready = now
            if heavy:
                s = self.setting
                ready = workers[0] + s.reexecute_s
                workers = tuple(sorted((*workers[1:], ready)))
                counted += -(-open_heavy // s.slots)
                exempt = int(exempt or counted > s.counted)
            return (own, counted, ready, exempt), workers
        return (), workers

    def _history_after_answer(self, history: tuple[int, ...], now: int) -> tuple[int, ...]:
        if self.side is Side.LIE:
            return (history[0], now)
        if self.side is Side.TRUE:
            own, counted, ready, exempt = history
            return (own + now - ready, counted, 0, exempt)
        return ()

    def _convictions(self, places: list[Place], now: int) -> int:
        """How many transactions convict now: silence past its clock, and false leaves."""
        return sum(
            self.is_expired(place[2], now)
            if place[0] == ASKED
            else place[0] == ANSWERED and place[1][0] == 1 and not place[1][2]
            for place in places
        )

    # --- what is demanded

    def _check(self, now: int, latest: int, top: Place, open_asks: list[Place], final: bool) -> None:
        if final and self.side is Side.LIE:
            raise Violation("a lie became final")
        if final and open_asks:
            raise Violation("final with open asks")
        if final and next(self._moves(top, now, 0, (now,) * self.setting.slots, True), None) is not None:
            raise Violation("final, and yet something can be asked")
        ends = [place[2][0] + place[2][1] for place in open_asks]
        self.played.until = until = max([self.played.until, self.deadline, latest, *ends])
        if until > self.bound:
            raise Violation(f"something can be done at {until}, after the bound {self.bound}")
        if self.side is Side.TRUE:
            self._check_committer(now, open_asks)
        if self.side is Side.LIE:
            self._check_asker(top, now)

    def _check_committer(self, now: int, open_asks: list[Place]) -> None:
        for _, _, clocks, (own, _, ready, exempt) in open_asks:
            if not exempt and now <= ready + self.own_s - own and self.is_expired(clocks, now):
                raise Violation("an honest committer is convicted within its time")

    def _check_asker(self, top: Place, now: int) -> None:
        """Whatever the honest asker may still wait for must be possible now."""
        for place, level in answered_lies(top, 0):
            if level == 0:
                if now <= self.deadline and not self.rules.can_begin(now, self.deadline):
                    raise Violation("an honest asker cannot begin by the deadline")
            elif self._could_wait(place, now) and lies_below(place) and not self.is_askable(place[2], now):
                raise Violation("an honest asker is refused within its time")

    def _could_wait(self, place: Place, now: int) -> bool:
        return self._waited(place, now) <= self.setting.asker_s

    def _waited(self, place: Place, now: int) -> int:
        """What an honest asker would have waited along this path, if it acted now at this answered place."""
        history: tuple[int, int] = place[3]
        waited, answered_at = history
        return waited + max(0, now - max(answered_at, self.deadline))

    def _must_act(self, top: Place, open_asks: list[Place], now: int) -> bool:
        """Whether an honest side cannot let this second pass."""
        if self.side is Side.FREE:
            return False
        if self.side is Side.TRUE:
            return any(
                not exempt and now >= ready and own + now + 1 - ready > self.own_s
                for _, _, _, (own, _, ready, exempt) in open_asks
            )
        if any(self.is_expired(place[2], now) for place in open_asks):
            return True
        for place, level in answered_lies(top, 0):
            if level == 0:
                if lies_below(place) == lies_of(place[1]) and now >= self.deadline:
                    return True  # no lie was asked about yet
            elif (not place[1][2] or lies_below(place)) and not self._could_wait(place, now + 1):
                return True
        return False


def as_tuple(clocks: PathClocks) -> Clocks:
    return (clocks.since, clocks.committer_left_s, clocks.asker_left_s, clocks.counted_left, clocks.exhausted)


def places_of(top: Place) -> Iterator[Place]:
    """Every place but the top, and none below one that is not answered."""
    for child in top[4]:
        yield child
        if child[0] == ANSWERED:
            yield from places_of(child)


def answered_lies(place: Place, level: int) -> Iterator[tuple[Place, int]]:
    if place[0] == ANSWERED and place[1][0]:
        yield place, level
        for child in place[4]:
            yield from answered_lies(child, level + 1)


def lies_below(place: Place) -> int:
    """False children that nobody asked about."""
    return sum(child[0] == UNASKED and child[1][0] for child in place[4])


def lies_of(tree: Tree) -> int:
    return sum(child[0] for child in tree[2])
