"""Settlement: readiness, commitments, turns, the end and payment."""

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.contracts.disputes import PAID
from tests.contracts.three_slots import LOCK, offers, rounds_played
from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION, DEVNET, ZEN, Play, events_of, load
from zoo_compute.spec.params import lock_of

# --- ready, decline, expire


def test_ready__of_all__opens_turn_zero(kit, play, cast, awarded):
    ada, bob, cy, _agg = cast
    settlement, seat = kit.settlement, play.seat_of(awarded, ada)
    with play.refused("settlement: not the hot key"):
        settlement.ready(awarded, seat, 0, sender=ada.owner)
    for estimate_s in (0, 61):
        with play.refused("settlement: estimate out of range"):
            settlement.ready(awarded, seat, estimate_s, sender=ada.hot)
    play.ready(awarded, ada, estimate_s=60)
    with play.refused("settlement: nothing to ready"):
        settlement.ready(awarded, seat, 1, sender=ada.hot)
    assert settlement.runs(awarded).missing == 0b111 & ~(1 << seat)
    assert settlement.runs(awarded).state == 2
    play.to(play.now + 5)
    play.ready(awarded, bob, cy)
    run = settlement.runs(awarded)
    assert (run.state, run.round, run.turn, run.missing, run.opened_at) == (3, 0, 0, 0b111, play.now)
    assert run.aggregator_due == play.now + 2 * 60 + 30
    assert (run.window_s, run.slot_s, run.aggregate_s, run.quorum, run.rounds) == (60, 60, 30, 2, 3)
    assert (run.depth, run.policy, run.start_root) == (3, 0, b"s" * 32)
    assert kit.tasks.jobs(awarded).state == 3


def test_window__short_reexecution__is_the_least_window(kit, play, cast):
    job = play.awarded(*offers(cast), reexecute_s=1)
    assert kit.settlement.runs(job).window_s == DEVNET.min_window_s


def test_decline__slashes_a_tenth_and_leaves_the_seat_vacant(kit, play, cast, awarded):
    ada, bob, cy, _ = cast
    seat = play.seat_of(awarded, ada)
    with play.refused("settlement: not the hot key"):
        kit.settlement.decline(awarded, seat, 1, sender=bob.hot)
    kit.settlement.decline(awarded, seat, 1, sender=ada.hot)
    assert kit.locks.pots(awarded) == LOCK // 10
    assert tuple(kit.settlement.seats(awarded, seat)) == (0, 0, 1, 1_000, 0, play.now, 0, 0)
    assert tuple(kit.locks.stakes(awarded, ada.id, False)) == (LOCK - LOCK // 10, 0, 0, 0, 0, False)
    assert kit.registry.collateral(ada.id, kit.zen).balance == 10**9 - LOCK // 10
    play.ready(awarded, bob, cy)
    assert kit.settlement.runs(awarded).state == 3


def test_decline__part_of_a_seat__numbers_the_rest_anew(kit, play):
    ada, agg = play.register_all(2)
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)})
    kit.settlement.decline(job, 0, 2, sender=ada.hot)
    events = {type(event).__name__: tuple(event)[2:] for event in kit.settlement.get_logs()}  # less address and job
    assert events["SeatSplit"] == (0, 1, 1, 1, 2)
    assert events["SeatVacated"] == (ada.id, 1, 0, lock_of(2_000, 500) // 10)
    kept, second = kit.settlement.seats(job, 0), kit.settlement.seats(job, 1)
    assert (kept.operator, kept.first, kept.count) == (ada.id, 0, 1)
    assert (second.operator, second.first, second.count, second.price) == (0, 1, 2, 1_000)
    left = 3 * lock_of(1_000, 500) - lock_of(2_000, 500) // 10
    assert tuple(kit.locks.stakes(job, ada.id, False)) == (left, 0, 1, 1, 1, False)
    run = kit.settlement.runs(job)
    assert (run.seats, run.missing) == (2, 0b11)


def test_decline__one_slot_of_many__is_told_with_what_is_kept(kit, play):
    ada, agg = play.register_all(2)
    job = play.running({ada: Offer(10, 4)}, {agg: Offer(5)}, slots=4)
    kit.settlement.decline(job, 0, 1, sender=ada.hot)
    [split] = [event for event in kit.settlement.get_logs() if type(event).__name__ == "SeatSplit"]
    assert tuple(split)[2:] == (0, 3, 1, 3, 1)


def test_expire__only_after_the_ready_window(kit, play, cast, awarded):
    ada, bob, cy, _ = cast
    seats = {each: play.seat_of(awarded, each) for each in (ada, bob, cy)}
    play.ready(awarded, ada)
    end = kit.settlement.runs(awarded).opened_at + DEVNET.ready_window_s
    play.to(end)
    with play.refused("settlement: ready window open"):
        kit.settlement.expire(awarded, seats[bob], sender=play.anyone)
    play.to(end + 1)
    with play.refused("settlement: nothing to ready"):
        kit.settlement.expire(awarded, seats[ada], sender=play.anyone)
    kit.settlement.expire(awarded, seats[bob], sender=play.anyone)
    assert kit.settlement.runs(awarded).state == 2
    kit.settlement.expire(awarded, seats[cy], sender=play.anyone)
    assert kit.settlement.runs(awarded).state == 3


# --- commit


def test_commit__keeps_the_claims_hash_whether_it_is_disputed_and_its_status(kit, play, cast, running):
    ada = cast[0]
    seat = play.seat_of(running, ada)
    claim = play.commit(running, ada)
    (event,) = kit.settlement.get_logs()
    digest = keccak(encode(["uint256"] * 6 + ["bytes32"] * 2, claim))
    assert kit.settlement.claims(running, seat, 0) == digest[:30] + b"\x00\x01"
    assert tuple(event.claim) == claim
    assert (event.operator, event.bundle) == (ada.id, b"b" * 32)
    kit.settlement.open_dispute(running, claim, sender=kit.referee)
    assert kit.settlement.claims(running, seat, 0) == digest[:30] + b"\x01\x01"
    run = kit.settlement.runs(running)
    assert (run.missing, run.committed) == (0b111 & ~(1 << seat), 1)


@pytest.mark.parametrize("bit", [0, 15, 16, 255])
def test_finalise__a_claim_that_differs_in_one_bit_of_its_root__is_unknown(kit, play, cast, running, bit):
    ada, bob, cy, agg = cast
    claim = play.commit(running, ada)
    play.commit(running, bob)
    play.commit(running, cy)
    play.post_checkpoint(running, agg)
    play.to(play.deadline(running, claim) + 1)
    root = (int.from_bytes(claim[7], "big") ^ 1 << bit).to_bytes(32, "big")
    with play.refused("settlement: unknown claim"):
        kit.settlement.finalise(running, [(*claim[:7], root)], sender=play.anyone)
    kit.settlement.finalise(running, [claim], sender=play.anyone)


# --- post_checkpoint


def test_post_checkpoint__closes_the_turn_and_opens_the_next(kit, play, cast, running):
    ada, bob, cy, agg = cast
    for each in (ada, bob, cy):
        play.commit(running, each)
    play.to(play.now + 7)
    claim = play.post_checkpoint(running, agg)
    posted, closed, opened = kit.settlement.get_logs()
    assert (tuple(posted.claim), posted.cid) == (claim, b"c" * 32)
    assert (closed.turn, closed.deadline) == (0, play.now + kit.settlement.runs(running).window_s)
    assert kit.settlement.claim_deadline(running, 0) == closed.deadline
    assert kit.settlement.claim_deadline(running, 1) == 2**256 - 1
    assert (opened.turn, opened.round, opened.start_root, opened.inputs_close) == (1, 1, claim[7], play.now + 120)
    run = kit.settlement.runs(running)
    assert (run.round, run.turn, run.missing, run.committed) == (1, 1, 0b111, 0)
    assert (run.opened_at, run.aggregator_due, run.start_root) == (play.now, play.now + 2 * 60 + 30, claim[7])
    assert kit.settlement.pending(running, 0) == 0b111 | 1 << AGGREGATION


def test_post_checkpoint__last_round__ends_the_job(kit, play, cast, running):
    rounds_played(play, running, cast, 3)
    run = kit.settlement.runs(running)
    assert (run.state, run.round, run.turn, run.opened_at) == (4, 3, 3, 0)
    assert kit.tasks.jobs(running).state == 4
    with play.refused("settlement: not running"):
        play.commit(running, cast[0])


OTHERS = [pytest.param(present, marks=pytest.mark.long) for present in (1, 1 << 127, 0x5555 << 112 | 1)]


@pytest.mark.parametrize("present", [2**128 - 1, *OTHERS])
def test_post_checkpoint__128_seats__counts_every_bit(kit, play, present):
    """Of one holder's 128 slots 127 are given up, one by one, and taken again by itself: as many seats as there can be."""
    kit.zen.transfer(play.submitter, ZEN, sender=kit.deployer)
    ada, bob, agg = (play.register(name, units=128) for name in ("ada", "bob", "agg"))
    job = play.running({ada: Offer(10, 128), bob: Offer(11, 128)}, {agg: Offer(5)}, slots=128, quorum=1)
    for _ in range(127):
        kit.settlement.decline(job, 0, 1, sender=ada.hot)
        seat = kit.settlement.runs(job).seats - 1
        kit.settlement.take_over(job, seat, bob.id, 1, 10, sender=bob.hot)
    for seat in range(128):
        if present >> seat & 1:
            play.commit(job, ada if seat == 0 else bob, seat)
    play.to(kit.settlement.runs(job).opened_at + 2 * 60)
    play.post_checkpoint(job, agg)
    assert kit.settlement.pending(job, 0) == present | 1 << AGGREGATION


# --- finalise


def test_finalise__pays_once_and_only_after_the_window(kit, play, cast, running):
    ada, bob, cy, agg = cast
    claim = play.commit(running, ada)
    finalise = kit.settlement.finalise
    with play.refused("settlement: no claims"):
        finalise(running, [], sender=play.anyone)
    with play.refused("settlement: window open"):
        finalise(running, [claim], sender=play.anyone)
    for each in (bob, cy):
        play.commit(running, each)
    play.post_checkpoint(running, agg)
    play.to(play.deadline(running, claim))
    with play.refused("settlement: window open"):
        finalise(running, [claim], sender=play.anyone)
    play.to(play.deadline(running, claim) + 1)
    with play.refused("settlement: unknown claim"):
        finalise(running, [claim, claim], sender=play.anyone)
    finalise(running, [claim], sender=play.anyone)
    (event,) = [each for each in kit.settlement.get_logs() if type(each).__name__ == "ClaimFinalised"]
    assert tuple(event)[1:] == (running, ada.id, 0, claim[2], 1_000)
    assert kit.tasks.owed(kit.zen, ada.owner) == 950
    assert kit.settlement.claims(running, claim[2], 0)[31] == PAID
    with play.refused("settlement: unknown claim"):
        finalise(running, [claim], sender=play.anyone)


def test_finalise__claims_of_one_operator__are_paid_at_once_for_one_fee(kit, play):
    ada, agg = play.register_all(2)
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)}, reserve=37, max_price=37)
    for _ in range(3):
        play.round(job, [ada], agg)
    claims = sorted(play.refs[job], key=lambda claim: claim[3])
    play.to(play.deadline(job, *claims) + 1)
    kit.settlement.finalise(job, claims, sender=play.anyone)
    events = [event for event in kit.settlement.get_logs() if type(event).__name__ == "ClaimFinalised"]
    assert [event.paid for event in events if event.operator == ada.id] == [111] * 3
    # Whoever reads the events knows from their order whose payment it is.
    names = [type(event).__name__ for event in kit.settlement.get_logs()]
    assert [name for name in names if name in ("ClaimFinalised", "Paid")] == (["ClaimFinalised"] * 3 + ["Paid"]) * 2
    paid = [fields for name, fields in events_of(kit.settlement, kit.tasks) if name == "Paid"]
    assert [each["account"] for each in paid] == [ada.owner, agg.owner], "each once, and nobody else"
    # 333 - 316 is 17; each of the three alone would have cost 6.
    assert (paid[0]["net"], paid[0]["fee"]) == (316, 17)
    assert kit.tasks.owed(kit.zen, ada.owner) == 316
    assert kit.settlement.pending(job, 2) == 0


def test_finalise__of_a_claim_that_was_paid__is_refused_after_its_turns_record_is_gone(kit, play):
    """A claim's word does not say that it was paid: the records of later turns, which take its turn's place, must not undo it."""
    ada, agg = play.register_all(2)
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)}, depth=2, rounds=6)
    for _ in range(2):
        play.round(job, [ada], agg)
    claim, *others = play.refs[job]
    play.to(play.deadline(job, claim, *others) + 1)
    kit.settlement.finalise(job, [claim, *others], sender=play.anyone)
    paid = kit.tasks.owed(kit.zen, ada.owner)
    for _ in range(2):  # turns 2 and 3 have the records of 0 and 1; the claims' places are reused from turn 3 on
        assert kit.settlement.claims(job, claim[2], claim[0])[31] == PAID
        for each in (claim, others[0]):
            with play.refused("settlement: unknown claim"):
                kit.settlement.finalise(job, [each], sender=play.anyone)
        play.round(job, [ada], agg)
    assert kit.tasks.owed(kit.zen, ada.owner) == paid
    assert kit.settlement.pending(job, 0) == kit.settlement.pending(job, 1) == 0


def test_finalise__job_in_zen__records_weight_and_fee(kit, play, cast):
    ada, _bob, _cy, agg = cast
    job = play.running(*offers(cast))
    rounds_played(play, job, cast, 1)
    play.finalise(job)
    epoch = play.now // DEVNET.epoch_s
    assert tuple(kit.rewards.shares(ada.id, epoch, job)) == (10**12, 50)
    assert tuple(kit.rewards.shares(agg.id, epoch, job)) == (0, 0)
    assert tuple(kit.rewards.epochs(epoch)) == (3 * 10**12, 150, 0, 0)


def test_finalise__job_in_another_token__earns_no_rewards(kit):
    token = load("ZenToken").deploy(10**9 * ZEN, sender=kit.deployer)
    kit.tasks.allow(token, True, 0, sender=kit.deployer)
    play = Play(kit, token=token)
    cast = play.register_all(4)
    job = play.running(*offers(cast))
    rounds_played(play, job, cast, 1)
    play.finalise(job)
    assert kit.tasks.owed(token, cast[0].owner) == 950
    assert tuple(kit.rewards.epochs(play.now // DEVNET.epoch_s)) == (0, 0, 0, 0)


def test_finalise__last_claim__refunds_the_rest_of_the_escrow(kit, play, cast, running):
    rounds_played(play, running, cast, 3)
    play.finalise(running)
    assert kit.tasks.jobs(running).escrow == 0
    assert kit.tasks.owed(kit.zen, play.submitter) == (2_000 * 3 + 1_000) * 3 - 3 * (3 * 1_000 + 500)


def test_job__from_post_to_withdrawal__conserves_every_wei(kit, play, cast):
    tasks_before, registry_before = kit.zen.balanceOf(kit.tasks), kit.zen.balanceOf(kit.registry)
    job = play.running(*offers(cast), rounds=2)
    rounds_played(play, job, cast, 2)
    play.finalise(job)
    # No losing units: everyone is paid the reserve, 1,000 a slot-round, and the aggregator 500 a round; 5 % is the fee.
    assert [kit.tasks.owed(kit.zen, each.owner) for each in cast] == [2 * 950] * 3 + [2 * 475]
    assert kit.tasks.owed(kit.zen, kit.treasury) == 6 * 50 + 2 * 25
    play.release(job, *cast)
    for account in (*(each.owner for each in cast), kit.treasury.address, play.submitter):
        kit.tasks.withdraw(kit.zen, account, sender=play.anyone)
    assert kit.zen.balanceOf(kit.tasks) == tasks_before
    assert kit.zen.balanceOf(kit.registry) == registry_before
    for each in cast:
        assert tuple(kit.registry.collateral(each.id, kit.zen)) == (10**9, 0)
        assert kit.registry.operators(each.id).locks == 0
