"""Settlement: what a conviction costs, who receives it, and what is done again."""

import pytest

from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION, Play, load

LOCK = 2 * 2_000 * 3  # of a slot, in the kit's default terms
ROUND = 3 * 2_000 + 1_000  # what a round costs at most
SEAT_LOCK = -(-3 * ROUND * 10 // 9) + 2 * 1_000 * 3  # of the aggregator


@pytest.fixture
def cast(play):
    """ada, bob, cy with a slot each at 1,000; agg at 500, and eve, who stands by for it."""
    return play.register_all(5)


@pytest.fixture
def running(play, cast):
    ada, bob, cy, agg, eve = cast
    return play.running({ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(5), eve: Offer(9, standby=True)})


def convict(kit, job, claim, *challengers):
    """Returns the conviction's event."""
    kit.settlement.open_dispute(job, claim, sender=kit.referee)
    kit.settlement.close_dispute(job, claim, True, list(challengers), sender=kit.referee)
    return next(event for event in kit.settlement.get_logs() if type(event).__name__ == "ClaimConvicted")


def test_convict__worker_under_policy_0__divides_its_lock_and_leaves_the_rounds(kit, play, cast, running):
    ada, _bob, _cy, agg, _eve = cast
    claim = play.commit(running, ada)
    play.round(running, cast[1:3], agg)
    event = convict(kit, running, claim, play.anyone, play.submitter, kit.guardian)
    share, to_audits = LOCK * 4_000 // 10_000 // 3, LOCK // 10
    assert tuple(event)[1:] == (running, ada.id, 0, claim[2], LOCK, 0, 3 * share, to_audits)
    for challenger in (play.anyone, play.submitter, kit.guardian):
        assert kit.tasks.owed(kit.zen, challenger) == share
    assert kit.tasks.owed(kit.zen, kit.audit_pool) == to_audits
    assert kit.registry.burned(kit.zen) == LOCK - 3 * share - to_audits
    assert kit.registry.pot(kit.zen) == 0
    assert tuple(kit.settlement.stakes(running, ada.id)) == (0, 1, 0, 2, 2)
    run = kit.settlement.runs(running)
    assert (run.turn, run.round) == (1, 1)
    assert kit.settlement.pending(running, 0) == 3
    assert kit.settlement.claims(running, claim[2], 0)[30:] == b"\x00\x03"
    with play.refused("settlement: unknown claim"):
        kit.settlement.finalise(running, [claim], sender=play.anyone)


def test_convict__no_challenger__burns_their_part(kit, play, cast, running):
    claim = play.commit(running, cast[0])
    kit.settlement.void(running, claim, sender=kit.availability.address)
    assert kit.registry.burned(kit.zen) == LOCK - LOCK // 10
    assert kit.registry.discount_bps(cast[0].id) == 0


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
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)}, token=token.address)
    claims = [play.commit(job, ada)]
    play.post_checkpoint(job, agg)
    claims.append(play.commit(job, ada))
    assert convict(kit, job, claims[1], play.anyone).to_audits > 0
    token.refuse(True)
    assert convict(kit, job, claims[0], play.anyone).slashed == 0


def test_convict__aggregation__restores_what_is_done_again_and_keeps_the_rest_of_it(kit, play, cast, running):
    ada, bob, cy, agg, eve = cast
    for each in (ada, bob, cy):
        play.commit(running, each)
    lie = play.post_checkpoint(running, agg)
    paid_in = kit.zen.balanceOf(kit.tasks)
    escrow = kit.tasks.jobs(running).escrow
    event = convict(kit, running, lie, play.anyone)
    play.refs[running].remove(lie)
    rest = SEAT_LOCK - 3 * ROUND
    assert tuple(event)[5:] == (SEAT_LOCK, 2 * ROUND, rest * 4 // 10, rest // 10)
    assert kit.tasks.jobs(running).escrow == escrow + 2 * ROUND
    assert kit.zen.balanceOf(kit.tasks) == paid_in + 2 * ROUND + rest * 4 // 10 + rest // 10
    assert kit.settlement.reserves(running) == ROUND == kit.registry.pot(kit.zen)
    run = kit.settlement.runs(running)
    assert (run.turn, run.round, run.start_root, run.aggregator) == (2, 0, lie[7], 0)
    assert run.opened_at == play.now  # its lane is free: the round is done again at once
    kit.settlement.take_over(running, AGGREGATION, eve.id, 1, 10, sender=eve.hot)
    for _ in range(3):
        if not kit.settlement.runs(running).opened_at:
            play.finalise(running)
        play.round(running, [ada, bob, cy], eve)
    play.finalise(running)
    assert kit.settlement.reserves(running) == kit.registry.pot(kit.zen) == 0
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
    ada = cast[0]
    claim = play.commit(running, ada)
    for _ in range(2):
        kit.settlement.open_dispute(running, claim, sender=kit.referee)
    kit.settlement.close_dispute(running, claim, True, [play.anyone], sender=kit.referee)
    owed = kit.tasks.owed(kit.zen, play.anyone)
    word = kit.settlement.claims(running, claim[2], 0)
    kit.settlement.close_dispute(running, claim, True, [play.anyone], sender=kit.referee)
    assert kit.settlement.claims(running, claim[2], 0) == word
    assert kit.tasks.owed(kit.zen, play.anyone) == owed


def test_finalise__of_a_disputed_claim__waits_for_the_last_verdict(kit, play, cast, running):
    ada, _bob, _cy, agg, _eve = cast
    claim = play.commit(running, ada)
    play.round(running, cast[1:3], agg)
    for _ in range(2):
        kit.settlement.open_dispute(running, claim, sender=kit.referee)
    play.to(play.deadline(running, claim) + 1)
    for _ in range(2):
        with play.refused("settlement: in dispute"):
            kit.settlement.finalise(running, [claim], sender=play.anyone)
        kit.settlement.close_dispute(running, claim, False, [play.anyone], sender=kit.referee)
    kit.settlement.finalise(running, [claim], sender=play.anyone)
    assert kit.tasks.owed(kit.zen, play.anyone) == 0
    assert kit.tasks.owed(kit.zen, ada.owner) > 0


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
