"""What an event changes, as statements of SQL: the table of rules, which is filled by subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zoo_compute.chain.events import Event

Statement = tuple[str, tuple[Any, ...]]
Rule = Callable[[Event, int], Sequence[Statement]]  # of an event and the second of its block
LARGEST = 2**63 - 1


class Rules(dict[str, Rule]):
    """By the event's name."""

    def on(self, *names: str) -> Callable[[Rule], Rule]:
        def register(rule: Rule) -> Rule:
            self.update(dict.fromkeys(names, rule))
            return rule

        return register


def small(value: int) -> int:
    """A number for a column of integers: strangers choose some, as large as they like."""
    return min(int(value), LARGEST)
