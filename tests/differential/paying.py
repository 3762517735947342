"""Directed sequences about money: claims, release, rewards, treasury, hostile tokens, extremes; see `opening`."""

from dataclasses import replace

from zoo_compute.spec import bits, rewards
from zoo_compute.spec.state import JobState
from zoo_compute.spec.world import PROTOCOL_ONLY, WIRED

from .opening import AGGREGATORS, SLOTS, scenario
from .stage import Offer, Stage


@scenario
def claims_are_paid_once_after_their_window(s: Stage) -> None:
    s.register_all()
    job = s.running(SLOTS, AGGREGATORS, rounds=2)
    s.no("settlement: no claims", "settlement", "finalise", "stranger", job, ())
    s.commit_all(job)
    alice, bob = s.claims(job)
    assert (alice.operator, bob.key) == (s.ids["alice"], 2)

    def no(reason: str, *claims: object) -> None:
        s.no(f"settlement: {reason}", "settlement", "finalise", "stranger", job, claims)

    s.to(alice.deadline + 1)
    no("round still open", alice)
    s.no("settlement: round still open", "settlement", "finalise", "stranger", 99, (alice,))
    s.post_checkpoint(job)
    aggregation = s.claims(job)[-1]
    assert (aggregation.key, aggregation.deadline) == (256, s.now + 15)
    for forged in (
        replace(alice, operator=s.ids["bob"]),
        replace(alice, bitmap=0b1),
        replace(alice, root=b"x" * 32),
        replace(alice, deadline=0),
        replace(alice, key=1),
        replace(alice, key=2),
        replace(aggregation, key=0),
    ):
        no("unknown claim", forged)
    no("round still open", replace(alice, round=1))
    no("window open", aggregation)
    no("window open", alice, aggregation)
    no("unknown claim", alice, alice)
    s.to(aggregation.deadline)
    no("window open", bob, aggregation)
    s.to(aggregation.deadline + 1)
    s.ok("settlement", "finalise", "stranger", job, (bob, aggregation))
    no("unknown claim", bob)
    s.no("settlement: job not over", "settlement", "release", "stranger", job, s.ids["alice"])
    assert s.operator("bob").reputation == 2
    s.play_round(job)
    assert s.world.job(job).state == JobState.ENDED
    no("unknown claim", replace(alice, round=2))
    s.no("settlement: job not over", "settlement", "release", "stranger", job, s.ids["alice"])
    s.settle(job)
    s.no("settlement: no claims", "settlement", "finalise", "stranger", job, ())


@scenario
def a_claim_is_final_one_second_after_its_deadline(s: Stage) -> None:
    s.register_all()
    job = s.running({"alice": Offer(60, 4)}, {"dave": Offer(30)}, rounds=1, reexecute_s=3)
    assert s.world.run(job).window_s == 10  # the least window, above three re-executions
    s.play_round(job)
    slots, aggregation = s.claims(job)
    s.to(slots.deadline)
    s.no("settlement: window open", "settlement", "finalise", "stranger", job, (slots,))
    s.to(slots.deadline + 1)
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
def rewards_share_an_epochs_budget_up_to_the_fees_paid(s: Stage) -> None:
    s.register_all()
    alice, bob = s.ids["alice"], s.ids["bob"]
    s.no("rewards: zero amount", "rewards", "fund", "stranger", 0)
    s.no("erc20: transfer amount exceeds balance", "rewards", "fund", "stranger", 2 * 10**27)
    job = s.running({"alice": Offer(60, 2), "bob": Offer(70, 2), "carol": Offer(80)}, AGGREGATORS, rounds=1)
    s.play_round(job)
    s.to(max(claim.deadline for claim in s.claims(job)) + 1)
    epoch = rewards.epoch_of(s.world, s.now)
    s.ok("settlement", "finalise", "stranger", job, s.claims(job))
    s.no("rewards: epoch not over", "rewards", "claim", "stranger", alice, epoch)
    s.no("rewards: epoch not over", "rewards", "claim", "stranger", alice, epoch + 1)
    s.to((epoch + 1) * s.preset.epoch_s - 1)
    s.no("rewards: epoch not over", "rewards", "claim", "stranger", alice, epoch)
    s.to((epoch + 1) * s.preset.epoch_s)
    s.no("rewards: nothing to claim", "rewards", "claim", "stranger", alice, epoch)  # the pool is empty
    s.ok("rewards", "fund", "stranger", 9)
    s.no("rewards: nothing to claim", "rewards", "claim", "stranger", 99, epoch)
    s.no("rewards: nothing to claim", "rewards", "claim", "stranger", s.ids["dave"], epoch)
    s.no("rewards: nothing to claim", "rewards", "claim", "stranger", alice, epoch - 1)
    # Alice is consumer class (100 %), bob professional (150 %): of a budget of 9 she gets 3, he 5, and 1 is unspent.
    assert s.ok("rewards", "claim", "stranger", alice, epoch) == 3
    s.no("rewards: nothing to claim", "rewards", "claim", "stranger", alice, epoch)
    s.ok("rewards", "fund", "stranger", 10**6)
    assert s.ok("rewards", "claim", "stranger", bob, epoch) == 5
    assert s.world.pool == 10**6


@scenario
def a_reward_never_exceeds_the_fees_and_an_epoch_its_emission(s: Stage) -> None:
    s.register_all()
    s.ok("rewards", "fund", "stranger", s.preset.emission_per_epoch + 5)
    job = s.running(SLOTS, AGGREGATORS, rounds=1)
    s.play_round(job)
    s.settle(job)
    epoch = rewards.epoch_of(s.world, s.now)
    s.wait(s.preset.epoch_s)
    fees = 2 * 80 - 2 * 80 * 95 // 100
    assert s.ok("rewards", "claim", "stranger", s.ids["alice"], epoch) == fees
    assert s.ok("rewards", "claim", "stranger", s.ids["bob"], epoch) == fees
    assert s.world.pool == 5


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
    s.ok("tasks", "allow", "deployer", bad, True)
    s.ok("registry", "deposit", "stranger", alice, bad, 100)
    s.ok("token", "transfer", "stranger", bad, s.world.config.treasury, 10)
    s.ok("treasury", "collect", "stranger", bad)
    job = int(s.ok("tasks", "post", "submitter", replace(s.terms(), token=bad)))
    s.ok("tasks", "cancel", "submitter", job)
    s.ok("token", "refuse", "stranger", bad, True)
    s.no("registry: transfer failed", "registry", "deposit", "stranger", alice, bad, 1)
    s.no("registry: transfer failed", "registry", "withdraw", "alice owner", alice, bad, 1)
    s.no("tasks: transfer failed", "tasks", "post", "submitter", replace(s.terms(), token=bad))
    s.no("tasks: transfer failed", "tasks", "withdraw", "stranger", bad, s.accounts["submitter"])
    s.no("treasury: transfer failed", "treasury", "spend", "timelock", bad, 0, s.accounts["stranger"], 1)
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
    """256 slots: the full word of a bitmap, shared by two holders; prices at their most."""
    s.register_all()
    top = 10**20
    for name in ("alice", "bob", "dave"):
        s.ok("registry", "deposit", f"{name} owner", s.ids[name], s.tokens["zen"], 10**26)
    slots = {"alice": Offer(top - 1, 256, True), "bob": Offer(top, 200, True)}
    changes = {"slots": 256, "quorum": 1, "rounds": 2, "reserve": top, "max_price": top, "flops": 2**96 - 1}
    job = s.running(slots, {"dave": Offer(30)}, **changes)
    assert s.world.seat(job, s.ids["alice"]).held == bits.full(256)
    s.commit(job, "alice", 2**255 | 1)
    s.commit(job, "alice", bits.full(255) - 1)
    s.post_checkpoint(job)
    s.to(s.world.run(job).opened_at + 21)
    s.ok("settlement", "time_out", "stranger", job, s.ids["alice"], 2**255 | 2**128)
    s.take_over(job, 255, "bob")
    s.to(s.world.run(job).opened_at + 40)
    s.commit_all(job)
    s.to(s.world.run(job).inputs_close)
    s.post_checkpoint(job)
    s.settle(job)


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
    s.ok("settlement", "expire", "stranger", job, s.ids["bob"])
    s.take_over(job, 2, "carol", 3_600)
    s.take_over(job, 3, "carol", 3_600)
    for _ in range(2):
        s.wait(1_200)
        s.play_round(job)
    s.settle(job)
    epoch = rewards.epoch_of(s.world, s.now)
    s.to((epoch + 1) * s.preset.epoch_s)
    s.ok("rewards", "claim", "stranger", s.ids["carol"], epoch)
    s.ok("registry", "request_exit", "carol owner", s.ids["carol"])
    s.wait(s.preset.exit_delay_s - 1)
    s.no("registry: exit delay runs", "registry", "withdraw_stake", "carol owner", s.ids["carol"])
    s.wait(1)
    s.ok("registry", "withdraw_stake", "carol owner", s.ids["carol"])
