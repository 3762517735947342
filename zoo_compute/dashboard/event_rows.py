"""What each of the chain's events changes in the index: a pure function from an event to statements.

Amounts are texts of whole numbers: SQLite's integers end at 2**63. `plus(a, b)` adds them (index.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from zoo_compute.chain.events import Event
from zoo_compute.dashboard import dispute_rows, job_rows, operator_rows, serving_rows
from zoo_compute.dashboard.rules import Statement

RULES = {**job_rows.RULES, **operator_rows.RULES, **dispute_rows.RULES, **serving_rows.RULES}
NAMES = frozenset(RULES)  # to be read from the chain


def rows_of(event: Event, at: int) -> Sequence[Statement]:
    """The statements of an event, in order; none for events that no view shows. at: the second of its block."""
    rule = RULES.get(event.name)
    return rule(event, at) if rule is not None else ()
