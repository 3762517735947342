"""Credits alone: events, its token, and what directed sequences cannot see. Those are in tests/support/scenarios/credits.py."""

import pytest

from tests.support.evm import chain, reverts
from tests.support.job_driver import Offer
from tests.support.protocol_driver import DEVNET, UNLIMITED, Play, events_of, load
from tests.support.sources import of_text
from zoo_compute.spec.params import DOLLAR, ZEN

RATE = 2 * DOLLAR
PRICES = dict.fromkeys(("reserve", "max_price", "aggregator_reserve", "aggregator_max_price"), 2 * ZEN)
OLD_SUCCESSOR = """
from ethereum.ercs import IERC20

token: immutable(address)

@deploy
def __init__(token_: address):
    token = token_

@external
def fund(amount: uint256):
    if {takes} > 0:
        extcall IERC20(token).transferFrom(msg.sender, self, {takes})
"""


@pytest.fixture
def credits(kit, play):
    """With a rate, and a pool of 1,000 ZEN from the deployer."""
    kit.credits.set_rate(RATE, sender=kit.timelock.address)
    kit.zen.approve(kit.credits, UNLIMITED, sender=kit.deployer)
    kit.credits.fund(1_000 * ZEN, sender=kit.deployer)
    kit.tasks.allow(kit.credits, True, 0, sender=kit.deployer)
    return kit.credits


@pytest.fixture
def buyer(kit, credits):
    account = chain.account("buyer")
    kit.zen.transfer(account, 1_000 * ZEN, sender=kit.deployer)
    kit.zen.approve(credits, UNLIMITED, sender=account)
    return account


def test_deploy__without_a_rate__has_none_and_with_one_it_is_fresh(kit):
    numbers = (DEVNET.epoch_s, DEVNET.mint_per_epoch, DEVNET.rate_step_s, DEVNET.rate_stale_s)
    with chain.prank(kit.deployer):
        with_rate, without = (
            load("Credits").deploy(kit.zen, kit.treasury, kit.timelock, kit.guardian, rate, *numbers)
            for rate in (RATE, 0)
        )
    assert (with_rate.rate(), with_rate.posted_at(), with_rate.is_fresh()) == (RATE, chain.timestamp, True)
    assert (without.rate(), without.is_fresh()) == (0, False)
    assert without.poster() == kit.guardian
    chain.timestamp += DEVNET.rate_stale_s
    assert with_rate.is_fresh()
    chain.timestamp += 1
    assert not with_rate.is_fresh()


def test_events__say_what_was_posted_bought_and_funded(kit, credits, buyer):
    credits.appoint(kit.guardian, sender=kit.timelock.address)
    assert events_of(credits) == [("PosterAppointed", {"account": kit.guardian})]
    chain.timestamp += DEVNET.rate_step_s
    credits.post_rate(RATE + 1, sender=kit.guardian)
    assert events_of(credits) == [("RatePosted", {"rate": RATE + 1})]
    assert credits.posted_at() == chain.timestamp
    credits.set_rate(RATE, sender=kit.timelock.address)
    assert credits.buy(10 * DOLLAR, 5 * ZEN, sender=buyer) == 5 * ZEN
    minted = {"sender": "0x" + 40 * "0", "receiver": buyer, "value": 5 * ZEN}
    bought = {"account": buyer, "dollars": 10 * DOLLAR, "amount": 5 * ZEN}
    assert events_of(credits) == [("Transfer", minted), ("CreditsBought", bought)]
    credits.fund(7, sender=buyer)
    assert events_of(credits) == [("PoolFunded", {"amount": 7})]


def test_token__moves_by_its_owner_or_by_whom_it_allows(credits, buyer):
    credits.buy(10 * DOLLAR, UNLIMITED, sender=buyer)
    friend, other = chain.account("friend"), chain.account("other")
    assert (credits.name(), credits.symbol(), credits.decimals()) == ("Zoo credit", "CREDIT", 18)
    assert credits.transfer(friend, ZEN, sender=buyer)
    assert events_of(credits) == [("Transfer", {"sender": buyer, "receiver": friend, "value": ZEN})]
    with reverts("erc20: insufficient allowance"):
        credits.transferFrom(buyer, friend, 1, sender=friend)
    assert credits.approve(friend, 5, sender=buyer)
    assert events_of(credits) == [("Approval", {"owner": buyer, "spender": friend, "value": 5})]
    assert credits.transferFrom(buyer, other, 3, sender=friend)
    assert credits.allowance(buyer, friend) == 2
    with reverts("erc20: insufficient allowance"):
        credits.transferFrom(buyer, other, 3, sender=friend)
    credits.approve(friend, UNLIMITED, sender=buyer)
    credits.transferFrom(buyer, other, 4, sender=friend)
    assert credits.allowance(buyer, friend) == UNLIMITED
    with reverts("erc20: transfer amount exceeds balance"):
        credits.transfer(friend, 8, sender=other)
    assert [credits.balanceOf(each) for each in (buyer, friend, other)] == [4 * ZEN - 7, ZEN, 7]
    assert credits.totalSupply() == credits.burned() == 5 * ZEN


def test_events__of_a_jobs_work_name_payee_epoch_and_mint(kit, play, credits, buyer):
    kit.zen.transfer(buyer, 2_000 * ZEN, sender=kit.deployer)
    job_play = CreditsPlay(kit, credits, buyer)
    ada, mixer = job_play.register("ada"), job_play.register("mixer")
    job = job_play.running({ada: Offer(ZEN, 3)}, {mixer: Offer(ZEN)}, rounds=1, **PRICES)
    job_play.round(job, [ada], mixer)
    job_play.finalise(job)
    epoch, net = chain.timestamp // DEVNET.epoch_s, 3 * 2 * ZEN * 95 // 100
    assert credits.shares(ada.owner, epoch) == credits.earned(ada.owner) == net
    kit.tasks.withdraw(credits, ada.owner, sender=play.anyone)
    used = {"sender": kit.tasks.address, "receiver": "0x" + 40 * "0", "value": net}
    assert events_of(kit.tasks, credits)[0] == ("Transfer", used)
    chain.timestamp += DEVNET.epoch_s
    before = kit.zen.balanceOf(ada.owner)
    credits.claim(ada.owner, epoch, sender=play.anyone)
    assert events_of(credits) == [("MintClaimed", {"account": ada.owner, "epoch": epoch, "amount": net})]
    assert kit.zen.balanceOf(ada.owner) == before + net
    chain.timestamp += 90 * DEVNET.epoch_s
    left = credits.epochs(epoch).budget - net
    credits.recycle(epoch, sender=play.anyone)
    assert events_of(credits) == [("MintRecycled", {"epoch": epoch, "amount": left})]


def test_record__says_what_was_accepted(kit, credits):
    ada = chain.account("ada")
    credits.record(ada, 95, 5, sender=kit.tasks.address)
    epoch = chain.timestamp // DEVNET.epoch_s
    assert events_of(credits) == [("WorkAccepted", {"account": ada, "epoch": epoch, "net": 95, "fee": 5})]
    assert (credits.shares(kit.treasury, epoch), credits.earned(kit.treasury)) == (5, 5)
    assert credits.pool() == 1_000 * ZEN - 100


def test_record__never_sets_more_aside_than_the_epochs_mint(kit, credits):
    ada, most = chain.account("ada"), DEVNET.mint_per_epoch
    epoch = chain.timestamp // DEVNET.epoch_s
    credits.fund(5 * most, sender=kit.deployer)
    for amount, budget in ((most - 1, most - 1), (2, most), (most, most)):
        credits.record(ada, amount, 0, sender=kit.tasks.address)
        assert credits.epochs(epoch).budget == budget
    assert credits.epochs(epoch).accepted == 2 * most + 1
    chain.timestamp += DEVNET.epoch_s
    credits.record(ada, 1, 0, sender=kit.tasks.address)
    assert credits.epochs(epoch + 1).budget == 1


def test_pledge__of_a_stranger_is_the_operators_and_its_owners_at_the_end(kit, play, credits, buyer):
    ada = play.register("ada", deposit=0)
    credits.pledge(ada.id, 30, sender=buyer)
    pledged_event = ("CollateralPledged", {"operator": ada.id, "owner": ada.owner, "amount": 30})
    assert pledged_event in events_of(credits)
    assert kit.registry.collateral(ada.id, credits).balance == 30
    assert (credits.balanceOf(credits), credits.allowance(credits, kit.registry)) == (0, 0)
    before = kit.zen.balanceOf(ada.owner)
    kit.registry.withdraw(ada.id, credits, 10, sender=ada.owner)
    assert ("PledgeReturned", {"owner": ada.owner, "amount": 10}) in events_of(kit.registry, credits)
    assert kit.zen.balanceOf(ada.owner) == before + 10
    assert (credits.pledged(), credits.pledges(ada.owner), credits.totalSupply()) == (20, 20, 20)


def test_pledge__is_no_burned_zen_and_the_pool_is_not_behind_it(kit, play, credits, buyer):
    ada = play.register("ada", deposit=0)
    credits.pledge(ada.id, 30, sender=buyer)
    assert credits.burned() == 0
    assert kit.zen.balanceOf(credits) == 30 + credits.pool()


def test_move_pool__leaves_no_allowance(kit, credits):
    successor = chain.deploy(of_text("Successor", OLD_SUCCESSOR.format(takes="amount")), kit.zen.address)
    credits.move_pool(successor, 5, sender=kit.timelock.address)
    assert events_of(credits) == [("PoolMoved", {"successor": successor.address, "amount": 5})]
    assert kit.zen.allowance(credits, successor) == 0
    assert kit.zen.balanceOf(successor) == 5


@pytest.mark.parametrize("takes", ["0", "amount - 1"])
def test_move_pool__to_a_successor_that_takes_another_amount__is_refused(kit, credits, takes):
    successor = chain.deploy(of_text("Successor", OLD_SUCCESSOR.format(takes=takes)), kit.zen.address)
    with reverts("credits: successor took another amount"):
        credits.move_pool(successor, 5, sender=kit.timelock.address)


@pytest.mark.parametrize("function", ["fund", "buy", "pledge", "claim"])
def test_a_token_in_zens_place_that_answers_false__is_refused_wherever_it_moves(kit, play, function):
    numbers = (DEVNET.epoch_s, DEVNET.mint_per_epoch, DEVNET.rate_step_s, DEVNET.rate_stale_s)
    token, me, ada = load("mocks/FalseToken").deploy(), kit.deployer, play.register("ada", deposit=0)
    token.mint(me, 100)
    with chain.prank(me):
        credits = load("Credits").deploy(token, kit.treasury, kit.timelock, me, RATE, *numbers)
        credits.wire(me, kit.registry)
        credits.fund(50)
        credits.record(me, 50, 0)
        chain.timestamp += DEVNET.epoch_s
        token.refuse(True)
        epoch = chain.timestamp // DEVNET.epoch_s - 1
        args = {"fund": (1,), "buy": (1, 1), "pledge": (ada.id, 1), "claim": (me, epoch)}[function]
        with reverts("credits: transfer failed"):
            getattr(credits, function)(*args)
        token.refuse(False)
        getattr(credits, function)(*args)


class CreditsPlay(Play):
    """Jobs in credits: the submitter has some of the buyer's, operators pledge."""

    def __init__(self, kit, credits, buyer):
        self.buyer = buyer
        credits.buy(200 * DOLLAR, UNLIMITED, sender=buyer)
        super().__init__(kit, DEVNET, credits)

    def fund(self, account, amount, spender, token=None):
        token = token or self.token
        if token is not self.kit.credits:
            super().fund(account, amount, spender, token)
            return
        token.transfer(account, 50 * ZEN, sender=self.buyer)
        token.approve(spender, UNLIMITED, sender=account)

    def register(self, name, **options):
        operator = super().register(name, **options, deposit=0)
        self.kit.credits.pledge(operator.id, 800 * ZEN, sender=self.buyer)
        return operator
