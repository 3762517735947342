"""Directed sequences about credits: rates, burned ZEN, pledged collateral, the mint; see `opening`."""

from typing import Any

from tests.support.job_driver import POSTING_DEPOSIT, Offer
from tests.support.lockstep.stage import DEPOSIT, OPERATORS, Stage
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from zoo_compute.spec import credits
from zoo_compute.spec.params import CLAIM_EPOCHS, DOLLAR, LEAST_RATE, MOST_DOLLARS, MOST_RATE, fee_of

BUDGET = 10**6  # credits of the submitter
DUE = {"alice owner": 2 * 80 * 95 // 100, "bob owner": 2 * 80 * 95 // 100, "dave owner": 40 * 95 // 100}  # of a round
FEES = 2 * fee_of(2 * 80) + fee_of(40)
ROUND = 4 * 80 + 40


def ready(s: Stage, pool: int = 10**9, rate: int = 2 * DOLLAR) -> None:
    """Operators with collateral in credits, a rate, a pool, and a submitter with credits."""
    s.register_all()
    for name in OPERATORS:
        s.ok("credits", "pledge", f"{name} owner", s.ids[name], DEPOSIT)
    s.ok("credits", "set_rate", "timelock", rate)
    if pool:
        s.ok("credits", "fund", "stranger", pool)
    s.ok("tasks", "allow", "deployer", s.tokens["credits"], True, 0)
    s.ok("credits", "buy", "submitter", BUDGET * rate // DOLLAR, BUDGET)


def worked(s: Stage, **changes: Any) -> tuple[int, int]:
    """A job of one round that pays in credits, settled; and the epoch in which its work was accepted."""
    job = s.running(SLOTS, AGGREGATORS, rounds=1, token="credits", **changes)
    s.play_round(job)
    s.settle(job)
    return job, credits.epoch_of(s.world, s.now)


def to_epoch(s: Stage, epoch: int) -> None:
    s.to(epoch * s.preset.epoch_s)


def credits_of(s: Stage, name: str) -> int:
    return s.world.balances.get((s.tokens["credits"], s.accounts[name]), 0)


@scenario
def a_rate_moves_by_steps_and_is_stale_without_them(s: Stage) -> None:
    step_s, stale_s = s.preset.rate_step_s, s.preset.rate_stale_s
    s.no("credits: not the poster", "credits", "post_rate", "stranger", DOLLAR)
    s.no("credits: no rate yet", "credits", "post_rate", "deployer", DOLLAR)
    s.no("credits: rate is stale", "credits", "buy", "stranger", DOLLAR, DOLLAR)
    s.no("credits: not the governor", "credits", "set_rate", "deployer", DOLLAR)
    for rate in (0, LEAST_RATE - 1, MOST_RATE + 1):
        s.no("credits: rate out of range", "credits", "set_rate", "timelock", rate)
    for rate in (LEAST_RATE, MOST_RATE, 1_000 * LEAST_RATE):
        s.ok("credits", "set_rate", "timelock", rate)
    rate = 1_000 * LEAST_RATE
    s.wait(step_s - 1)
    s.no("credits: rate posted too recently", "credits", "post_rate", "deployer", rate)
    s.wait(1)
    for beyond in (rate * 11 // 10 + 1, rate * 9 // 10 - 1):
        s.no("credits: step too large", "credits", "post_rate", "deployer", beyond)
    s.ok("credits", "post_rate", "deployer", rate * 11 // 10)
    s.wait(step_s)
    s.ok("credits", "post_rate", "deployer", rate * 11 // 10 - rate * 11 // 100)
    s.ok("credits", "set_rate", "timelock", LEAST_RATE)
    s.wait(step_s)
    s.no("credits: rate out of range", "credits", "post_rate", "deployer", LEAST_RATE - 1)
    s.no("credits: not the governor", "credits", "appoint", "stranger", s.accounts["stranger"])
    s.ok("credits", "appoint", "timelock", s.accounts["stranger"])
    s.no("credits: not the poster", "credits", "post_rate", "deployer", LEAST_RATE)
    s.ok("credits", "post_rate", "stranger", LEAST_RATE + 1)
    s.wait(stale_s)
    s.ok("credits", "buy", "stranger", 1, DOLLAR)
    s.wait(1)
    s.no("credits: rate is stale", "credits", "buy", "stranger", 1, DOLLAR)
    s.ok("credits", "post_rate", "stranger", LEAST_RATE + 1)
    s.ok("credits", "buy", "stranger", 1, DOLLAR)


@scenario
def a_dollar_buys_what_it_burns_rounded_up(s: Stage) -> None:
    s.ok("credits", "set_rate", "timelock", 3 * DOLLAR)
    for dollars in (0, MOST_DOLLARS + 1):
        s.no("credits: dollars out of range", "credits", "buy", "stranger", dollars, 2**255)
    s.no("credits: costs more than the most", "credits", "buy", "stranger", 10, 3)
    assert s.ok("credits", "buy", "stranger", 10, 4) == 4
    assert s.ok("credits", "buy", "stranger", 9, 3) == 3
    assert credits_of(s, "stranger") == s.world.zen_burned == 7
    s.no("erc20: transfer amount exceeds balance", "credits", "buy", "stranger", MOST_DOLLARS, 2**255)
    s.ok("token", "transfer", "stranger", s.tokens["credits"], s.accounts["guardian"], 6)
    s.no(
        "erc20: transfer amount exceeds balance",
        "token",
        "transfer",
        "stranger",
        s.tokens["credits"],
        s.accounts["guardian"],
        2,
    )
    assert credits_of(s, "guardian") == 6


@scenario
def accepted_work_uses_credits_up_and_shares_the_mint(s: Stage) -> None:
    ready(s)
    spent = s.world.zen_burned
    _, epoch = worked(s)
    total = s.world.mint_epochs[epoch]
    assert (total.accepted, total.budget) == (ROUND, ROUND)
    # Nobody has the credits of accepted work; what the job did not need is the submitter's again.
    assert credits_of(s, "alice owner") == 0
    assert s.world.balances[s.tokens["credits"], s.world.config.treasury] == 0
    assert credits_of(s, "submitter") == BUDGET - ROUND
    assert s.world.zen_burned == spent
    alice, treasury = s.accounts["alice owner"], s.world.config.treasury
    s.no("credits: epoch not over", "credits", "claim", "stranger", alice, epoch)
    s.no("credits: epoch not over", "credits", "claim", "stranger", alice, epoch + 1)
    to_epoch(s, epoch + 1)
    s.no("credits: nothing to claim", "credits", "claim", "stranger", s.accounts["submitter"], epoch)
    for name, due in DUE.items():
        assert s.ok("credits", "claim", "stranger", s.accounts[name], epoch) == due
    s.no("credits: nothing to claim", "credits", "claim", "stranger", alice, epoch)
    assert s.ok("credits", "claim", "stranger", treasury, epoch) == FEES
    assert s.ok("treasury", "collect", "stranger", s.tokens["zen"]) == FEES


@scenario
def an_epoch_whose_work_is_worth_more_than_its_mint_pays_each_a_part(s: Stage) -> None:
    ready(s, pool=0)
    s.ok("credits", "fund", "stranger", ROUND // 3)
    _, epoch = worked(s)
    assert s.world.mint_epochs[epoch].budget == ROUND // 3
    assert s.world.mint_pool == 0
    to_epoch(s, epoch + CLAIM_EPOCHS)
    due = DUE["alice owner"] * (ROUND // 3) // ROUND
    assert s.ok("credits", "claim", "stranger", s.accounts["alice owner"], epoch) == due
    s.no("credits: claims still open", "credits", "recycle", "stranger", epoch)
    to_epoch(s, epoch + CLAIM_EPOCHS + 1)
    s.no("credits: epoch expired", "credits", "claim", "stranger", s.accounts["bob owner"], epoch)
    assert s.ok("credits", "recycle", "stranger", epoch) == ROUND // 3 - due
    s.no("credits: nothing to recycle", "credits", "recycle", "stranger", epoch)
    s.no("credits: nothing to recycle", "credits", "recycle", "stranger", 0)
    assert s.world.mint_pool == ROUND // 3 - due


@scenario
def work_beyond_an_epochs_mint_adds_nothing_to_it(s: Stage) -> None:
    """Of jobs whose price is above the mint of an epoch, all in one."""
    s.register_all()
    most = s.preset.mint_per_epoch
    price = most // 10
    terms = {"reserve": price, "max_price": price, "aggregator_reserve": price, "aggregator_max_price": price}
    for name in OPERATORS:
        s.ok("credits", "pledge", f"{name} owner", s.ids[name], 1_000 * price)
    s.ok("credits", "set_rate", "timelock", DOLLAR)
    s.ok("credits", "fund", "stranger", 10 * most)
    s.ok("tasks", "allow", "deployer", s.tokens["credits"], True, 0)
    s.ok("credits", "buy", "submitter", 100 * price, 100 * price)
    lone = {"alice": Offer(price, 4)}, {"dave": Offer(price)}
    jobs = [s.running(*lone, rounds=3, token="credits", **terms) for _ in range(2)]
    for job in jobs:
        while s.world.run(job).round < 3:
            s.play_round(job)
    claims = {job: s.claims(job) for job in jobs}
    to_epoch(s, s.now // s.preset.epoch_s + 2)
    for job in jobs:
        s.ok("settlement", "finalise", "stranger", job, claims[job])
    total = s.world.mint_epochs[credits.epoch_of(s.world, s.now)]
    assert total.accepted > total.budget == most
    for job in jobs:
        s.settle(job)


@scenario
def refunds_are_credits_and_no_work(s: Stage) -> None:
    ready(s)
    job = s.post(rounds=1, token="credits")
    assert credits_of(s, "submitter") == BUDGET - (4 * 160 + 80)
    s.ok("tasks", "cancel", "submitter", job)
    s.withdraw_all()
    assert credits_of(s, "submitter") == BUDGET
    assert s.world.mint_epochs == {}


@scenario
def a_job_in_credits_waits_for_a_fresh_rate_and_one_that_runs_does_not(s: Stage) -> None:
    ready(s)
    s.ok("credits", "set_rate", "timelock", 2 * DOLLAR)
    job = s.running(SLOTS, AGGREGATORS, rounds=1, token="credits")
    s.play_round(job)
    s.wait(s.preset.rate_stale_s + 1)
    no_rate = "credits: rate is stale"
    s.no(no_rate, "tasks", "post", "submitter", s.terms(token="credits"), value=POSTING_DEPOSIT)
    s.settle(job)
    assert s.world.mint_epochs[credits.epoch_of(s.world, s.now)].accepted == ROUND


@scenario
def pledged_collateral_is_zen_again_but_for_what_was_slashed(s: Stage) -> None:
    ready(s)
    alice, token = s.ids["alice"], s.tokens["credits"]
    s.no("credits: unknown operator", "credits", "pledge", "stranger", 99, 0)
    s.no("credits: zero amount", "credits", "pledge", "stranger", alice, 0)
    s.no("erc20: transfer amount exceeds balance", "credits", "pledge", "stranger", alice, 2 * 10**27)
    job = s.running(SLOTS, AGGREGATORS, rounds=1, token="credits")
    s.commit_all(job)
    claim = next(claim for claim in s.claims(job) if claim.operator == alice)
    s.convict(job, claim, "sink")
    slashed = DEPOSIT - s.world.deposit_of(alice, token).balance
    assert slashed > 0
    s.ok("tasks", "withdraw", "stranger", token, s.accounts["sink"])
    assert credits_of(s, "sink") > 0
    before = s.world.balances[s.tokens["zen"], s.accounts["alice owner"]]
    free = s.world.deposit_of(alice, token).free
    s.ok("registry", "withdraw", "alice owner", alice, token, free)
    assert s.world.balances[s.tokens["zen"], s.accounts["alice owner"]] == before + free
    assert credits_of(s, "alice owner") == 0
    # Credits that are brought back in the place of what was slashed are ZEN on their way out; the rest are not.
    more = s.ok("credits", "buy", "alice owner", 2 * (slashed + 10), slashed + 10)
    s.ok("registry", "deposit", "alice owner", alice, token, more)
    s.ok("registry", "withdraw", "alice owner", alice, token, more)
    assert s.world.pledges[s.accounts["alice owner"]] == 0
    assert credits_of(s, "alice owner") == 10


@scenario
def the_pool_of_mints_moves_to_a_successor_but_for_what_is_set_aside(s: Stage) -> None:
    ready(s, pool=0)
    successor = s.accounts["successor"]
    s.no("credits: zero amount", "credits", "fund", "stranger", 0)
    s.no("erc20: transfer amount exceeds balance", "credits", "fund", "stranger", 2 * 10**27)
    s.ok("credits", "fund", "stranger", ROUND + 7)
    for sender in ("deployer", "guardian", "stranger"):
        s.no("credits: not the governor", "credits", "move_pool", sender, successor, 0)
    s.no("credits: zero amount", "credits", "move_pool", "timelock", successor, 0)
    s.no("credits: amount exceeds pool", "credits", "move_pool", "timelock", successor, ROUND + 8)
    s.ok("credits", "move_pool", "timelock", successor, 1)
    _, epoch = worked(s)
    s.no("credits: amount exceeds pool", "credits", "move_pool", "timelock", successor, 7)
    s.ok("credits", "move_pool", "timelock", successor, 6)
    to_epoch(s, epoch + 1)
    assert s.ok("credits", "claim", "stranger", s.accounts["dave owner"], epoch) == DUE["dave owner"]
