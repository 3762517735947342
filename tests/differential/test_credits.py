"""Credits against their specification, in lockstep through seeded walks: purchases, jobs, refunds, collateral, mints, rates.

The law: both accept and reach the same state, or both refuse for the same reason and nothing changes; and the invariants of
`tests.support.lockstep.invariants` after every call.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.lockstep.contract_mirror import fresh_mirror
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import DEPOSIT, OPERATORS, Stage
from zoo_compute.spec import credits
from zoo_compute.spec.params import CLAIM_EPOCHS, DOLLAR, RATE_STEP_BPS

STEPS, SEEDS = 300, range(4)
PEOPLE = ("submitter", "stranger", "alice owner", "bob owner", "dave owner")
LONE = {"alice": Offer(60, 4)}, {"dave": Offer(30)}
# What walks must meet by themselves.
MUST_ACCEPT = {
    *(
        f"credits.{name}"
        for name in ("buy", "pledge", "claim", "recycle", "fund", "post_rate", "set_rate", "move_pool")
    ),
    *(
        "registry.deposit",
        "registry.withdraw",
        "tasks.cancel",
        "tasks.withdraw",
        "settlement.finalise",
        "token.transfer",
    ),
}
MUST_REFUSE = {
    f"credits: {reason}"
    for reason in ("rate is stale", "costs more than the most", "step too large", "nothing to claim", "epoch not over")
}


class Walk:
    """Random steps on a stage."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.s, self.random = stage, random.Random(seed)
        self.token = stage.tokens["credits"]
        stage.register_all()
        for name in OPERATORS:
            stage.ok("credits", "pledge", f"{name} owner", stage.ids[name], DEPOSIT)
        stage.ok("credits", "set_rate", "timelock", DOLLAR)
        stage.ok("credits", "fund", "stranger", 3_000)
        stage.ok("tasks", "allow", "deployer", self.token, True, 0)
        stage.ok("credits", "buy", "submitter", 10**6, 10**6)

    @property
    def steps(self) -> list[Callable[[], None]]:
        return [
            self.buy,
            self.rate,
            self.job,
            self.cancel,
            self.send,
            self.collateral,
            self.claim,
            self.pool,
            self.wait,
        ]

    def someone(self) -> str:
        return self.random.choice(PEOPLE)

    def buy(self) -> None:
        dollars = self.random.choice((1, 7, 999, 10**6))
        at = credits.credits_for(dollars, self.s.world.rate)
        self.s.attempt("credits", "buy", self.someone(), dollars, self.random.choice((at - 1, at, at, 2 * at)))

    def rate(self) -> None:
        rate, step = self.s.world.rate, self.s.world.rate * RATE_STEP_BPS // 10_000
        self.s.wait(self.random.choice((0, self.s.preset.rate_step_s)))
        chosen = self.random.choice((rate + step, rate - step, rate + step + 1, rate - step - 1, rate))
        self.s.attempt("credits", "post_rate", self.random.choice(("deployer", "deployer", "stranger")), chosen)
        if self.random.random() < 0.2:
            self.s.ok("credits", "set_rate", "timelock", self.random.choice((DOLLAR, 3 * DOLLAR, DOLLAR // 7)))

    def job(self) -> None:
        """A whole one, settled or with what is owed left for later."""
        terms = self.s.terms(token="credits", rounds=1)
        if self.s.attempt("tasks", "post", "submitter", terms, value=POSTING_DEPOSIT):
            return
        self.s.ok("tasks", "cancel", "submitter", len(self.s.world.jobs))
        job = self.s.running(*LONE, rounds=1, token="credits")
        if self.random.random() < 0.3:
            self.s.commit_all(job)
            self.s.convict(job, self.s.claims(job)[0], "sink")
            self.s.take_over(job, 0, "bob")
        self.s.play_round(job)
        if self.random.random() < 0.5:
            self.s.settle(job)
        else:
            self.s.finalise(job)

    def cancel(self) -> None:
        if not self.s.attempt("tasks", "post", "submitter", self.s.terms(token="credits"), value=POSTING_DEPOSIT):
            self.s.ok("tasks", "cancel", "submitter", len(self.s.world.jobs))
            self.s.attempt("tasks", "withdraw", "stranger", self.token, self.s.accounts["submitter"])

    def send(self) -> None:
        to = self.s.accounts[self.someone()]
        self.s.attempt("token", "transfer", self.someone(), self.token, to, self.random.choice((0, 1, 50, 10**4)))
        self.s.withdraw_all()

    def collateral(self) -> None:
        name, amount = self.random.choice(OPERATORS), self.random.choice((1, 100, 10**5))
        who = f"{name} owner"
        step = self.random.randrange(3)
        if step == 0:
            self.s.attempt("credits", "pledge", self.someone(), self.s.ids[name], amount)
        elif step == 1:
            self.s.attempt("registry", "deposit", who, self.s.ids[name], self.token, amount)
        else:
            self.s.attempt("registry", "withdraw", who, self.s.ids[name], self.token, amount)

    def claim(self) -> None:
        epochs = sorted(self.s.world.mint_epochs) or [0]
        account = self.random.choice((*(self.s.accounts[name] for name in PEOPLE), self.s.world.config.treasury))
        self.s.attempt("credits", "claim", "stranger", account, self.random.choice(epochs))
        self.s.attempt("credits", "recycle", "stranger", self.random.choice(epochs))

    def pool(self) -> None:
        self.s.attempt("credits", "fund", self.someone(), self.random.choice((0, 100, 5_000)))
        amount = self.random.choice((0, 1, self.s.world.mint_pool, self.s.world.mint_pool + 1))
        self.s.attempt("credits", "move_pool", "timelock", self.s.accounts["successor"], amount)

    def wait(self) -> None:
        epoch_s = self.s.preset.epoch_s
        waits = (1, epoch_s, epoch_s, 2 * epoch_s, CLAIM_EPOCHS * epoch_s, self.s.preset.rate_stale_s + 1)
        self.s.wait(self.random.choice(waits))


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    total = Coverage()
    for seed in SEEDS:
        with fresh_mirror("devnet") as mirror:
            walk = Walk(Stage(total, mirror), seed)
            for _ in range(STEPS):
                walk.random.choice(walk.steps)()
            mirror.compare(walk.s.world)
    return total


def test_walks__contracts_and_specification_agree_and_credits_are_conserved(coverage: Coverage) -> None:
    assert coverage.calls > 10 * STEPS


def test_walks__meet_what_matters(coverage: Coverage) -> None:
    assert set(coverage.accepts) >= MUST_ACCEPT, MUST_ACCEPT - set(coverage.accepts)
    assert set(coverage.reasons) >= MUST_REFUSE, MUST_REFUSE - set(coverage.reasons)
