"""Every place where a contract moves tokens, against every way a token misbehaves: refused or harmless.

No holder of an honest token ever loses anything; in the hostile one, who chose it bears what it does. ZEN is ours and
honest: what moves only ZEN is tried with a hostile token in ZEN's place all the same.
"""

from dataclasses import dataclass

import pytest

from tests.contracts.hostile_tokens import (
    AMOUNT,
    ANSWER_FALSE,
    ANSWER_NOTHING,
    BONDS,
    NEIGHBOUR,
    PAYMENTS,
    POSTER,
    REFUSE_LISTED,
    REFUSE_ZERO,
    TAKE_FEE,
    Bonds,
    Market,
    Payments,
    TokenMovement,
)
from tests.support.evm import Reverted, chain
from tests.support.protocol_driver import START

PLACES = {**PAYMENTS, **BONDS}
every_place = pytest.mark.parametrize("at", PLACES, indirect=True)


@dataclass
class At:
    """A place of a market, and what everybody had there before anything happened."""

    market: Market
    place: TokenMovement

    def __post_init__(self):
        self.before = self.market.views(self.market.hostile)
        self.honest_before = self.market.views(self.market.honest)

    def act(self, person=POSTER):
        """The reason it was refused for, or None."""
        try:
            self.place.act(self.market, self.market.hostile, person)
        except Reverted as error:
            return error.reason
        return None

    @property
    def views(self):
        return self.market.views(self.market.hostile)

    @property
    def said(self):
        """By how much what the contract says it holds has grown."""
        return self.views[1][self.place.contract] - self.before[1][self.place.contract]

    @property
    def surplus(self):
        return self.market.surplus(self.market.hostile)

    def check_honest(self):
        """The other token's holders have what they had."""
        assert self.market.views(self.market.honest) == self.honest_before


@pytest.fixture(scope="module")
def markets():
    chain.timestamp = START
    return {Payments: Payments(), Bonds: Bonds()}


@pytest.fixture
def at(markets, request):
    kind = Payments if request.param in PAYMENTS else Bonds
    return At(markets[kind], PLACES[request.param])


@every_place
@pytest.mark.parametrize("trick", [0, ANSWER_NOTHING, REFUSE_ZERO], ids=["honest", "answers nothing", "refuses zero"])
def test_a_token_that_moves_what_it_is_told__is_counted_exactly(at, trick):
    at.market.hostile.play(trick)
    assert at.act() is None
    assert at.said == (at.place.amount if at.place.pulls else -at.place.amount)
    assert set(at.surplus.values()) == {0}
    at.check_honest()


@every_place
def test_a_token_that_answers_false__is_refused_and_what_is_owed_stays_owed(at):
    at.market.hostile.play(ANSWER_FALSE)
    assert at.act() == f"{at.place.contract}: transfer failed"
    assert at.views == at.before
    at.market.hostile.play(0)
    assert at.act() is None
    at.check_honest()


@every_place
def test_a_token_that_lists_a_payer_or_payee__stops_nobody_else(at):
    at.market.hostile.play(REFUSE_LISTED)
    listed = at.place.payer_or_payee(at.market, POSTER)
    at.market.hostile.blacklist(listed)
    assert at.act() == "token: blacklisted"
    assert at.views == at.before
    if listed != at.place.payer_or_payee(at.market, NEIGHBOUR):
        assert at.act(NEIGHBOUR) is None
        assert set(at.surplus.values()) == {0}
    at.check_honest()


@every_place
def test_a_token_that_keeps_a_fee__takes_it_from_its_own_holders(at):
    at.market.hostile.play(TAKE_FEE)
    assert at.act() is None
    receivers = {at.place.contract} if at.place.pulls else {at.place.into} - {None}
    assert at.surplus == {name: -(at.place.amount // 10) if name in receivers else 0 for name in at.surplus}
    at.check_honest()


@every_place
def test_a_token_that_calls_back__enters_no_contract_that_is_sending(at):
    market = at.market
    market.arm()
    callbacks = market.callbacks()
    inside = [index for index, (name, _) in enumerate(callbacks) if name == at.place.contract]
    assert inside or at.place.contract == "treasury"
    assert all(market.succeeds(*callbacks[index]) for index in inside), "a call that fails anyway shows nothing"
    assert at.act() is None
    assert all(market.hostile.attempts(index) for index in range(len(callbacks)))
    assert [market.hostile.entered(index) for index in inside] == [0] * len(inside)
    assert set(at.surplus.values()) == {0}
    at.check_honest()


@pytest.mark.parametrize("kind", [Payments, Bonds])
@pytest.mark.parametrize("percent", [0, 50, 99, 200])
def test_a_token_that_rebases__changes_nothing_in_another(markets, kind, percent):
    market = markets[kind]
    honest = market.views(market.honest)
    for name, balance in market.balances(market.hostile).items():
        market.hostile.rebase(market.contracts[name], balance * percent // 100)
    for place in (PAYMENTS if kind is Payments else BONDS).values():
        before_calls = market.views(market.hostile)
        try:
            place.act(market, market.hostile, POSTER)
        except Reverted:
            assert market.views(market.hostile) == before_calls
    assert market.views(market.honest) == honest
    assert set(market.drain(market.honest).values()) == {0}


def test_the_treasury__counts_a_balance_that_grew_as_income_and_one_that_shrank_not_at_all(markets):
    market = markets[Payments]
    kit, token = market.kit, market.hostile
    treasury_balance = token.balanceOf(kit.treasury)
    token.rebase(kit.treasury, treasury_balance - 1)
    with pytest.raises(Reverted):
        kit.treasury.collect(token)
    token.rebase(kit.treasury, treasury_balance + AMOUNT)
    assert kit.treasury.collect(token) == AMOUNT
    assert market.surplus(token)["treasury"] == 0


def test_a_token_that_nobody_allowed__pays_for_no_job(markets):
    market = markets[Payments]
    market.allow(market.hostile, False)
    at = At(market, PAYMENTS["a job is posted"])
    assert at.act() == "tasks: token not allowed"
    for name, place in PAYMENTS.items():
        if name != "a job is posted":  # who is in can leave
            assert At(market, place).act() is None
    at.check_honest()
