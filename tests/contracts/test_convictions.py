"""Settlement: how the dispute of a claim ends; what a conviction costs, who receives it, and what is done again."""

import pytest

from tests.contracts.disputes import (
    AGED,
    CONVICTED,
    EXHAUSTED,
    FINAL,
    JUDGED,
    SILENT,
    VOID,
    ask,
    close,
    convict,
    events_named,
    reward,
    status,
)
from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION, Play, load

LOCK = 2 * 2_000 * 3  # of a slot, in the kit's default terms
ROUND = 3 * 2_000 + 1_000  # what a round costs at most
NOBODY = "0x" + 40 * "0"
SEAT_LOCK = -(-3 * ROUND * 10 // 9) + 2 * 1_000 * 3  # of the aggregator


@pytest.fixture
def cast(play):
    """ada, bob, cy with a slot each at 1,000; agg at 500, and eve, who stands by for it."""
    return play.register_all(5)


@pytest.fixture
def running(play, cast):
    ada, bob, cy, agg, eve = cast
    return play.running({ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(5), eve: Offer(9, standby=True)})


def test_convict__worker_under_policy_0__divides_its_lock_and_leaves_the_rounds(kit, play, cast, running):
    ada, _bob, _cy, agg, _eve = cast
    claim = play.commit(running, ada)
    play.round(running, cast[1:3], agg)
    event = convict(kit, running, claim)
    share, to_audits = LOCK * 4_000 // 10_000, LOCK // 10
    assert tuple(event)[1:] == (running, ada.id, 0, claim[2], LOCK, 0, share, to_audits)
    assert kit.tasks.owed(kit.zen, kit.audit_pool) == to_audits
    assert kit.registry.burned(kit.zen) == LOCK - share - to_audits
    assert kit.registry.pot(kit.zen) == share
    assert tuple(kit.settlement.stakes(running, ada.id)) == (0, 1, 0, 2, 2, 0)
    run = kit.settlement.runs(running)
    assert (run.turn, run.round, run.pot) == (1, 1, 0)
    assert kit.settlement.pending(running, 0) == 3
    assert kit.settlement.claims(running, claim[2], 0)[30:] == b"\x00\x03"
    with play.refused("settlement: unknown claim"):
        kit.settlement.finalise(running, [claim], sender=play.anyone)


@pytest.mark.parametrize("outcome", [SILENT, EXHAUSTED])
def test_convict__by_silence__sets_nothing_aside_for_a_finder(kit, play, cast, running, outcome):
    claim = play.commit(running, cast[0])
    event = convict(kit, running, claim, outcome, burned=LOCK)
    assert (event.slashed, event.to_finder, event.to_audits) == (LOCK, 0, LOCK // 10)
    assert kit.registry.burned(kit.zen) == LOCK - LOCK // 10
    reward(kit, running, claim, play.anyone)
    assert kit.settlement.get_logs() == []
    assert kit.tasks.owed(kit.zen, play.anyone) == kit.registry.pot(kit.zen) == 0


@pytest.mark.parametrize(
    ("burned", "slashed"),
    # 3/5 of the lock, with what burned; twice what burned from a fifth of it on; never more than the lock.
    [(0, 7_200), (1, 7_199), (2_400, 4_800), (2_401, 4_802), (5_999, 11_998), (6_000, LOCK), (LOCK, LOCK)],
)
def test_convict__of_an_operator_that_was_exhausted__takes_twice_what_burned(kit, play, cast, running, burned, slashed):
    ada = cast[0]
    claim = play.commit(running, ada)
    assert convict(kit, running, claim, EXHAUSTED, burned).slashed == slashed
    # The rest secures what else it claimed, until it is released.
    assert kit.settlement.stakes(running, ada.id).locked == LOCK - slashed
    assert kit.registry.collateral(ada.id, kit.zen).locked == LOCK - slashed
    assert status(kit, running, claim) == CONVICTED


def test_void__burns_the_finders_part(kit, play, cast, running):
    claim = play.commit(running, cast[0])
    kit.settlement.void(running, claim, sender=kit.availability.address)
    assert kit.registry.burned(kit.zen) == LOCK - LOCK // 10
    assert kit.registry.discount_bps(cast[0].id) == 0


# --- the finder's part


def test_reward_finder__pays_what_a_judgement_set_aside__once(kit, play, cast, running):
    claim = play.commit(running, cast[0])
    share = convict(kit, running, claim).to_finder
    assert share == LOCK * 4 // 10
    with play.refused("settlement: not the referee"):
        kit.settlement.reward_finder(running, claim, play.anyone, sender=play.anyone)
    reward(kit, running, claim, play.anyone)
    rewarded = [tuple(event)[1:] for event in events_named(kit, "FinderRewarded")]
    assert rewarded == [(running, play.anyone, claim[0], claim[2], share)]
    assert kit.tasks.owed(kit.zen, play.anyone) == share
    assert kit.registry.pot(kit.zen) == 0
    reward(kit, running, claim, play.anyone)
    assert (kit.tasks.owed(kit.zen, play.anyone), kit.settlement.get_logs()) == (share, [])


def test_reward_finder__without_one__burns_it(kit, play, cast, running):
    claim = play.commit(running, cast[0])
    event = convict(kit, running, claim)
    burned = kit.registry.burned(kit.zen)
    reward(kit, running, claim, NOBODY)
    assert kit.registry.burned(kit.zen) - burned == event.to_finder
    assert kit.registry.pot(kit.zen) == kit.tasks.owed(kit.zen, NOBODY) == 0


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


# --- claims that are not convicted


def test_open_dispute__is_the_referees__of_a_pending_claim(kit, play, cast, running):
    claim = play.commit(running, cast[0])
    for call in (
        lambda: kit.settlement.open_dispute(running, claim, sender=play.anyone),
        lambda: kit.settlement.close_dispute(running, claim, JUDGED, 0, 0, sender=play.anyone),
    ):
        with play.refused("settlement: not the referee"):
            call()
    with play.refused("settlement: unknown claim"):
        ask(kit, running, (*claim[:8], bytes(32)))
    ask(kit, running, claim)
    assert [tuple(event)[1:] for event in events_named(kit, "DisputeOpened")] == [(running, 0, claim[2])]
    convict(kit, running, claim)
    with play.refused("settlement: unknown claim"):
        ask(kit, running, claim)


def test_close_dispute__of_a_final_claim__pays_it_as_finalise_does(kit, play, cast, running):
    """The same payments, events and counts of two seats, one of which was asked about."""
    play.round(running, cast[:3], cast[3])
    ada, bob = (claim for claim in play.refs[running] if claim[3] in (cast[0].id, cast[1].id))
    ask(kit, running, ada)
    play.to(play.deadline(running, ada) + 1)
    with play.refused("settlement: in dispute"):
        kit.settlement.finalise(running, [ada], sender=play.anyone)
    close(kit, running, ada, FINAL, used_s=10**6)
    asked = [tuple(event)[3:] for event in events_named(kit, "ClaimFinalised")]
    kit.settlement.finalise(running, [bob], sender=play.anyone)
    others = [tuple(event)[3:] for event in events_named(kit, "ClaimFinalised")]
    assert [(seat, *money) for _, seat, *money in asked] == [(ada[2], 1_000, 50, 0)]
    assert [money for _, _, *money in asked] == [money for _, _, *money in others]
    assert kit.tasks.owed(kit.zen, cast[0].owner) == kit.tasks.owed(kit.zen, cast[1].owner) == 950
    assert kit.registry.discount_bps(cast[0].id) == kit.registry.discount_bps(cast[1].id) > 0
    assert kit.settlement.pending(running, 0) == 2
    close(kit, running, ada, JUDGED)  # it is paid: nothing is left to judge
    assert kit.settlement.get_logs() == []


@pytest.mark.parametrize(
    ("used_s", "paid"), [(0, 500), (20, 500), (21, 495), (70, 250), (119, 5), (120, 0), (2**16 - 1, 0)]
)
def test_close_dispute__of_a_final_aggregation__pays_less_the_longer_it_took(kit, play, cast, used_s, paid):
    """On a devnet all up to 20 s of its own clock, nothing from 120 s on; the rest stays in escrow."""
    running = play.running(dict(zip(cast, map(Offer, (10, 20, 30)), strict=False)), {cast[3]: Offer(5)})
    play.round(running, cast[:3], cast[3])
    claim, escrow = play.refs[running][-1], kit.tasks.jobs(running).escrow
    ask(kit, running, claim)
    play.to(play.deadline(running, claim) + 1)
    close(kit, running, claim, FINAL, used_s=used_s)
    assert [event.paid for event in events_named(kit, "ClaimFinalised")] == [paid]
    assert kit.tasks.owed(kit.zen, cast[3].owner) == paid * 95 // 100
    assert kit.tasks.jobs(running).escrow == escrow - paid
    assert kit.settlement.pending(running, 0) == 3


def test_close_dispute__of_an_aged_claim__is_unpaid_and_unslashed(kit, play, cast, running):
    play.round(running, cast[:3], cast[3])
    lie, escrow = play.refs[running][-1], kit.tasks.jobs(running).escrow
    ask(kit, running, lie)
    play.to(play.deadline(running, lie) + 1)
    close(kit, running, lie, AGED)
    assert [tuple(event)[1:] for event in kit.settlement.get_logs()] == [(running, cast[3].id, 0, AGGREGATION)]
    assert status(kit, running, lie) == VOID
    assert kit.settlement.pending(running, 0) == 3
    assert kit.tasks.jobs(running).escrow == escrow
    assert kit.settlement.stakes(running, cast[3].id).locked == SEAT_LOCK
    assert kit.settlement.runs(running).round == 1
    for call in (lambda: kit.settlement.finalise(running, [lie], sender=play.anyone), lambda: ask(kit, running, lie)):
        with play.refused("settlement: unknown claim"):
            call()


@pytest.mark.parametrize("outcome", [FINAL, AGED])
def test_close_dispute__of_the_last_pending_claim__opens_the_turn_that_waits(kit, play, cast, running, outcome):
    ada, bob, cy, agg, _eve = cast
    for _ in range(3):
        play.round(running, [ada, bob, cy], agg)
    claims = play.refs[running]
    ask(kit, running, claims[0])
    play.to(play.deadline(running, *claims) + 1)
    kit.settlement.finalise(running, claims[1:], sender=play.anyone)
    assert kit.tasks.jobs(running).escrow > 0
    close(kit, running, claims[0], outcome)
    assert kit.tasks.jobs(running).escrow == 0  # the job is over: nothing is pending


# --- other claims of a convicted operator


def test_claims_from_before_a_conviction__are_void(kit, play, cast, running):
    """INVARIANT void: ada's are neither paid nor counted; bob's between them are, whatever batch they are in."""
    ada, bob, cy, agg, _eve = cast
    for _ in range(2):
        play.round(running, [ada, bob, cy], agg)
    turns = [play.refs[running][at : at + 4] for at in (0, 4)]
    lie, other = (next(claim for claim in turn if claim[3] == ada.id) for turn in turns)
    true = next(claim for claim in turns[0] if claim[3] == bob.id)
    convict(kit, running, lie)
    assert kit.settlement.stakes(running, ada.id).void_before == 3
    pot = kit.registry.pot(kit.zen)
    play.to(play.deadline(running, other) + 1)
    kit.settlement.finalise(running, [true, other], sender=play.anyone)
    assert [tuple(event)[1:] for event in events_named(kit, "ClaimVoided")] == [(running, ada.id, 1, other[2])]
    assert [event.operator for event in events_named(kit, "ClaimFinalised")] == [bob.id]
    assert status(kit, running, other) == VOID
    assert kit.tasks.owed(kit.zen, ada.owner) == kit.registry.discount_bps(ada.id) == 0
    assert kit.tasks.owed(kit.zen, bob.owner) == 950
    assert kit.settlement.pending(running, 1) == 3
    assert kit.registry.pot(kit.zen) == pot


def test_a_void_claim__is_judged_until_it_is_finalised(kit, play, cast, running):
    ada, bob, cy, agg, _eve = cast
    for _ in range(2):
        play.round(running, [ada, bob, cy], agg)
    lies = [claim for claim in play.refs[running] if claim[3] == ada.id]
    convict(kit, running, lies[0])
    assert kit.settlement.dispute_terms(running, lies[1]).deadline == play.deadline(running, lies[1])
    ask(kit, running, lies[1])
    play.to(play.deadline(running, lies[1]) + 1)
    with play.refused("settlement: in dispute"):
        kit.settlement.finalise(running, [lies[1]], sender=play.anyone)
    with_more = kit.settlement.pending(running, 1)
    close(kit, running, lies[1], FINAL)
    assert [tuple(event)[1:] for event in kit.settlement.get_logs()] == [(running, ada.id, 1, lies[1][2])]
    assert (status(kit, running, lies[1]), kit.settlement.pending(running, 1)) == (VOID, with_more - 1)


def test_a_claim_of_the_turn_after_a_conviction__is_paid(kit, play, cast, running):
    ada, bob, cy, agg, eve = cast
    for _ in range(2):
        play.round(running, [ada, bob, cy], agg)
    lie, void = (claim for claim in play.refs[running] if claim[3] == agg.id)
    convict(kit, running, lie)  # round 0 is done again from turn 3 on
    play.refs[running].remove(lie)
    kit.settlement.take_over(running, AGGREGATION, eve.id, 1, 10, sender=eve.hot)
    play.finalise(running)
    assert status(kit, running, void) == VOID
    play.round(running, [ada, bob, cy], eve)
    play.finalise(running)
    assert kit.tasks.owed(kit.zen, eve.owner) == 9 * 95 // 100
    assert kit.tasks.owed(kit.zen, agg.owner) == 0


# --- what the referee asks


def test_dispute_terms__follow_from_the_job_and_from_what_the_operator_holds(kit, play):
    ada, bob, agg = play.register_all(3)
    job = play.running({ada: Offer(10, 4), bob: Offer(20, 2)}, {agg: Offer(5)}, slots=6, quorum=1, work_root=b"w" * 32)
    reexecute_s = kit.tasks.schedules(job).reexecute_s
    claims = [play.commit(job, each) for each in (ada, bob)]
    terms = [tuple(kit.settlement.dispute_terms(job, claim)) for claim in claims]
    assert terms == [(b"w" * 32, reexecute_s, 4, 0), (b"w" * 32, reexecute_s, 2, 0)]
    kit.settlement.void(job, claims[1], sender=kit.availability.address)
    for claim in (claims[1], (*claims[0][:8], bytes(32))):
        with play.refused("settlement: unknown claim"):
            kit.settlement.dispute_terms(job, claim)
    play.to(kit.settlement.runs(job).opened_at + 2 * 10 + 1)
    aggregation = play.post_checkpoint(job, agg)
    deadline = kit.settlement.claim_deadline(job, 0)
    assert tuple(kit.settlement.dispute_terms(job, claims[0])) == (b"w" * 32, reexecute_s, 4, deadline)
    assert tuple(kit.settlement.dispute_terms(job, aggregation)) == (b"w" * 32, reexecute_s, 1, deadline)


def test_dispute_terms__count_the_slots_of_all_seats__never_fewer_than_the_claims(kit, play):
    """Slots that are split off, given up or taken over; the aggregator's seat has none."""
    ada, bob = play.register_all(2)
    bids = {ada: Offer(10, 4, standby=True), bob: Offer(20, 2)}
    job = play.running(bids, {bob: Offer(5)}, slots=6, quorum=1)
    assert [kit.settlement.stakes(job, each.id).slots for each in (ada, bob)] == [4, 2]
    kit.settlement.decline(job, play.seat_of(job, bob), 1, sender=bob.hot)
    assert [kit.settlement.stakes(job, each.id).slots for each in (ada, bob)] == [4, 1]
    claim = play.commit(job, ada)
    assert kit.settlement.dispute_terms(job, claim).slots == 4
    convict(kit, job, claim)
    assert kit.settlement.stakes(job, ada.id).slots == 0


def test_reexecution_price__is_the_reserve_of_the_terms__whatever_the_jobs_state(kit, play):
    much, small = 2**78 + 5, {"rounds": 1, "slots": 1, "quorum": 1}
    own = play.post(reserve=much, max_price=much, aggregator_reserve=3, aggregator_max_price=7, **small)
    other = play.post(reserve=2, max_price=9, aggregator_reserve=much, aggregator_max_price=much, **small)
    for _ in range(2):
        for job, prices in ((own, (much, 3)), (other, (2, much))):
            assert [tuple(kit.tasks.reexecution_price(job, is_aggregation)) for is_aggregation in (False, True)] == [
                (kit.zen.address, price) for price in prices
            ]
        assert kit.tasks.schedules(own).round_price == much + 7
        if kit.tasks.jobs(other).state == 1:
            kit.tasks.cancel(other, sender=play.submitter)
    assert [kit.tasks.jobs(job).state for job in (own, other)] == [1, 5]


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
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)}, token=token.address)
    claims = [play.commit(job, ada)]
    play.post_checkpoint(job, agg)
    claims.append(play.commit(job, ada))
    assert convict(kit, job, claims[1]).to_audits > 0
    token.refuse(True)
    assert convict(kit, job, claims[0]).slashed == 0


def test_convict__aggregation__restores_what_is_done_again_and_keeps_the_rest_of_it(kit, play, cast, running):
    ada, bob, cy, agg, eve = cast
    for each in (ada, bob, cy):
        play.commit(running, each)
    lie = play.post_checkpoint(running, agg)
    paid_in = kit.zen.balanceOf(kit.tasks)
    escrow = kit.tasks.jobs(running).escrow
    event = convict(kit, running, lie)
    play.refs[running].remove(lie)
    rest = SEAT_LOCK - 3 * ROUND
    assert tuple(event)[5:] == (SEAT_LOCK, 2 * ROUND, rest * 4 // 10, rest // 10)
    assert kit.tasks.jobs(running).escrow == escrow + 2 * ROUND
    assert kit.zen.balanceOf(kit.tasks) == paid_in + 2 * ROUND + rest // 10
    assert kit.settlement.reserves(running) == ROUND == kit.registry.pot(kit.zen) - rest * 4 // 10
    run = kit.settlement.runs(running)
    assert (run.turn, run.round, run.start_root, run.aggregator) == (2, 0, lie[7], 0)
    assert run.opened_at == play.now  # its lane is free: the round is done again at once
    kit.settlement.take_over(running, AGGREGATION, eve.id, 1, 10, sender=eve.hot)
    for _ in range(3):
        if not kit.settlement.runs(running).opened_at:
            play.finalise(running)
        play.round(running, [ada, bob, cy], eve)
    play.finalise(running)
    assert kit.settlement.reserves(running) == 0
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
