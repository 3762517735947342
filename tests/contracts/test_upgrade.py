"""docs/guides/upgrading.md, step by step: a second version beside the first."""

import pytest

from tests.support.evm import chain, reverts
from tests.support.job_driver import Offer
from tests.support.protocol_driver import Play, events_of, load
from tests.support.revm_deployment import deployed, govern
from tests.support.sources import of_text
from zoo_compute.spec.guardian import MAX_END
from zoo_compute.spec.params import DEVNET, ZEN

FOR_EVER = MAX_END - 1


@pytest.fixture
def first(roles):
    return deployed(DEVNET, roles)[0]


@pytest.fixture
def second(roles, first):
    return deployed(DEVNET, roles, zen=str(first.zen.address))[0]


class Admitted(Play):
    """Every operator passed a trial: no network that is no devnet takes bids of others."""

    def register(self, *args, **options):
        operator = super().register(*args, **options)
        self.kit.registry.set_admitted(operator.id, True, sender=self.kit.admissions.address)
        return operator


def player(kit, roles):
    """ZEN is allowed, and the deployer, whom drivers take it from, has some."""
    kit.tasks.allow(kit.zen, True, 0, sender=kit.timelock.address)
    kit.zen.transfer(kit.deployer, 10**7 * ZEN, sender=roles.holder)
    return Admitted(kit)


def test_a_second_version__takes_the_intake_and_the_pool_while_a_running_job_ends_in_the_first(first, second, roles):
    old, new = player(first, roles), player(second, roles)
    assert second.zen.address == first.zen.address
    ada, agg = old.register("ada", deposit=10**12), old.register("agg", deposit=10**12)
    price = 2 * ZEN
    prices = dict.fromkeys(("reserve", "max_price", "aggregator_reserve", "aggregator_max_price"), price)
    old.fund(ada.owner, 10**4 * ZEN, first.registry)
    first.registry.deposit(ada.id, first.zen, 10**4 * ZEN, sender=ada.owner)
    old.fund(agg.owner, 10**4 * ZEN, first.registry)
    first.registry.deposit(agg.id, first.zen, 10**4 * ZEN, sender=agg.owner)
    job = old.running({ada: Offer(ZEN, 3)}, {agg: Offer(ZEN)}, rounds=2, **prices)
    old.round(job, [ada], agg)

    # The governors close the intake of the first.
    for intake in (first.registry, first.tasks, first.auction):
        govern(first, roles, DEVNET.timelock_s, first.guardian, "govern", intake.address, FOR_EVER)
    with reverts("tasks: intake paused"):
        old.post()
    with reverts("registry: intake paused"):
        old.register("bob")
    with reverts("guardian: the governor paused it"):
        first.guardian.resume(first.tasks, sender=roles.guardian)

    # Jobs and operators begin in the second.
    bob, mixer = new.register("bob"), new.register("mixer")
    new_job = new.running({bob: Offer(10, 3)}, {mixer: Offer(5)}, rounds=1)
    assert (new_job, second.registry.operators(bob.id).locks) == (1, 1)

    # The running job ends where it began, and pays.
    old.round(job, [ada], agg)
    old.finalise(job)
    old.release(job, ada, agg)
    assert first.tasks.jobs(job).state == 4
    assert first.tasks.withdraw(first.zen, ada.owner, sender=old.anyone) == 2 * 3 * price * 95 // 100

    # The pool moves, but for what its open epochs may still pay.
    pool, reserved = first.rewards.pool(), DEVNET.emission_per_epoch
    govern(first, roles, DEVNET.timelock_s, first.rewards, "move_pool", second.rewards.address, pool - 2 * reserved)
    assert second.rewards.pool() == first.zen.balanceOf(second.rewards) == pool - 2 * reserved
    assert first.zen.balanceOf(first.rewards) == first.rewards.pool() == 2 * reserved
    epoch = old.now // DEVNET.epoch_s
    for back in range(20):  # whenever the claims became final
        if first.rewards.shares(ada.id, epoch - back, job).fees:
            old.to(max(old.now, (epoch - back + 1) * DEVNET.epoch_s))
            assert first.rewards.claim(ada.id, epoch - back, [job], sender=old.anyone) > 0
            break
    else:
        raise AssertionError("nothing was recorded")

    # Whoever is in leaves.
    first.registry.request_exit(ada.id, sender=ada.owner)
    old.to(old.now + DEVNET.exit_delay_s)
    before = first.zen.balanceOf(ada.owner)
    first.registry.withdraw_stake(ada.id, sender=ada.owner)
    assert first.zen.balanceOf(ada.owner) == before + DEVNET.min_stake


def test_a_job_that_was_not_awarded_when_the_intake_closed__is_cancelled_and_its_escrow_goes_back(first, roles):
    old = player(first, roles)
    job = old.post()
    escrow = first.tasks.jobs(job).escrow
    first.guardian.govern(first.auction, FOR_EVER, sender=first.timelock.address)
    ada = old.register("ada")
    with reverts("auction: intake paused"):
        old.bid(job, 0, ada, Offer(10))
    first.tasks.cancel(job, sender=old.submitter)
    assert first.tasks.withdraw(first.zen, old.submitter, sender=old.anyone) == escrow


def test_move_pool__tells_and_leaves_no_allowance(first, second):
    first.rewards.move_pool(second.rewards, 5, sender=first.timelock.address)
    assert events_of(first.rewards) == [("PoolMoved", {"successor": second.rewards.address, "amount": 5})]
    assert events_of(first.rewards, second.rewards) == [("PoolFunded", {"amount": 5})]
    assert first.zen.allowance(first.rewards, second.rewards) == 0


@pytest.mark.parametrize("takes", ["0", "amount - 1"])
def test_move_pool__to_a_successor_that_takes_another_amount__is_refused(first, takes):
    source = f"""
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
    successor = chain.deploy(of_text("Successor", source), first.zen.address)
    with reverts("rewards: successor took another amount"):
        first.rewards.move_pool(successor, 5, sender=first.timelock.address)


def test_move_pool__of_a_token_that_refuses_an_approval__is_refused(first):
    token = chain.deploy(of_text("Refusing", REFUSING))
    accounts = (token, first.registry, chain.account("governor"))
    rewards = load("Rewards").deploy(*accounts, DEVNET.epoch_s, DEVNET.emission_per_epoch, DEVNET.weight_per_fee)
    rewards.fund(7, sender=chain.account("giver"))
    with reverts("rewards: approval failed"):
        rewards.move_pool(chain.account("successor"), 5, sender=accounts[2])


REFUSING = """
@external
@view
def balanceOf(account: address) -> uint256:
    return 10

@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    return True

@external
def approve(spender: address, amount: uint256) -> bool:
    return False
"""
