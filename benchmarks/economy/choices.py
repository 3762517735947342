"""What a coalition decides in a play, and what chance does."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

HONEST_SHARE = (
    0.6  # of decisions that nobody made before: so that most plays differ in few places from the honest course
)

CHANCE, OUTCOMES = "chance", ("nobody finds it", "it is found")
Met = tuple[str, tuple[str, ...], str]  # where something is decided, the options, and what it was


@dataclass
class Strategy:
    """Decisions by where they are made. One that is met for the first time is drawn, and kept."""

    rng: random.Random
    decisions: dict[str, str] = field(default_factory=dict)
    met: dict[str, str] = field(default_factory=dict)  # in the last play
    course: list[Met] = field(default_factory=list)  # of the last play: all that was decided, in order
    is_honest: bool = False

    def begin(self) -> None:
        """Another play."""
        self.met, self.course = {}, []

    def chance(self, *, is_detected: bool) -> None:
        """What chance did in this play."""
        self.course.append((CHANCE, OUTCOMES, OUTCOMES[is_detected]))

    def pick(self, where: str, *options: str) -> str:
        """The first option is what honest parties do."""
        if self.is_honest:
            return options[0]
        choice = self.decisions.get(where)
        if choice is None:
            is_first = len(options) == 1 or self.rng.random() < HONEST_SHARE
            choice = self.decisions[where] = options[0] if is_first else self.rng.choice(options[1:])
        elif choice not in options:  # what happened before rules it out this time
            choice = options[0]
        self.met[where] = choice
        self.course.append((where, options, choice))
        return choice

    @property
    def hostile(self) -> dict[str, str]:
        """The decisions of the last play that an honest party would not have made, in order."""
        return {where: choice for where, choice in self.met.items() if choice not in HONEST}


# The first options of all decisions.
HONEST = frozenset(
    {"is ready", "leaves it", "works", "aggregates", "is judged", "at once", "asks nothing", "looks", "signs", "stays"}
)


@dataclass(slots=True)
class Place:
    """Of the tree of all plays: where the next decision is made, and what followed each. None: the play ended."""

    where: str
    options: tuple[str, ...]
    next: dict[str, Place | None] = field(default_factory=dict)


class Played:
    """All plays of a coalition in some circumstances so far."""

    def __init__(self) -> None:
        self._first: dict[str, Place | None] = {}

    def add(self, course: Sequence[Met]) -> bool:
        """Whether nobody played it before."""
        at, to, is_new = self._first, "", False
        for where, options, choice in course:
            place = at.get(to)
            if place is None:
                is_new = True
                place = at[to] = Place(where, options)
            assert place.where == where, "the same decisions led elsewhere"
            at, to = place.next, choice
        is_new |= to not in at
        at.setdefault(to)
        return is_new

    def has(self, strategy: Strategy) -> bool:
        """Whether all that chance can make of a strategy was played: then it teaches nothing. Its next decisions are drawn."""
        return self._has(self._first, "", strategy)

    def _has(self, at: dict[str, Place | None], to: str, strategy: Strategy) -> bool:
        while to in at:
            place = at[to]
            if place is None:
                return True
            at = place.next
            if place.where == CHANCE:
                return all(self._has(at, outcome, strategy) for outcome in OUTCOMES)
            to = strategy.pick(place.where, *place.options)
        return False


@dataclass
class Chance:
    """Whether lies are detected, one after the other: the first ones as `fixed` says, those after them not."""

    fixed: Sequence[bool] = ()
    weight: float = 1.0
    taken: list[bool] = field(default_factory=list)

    def detects(self, probability: float) -> bool:
        is_detected = self.fixed[len(self.taken)] if len(self.taken) < len(self.fixed) else False
        self.taken.append(is_detected)
        self.weight *= probability if is_detected else 1 - probability
        return is_detected


def outcomes(play: Callable[[Chance], None]) -> int:
    """Plays once for everything that chance can do; how often that was."""
    fixed: list[bool] = []
    count = 0
    while True:
        chance = Chance(fixed)
        play(chance)
        count += 1
        fixed = chance.taken
        while fixed and fixed[-1]:
            fixed.pop()
        if not fixed:
            return count
        fixed[-1] = True
