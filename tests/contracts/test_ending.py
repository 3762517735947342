"""Settlement: abandoned jobs, released locks, what a pause leaves alone."""

import pytest

from tests.contracts.disputes import pending_claims
from tests.contracts.three_slots import LOCK, rounds_played
from tests.support.job_driver import Offer
from tests.support.protocol_driver import events_of

# --- abandon


def test_abandon__inputs_complete_without_quorum__keeps_what_was_committed_payable(kit, play, cast, running):
    ada = cast[0]
    play.commit(running, ada)
    inputs_close = kit.settlement.runs(running).opened_at + 2 * 60
    play.to(inputs_close - 1)
    with play.refused("settlement: job can go on"):
        kit.settlement.abandon(running, sender=play.anyone)
    play.to(inputs_close)
    kit.settlement.abandon(running, sender=play.anyone)
    run = kit.settlement.runs(running)
    assert (run.state, run.round, pending_claims(kit, running, 0)) == (4, 0, 1)
    assert kit.tasks.jobs(running).escrow > 0
    with play.refused("settlement: claims not final"):
        kit.locks.release(running, ada.id, sender=play.anyone)
    play.finalise(running)
    assert kit.tasks.owed(kit.zen, ada.owner) == 950
    assert kit.tasks.jobs(running).escrow == 0
    play.release(running, *cast)
    with play.refused("settlement: not running"):
        kit.settlement.abandon(running, sender=play.anyone)


def test_abandon__nothing_committed__closes_at_once(kit, play, cast, running):
    play.to(kit.settlement.runs(running).opened_at + 2 * 60)
    escrow = kit.tasks.jobs(running).escrow
    kit.settlement.abandon(running, sender=play.anyone)
    assert "PotBurned" not in [name for name, _ in events_of(kit.settlement, kit.registry)], "there is nothing to burn"
    assert kit.tasks.owed(kit.zen, play.submitter) == escrow
    play.release(running, *cast)


def test_abandon__all_declined__returns_everything(kit, play, cast, awarded):
    ada, bob, cy, agg = cast
    for each in (ada, bob, cy):
        kit.settlement.decline(awarded, play.seat_of(awarded, each), 1, sender=each.hot)
    assert kit.settlement.runs(awarded).state == 3
    play.to(play.now + 2 * 60)
    kit.settlement.abandon(awarded, sender=play.anyone)
    assert kit.registry.burned(kit.zen) == 3 * (LOCK // 10)
    assert kit.registry.pot(kit.zen) == 0
    play.release(awarded, *cast)
    assert kit.registry.collateral(agg.id, kit.zen).locked == 0


# --- release


def test_release__holder_that_is_aggregator_too__frees_both_locks(kit, play):
    ada = play.register("ada")
    job = play.running({ada: Offer(10, 3)}, {ada: Offer(5)}, rounds=1)
    assert kit.registry.operators(ada.id).locks == 2
    play.round(job, [ada], ada)
    play.finalise(job)
    play.release(job, ada)
    assert kit.registry.operators(ada.id).locks == 0
    assert kit.registry.collateral(ada.id, kit.zen).locked == 0


def test_auctions_functions__by_anyone_else__are_refused(kit, play):
    with play.refused("settlement: not a protocol contract"):
        kit.settlement.seat(1, 0, 1, 0, 1, 1, 1, sender=kit.tasks.address)
    with play.refused("settlement: not a protocol contract"):
        kit.settlement.begin(1, sender=kit.tasks.address)


# --- what a pause leaves alone


@pytest.fixture
def paused(kit, play, cast, running):
    """All that a guardian may pause, with a job that runs, and a bid in another one; that one's number."""
    other = play.post()
    play.bid(other, 0, cast[0], Offer(10))
    for contract in (kit.registry, kit.tasks, kit.auction):
        contract.pause(2**40 - 1, sender=kit.guardian)
        assert contract.paused_until() > play.now
    return other


def test_pause__leaves_a_running_job_and_its_claims_alone(kit, play, cast, running, paused):
    rounds_played(play, running, cast, 3)
    play.finalise(running)
    play.release(running, *cast)
    for account, amount in ((cast[0].owner, 3 * 950), (cast[3].owner, 3 * 475)):
        before = kit.zen.balanceOf(account)
        assert kit.tasks.withdraw(kit.zen, account, sender=play.anyone) == amount
        assert kit.zen.balanceOf(account) == before + amount


def test_pause__lets_a_job_be_cancelled_and_its_escrow_go_back(kit, play, paused):
    before = kit.zen.balanceOf(play.submitter)
    escrow = kit.tasks.jobs(paused).escrow
    kit.tasks.cancel(paused, sender=play.submitter)
    kit.tasks.withdraw(kit.zen, play.submitter, sender=play.anyone)
    assert kit.zen.balanceOf(play.submitter) == before + escrow


def test_pause__lets_an_operator_take_bond_collateral_and_stake_with_it(kit, play, cast, running, paused):
    registry, ada = kit.registry, cast[0]
    rounds_played(play, running, cast, 3)
    play.finalise(running)
    play.release(running, ada)
    registry.request_exit(ada.id, sender=ada.owner)
    kit.tasks.cancel(paused, sender=play.submitter)
    kit.auction.reclaim(paused, 0, ada.id, sender=play.anyone)
    before = kit.zen.balanceOf(ada.owner)
    locks_of = registry.collateral(ada.id, kit.zen)
    assert locks_of.locked == 0
    registry.withdraw(ada.id, kit.zen, locks_of.balance, sender=ada.owner)
    play.to(registry.operators(ada.id).exit_at)
    stake = registry.stake_of(ada.id)
    registry.withdraw_stake(ada.id, sender=ada.owner)
    assert kit.zen.balanceOf(ada.owner) == before + locks_of.balance + stake
    assert locks_of.balance > 0
    assert stake > 0
