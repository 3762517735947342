"""The keeper between snapshot and sends: capacity over all jobs, and one job's trouble kept from the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from eth_account import Account

from keepers import keeper as keeper_module
from keepers import operator_money
from keepers.config import from_dict
from keepers.decisions.requests import prepare_name
from keepers.keeper import Keeper
from keepers.queue.work_queue import WorkStatus
from tests.keepers.test_duties import BID, LOT, ME, SEAT, awarded, opening
from zoo_compute.amounts import Token
from zoo_compute.chain.views import JobView
from zoo_compute.errors import FalseLook, Refusal, RpcsDisagree, Unreachable
from zoo_compute.spec.params import DEVNET, lock_of
from zoo_compute.spec.requirements import Capability

COIN = "0x00000000000000000000000000000000000000AA"


class Recorder:
    """Stands for the chain's bindings: remembers what was sent."""

    address = "0xH"

    def __init__(self) -> None:
        self.sent: list[tuple[str, tuple[Any, ...]]] = []
        self.values: list[int] = []
        self.refuse: set[str] = set()

    def __getattr__(self, function: str) -> Any:
        return lambda *args: SimpleNamespace(contract="c", function=function, args=args)

    def send(self, call: Any, *, value: int = 0) -> Any:
        if call.function in self.refuse:
            raise Refusal("auction: not bidding")
        self.values.append(value)
        self.sent.append((call.function, call.args))
        return SimpleNamespace(transaction_hash="0x1")


def work_that_is_timed() -> Any:
    """A queue that has timed every job at one second a slot."""
    return SimpleNamespace(
        status=lambda name: WorkStatus("done", {"slot_s": 1.0}) if name.startswith("prepare") else WorkStatus("absent"),
        submit=lambda task, name, request: WorkStatus("queued"),
        first_value=lambda key, value: value,
        relative_paces=lambda timed, workers: (1.0,) * workers,
        wake=lambda: None,
        announce_turn=lambda job, round, start_root: None,
        forget_job=lambda job, claims: None,
    )


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    views: dict[int, Any] = {}
    finished: set[int] = set()
    clock = {"now": 1_000}
    recorder = Recorder()
    operator = SimpleNamespace(
        operator=ME, now=1_000, block_time=1_000, eligible=True, owed={}, deposits={}, coin_owed={}, owner="0xO", hot="0xH", stake=10**21,
        capability=Capability(),
        free=lambda token: 1_000_000,
    )  # fmt: skip

    def read(chain: Any, job: int, block: int) -> JobView:
        if isinstance(views[job], Exception):
            raise views[job]
        return views[job]

    monkeypatch.setattr(keeper_module, "read_job", read)
    monkeypatch.setattr(keeper_module, "read_operator", lambda *_: operator)
    monkeypatch.setattr(operator_money, "Operators", lambda *_: SimpleNamespace(claim_rewards=lambda *a, **k: 0))
    chain = SimpleNamespace(
        clock=clock,
        head=lambda: SimpleNamespace(number=5, timestamp=clock["now"]),
        time=lambda head: head.timestamp,
        tasks=SimpleNamespace(withdraw=recorder.withdraw),
        event_store=SimpleNamespace(
            jobs_to_read=lambda head: sorted(views.keys() - finished),
            finished_jobs=lambda: [],
            reorganisations=0,
            finish=lambda job, block: finished.add(job),
        ),
        forget=lambda key: None,
        params=replace(DEVNET, epoch_s=60, ready_window_s=20, answer_s=3, min_stake=10**20),
        cached=lambda key, make: {COIN: Token("USDC", 6, COIN)} if key == "tokens" else make(),
        w3=SimpleNamespace(eth=SimpleNamespace(get_block=lambda _: {"baseFeePerGas": 8 * 10**9})),
        network=SimpleNamespace(
            first_block=1,
            preset="production",
            storage=(),
            params=SimpleNamespace(ready_window_s=20),
            contracts={"zen": "0xT"},
        ),
        auction=recorder,
        settlement=recorder,
        availability=recorder,
        registry=recorder,
        admissions=SimpleNamespace(
            recalls=lambda operator, block: SimpleNamespace(due=0), claims=lambda *args, block: bytes(32)
        ),
    )
    config = from_dict(
        {
            "name": "alpha",
            "network": "n",
            "operator": ME,
            "price": "80wei",
            "capacity": 4,
            **getattr(request, "param", {}),
        },
        tmp_path,
    )
    account = Account.from_key(b"\1" * 32)
    made = Keeper(config, chain, account, recorder, SimpleNamespace(), work_that_is_timed())  # type: ignore[arg-type]
    return made, views, recorder, operator


def bids(recorder: Recorder) -> list[tuple[int, int]]:
    """(job, capacity) of each bid sent."""
    return [(args[0], args[4]) for function, args in recorder.sent if function == "bid"]


def numbered(view: JobView, job: int) -> JobView:
    return replace(view, job=job)


@pytest.mark.parametrize("setup", [{"roles": ["provider", "aggregator"], "aggregator_price": "80wei"}], indirect=True)
def test_a_round_that_this_machine_cannot_combine__is_not_bid_for(setup, caplog: pytest.LogCaptureFixture):
    """p_agg: an aggregator that runs out of memory loses its lock."""
    keeper, views, recorder, _ = setup
    views[1] = numbered(opening(1_000), 1)
    measured = {"slot_s": 1.0, "cannot_aggregate": "combining 16384 updates needs about 2.2 GB"}
    keeper.work.status = lambda name: WorkStatus("done", measured if name.startswith("prepare") else {})
    for _ in range(2):
        keeper.tick()
        keeper.chain.clock["now"] += 5
    assert {args[1] for function, args in recorder.sent if function == "bid"} == {0}
    assert caplog.text.count("cannot bid: as aggregator: combining 16384 updates") == 1
    del measured["cannot_aggregate"]
    keeper.tick()
    assert {args[1] for function, args in recorder.sent if function == "bid"} == {0, 1}


def test_jobs_posted_in_one_block__share_the_capacity(setup):
    keeper, views, recorder, _ = setup
    views |= {job: numbered(opening(1_000), job) for job in (1, 2, 3)}
    keeper.tick()
    assert bids(recorder) == [(1, 4)]


def test_a_bid_whose_phase_ends__is_revealed_before_other_jobs_are_served(setup):
    """Each transaction waits for its block: in a soak, bids were forfeited behind jobs of lower numbers."""
    keeper, views, recorder, _ = setup
    sealed = {(0, ME): replace(BID, capacity=2, revealed=False)}
    views[1] = numbered(opening(1_015, lots={0: replace(LOT, bid_end=1_030, reveal_end=1_040)}), 1)
    views[2] = numbered(opening(1_015, lots={0: LOT}, bids=sealed), 2)
    keeper.tick()
    assert [function for function, _ in recorder.sent] == ["reveal", "bid"]


def test_after_a_restart__slots_held_in_a_later_job_count_from_the_first_tick(setup):
    keeper, views, recorder, _ = setup
    views[1] = numbered(opening(1_000), 1)
    views[2] = numbered(awarded(1_001, seats={0: replace(SEAT, count=3)}, bids={(0, ME): BID}), 2)
    keeper.tick()
    assert bids(recorder) == [(1, 1)]


def test_collateral__is_not_bid_twice_in_one_tick(setup):
    keeper, views, recorder, operator = setup
    operator.free = lambda token: 25  # two slots and a half
    lots = {0: replace(LOT, units=2), 1: replace(LOT, units=1)}
    views |= {job: numbered(opening(1_000, lots=lots), job) for job in (1, 2)}
    keeper.tick()
    assert bids(recorder) == [(1, 2)]


def test_a_job_in_a_token_without_a_price__is_never_bid_on(setup):
    keeper, views, recorder, _ = setup
    views[1] = replace(opening(1_000), token=COIN)
    status = keeper.tick()
    assert status["trouble"] == []
    assert "operator.json has no price in it" in status["not_bidding"][1]
    assert bids(recorder) == []


@pytest.mark.parametrize(
    ("setup", "bid"),
    [
        ({"prices": {COIN: {"price": "0.00008"}}}, [(1, 4)]),
        ({"prices": {COIN: {"price": "0.000102"}}}, []),  # above the lot's reserve
        ({"prices": {COIN: {"aggregator_price": "0.00008"}}}, []),
    ],
    indirect=["setup"],
)
def test_a_job_in_another_token__is_bid_on_at_that_token_s_price(setup, bid):
    keeper, views, recorder, _ = setup
    views[1] = replace(opening(1_000), token=COIN)
    keeper.tick()
    assert bids(recorder) == bid


@pytest.mark.parametrize("setup", [{"prices": {COIN: {"price": "0.0000001"}}}], indirect=["setup"])
def test_a_price_finer_than_its_token__is_told_to_the_operator(setup):
    keeper, views, _, _ = setup
    views[1] = replace(opening(1_000), token=COIN)
    assert "price in USDC has more than 6 decimals" in keeper.tick()["trouble"][0]


def test_a_job_whose_records_cannot_be_read__does_not_keep_the_others_waiting(setup):
    keeper, views, recorder, _ = setup
    views |= {job: numbered(opening(1_000), job) for job in (1, 2)}
    timed, broken = keeper.work.status, prepare_name(views[1])

    def status(name: str) -> WorkStatus:
        if name == broken:
            raise TypeError("string indices must be integers")
        return timed(name)

    keeper.work.status = status
    assert any("job 1: TypeError" in each for each in keeper.tick()["trouble"])
    assert bids(recorder) == [(2, 4)]


def test_a_broker_that_is_gone__ends_the_look_at_the_first_job(setup):
    keeper, views, _, _ = setup
    views |= {job: numbered(opening(1_000), job) for job in (1, 2)}
    asked: list[str] = []

    def gone(name: str) -> WorkStatus:
        asked.append(name)
        raise redis.ConnectionError("connection refused")

    keeper.work.status = gone
    with pytest.raises(redis.ConnectionError):
        keeper.tick()
    assert len(asked) == 1


@pytest.mark.parametrize("trouble", [ValueError("hostile"), Unreachable("no RPC"), Refusal("auction: not due")])
def test_a_job_that_cannot_be_read__does_not_keep_the_others_waiting(setup, trouble: Exception):
    keeper, views, recorder, _ = setup
    views |= {1: trouble, 2: numbered(opening(1_000), 2)}
    status = keeper.tick()
    assert bids(recorder) == [(2, 4)]
    assert bool(status["trouble"]) == isinstance(trouble, ValueError)


def test_what_disputes_lack__is_in_the_status(setup):
    keeper, *_ = setup
    keeper.disputing._troubles.note((b"k", ""), "dispute 01 of job 1: no tokens")
    assert keeper.tick()["trouble"] == ["dispute 01 of job 1: no tokens"]


def test_a_refused_duty__does_not_keep_the_next_ones_from_being_done(setup):
    keeper, views, recorder, _ = setup
    recorder.refuse = {"reclaim"}
    views[1] = numbered(opening(1_000, lots={0: replace(LOT, attempt=2)}, bids={(0, ME): BID}), 1)
    keeper.tick()
    assert bids(recorder) == [(1, 4)]


@pytest.mark.parametrize(("error", "tried"), [(FalseLook, [1]), (RpcsDisagree, [1, 1, 2])])
def test_what_most_rpcs_do_not_show__ends_the_look(
    setup, monkeypatch: pytest.MonkeyPatch, error: type, tried: list[int]
):
    """The next duty was decided by the same view, and went out: the RPCs that were asked then agreed with each other."""
    keeper, views, _, _ = setup
    views[1] = numbered(opening(1_000, lots={0: replace(LOT, attempt=2)}, bids={(0, ME): BID}), 1)
    views[2] = numbered(opening(1_000), 2)
    seen: list[int] = []
    collected: list[bool] = []

    def perform(view: Any, duty: Any) -> None:
        seen.append(view.job)
        raise error("the RPCs disagree")

    monkeypatch.setattr(keeper._actions, "perform", perform)
    monkeypatch.setattr(keeper._money, "collect", lambda operator, *, idle: collected.append(idle))
    assert keeper.tick()["trouble"] == [f"job {job}: the RPCs disagree" for job in sorted(set(tried))]
    assert seen == tried
    assert bool(collected) == (error is RpcsDisagree), "what is bound is not known"


def test_an_open_job_that_can_never_be_mine__is_hardly_looked_at_again(setup):
    keeper, views, recorder, _ = setup
    views[1] = numbered(opening(1_000, lots={0: replace(LOT, max_reserve=79, reserve=79)}), 1)
    assert keeper.tick()["jobs"] == {1: "OPEN"}
    views[1] = ValueError("read again")
    assert (keeper.tick()["trouble"], keeper.tick()["jobs"]) == ([], {1: "OPEN"})
    keeper.chain.clock["now"] += 600
    assert keeper.tick()["trouble"] != []
    assert recorder.sent == []


def test_a_keeper_that_cannot_bid__says_why_once_a_job_and_goes_on_saying_it_in_its_status(
    setup, caplog: pytest.LogCaptureFixture
):
    keeper, views, _, operator = setup
    operator.free = lambda token: 0
    views[1] = numbered(opening(1_000, lots={0: replace(LOT, lock=12 * 10**18)}), 1)
    why = "collateral 0 ZEN free, 12 ZEN needed a slot; zoo node deposit 12"
    for _ in range(3):
        assert keeper.tick()["not_bidding"] == {1: why}
        keeper.chain.clock["now"] += 5
    assert caplog.text.count(f"job 1: cannot bid: {why}") == 1
    operator.free = lambda token: 10**30
    assert keeper.tick()["not_bidding"] == {}


def test_a_bid_never_opened_in_a_job_that_runs__keeps_its_place_in_the_ring(setup):
    keeper, views, recorder, _ = setup
    lost = replace(BID, won=0, first_slot=0)
    runs = awarded(1_001, seats={}, bids={(0, ME): replace(lost, revealed=False)})
    views |= {1: numbered(runs, 1), 257: numbered(opening(1_000), 257)}
    views |= {job: numbered(awarded(1_001, seats={}, bids={}, stakes={}), job) for job in range(2, 257)}
    assert "the bid in job 1 has its place" in keeper.tick()["not_bidding"][257]
    assert bids(recorder) == []
    views[1] = numbered(replace(runs, bids={(0, ME): lost}), 1)
    keeper.chain.clock["now"] += 5
    keeper.tick()
    assert bids(recorder) == [(257, 4)]


def test_payments__are_withdrawn_when_no_job_binds_money_of_mine(setup):
    keeper, views, recorder, operator = setup
    operator.owed = {"0xT": 7}
    views[1] = numbered(awarded(1_001), 1)
    keeper.tick()
    assert ("withdraw", ("0xT", "0xO")) not in recorder.sent
    del views[1]
    keeper._bound.clear()
    keeper.tick()
    assert ("withdraw", ("0xT", "0xO")) in recorder.sent


@pytest.mark.parametrize("setup", [{"availability_hours": [16, 18]}], indirect=True)
def test_heartbeats__are_sent_once_in_each_declared_period(setup):
    keeper, _, recorder, operator = setup

    def beats() -> int:
        keeper.tick()
        return sum(function == "heartbeat" for function, _ in recorder.sent)

    # An epoch of 60 s has 24 periods of 2.5 s: 1,000 is second 40 of one, in period 16.
    assert [beats(), beats()] == [1, 1]
    operator.block_time = 1_003  # period 17, not declared
    assert beats() == 1
    operator.block_time = 1_005
    assert beats() == 2
    operator.block_time = 1_060
    assert beats() == 3, "the same period of the next epoch"
    operator.block_time, operator.stake = 1_065, 0
    assert beats() == 3, "who left promises nothing"


def test_no_heartbeat__is_sent_where_none_is_declared(setup):
    keeper, _, recorder, _ = setup
    keeper.tick()
    assert "heartbeat" not in [function for function, _ in recorder.sent]


def test_a_takeover__binds_capacity_and_collateral_before_the_next_snapshot(setup):
    keeper, views, recorder, operator = setup
    operator.free = lambda token: 2 * lock_of(90, 500) + 5
    vacant = replace(SEAT, operator=0, first=2, count=4)
    views[1] = numbered(awarded(1_001, run=replace(awarded(1_001).run, missing=0), seats={0: SEAT, 1: vacant}), 1)
    views[2] = numbered(opening(1_000), 2)
    keeper.tick()
    taken = [args for function, args in recorder.sent if function == "take_over"]
    assert [(job, seat, count) for job, seat, _, count, _ in taken] == [(1, 1, 2)]
    assert bids(recorder) == [], "no collateral and no capacity is left"
