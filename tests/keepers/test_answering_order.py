"""In which order demands are answered, where an opening of a large file takes long."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.services import demand_responder
from keepers.services.demand_responder import DemandResponder
from tests.keepers.answering_chain import answering_chain
from tests.keepers.test_duties import view
from zoo_compute.chain.demands import Demand
from zoo_compute.chain.views import Commit
from zoo_compute.spec.params import CUSTODIANS_AT
from zoo_compute.store.errors import ContentMissing

ME, ANSWER_S = 1, 1_800
CLAIM = Commit(4, 3, 0, ME, 4 << 16 | 2, 9, bytes(32), bytes(32), 99, bundle=bytes(32))


def demand(name: int, *, lane: int = 130, **changes: Any) -> Demand:
    """By the number of its tensor."""
    return dataclasses.replace(Demand(CLAIM, ME, lane, 4, name, 0, 5, False, 7, opened_at=1_000), **changes)


@pytest.fixture
def slow(monkeypatch):
    """Openings that take `takes` seconds of the protocol's time; `jobs`: demands that are made, by job; `built`: which, and when."""
    lane = SimpleNamespace(jobs={}, custody=set(), built=[], sent=set(), takes=0, now=1_001)

    def current(number: int) -> list[Demand]:
        return [d for d in lane.jobs[number] if d.opened_at <= lane.now and (number, d.lane) not in lane.sent]

    def read(chain: Any, number: int, block: int) -> Any:
        policy = 3 << CUSTODIANS_AT if number in lane.custody else 0
        terms = dataclasses.replace(view(0).terms, policy=policy)
        return view(lane.now, job=number, demands=current(number), terms=terms)

    def build(store: Any, manifest: str, asked: Demand, *_: Any) -> Any:
        lane.built.append((asked.tensor, lane.now))
        lane.now += lane.takes
        return dataclasses.make_dataclass("Opening", [])()

    def send(call: Any) -> Any:
        lane.sent.add((call.args[0], call.args[2]))
        return SimpleNamespace(transaction_hash="0x1")

    monkeypatch.setattr(demand_responder, "read_job", read)
    monkeypatch.setattr(demand_responder, "opening_of", build)
    sender: Any = SimpleNamespace(address="0xH", send=send)
    store: Any = SimpleNamespace(has=lambda cid: True)
    lane.made = DemandResponder(ME, answering_chain(lane, ANSWER_S), sender, store)
    monkeypatch.setattr(lane.made, "_asked_in", lambda head: {number for number in lane.jobs if current(number)})
    return lane


def names(slow) -> list[int]:
    """In what order demands were taken until none is left."""
    while slow.made.poll_once():
        pass
    return [name for name, _ in slow.built]


def test_demands_of_my_claims__come_before_those_of_what_i_signed_for__and_help_comes_last(slow):
    slow.custody = {1, 2}
    slow.jobs = {
        1: [demand(10, lane=0, opened_at=900), demand(11, lane=1, operator=2, opened_at=0)],
        2: [demand(20, lane=0, opened_at=950)],
        3: [demand(30, lane=0, opened_at=1_000)],
    }
    slow.now = 1_800
    assert names(slow) == [30, 10, 20, 11]


def test_what_is_opened_during_a_long_look__does_not_wait_for_its_end(slow):
    """A flood of demands in one job held up a demand of my own claim in another until its time was over."""
    slow.custody, slow.takes = {1}, 100
    slow.jobs = {
        1: [demand(number, lane=number, opened_at=1_000) for number in range(30)],
        2: [demand(99, opened_at=1_030)],
    }
    order = names(slow)
    assert order[:2] == [0, 99]
    assert dict(slow.built)[99] == 1_101
    assert order == [0, 99, *range(1, 17)], "those whose time was over are not built"
    assert all(at <= 2_800 for _, at in slow.built)


@pytest.mark.parametrize("takes", [0, 100])
def test_jobs__take_turns(slow, takes):
    """Within a look, and from look to look."""
    slow.takes = takes
    slow.jobs = {
        number: [demand(10 * number + lane, lane=lane, opened_at=1_000 + lane // 9) for lane in range(4)]
        for number in (1, 2, 3)
    }
    assert [name // 10 for name in names(slow)] == 4 * [1, 2, 3]


def test_whoever_helps__begins_anywhere(slow, monkeypatch):
    slow.now = 2_700
    slow.jobs = {1: [demand(lane, lane=lane, operator=2, opened_at=1_000) for lane in range(9)]}
    monkeypatch.setattr(demand_responder.random, "random", iter(range(9, 0, -1)).__next__)
    assert names(slow) == [*range(8, -1, -1)]


def test_a_file_that_cannot_be_read__keeps_nothing_waiting_twice(slow, monkeypatch):
    """Reading it takes until its store gives up; then the others are first."""
    slow.takes, slow.custody = 100, {2}
    build = demand_responder.opening_of

    def broken(store: Any, manifest: str, asked: Demand, *others: Any) -> Any:
        opening = build(store, manifest, asked, *others)
        if asked.tensor == 7:
            raise ContentMissing("gone")
        return opening

    monkeypatch.setattr(demand_responder, "opening_of", broken)
    slow.jobs = {
        1: [demand(7, lane=0), demand(8, lane=1)],
        2: [demand(20, lane=0), demand(21, lane=1)],
    }
    for _ in range(5):
        slow.made.poll_once()
    assert [name for name, _ in slow.built] == [7, 8, 20, 7, 21]
