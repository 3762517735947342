"""Directed sequences about sponsored registrations, tiers, promised hours and ring places; see `opening`."""

from dataclasses import replace
from typing import Any

from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import bid_args, scenario
from zoo_compute.spec.params import PERIODS, RING, STAKE_UNIT
from zoo_compute.spec.promises import promised
from zoo_compute.spec.state import ZERO_ADDRESS, Consent, Declaration, JobState

ALL = 2**PERIODS - 1


def consent_args(s: Stage, owner: str, hot: str, **changes: Any) -> tuple[Any, ...]:
    """What `register_for` takes when both keys, by name, signed for it."""
    terms = {
        "owner": s.accounts[owner],
        "hot": s.accounts[hot],
        "gpu_class": 3,
        "vram_gb": 80,
        "stake": s.preset.min_stake,
        "endpoint": "http://sponsored",
        "deadline": s.now + 50,
    }
    terms.update(changes)
    nonce = s.world.nonces.get(terms["owner"], 0)
    signed = Consent(signer=s.accounts[owner], nonce=nonce, **terms)
    return (*terms.values(), signed, replace(signed, signer=s.accounts[hot]))


@scenario
def a_sponsor_registers_whom_both_its_keys_signed_for(s: Stage) -> None:
    def no(reason: str, *args: Any) -> None:
        s.no(f"registry: {reason}", "registry", "register_for", "stranger", *args)

    args = consent_args(s, "alice owner", "alice hot")
    *terms, of_owner, of_hot = args
    no("owner did not sign", *terms, of_hot, of_hot)
    no("hot key did not sign", *terms, of_owner, of_owner)
    for field, value in (("nonce", 1), ("vram_gb", 81), ("endpoint", "http://s"), ("deadline", s.now)):
        no("owner did not sign", *terms, replace(of_owner, **{field: value}), of_hot)
        no("hot key did not sign", *terms, of_owner, replace(of_hot, **{field: value}))
    no("owner did not sign", ZERO_ADDRESS, *terms[1:], of_owner, of_hot)
    no("zero hot key", terms[0], ZERO_ADDRESS, *terms[2:], of_owner, of_hot)
    s.no(
        "erc20: transfer amount exceeds balance",
        "registry",
        "register_for",
        s.accounts["alice hot"],
        *consent_args(s, "alice owner", "alice hot", stake=2 * 10**27),
    )
    assert s.ok("registry", "register_for", "stranger", *args) == 1
    no("owner did not sign", *args)
    s.to(terms[-1])
    late = consent_args(s, "alice owner", "bob hot", deadline=s.now)
    s.wait(1)
    no("consent expired", *late)
    again = consent_args(s, "alice owner", "bob hot", deadline=s.now, gpu_class=1, vram_gb=8)
    no("stake has dust", *again[:4], again[4] + 1, *again[5:])
    assert s.ok("registry", "register_for", "bob owner", *again) == 2
    assert s.world.nonces[s.accounts["alice owner"]] == 2
    assert s.world.operator(2).owner == s.accounts["alice owner"]
    s.no("registry: not the owner", "registry", "request_exit", "bob owner", 2)


@scenario
def tiers_need_their_machine_and_bind_from_the_next_epoch(s: Stage) -> None:
    alice = s.register("alice", gpu_class=3, vram_gb=79)
    bob = s.register("bob", gpu_class=2, vram_gb=80)
    carol = s.register("carol", gpu_class=3, vram_gb=80)

    def no(reason: str, name: str, *args: int) -> None:
        s.no(f"registry: {reason}", "registry", "declare", f"{name} owner", *args)

    s.no("registry: not the owner", "registry", "declare", "alice hot", alice, 4, ALL + 1)
    no("not the owner", "alice", 99, 0, 0)
    no("unknown tier", "alice", alice, 4, ALL + 1)
    no("hours out of range", "bob", bob, 1, ALL + 1)
    no("class below the tier", "bob", bob, 1, 0)
    no("too little VRAM for the tier", "alice", alice, 2, 0)
    no("tier without hours", "alice", alice, 1, 0)
    epoch = s.now // s.preset.epoch_s
    s.ok("registry", "declare", "alice owner", alice, 1, 1)
    s.ok("registry", "declare", "bob owner", bob, 0, ALL)
    s.ok("registry", "declare", "carol owner", carol, 2, 0b11)
    s.ok("registry", "declare", "carol owner", carol, 3, 0b111)  # nothing of it was in force
    assert s.world.declarations[carol] == Declaration(3, 0b111, epoch + 1)
    s.to((epoch + 1) * s.preset.epoch_s)
    no("declared in the last epoch", "carol", carol, 0, 0)
    s.to((epoch + 2) * s.preset.epoch_s)
    s.ok("registry", "declare", "carol owner", carol, 0, 0)
    assert s.world.declarations[carol] == Declaration(0, 0, epoch + 3, 3, 0b111, epoch + 1)


@scenario
def promised_hours_without_a_heartbeat_cost_stake_and_tier(s: Stage) -> None:
    s.register_all("alice", "bob", "carol")  # of the classes 1, 2, 3
    alice, carol, length = s.ids["alice"], s.ids["carol"], s.preset.epoch_s
    first = s.now // length + 1
    s.ok("registry", "declare", "alice owner", alice, 0, ALL)
    s.ok("registry", "declare", "carol owner", carol, 1, 0b110)
    s.no("registry: epoch not over", "registry", "breach", "stranger", alice, first - 1)
    for operator, sender in ((alice, "alice owner"), (99, "alice hot")):
        s.no("registry: not the hot key", "registry", "heartbeat", sender, operator)
    for period in range(PERIODS):
        s.to(first * length + -(-period * length // PERIODS))
        if period not in (0, 7):
            s.ok("registry", "heartbeat", "alice hot", alice)
            s.no("registry: period already counted", "registry", "heartbeat", "alice hot", alice)
        if period in (1, 3):
            s.ok("registry", "heartbeat", "carol hot", carol)
    assert s.world.total_beats[first] == PERIODS
    s.to((first + 1) * length - 1)
    s.no("registry: epoch not over", "registry", "breach", "stranger", alice, first)
    s.wait(1)
    s.no("registry: nothing declared", "registry", "breach", "stranger", alice, first - 1)
    s.no("registry: nothing declared", "registry", "breach", "stranger", s.ids["bob"], first)
    zen, paid = s.tokens["zen"], s.world.balances[s.tokens["zen"], s.accounts["stranger"]]
    for operator in (alice, carol):  # two of 24 missed where one may be; one of two where none may be
        s.ok("registry", "breach", "stranger", operator, first)
        s.no("registry: epoch already judged", "registry", "breach", "stranger", operator, first)
        assert s.world.operator(operator).stake == s.preset.min_stake * 99 // 100
    # Whoever shows it has a tenth, the rest burns.
    assert s.world.balances[zen, s.accounts["stranger"]] - paid == 2 * s.preset.min_stake // 1_000
    assert s.world.burned[zen] == 2 * s.preset.min_stake * 9 // 1_000
    # The tier is lost from the next epoch on: receipts of this one are signed by it already.
    assert [promised(s.world, carol, first + n).tier for n in (0, 1, 2)] == [1, 1, 0]
    s.no("auction: operator not eligible", "auction", "bid", "alice hot", *bid_args(s, s.post(), 0, "alice"))
    for period in range(1, PERIODS):
        s.to((first + 1) * length + -(-period * length // PERIODS))
        s.ok("registry", "heartbeat", "alice hot", alice)
    s.to((first + 2) * length)
    s.no("registry: promise kept", "registry", "breach", "stranger", alice, first + 1)
    s.ok("registry", "request_exit", "alice owner", alice)
    s.ok("registry", "heartbeat", "alice hot", alice)
    s.to(max(s.world.operator(alice).exit_at, (first + 3) * length))
    s.ok("registry", "breach", "stranger", alice, first + 2)  # also while it exits
    s.ok("registry", "withdraw_stake", "alice owner", alice)
    s.no("registry: nothing staked", "registry", "heartbeat", "alice hot", alice)
    assert s.world.operator(alice).stake == 0


@scenario
def a_breach_takes_the_tier_from_the_next_epoch_on(s: Stage) -> None:
    carol, length = s.register("carol", gpu_class=3), s.preset.epoch_s
    first = s.now // length + 1

    def tiers(*epochs: int) -> list[int]:
        return [promised(s.world, carol, first + n).tier for n in epochs]

    def breach(epoch: int) -> None:
        s.to((first + epoch + 1) * length)
        s.ok("registry", "breach", "stranger", carol, first + epoch)

    s.ok("registry", "declare", "carol owner", carol, 1, 0b110)
    breach(0)
    assert tiers(0, 1, 2) == [1, 1, 0]
    s.ok("registry", "declare", "carol owner", carol, 1, 0b11)  # promised anew, after the breach
    assert tiers(1, 2) == [1, 1]
    breach(1)
    assert tiers(1, 2, 3) == [1, 1, 0]
    breach(2)  # it has no tier to lose: what is lost stays lost
    assert tiers(2, 3, 4) == [1, 0, 0]
    s.to((first + 4) * length)
    s.ok("registry", "declare", "carol owner", carol, 1, 0b1)  # before the breach: nothing of it was in force
    assert tiers(4, 5) == [0, 1]
    breach(3)
    assert tiers(4, 5) == [0, 0]
    assert promised(s.world, carol, first + 5).hours == 0b1


@scenario
def a_changed_promise_leaves_the_running_epoch_as_it_was(s: Stage) -> None:
    alice, length = s.register("alice"), s.preset.epoch_s
    first = s.now // length + 1
    for offset in (-1, 1, 3):
        s.to((first + offset) * length)
        s.ok("registry", "declare", "alice owner", alice, 0, 1 << 5 + offset)
    s.no("registry: nothing declared", "registry", "breach", "stranger", alice, first + 1)  # it had an epoch's time
    s.ok("registry", "breach", "stranger", alice, first + 2)  # by what was declared in first + 1
    s.to((first + 4) * length)
    s.ok("registry", "breach", "stranger", alice, first + 3)  # not by what was declared in it
    assert s.world.operator(alice).stake == s.preset.min_stake * 99 * 99 // 100**2 // STAKE_UNIT * STAKE_UNIT


@scenario
def a_bid_takes_the_place_of_a_spent_one_256_jobs_before(s: Stage) -> None:
    s.register_all()
    slots = {
        "alice": Offer(60, 2),  # wins
        "bob": Offer(70, 2),  # wins
        "carol": Offer(80, 2),  # loses
        "erin": Offer(90, 2),  # loses
    }
    job = s.post(rounds=1)
    s.bid_all(job, slots, {"dave": Offer(30)})
    s.bid(job, 0, "dave", Offer(75))  # never opened
    for _ in range(RING - 1):
        s.post(rounds=1)
    s.reveal_all(job, slots, {"dave": Offer(30)})
    later = s.post(rounds=1)
    assert later == job + RING

    def stands(*names: str) -> None:
        for name in names:
            s.no("auction: already bid", "auction", "bid", f"{name} hot", *bid_args(s, later, 0, name))

    stands("alice", "bob", "carol", "dave", "erin")
    s.no("auction: no bid", "auction", "reclaim", "stranger", later, 0, s.ids["dave"])
    s.ok("auction", "clear", "stranger", job, 0, s.order(job, 0)[:3])
    stands("carol", "erin")
    s.ok("auction", "clear", "stranger", job, 0, s.order(job, 0)[3:])
    s.bid(later, 0, "carol", Offer(80))
    stands("alice", "bob")
    winners = s.winners(job, 0)
    s.ok("auction", "award", "stranger", job, 0, winners[:1])
    s.bid(later, 0, "alice", Offer(60))
    stands("bob", "dave")
    s.ok("auction", "award", "stranger", job, 0, winners[1:])
    s.ok("auction", "clear", "stranger", job, 1, s.order(job, 1))
    s.ok("auction", "award", "stranger", job, 1, s.winners(job, 1))
    stands("dave")
    s.ok("auction", "reclaim", "stranger", job, 0, s.ids["dave"])
    for name in ("bob", "dave", "erin"):
        s.bid(later, 0, name, Offer(90))
    s.ready(job, "alice")
    s.ready(job, "bob")
    s.play_round(job)
    assert s.world.job(job).state == JobState.ENDED
    s.settle(job)


@scenario
def a_lock_that_does_not_fit_is_refused_at_posting(s: Stage) -> None:
    most = {"slots": 16_384, "rounds": 100, "max_price": 2**80 - 1, "aggregator_max_price": 2**80 - 1}
    s.no("auction: lock out of range", "tasks", "post", "submitter", s.terms(**most, depth=16), value=POSTING_DEPOSIT)
    s.no("auction: lock out of range", "tasks", "post", "submitter", s.terms(**most, depth=4), value=POSTING_DEPOSIT)
    s.no(
        "erc20: transfer amount exceeds balance",
        "tasks",
        "post",
        "submitter",
        s.terms(**most, depth=3),
        value=POSTING_DEPOSIT,
    )
