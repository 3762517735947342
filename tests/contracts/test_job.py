"""A whole job on the contracts: every wei is accounted for."""

import pytest

from tests.support.evm import chain
from tests.support.job_driver import Offer
from tests.support.protocol_driver import START, Play, deploy_all


@pytest.fixture
def play():
    with chain.anchor():
        chain.timestamp = START
        yield Play(deploy_all())


def test_job__three_operators_three_rounds__pays_everyone_and_refunds_the_rest(play):
    kit = play.kit
    ada, bob, cy, agg = (play.register(name) for name in ("ada", "bob", "cy", "agg"))
    slots = {ada: Offer(100), bob: Offer(200), cy: Offer(300)}
    job = play.running(slots, {agg: Offer(400)})
    assert kit.tasks.jobs(job).state == 3
    for _ in range(3):
        play.round(job, [ada, bob, cy], agg)
    assert kit.tasks.jobs(job).state == 4
    play.finalise(job)
    # No losing units: everyone is paid the reserve, 1,000 a slot-round, and the aggregator 500 a round; 5 % is the fee.
    for each in (ada, bob, cy):
        assert kit.tasks.owed(kit.zen, each.owner) == 3 * 950
    assert kit.tasks.owed(kit.zen, agg.owner) == 3 * 475
    assert kit.tasks.owed(kit.zen, kit.treasury) == 9 * 50 + 3 * 25
    assert kit.tasks.owed(kit.zen, play.submitter) == (2_000 * 3 + 1_000) * 3 - 9 * 1_000 - 3 * 500
    play.release(job, ada, bob, cy, agg)
    for each in (ada, bob, cy, agg):
        assert kit.registry.collateral(each.id, kit.zen).locked == 0
        assert kit.registry.operators(each.id).locks == 0
