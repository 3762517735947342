"""Tokens as the chain has them: symbols of strangers, decimals other than 18, and what a job in one of them needs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from eth_abi.abi import encode
from web3.exceptions import ContractLogicError

from zoo_compute.amounts import CREDIT, ZEN, Token
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.tokens import DECIMALS, RATE_AGE_S, token_at
from zoo_compute.errors import UserError
from zoo_compute.formats.manifest import JobError
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.loading import plan_job
from zoo_compute.jobs.quote import BudgetTooSmall, quote
from zoo_compute.spec.params import DOLLAR, PRODUCTION

COIN = "0x00000000000000000000000000000000000000AA"
USDC = Token("USDC", 6, COIN)
MODEL = {"layers": 1, "heads": 2, "width": 8, "context": 16}
TRAINING = {"learning_rate": 0.001, "batch_size": 2, "inner_steps": 10, "rounds": 4, "slots": 3}


def chain_with(symbol: Any, decimals: Any) -> Chain:
    """A chain of one token that answers so; an exception is raised."""
    asked: list[str] = []

    def call(transaction: dict[str, str]) -> bytes:
        asked.append(transaction["data"])
        answer = decimals if transaction["data"] == DECIMALS else symbol
        if isinstance(answer, Exception):
            raise answer
        return answer

    network = SimpleNamespace(contracts={"zen": "0x" + "11" * 20})
    memory: dict[str, Any] = {}
    return cast(
        Chain,
        SimpleNamespace(
            w3=SimpleNamespace(eth=SimpleNamespace(call=call)),
            network=network,
            cached=lambda key, make: memory.setdefault(key, make()),
            asked=asked,
        ),
    )


def text(value: str) -> bytes:
    return encode(["string"], [value])


def word(value: int) -> bytes:
    return value.to_bytes(32, "big")


def job_in(token: str, **market: Any) -> dict[str, Any]:
    return {"model": MODEL, "training": TRAINING, "data": {"path": "a.txt"}, "market": {"token": token, **market}}


def test_two_of_a_coin_with_six_decimals__are_two_million_units_not_2e18() -> None:
    assert USDC.parse("2") == USDC.parse("2 USDC") == USDC.parse("2000000 units") == 2_000_000
    assert USDC.format(2_000_000) == "2 USDC"
    assert USDC.format(1) == "0.000001 USDC"
    assert USDC.parse(USDC.exact(1_234_567_891)) == 1_234_567_891
    assert Token("JPYC", 0).format(12) == "12 JPYC"
    assert Token("WBTC", 8).format(1) == "1 smallest units of WBTC"


@pytest.mark.parametrize("amount", ["2 ZEN", "0.0000001", "-1", "1e70", "٣"])
def test_an_amount_that_is_none__is_refused_with_the_token_and_its_decimals(amount: str) -> None:
    with pytest.raises(UserError, match=r"6 decimals|larger than the protocol"):
        USDC.parse(amount, what="the deposit")


def test_a_token__is_read_once() -> None:
    chain = chain_with(text("USDC"), word(6))
    assert token_at(chain, COIN) == token_at(chain, COIN.lower()) == USDC
    assert len(chain.asked) == 2  # type: ignore[attr-defined]
    assert token_at(chain).symbol == "ZEN"


@pytest.mark.parametrize(
    ("symbol", "printed"),
    [
        (text("USDC.e"), "USDC.e"),
        (b"MKR".ljust(32, b"\0"), "MKR"),
        (text("ZEN"), "ZEN@0x00000000"),
        (text("zen"), "zen@0x00000000"),
        (text("\u0396EN"), "EN@0x00000000"),
        (text("\x1b[2JUSDC\n"), "2JUSDC@0x00000000"),
        (text("US DC"), "USDC@0x00000000"),
        (text("A" * 4_000), "AAAAAAAAAAAA@0x00000000"),
        (text(""), "token@0x00000000"),
        (b"", "token@0x00000000"),
        (word(32) + word(2**255) + b"x" * 32, "token@0x00000000"),
        (ContractLogicError("reverted"), "token@0x00000000"),
    ],
)
def test_a_hostile_symbol__is_never_shown_as_another_token_nor_to_the_terminal(symbol: Any, printed: str) -> None:
    assert token_at(chain_with(symbol, word(18)), COIN).symbol == printed


@pytest.mark.parametrize("decimals", [b"", ContractLogicError("reverted"), word(256), word(2**255)])
def test_an_address_that_is_no_token__is_refused(decimals: Any) -> None:
    with pytest.raises(UserError, match=r"no token at"):
        token_at(chain_with(text("X"), decimals), COIN)


def test_a_token_with_absurd_decimals__is_refused() -> None:
    with pytest.raises(UserError, match="has 77 decimals"):
        token_at(chain_with(text("X"), word(77)), COIN)


def test_a_job_in_another_token__waits_for_its_decimals() -> None:
    job = ComputeJob.from_dict(job_in(COIN, reserve=1, max_price=2))
    with pytest.raises(JobError, match="the decimals of") as refused:
        _ = job.prices
    assert "market.decimals" in refused.value.hint
    job.use_token(USDC)
    assert job.prices == (1_000_000, 2_000_000, 1_000_000, 2_000_000)
    assert job.escrow == 4 * (3 * 2 + 2) * 10**6


def test_a_job_whose_file_says_the_decimals__is_quoted_without_a_chain() -> None:
    quoted = quote(ComputeJob.from_dict(job_in(COIN, reserve=1, max_price=2, decimals=6)), PRODUCTION)
    assert (quoted.escrow, quoted.token.decimals) == (32 * 10**6, 6)
    assert quoted.to_dict()["token"] == {"symbol": quoted.token.symbol, "decimals": 6, "address": COIN}


def test_a_job_whose_file_says_other_decimals_than_the_chain__is_refused() -> None:
    job = ComputeJob.from_dict(job_in(COIN, reserve=1, max_price=2, decimals=18))
    with pytest.raises(JobError, match=r"USDC at .* has 6, not 18"):
        job.use_token(USDC)
    with pytest.raises(JobError, match="ZEN has 18, not 6"):
        ComputeJob.from_dict(job_in("ZEN", decimals=6))


def test_a_price_with_more_decimals_than_its_token__is_refused_when_the_chain_is_known() -> None:
    job = ComputeJob.from_dict(job_in(COIN, max_price="0.0000001"))
    with pytest.raises(UserError, match=r"market\.max_price has more than 6 decimals"):
        job.use_token(USDC)


def test_a_budget_in_another_token__is_compared_in_it() -> None:
    plan = plan_job(job_in(COIN, reserve=1, max_price=2, decimals=6), 31)
    with pytest.raises(BudgetTooSmall, match=r"31 .* is below the worst case of 32 token@"):
        plan.check_budget()
    plan_job(job_in(COIN, reserve=1, max_price=2, decimals=6), 32).check_budget()


def test_a_job_in_another_token_without_a_price__asks_half_its_budget_s_maximum_at_first() -> None:
    prices = ComputeJob.from_dict({**job_in(COIN, decimals=6), "budget_max": 32}).prices
    assert (prices.reserve, prices.max_price) == (10**6, 2 * 10**6)


def test_a_job_in_another_token_without_price_and_budget__is_refused() -> None:
    with pytest.raises(JobError, match=r"market\.max_price: missing; work has no reference price in token@"):
        _ = ComputeJob.from_dict(job_in(COIN, decimals=6)).prices


def test_zen__is_a_token_like_others() -> None:
    assert ZEN.parse("1_000 ZEN") == 1_000 * 10**18
    assert str(ZEN) == "ZEN"
    assert str(USDC) == "USDC (6 decimals)"


# Credits

CREDITS_AT = "0x" + "22" * 20
PRICED = replace(CREDIT, address=CREDITS_AT, rate=2 * DOLLAR)


def test_an_amount_in_dollars__is_credits_at_the_rate_rounded_up() -> None:
    assert PRICED.parse("$20") == 10 * DOLLAR
    assert PRICED.parse("$0.50") == DOLLAR // 4
    assert replace(PRICED, rate=3 * DOLLAR).parse("$1") == -(-DOLLAR // 3)
    assert PRICED.parse("12.5 credit") == 25 * DOLLAR // 2
    for wrong in ("$", "$-1", "20$", "$1 CREDIT"):
        with pytest.raises(UserError, match="should be a positive number"):
            PRICED.parse(wrong)


@pytest.mark.parametrize("token", [replace(PRICED, rate=0), ZEN, USDC])
def test_an_amount_in_dollars__of_a_token_without_a_rate__is_refused(token: Token) -> None:
    with pytest.raises(UserError, match="no price in dollars, or its posted rate is stale"):
        token.parse("$20")


@pytest.mark.parametrize(
    ("units", "printed"),
    [
        (10 * DOLLAR, "10 CREDIT ($20.00)"),
        (0, "0 CREDIT ($0.00)"),
        (DOLLAR // 1_000, "0.001 CREDIT ($0.002)"),
        (1_234 * DOLLAR, "1,234 CREDIT ($2,468.00)"),
    ],
)
def test_credits__are_shown_with_their_dollars(units: int, printed: str) -> None:
    assert PRICED.format(units) == printed
    assert PRICED.parse(PRICED.exact(units) or "0") == units
    assert "$" not in replace(PRICED, rate=0).format(units)


def test_credits__have_the_rate_for_half_a_minute_and_none_while_it_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, answers = [100.0], {"rate": 2 * DOLLAR, "fresh": True}
    chain: Any = chain_with(text("no"), word(6))
    chain.network.contracts["credits"] = CREDITS_AT
    chain.credits = SimpleNamespace(rate=lambda: answers["rate"], is_fresh=lambda: answers["fresh"])
    monkeypatch.setattr("zoo_compute.chain.tokens.time.monotonic", lambda: clock[0])
    for name in ("credits", "CREDIT", CREDITS_AT):
        assert token_at(chain, name) == PRICED
    answers["rate"] = 3 * DOLLAR
    clock[0] += RATE_AGE_S
    assert token_at(chain, "credits").rate == 2 * DOLLAR
    clock[0] += 1
    assert token_at(chain, "credits").rate == 3 * DOLLAR
    answers["fresh"] = False
    clock[0] += RATE_AGE_S + 1
    assert token_at(chain, "credits").rate == 0
    assert chain.asked == [], "no stranger's contract is asked"


def test_a_token_that_calls_itself_credit__is_not_shown_as_credits() -> None:
    assert token_at(chain_with(text("CREDIT"), word(18)), COIN).symbol.startswith("CREDIT@0x")


def test_a_job_in_credits__is_priced_in_dollars_once_the_network_says_their_rate() -> None:
    job = plan_job(job_in("credits", max_price="$0.50", aggregator_max_price="$0.10"), max_budget="$20").job
    with pytest.raises(JobError, match="the dollars of credits are unknown without its chain"):
        _ = job.prices
    job.use_token(PRICED)
    assert (job.prices.max_price, job.prices.aggregator_max_price) == (DOLLAR // 4, DOLLAR // 20)
    assert job.escrow == (DOLLAR // 4 * 3 + DOLLAR // 20) * 4
    job.use_token(replace(PRICED, rate=DOLLAR))
    assert job.prices.max_price == DOLLAR // 2


def test_a_job_in_credits__has_the_reference_price_of_zen() -> None:
    job = plan_job(job_in("credits")).job
    job.use_token(PRICED)
    in_zen = plan_job({**job_in("ZEN")}).job
    assert job.prices == in_zen.prices
