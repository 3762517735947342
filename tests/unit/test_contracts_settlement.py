"""Settlement: readiness, commitments, rounds, the end, payment and release."""

import boa
import pytest

from tests.contract_kit import DEVNET, ZEN, Offer, Play, load

LOCK = 2 * 2_000 * 3  # of a slot, in the kit's default terms
SEAT_LOCK = 3 * 2_000 * 3  # of the aggregator


@pytest.fixture
def cast(play):
    """ada, bob, cy with a slot each at 1,000, and the aggregator at 500."""
    return play.register_all(4)


def offers(cast):
    ada, bob, cy, agg = cast
    return {ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(5)}


@pytest.fixture
def awarded(play, cast):
    return play.awarded(*offers(cast))


@pytest.fixture
def running(play, cast):
    return play.running(*offers(cast))


def rounds_played(play, job, cast, count):
    ada, bob, cy, agg = cast
    for _ in range(count):
        play.round(job, [ada, bob, cy], agg)


# --- ready, decline, expire


def test_ready__of_all__opens_round_zero(kit, play, cast, awarded):
    ada, bob, cy, agg = cast
    settlement = kit.settlement
    with play.refused("settlement: not the hot key"):
        settlement.ready(awarded, ada.id, 0, sender=ada.owner)
    with play.refused("settlement: nothing to ready"):
        settlement.ready(awarded, agg.id, 0, sender=agg.hot)
    for estimate_s in (0, 61):
        with play.refused("settlement: estimate out of range"):
            settlement.ready(awarded, ada.id, estimate_s, sender=ada.hot)
    play.ready(awarded, ada, estimate_s=60)
    with play.refused("settlement: nothing to ready"):
        settlement.ready(awarded, ada.id, 1, sender=ada.hot)
    assert settlement.runs(awarded).missing == 0b110
    assert settlement.runs(awarded).state == 2
    play.to(play.now + 5)
    play.ready(awarded, bob, cy)
    run = settlement.runs(awarded)
    assert (run.state, run.round, run.missing, run.opened_at) == (3, 0, 0b111, play.now)
    assert run.aggregator_due == play.now + 2 * 60 + 30
    assert (run.window_s, run.slot_s, run.aggregate_s, run.quorum, run.rounds) == (60, 60, 30, 2, 3)
    assert kit.tasks.jobs(awarded).state == 3
    with play.refused("settlement: not awarded"):
        settlement.ready(awarded, ada.id, 1, sender=ada.hot)


def test_window__short_reexecution__is_the_least_window(kit, play, cast):
    job = play.awarded(*offers(cast), reexecute_s=1)
    assert kit.settlement.runs(job).window_s == DEVNET.min_window_s


def test_decline__slashes_a_tenth_and_leaves_the_slot_vacant(kit, play, cast, awarded):
    ada, bob, cy, _ = cast
    with play.refused("settlement: not the hot key"):
        kit.settlement.decline(awarded, ada.id, sender=bob.hot)
    kit.settlement.decline(awarded, ada.id, sender=ada.hot)
    run, seat = kit.settlement.runs(awarded), kit.settlement.seats(awarded, ada.id)
    assert (run.missing, run.vacant, run.pot) == (0b110, 0b001, LOCK // 10)
    assert (seat.held, seat.locked) == (0, LOCK - LOCK // 10)
    assert tuple(kit.settlement.vacancies(awarded, 0)) == (1_000, LOCK // 10)
    assert kit.registry.collateral(ada.id, kit.zen).balance == 10**9 - LOCK // 10
    with play.refused("settlement: nothing to ready"):
        kit.settlement.decline(awarded, ada.id, sender=ada.hot)
    play.ready(awarded, bob, cy)
    assert kit.settlement.runs(awarded).state == 3
    with play.refused("settlement: not awarded"):
        kit.settlement.decline(awarded, bob.id, sender=bob.hot)


def test_expire__only_after_the_ready_window(kit, play, cast, awarded):
    ada, bob, cy, _ = cast
    play.ready(awarded, ada)
    end = kit.settlement.runs(awarded).opened_at + DEVNET.ready_window_s
    play.to(end)
    with play.refused("settlement: ready window open"):
        kit.settlement.expire(awarded, bob.id, sender=play.anyone)
    play.to(end + 1)
    with play.refused("settlement: nothing to ready"):
        kit.settlement.expire(awarded, ada.id, sender=play.anyone)
    kit.settlement.expire(awarded, bob.id, sender=play.anyone)
    assert kit.settlement.runs(awarded).state == 2
    kit.settlement.expire(awarded, cy.id, sender=play.anyone)
    assert kit.settlement.runs(awarded).state == 3
    with play.refused("settlement: not awarded"):
        kit.settlement.expire(awarded, cy.id, sender=play.anyone)


# --- commit


def test_commit__stores_one_word_and_clears_the_slots(kit, play, cast, running):
    ada = cast[0]
    ref = play.commit(running, ada)
    word = kit.settlement.claims(running, 0, 0)
    assert word != bytes(32)
    assert ref[5] == play.now + 60
    assert kit.settlement.runs(running).missing == 0b110


def test_commit__out_of_turn__is_refused_in_order(kit, play, cast, awarded):
    ada, bob, cy, _ = cast
    commit = kit.settlement.commit
    zero = bytes(32)
    with play.refused("settlement: not running"):
        commit(awarded, 0, ada.id, 1, zero, zero, sender=ada.hot)
    play.ready(awarded, ada, bob, cy)
    with play.refused("settlement: not the current round"):
        commit(awarded, 1, ada.id, 0, zero, zero, sender=ada.owner)
    with play.refused("settlement: not the hot key"):
        commit(awarded, 0, ada.id, 0, zero, zero, sender=ada.owner)
    with play.refused("settlement: no slots"):
        commit(awarded, 0, ada.id, 0, zero, zero, sender=ada.hot)
    with play.refused("settlement: slot not held"):
        commit(awarded, 0, ada.id, 0b011, zero, zero, sender=ada.hot)
    play.commit(awarded, ada)
    with play.refused("settlement: slot already committed"):
        commit(awarded, 0, ada.id, 1, zero, zero, sender=ada.hot)
    inputs_close = kit.settlement.runs(awarded).opened_at + 2 * 60
    play.to(inputs_close - 1)
    play.commit(awarded, bob)
    play.to(inputs_close)
    with play.refused("settlement: inputs closed"):
        commit(awarded, 0, cy.id, 0, zero, zero, sender=cy.owner)


def test_commit__some_of_the_slots__leaves_the_others(kit, play):
    ada, agg = play.register_all(2)
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)})
    play.commit(job, ada, 0b100)
    assert kit.settlement.claims(job, 0, 2) != bytes(32)
    assert kit.settlement.claims(job, 0, 0) == bytes(32)
    play.commit(job, ada, 0b011)
    play.post_checkpoint(job, agg)
    assert kit.settlement.runs(job).outstanding == 4


# --- post_checkpoint


def test_post_checkpoint__closes_the_round_and_opens_the_next(kit, play, cast, running):
    ada, bob, cy, agg = cast
    for each in (ada, bob, cy):
        play.commit(running, each)
    play.to(play.now + 7)
    root = play.post_checkpoint(running, agg)[4]
    run = kit.settlement.runs(running)
    assert (run.round, run.missing, run.outstanding, run.opened_at) == (1, 0b111, 4, play.now)
    assert run.aggregator_due == play.now + 2 * 60 + 30
    assert kit.tasks.checkpoint_root(running, 1) == root
    assert kit.tasks.checkpoint_cid(running) == b"\x06" * 32


def test_post_checkpoint__out_of_turn__is_refused_in_order(kit, play, cast, awarded):
    ada, bob, cy, agg = cast
    post = kit.settlement.post_checkpoint
    zero = bytes(32)
    with play.refused("settlement: not running"):
        post(awarded, 0, agg.id, 0, zero, zero, sender=agg.hot)
    play.ready(awarded, ada, bob, cy)
    with play.refused("settlement: not the current round"):
        post(awarded, 1, ada.id, 0, zero, zero, sender=ada.owner)
    with play.refused("settlement: not the aggregator"):
        post(awarded, 0, ada.id, 0, zero, zero, sender=ada.owner)
    with play.refused("settlement: not the hot key"):
        post(awarded, 0, agg.id, 0, zero, zero, sender=agg.owner)
    play.commit(awarded, ada)
    inputs_close = kit.settlement.runs(awarded).opened_at + 2 * 60
    play.to(inputs_close - 1)
    with play.refused("settlement: inputs open"):
        post(awarded, 0, agg.id, 0, zero, zero, sender=agg.hot)
    with boa.env.anchor():
        play.to(inputs_close)
        with play.refused("settlement: mask differs"):
            post(awarded, 0, agg.id, 0b011, zero, zero, sender=agg.hot)
        with play.refused("settlement: quorum not reached"):
            post(awarded, 0, agg.id, 0b001, zero, zero, sender=agg.hot)
    play.commit(awarded, bob)
    play.to(inputs_close)
    post(awarded, 0, agg.id, 0b011, zero, zero, sender=agg.hot)


def test_post_checkpoint__last_round__ends_the_job(kit, play, cast, running):
    rounds_played(play, running, cast, 3)
    run = kit.settlement.runs(running)
    assert (run.state, run.round, run.outstanding) == (4, 3, 12)
    assert kit.tasks.jobs(running).state == 4
    with play.refused("settlement: not running"):
        play.commit(running, cast[0])


@pytest.mark.parametrize("bitmap", [2**256 - 1, (2**128 - 1) << 128, 0x5555 << 240 | 1, 1 << 255])
def test_post_checkpoint__256_slots__counts_every_bit(kit, play, bitmap):
    kit.zen.transfer(play.submitter, ZEN, sender=kit.deployer)
    ada, agg = play.register_all(2)
    job = play.running({ada: Offer(10, 256)}, {agg: Offer(5)}, slots=256, quorum=1)
    play.commit(job, ada, bitmap)
    play.to(kit.settlement.runs(job).opened_at + 2 * 60)
    play.post_checkpoint(job, agg)
    assert kit.settlement.runs(job).outstanding == bitmap.bit_count() + 1
    play.finalise(job)
    assert kit.tasks.owed(kit.zen, ada.owner) == bitmap.bit_count() * 950


# --- finalise


def test_finalise__pays_once_and_only_after_the_window(kit, play, cast, running):
    ada, bob, cy, agg = cast
    ref = play.commit(running, ada)
    finalise = kit.settlement.finalise
    with play.refused("settlement: no claims"):
        finalise(running, [], sender=play.anyone)
    with play.refused("settlement: round still open"):
        finalise(running, [ref], sender=play.anyone)
    for each in (bob, cy):
        play.commit(running, each)
    play.post_checkpoint(running, agg)
    play.to(ref[5])
    with play.refused("settlement: window open"):
        finalise(running, [ref], sender=play.anyone)
    play.to(ref[5] + 1)
    for wrong in (
        (0, 1, *ref[2:]),
        (0, 0, bob.id, *ref[3:]),
        (*ref[:3], 0b111, *ref[4:]),
        (*ref[:4], b"\x09" * 32, ref[5]),
        (*ref[:5], ref[5] - 1),
    ):
        with play.refused("settlement: unknown claim"):
            finalise(running, [wrong], sender=play.anyone)
    with play.refused("settlement: unknown claim"):
        finalise(running, [ref, ref], sender=play.anyone)
    finalise(running, [ref], sender=play.anyone)
    assert kit.tasks.owed(kit.zen, ada.owner) == 950
    assert kit.registry.discount_bps(ada.id) == 1
    with play.refused("settlement: unknown claim"):
        finalise(running, [ref], sender=play.anyone)


def test_finalise__a_claim_of_several_slots__pays_each(kit, play):
    ada, agg = play.register_all(2)
    job = play.running({ada: Offer(10, 3)}, {agg: Offer(5)})
    play.round(job, [ada], agg)
    play.finalise(job)
    assert kit.tasks.owed(kit.zen, ada.owner) == 3 * 950
    assert kit.registry.discount_bps(ada.id) == 3
    assert kit.settlement.runs(job).outstanding == 0


def test_finalise__job_in_zen__records_weight_and_fee(kit, play, cast):
    ada, _bob, _cy, agg = cast
    job = play.running(*offers(cast))
    rounds_played(play, job, cast, 1)
    play.finalise(job)
    epoch = play.now // DEVNET.epoch_s
    assert tuple(kit.rewards.shares(ada.id, epoch)) == (10**12, 50)
    assert tuple(kit.rewards.shares(agg.id, epoch)) == (0, 0)
    assert tuple(kit.rewards.epochs(epoch)) == (3 * 10**12, 150, 0, 0)


def test_finalise__job_in_another_token__earns_no_rewards(kit):
    token = load("ZenToken").deploy(10**9 * ZEN, sender=kit.deployer)
    kit.tasks.allow(token, True, sender=kit.deployer)
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
    play.release(job, *cast)
    for account in (*(each.owner for each in cast), kit.treasury.address, play.submitter):
        kit.tasks.withdraw(kit.zen, account, sender=play.anyone)
    assert kit.zen.balanceOf(kit.tasks) == tasks_before
    assert kit.zen.balanceOf(kit.registry) == registry_before
    for each in cast:
        assert tuple(kit.registry.collateral(each.id, kit.zen)) == (10**9, 0)
        assert kit.registry.operators(each.id).locks == 0
