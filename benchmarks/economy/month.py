"""A month of burn and mint on the executable specification: epochs of a day, with jobs, a walking rate, and hostile play.

Every call is checked against the invariants of `tests.support.lockstep.invariants`; `settle_day` checks what the mint promises.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.support.credit_attacks import account_names, worth
from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import Stage
from zoo_compute.spec import credits
from zoo_compute.spec.params import BPS, DEVNET, DOLLAR, RATE_STEP_BPS, ZEN
from zoo_compute.spec.state import MintEpoch

RESULT = Path(__file__).parents[1] / "results" / "burn_and_mint.json"
DAY_S = 86_400
PRESET = replace(DEVNET, epoch_s=DAY_S, rate_step_s=3_600, rate_stale_s=DAY_S, mint_per_epoch=60 * ZEN)
POOL = 1_500 * ZEN
RATE = 2 * DOLLAR // 5  # of the first day: a ZEN is 40 cents
COLLATERAL = 20_000 * ZEN
POSTS_A_DAY = 8  # of the poster
SILENT = range(12, 15)  # days without a rate
HONEST = ("alice", "bob", "carol", "dave")  # operators; the first three bid for slots
WASH = ("guardian", "erin")  # a submitter and the operator that holds every role in its jobs
PAYERS = ("submitter", "stranger")
PRICES = (30, 60, 120)  # cents of a slot-round, that a submitter pays at most
CROWD = range(20, 24)  # days on which the self-dealer burns a multiple


@dataclass
class Day:
    """What happened in an epoch; amounts in smallest units of ZEN."""

    day: int
    rate: int = 0
    jobs: int = 0
    wash_jobs: int = 0
    refused: int = 0  # purchases and jobs, for a stale rate
    burned: int = 0
    accepted: int = 0
    mint: int = 0
    claimed: int = 0
    wash_profit: int = 0  # since the month's start
    refunded: int = 0  # credits that came back unused
    convictions: int = 0


@dataclass
class Month:
    """A seeded month. `days`: what happened."""

    seed: int
    days: list[Day] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.s = Stage(Coverage(), preset=PRESET)
        self.s.to((self.s.now // DAY_S + 1) * DAY_S)
        self.s.register_all()
        for name in (*HONEST, "erin"):
            self.s.ok("credits", "pledge", f"{name} owner", self.s.ids[name], COLLATERAL)
        self.s.ok("credits", "set_rate", "timelock", RATE)
        self.s.ok("credits", "fund", "deployer", POOL)
        self.s.ok("tasks", "allow", "deployer", self.s.tokens["credits"], True, 0)
        self.token, self.first = self.s.tokens["credits"], credits.epoch_of(self.s.world, self.s.now)
        self.wash_before = worth(self.s, WASH)
        self.received: dict[str, int] = {}
        self.accepted: dict[str, int] = {}

    def run(self, days: int) -> None:
        for number in range(days):
            self.play_day(number)
            self.settle_day()

    def play_day(self, number: int) -> None:
        day, before = Day(number), self.s.world.zen_burned
        self.days.append(day)
        if number == SILENT.stop:
            # The market moved on while the poster was silent; the governor sets the rate.
            self.s.ok("credits", "set_rate", "timelock", self.s.world.rate * 3 // 5)
        for hour in sorted(self.random.sample(range(20), POSTS_A_DAY)):
            self.s.to(max(self.s.now, (self.first + number) * DAY_S + hour * 3_600))
            if number not in SILENT:
                self.post_rate()
            if self.random.random() < 0.35:
                self.job(day, self.random.choice(PAYERS))
            if self.random.random() < (0.5 if number in CROWD else 0.1):
                self.wash(day, 6 if number in CROWD else 1)
        day.rate, day.burned = self.s.world.rate, self.s.world.zen_burned - before

    def post_rate(self) -> None:
        if self.s.now < self.s.world.rate_posted_at + PRESET.rate_step_s:
            return
        most = self.s.world.rate * RATE_STEP_BPS // BPS
        self.s.ok("credits", "post_rate", "deployer", self.s.world.rate + self.random.randint(-most, most))

    def job(self, day: Day, payer: str) -> None:
        """An honest one: priced in dollars, bought at the posted rate, now and then cancelled or with a lie in it."""
        cents = self.random.choice(PRICES)
        terms = self.buy_for(day, payer, cents)
        if terms is None:
            return
        if self.random.random() < 0.15:
            job = self.s.post(**terms)
            self.s.ok("tasks", "cancel", payer, job)
            day.refunded += self.s.world.owed[self.token, self.s.accounts[payer]]
            self.s.withdraw_all()
            return
        price = terms["reserve"]
        slots = {name: Offer(price * self.random.randint(50, 90) // 100, 2) for name in HONEST[:3]}
        job = self.s.running(slots, {"dave": Offer(price // 4)}, **terms)
        day.jobs += 1
        if self.random.random() < 0.1:
            self.s.commit_all(job)
            claim = self.random.choice([claim for claim in self.s.claims(job) if not claim.is_aggregation])
            self.s.convict(job, claim, "sink")
            day.convictions += 1
            standby = next(name for name in HONEST[:3] if self.s.ids[name] != claim.operator)
            self.s.take_over(job, claim.seat, standby)
        self.finish(job)

    def wash(self, day: Day, times: int) -> None:
        terms = self.buy_for(day, "guardian", times * PRICES[-1])
        if terms is None:
            return
        price = terms["reserve"]
        job = self.s.running({"erin": Offer(price // 2, 4)}, {"erin": Offer(price // 4)}, **terms)
        day.wash_jobs += 1
        self.finish(job)

    def buy_for(self, day: Day, payer: str, cents: int) -> dict[str, Any] | None:
        """The terms of a job at so many cents a slot-round, with its escrow bought; None while the rate is stale."""
        price = credits.credits_for(cents * DOLLAR // 100, self.s.world.rate or 1)
        terms: dict[str, Any] = {"token": "credits", "rounds": self.random.randint(1, 3)}
        terms |= {
            "reserve": price,
            "max_price": price,
            "aggregator_reserve": price // 2,
            "aggregator_max_price": price // 2,
        }
        escrow = terms["rounds"] * (4 * price + price // 2)
        have = self.s.world.balances.get((self.token, self.s.accounts[payer]), 0)
        self.s.submitter = payer
        if not credits.is_fresh(self.s.world, self.s.now):
            self.s.no("credits: rate is stale", "credits", "buy", payer, 1, 1)
            if have >= escrow:
                self.s.no(
                    "credits: rate is stale", "tasks", "post", payer, self.s.terms(**terms), value=POSTING_DEPOSIT
                )
            day.refused += 1
            return None
        if have < escrow:
            dollars = -(-(escrow - have) * self.s.world.rate // DOLLAR)
            self.s.ok("credits", "buy", payer, dollars, 2 * escrow)
        return terms

    def finish(self, job: int) -> None:
        """All rounds are played, and everything is paid."""
        while self.s.world.run(job).round < self.s.world.run(job).rounds:
            self.s.play_round(job)
        self.s.settle(job)

    def settle_day(self) -> None:
        """The next day begins; every share of epochs that are over is claimed, and what the mint promises is checked."""
        day = self.days[-1]
        self.s.to(max(self.s.now, (self.first + day.day + 1) * DAY_S))
        world = self.s.world
        for (account, epoch), share in sorted(world.mint_shares.items()):
            if share and epoch < credits.epoch_of(world, self.s.now) and credits.share_of(world, account, epoch):
                amount = self.s.ok("credits", "claim", "sink", account, epoch)
                assert amount <= share, f"day {day.day}: {account} has {amount} for work worth {share}"
                self.received[account] = self.received.get(account, 0) + amount
                self.accepted[account] = self.accepted.get(account, 0) + share
                day.claimed += amount
        total = self.s.world.mint_epochs.get(self.first + day.day, MintEpoch())
        day.accepted, day.mint = total.accepted, total.budget
        day.wash_profit = worth(self.s, WASH) - self.wash_before
        assert day.mint <= min(PRESET.mint_per_epoch, day.accepted), f"day {day.day}: minted more than its work used up"
        washed = any(each.wash_jobs for each in self.days)
        assert day.wash_profit < 0 if washed else day.wash_profit == 0, (
            f"day {day.day}: wash work earned {day.wash_profit}"
        )
        minted = sum(each.mint for each in self.days)
        assert self.s.world.mint_pool + minted == POOL, f"day {day.day}: a mint came from nowhere"
        assert minted <= self.s.world.zen_burned + sum(world.pledges.values()), (
            f"day {day.day}: more was minted than put in"
        )

    def summary(self) -> dict[str, int | float]:
        owners = [self.s.accounts[account] for name in HONEST for account in account_names(self.s, name)]
        worked = sum(self.accepted.get(owner, 0) for owner in owners)
        return {
            "days": len(self.days),
            "calls": self.s.coverage.calls,
            "jobs": sum(day.jobs for day in self.days),
            "wash_jobs": sum(day.wash_jobs for day in self.days),
            "refused_at_a_stale_rate": sum(day.refused for day in self.days),
            "convictions": sum(day.convictions for day in self.days),
            "burned": sum(day.burned for day in self.days),
            "accepted": sum(day.accepted for day in self.days),
            "minted": sum(day.mint for day in self.days),
            "claimed": sum(day.claimed for day in self.days),
            "wash_profit": self.days[-1].wash_profit,
            "honest_paid_of_work": sum(self.received.get(owner, 0) for owner in owners) / worked,
            "treasury": self.received.get(self.s.world.config.treasury, 0),
        }


def result_of(seed: int, days: int) -> dict[str, object]:
    """A month as JSON: its figures, and each day."""
    month = Month(seed)
    month.run(days)
    return {"seed": seed, **month.summary(), "by_day": [asdict(day) for day in month.days]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    result = result_of(options.seed, options.days)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if options.json:
        print(options.out.read_text(encoding="utf-8"), end="")
    else:
        for name, value in result.items():
            if name != "by_day":
                print(f"{name:24} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
