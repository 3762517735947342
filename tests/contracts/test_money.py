"""Treasury and Timelock: where fees go, and who may spend them."""

from tests.support.evm import chain, reverts
from tests.support.protocol_driver import DEVNET, events_of, load
from tests.support.sources import of_text

ZERO32 = bytes(32)


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
    give(kit, 1)
    assert kit.treasury.collect(kit.zen, sender=play.anyone) == 1
    assert kit.treasury.buckets(kit.zen, 0) == 512


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


def test_fund__puts_all_into_one_bucket_and_tells(kit, play):
    play.fund(play.anyone, 100, kit.treasury)
    give(kit, 10)
    kit.treasury.fund(kit.zen, 2, 100, sender=play.anyone)
    funded = {"token": kit.zen.address, "bucket": 2, "amount": 100}
    assert events_of(kit.treasury) == [("BucketFunded", funded)]
    assert kit.treasury.collect(kit.zen, sender=play.anyone) == 10
    assert [kit.treasury.buckets(kit.zen, bucket) for bucket in range(3)] == [5, 3, 102]


# --- AuditPool


def test_audit_pool__gives_the_audits_all_it_was_paid(kit, play):
    pool = load("AuditPool").deploy(kit.treasury)
    with play.refused("pool: nothing to collect"):
        pool.collect(kit.zen, sender=play.anyone)
    kit.zen.transfer(pool, 1_000, sender=kit.deployer)
    assert pool.collect(kit.zen, sender=play.anyone) == 1_000
    assert events_of(pool) == [("AuditsFunded", {"token": kit.zen.address, "amount": 1_000})]
    assert [kit.treasury.buckets(kit.zen, bucket) for bucket in range(3)] == [0, 1_000, 0]
    assert kit.zen.balanceOf(kit.treasury) == 1_000
    with play.refused("treasury: nothing to collect"):
        kit.treasury.collect(kit.zen, sender=play.anyone)


def test_audit_pool__of_a_token_that_refuses_an_approval__is_refused(kit, play):
    token = chain.deploy(of_text("Refusing", REFUSING))
    pool = load("AuditPool").deploy(kit.treasury)
    with play.refused("pool: approval failed"):
        pool.collect(token, sender=play.anyone)


REFUSING = """
@external
@view
def balanceOf(account: address) -> uint256:
    return 1

@external
def approve(spender: address, amount: uint256) -> bool:
    return False
"""


def test_timelock__spends_no_sooner_than_its_delay(kit, play):
    give(kit, 1_000)
    kit.treasury.collect(kit.zen, sender=play.anyone)
    timelock = kit.timelock
    payload = kit.treasury.spend.prepare_calldata(kit.zen.address, 0, play.anyone, 500)
    call = (kit.treasury.address, 0, payload, ZERO32, ZERO32)
    with reverts():
        timelock.schedule(*call, DEVNET.timelock_s, sender=play.anyone)
    with reverts():
        timelock.schedule(*call, DEVNET.timelock_s - 1, sender=kit.deployer)
    timelock.schedule(*call, DEVNET.timelock_s, sender=kit.deployer)
    play.to(play.now + DEVNET.timelock_s - 1)
    with play.refused("timelock_controller: operation is not ready"):
        timelock.execute(*call, sender=kit.deployer)
    play.to(play.now + 1)
    with reverts():
        timelock.execute(*call, sender=play.anyone)
    timelock.execute(*call, sender=kit.deployer)
    assert kit.zen.balanceOf(play.anyone) == 500


def test_timelock__nobody_but_itself__is_admin(kit):
    admin = kit.timelock.DEFAULT_ADMIN_ROLE()
    assert kit.timelock.hasRole(admin, kit.timelock.address)
    assert not kit.timelock.hasRole(admin, kit.deployer)
    with reverts():
        kit.timelock.update_delay(0, sender=kit.deployer)


def test_timelock__takes_sixteen_accounts_a_role(kit):
    governors = [chain.account(f"governor {number}") for number in range(16)]
    timelock = load("Timelock").deploy(DEVNET.timelock_s, *3 * [governors])
    for role in (timelock.PROPOSER_ROLE(), timelock.EXECUTOR_ROLE(), timelock.CANCELLER_ROLE()):
        assert all(timelock.hasRole(role, governor) for governor in governors)
        assert not timelock.hasRole(role, kit.deployer)


# --- tokens that answer nothing


def test_token__that_answers_nothing__is_taken_and_given_back_by_all(kit, play):
    token = load("mocks/SilentToken").deploy()
    ada = play.register("ada")
    token.mint(ada.owner, 10)
    kit.registry.deposit(ada.id, token, 10, sender=ada.owner)
    kit.registry.withdraw(ada.id, token, 10, sender=ada.owner)
    assert token.balanceOf(ada.owner) == 10
    kit.tasks.allow(token, True, 0, sender=kit.deployer)
    token.mint(play.submitter, 10**6)
    job = play.post(token=token.address)
    assert token.balanceOf(kit.tasks) == kit.tasks.jobs(job).escrow > 0
    kit.tasks.cancel(job, sender=play.submitter)
    kit.tasks.withdraw(token, play.submitter, sender=play.anyone)
    assert token.balanceOf(play.submitter) == 10**6
    token.mint(kit.treasury, 1_000)
    kit.treasury.collect(token, sender=play.anyone)
    kit.treasury.spend(token, 0, play.anyone, 400, sender=kit.timelock.address)
    assert token.balanceOf(play.anyone) == 400


def test_rewards__in_a_token_that_answers_nothing__are_funded_and_paid(kit, play):
    token = load("mocks/SilentToken").deploy()
    ada = play.register("ada")
    numbers = (DEVNET.epoch_s, DEVNET.emission_per_epoch, DEVNET.weight_per_fee)
    rewards = load("Rewards").deploy(token, kit.registry, kit.timelock, *numbers, sender=kit.deployer)
    rewards.wire(play.anyone, play.anyone, play.anyone, sender=kit.deployer)
    token.mint(play.anyone, 5_000)
    rewards.fund(5_000, sender=play.anyone)
    epoch = play.now // DEVNET.epoch_s
    rewards.record(1, ada.id, 1, 1_000, sender=play.anyone)
    play.to((epoch + 1) * DEVNET.epoch_s)
    assert rewards.claim(ada.id, epoch, [1], sender=play.anyone) == token.balanceOf(ada.owner) > 0
