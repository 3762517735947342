"""ZenToken, Treasury, Timelock and Rewards: where fees go, who may spend them, and what rewards cost."""

import boa
import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from tests.contract_kit import DEVNET, SUPPLY, ZEN

EPOCH_S = DEVNET.epoch_s
ZERO32 = bytes(32)


# --- ZenToken


def test_zen__whole_supply__is_the_deployers_and_nobody_can_mint(kit):
    assert kit.zen.totalSupply() == SUPPLY
    assert (kit.zen.name(), kit.zen.symbol(), kit.zen.decimals()) == ("Zoo", "ZEN", 18)
    for function in ("mint", "burn", "set_minter", "transfer_ownership", "owner"):
        assert not hasattr(kit.zen, function)


def test_zen__permit__lets_a_signature_approve(kit, play):
    signer = Account.create()
    fields = [("owner", "address"), ("spender", "address"), ("value", "uint256"), ("nonce", "uint256")]
    fields.append(("deadline", "uint256"))
    message = {
        "owner": signer.address,
        "spender": str(play.anyone),
        "value": 5,
        "nonce": kit.zen.nonces(signer.address),
        "deadline": play.now + 60,
    }
    domain = {
        "name": "Zoo",
        "version": "1",
        "chainId": boa.env.evm.patch.chain_id,
        "verifyingContract": str(kit.zen.address),
    }
    types = {"Permit": [{"name": name, "type": kind} for name, kind in fields]}
    signed = signer.sign_message(encode_typed_data(domain, types, message))
    r, s = signed.r.to_bytes(32, "big"), signed.s.to_bytes(32, "big")
    kit.zen.permit(signer.address, play.anyone, 5, play.now + 60, signed.v, r, s)
    assert kit.zen.allowance(signer.address, play.anyone) == 5
    with play.refused("erc20: invalid signature"):
        kit.zen.permit(signer.address, play.anyone, 5, play.now + 60, signed.v, r, s)


# --- Treasury and Timelock


def give(kit, amount):
    kit.zen.transfer(kit.treasury, amount, sender=kit.deployer)


def test_collect__splits_what_arrived_and_gives_dust_to_development(kit, play):
    with play.refused("treasury: nothing to collect"):
        kit.treasury.collect(kit.zen, sender=play.anyone)
    give(kit, 1_009)
    assert kit.treasury.collect(kit.zen, sender=play.anyone) == 1_009
    assert [kit.treasury.buckets(kit.zen, bucket) for bucket in range(3)] == [506, 302, 201]
    with play.refused("treasury: nothing to collect"):
        kit.treasury.collect(kit.zen, sender=play.anyone)
    give(kit, 10)
    kit.treasury.collect(kit.zen, sender=play.anyone)
    assert [kit.treasury.buckets(kit.zen, bucket) for bucket in range(3)] == [511, 305, 203]


def test_spend__only_by_the_timelock_and_within_the_bucket(kit, play):
    give(kit, 1_000)
    kit.treasury.collect(kit.zen, sender=play.anyone)
    with play.refused("treasury: not the governor"):
        kit.treasury.spend(kit.zen, 3, play.anyone, 2_000, sender=kit.deployer)
    governor = kit.timelock.address
    with play.refused("treasury: unknown bucket"):
        kit.treasury.spend(kit.zen, 3, play.anyone, 2_000, sender=governor)
    with play.refused("treasury: amount exceeds bucket"):
        kit.treasury.spend(kit.zen, 1, play.anyone, 301, sender=governor)
    kit.treasury.spend(kit.zen, 1, play.anyone, 300, sender=governor)
    assert kit.zen.balanceOf(play.anyone) == 300
    assert [kit.treasury.buckets(kit.zen, bucket) for bucket in range(3)] == [500, 0, 200]
    # What was spent did not "arrive" again.
    with play.refused("treasury: nothing to collect"):
        kit.treasury.collect(kit.zen, sender=play.anyone)


def test_timelock__spends_no_sooner_than_its_delay(kit, play):
    give(kit, 1_000)
    kit.treasury.collect(kit.zen, sender=play.anyone)
    timelock = kit.timelock
    payload = kit.treasury.spend.prepare_calldata(kit.zen.address, 0, play.anyone, 500)
    call = (kit.treasury.address, 0, payload, ZERO32, ZERO32)
    with boa.reverts():
        timelock.schedule(*call, DEVNET.timelock_s, sender=play.anyone)
    with boa.reverts():
        timelock.schedule(*call, DEVNET.timelock_s - 1, sender=kit.deployer)
    timelock.schedule(*call, DEVNET.timelock_s, sender=kit.deployer)
    play.to(play.now + DEVNET.timelock_s - 1)
    with play.refused("timelock_controller: operation is not ready"):
        timelock.execute(*call, sender=kit.deployer)
    play.to(play.now + 1)
    with boa.reverts():
        timelock.execute(*call, sender=play.anyone)
    timelock.execute(*call, sender=kit.deployer)
    assert kit.zen.balanceOf(play.anyone) == 500


def test_timelock__nobody_but_itself__is_admin(kit):
    admin = kit.timelock.DEFAULT_ADMIN_ROLE()
    assert kit.timelock.hasRole(admin, kit.timelock.address)
    assert not kit.timelock.hasRole(admin, kit.deployer)
    with boa.reverts():
        kit.timelock.update_delay(0, sender=kit.deployer)


# --- Rewards


@pytest.fixture
def pool(kit, play):
    def fund(amount):
        kit.zen.approve(kit.rewards, amount, sender=kit.deployer)
        kit.rewards.fund(amount, sender=kit.deployer)

    return fund


def record(kit, operator, weight, fee):
    kit.rewards.record(operator.id, weight, fee, sender=kit.settlement.address)


def test_fund__adds_to_the_pool(kit, play, pool):
    with play.refused("rewards: zero amount"):
        kit.rewards.fund(0, sender=kit.deployer)
    before = kit.rewards.pool()
    pool(7)
    assert kit.rewards.pool() == before + 7


def test_record__by_anyone_else__is_refused(kit, play):
    with play.refused("rewards: not the settlement"):
        kit.rewards.record(1, 1, 1, sender=kit.auction.address)


def test_claim__shares_the_budget_by_weight_up_to_the_fees(kit, play, pool):
    ada, bob = play.register_all(2)
    pool(10_000 * ZEN)
    record(kit, ada, 300, 10_000 * ZEN)
    record(kit, bob, 100, 5)
    epoch = play.now // EPOCH_S
    play.to((epoch + 1) * EPOCH_S - 1)
    with play.refused("rewards: epoch not over"):
        kit.rewards.claim(ada.id, epoch, sender=play.anyone)
    play.to((epoch + 1) * EPOCH_S)
    # The budget is the emission, 1,000 ZEN: three quarters to ada; bob's quarter is cut to its fees.
    assert kit.rewards.claim(ada.id, epoch, sender=play.anyone) == 750 * ZEN
    assert kit.rewards.pool() == 9_000 * ZEN
    assert kit.rewards.claim(bob.id, epoch, sender=play.anyone) == 5
    assert kit.zen.balanceOf(ada.owner) == 750 * ZEN
    assert tuple(kit.rewards.epochs(epoch)) == (400, 10_000 * ZEN + 5, 1_000 * ZEN, 750 * ZEN + 5)
    assert kit.rewards.pool() == 9_000 * ZEN
    for each in (ada, bob):
        with play.refused("rewards: nothing to claim"):
            kit.rewards.claim(each.id, epoch, sender=play.anyone)


def test_claim__pool_below_the_emission__is_the_budget(kit, play, pool):
    ada, bob = play.register_all(2)
    pool(90)
    record(kit, ada, 1, 1_000)
    record(kit, bob, 2, 1_000)
    epoch = play.now // EPOCH_S
    play.to((epoch + 1) * EPOCH_S)
    assert kit.rewards.claim(ada.id, epoch, sender=play.anyone) == 30
    assert kit.rewards.pool() == 0
    pool(1_000)
    # The budget was fixed at the first claim.
    assert kit.rewards.claim(bob.id, epoch, sender=play.anyone) == 60
    assert kit.rewards.pool() == 1_000


def test_claim__empty_pool__is_refused_and_left_for_later(kit, play, pool):
    ada = play.register("ada")
    record(kit, ada, 1, 50)
    epoch = play.now // EPOCH_S
    play.to((epoch + 1) * EPOCH_S)
    with play.refused("rewards: nothing to claim"):
        kit.rewards.claim(ada.id, epoch, sender=play.anyone)
    pool(1_000)
    assert kit.rewards.claim(ada.id, epoch, sender=play.anyone) == 50


def test_claim__epochs__do_not_mix(kit, play, pool):
    ada = play.register("ada")
    pool(10_000)
    record(kit, ada, 1, 10)
    epoch = play.now // EPOCH_S
    play.to((epoch + 1) * EPOCH_S)
    record(kit, ada, 1, 20)
    assert kit.rewards.claim(ada.id, epoch, sender=play.anyone) == 10
    with play.refused("rewards: epoch not over"):
        kit.rewards.claim(ada.id, epoch + 1, sender=play.anyone)
    assert tuple(kit.rewards.shares(ada.id, epoch + 1)) == (1, 20)
