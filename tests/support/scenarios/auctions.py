"""Directed sequences, one a sentence of docs/protocol/: each drives a stage, and so both specification and contracts.

Together they reach every function, state and refusal that an account can reach (`coverage.EXCLUDED` says which it cannot).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.lockstep.stage import DEPOSIT, OPERATORS, Stage
from zoo_compute.spec.params import (
    COIN,
    DEFAULT_AUDIT_BPS,
    LAPSE_S,
    MAX_VRAM_GB,
    PERIODS,
    STAKE_UNIT,
    Terms,
    lock_of,
    restitution,
)
from zoo_compute.spec.requirements import Requirements
from zoo_compute.spec.state import ZERO_ADDRESS, JobState

Scenario = Callable[[Stage], None]
SCENARIOS: dict[str, Scenario] = {}

# Alice is cheapest; three bidders, so nobody wins more than two of four slots.
SLOTS = {"alice": Offer(60, 3), "bob": Offer(70, 2), "carol": Offer(80, 2)}
AGGREGATORS = {"dave": Offer(30), "erin": Offer(40)}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


@scenario
def operators_are_admitted_by_key_class_memory_and_stake(s: Stage) -> None:
    least, hot = s.preset.min_stake, s.accounts["alice hot"]

    def no(reason: str, *args: Any) -> None:
        s.no(f"registry: {reason}", "registry", "register", "alice owner", *args, "http://alice")

    no("zero hot key", ZERO_ADDRESS, 9, 0, 0)
    no("unknown class", hot, 0, 70_000, 0)
    no("unknown class", hot, 5, 70_000, 0)
    for gpu_class, vram_gb in ((1, 8), (2, 16), (3, 40), (4, 8)):
        no("too little VRAM for the class", hot, gpu_class, vram_gb - 1, 0)
        s.ok("registry", "register", "alice owner", hot, gpu_class, vram_gb, least, "")
    no("VRAM out of range", hot, 1, 65_536, 0)
    no("stake below the minimum", hot, 1, 65_535, least - 1)
    no("stake below the minimum", hot, 1, 65_535, least - STAKE_UNIT)
    no("stake has dust", hot, 1, 65_535, least + STAKE_UNIT - 1)
    s.no(
        "erc20: transfer amount exceeds balance",
        "registry",
        "register",
        s.accounts["alice hot"],
        hot,
        1,
        8,
        2 * 10**27,
        "",
    )
    s.ok("registry", "register", "alice owner", hot, 1, 65_535, least, "http://alice")


@scenario
def only_the_owner_moves_an_operators_keys_and_money(s: Stage) -> None:
    alice, zen = s.register("alice"), s.tokens["zen"]
    other, unknown = s.register("bob"), 99
    hot = s.accounts["carol hot"]
    for sender in ("alice hot", "stranger", "bob owner"):
        s.no("registry: not the owner", "registry", "set_hot", sender, alice, ZERO_ADDRESS)
        s.no("registry: not the owner", "registry", "allow_answers", sender, alice, s.accounts["stranger"], True)
        s.no("registry: not the owner", "registry", "request_exit", sender, alice)
        s.no("registry: not the owner", "registry", "withdraw_stake", sender, alice)
        s.no("registry: not the owner", "registry", "withdraw", sender, alice, zen, 0)
    for operator in (0, unknown):
        s.no("registry: not the owner", "registry", "set_hot", "alice owner", operator, hot)
        s.no("registry: not the operator", "registry", "announce", "alice owner", operator, "http://alice")
        s.no("registry: unknown operator", "registry", "add_stake", "alice owner", operator, 0)
        s.no("registry: unknown operator", "registry", "deposit", "alice owner", operator, zen, 0)
    s.no("registry: not the operator", "registry", "announce", "bob owner", alice, "http://bob")
    s.ok("registry", "announce", "alice owner", alice, "http://a")
    s.ok("registry", "announce", "alice hot", alice, "http://b")
    s.no("registry: zero hot key", "registry", "set_hot", "alice owner", alice, ZERO_ADDRESS)
    s.ok("registry", "set_hot", "alice owner", alice, hot)
    s.ok("registry", "announce", "carol hot", alice, "http://c")
    for allowed in (True, True, False):
        s.ok("registry", "allow_answers", "alice owner", alice, s.accounts["stranger"], allowed)
    s.no("registry: not the operator", "registry", "announce", "alice hot", alice, "http://b")
    assert s.world.operator(other).hot == s.accounts["bob hot"]


@scenario
def stake_leaves_after_the_exit_delay_and_may_come_back(s: Stage) -> None:
    alice = s.register("alice")
    s.no("registry: exit not requested", "registry", "withdraw_stake", "alice owner", alice)
    s.no("registry: zero amount", "registry", "add_stake", "stranger", alice, 0)
    s.no("registry: stake has dust", "registry", "add_stake", "stranger", alice, STAKE_UNIT - 1)
    s.ok("registry", "add_stake", "stranger", alice, 5 * STAKE_UNIT)
    s.no("erc20: transfer amount exceeds balance", "registry", "add_stake", "stranger", alice, 2 * 10**27)
    s.ok("registry", "request_exit", "alice owner", alice)
    s.no("registry: exit already requested", "registry", "request_exit", "alice owner", alice)
    due = s.world.operator(alice).exit_at
    s.to(due - 1)
    s.no("registry: exit delay runs", "registry", "withdraw_stake", "alice owner", alice)
    s.to(due)
    s.ok("registry", "withdraw_stake", "alice owner", alice)
    s.no("registry: exit not requested", "registry", "withdraw_stake", "alice owner", alice)
    s.ok("registry", "add_stake", "alice owner", alice, s.preset.min_stake)
    job = s.post()
    s.bid(job, 0, "alice", Offer(50))


@scenario
def locked_collateral_and_stake_stay_until_the_lock_ends(s: Stage) -> None:
    alice, zen = s.register("alice"), s.tokens["zen"]
    job = s.post()
    lock = s.world.lot(job, 0).lock
    s.bid(job, 0, "alice", Offer(50, 2))
    free = DEPOSIT - 2 * lock
    s.no("registry: zero amount", "registry", "withdraw", "alice owner", alice, zen, 0)
    s.no("registry: amount exceeds free collateral", "registry", "withdraw", "alice owner", alice, zen, free + 1)
    s.ok("registry", "withdraw", "alice owner", alice, zen, free - 1)
    s.no("registry: amount exceeds free collateral", "auction", "bid", "alice hot", *bid_args(s, job, 1, "alice"))
    s.ok("registry", "request_exit", "alice owner", alice)
    s.to(s.world.operator(alice).exit_at)
    s.no("registry: collateral is locked", "registry", "withdraw_stake", "alice owner", alice)
    s.no("registry: zero amount", "registry", "deposit", "stranger", alice, zen, 0)
    s.ok("registry", "deposit", "stranger", alice, zen, 7)
    s.no("erc20: transfer amount exceeds balance", "registry", "deposit", "stranger", alice, zen, 2 * 10**27)
    s.ok("tasks", "cancel", "submitter", job)
    s.ok("auction", "reclaim", "stranger", job, 0, alice)
    s.ok("registry", "withdraw_stake", "alice owner", alice)


@scenario
def jobs_outside_the_terms_are_refused_in_order(s: Stage) -> None:
    good = s.terms()
    ranges: list[tuple[str, str, int, int]] = [
        ("rounds", "rounds out of range", 1, 10_000),
        ("slots", "slots out of range", 1, 16_384),
        ("quorum", "quorum out of range", 1, 4),
        ("reserve", "prices out of range", 1, 160),
        ("max_price", "prices out of range", 100, 2**80 - 1),
        ("aggregator_reserve", "prices out of range", 1, 80),
        ("aggregator_max_price", "prices out of range", 50, 2**80 - 1),
        ("slot_s", "seconds out of range", 1, 604_800),
        ("aggregate_s", "seconds out of range", 1, 604_800),
        ("reexecute_s", "seconds out of range", 1, 604_800),
        ("flops", "flops out of range", 1, 2**96 - 1),
        ("depth", "depth out of range", 1, 64),
        ("audit_bps", "audit rate out of range", 200, 10_000),
    ]
    worst: Terms = replace(good, token=s.tokens["bad"])
    for name, reason, least, most in ranges:
        low, high = replace(good, **{name: least - 1}), replace(good, **{name: most + 1})
        s.no(f"tasks: {reason}", "tasks", "post", "submitter", low)
        s.no(f"tasks: {reason}", "tasks", "post", "submitter", high)
        for edge in (least, most):
            if name == "slots" and edge == 1:
                s.post(slots=1, quorum=1)
            elif name in ("max_price", "aggregator_max_price") and edge == most:
                reason_paid = "erc20: transfer amount exceeds balance"
                s.no(
                    reason_paid,
                    "tasks",
                    "post",
                    "submitter",
                    replace(good, **{name: edge}, rounds=10_000),
                    value=POSTING_DEPOSIT,
                )
            else:
                s.post(**{name: edge})
        worst = replace(worst, **{name: 0})
    s.no("tasks: token not allowed", "tasks", "post", "submitter", worst)
    s.no("tasks: not the governor", "tasks", "allow", "guardian", s.tokens["bad"], True, 0)
    s.ok("tasks", "allow", "deployer", s.tokens["bad"], True, 7)
    worst = replace(worst, policy=8)
    for name, reason, least, _ in ranges:
        if name == "audit_bps":
            s.no("tasks: unknown policy", "tasks", "post", "submitter", worst)
            worst = replace(worst, policy=0)
        s.no(f"tasks: {reason}", "tasks", "post", "submitter", worst)
        worst = replace(worst, **{name: least})
    every = Requirements(2**32 - 1, MAX_VRAM_GB, 0b11110, PERIODS, 3, admitted=True).word
    over = (
        ("admitted", 2),
        ("tier", 4 << 8),
        ("hours", 25 << 16),
        ("class 0", 1 << 24),
        ("class 5", 1 << 29),
        ("bit", 1 << 80),
    )
    for _, field in over:
        s.no("tasks: unknown requirements", "tasks", "post", "submitter", replace(good, requirements=field))
    s.post(requirements=every)
    worst = replace(good, requirements=2**256 - 1)
    s.no("tasks: audit rate out of range", "tasks", "post", "submitter", replace(worst, audit_bps=10_001))
    s.no("tasks: unknown requirements", "tasks", "post", "submitter", worst)
    for policy in (8, 2**256 - 1):
        s.no("tasks: unknown policy", "tasks", "post", "submitter", replace(good, policy=policy))
    s.post(policy=1)
    s.post(policy=7)
    s.ok(
        "tasks", "post_permitted", "submitter", good, s.now, 27, b"r" * 32, b"s" * 32, value=POSTING_DEPOSIT
    )  # let before: needs no permit
    for s.base_fee in (0, 10**9, 10**9 + 1):
        least = 2_000_000 * max(s.base_fee, 10**9)
        s.no("tasks: deposit too small", "tasks", "post", "submitter", good, value=least - 1)
        s.ok("tasks", "post", "submitter", good, value=least)
    s.base_fee = 0
    s.ok("tasks", "allow", "deployer", s.tokens["usd"], False, 0)
    s.no("tasks: token not allowed", "tasks", "post", "submitter", s.terms(token="usd"))


@scenario
def a_job_may_be_cancelled_until_it_is_cleared(s: Stage) -> None:
    s.register_all()
    job, other = s.post(), s.post(token="usd")
    s.no("tasks: not the submitter", "tasks", "cancel", "stranger", job)
    s.no("tasks: not the submitter", "tasks", "cancel", "submitter", 99)
    s.no("tasks: nothing owed", "tasks", "withdraw", "stranger", s.tokens["zen"], s.accounts["submitter"])
    s.ok("tasks", "cancel", "submitter", other)
    s.no("tasks: not open", "tasks", "cancel", "submitter", other)
    s.ok("tasks", "withdraw", "stranger", s.tokens["usd"], s.accounts["submitter"])
    s.no("tasks: nothing owed", "tasks", "withdraw", "stranger", s.tokens["usd"], s.accounts["submitter"])
    s.bid_all(job, SLOTS, AGGREGATORS)
    s.reveal_all(job, SLOTS, AGGREGATORS)
    s.ok("auction", "clear", "stranger", job, 1, s.order(job, 1))
    s.no("tasks: auction is clearing", "tasks", "cancel", "submitter", job)
    s.ok("auction", "clear", "stranger", job, 0, s.order(job, 0))
    s.ok("auction", "award", "stranger", job, 0, s.winners(job, 0))
    s.no("tasks: auction is clearing", "tasks", "cancel", "submitter", job)
    s.ok("auction", "award", "stranger", job, 1, s.winners(job, 1))
    s.no("tasks: not open", "tasks", "cancel", "submitter", job)


@scenario
def a_cancelled_job_frees_its_bids_unless_they_missed_their_reveal(s: Stage) -> None:
    s.register_all()
    for token, offset in (("zen", -1), ("usd", 0), ("usd", 1)):
        job = s.post(token=token)
        s.bid(job, 0, "alice", Offer(60, 2))
        s.bid(job, 0, "bob", Offer(70))
        s.to(s.world.lot(job, 0).bid_end)
        s.reveal(job, 0, "bob", Offer(70))
        s.to(s.world.lot(job, 0).reveal_end + offset)
        s.ok("tasks", "cancel", "submitter", job)
        s.no("auction: not bidding", "auction", "bid", "carol hot", *bid_args(s, job, 0, "carol"))
        s.no("auction: not due", "auction", "reopen", "stranger", job, 0)
        s.wait(100)
        s.no("auction: not due", "auction", "clear", "stranger", job, 0, (1,))
        before = s.world.burned.get(s.tokens[token], 0)
        s.ok("auction", "reclaim", "stranger", job, 0, s.ids["alice"])
        s.ok("auction", "reclaim", "stranger", job, 0, s.ids["bob"])
        s.no("auction: no bid", "auction", "reclaim", "stranger", job, 0, s.ids["alice"])
        forfeited = s.world.burned.get(s.tokens[token], 0) - before
        assert forfeited == (0 if offset < 0 else 2 * 100)


@scenario
def bids_are_sealed_while_the_bid_window_runs(s: Stage) -> None:
    s.register_all()
    job = s.post()
    args = bid_args(s, job, 0, "alice")
    s.no("auction: not bidding", "auction", "bid", "alice hot", 99, *args[1:])
    s.no("auction: not bidding", "auction", "bid", "alice hot", job, 2, *args[2:])
    for sender in ("alice owner", "bob hot"):
        s.no("auction: operator not eligible", "auction", "bid", sender, *args)
    s.ok("registry", "request_exit", "bob owner", s.ids["bob"])
    s.no("auction: operator not eligible", "auction", "bid", "bob hot", *bid_args(s, job, 0, "bob"))
    for capacity in (0, 5, 2**255):
        s.no("auction: capacity out of range", "auction", "bid", "bob hot", *bid_args(s, job, 0, "bob", capacity))
    s.to(s.world.lot(job, 0).bid_end - 1)
    s.bid(job, 0, "alice", Offer(60, 4))
    s.no("auction: already bid", "auction", "bid", "alice hot", *args)
    s.bid(job, 1, "alice", Offer(40))
    s.to(s.world.lot(job, 0).bid_end)
    s.no("auction: not bidding", "auction", "bid", "carol hot", *bid_args(s, job, 0, "carol"))


@scenario
def an_operator_below_the_least_stake_may_not_bid(s: Stage) -> None:
    s.register_all()
    alice, job = s.ids["alice"], s.post(rounds=1)
    s.ok("registry", "request_exit", "alice owner", alice)
    s.wait(s.preset.exit_delay_s)
    s.ok("registry", "withdraw_stake", "alice owner", alice)
    job = s.post(rounds=1)
    s.ok("registry", "add_stake", "alice owner", alice, s.preset.min_stake - STAKE_UNIT)
    s.no("auction: operator not eligible", "auction", "bid", "alice hot", *bid_args(s, job, 0, "alice"))
    s.ok("registry", "add_stake", "alice owner", alice, STAKE_UNIT)
    s.ok("auction", "bid", "alice hot", *bid_args(s, job, 0, "alice"))


@scenario
def bids_are_opened_while_the_reveal_window_runs(s: Stage) -> None:
    s.register_all()
    job = s.post()
    for name, price in (("alice", 100), ("bob", 101), ("carol", 1), ("dave", 0), ("erin", 60)):
        s.bid(job, 0, name, Offer(price))

    def args(name: str, price: int, salt: str | None = None) -> tuple[Any, ...]:
        return (job, 0, s.ids[name], price, s.salt(salt or name))

    s.to(s.world.lot(job, 0).bid_end - 1)
    s.no("auction: not revealing", "auction", "reveal", "stranger", *args("alice", 100))
    s.to(s.world.lot(job, 0).bid_end)
    s.no("auction: not revealing", "auction", "reveal", "stranger", 99, *args("alice", 100)[1:])
    s.no("auction: no bid", "auction", "reveal", "stranger", job, 0, 99, 100, s.salt("alice"))
    s.no("auction: seal does not match", "auction", "reveal", "stranger", *args("alice", 99))
    s.no("auction: seal does not match", "auction", "reveal", "stranger", *args("alice", 100, "bob"))
    s.no("auction: seal does not match", "auction", "reveal", "stranger", *args("alice", 2**256 - 1))
    s.no("auction: price out of range", "auction", "reveal", "stranger", *args("bob", 101))
    s.no("auction: price out of range", "auction", "reveal", "stranger", *args("dave", 0))
    s.ok("auction", "reveal", "stranger", *args("alice", 100))
    s.no("auction: no bid", "auction", "reveal", "stranger", *args("alice", 100))
    s.to(s.world.lot(job, 0).reveal_end - 1)
    s.ok("auction", "reveal", "carol hot", *args("carol", 1))
    s.to(s.world.lot(job, 0).reveal_end)
    s.no("auction: not revealing", "auction", "reveal", "stranger", *args("erin", 60))
    s.no("auction: bid still active", "auction", "reclaim", "stranger", job, 0, s.ids["alice"])
    s.ok("auction", "reclaim", "stranger", job, 0, s.ids["erin"])


@scenario
def an_unopened_bid_forfeits_a_reserve_a_unit_once_its_reveal_is_over(s: Stage) -> None:
    s.register_all()
    job = s.post(aggregator_reserve=5_000, aggregator_max_price=9_000)
    s.bid(job, 0, "alice", Offer(60, 3))
    s.bid(job, 1, "alice", Offer(50))
    s.to(s.world.lot(job, 0).reveal_end - 1)
    s.no("auction: bid still active", "auction", "reclaim", "stranger", job, 0, s.ids["alice"])
    s.no("auction: no bid", "auction", "reclaim", "stranger", job, 0, s.ids["bob"])
    s.to(s.world.lot(job, 0).reveal_end)
    s.ok("auction", "reclaim", "stranger", job, 0, s.ids["alice"])
    assert s.world.burned[s.tokens["zen"]] == 3 * 100
    s.ok("auction", "reclaim", "stranger", job, 1, s.ids["alice"])
    assert s.world.burned[s.tokens["zen"]] == 3 * 100 + 5_000
    assert s.operator("alice").locks == 0


@scenario
def a_lot_without_enough_bids_reopens_with_its_sibling_at_a_higher_reserve(s: Stage) -> None:
    s.register_all()
    job = s.post(reserve=101)
    s.bid(job, 0, "alice", Offer(60, 3))
    s.bid(job, 1, "dave", Offer(30))
    s.reveal_all(job, {"alice": Offer(60)}, {"dave": Offer(30)})
    s.to(s.world.lot(job, 0).reveal_end)
    s.no("auction: too few bids", "auction", "clear", "stranger", job, 0, (s.ids["alice"],))
    s.no("auction: too few bids", "auction", "clear", "stranger", job, 1, (s.ids["dave"],))
    s.no("auction: not due", "auction", "reopen", "stranger", 99, 0)
    s.ok("auction", "reopen", "stranger", job, 1)
    assert [s.world.lot(job, kind).reserve for kind in (0, 1)] == [126, 50]
    s.no("auction: not due", "auction", "reopen", "stranger", job, 0)
    s.no("auction: already bid", "auction", "bid", "alice hot", *bid_args(s, job, 0, "alice"))
    s.no("auction: already bid", "auction", "bid", "dave hot", *bid_args(s, job, 1, "dave"))
    s.to(s.world.lot(job, 0).bid_end)
    s.no("auction: no bid", "auction", "reveal", "stranger", job, 0, s.ids["alice"], 60, s.salt("alice"))
    s.ok("auction", "reclaim", "stranger", job, 0, s.ids["alice"])
    s.ok("auction", "reclaim", "stranger", job, 1, s.ids["dave"])
    for expected in (157, 160, 160):
        s.to(s.world.lot(job, 0).reveal_end - 1)
        s.no("auction: not due", "auction", "reopen", "stranger", job, 0)
        s.no("auction: not due", "auction", "clear", "stranger", job, 0, (1,))
        s.to(s.world.lot(job, 0).reveal_end)
        s.ok("auction", "reopen", "stranger", job, 0)
        assert s.world.lot(job, 0).reserve == expected
    assert s.world.lot(job, 1).reserve == 80
    s.bid_all(job, SLOTS, AGGREGATORS)
    s.reveal_all(job, SLOTS, AGGREGATORS)
    for kind in (0, 1):
        s.no("auction: enough bids", "auction", "reopen", "stranger", job, kind)
    s.award_all(job)
    s.no("auction: not due", "auction", "reopen", "stranger", job, 0)
    s.no("auction: bid still active", "auction", "reclaim", "stranger", job, 0, s.ids["alice"])


@scenario
def a_bid_locks_and_forfeits_by_the_reserve_of_its_own_attempt(s: Stage) -> None:
    s.register_all()
    job, zen, alice = s.post(policy=1), s.tokens["zen"], s.ids["alice"]
    once = restitution(s.world.terms[job])

    def locked(name: str) -> int:
        return s.world.deposit_of(s.ids[name], zen).locked

    for name, reserve in (("alice", 100), ("bob", 125), ("carol", 156)):
        s.bid(job, 0, name, Offer(60, 2))
        assert locked(name) == 2 * lock_of(reserve, DEFAULT_AUDIT_BPS) + once
        s.to(s.world.lot(job, 0).bid_end)
        if name == "bob":
            s.reveal(job, 0, "bob", Offer(60, 2))
        s.to(s.world.lot(job, 0).reveal_end)
        s.ok("auction", "reopen", "stranger", job, 0)
    s.ok("auction", "reclaim", "stranger", job, 0, s.ids["bob"])
    assert (locked("bob"), s.world.burned.get(zen, 0)) == (0, 0)
    s.ok("auction", "reclaim", "stranger", job, 0, alice)
    assert (locked("alice"), s.world.burned[zen]) == (0, 2 * 100)
    s.bid(job, 0, "alice", Offer(60, 2))  # at 160, the maximum
    s.to(s.world.lot(job, 0).reveal_end)
    s.ok("auction", "reopen", "stranger", job, 1)
    s.ok("tasks", "cancel", "submitter", job)
    s.ok("auction", "reclaim", "stranger", job, 0, s.ids["carol"])
    assert (locked("carol"), s.world.burned[zen]) == (0, 2 * 100 + 2 * 156)
    s.ok("auction", "reclaim", "stranger", job, 0, alice)
    assert (locked("alice"), s.world.burned[zen]) == (0, 2 * 100 + 2 * 156 + 2 * 160)


@scenario
def a_seat_below_the_reserve_locks_by_its_price_and_at_the_reserve_what_its_bid_did(s: Stage) -> None:
    s.register_all()
    for rivals, price in (({}, 100), ({"bob": Offer(99, 4)}, 99)):
        job = s.awarded({"alice": Offer(60, 4), **rivals}, {"dave": Offer(30)})
        lock = 4 * lock_of(100, DEFAULT_AUDIT_BPS) if price == 100 else lock_of(4 * price, DEFAULT_AUDIT_BPS)
        assert s.world.seat(job, 0).price == price
        assert s.world.stake_of(job, s.ids["alice"], False).locked == lock
    assert 4 * lock_of(100, DEFAULT_AUDIT_BPS) > lock_of(4 * 100, DEFAULT_AUDIT_BPS)


@scenario
def a_cancelled_job_pays_whoever_revealed_a_bid_from_its_posting_deposit(s: Stage) -> None:
    s.register_all()
    submitter, coin = s.accounts["submitter"], COIN

    def owed(name: str) -> int:
        return s.world.owed.get((coin, s.accounts[name]), 0)

    deposit = POSTING_DEPOSIT + 2
    for cancelled_at, revealed in (("bid_end", 0), ("reveal_end", 4)):
        job = int(s.ok("tasks", "post", "submitter", s.terms(), value=deposit))
        s.no("tasks: auction not lapsed", "tasks", "lapse", "stranger", job)
        s.bid_all(job, SLOTS, {"dave": Offer(30)})
        s.bid(job, 1, "erin", Offer(30))  # seals only
        if revealed:
            s.reveal_all(job, SLOTS, {"dave": Offer(30)})
        s.to(getattr(s.world.lot(job, 0), cancelled_at))
        s.ok("tasks", "cancel", "submitter", job)
        assert s.world.deposits[job] == (deposit // 4 if revealed else 0)
        for kind, name in ((0, "alice"), (0, "bob"), (0, "carol"), (1, "dave"), (1, "erin")):
            s.ok("auction", "reclaim", "stranger", job, kind, s.ids[name])
            s.no("auction: no bid", "auction", "reclaim", "stranger", job, kind, s.ids[name])
    assert [owed(f"{name} owner") for name in OPERATORS] == [deposit // 4] * 4 + [0]
    assert owed("submitter") == deposit + deposit % 4
    s.no("tasks: nothing owed", "tasks", "withdraw", "stranger", coin, s.accounts["erin owner"])
    s.ok("tasks", "withdraw", "stranger", coin, submitter)
    s.no("tasks: nothing owed", "tasks", "withdraw", "stranger", coin, submitter)
    for name in OPERATORS[:4]:
        s.ok("tasks", "withdraw", f"{name} owner", coin, s.accounts[f"{name} owner"])
    # An attempt that ended with too few bids costs its submitter nothing, and nobody is paid for the one before.
    for attempts in (1, 2):
        job = s.post()
        for _ in range(attempts - 1):
            s.bid_all(job, SLOTS, {})
            s.reveal_all(job, SLOTS, {})
            s.to(s.world.lot(job, 0).reveal_end)
            s.ok("auction", "reopen", "stranger", job, 0)
        if attempts == 1:
            s.bid_all(job, SLOTS, {})
            s.reveal_all(job, SLOTS, {})
            s.to(s.world.lot(job, 0).reveal_end)
        s.ok("tasks", "cancel", "submitter", job)
        for name in SLOTS:
            s.ok("auction", "reclaim", "stranger", job, 0, s.ids[name])
            assert owed(f"{name} owner") == 0
    assert owed("submitter") == 2 * POSTING_DEPOSIT


@scenario
def a_posting_deposit_comes_back_when_the_job_ends(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=1)
    s.no("tasks: not open", "tasks", "lapse", "stranger", job)
    assert s.world.deposits[job] == POSTING_DEPOSIT
    s.play_round(job)
    s.settle(job)
    assert s.world.deposits[job] == s.world.posted_coin == 0


@scenario
def a_job_that_waits_for_a_month_is_closed_by_anyone(s: Stage) -> None:
    s.register_all()
    job, cleared = s.post(), s.post()
    s.no("tasks: not open", "tasks", "lapse", "stranger", 99)
    s.bid_all(cleared, SLOTS, AGGREGATORS)
    s.bid_all(job, SLOTS, {})
    s.reveal_all(cleared, SLOTS, AGGREGATORS)
    s.clear(cleared, 0)
    s.to(s.world.lot(job, 0).reveal_end)
    s.ok("auction", "reopen", "stranger", job, 1)
    end = s.world.lot(job, 0).reveal_end
    s.to(end + LAPSE_S - 1)
    s.no("tasks: auction not lapsed", "tasks", "lapse", "stranger", job)
    s.wait(1)
    s.no("tasks: auction not lapsed", "tasks", "lapse", "stranger", cleared)
    escrow = s.world.job(job).escrow
    s.ok("tasks", "lapse", "stranger", job)
    assert s.world.job(job).state == JobState.CANCELLED
    assert s.world.owed[s.tokens["zen"], s.accounts["submitter"]] == escrow
    assert s.world.owed[COIN, s.accounts["stranger"]] == POSTING_DEPOSIT
    s.no("tasks: not open", "tasks", "lapse", "stranger", job)
    s.no("tasks: not open", "tasks", "cancel", "submitter", job)
    for name in SLOTS:
        s.ok("auction", "reclaim", "stranger", job, 0, s.ids[name])
    s.withdraw_all()
    s.clear(cleared, 1)  # the other one is awarded however late
    for kind in (0, 1):
        s.award(cleared, kind)
    # Also one that had enough bids, and that nobody cleared.
    job = s.post()
    s.bid_all(job, {"erin": Offer(50, 4)}, {"erin": Offer(30)})
    s.reveal_all(job, {"erin": Offer(50, 4)}, {"erin": Offer(30)})
    s.to(s.world.lot(job, 0).reveal_end + LAPSE_S)
    s.ok("tasks", "lapse", "alice owner", job)
    for kind in (0, 1):
        s.ok("auction", "reclaim", "stranger", job, kind, s.ids["erin"])
    assert s.world.owed[COIN, s.accounts["alice owner"]] == s.world.posted_coin - 1 * POSTING_DEPOSIT


@scenario
def the_cap_of_a_third_yields_to_the_least_that_fills_the_lot(s: Stage) -> None:
    s.register_all()
    job = s.post(slots=6)
    s.bid_all(job, {"alice": Offer(60, 3), "bob": Offer(70), "carol": Offer(80)}, AGGREGATORS)
    s.reveal_all(job, {"alice": Offer(60), "bob": Offer(70), "carol": Offer(80)}, AGGREGATORS)
    s.no("auction: too few bids", "auction", "clear", "stranger", job, 0, s.order(job, 0))
    s.ok("auction", "reopen", "stranger", job, 0)
    # By capacity, in the order of their bids: what each wins. The largest and the second yield, in whatever order they open.
    markets = (
        (6, (6, 1, 1), (4, 1, 1)),
        (6, (1, 6, 6), (1, 3, 2)),
        (6, (6, 3, 1), (3, 3, 0)),
        (6, (3, 6, 1), (3, 3, 0)),
        (16, (16, 7, 1), (8, 7, 1)),
        (16, (1, 7, 16), (1, 7, 8)),
        (6, (3, 6, 1, 1), (2, 2, 1, 1)),
        (6, (2, 6, 6, 1), (2, 2, 2, 0)),
        (6, (5, 1, 4, 1, 1), (2, 1, 2, 1, 0)),
    )
    for slots, capacities, won in markets:
        for order in (1, -1):
            job = s.post(slots=slots)
            names = OPERATORS[: len(capacities)]
            offers = {
                name: Offer(60 + 5 * place, size)
                for place, (name, size) in enumerate(zip(names, capacities, strict=True))
            }
            s.bid_all(job, offers, AGGREGATORS)
            s.to(s.world.lot(job, 0).bid_end)
            for name in names[::order]:
                s.reveal(job, 0, name, offers[name])
            for name, offer in AGGREGATORS.items():
                s.reveal(job, 1, name, offer)
            s.to(s.world.lot(job, 0).reveal_end)
            s.award_all(job)
            assert tuple(s.world.bid(job, 0, s.ids[name]).won for name in names) == won


@scenario
def the_units_of_a_bid_need_stake(s: Stage) -> None:
    s.register_all()
    alice, job = s.ids["alice"], s.post(slots=18, quorum=1)
    s.ok("registry", "deposit", "alice owner", alice, s.tokens["zen"], 10**9)
    part = s.preset.min_stake // 16
    s.no("auction: stake below the capacity", "auction", "bid", "alice hot", *bid_args(s, job, 0, "alice", 17))
    s.ok("registry", "add_stake", "alice owner", alice, part - STAKE_UNIT)
    s.no("auction: stake below the capacity", "auction", "bid", "alice hot", *bid_args(s, job, 0, "alice", 17))
    s.no("auction: operator not eligible", "auction", "bid", "alice owner", *bid_args(s, job, 0, "alice", 17))
    s.ok("registry", "add_stake", "alice owner", alice, STAKE_UNIT)
    s.no("auction: stake below the capacity", "auction", "bid", "alice hot", *bid_args(s, job, 0, "alice", 18))
    s.ok("auction", "bid", "alice hot", *bid_args(s, job, 0, "alice", 17))


@scenario
def two_bidders_may_win_everything(s: Stage) -> None:
    s.register_all()
    job = s.running({"alice": Offer(60, 4), "bob": Offer(70, 2)}, {"dave": Offer(30)})
    assert s.world.seat(job, s.seat_of(job, "alice")).count == 4
    assert s.world.seat(job, s.seat_of(job, "alice")).price == (70 + 70 + 100 + 100) // 4
    assert s.world.seat(job, 128).price == 50
    s.ok("registry", "request_exit", "bob owner", s.ids["bob"])
    s.wait(s.preset.exit_delay_s)
    s.ok("registry", "withdraw_stake", "bob owner", s.ids["bob"])


def bid_args(s: Stage, job: int, kind: int, name: str, capacity: int = 1) -> tuple[Any, ...]:
    return (job, kind, s.ids[name], s.seal(job, kind, name, Offer(50, capacity)), capacity)
