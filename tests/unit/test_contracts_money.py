"""Treasury and Timelock: where fees go, and who may spend them."""

import boa

from tests.contract_kit import DEVNET

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
