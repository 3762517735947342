"""What the metrics say after a look: deadlines, what is unanswered, money, losses, disk, queues."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.config import from_dict
from keepers.monitoring import metrics, slashes
from keepers.monitoring.lanes import Lanes
from keepers.monitoring.slashes import SlashCounter
from keepers.services import observing
from keepers.services.observing import Look, Observer, seconds_left
from tests.keepers.redis_double import Redis
from tests.keepers.test_duties import BID, LOT, ME, SEAT, awarded, chaired, opening
from zoo_compute.chain.demands import Demand
from zoo_compute.chain.views import Commit, JobState, JobView
from zoo_compute.errors import Unreachable

ZEN, TOKEN = "0xT", "0x00000000000000000000000000000000000000AA"
CLAIM = Commit(1, 0, 0, ME, 4, 10, bytes(32), b"r" * 32, 2_000)
DEMAND = Demand(
    claim=CLAIM, operator=ME, lane=0, slot=0, tensor=0, group=0, deposit=1, holds=True, block=1, opened_at=1_000
)


def value(name: str, **labels: str) -> float | None:
    return metrics.KEEPER.get_sample_value(name, labels)


def lost(amount: int, block: int = 10, name: str = "CollateralSlashed", tx: str = "0x1") -> Any:
    args = {"operator": ME, "amount": amount} | ({"token": ZEN} if name == "CollateralSlashed" else {})
    return SimpleNamespace(name=name, block=block, tx=tx, args=args)


def left(views: list[JobView], operator: int = ME) -> dict[str, int]:
    return seconds_left(views, operator, ready_window_s=20, answer_s=30)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []

    def scan(chain: Any, first: int, last: int, names: tuple[str, ...], operator: int) -> list[Any]:
        assert operator == ME
        return [each for each in made if first <= each.block <= last and each.name in names]

    monkeypatch.setattr(slashes, "scan", scan)
    return made


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(observing, "token_at", lambda chain, address: SimpleNamespace(symbol="ZEN", decimals=18))
    network = SimpleNamespace(name="net", chain_id=7, first_block=1, contracts={"zen": ZEN})
    block = {"number": 20, "baseFeePerGas": 3 * 10**9}
    return SimpleNamespace(
        network=network,
        params=SimpleNamespace(ready_window_s=20, answer_s=30),
        w3=SimpleNamespace(eth=SimpleNamespace(get_block=lambda _: block)),
        coin=lambda address: 5 * 10**17,
        block=block,
    )


class MeasuredRedis(Redis):
    def info(self, section: str) -> dict[str, int]:
        return {"used_memory": 1_234}


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


@pytest.fixture
def observer(tmp_path: Path, chain: Any, events: list[Any], clock: list[float]) -> Observer:
    config = from_dict({"name": "alpha", "network": "n", "operator": ME}, tmp_path)
    client: Any = MeasuredRedis()
    client.queues["work"] = 3
    return Observer(config, chain, client, Lanes(), "0xH", clock=lambda: clock[0])


def look(*views: JobView, number: int = 5, operator: Any = None, asks_due: tuple[int, ...] = ()) -> Look:
    head: Any = SimpleNamespace(number=number, timestamp=1_000)
    return Look(head, 1_000, operator, views, asks_due)


STATUS: dict[str, Any] = {"jobs": {1: "RUNNING", 2: "RUNNING", 3: "OPEN"}, "not_bidding": {3: "why"}, "trouble": ["x"]}


def test_the_first_deadline_of_each_kind__is_of_what_is_mine_and_not_done() -> None:
    running = awarded(1_001, seats={0: SEAT})
    run = replace(running.run, missing=1, opened_at=1_000, aggregator_due=1_050)
    view = chaired(replace(running, state=JobState.RUNNING, run=run, now=1_001), ME)
    due = left([view], ME)
    assert due == {"seat": SEAT.deadline(run) - 1_001, "aggregation": 49}
    assert left([view], ME + 1) == {}
    assert "seat" not in left([replace(view, run=replace(run, missing=0))], ME), "it is committed"
    assert left([replace(view, run=replace(run, holds=1))], ME) == {}, "a demand stops the turn's clocks"
    assert left([replace(view, run=replace(run, opened_at=0))], ME) == {}, "the turn waits"
    assert left([replace(running, run=replace(run, missing=1))], ME) == {"ready": 19}, (
        "it was won, and is not confirmed"
    )


def test_a_bid_to_be_opened_and_a_demand_to_be_answered__have_deadlines() -> None:
    lot = replace(LOT, bid_end=990, reveal_end=1_020)
    view = replace(opening(1_000, lots={0: lot}, bids={(0, ME): replace(BID, revealed=False)}), demands=[DEMAND])
    assert left([view], ME) == {"bid": 20, "demand": 30}
    assert left([replace(view, bids={(0, ME): replace(BID, revealed=True)}, demands=[])], ME) == {}
    assert left([replace(view, demands=[replace(DEMAND, end="bytes")])], ME) == {"bid": 20}


def test_after_a_look__what_is_unanswered_counts_down(observer: Observer, clock: list[float]) -> None:
    view = replace(awarded(1_000), commits=[CLAIM], demands=[DEMAND])
    observer.after_look(look(view, asks_due=(1_600, 1_500)), STATUS, 0.5)
    assert (value("zoo_open_demands"), value("zoo_open_asks"), value("zoo_pending_claims")) == (1, 2, 1)
    assert value("zoo_deadline_seconds", due="ask") == 500
    clock[0] += 20
    assert value("zoo_deadline_seconds", due="ask") == 480
    assert value("zoo_deadline_seconds", due="demand") == 10
    assert (value("zoo_jobs", state="RUNNING"), value("zoo_jobs_not_bidding"), value("zoo_troubles")) == (2, 1, 1)
    observer.after_look(look(awarded(1_000)), {**STATUS, "jobs": {}}, 0.5)
    assert value("zoo_deadline_seconds", due="ask") is None
    assert value("zoo_jobs", state="RUNNING") is None, "a state that no job has any more is not left behind"


def test_blindness__is_the_time_without_a_newer_block(observer: Observer, clock: list[float]) -> None:
    observer.after_look(look(number=5), STATUS, 0.5)
    clock[0] += 45
    observer.after_look(look(number=5), STATUS, 0.5)  # an RPC that is stuck still answers
    assert value("zoo_blind_seconds") == 45
    observer.after_look(look(number=6), STATUS, 0.5)
    assert value("zoo_blind_seconds") == 0


def test_each_rpc__is_well_or_not_and_so_far_from_the_others(observer: Observer) -> None:
    rpcs = [{"rpc": "http://a", "well": True, "lag": 0}, {"rpc": "http://b", "well": False, "lag": 9}]
    observer.after_look(look(), {**STATUS, "rpcs": rpcs}, 0.5)
    assert (value("zoo_rpc_well", rpc="http://a"), value("zoo_rpc_well", rpc="http://b")) == (1, 0)
    assert value("zoo_rpc_lag_blocks", rpc="http://b") == 9
    observer.after_look(look(), {**STATUS, "rpcs": rpcs[:1]}, 0.5)
    assert value("zoo_rpc_well", rpc="http://b") is None


def test_an_rpc_that_is_to_be_tried_again__is_not_well_before_it_answers(observer: Observer) -> None:
    """The alert waits for 15 minutes without a break; an RPC that rests is tried at least every ten."""
    tried = {"rpc": "http://a", "well": True, "lag": 0, "trouble": "connection refused"}
    observer.after_look(look(), {**STATUS, "rpcs": [tried]}, 0.5)
    assert value("zoo_rpc_well", rpc="http://a") == 0
    observer.after_look(look(), {**STATUS, "rpcs": [tried | {"trouble": ""}]}, 0.5)
    assert value("zoo_rpc_well", rpc="http://a") == 1


def test_money__is_in_whole_tokens(observer: Observer) -> None:
    operator = SimpleNamespace(stake=10**21, collateral={ZEN: (5 * 10**18, 2 * 10**18)}, owed={ZEN: 10**17})
    observer.after_look(look(operator=operator), STATUS, 0.5)
    assert value("zoo_stake") == 1_000
    assert (value("zoo_collateral", token="ZEN"), value("zoo_collateral_locked", token="ZEN")) == (5, 2)
    assert value("zoo_owed", token="ZEN") == 0.1


def test_what_a_look_does_not_read__is_read_besides(observer: Observer, tmp_path: Path) -> None:
    observer.poll_once()
    assert (value("zoo_hot_coin"), value("zoo_base_fee_gwei"), value("zoo_hot_coin_least")) == (0.5, 3, 0.006)
    assert (value("zoo_queue_length", queue="work"), value("zoo_broker_memory_bytes")) == (3, 1_234)
    free = value("zoo_disk_free_bytes", place="folder")
    assert free is not None
    assert 0 < free < (value("zoo_disk_size_bytes", place="folder") or 0)


def test_losses__are_counted_once_in_whole_tokens(observer: Observer, chain: Any, events: list[Any]) -> None:
    observer.poll_once()
    before = value("zoo_slashes_total", operator=str(ME)) or 0, value("zoo_slashed_total", token="ZEN") or 0
    events += [lost(2 * 10**18, 21), lost(10**18, 22, "StakeSlashed")]
    chain.block["number"] = 22
    for _ in range(2):
        observer.poll_once()
    assert (
        (value("zoo_slashes_total", operator=str(ME)) or 0) - before[0],
        (value("zoo_slashed_total", token="ZEN") or 0) - before[1],
    ) == (2, 3)


def test_losses__count_while_nothing_ran__not_twice_and_none_from_before_the_first_start(
    tmp_path: Path, chain: Any, events: list[Any]
) -> None:
    events.append(lost(10**18, 5))
    assert SlashCounter(chain, ME, tmp_path).look(10).count == 0
    events.append(lost(3, 15, tx="0x2"))
    again = SlashCounter(chain, ME, tmp_path)
    assert again.look(20).count == 1
    events[-1].block = 21  # a reorganisation: the same transaction, in a later block
    assert again.look(25).count == 1
    events.append(lost(0, 26, tx="0x3"))
    assert (again.look(26).count, again.total.amounts) == (1, {ZEN: 3})
    (tmp_path / slashes.FILE).write_text("{")
    assert SlashCounter(chain, ME, tmp_path).total.count == 0


def test_a_scan_that_fails__counts_nothing_and_is_done_again(
    tmp_path: Path, chain: Any, events: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = SlashCounter(chain, ME, tmp_path)
    counter.look(10)
    before = json.loads((tmp_path / slashes.FILE).read_text())

    def unreachable(*_: Any, **__: Any) -> None:
        raise Unreachable("no RPC")

    monkeypatch.setattr(slashes, "scan", unreachable)
    with pytest.raises(Unreachable):
        counter.look(20)
    assert json.loads((tmp_path / slashes.FILE).read_text()) == before
