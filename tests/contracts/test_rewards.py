"""Rewards: what an epoch pays for compute and uptime, its caps, its budget, and what an expired one gives back."""

import pytest

from tests.support.evm import chain
from tests.support.rewards_driver import DEVNET, EPOCH_S, ZEN, deployed_fixture, stage_fixture  # noqa: F401

EMISSION = DEVNET.emission_per_epoch
RICH = 10_000 * ZEN  # a fee that caps nothing


def test_fund__adds_to_the_pool(s):
    with s.refused("rewards: zero amount"):
        s.fund(0)
    s.fund(7)
    assert s.rewards.pool() == 7
    assert s.zen.balanceOf(s.rewards) == 7


@pytest.mark.parametrize(
    ("function", "args", "recorder"),
    [
        ("record", (1, 1, 1, 1), "settlement"),
        ("record_verification", (1, 1, 1), "audits"),
        ("record_data", ("0x" + "11" * 20, 1, 1, 1), "datasets"),
    ],
)
def test_record__by_anyone_else__is_refused(s, function, args, recorder):
    for sender in {s.settlement, s.audits, s.datasets.address, s.deployer} - {getattr(s.rewards, recorder)()}:
        with s.refused(f"rewards: not the {recorder}"):
            getattr(s.rewards, function)(*args, sender=sender)


def test_record__adds_to_epoch_operator_and_job(s):
    ada = s.register()
    s.record(7, ada, 300, 10)
    s.record(7, ada, 200, 5)
    s.record(8, ada, 100, 1)
    assert tuple(s.rewards.shares(ada.id, s.epoch, 7)) == (500, 15)
    assert tuple(s.rewards.shares(ada.id, s.epoch, 8)) == (100, 1)
    assert tuple(s.rewards.epochs(s.epoch)) == (600, 16, 0, 0)
    assert tuple(s.rewards.job_fees(7)) == (15, 0, 0)


def test_record__absurd_declared_work__weighs_no_more_than_its_fee_lets_it(s):
    limited = s.deploy_rewards(16)
    limited.wire(s.settlement, s.audits, s.datasets, sender=s.deployer)
    ada = s.register()
    limited.record(1, ada.id, 10**30, 10, sender=s.settlement)
    assert limited.shares(ada.id, s.epoch, 1).weight == 160
    limited.record(2, ada.id, 10**30, 0, sender=s.settlement)
    assert limited.shares(ada.id, s.epoch, 2).weight == 0
    limited.record(3, ada.id, 159, 10, sender=s.settlement)
    assert limited.shares(ada.id, s.epoch, 3).weight == 159


# --- compute


def test_claim__before_the_epoch_is_over__is_refused(s):
    ada = s.register()
    s.fund(RICH)
    s.record(1, ada, 1, RICH)
    epoch = s.epoch
    chain.timestamp = (epoch + 1) * EPOCH_S - 1
    with s.refused("rewards: epoch not over"):
        s.claim(ada, epoch, 1)
    with s.refused("rewards: epoch not over"):
        s.rewards.claim_verification(ada.id, 1, epoch)
    with s.refused("rewards: epoch not over"):
        s.rewards.claim_data(ada.owner, 1, epoch)
    s.to_epoch(epoch + 1)
    assert s.claim(ada, epoch, 1) == EMISSION // 2


def test_claim__shares_half_the_budget_by_weight_up_to_seven_tenths_of_the_fee(s):
    ada, bob = s.register(), s.register()
    s.fund(10 * EMISSION)
    s.record(1, ada, 300, RICH)
    s.record(2, bob, 100, 99)
    epoch = s.next_epoch()
    # Half the emission is compute's: three quarters of it to ada; bob's quarter is cut to 70 % of its fee.
    assert s.claim(ada, epoch, 1) == EMISSION // 2 * 3 // 4
    assert s.rewards.pool() == 9 * EMISSION
    assert s.claim(bob, epoch, 2) == 69
    assert s.zen.balanceOf(ada.owner) == EMISSION // 2 * 3 // 4
    assert tuple(s.rewards.epochs(epoch)) == (400, RICH + 99, EMISSION, EMISSION // 2 * 3 // 4 + 69)
    for each, job in ((ada, 1), (bob, 2)):
        with s.refused("rewards: nothing to claim"):
            s.claim(each, epoch, job)


def test_claim__rich_fees_of_one_job__do_not_lift_the_cap_of_another(s):
    """The cap is the job's: weight farmed with a job that pays no fee is not paid from the room of an honest one."""
    ada, bob = s.register(), s.register()
    s.fund(EMISSION)
    s.record(1, ada, 1, RICH)
    s.record(2, ada, 998, 10)
    s.record(3, bob, 1, RICH)
    epoch = s.next_epoch()
    assert s.claim(ada, epoch, 1, 2) == EMISSION // 2 // 1_000 + 7


def test_claim__jobs_together_or_apart__pay_the_same_and_each_once(s):
    ada = s.register()
    s.fund(10 * EMISSION)
    s.beat(ada, 3)
    for job, fee in ((1, 100), (2, 50), (3, 1)):
        s.record(job, ada, 10, fee)
    epoch = s.next_epoch()
    with chain.anchor():
        together = s.claim(ada, epoch, 3, 1, 2, 1)
    apart = [s.claim(ada, epoch, job) for job in (1, 2)]
    with s.refused("rewards: nothing to claim"):
        s.claim(ada, epoch, 1, 2, 3)  # 70 % of a fee of 1 is nothing
    assert together == sum(apart) == 70 + 35


def test_claim__pool_below_the_emission__is_the_budget_and_is_fixed_by_the_first(s):
    ada, bob = s.register(), s.register()
    s.fund(90)
    s.record(1, ada, 1, 1_000)
    s.record(1, bob, 2, 1_000)
    epoch = s.next_epoch()
    assert s.claim(ada, epoch, 1) == 15
    assert s.rewards.pool() == 0
    s.fund(1_000)
    assert s.claim(bob, epoch, 1) == 30
    assert s.rewards.pool() == 1_000


def test_claim__empty_pool__is_refused_and_left_for_later(s):
    ada = s.register()
    s.record(1, ada, 1, 100)
    epoch = s.next_epoch()
    with s.refused("rewards: nothing to claim"):
        s.claim(ada, epoch, 1)
    s.fund(1_000)
    assert s.claim(ada, epoch, 1) == 70


def test_claim__epochs__do_not_mix(s):
    ada = s.register()
    s.fund(10_000)
    s.record(1, ada, 1, 10)
    epoch = s.next_epoch()
    s.record(1, ada, 1, 20)
    assert s.claim(ada, epoch, 1) == 7
    with s.refused("rewards: epoch not over"):
        s.claim(ada, epoch + 1, 1)
    assert tuple(s.rewards.shares(ada.id, epoch + 1, 1)) == (1, 20)


# --- uptime


def test_claim__uptime__is_shared_by_heartbeats_within_what_compute_leaves(s):
    ada, bob = s.register(), s.register()
    s.fund(EMISSION)
    epoch = s.epoch
    s.beat(ada, 3)
    s.to_epoch(epoch)
    s.beat(bob, 1)
    s.record(1, ada, 1, RICH)
    s.record(2, bob, 1, 100)
    assert s.next_epoch() == epoch
    assert s.claim(ada, epoch, 1) == EMISSION // 4 + EMISSION // 5 * 3 // 4
    assert tuple(s.rewards.earned(ada.id, epoch)) == (EMISSION // 5 * 3 // 4, EMISSION // 4 + EMISSION // 5 * 3 // 4)
    assert s.claim(bob, epoch, 2) == 70  # its compute alone fills its room


def test_claim__uptime_without_verified_compute__pays_nothing(s):
    ada, idle = s.register(), s.register()
    s.fund(EMISSION)
    epoch = s.epoch
    s.beat(idle, 24)
    s.record(1, ada, 1, RICH)
    assert s.next_epoch() == epoch
    with s.refused("rewards: nothing to claim"):
        s.claim(idle, epoch, 1)
    with s.refused("rewards: nothing to claim"):
        s.claim(idle, epoch)


# --- the end of an epoch


def test_recycle__returns_what_an_expired_epoch_did_not_pay(s):
    ada, bob = s.register(), s.register()
    s.fund(EMISSION)
    s.record(1, ada, 1, 1_000)
    s.record(1, bob, 1, 1_000)
    epoch = s.epoch
    s.to_epoch(epoch + 90)
    assert s.claim(ada, epoch, 1) == 700
    with s.refused("rewards: claims still open"):
        s.rewards.recycle(epoch, sender=s.anyone)
    s.to_epoch(epoch + 91)
    for call in (
        lambda: s.claim(bob, epoch, 1),
        lambda: s.rewards.claim_verification(bob.id, 1, epoch),
        lambda: s.rewards.claim_data(bob.owner, 1, epoch),
    ):
        with s.refused("rewards: epoch expired"):
            call()
    assert s.rewards.pool() == 0
    assert s.rewards.recycle(epoch, sender=s.anyone) == EMISSION - 700
    assert s.rewards.pool() == EMISSION - 700
    assert tuple(s.rewards.epochs(epoch)) == (2, 2_000, 700, 700)
    for each in (epoch, epoch - 1):
        with s.refused("rewards: nothing to recycle"):
            s.rewards.recycle(each, sender=s.anyone)


def test_return_bps__is_what_was_claimed_annualised_over_the_stake(s):
    ada = s.register()
    s.fund(10 * EMISSION)
    s.record(1, ada, 1, RICH)
    epoch = s.next_epoch()
    assert s.rewards.return_bps(ada.id, epoch) == 0
    reward = s.claim(ada, epoch, 1)
    assert s.rewards.return_bps(ada.id, epoch) == reward * 10_000 * (31_536_000 // EPOCH_S) // DEVNET.min_stake
    assert s.rewards.return_bps(99, epoch) == 0
