"""One job from registration to withdrawal, with every wei accounted for."""

import ape

ZEN = 10**18


def play_round(kit, chain, job, holders, aggregator):
    """Everyone commits its slot, the aggregator closes the round; returns the claims."""
    round_ = kit.settlement.runs(job).round
    window_s = kit.settlement.runs(job).window_s
    refs = []
    for slot, holder in enumerate(holders):
        root = bytes([slot + 1]) * 32
        receipt = kit.settlement.commit(job, round_, holder.id, 1 << slot, root, b"\x05" * 32, sender=holder.hot)
        refs.append((round_, slot, holder.id, 1 << slot, root, receipt.timestamp + window_s))
    mask = 2 ** len(holders) - 1
    root = bytes([100 + round_]) * 32
    receipt = kit.settlement.post_checkpoint(
        job, round_, aggregator.id, mask, root, b"\x06" * 32, sender=aggregator.hot
    )
    refs.append((round_, 256, aggregator.id, mask, root, receipt.timestamp + window_s))
    return refs


def test_a_job_pays_everyone_and_refunds_the_rest(kit, chain, running, operators, submitter, anyone, to):
    job, (*holders, aggregator) = running, operators
    assert kit.tasks.jobs(job).state == 3
    claims = [ref for _ in range(2) for ref in play_round(kit, chain, job, holders, aggregator)]
    assert kit.tasks.jobs(job).state == 4
    assert kit.tasks.checkpoint_root(job, 2) == b"\x65" * 32

    with ape.reverts("settlement: window open"):
        kit.settlement.finalise(job, claims, sender=anyone)
    to(claims[-1][5] + 1)
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
        kit.settlement.release(job, each.id, sender=anyone)
        assert kit.registry.collateral(each.id, kit.zen).locked == 0
        assert kit.registry.operators(each.id).locks == 0
        kit.registry.withdraw(each.id, kit.zen, 100 * ZEN, sender=each.owner)


def test_fees_are_split_and_spent_only_through_the_timelock(
    kit, chain, running, operators, deployer, anyone, accounts, to
):
    job, (*holders, aggregator) = running, operators
    claims = play_round(kit, chain, job, holders, aggregator)
    to(claims[-1][5] + 1)
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


def test_rewards_are_capped_by_the_fees_of_the_epoch(kit, chain, running, operators, deployer, anyone, to):
    job, (*holders, aggregator) = running, operators
    kit.zen.approve(kit.rewards, 10_000 * ZEN, sender=deployer)
    kit.rewards.fund(10_000 * ZEN, sender=deployer)
    claims = play_round(kit, chain, job, holders, aggregator)
    to(claims[-1][5] + 1)
    receipt = kit.settlement.finalise(job, claims, sender=anyone)
    epoch = receipt.timestamp // 60
    assert kit.rewards.epochs(epoch).weight == 3 * 10**12
    with ape.reverts("rewards: epoch not over"):
        kit.rewards.claim(holders[0].id, epoch, sender=anyone)
    chain.mine(timestamp=(epoch + 1) * 60)
    before = kit.zen.balanceOf(holders[0].owner)
    kit.rewards.claim(holders[0].id, epoch, sender=anyone)
    assert kit.zen.balanceOf(holders[0].owner) == before + 50
    with ape.reverts("rewards: nothing to claim"):
        kit.rewards.claim(holders[0].id, epoch, sender=anyone)
    # The aggregator's price earns no reward.
    with ape.reverts("rewards: nothing to claim"):
        kit.rewards.claim(aggregator.id, epoch, sender=anyone)
