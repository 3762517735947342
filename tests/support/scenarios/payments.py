"""Directed sequences about money: claims, release, treasury, hostile tokens, extremes; see `opening`."""

from dataclasses import replace

from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from zoo_compute.spec import rewards
from zoo_compute.spec.state import JobState
from zoo_compute.spec.world import PROTOCOL_ONLY, WIRED


@scenario
def claims_are_paid_once_after_their_window(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=2)
    s.no("settlement: no claims", "settlement", "finalise", "stranger", job, ())
    s.commit_all(job)
    alice, bob = s.claims(job)
    assert (alice.operator, bob.seat) == (s.ids["alice"], s.seat_of(job, "bob"))

    def no(reason: str, *claims: object) -> None:
        s.no(f"settlement: {reason}", "settlement", "finalise", "stranger", job, claims)

    s.wait(s.world.run(job).window_s + 1)
    no("window open", alice)
    s.no("settlement: unknown claim", "settlement", "finalise", "stranger", 99, (alice,))
    aggregation = s.post_checkpoint(job)
    # The window of every claim of a turn begins with the turn's close.
    assert s.deadline(job, alice) == s.deadline(job, aggregation) == s.now + 15
    for forged in (
        replace(alice, operator=s.ids["bob"]),
        replace(alice, scope=1),
        replace(alice, price=alice.price + 1),
        replace(alice, root=b"x" * 32),
        replace(alice, start_root=b"x" * 32),
        replace(alice, round=1),
        replace(alice, turn=2),
        replace(alice, turn=2**256 - 1),
        replace(alice, seat=bob.seat),
        replace(alice, seat=2**256 - 1),
        replace(aggregation, seat=alice.seat),
    ):
        no("unknown claim", forged)
    no("window open", aggregation)
    no("window open", alice, aggregation)
    s.to(s.deadline(job, aggregation))
    no("window open", bob, aggregation)
    s.to(s.deadline(job, aggregation) + 1)
    no("unknown claim", alice, alice)
    s.ok("settlement", "finalise", "stranger", job, (bob, aggregation))
    no("unknown claim", bob)
    s.no("settlement: seat still occupied", "locks", "release", "stranger", job, s.ids["alice"])
    s.play_round(job)
    assert s.world.job(job).state == JobState.ENDED
    s.no("settlement: claims not final", "locks", "release", "stranger", job, s.ids["alice"])
    s.settle(job)
    no("unknown claim", alice)
    s.no("settlement: no claims", "settlement", "finalise", "stranger", job, ())


@scenario
def claims_of_one_operator_are_paid_together_and_its_fee_is_rounded_once(s: Stage) -> None:
    s.register_all()
    changes = {"reserve": 33, "max_price": 33, "rounds": 3}
    job = s.running({"alice": Offer(33, 4)}, {"alice": Offer(11)}, **changes)
    for _ in range(3):
        s.play_round(job)
    claims = s.claims(job)
    s.to(s.deadline(job, *claims) + 1)
    slots = tuple(claim for claim in claims if not claim.is_aggregation)
    s.ok("settlement", "finalise", "stranger", job, slots)
    # 396 in one payment: 19.8 of fee, rounded up once; three payments of 132 would have paid 21.
    assert s.world.job_ledgers[job].fees == 20
    s.settle(job)


@scenario
def a_claim_is_final_one_second_after_its_deadline(s: Stage) -> None:
    s.register_all()
    job = s.running({"alice": Offer(60, 4)}, {"dave": Offer(30)}, rounds=1, reexecute_s=3)
    assert s.world.run(job).window_s == 10  # the least window, above three re-executions
    s.play_round(job)
    slots, aggregation = s.claims(job)
    s.to(s.deadline(job, slots))
    s.no("settlement: window open", "settlement", "finalise", "stranger", job, (slots,))
    s.to(s.deadline(job, slots) + 1)
    s.ok("settlement", "finalise", "stranger", job, (slots,))
    s.ok("settlement", "finalise", "stranger", job, (aggregation,))
    s.settle(job)


@scenario
def an_operator_with_both_seats_is_released_from_both(s: Stage) -> None:
    s.register_all()
    job = s.running({"alice": Offer(60, 4)}, {"alice": Offer(30)}, rounds=1)
    assert s.operator("alice").locks == 2
    s.play_round(job)
    s.settle(job)
    assert s.operator("alice").locks == 0
    s.ok("registry", "request_exit", "alice owner", s.ids["alice"])
    s.wait(s.preset.exit_delay_s)
    s.ok("registry", "withdraw_stake", "alice owner", s.ids["alice"])


@scenario
def the_treasury_splits_what_arrived_and_the_timelock_spends(s: Stage) -> None:
    s.register_all()
    zen, treasury = s.tokens["zen"], s.world.config.treasury
    s.no("treasury: nothing to collect", "treasury", "collect", "stranger", zen)
    job = s.running({"alice": Offer(60, 4)}, {"dave": Offer(30)}, rounds=1)
    s.play_round(job)
    s.settle(job)
    s.ok("token", "transfer", "stranger", zen, treasury, 7)
    arrived = 4 * 100 // 20 + (50 - 50 * 95 // 100) + 7
    assert s.ok("treasury", "collect", "stranger", zen) == arrived == 30
    s.no("treasury: nothing to collect", "treasury", "collect", "stranger", zen)
    assert [s.world.buckets[zen, bucket] for bucket in range(3)] == [15, 9, 6]
    s.ok("token", "transfer", "stranger", zen, treasury, 9)  # 2 for audits, 1 for grants; the dust is development's
    s.ok("treasury", "collect", "stranger", zen)
    assert [s.world.buckets[zen, bucket] for bucket in range(3)] == [21, 11, 7]
    s.ok("token", "transfer", "stranger", s.tokens["usd"], treasury, 10**18)  # enough to show each basis point
    s.ok("treasury", "collect", "stranger", s.tokens["usd"])
    assert [s.world.buckets[s.tokens["usd"], bucket] for bucket in range(3)] == [5 * 10**17, 3 * 10**17, 2 * 10**17]
    to = s.accounts["stranger"]
    for sender in ("deployer", "guardian", "stranger"):
        s.no("treasury: not the governor", "treasury", "spend", sender, zen, 3, to, 99)
    for bucket in (3, 2**256 - 1):
        s.no("treasury: unknown bucket", "treasury", "spend", "timelock", zen, bucket, to, 99)
    s.no("treasury: amount exceeds bucket", "treasury", "spend", "timelock", zen, 1, to, 12)
    s.ok("treasury", "spend", "timelock", zen, 1, to, 11)
    s.no("treasury: amount exceeds bucket", "treasury", "spend", "timelock", zen, 1, to, 1)
    s.no("treasury: nothing to collect", "treasury", "collect", "stranger", zen)


@scenario
def a_bucket_is_funded_whole_and_what_arrived_before_is_split(s: Stage) -> None:
    zen, treasury = s.tokens["zen"], s.world.config.treasury
    for bucket in (3, 2**256 - 1):
        s.no("treasury: unknown bucket", "treasury", "fund", "stranger", zen, bucket, 0)
    s.no("treasury: zero amount", "treasury", "fund", "stranger", zen, 2, 0)
    s.ok("token", "transfer", "stranger", zen, treasury, 10)
    for bucket, amount in ((0, 100), (1, 200), (2, 300)):
        s.ok("treasury", "fund", "stranger", zen, bucket, amount)
    assert [s.world.buckets[zen, bucket] for bucket in range(3)] == [100, 200, 300]
    assert s.ok("treasury", "collect", "stranger", zen) == 10
    assert [s.world.buckets[zen, bucket] for bucket in range(3)] == [105, 203, 302]
    s.no("erc20: transfer amount exceeds balance", "treasury", "fund", "stranger", zen, 0, 10**30)


@scenario
def gifts_to_the_contracts_belong_to_nobody(s: Stage) -> None:
    s.register_all()
    config, zen = s.world.config, s.tokens["zen"]
    for contract in (config.registry, config.tasks, config.rewards):
        s.ok("token", "transfer", "stranger", zen, contract, 1_000)
    job = s.running(SLOTS, AGGREGATORS, rounds=1)
    s.play_round(job)
    s.settle(job)
    assert all(s.world.balances[zen, contract] >= 1_000 for contract in (config.registry, config.tasks))


@scenario
def a_token_that_answers_false_is_refused(s: Stage) -> None:
    s.register("alice")
    alice, bad = s.ids["alice"], s.tokens["bad"]
    s.ok("tasks", "allow", "deployer", bad, True, 0)
    s.ok("registry", "deposit", "stranger", alice, bad, 100)
    s.ok("token", "transfer", "stranger", bad, s.world.config.treasury, 10)
    s.ok("treasury", "collect", "stranger", bad)
    job = int(s.ok("tasks", "post", "submitter", replace(s.terms(), token=bad), value=POSTING_DEPOSIT))
    s.ok("tasks", "cancel", "submitter", job)
    s.ok("token", "refuse", "stranger", bad, True)
    s.no("registry: transfer failed", "registry", "deposit", "stranger", alice, bad, 1)
    s.no("registry: transfer failed", "registry", "withdraw", "alice owner", alice, bad, 1)
    s.no("tasks: transfer failed", "tasks", "post", "submitter", replace(s.terms(), token=bad), value=POSTING_DEPOSIT)
    s.no("tasks: transfer failed", "tasks", "withdraw", "stranger", bad, s.accounts["submitter"])
    s.no("treasury: transfer failed", "treasury", "spend", "timelock", bad, 0, s.accounts["stranger"], 1)
    s.no("treasury: transfer failed", "treasury", "fund", "stranger", bad, 0, 1)
    s.ok("token", "refuse", "stranger", bad, False)
    s.ok("tasks", "withdraw", "stranger", bad, s.accounts["submitter"])


@scenario
def what_only_contracts_may_call_refuses_accounts(s: Stage) -> None:
    for contract, functions in PROTOCOL_ONLY.items():
        for function, reason in functions.items():
            for sender in ("deployer", "guardian", "stranger"):
                s.no(reason, contract, function, sender)


@scenario
def contracts_are_wired_once_by_their_deployer(s: Stage) -> None:
    for contract in WIRED:
        s.no(f"{contract}: not the deployer", contract, "wire", "stranger")
        s.no(f"{contract}: already wired", contract, "wire", "deployer")


@scenario
def the_largest_job_fits_its_words(s: Stage) -> None:
    """16,384 slots shared by two holders, prices and flops at their most."""
    s.register_all()
    top = 10**20
    for name in ("alice", "bob", "dave"):
        s.ok("registry", "deposit", f"{name} owner", s.ids[name], s.tokens["zen"], 10**26)
    for name in ("alice", "bob"):
        s.back(name, 10_000)
    slots = {"alice": Offer(top - 1, 10_000), "bob": Offer(top, 10_000)}
    prices = {"reserve": top, "max_price": top}
    changes = {"slots": 16_384, "quorum": 1, "rounds": 2, "flops": 2**96 - 1, "depth": 16}
    job = s.running(slots, {"dave": Offer(30)}, **prices, **changes)
    s.play_round(job)
    s.commit(job, "alice")
    s.to(s.world.run(job).opened_at + 21)
    s.ok("settlement", "time_out", "stranger", job, s.seat_of(job, "bob"))
    s.take_over(job, 0 if s.world.seat(job, 0).operator == 0 else 1, "bob", 256)
    s.commit_all(job)
    s.to(s.world.run(job).inputs_close)
    s.post_checkpoint(job)
    s.settle(job)


@scenario
def a_dear_round_stands_open_for_longer(s: Stage) -> None:
    s.register_all()
    usd = s.tokens["usd"]
    for value, windows in ((721, 1), (720, 2), (240, 4), (1, 4)):  # a round may cost 4 * 160 + 80
        s.ok("tasks", "allow", "deployer", usd, True, value)
        job = s.post(token="usd")
        s.ok("tasks", "allow", "deployer", usd, True, 0)  # what was posted keeps its windows
        s.bid_all(job, SLOTS, AGGREGATORS)
        s.reveal_all(job, SLOTS, AGGREGATORS)
        s.award_all(job)
        for name in ("alice", "bob"):
            s.ready(job, name)
        assert s.world.run(job).window_s == windows * 15
        s.commit_all(job)
        assert s.deadline(job, s.post_checkpoint(job)) == s.now + windows * 15


@scenario
def a_whole_job_in_production_time_by_time_travel(s: Stage) -> None:
    """Hours and days as the production preset has them; the same story as on a devnet."""
    s.register_all()
    changes = {"slot_s": 3_600, "aggregate_s": 900, "reexecute_s": 3_000, "rounds": 2}
    s.ok("rewards", "fund", "stranger", 10**20)
    job = s.awarded(SLOTS, AGGREGATORS, **changes)
    run = s.world.run(job)
    assert run.window_s == 9_000
    s.ready(job, "alice")
    s.to(run.opened_at + s.preset.ready_window_s + 1)
    bob = s.seat_of(job, "bob")
    s.ok("settlement", "expire", "stranger", job, bob)
    s.take_over(job, bob, "carol", 1, 3_600)
    s.take_over(job, bob, "carol", 1, 3_600)
    for _ in range(2):
        s.wait(1_200)
        s.play_round(job)
    s.settle(job)
    epoch = rewards.epoch_of(s.world, s.now)
    s.to((epoch + 1) * s.preset.epoch_s)
    s.ok("rewards", "claim", "stranger", s.ids["carol"], epoch, (job,))
    s.ok("registry", "request_exit", "carol owner", s.ids["carol"])
    s.wait(s.preset.exit_delay_s - 1)
    s.no("registry: exit delay runs", "registry", "withdraw_stake", "carol owner", s.ids["carol"])
    s.wait(1)
    s.ok("registry", "withdraw_stake", "carol owner", s.ids["carol"])
