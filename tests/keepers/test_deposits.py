"""The operator's coin in Availability: what a demand may cost, and what comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from keepers.decisions.orders import DemandChunk
from keepers.keeper import Keeper
from keepers.queue.work_queue import WorkStatus
from keepers.services import deposits
from tests.keepers.test_demands import CLAIM, MADE_BY_OTHER, WINDOWED, demand, job
from tests.keepers.test_duties import CHAIR, ME, OTHER, OTHERS, SEAT
from tests.keepers.test_keeper import setup  # noqa: F401
from tests.keepers.test_signer_demands import COMMITTEE, CUSTODY
from zoo_compute.chain.custody import words_of
from zoo_compute.chain.views import AGGREGATOR_SEAT
from zoo_compute.errors import NotFunded
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import COIN, STRANGERS_LANE

LEAST = least_deposit(9 * 10**9)  # an eighth above the base fee of the double
THEIRS = replace(CLAIM, operator=OTHER)


def withheld(keeper: Keeper, places: list[Any]) -> None:
    """What others committed is missing since long ago."""
    missing = {"asked_at": 1_100, "checkpoint": False, "places": places}
    keeper.work.status = lambda name: WorkStatus("absent", missing=missing if name.startswith("fetch") else None)  # type: ignore[method-assign]


@pytest.fixture
def asked(setup):  # noqa: F811
    """I aggregate a job whose seat 0, another's, serves nothing."""
    keeper, views, recorder, operator = setup
    seats = {0: replace(SEAT, operator=OTHER), 1: OTHERS, AGGREGATOR_SEAT: replace(CHAIR, operator=ME)}
    run = replace(WINDOWED, aggregator_due=1_400)
    views[1] = job(1_101, run=run, seats=seats, commits=(THEIRS,), stakes={})
    withheld(keeper, [[0, None], [1, [3, 4]]])
    return keeper, views, recorder, operator


def demands(recorder: Any) -> list[tuple[Any, ...]]:
    return [args for function, args in recorder.sent if function == "demand"]


def test_what_is_withheld__is_demanded_where_it_is_missing_with_the_least_deposit(asked):
    keeper, _, recorder, _ = asked
    assert keeper.tick()["trouble"] == []
    assert demands(recorder) == [(1, THEIRS.fields, AGGREGATOR_SEAT, 1, 3, 4)]
    assert max(recorder.values) == LEAST


def test_where_nothing_could_be_had__chance_chooses_the_place(asked):
    keeper, _, recorder, _ = asked
    withheld(keeper, [[0, None], [1, None]])
    for _ in range(20):
        keeper.tick()
    sent = demands(recorder)
    assert {args[3] for args in sent} == {0, 1}
    assert len({args[4:] for args in sent}) == 20
    assert all(0 <= args[4] < 2**32 and 0 <= args[5] < 2**40 for args in sent)


def test_the_limit_of_a_job__is_kept_and_told_after_the_other_duties(asked):
    keeper, views, recorder, _ = asked
    overdue = replace(demand(THEIRS), demander="0xH", opened_at=1_000, lane=130)
    answered = demand(THEIRS, end="bytes", opened_at=1_000, deposit=5 * 10**16 - LEAST, demander="0xH")
    views[1] = replace(views[1], demands=(answered,))
    keeper.tick()
    assert len(demands(recorder)) == 1, "up to the limit"
    views[1] = replace(views[1], demands=(replace(answered, deposit=answered.deposit + 1), overdue))
    trouble = keeper.tick()["trouble"]
    assert len(demands(recorder)) == 1
    assert "close" in [function for function, _ in recorder.sent]
    assert len(trouble) == 1
    assert "operator 2 committed in turn 1 is not served" in trouble[0]


def test_a_demand_that_is_refused__does_not_keep_the_next_duties_from_being_done(asked):
    keeper, views, recorder, _ = asked
    recorder.refuse = {"demand"}
    views[1] = replace(
        views[1], run=replace(views[1].run, missing=0b11), seats=views[1].seats | {0: SEAT}, commits=(THEIRS,)
    )
    late = replace(OTHERS, operator=OTHER, estimate_s=1)
    views[1] = replace(views[1], now=1_150, seats=views[1].seats | {1: late})
    assert keeper.tick()["trouble"] == []
    assert "time_out" in [function for function, _ in recorder.sent]


def test_a_hot_key_without_coin__is_told(asked, monkeypatch):
    keeper, _, recorder, _ = asked
    send = recorder.send

    def poor(call: Any, *, value: int = 0) -> Any:
        if value:
            raise NotFunded("0xH has 0 coin")
        return send(call)

    monkeypatch.setattr(recorder, "send", poor)
    assert keeper.tick()["trouble"] == ["job 1: 0xH has 0 coin"]


def test_deposits_that_came_back__are_withdrawn_at_once__those_earned_when_no_job_is_under_way(setup):  # noqa: F811
    keeper, _, recorder, operator = setup
    operator.deposits = {"0xO": 7, "0xH": 5}
    keeper._bound = {1: True}
    keeper.tick()
    assert [args for function, args in recorder.sent if function == "withdraw"] == [("0xH",)]
    operator.deposits = {"0xO": 7, "0xH": 0}
    keeper._bound = {1: False}
    keeper.tick()
    assert [args for function, args in recorder.sent if function == "withdraw"] == [("0xH",), ("0xO",)]


def test_parts_of_posting_deposits__are_withdrawn_like_deposits(setup):  # noqa: F811
    keeper, _, recorder, operator = setup
    operator.coin_owed = {"0xO": 7, "0xH": 5}
    keeper._bound = {1: True}
    keeper.tick()
    assert [args for function, args in recorder.sent if function == "withdraw"] == [(COIN, "0xH")]
    operator.coin_owed = {"0xO": 7, "0xH": 0}
    keeper._bound = {1: False}
    keeper.tick()
    assert [args for function, args in recorder.sent if function == "withdraw"] == [(COIN, "0xH"), (COIN, "0xO")]


def test_another_file_of_the_same_seat__is_fetched_by_its_own_name(asked):
    """A seat may commit the same results again, by another operator: what one serves says nothing about the other."""
    keeper, views, _, _ = asked
    names: list[str] = []
    keeper.work.submit = lambda task, name, request: names.append(name) or WorkStatus("queued")  # type: ignore[method-assign]
    keeper.tick()
    views[1] = replace(views[1], commits=(replace(THEIRS, bundle=b"\7" * 32),))
    keeper.tick()
    fetched = [name for name in names if name.startswith("fetch")]
    assert len(set(fetched)) == 2


def test_what_a_custodian_signed_for__is_demanded_of_it_by_its_place(asked):
    keeper, views, _, _ = asked
    chunk = DemandChunk(MADE_BY_OTHER, STRANGERS_LANE, {0: None}, 1)
    view = replace(views[1], custody=CUSTODY)
    call, deposit = deposits.demand(keeper.config, keeper.chain, view, chunk, "0xH")
    function, args = call.function, call.args
    assert (function, deposit) == ("demand_of_signer", LEAST)
    assert (args[:4], args[6:]) == ((1, MADE_BY_OTHER.fields, STRANGERS_LANE, 0), (1, words_of(COMMITTEE)))


def test_checks_of_custodians__leave_most_of_the_limit_to_what_i_need(asked):
    keeper, views, _, _ = asked
    own = DemandChunk(MADE_BY_OTHER, STRANGERS_LANE, {0: None}, 1)
    part = 5 * 10**16 // 4
    for spent, checked in ((part - LEAST, True), (part - LEAST + 1, False)):
        answered = demand(MADE_BY_OTHER, end="bytes", deposit=spent, demander="0xH")
        view = replace(views[1], custody=CUSTODY, demands=(answered,))
        check = deposits.demand(keeper.config, keeper.chain, view, replace(own, is_check=True), "0xH")
        assert (check is not None) == checked
        assert deposits.demand(keeper.config, keeper.chain, view, own, "0xH") is not None
