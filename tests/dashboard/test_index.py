"""Events become rows, a reorganisation undoes them exactly, and a restart goes on."""

from __future__ import annotations

from collections import Counter
from itertools import chain as together
from pathlib import Path

from tests.dashboard.conftest import Filled
from tests.support import chain_events as made
from zoo_compute.chain.events import signatures
from zoo_compute.dashboard import read_job, read_network, read_operator
from zoo_compute.dashboard.event_rows import NAMES
from zoo_compute.dashboard.index import Index
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.spec.params import AGGREGATOR_SEAT, ZEN, fee_of


def test_rules__are_of_events_that_contracts_have():
    assert {each.name for each in signatures()} >= NAMES


def test_an_event_with_a_rule__is_of_one_contract():
    """Rules go by name: an equal name elsewhere would change a job's rows."""
    count = Counter(signature.name for signature in signatures())
    assert {name: count[name] for name in NAMES if count[name] != 1} == {}


def test_a_job__from_posting_to_the_refund_balances_and_every_slot_is_final(filled: Filled):
    filled.append(
        together(made.registered(filled.chain, 1), made.registered(filled.chain, 2), made.registered(filled.chain, 3))
    )
    filled.append(made.whole_job(filled.chain, 1, [1, 2], 3))
    job = read_job.job(filled.index.db, 1, filled.chain.at, None)
    assert job is not None
    assert (job.row.state, job.row.completed, job.final_rounds, job.closed) == ("ended", 3, 3, True)
    assert [each.slots for each in job.rounds] == [["final", "final"]] * 3
    assert [each.aggregation for each in job.rounds] == ["final"] * 3
    money = {name: int(amount) for name, amount in vars(job.money).items()}
    assert money["escrowed"] == 100 * ZEN == sum(money[each] for each in ("paid", "fee", "refunded", "due", "left"))
    assert money["fee"] == 9 * fee_of(made.PRICE)
    assert (money["due"], money["left"]) == (0, 0)


def test_a_running_round__shows_who_trains_who_committed_and_what_is_due(filled: Filled):
    filled.append(made.whole_job(filled.chain, 1, [1, 2], 3, rounds=3, until=1))
    filled.append([made.committed(filled.chain, 1, 1, 1, 0, 1)])
    job = read_job.job(filled.index.db, 1, filled.chain.at, None)
    assert job is not None
    assert [each.slots for each in job.rounds] == [["committed", "committed"], ["committed", "training"]]
    assert job.final_rounds == 0
    assert int(job.money.due) == 4 * made.PRICE
    assert [each.what for each in job.deadlines] == ["results of round 2", "challenges of round 1"]


def test_a_round_of_several_aggregators__is_complete_once_all_have_posted(filled: Filled):
    filled.append(made.whole_job(filled.chain, 1, [1, 2], 3, rounds=3, until=1))
    filled.append(
        [
            filled.chain.emit(
                "SeatTaken", job=1, operator=4, seat=AGGREGATOR_SEAT + 1, first=0, count=1, price=made.PRICE
            )
        ]
    )
    filled.append([made.committed(filled.chain, 1, 1, 1, seat, 1 + seat) for seat in (0, 1)])
    first, closed = made.aggregated(filled.chain, 1, 1, 1, 3)
    filled.append([first])
    half = read_job.job(filled.index.db, 1, filled.chain.at, None)
    assert half is not None
    assert (half.row.completed, half.rounds[-1].aggregation) == (1, "waiting")
    second, _ = made.aggregated(filled.chain, 1, 1, 1, 4, seat=AGGREGATOR_SEAT + 1)
    filled.append([second, closed])
    whole = read_job.job(filled.index.db, 1, filled.chain.at, None)
    assert whole is not None
    assert (whole.row.completed, whole.rounds[-1].aggregation) == (2, "committed")
    assert whole.root == "0x" + root_of_shares([bytes([2] * 32)] * 2).hex()


def test_a_conviction_and_a_rollback__show_in_the_grid_and_in_the_counts(filled: Filled):
    filled.append(made.registered(filled.chain, 1))
    filled.append(made.whole_job(filled.chain, 1, [1, 2], 3, until=1))
    emit = filled.chain.emit
    filled.append([emit("DisputeOpened", job=1, turn=0, seat=0)])
    before = read_job.job(filled.index.db, 1, filled.chain.at, None)
    assert before is not None
    assert before.rounds[0].slots == ["disputed", "committed"]
    filled.append([
        emit("ClaimConvicted", job=1, operator=1, turn=0, seat=0, slashed=5, restored=1, to_finder=1, to_audits=1),
        emit("ClaimVoided", job=1, operator=2, turn=0, seat=1),
        emit("RolledBack", job=1, turn=2, round=0),
        made.opened(filled.chain, 1, 2, 0),
    ])  # fmt: skip
    job = read_job.job(filled.index.db, 1, filled.chain.at, None)
    assert job is not None
    assert (job.row.completed, job.row.convictions, job.rollbacks) == (0, 1, 1)
    assert [(each.turn, each.slots, each.operators) for each in job.rounds] == [(2, ["training", "training"], [1, 2])]
    assert [(each.operator, each.amount) for each in job.penalties] == [(1, "5")]
    operator = read_operator.operator(filled.index.db, 1, filled.chain.at, None, None)
    assert operator is not None
    assert operator.row.convictions == 1
    assert operator.earnings[0].slashed == "5"


def test_what_a_reorganisation_undid__leaves_no_trace_and_is_read_again(filled: Filled):
    filled.append(together(made.registered(filled.chain, 1), made.registered(filled.chain, 2)))
    kept = filled.append(made.whole_job(filled.chain, 1, [1, 2], 3, until=1))
    before = filled.tables
    assert all(before[name] for name in ("jobs", "claims", "turns", "seats", "auctions", "operators", "collateral"))
    emit = filled.chain.emit
    events = [
        *made.whole_job(filled.chain, 2, [1], 2),
        *made.paid(filled.chain, 1, 0, 0, 1),
        emit("StakeSlashed", "registry", operator=1, amount=7), emit("CollateralSlashed", "registry", operator=1, token=made.TOKEN, amount=9),
        emit("EndpointAnnounced", "registry", operator=2, endpoint="http://new'; DROP TABLE jobs --"),
        emit("ClaimConvicted", job=1, operator=2, turn=0, seat=1, slashed=5, restored=1, to_finder=1, to_audits=1),
        emit("RolledBack", job=1, turn=1, round=0), emit("TimeStopped", "registry", seconds=5, stopped_s=5),
        emit("JobCancelled", "tasks", job=1),
    ]  # fmt: skip
    filled.append(events)
    after = filled.tables
    assert after != before
    filled.index.undo_after(kept.number)
    assert filled.tables == before
    assert filled.index.newest == kept
    filled.append(events)
    assert filled.tables == after


def test_a_restart__goes_on_where_it_was_and_another_chain_begins_anew(filled: Filled, tmp_path: Path):
    filled.append(made.registered(filled.chain, 1))
    newest = filled.append(made.posted(filled.chain, 1))
    again = Index(tmp_path / "index.sqlite", "test")
    assert again.newest == newest
    assert read_network.jobs(again.db).total == 1
    other = Index(tmp_path / "index.sqlite", "other chain")
    assert other.newest is None
    assert read_network.jobs(other.db).total == 0


def test_blocks_that_nothing_can_undo__are_not_journalled(filled: Filled):
    filled.append(made.posted(filled.chain, 1), may_be_undone=False)
    assert filled.index.db.execute("SELECT COUNT(*) FROM undo").fetchone() == (0,)
    filled.append(made.posted(filled.chain, 2))
    assert filled.index.db.execute("SELECT COUNT(*) FROM undo").fetchone()[0] > 0


def test_prices_and_auctions__follow_bids_and_awards(filled: Filled):
    filled.append(made.posted(filled.chain, 1))
    [slots, aggregator] = read_network.recent_auctions(filled.index.db, filled.chain.at)
    assert (slots.state, aggregator.state, slots.price) == ("bidding", "bidding", None)
    filled.append(made.awarded(filled.chain, 1, [1, 2], 3))
    sold = {each.kind: each for each in read_network.auctions_of(filled.index.db, 1, filled.chain.at)}
    price = str(made.PRICE + ZEN // 100)
    assert (sold["slots"].state, sold["slots"].price, sold["slots"].sealed) == ("sold", price, 2)
    assert [(each.kind, each.price) for each in read_network.prices(filled.index.db)] == [("slots", price), ("aggregator", price)]  # fmt: skip


def test_earnings__are_by_day_less_the_fee_and_with_rewards(filled: Filled):
    filled.append(made.registered(filled.chain, 1))
    filled.append(made.posted(filled.chain, 1))
    filled.append(made.paid(filled.chain, 1, 0, 0, 1))
    filled.chain.mine(86_400)
    filled.append([*made.paid(filled.chain, 1, 1, 0, 1), *made.paid(filled.chain, 1, 1, AGGREGATOR_SEAT, 1)])
    filled.append([filled.chain.emit("RewardClaimed", "rewards", operator=1, epoch=1, amount=9)])
    operator = read_operator.operator(filled.index.db, 1, filled.chain.at, None, None)
    assert operator is not None
    net = made.PRICE - fee_of(made.PRICE)
    assert [(each.work, each.rewards) for each in operator.earnings] == [(str(2 * net), "9"), (str(net), "0")]


def test_numbers_that_strangers_choose__fit_whatever_their_size(filled: Filled):
    filled.append(made.posted(filled.chain, 1, escrow=2**250))
    filled.append([filled.chain.emit("TurnClosed", job=1, turn=0, deadline=2**256 - 1)])
    filled.append([filled.chain.emit("RegionDeclared", "registry", operator=1, region=2**256 - 1)])
    job = read_job.job(filled.index.db, 1, filled.chain.at, None)
    assert job is not None
    assert job.money.left == str(2**250)


def test_serving_seats__are_shown_with_their_offers_until_they_are_left_and_when_they_were_convicted(filled: Filled):
    chain = filled.chain
    filled.append(together(made.registered(chain, 1), made.registered(chain, 2)))
    filled.append(together(*(made.seat_taken(chain, seat, seat % 2 + 1, 10 - seat) for seat in (1, 2, 3))))
    seats = read_network.serving_seats(filled.index.db)
    assert [(each.seat, each.price, each.locked) for each in seats] == [
        (n, str(10 - n), str(50 * ZEN)) for n in (3, 2, 1)
    ]
    convicted = {"seat": 3, "operator": 2, "slashed": 50 * ZEN}
    filled.append([
        chain.emit("ServingSeatLeft", "serving", seat=2, until=chain.at + 60),
        chain.emit("ReceiptConvicted", "serving", **convicted),
        chain.emit("ServingSeatLeft", "serving", seat=3, until=chain.at + 60),
    ])  # fmt: skip
    left = read_network.serving_seats(filled.index.db)
    assert [(each.seat, each.locked, each.convictions) for each in left] == [(3, "0", 1), (1, str(50 * ZEN), 0)]
    row = read_network.operator_row(filled.index.db, 2)
    assert row is not None
    assert row.convictions == 1
