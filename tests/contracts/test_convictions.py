"""Settlement: what a conviction costs, who receives it, and what is done again."""

import pytest

from tests.contracts.disputes import (  # noqa: F401
    AGED,
    CONVICTED,
    EXHAUSTED,
    FINAL,
    JUDGED,
    SILENT,
    ask,
    cast_fixture,
    close,
    convict,
    events_named,
    pending_claims,
    reward,
    running_fixture,
    status,
)
from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION, Play, load
from zoo_compute.spec.params import lock_of

LOCK = lock_of(1_000, 500)  # of a slot at its price: 98,334
ROUND = 3 * 2_000 + 1_000  # what a round costs at most
NOBODY = "0x" + 40 * "0"
SEAT_LOCK = lock_of(9, 500)  # of the aggregator, besides restitution


def test_convict__worker_under_policy_0__divides_its_lock_and_leaves_the_rounds(kit, play, cast, running):
    ada, _bob, _cy, agg, _eve = cast
    claim = play.commit(running, ada)
    play.round(running, cast[1:3], agg)
    event = convict(kit, running, claim)
    share, to_audits = LOCK * 4_000 // 10_000, LOCK // 10
    assert tuple(event)[1:] == (running, ada.id, 0, claim[2], LOCK, 0, share, to_audits)
    assert kit.tasks.owed(kit.zen, kit.audit_pool) == to_audits
    assert kit.registry.burned(kit.zen) == LOCK - share - to_audits - LOCK // 10
    assert kit.registry.pot(kit.zen) == share + LOCK // 10
    assert tuple(kit.locks.stakes(running, ada.id, False)) == (0, 0, 2, 0, 0, False)
    assert kit.settlement.records(running, ada.id) == 2, "the first turn whose claims are not void; none is parked"
    run = kit.settlement.runs(running)
    assert (run.turn, run.round, kit.locks.pots(running)) == (1, 1, LOCK // 10)
    assert pending_claims(kit, running, 0) == 3
    assert kit.settlement.claims(running, claim[2], 0)[30:] == b"\x00\x03"
    with play.refused("settlement: unknown claim"):
        kit.settlement.finalise(running, [claim], sender=play.anyone)


def test_convict__of_the_smallest_lock_with_a_part_for_audits__pays_that_unit(kit, play, cast):
    slots, aggregator = {ada: Offer(1) for ada in cast[:3]}, {cast[3]: Offer(1)}
    job = play.running(slots, aggregator, reserve=3, max_price=3, audit_bps=10_000)
    event = convict(kit, job, play.commit(job, cast[0]), SILENT)
    assert (event.slashed, event.to_audits) == (10, 1)
    assert kit.tasks.owed(kit.zen, kit.audit_pool) == 1
    assert (kit.registry.pot(kit.zen), kit.registry.burned(kit.zen)) == (1, 8)


@pytest.mark.parametrize("outcome", [SILENT, EXHAUSTED])
def test_convict__by_silence__sets_nothing_aside_for_a_finder(kit, play, cast, running, outcome):
    claim = play.commit(running, cast[0])
    event = convict(kit, running, claim, outcome, burned=LOCK)
    assert (event.slashed, event.to_finder, event.to_audits) == (LOCK, 0, LOCK // 10)
    assert kit.registry.burned(kit.zen) == LOCK - 2 * (LOCK // 10)
    reward(kit, running, claim, play.anyone)
    assert kit.settlement.get_logs() == []
    assert (kit.tasks.owed(kit.zen, play.anyone), kit.registry.pot(kit.zen)) == (0, LOCK // 10)


@pytest.mark.parametrize(
    ("burned", "slashed"),
    # 3/5 of the lock, with what burned; twice what burned from a fifth of it on; never more than the lock.
    [
        (0, 59_000),
        (1, 58_999),
        (19_666, 39_334),
        (19_667, 39_334),
        (19_668, 39_336),
        (49_166, 98_332),
        (49_167, LOCK),
        (LOCK, LOCK),
    ],
)
def test_convict__of_an_operator_that_was_exhausted__takes_twice_what_burned(kit, play, cast, running, burned, slashed):
    ada = cast[0]
    claim = play.commit(running, ada)
    assert convict(kit, running, claim, EXHAUSTED, burned).slashed == slashed
    # The rest secures what else it claimed, until it is released.
    assert kit.locks.stakes(running, ada.id, False).locked == LOCK - slashed
    assert kit.registry.collateral(ada.id, kit.zen).locked == LOCK - slashed
    assert status(kit, running, claim) == CONVICTED


def test_void__burns_the_finders_part(kit, play, cast, running):
    claim = play.commit(running, cast[0])
    kit.settlement.void(running, claim, sender=kit.availability.address)
    assert kit.registry.burned(kit.zen) == LOCK - 2 * (LOCK // 10)
    assert kit.registry.discount_bps(cast[0].id) == 0


# --- the finder's part


def test_reward_finder__pays_what_a_judgement_set_aside__once(kit, play, cast, running):
    claim = play.commit(running, cast[0])
    share = convict(kit, running, claim).to_finder
    assert share == LOCK * 4 // 10
    with play.refused("settlement: not a protocol contract"):
        kit.settlement.reward_finder(running, claim, play.anyone, sender=play.anyone)
    reward(kit, running, claim, play.anyone)
    rewarded = [tuple(event)[1:] for event in events_named(kit, "FinderRewarded")]
    assert rewarded == [(running, play.anyone, claim[0], claim[2], share)]
    assert kit.tasks.owed(kit.zen, play.anyone) == share
    assert kit.registry.pot(kit.zen) == LOCK // 10
    reward(kit, running, claim, play.anyone)
    assert (kit.tasks.owed(kit.zen, play.anyone), kit.settlement.get_logs()) == (share, [])


def test_reward_finder__without_one__burns_it(kit, play, cast, running):
    claim = play.commit(running, cast[0])
    event = convict(kit, running, claim)
    burned = kit.registry.burned(kit.zen)
    reward(kit, running, claim, NOBODY)
    assert kit.registry.burned(kit.zen) - burned == event.to_finder
    assert (kit.registry.pot(kit.zen), kit.tasks.owed(kit.zen, NOBODY)) == (LOCK // 10, 0)


def test_reward_finder__after_the_end_of_the_job__pays_still(kit, play, cast, running):
    """INVARIANT slashes: the end of a job burns its pot, and what is set aside is none of it."""
    ada, bob, cy, agg, _eve = cast
    lie = play.commit(running, ada)
    share = convict(kit, running, lie).to_finder
    play.refs[running].remove(lie)
    for each in (bob, cy):
        play.commit(running, each)
    play.to(kit.settlement.runs(running).opened_at + 2 * 10 + 1)
    play.post_checkpoint(running, agg)
    for _ in range(2):
        play.finalise(running)
        play.to(kit.settlement.runs(running).opened_at)
        for each in (bob, cy):
            play.commit(running, each)
        play.to(kit.settlement.runs(running).opened_at + 2 * 10 + 1)
        play.post_checkpoint(running, agg)
    play.finalise(running)
    assert kit.tasks.jobs(running).escrow == 0
    reward(kit, running, lie, play.anyone)
    assert kit.tasks.owed(kit.zen, play.anyone) == share
    assert kit.tasks.withdraw(kit.zen, play.anyone, sender=play.anyone) == share


# --- what is done again


def test_convict__nothing_to_divide__moves_nothing(kit):
    """A token may refuse to move nothing; its seat's lock went with the first conviction."""
    token = load("mocks/FalseToken").deploy()
    kit.tasks.allow(token, True, 0, sender=kit.deployer)
    play = Play(kit)
    ada, agg = play.register("ada", deposit=0), play.register("agg", deposit=0)
    for account, amount in ((ada.owner, 10**6), (agg.owner, 10**6), (play.submitter, 10**6)):
        token.mint(account, amount)
    for operator in (ada, agg):
        kit.registry.deposit(operator.id, token, 10**6, sender=operator.owner)
    # A reserve whose lock is not rounded: else what that leaves would be taken too.
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)}, token=token.address, reserve=600)
    claims = [play.commit(job, ada)]
    play.post_checkpoint(job, agg)
    claims.append(play.commit(job, ada))
    assert convict(kit, job, claims[1]).to_audits > 0
    token.refuse(True)
    assert convict(kit, job, claims[0]).slashed == 0


def test_convict__aggregation__restores_what_is_done_again_and_leaves_the_rest_of_that_locked(kit, play, cast, running):
    ada, bob, cy, agg, eve = cast
    for each in (ada, bob, cy):
        play.commit(running, each)
    lie = play.post_checkpoint(running, agg)
    paid_in = kit.zen.balanceOf(kit.tasks)
    escrow = kit.tasks.jobs(running).escrow
    event = convict(kit, running, lie)
    play.refs[running].remove(lie)
    rest = SEAT_LOCK
    assert tuple(event)[5:] == (SEAT_LOCK + 2 * ROUND, 2 * ROUND, rest * 4 // 10, rest // 10)
    assert kit.tasks.jobs(running).escrow == escrow + 2 * ROUND
    assert kit.zen.balanceOf(kit.tasks) == paid_in + 2 * ROUND + rest // 10
    assert tuple(kit.locks.stakes(running, agg.id, True)) == (ROUND, 2 * ROUND, 2, 0, 0, False)
    assert kit.registry.pot(kit.zen) == rest * 4 // 10 + rest // 10
    run = kit.settlement.runs(running)
    assert (run.turn, run.round, run.start_root) == (2, 0, lie[6])
    assert kit.settlement.seats(running, 128).operator == 0
    assert run.opened_at == play.now  # its lane is free: the round is done again at once
    kit.settlement.take_over(running, AGGREGATION, eve.id, 1, 10, sender=eve.hot)
    for _ in range(3):
        if not kit.settlement.runs(running).opened_at:
            play.finalise(running)
        play.round(running, [ada, bob, cy], eve)
    play.finalise(running)
    assert kit.registry.pot(kit.zen) == rest * 4 // 10  # which the finder of the lie may still get
    # Turns 0, 2, 3 and 4 of each worker; three aggregations, for the liar's was never paid.
    assert kit.tasks.owed(kit.zen, ada.owner) == 4 * 950
    assert kit.tasks.owed(kit.zen, agg.owner) == 0
    assert kit.tasks.jobs(running).escrow == 0


def test_convict__after_the_last_round__runs_the_job_again(kit, play, cast, running):
    ada, bob, cy, agg, _eve = cast
    play.round(running, [ada, bob, cy], agg)
    play.round(running, [ada, bob, cy], agg)
    for each in (ada, bob, cy):
        play.commit(running, each)
    lie = play.post_checkpoint(running, agg)
    assert kit.tasks.jobs(running).state == 4
    convict(kit, running, lie)
    rolled = [event for event in kit.settlement.get_logs() if type(event).__name__ == "RolledBack"]
    assert [tuple(event)[1:] for event in rolled] == [(running, 3, 2)]
    assert kit.tasks.jobs(running).state == 3
    run = kit.settlement.runs(running)
    assert (run.state, run.turn, run.round, run.opened_at) == (3, 3, 2, 0)


def test_close_dispute__of_a_convicted_claim_whose_place_is_used_again__changes_nothing(kit, play, cast, running):
    """Availability convicts what is in dispute too."""
    claim = play.commit(running, cast[0])
    ask(kit, running, claim)
    kit.settlement.void(running, claim, sender=kit.availability.address)
    word, pot = kit.settlement.claims(running, claim[2], 0), kit.registry.pot(kit.zen)
    for outcome in (FINAL, JUDGED, SILENT, EXHAUSTED, AGED):
        close(kit, running, claim, outcome)
        assert kit.settlement.get_logs() == []
    assert kit.settlement.claims(running, claim[2], 0) == word
    assert kit.registry.pot(kit.zen) == pot


def test_hold__stops_the_clocks_until_resume(kit, play, cast, running):
    run = kit.settlement.runs(running)
    kit.settlement.hold(running, sender=kit.availability.address)
    play.to(run.opened_at + 500)
    seat = play.seat_of(running, cast[0])
    with play.refused("settlement: deadline not passed"):
        kit.settlement.time_out(running, seat, sender=play.anyone)
    play.commit(running, cast[1])  # inputs stay open
    kit.settlement.resume(running, 450, sender=kit.availability.address)
    after = kit.settlement.runs(running)
    assert (after.opened_at, after.aggregator_due) == (run.opened_at + 450, run.aggregator_due + 450)
    kit.settlement.time_out(running, seat, sender=play.anyone)
