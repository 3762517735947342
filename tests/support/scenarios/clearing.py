"""Directed sequences about clearing, pricing and reputation; see `opening`."""

from typing import Any

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from zoo_compute.spec import node_registry
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.state import JobState, Phase


@scenario
def clearing_takes_bids_in_order_and_may_take_several_calls(s: Stage) -> None:
    s.register_all()
    job = s.post()
    s.bid_all(job, SLOTS, AGGREGATORS)
    s.bid(job, 0, "erin", Offer(65))
    s.to(s.world.lot(job, 0).reveal_end - 1)
    for name, offer in SLOTS.items():
        s.reveal(job, 0, name, offer)
    for name, offer in AGGREGATORS.items():
        s.reveal(job, 1, name, offer)
    s.no("auction: not due", "auction", "clear", "stranger", job, 0, ())
    s.to(s.world.lot(job, 0).reveal_end)
    alice, bob, carol = s.order(job, 0)
    s.no("auction: not due", "auction", "clear", "stranger", 99, 0, (alice,))
    s.no("auction: no operators", "auction", "clear", "stranger", job, 0, ())
    s.no("auction: no bid", "auction", "clear", "stranger", job, 0, (s.ids["erin"],))
    s.no("auction: no bid", "auction", "clear", "stranger", job, 0, (alice, 99))
    s.no("auction: out of order", "auction", "clear", "stranger", job, 0, (bob, alice))
    s.no("auction: out of order", "auction", "clear", "stranger", job, 0, (alice, alice))
    s.ok("auction", "clear", "stranger", job, 0, (alice,))
    assert s.world.lot(job, 0).phase == Phase.CLEARING
    s.no("auction: out of order", "auction", "clear", "stranger", job, 0, (alice,))
    s.no("auction: not due", "auction", "reopen", "stranger", job, 0)
    s.no("auction: enough bids", "auction", "reopen", "stranger", job, 1)
    s.no("auction: not cleared", "auction", "award", "stranger", job, 0, (alice,))
    s.ok("auction", "clear", "stranger", job, 0, (bob,))
    s.ok("auction", "clear", "stranger", job, 0, (carol,))
    s.no("auction: not due", "auction", "clear", "stranger", job, 0, (carol,))
    assert s.world.lot(job, 0).phase == Phase.CLEARED
    assert s.operator("carol").locks == 0
    s.ok("auction", "reclaim", "stranger", job, 0, s.ids["erin"])


@scenario
def a_skipped_bid_starts_the_clearing_again(s: Stage) -> None:
    s.register_all()
    offers = {
        "alice": Offer(50, 2),
        "bob": Offer(60, 2),
        "carol": Offer(70, 2),
        "dave": Offer(80, 2),
        "erin": Offer(90, 2),
    }
    job = s.post(slots=6, rounds=2)
    s.bid_all(job, offers, {"alice": Offer(30)})
    s.reveal_all(job, offers, {"alice": Offer(30)})
    alice, bob, carol, dave, erin = s.order(job, 0)
    s.ok("auction", "clear", "stranger", job, 0, (bob, dave, erin))  # a rogue skips alice and carol
    assert s.world.bid(job, 0, erin).won == 2
    s.no("auction: out of order", "auction", "clear", "stranger", job, 0, (dave,))
    s.ok("auction", "clear", "stranger", job, 0, (alice, carol))  # begins anew; bob is skipped this time
    assert s.world.lot(job, 0).cleared == 2
    s.ok("auction", "clear", "stranger", job, 0, (erin,))
    s.no("auction: out of order", "auction", "clear", "stranger", job, 0, (alice,))
    s.ok("auction", "clear", "stranger", job, 0, (bob,))  # anew again
    s.no("auction: out of order", "auction", "clear", "stranger", job, 0, (carol, alice))
    s.ok("auction", "clear", "stranger", job, 0, (alice, bob))  # anew, for alice stands before bob
    s.ok("auction", "clear", "stranger", job, 0, (carol, dave, erin))
    assert s.world.lot(job, 0).phase == Phase.CLEARED
    assert [s.world.bid(job, 0, operator).won for operator in (alice, bob, carol, dave, erin)] == [2, 2, 2, 0, 0]
    s.ok("auction", "clear", "stranger", job, 1, s.order(job, 1))
    s.ok("auction", "award", "stranger", job, 0, (bob, alice, carol))
    assert s.world.seat(job, s.seat_of(job, "bob")).price == 80
    s.ok("auction", "award", "stranger", job, 1, (alice,))
    for name in ("alice", "bob", "carol"):
        s.ready(job, name)
    for _ in range(2):
        s.play_round(job)
    s.settle(job)


@scenario
def a_loser_never_wins_back_a_lock_that_was_freed(s: Stage) -> None:
    s.register_all()
    offers = {"alice": Offer(50, 2), "bob": Offer(60, 2), "carol": Offer(70, 2), "dave": Offer(80, 2)}
    job = s.post()
    s.bid_all(job, offers, AGGREGATORS)
    s.reveal_all(job, offers, AGGREGATORS)
    alice, bob, carol, dave = s.order(job, 0)
    s.ok("auction", "clear", "stranger", job, 0, (bob, carol, dave))  # dave wins nothing and is freed
    s.ok("registry", "withdraw", "dave owner", dave, s.tokens["zen"], s.world.deposit_of(dave, s.tokens["zen"]).free)
    s.ok("auction", "clear", "stranger", job, 0, (alice, dave))  # were he to win here, he would have no lock
    assert s.world.bid(job, 0, dave).won == 0
    s.ok("auction", "clear", "stranger", job, 0, (bob,))
    s.ok("auction", "clear", "stranger", job, 0, (alice, bob, carol, dave))
    assert [s.world.bid(job, 0, operator).won for operator in (alice, bob, carol, dave)] == [2, 2, 0, 0]


@scenario
def winners_are_priced_in_any_order_each_once(s: Stage) -> None:
    s.register_all()
    job = s.post()
    s.bid_all(job, SLOTS, AGGREGATORS)
    s.reveal_all(job, SLOTS, AGGREGATORS)
    s.no("auction: not cleared", "auction", "award", "stranger", job, 0, ())
    s.ok("auction", "clear", "stranger", job, 0, s.order(job, 0))
    alice, bob, carol = s.order(job, 0)
    for operators in ((carol,), (99,), (alice, alice), (alice, bob, carol)):
        s.no("auction: not an unpriced winner", "auction", "award", "stranger", job, 0, operators)
    s.ok("auction", "award", "stranger", job, 0, ())
    s.ok("auction", "award", "stranger", job, 0, (bob,))
    s.no("auction: not an unpriced winner", "auction", "award", "stranger", job, 0, (bob,))
    assert s.world.job(job).state == JobState.OPEN
    s.ok("auction", "award", "stranger", job, 0, (alice,))
    s.no("auction: not cleared", "auction", "award", "stranger", job, 0, (alice,))
    s.ok("auction", "clear", "stranger", job, 1, s.order(job, 1))
    s.no("settlement: not awarded", "settlement", "ready", "alice hot", job, alice, 1)
    s.ok("auction", "award", "stranger", job, 1, s.winners(job, 1))
    assert s.world.job(job).state == JobState.AWARDED
    assert s.world.seat(job, s.seat_of(job, "alice")).price == s.world.seat(job, s.seat_of(job, "bob")).price == 80


def rate(s: Stage, *, slots: int, rounds: int, price: int = 20 * ZEN, token: str = "zen", **changes: Any) -> None:
    """Alice alone trains a job; at 20 ZEN a slot-round each pays the treasury one ZEN."""
    for name in ("alice", "dave"):
        s.ok("registry", "deposit", f"{name} owner", s.ids[name], s.tokens[token], 10**6 * ZEN)
    terms = {"slots": slots, "quorum": 1, "rounds": rounds, "reserve": price, "max_price": price, "token": token}
    job = s.running({"alice": Offer(price, slots)}, {"dave": Offer(30)}, **terms, **changes)
    for _ in range(rounds):
        s.play_round(job)
    s.settle(job)


def reputation(s: Stage) -> int:
    """Alice's points."""
    return node_registry.reputation(s.world, s.ids["alice"], s.now)


@scenario
def reputation_orders_and_discounts_bids(s: Stage) -> None:
    s.register_all()
    rate(s, slots=3, rounds=11)
    assert reputation(s) == 33
    job = s.post()
    offers = {"alice": Offer(100, 2), "bob": Offer(100, 2), "carol": Offer(99, 2)}
    s.bid_all(job, offers, AGGREGATORS)
    s.reveal_all(job, offers, AGGREGATORS)
    assert s.order(job, 0) == (s.ids["carol"], s.ids["alice"], s.ids["bob"])
    s.award_all(job)
    assert s.world.seat(job, s.seat_of(job, "alice")).price == 100  # 1,000,000 // 9,967 is 100
    s.ok("settlement", "decline", "alice hot", job, s.seat_of(job, "alice"), 2)
    assert reputation(s) == 16


@scenario
def reputation_halves_every_90_epochs(s: Stage) -> None:
    s.register_all()
    span = 90 * s.preset.epoch_s
    s.to((s.now // span + 1) * span)
    rate(s, slots=3, rounds=11)
    s.to((s.now // span + 1) * span - 1)
    assert reputation(s) == 33
    for points in (16, 8):
        s.wait(1)
        assert reputation(s) == points
        job = s.post()
        s.bid(job, 0, "alice", Offer(60))
        s.to(s.world.lot(job, 0).bid_end)
        s.reveal(job, 0, "alice", Offer(60))
        assert s.world.bid(job, 0, s.ids["alice"]).discount_bps == points
        s.ok("tasks", "cancel", "submitter", job)
        s.to((s.now // span + 1) * span - 1)
    s.wait(1)
    rate(s, slots=3, rounds=1)
    assert reputation(s) == 4 + 3  # 33,000 parts are 4,125 by now
    job = s.awarded({"alice": Offer(60, 4)}, {"dave": Offer(30)})
    s.ok("settlement", "decline", "alice hot", job, 0, 4)
    assert reputation(s) == 3
    s.wait(20 * span)
    assert reputation(s) == 0


@scenario
def reputation_is_not_paid_for_in_other_tokens_nor_in_dust(s: Stage) -> None:
    s.register_all()
    for token, price in (("usd", 20 * ZEN), ("zen", 10)):
        rate(s, slots=3, rounds=3, token=token, price=price)
        assert s.operator("alice").reputation == s.operator("dave").reputation == 0
    rate(s, slots=3, rounds=1, aggregator_reserve=20 * ZEN, aggregator_max_price=20 * ZEN)
    assert s.operator("dave").reputation == 1_000  # aggregators pay fees too


@scenario
def reputation_stops_at_a_tenth(s: Stage) -> None:
    s.register_all()
    s.back("alice", 256)
    for rounds, points in ((3, 768), (1, 1_000)):
        rate(s, slots=256, rounds=rounds)
        assert reputation(s) == points
    job = s.post()
    offers = {"alice": Offer(99, 2), "bob": Offer(90, 4), "carol": Offer(91, 4)}
    s.bid_all(job, offers, AGGREGATORS)
    s.reveal_all(job, offers, AGGREGATORS)
    assert s.order(job, 0)[0] == s.ids["alice"]  # 99 less a tenth stands before 90
    s.award_all(job)
    assert s.world.seat(job, s.seat_of(job, "alice")).price == 100  # 910,000 // 9,000 is 101, above the reserve
