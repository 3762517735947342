"""One job from registration to withdrawal, with every wei accounted for."""

import ape

from zoo_compute.spec.params import lock_of

ZEN = 10**18


TURN, ROOT = 0, -1  # fields of a claim


def deadline(kit, job, claims):
    return kit.settlement.claim_deadline(job, claims[-1][TURN])


def test_a_job_pays_everyone_and_refunds_the_rest(kit, chain, running, play, operators, submitter, anyone, to):
    job = running
    assert kit.tasks.jobs(job).state == 3
    claims = [ref for _ in range(2) for ref in play.turn(job)]
    assert kit.tasks.jobs(job).state == 4
    assert kit.settlement.runs(job).start_root == claims[-1][ROOT]

    with ape.reverts("settlement: window open"):
        kit.settlement.finalise(job, claims, sender=anyone)
    to(deadline(kit, job, claims) + 1)
    kit.settlement.finalise(job, claims, sender=anyone)
    with ape.reverts("settlement: unknown claim"):
        kit.settlement.finalise(job, claims[:1], sender=anyone)

    owed = {each.owner: kit.tasks.owed(kit.zen, each.owner) for each in operators}
    assert list(owed.values()) == [1_900, 1_900, 1_900, 950]
    assert kit.tasks.owed(kit.zen, kit.treasury) == 6 * 50 + 2 * 25
    escrow = (2_000 * 3 + 1_000) * 2
    assert kit.tasks.owed(kit.zen, submitter) == escrow - 6 * 1_000 - 2 * 500
    # Conservation to the wei: all that came in is owed to somebody.
    assert sum(owed.values()) + 350 + kit.tasks.owed(kit.zen, submitter) == escrow

    for account, amount in owed.items():
        before = kit.zen.balanceOf(account)
        kit.tasks.withdraw(kit.zen, account, sender=anyone)
        assert kit.zen.balanceOf(account) == before + amount
    for each in operators:
        kit.locks.release(job, each.id, sender=anyone)
        assert kit.registry.collateral(each.id, kit.zen).locked == 0
        assert kit.registry.operators(each.id).locks == 0
        kit.registry.withdraw(each.id, kit.zen, 100 * ZEN, sender=each.owner)


def test_fees_are_split_and_spent_only_through_the_timelock(
    kit, chain, running, play, operators, deployer, anyone, accounts, to
):
    job = running
    claims = play.turn(job)
    to(deadline(kit, job, claims) + 1)
    kit.settlement.finalise(job, claims, sender=anyone)
    kit.tasks.withdraw(kit.zen, kit.treasury, sender=anyone)
    kit.treasury.collect(kit.zen, sender=anyone)
    assert [kit.treasury.buckets(kit.zen, bucket) for bucket in range(3)] == [88, 52, 35]

    to_account = accounts[19]
    with ape.reverts("treasury: not the governor"):
        kit.treasury.spend(kit.zen, 1, to_account, 50, sender=deployer)
    payload = kit.treasury.spend.encode_input(kit.zen, 1, to_account, 50)
    call = (kit.treasury, 0, payload, b"\x00" * 32, b"\x01" * 32)
    kit.timelock.schedule(*call, 10, sender=deployer)
    with ape.reverts("timelock_controller: operation is not ready"):
        kit.timelock.execute(*call, sender=deployer)
    chain.mine(timestamp=chain.pending_timestamp + 11)
    before = kit.zen.balanceOf(to_account)
    kit.timelock.execute(*call, sender=deployer)
    assert kit.zen.balanceOf(to_account) == before + 50
    assert kit.treasury.buckets(kit.zen, 1) == 2


def test_rewards_are_capped_by_the_fees_of_the_epoch(kit, chain, running, play, operators, deployer, anyone, to):
    job, (*holders, aggregator) = running, operators
    kit.zen.approve(kit.rewards, 10_000 * ZEN, sender=deployer)
    kit.rewards.fund(10_000 * ZEN, sender=deployer)
    claims = play.turn(job)
    epoch = deadline(kit, job, claims) // 60 + 1
    to(epoch * 60)  # at its first second: the next calls are in the same epoch
    kit.settlement.finalise(job, claims, sender=anyone)
    assert kit.rewards.shares(holders[0].id, epoch, job).fees == 50
    with ape.reverts("rewards: epoch not over"):
        kit.rewards.claim(holders[0].id, epoch, [job], sender=anyone)
    chain.mine(timestamp=(epoch + 1) * 60)
    before = kit.zen.balanceOf(holders[0].owner)
    kit.rewards.claim(holders[0].id, epoch, [job], sender=anyone)
    assert kit.zen.balanceOf(holders[0].owner) == before + 50 * 7_000 // 10_000
    with ape.reverts("rewards: nothing to claim"):
        kit.rewards.claim(holders[0].id, epoch, [job], sender=anyone)
    # The aggregator's price earns no reward.
    with ape.reverts("rewards: nothing to claim"):
        kit.rewards.claim(aggregator.id, epoch, [job], sender=anyone)


def test_a_convicted_worker_is_never_paid_and_its_lock_is_divided(
    kit, running, play, operators, submitter, anyone, referee, to
):
    job, holders = running, operators[:-1]
    claims = play.turn(job)
    kit.settlement.open_dispute(job, claims[0], sender=referee)
    to(deadline(kit, job, claims) + 1)
    kit.settlement.finalise(job, claims[:1], sender=anyone)
    # In dispute it is not paid, and nothing waits for it.
    with ape.reverts("settlement: in dispute"):
        kit.settlement.finalise(job, claims[:1], sender=anyone)
    before = kit.registry.burned(kit.zen)
    kit.settlement.close_dispute(job, claims[0], 2, 0, 0, sender=referee)  # judged
    lock = lock_of(1_000, 500)
    kit.settlement.reward_finder(job, claims[0], anyone, sender=referee)
    assert kit.tasks.owed(kit.zen, anyone) == lock * 4_000 // 10_000
    assert kit.tasks.owed(kit.zen, kit.audit_pool) == lock // 10
    assert kit.registry.burned(kit.zen) - before == lock - lock * 4_000 // 10_000 - 2 * (lock // 10)
    assert kit.locks.pots(job) == lock // 10
    assert kit.registry.operators(holders[0].id).reputation == 0
    assert kit.settlement.seats(job, 0).operator == 0
    kit.settlement.finalise(job, claims[1:], sender=anyone)
    assert kit.tasks.owed(kit.zen, holders[0].owner) == 0
    assert kit.settlement.pending(job, 0) == 0
    assert kit.locks.stakes(job, holders[0].id, False).locked == 0
    with ape.reverts("settlement: claims not final"):  # it held its seat when the open turn began
        kit.locks.release(job, holders[0].id, sender=anyone)
