"""Custody and all that it asks, in lockstep with the specification, for tests of one contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.lockstep.contract_mirror import fresh_mirror
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import Stage
from tests.support.protocol_driver import load
from tests.support.scenarios.custody import CustodyScenario
from tests.support.sources import load as compiled

__all__ = ["LISTENED", "custody_stage", "events_of", "last_events", "load"]

LISTENED = [entry["name"] for entry in compiled("Custody").abi if entry["type"] == "event"]


@contextmanager
def custody_stage(**terms: Any) -> Iterator[CustodyScenario]:
    with fresh_mirror("devnet") as mirror:
        yield CustodyScenario(Stage(Coverage(), mirror), **terms)


def last_events(t: CustodyScenario) -> list[tuple[str, dict[str, Any]]]:
    """Custody's of the last call."""
    return events_of(t, "custody")


def events_of(t: CustodyScenario, name: str) -> list[tuple[str, dict[str, Any]]]:
    """A contract's, as (name, fields)."""
    mirror: Any = t.s.mirror
    contract = mirror.contracts[name]
    events = [event for event in contract.get_logs(mirror.last) if event.address == contract.address]
    fields = [(type(event).__name__, event._asdict()) for event in events]
    return [
        (name, {key: _plain(value) for key, value in content.items() if key != "address"}) for name, content in fields
    ]


def _plain(value: Any) -> Any:
    return [tuple(each) for each in value] if isinstance(value, list) else value
