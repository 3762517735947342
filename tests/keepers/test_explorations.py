"""Explorations as they are read from the chain: what is new alone, what a reorganisation undid, and when a claim is final."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.keepers.test_disputing import NOW, dispute, opened
from zoo_compute.chain import event_log, explorations
from zoo_compute.chain.connection import Head
from zoo_compute.chain.events import Event
from zoo_compute.chain.explorations import DisputeView, Explorations
from zoo_compute.disputes.exploration import Exploration
from zoo_compute.spec.clocks import DEVNET, End, first
from zoo_compute.spec.exploration import Status

LATER = 2**40  # a deadline that is not known yet


class CountedReads:
    """A chain whose events ask about claims, each ask of a claim of its own. applied: how many events made a picture."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *jobs: int) -> None:
        self.events = [self.asked(number, job) for number, job in enumerate(jobs, 1)]
        self.applied = 0
        self.words: dict[bytes, int] = {}
        self.deadline = 77
        self.heads = [self.block(number) for number in range(101)]
        self.read: list[bytes] = []
        self.chain: Any = SimpleNamespace(
            network=SimpleNamespace(first_block=0), event_store=None, head=lambda number: self.heads[number]
        )
        self.reader = Explorations(self.chain)
        self.chain.cached = lambda key, make: self.reader
        monkeypatch.setattr(self.reader, "_read_times", self._read_times)
        monkeypatch.setattr(explorations, "read_all", self._read_all)
        monkeypatch.setattr(event_log, "scan", self._scan)
        monkeypatch.setattr(Exploration, "apply", lambda picture, event: self._apply(picture, event))

    @staticmethod
    def asked(number: int, job: int) -> Event:
        args = {"job": job, "claim": bytes([number, job]), "id": bytes([number]), "claim_hash": b"h"}
        return Event("ClaimAsked", "referee", number, 0, f"0x{number}", bytes([number, job]), args)

    @staticmethod
    def of(event: Event, number: int, name: str) -> Event:
        """A later event of its claim."""
        args = {"claim": event.args["claim"]} if name in ("ClaimResolved", "SealOpened") else {"id": event.args["id"]}
        return Event(name, "referee", number, 1, f"0x{number}", bytes([number]), args)

    @staticmethod
    def block(number: int, chain: bytes = b"", before: bytes = b"") -> Head:
        return Head(number, number, bytes([number]) + chain, bytes([number - 1 if number else 0]) + before)

    def _scan(self, chain: Any, start: int, end: int, **wanted: Any) -> list[Event]:
        return [event for event in self.events if start <= event.block <= end]

    def _read_times(self, events: Sequence[Event]) -> None:
        self.reader._times |= {event.block_hash: event.block for event in events}

    def _apply(self, picture: Exploration, event: Any) -> None:
        self.applied += 1
        if event.name == "ClaimResolved":
            picture.end = End.FINAL

    def _read_all(self, chain: Any, block: int, reads: Any) -> list[Any]:
        self.read += [each.args[0] for each in reads if each.function == "claims"]
        return [
            self.words.get(each.args[0], 5 << 196 | 30 << 156 | 9 << 108)
            if each.function == "claims"
            else self.deadline
            for each in reads
        ]

    def views(self, at: int = 50, **wanted: Any) -> list[DisputeView]:
        return explorations.read_disputes(self.chain, self.heads[at], **wanted)

    def keys(self, at: int = 50, **wanted: Any) -> list[bytes]:
        return [each.key for each in self.views(at, **wanted)]


def test_read_disputes__reads_what_is_new_alone_until_a_reorganisation_undoes_something(
    monkeypatch: pytest.MonkeyPatch,
):
    reads = CountedReads(monkeypatch, 1, 1)
    assert (reads.keys(3), reads.applied) == ([b"\1\1", b"\2\1"], 2)
    reads.events.append(reads.asked(4, 2))
    assert (reads.keys(4, job=2), reads.applied) == ([b"\4\2"], 3)
    assert reads.keys(4, wanted=lambda view: view.key != b"\1\1") == [b"\2\1", b"\4\2"]
    assert reads.read == [b"\1\1", b"\2\1", b"\4\2"], "operator and deadline are fixed"
    reads.heads[2:] = [reads.block(number, b"other", b"other") for number in range(2, 101)]
    reads.events = [reads.events[0], reads.asked(2, 7)]  # another claim came to be the second
    assert (reads.keys(job=7), reads.applied) == ([b"\2\7"], 5)


def test_read_disputes__asks_for_the_deadline_of_an_open_turn_at_every_look(monkeypatch: pytest.MonkeyPatch):
    reads = CountedReads(monkeypatch, 1)
    reads.words[b"\1\1"] = 5 << 196 | 3 << 176 | 30 << 156
    reads.deadline = LATER
    [view] = reads.views(5)
    assert (view.operator, view.deadline, view.reexecute_s, view.final_after(DEVNET)) == (5, 0, 30, None)
    reads.deadline = 77
    [view] = reads.views(5)
    assert view.deadline == 77


def test_a_deadline__does_not_survive_the_block_that_closed_its_turn(monkeypatch: pytest.MonkeyPatch):
    """Closing a turn is no event of a dispute, so its events say nothing of it."""
    reads = CountedReads(monkeypatch, 1)
    reads.words[b"\1\1"] = 5 << 196 | 3 << 176
    reads.deadline = LATER
    for number in range(6):
        assert [each.deadline for each in reads.views(number) if number] == [0] * bool(number)
    reads.deadline = 77  # block 6 closed the turn
    assert [each.deadline for number in (6, 7) for each in reads.views(number)] == [77, 77]
    reads.heads[6] = reads.block(6, b"other")
    reads.heads[7:] = [reads.block(number, b"other", b"other") for number in range(7, 101)]
    reads.deadline = LATER
    assert [each.deadline for each in reads.views(7)] == [0], "on the chain as it is now the turn is open"
    reads.deadline = 99
    assert [each.deadline for number in (8, 9) for each in reads.views(number)] == [99, 99]


def test_what_is_forgotten__leaves_nothing_behind_and_does_not_come_back(monkeypatch: pytest.MonkeyPatch):
    reads = CountedReads(monkeypatch, 1, 1)
    one, two = reads.events
    reads.events += [reads.of(one, 3, "LeafShown"), reads.of(one, 4, "ClaimResolved")]
    assert reads.keys(5) == [b"\1\1", b"\2\1"]
    reads.reader.forget([b"\1\1", b"\2\1"])
    assert reads.keys(6) == [b"\2\1"], "one that is open stays"
    reads.events.append(reads.of(one, 7, "SealOpened"))
    assert reads.keys(7) == [b"\2\1"]
    kept = reads.reader
    assert [*kept._words, *kept._claim_of.values()] == [two.args["claim"]] * 2
    assert [*kept._times] == [two.block_hash, reads.events[-1].block_hash]
    assert "ClaimResolved" not in [event.name for event in reads.reader._history._events]


def test_an_end_that_may_be_undone__is_not_forgotten(monkeypatch: pytest.MonkeyPatch):
    reads = CountedReads(monkeypatch, 1)
    reads.views(3)
    reads.events.append(reads.of(reads.events[0], 4, "ClaimResolved"))
    reads.views(4)
    reads.reader.forget([b"\1\1"])
    assert reads.keys(4) == [b"\1\1"], "block 3 is remembered: what came after it may be undone"
    for number in range(5, 70):
        reads.views(number)
    reads.reader.forget([b"\1\1"])
    assert reads.keys(70) == []


def test_a_claim__is_final_after_the_last_of_its_clocks():
    answered = opened(clocks=first(NOW + 50, DEVNET), status=Status.ANSWERED)
    assert dispute(1, answered, deadline=NOW).final_after(DEVNET) == NOW + 50 + DEVNET.asker_s
    assert dispute(1, answered, deadline=NOW + 60).final_after(DEVNET) == NOW + 60 + DEVNET.asker_s
    assert dispute(1, deadline=NOW).final_after(DEVNET) == NOW
    assert dispute(1, answered, opened(2)).final_after(DEVNET) is None, "an ask is open"
    assert dispute(1, answered, deadline=0).final_after(DEVNET) is None, "the turn is open"
