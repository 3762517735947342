"""Explorations as they are read from the chain: what is new alone, and when a claim is final."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.keepers.test_disputing import NOW, dispute, opened
from zoo_compute.chain import explorations
from zoo_compute.chain.events import Event
from zoo_compute.disputes.exploration import Exploration
from zoo_compute.spec.clocks import DEVNET, first
from zoo_compute.spec.exploration import Status


class CountedReads:
    """A chain whose events ask about claims, each ask of a claim of its own. applied: how many events made a picture."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *jobs: int) -> None:
        self.events = [self.asked(number, job) for number, job in enumerate(jobs, 1)]
        self.applied = 0
        self.words: dict[bytes, int] = {}
        history = SimpleNamespace(events_until=lambda head: list(self.events))
        reader = explorations._Reader(history)  # type: ignore[arg-type]
        self.chain: Any = SimpleNamespace(cached=lambda key, make: reader)
        self.read: list[bytes] = []
        monkeypatch.setattr(explorations._Reader, "_read_times", self._read_times)
        monkeypatch.setattr(explorations, "read_all", self._read_all)
        monkeypatch.setattr(Exploration, "apply", lambda picture, event: self._count())

    @staticmethod
    def asked(number: int, job: int) -> Event:
        args = {"job": job, "claim": bytes([number, job]), "id": bytes([number]), "claim_hash": b"h"}
        return Event("ClaimAsked", "referee", number, 0, f"0x{number}", bytes([number]), args)

    def _read_times(self, chain: Any, events: Sequence[Event]) -> None:
        reader = self.chain.cached(None, None)
        reader.times |= {event.block_hash: event.block for event in events}

    def _count(self) -> None:
        self.applied += 1

    def _read_all(self, chain: Any, block: int, reads: Any) -> list[Any]:
        self.read += [each.args[0] for each in reads if each.function == "claims"]
        return [
            self.words.get(each.args[0], 5 << 196 | 9 << 108) if each.function == "claims" else 77 for each in reads
        ]

    def keys(self, **wanted: Any) -> list[bytes]:
        head: Any = SimpleNamespace(number=1)
        return [each.key for each in explorations.read_disputes(self.chain, head, **wanted)]


def test_read_disputes__reads_what_is_new_alone_until_a_reorganisation_undoes_something(
    monkeypatch: pytest.MonkeyPatch,
):
    reads = CountedReads(monkeypatch, 1, 1)
    assert (reads.keys(), reads.applied) == ([b"\1\1", b"\2\1"], 2)
    reads.events.append(reads.asked(3, 2))
    assert (reads.keys(job=2), reads.applied) == ([b"\3\2"], 3)
    assert reads.keys(wanted=lambda view: view.key != b"\1\1") == [b"\2\1", b"\3\2"]
    assert reads.read == [b"\1\1", b"\2\1", b"\3\2"], "operator and deadline are fixed"
    reads.events = [reads.events[0], reads.asked(2, 7)]  # another claim came to be the second
    assert (reads.keys(job=7), reads.applied) == ([b"\2\7"], 5)


def test_read_disputes__asks_for_the_deadline_of_an_open_turn_at_every_look(monkeypatch: pytest.MonkeyPatch):
    reads = CountedReads(monkeypatch, 1)
    reads.words[b"\1\1"] = 5 << 196 | 3 << 176
    monkeypatch.setattr(explorations, "_U40", 76)  # as the greatest number is: later than any deadline
    head: Any = SimpleNamespace(number=1)
    [view] = explorations.read_disputes(reads.chain, head)
    assert (view.operator, view.deadline, view.final_after(DEVNET)) == (5, 0, None)
    monkeypatch.setattr(explorations, "_U40", 2**40 - 1)
    [view] = explorations.read_disputes(reads.chain, head)
    assert view.deadline == 77


def test_a_claim__is_final_after_the_last_of_its_clocks():
    answered = opened(clocks=first(NOW + 50, DEVNET), status=Status.ANSWERED)
    assert dispute(1, answered, deadline=NOW).final_after(DEVNET) == NOW + 50 + DEVNET.asker_s
    assert dispute(1, answered, deadline=NOW + 60).final_after(DEVNET) == NOW + 60 + DEVNET.asker_s
    assert dispute(1, deadline=NOW).final_after(DEVNET) == NOW
    assert dispute(1, answered, opened(2)).final_after(DEVNET) is None, "an ask is open"
    assert dispute(1, answered, deadline=0).final_after(DEVNET) is None, "the turn is open"
