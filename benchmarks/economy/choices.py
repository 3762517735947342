"""What a coalition decides in a play, and what chance does."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

HONEST_SHARE = (
    0.6  # of decisions that nobody made before: so that most plays differ in few places from the honest course
)


@dataclass
class Strategy:
    """Decisions by where they are made. One that is met for the first time is drawn, and kept."""

    rng: random.Random
    decisions: dict[str, str] = field(default_factory=dict)
    met: dict[str, str] = field(default_factory=dict)  # in the last play
    is_honest: bool = False

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
        return choice

    @property
    def hostile(self) -> dict[str, str]:
        """The decisions of the last play that an honest party would not have made, in order."""
        return {where: choice for where, choice in self.met.items() if choice not in HONEST}


# The first options of all decisions.
HONEST = frozenset(
    {"is ready", "leaves it", "works", "aggregates", "is judged", "at once", "asks nothing", "looks", "signs", "stays"}
)


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
