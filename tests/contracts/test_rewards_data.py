"""Verification and data: what is called of a job's fees, how it is divided, and how datasets are cited and scored."""

import pytest

from tests.support.evm import chain
from tests.support.rewards_driver import DATA, DEVNET, VERIFICATION, ZEN, deployed_fixture, stage_fixture  # noqa: F401

EMISSION = DEVNET.emission_per_epoch
RICH = 100_000 * ZEN  # a fee that caps nothing
ROOT, CID = b"\x01" * 32, b"\x02" * 32
NO_NAME = bytes(32)
OPEN, RUNNING, ENDED, CANCELLED = 1, 3, 4, 5


# --- verification


def verified(s, node, job, epoch):
    return s.rewards.claim_verification(node.id, job, epoch, sender=s.anyone)


def test_verification__calls_a_fifth_of_the_fees__and_each_part_once(s):
    ada, bob = s.register(), s.register()
    s.record(1, ada, 1, 1_000)
    s.verify(bob, 1, 5)
    assert tuple(s.rewards.job_fees(1)) == (1_000, 200, 0)
    assert tuple(s.rewards.calls(VERIFICATION, 1, s.epoch)) == (200, 5)
    s.verify(bob, 1, 5)
    assert tuple(s.rewards.calls(VERIFICATION, 1, s.epoch)) == (200, 10)
    s.record(1, ada, 1, 504)
    s.next_epoch()
    s.verify(bob, 1, 1)
    assert tuple(s.rewards.calls(VERIFICATION, 1, s.epoch)) == (100, 1)
    assert tuple(s.rewards.called(s.epoch)) == (100, 0)
    assert s.rewards.works(VERIFICATION, bob.id, 1, s.epoch) == 1


def test_claim_verification__is_divided_by_weight_within_the_job(s):
    ada, bob, carol = s.register(), s.register(), s.register()
    s.fund(EMISSION)
    s.record(1, ada, 1, 1_000)
    s.record(2, ada, 1, 50)
    s.verify(bob, 1, 3)
    s.verify(carol, 1, 1)
    s.verify(carol, 2, 10**40)  # what one job's audits weigh takes nothing from another's
    epoch = s.next_epoch()
    assert verified(s, bob, 1, epoch) == 150
    assert verified(s, carol, 1, epoch) == 50
    assert verified(s, carol, 2, epoch) == 10
    assert s.zen.balanceOf(bob.owner) == 150
    assert s.rewards.earned(bob.id, epoch).paid == 150
    for node, job in ((bob, 1), (carol, 1), (carol, 2), (ada, 1), (bob, 3)):
        with s.refused("rewards: nothing to claim"):
            verified(s, node, job, epoch)


def test_claim_verification__more_called_than_the_budget__is_scaled(s):
    ada, bob, carol = s.register(), s.register(), s.register()
    s.fund(EMISSION)
    s.record(1, ada, 1, 3 * RICH)
    s.record(2, ada, 1, RICH)
    s.verify(bob, 1, 1)
    s.verify(carol, 2, 1)
    epoch = s.next_epoch()
    assert verified(s, bob, 1, epoch) == EMISSION // 10 * 3 // 4
    assert verified(s, carol, 2, epoch) == EMISSION // 10 // 4


def test_claim__all_flows_of_one_job__never_exceed_its_fee(s):
    """A farmer in every role, alone in the epoch, with a pool far above its fee: it gets its fee back, and no more."""
    ada = s.register()
    s.fund(EMISSION)
    s.beat(ada, 5)
    fee = 12_345
    s.record(1, ada, 10**15, fee)
    s.verify(ada, 1, 1)
    s.data(ada.owner, 1, 100, 100)
    epoch = s.next_epoch()
    paid = s.claim(ada, epoch, 1) + verified(s, ada, 1, epoch) + s.rewards.claim_data(ada.owner, 1, epoch)
    assert paid == fee * 7 // 10 + fee // 5 + fee // 10
    assert fee - 3 < paid <= fee


# --- datasets


@pytest.fixture
def cited(s):
    """Job 1 cites datasets 1 (of ada, 300 bytes) and 3 (of bob, 100 bytes), ended and is settled."""
    contributors = [chain.account(name) for name in ("ada", "eve", "bob")]
    for contributor, size in zip(contributors, (300, 1, 100), strict=True):
        s.datasets.contribute(ROOT, CID, size, NO_NAME, sender=contributor)
    s.tasks.set_job(1, s.submitter, RUNNING, 10)
    s.datasets.cite(1, [1, 3], sender=s.submitter)
    s.tasks.set_job(1, s.submitter, ENDED, 0)
    return contributors


def test_contribute__is_numbered_and_named_after_its_sender(s):
    ada = chain.account("ada")
    with s.refused("datasets: zero root"):
        s.datasets.contribute(bytes(32), CID, 0, NO_NAME, sender=ada)
    for size in (0, 2**64):
        with s.refused("datasets: size out of range"):
            s.datasets.contribute(ROOT, CID, size, NO_NAME, sender=ada)
    assert s.datasets.contribute(ROOT, CID, 2**64 - 1, NO_NAME, sender=ada) == 1
    assert s.datasets.contribute(ROOT, CID, 1, NO_NAME, sender=s.anyone) == 2
    assert tuple(s.datasets.datasets(1)) == (ada, ROOT, 2**64 - 1, CID, NO_NAME)
    assert s.datasets.dataset_count() == 2


def test_a_name__belongs_to_the_first_that_asks_and_leads_to_its_dataset(s):
    name, other = b"zoo-dataset-v2".ljust(32, b"\0"), b"\xff" * 32
    assert s.datasets.contribute(ROOT, CID, 1, NO_NAME, sender=s.anyone) == 1
    assert s.datasets.named(NO_NAME) == 0
    assert s.datasets.contribute(ROOT, CID, 5, name, sender=s.anyone) == 2
    assert (s.datasets.named(name), s.datasets.named(other)) == (2, 0)
    assert tuple(s.datasets.datasets(2)) == (s.anyone, ROOT, 5, CID, name)
    for sender in (s.anyone, s.submitter):
        with s.refused("datasets: name taken"):
            s.datasets.contribute(CID, ROOT, 7, name, sender=sender)
    assert s.datasets.contribute(ROOT, CID, 1, other, sender=s.submitter) == 3
    assert (s.datasets.named(name), s.datasets.named(other), s.datasets.dataset_count()) == (2, 3, 3)
    assert tuple(s.datasets.datasets(4)) == ("0x" + 40 * "0", bytes(32), 0, bytes(32), bytes(32))


def test_cite__refusals__in_their_order(s):
    for _ in range(9):
        s.datasets.contribute(ROOT, CID, 1, NO_NAME, sender=s.anyone)
    with s.refused("datasets: not the submitter"):
        s.datasets.cite(1, [], sender=s.submitter)  # no such job
    for state in (ENDED, CANCELLED):
        s.tasks.set_job(1, s.submitter, state, 0)
        with s.refused("datasets: job is over"):
            s.datasets.cite(1, [], sender=s.submitter)
    s.tasks.set_job(1, s.submitter, OPEN, 0)
    for numbers, reason in (([], "nothing cited"), ([0], "unknown dataset"), ([1, 10], "unknown dataset")):
        with s.refused(f"datasets: {reason}"):
            s.datasets.cite(1, numbers, sender=s.submitter)
    for numbers in ([2, 1], [2, 2], [1, 5, 4]):
        with s.refused("datasets: out of order"):
            s.datasets.cite(1, numbers, sender=s.submitter)
    with s.refused("datasets: not the submitter"):
        s.datasets.cite(1, [1], sender=s.anyone)
    s.datasets.cite(1, list(range(2, 10)), sender=s.submitter)
    assert tuple(s.datasets.citations(1)) == (list(range(2, 10)), False)
    with s.refused("datasets: already cited"):
        s.datasets.cite(1, [], sender=s.submitter)


def test_score__refusals__in_their_order(s, cited):
    s.tasks.set_job(2, s.submitter, ENDED, 0)
    with s.refused("datasets: nothing cited"):
        s.datasets.score(2, [], sender=s.submitter)
    with s.refused("datasets: not the submitter"):
        s.datasets.score(1, [], sender=s.anyone)
    for state, escrow in ((RUNNING, 0), (ENDED, 1)):
        s.tasks.set_job(1, s.submitter, state, escrow)
        with s.refused("datasets: job not settled"):
            s.datasets.score(1, [], sender=s.submitter)
    s.tasks.set_job(1, s.submitter, ENDED, 0)
    for qualities in ([], [1], [1, 2, 300]):
        with s.refused("datasets: one score each"):
            s.datasets.score(1, qualities, sender=s.submitter)
    with s.refused("datasets: score out of range"):
        s.datasets.score(1, [100, 101], sender=s.submitter)
    s.datasets.score(1, [100, 0], sender=s.submitter)
    with s.refused("datasets: already scored"):
        s.datasets.score(1, [], sender=s.submitter)
    assert tuple(s.datasets.citations(1)) == ([1, 3], True)


def test_score__quality_times_bytes__divides_a_tenth_of_the_fees(s, cited):
    ada, _, bob = cited
    node = s.register()
    s.fund(EMISSION)
    s.record(1, node, 1, 8_000)
    s.datasets.score(1, [50, 100], sender=s.submitter)
    epoch = s.next_epoch()
    assert tuple(s.rewards.calls(DATA, 1, epoch)) == (800, 40_000)
    # 300 bytes at 50 and 100 bytes at 100, of 400 bytes: what a perfect score would have brought besides is not paid.
    assert s.rewards.claim_data(ada, 1, epoch, sender=s.anyone) == 300
    assert s.rewards.claim_data(bob, 1, epoch, sender=s.anyone) == 200
    assert (s.zen.balanceOf(ada), s.zen.balanceOf(bob)) == (300, 200)
    for contributor in cited:
        with s.refused("rewards: nothing to claim"):
            s.rewards.claim_data(contributor, 1, epoch)


def test_score__job_that_paid_no_fee__brings_nothing(s, cited):
    s.fund(EMISSION)
    s.datasets.score(1, [100, 100], sender=s.submitter)
    epoch = s.next_epoch()
    with s.refused("rewards: nothing to claim"):
        s.rewards.claim_data(cited[0], 1, epoch)
