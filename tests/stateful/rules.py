"""Rules of random walks, and how a walk draws them: evenly, by weight, from a seed that replays it.

A rule is a method, what its arguments are drawn from, and whether it makes sense now. A walk that fails is shrunk to
the steps that it takes to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])
Choice = Sequence[Any] | Callable[[Random], Any]  # what an argument is one of; or how it is drawn
Step = tuple[str, dict[str, Any]]
Play = Callable[[Sequence[Step]], Exception | None]


def rule(weight: int = 1, /, **choices: Choice) -> Callable[[Method], Method]:
    """A rule is drawn `weight` times as often as others."""

    def mark(method: Method) -> Method:
        vars(method).update(weight=weight, choices=choices)
        return method

    return mark


def precondition(holds: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """The rule is drawn only where this holds of its walk."""

    def mark(method: Method) -> Method:
        vars(method).update(holds=holds)
        return method

    return mark


def rules_of(walk: Any) -> dict[str, Any]:
    """By name, in the order of names, so that a seed means the same everywhere."""
    methods = {name: getattr(type(walk), name) for name in dir(type(walk))}
    return {name: method for name, method in methods.items() if hasattr(method, "choices")}


def is_possible(walk: Any, method: Any) -> bool:
    return not hasattr(method, "holds") or bool(method.holds(walk))


def draw(random: Random, choices: dict[str, Choice]) -> dict[str, Any]:
    return {name: choice(random) if callable(choice) else random.choice(choice) for name, choice in choices.items()}


def draw_step(walk: Any, random: Random) -> Step:
    possible = {name: method for name, method in rules_of(walk).items() if is_possible(walk, method)}
    (name,) = random.choices(list(possible), [method.weight for method in possible.values()])
    return name, draw(random, possible[name].choices)


def shrink(steps: Sequence[Step], play: Play) -> list[Step]:
    """Fewer of the steps that fail still: halves are left out, then quarters, at last single steps."""
    steps, size = list(steps), len(steps) // 2
    while size:
        start = 0
        while start < len(steps):
            fewer = steps[:start] + steps[start + size :]
            if play(fewer):
                steps = fewer
            else:
                start += size
        size //= 2
    return steps


def format_steps(steps: Sequence[Step]) -> str:
    return "\n".join(f"{name}({', '.join(f'{key}={value}' for key, value in args.items())})" for name, args in steps)
