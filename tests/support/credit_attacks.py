"""Attacks on burn and mint, each played on the executable specification: what they earn the attacker over all its accounts, in ZEN.

A credit counts as one ZEN, which is the most that it can bring: both flatter the attacker. Gas and work cost nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.support.attacks import Attack, Outcome, wealth
from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import Stage
from zoo_compute.spec import credits
from zoo_compute.spec.params import DOLLAR

COLLATERAL = 10**6
BUDGET = 10_000  # credits that whoever posts a job buys
OWN = {"alice": Offer(60, 4)}, {"dave": Offer(30)}  # the attacker's operators
OTHERS = {"bob": Offer(60, 2), "carol": Offer(70, 2)}, {"erin": Offer(30)}
ATTACKER = ("submitter", "alice", "dave")
HONEST = ("stranger", "bob", "carol", "erin")
CHEAPEST = dict.fromkeys(("reserve", "max_price", "aggregator_reserve", "aggregator_max_price"), 1)
PLENTY = 10**9  # of a pool: far above what all work is worth

CREDIT_ATTACKS: list[Attack] = []


def attack(title: str, why: str) -> Callable[[Callable[[], Outcome]], Callable[[], Outcome]]:
    def kept(scenario: Callable[[], Outcome]) -> Callable[[], Outcome]:
        CREDIT_ATTACKS.append(Attack(title, why, scenario))
        return scenario

    return kept


def new_stage(pool: int = PLENTY) -> Stage:
    """Operators with pledged collateral, a rate of a dollar, a pool of mints, and no credits yet."""
    s = Stage(Coverage())
    s.register_all()
    for name in s.ids:
        s.ok("credits", "pledge", f"{name} owner", s.ids[name], COLLATERAL)
    s.ok("credits", "set_rate", "timelock", DOLLAR)
    s.ok("credits", "fund", "guardian", pool)
    s.ok("tasks", "allow", "deployer", s.tokens["credits"], True, 0)
    return s


def buy(s: Stage, name: str, amount: int = BUDGET) -> None:
    """So many credits, at the rate as it is."""
    s.ok("credits", "buy", name, amount * s.world.rate // DOLLAR, amount)


def worth(s: Stage, names: Sequence[str]) -> int:
    """ZEN and credits of accounts, a credit at one ZEN, but for those that are used up when they leave TaskRegistry."""
    total, token = wealth(s, names), s.tokens["credits"]
    for name in names:
        for account in account_names(s, name):
            address = s.accounts[account]
            total += s.world.balances.get((token, address), 0) + s.world.owed.get((token, address), 0)
            total -= s.world.credits_earned.get(address, 0)
        if name in s.ids:
            total += s.world.deposit_of(s.ids[name], token).balance
    return total


def account_names(s: Stage, name: str) -> tuple[str, ...]:
    return (f"{name} owner", f"{name} hot") if name in s.ids else (name,)


class Profit:
    """Of some accounts since now; at its end every share of a mint is claimed."""

    def __init__(self, s: Stage, *names: str) -> None:
        self.s, self.names = s, names
        self.before = worth(s, names)

    def taken(self) -> int:
        claim_all(self.s)
        return worth(self.s, self.names) - self.before


def claim_all(s: Stage) -> None:
    """Of epochs that are over, once the present one is."""
    s.to((credits.epoch_of(s.world, s.now) + 1) * s.preset.epoch_s)
    s.withdraw_all()
    for (account, epoch), share in sorted(s.world.mint_shares.items()):
        if share and credits.share_of(s.world, account, epoch):
            s.ok("credits", "claim", "sink", account, epoch)


def run_job(s: Stage, submitter: str, offers: tuple[dict[str, Offer], dict[str, Offer]], **changes: Any) -> int:
    """A job of one round up to the end of its windows; nothing is final yet."""
    s.submitter = submitter
    job = s.running(*offers, rounds=1, token="credits", **changes)
    s.play_round(job)
    s.to(s.deadline(job, *s.claims(job)) + 1)
    return job


def paid(s: Stage, *jobs: int) -> None:
    """All of them in one epoch: its start is waited for."""
    s.to((credits.epoch_of(s.world, s.now) + 1) * s.preset.epoch_s)
    for job in jobs:
        s.settle(job)


@attack("wash work", "of each payment a twentieth is the treasury's, and the mint is capped by what the work used up")
def wash_work() -> Outcome:
    s = new_stage()
    profit = Profit(s, *ATTACKER)
    buy(s, "submitter")
    paid(s, run_job(s, "submitter", OWN))
    return Outcome("holds every role of its own job, alone in the epoch; the pool is full", profit.taken())


@attack(
    "wash work in a crowded epoch", "crowding makes all shares smaller, its own too: it can harm others, and never pays"
)
def dilution() -> Outcome:
    alone = honest_alone()
    s = new_stage(500)
    profit, honest = Profit(s, *ATTACKER), Profit(s, *HONEST)
    buy(s, "submitter")
    buy(s, "stranger")
    paid(s, run_job(s, "stranger", OTHERS), run_job(s, "submitter", OWN))
    taken = profit.taken()
    loss = alone - (worth(s, HONEST) - honest.before)
    return Outcome(f"as above, beside honest work, in an epoch with a mint of 500; the others have {loss} less", taken)


def honest_alone() -> int:
    """What the others have in that epoch, without the attack."""
    s = new_stage(500)
    honest = Profit(s, *HONEST)
    buy(s, "stranger")
    paid(s, run_job(s, "stranger", OTHERS))
    return honest.taken()


@attack(
    "a refund claimed as work",
    "only what TaskRegistry pays for final claims counts; a refund is credits again, and no more",
)
def refund() -> Outcome:
    s = new_stage()
    profit = Profit(s, *ATTACKER)
    buy(s, "submitter")
    job = s.post(rounds=1, token="credits")
    s.ok("tasks", "cancel", "submitter", job)
    s.withdraw_all()
    s.wait(s.preset.epoch_s)
    epoch = credits.epoch_of(s.world, s.now) - 1
    s.no("credits: nothing to claim", "credits", "claim", "sink", s.accounts["submitter"], epoch)
    return Outcome("buys, posts, cancels, and claims", profit.taken())


@attack("credits spent twice", "credits that accepted work earned are used up on their way out of TaskRegistry")
def spent_twice() -> Outcome:
    s = new_stage()
    profit = Profit(s, *ATTACKER)
    buy(s, "submitter")
    paid(s, run_job(s, "submitter", OWN))
    terms = s.terms(rounds=1, token="credits", **CHEAPEST)
    s.no("erc20: transfer amount exceeds balance", "tasks", "post", "alice owner", terms, value=POSTING_DEPOSIT)
    return Outcome("works in its own job, and posts another with what it earned", profit.taken())


@attack("a rate for friends", "a credit is one burned ZEN at any rate: a better rate burns less, and brings less")
def friendly_rate() -> Outcome:
    return rates(
        "the poster is the attacker's: ten steps up before it buys, ten down before its work is accepted", 11, 9
    )


@attack("a stale rate", "the same: what was burned, and not what it was worth, is the most that comes back")
def stale_rate() -> Outcome:
    s = new_stage()
    profit = Profit(s, *ATTACKER)
    s.wait(s.preset.rate_stale_s)
    buy(s, "submitter")  # ZEN has fallen to a third, and the poster has not said so yet
    s.ok("credits", "set_rate", "timelock", DOLLAR // 3)
    paid(s, run_job(s, "submitter", OWN))
    taken = profit.taken()
    s.wait(s.preset.rate_stale_s)
    s.no("credits: rate is stale", "credits", "buy", "submitter", 1, 1)
    how = "buys in the last second of a rate three times too high; its work is accepted at the right one"
    return Outcome(how, taken)


@attack("a rate that fell after the purchase", "the same: whoever bought cheap credits burned few ZEN")
def fallen_rate() -> Outcome:
    return rates("buys when a ZEN is dear, and works when it is cheap", 9, 9)


def rates(how: str, before: int, after: int) -> Outcome:
    """before, after: tenths of the rate that each of ten steps makes, before the purchase and after it."""
    s = new_stage()
    profit = Profit(s, *ATTACKER)
    step(s, before)
    buy(s, "submitter")
    step(s, after)
    paid(s, run_job(s, "submitter", OWN))
    return Outcome(how, profit.taken())


def step(s: Stage, tenths: int) -> None:
    for _ in range(10):
        s.wait(s.preset.rate_step_s)
        last = s.world.rate
        rate = last + last // 10 if tenths > 10 else last - last // 10
        s.ok("credits", "post_rate", "deployer", rate)


@attack(
    "waiting for an empty epoch",
    "the cap is the same in every epoch: waiting saves the crowd's part, and never brings more than was burned",
)
def empty_epoch() -> Outcome:
    s = new_stage(500)
    profit = Profit(s, *ATTACKER)
    buy(s, "submitter")
    buy(s, "stranger")
    crowd, own = run_job(s, "stranger", OTHERS), run_job(s, "submitter", OWN)
    paid(s, crowd)
    s.ok("credits", "fund", "guardian", PLENTY)
    paid(s, own)
    return Outcome("finalises its own work an epoch after everybody else's", profit.taken())


@attack("first to claim", "a mint is set aside as work is accepted, so the order of claims changes nothing")
def first_to_claim() -> Outcome:
    taken = []
    for order in (("alice owner", "bob owner"), ("bob owner", "alice owner")):
        s = new_stage(500)
        profit = Profit(s, *ATTACKER)
        buy(s, "submitter")
        buy(s, "stranger")
        paid(s, run_job(s, "submitter", OWN), run_job(s, "stranger", OTHERS))
        epoch = credits.epoch_of(s.world, s.now)
        s.to((epoch + 1) * s.preset.epoch_s)
        for name in order:
            s.ok("credits", "claim", "sink", s.accounts[name], epoch)
        taken.append(profit.taken())
    return Outcome(
        "claims before the others, from a pool that does not reach for all, against claiming last", taken[0] - taken[1]
    )


@attack("dust", "a fee is rounded up and a share down: the smallest payments cost most")
def dust() -> Outcome:
    s = new_stage()
    profit = Profit(s, *ATTACKER)
    buy(s, "submitter")
    paid(s, run_job(s, "submitter", ({"alice": Offer(1, 4)}, {"dave": Offer(1)}), **CHEAPEST))
    return Outcome("wash work at prices of one smallest unit", profit.taken())


@attack(
    "a pledged lock, slashed and found by oneself",
    "what is slashed is no pledge any more: the finder has credits, of which most are burned",
)
def slashed_pledge() -> Outcome:
    s = new_stage()
    profit = Profit(s, *ATTACKER, "sink")
    buy(s, "submitter")
    s.submitter = "submitter"
    job = s.running(*OWN, rounds=1, token="credits")
    s.commit_all(job)
    claim = next(claim for claim in s.claims(job) if claim.operator == s.ids["alice"])
    s.convict(job, claim, "sink")
    s.withdraw_all()
    alice, token = s.ids["alice"], s.tokens["credits"]
    s.ok("registry", "withdraw", "alice owner", alice, token, s.world.deposit_of(alice, token).free)
    return Outcome("lies with pledged collateral, seals the lie itself, and takes the rest out", profit.taken())


@attack(
    "paying with a pledge",
    "the ZEN of a pledge leaves only for credits: whoever spends those leaves it behind, as if burned",
)
def spent_pledge() -> Outcome:
    """Alice's operator goes to another owner, who has no pledge: it takes the collateral out as credits."""
    s = new_stage()
    profit = Profit(s, *ATTACKER, "sink")
    alice, token = s.ids["alice"], s.tokens["credits"]
    s.ok("registry", "offer_owner", "alice owner", alice, s.accounts["sink"])
    s.ok("registry", "accept_owner", "sink", alice)
    s.ok("registry", "withdraw", "sink", alice, token, BUDGET)
    s.ok("token", "transfer", "sink", token, s.accounts["submitter"], BUDGET)
    paid(s, run_job(s, "submitter", OWN))
    assert s.world.pledges[s.accounts["alice owner"]] == COLLATERAL
    return Outcome(
        "takes pledged collateral out as credits by another owner, and pays its own job with them", profit.taken()
    )


@attack(
    "credits of the unlucky",
    "whatever credits sold for, one ZEN was burned for each: seller and buyer together have less",
)
def bought_credits() -> Outcome:
    s = new_stage()
    profit = Profit(s, *ATTACKER, "guardian")
    buy(s, "guardian")
    s.ok("token", "transfer", "guardian", s.tokens["credits"], s.accounts["submitter"], BUDGET)
    s.ok("token", "transfer", "submitter", s.tokens["zen"], s.accounts["guardian"], BUDGET // 2)
    paid(s, run_job(s, "submitter", OWN))
    return Outcome("buys somebody's credits at half price for wash work; the two together", profit.taken())


@attack(
    "a share claimed twice, or too early", "a share is zero once claimed, and an epoch's total is fixed when it is over"
)
def twice() -> Outcome:
    s = new_stage()
    profit = Profit(s, *ATTACKER)
    buy(s, "submitter")
    paid(s, run_job(s, "submitter", OWN))
    epoch, alice = credits.epoch_of(s.world, s.now), s.accounts["alice owner"]
    s.no("credits: epoch not over", "credits", "claim", "sink", alice, epoch)
    taken = profit.taken()
    s.no("credits: nothing to claim", "credits", "claim", "sink", alice, epoch)
    return Outcome("claims in the epoch, after it, and again", taken)
