"""TaskRegistry: terms, escrow, cancellation, debts."""

from fractions import Fraction
from math import ceil

import pytest

from tests.support.job_driver import Offer
from tests.support.protocol_driver import UNLIMITED, ZEN, load

# By audit rate: what is locked behind a price of 6,000.
LOCKS = {200: 1_490_000, 500: 590_000, 501: 588_803, 2_000: 140_000, 10_000: 20_000}


def test_post__stores_the_job_and_pulls_the_most_it_can_cost(kit, play):
    before = kit.zen.balanceOf(play.submitter)
    job = play.post(rounds=7, slots=5, quorum=5)
    escrow = (2_000 * 5 + 1_000) * 7
    assert kit.zen.balanceOf(play.submitter) == before - escrow
    roots = (b"p" * 32, b"s" * 32, b"d" * 32, b"m" * 32)
    assert tuple(kit.tasks.jobs(job)) == (play.submitter, kit.zen.address, 1, escrow, *roots)
    bounds = (7, 5, 5, 1, 5 * 2_000 + 1_000, 60, 30, 20, 1, 10**12, 4, 0, 500)
    assert tuple(kit.tasks.schedules(job)) == (kit.zen.address, *bounds, b"s" * 32)


def test_post__opens_both_lots_with_their_locks(kit, play):
    job = play.post(rounds=7, slots=5)
    slots, seat = kit.auction.lots(job, 0), kit.auction.lots(job, 1)
    assert (slots.phase, slots.units, slots.attempt) == (1, 5, 1)
    assert (slots.reserve, slots.max_reserve, slots.lock, slots.once) == (1_000, 2_000, 98_334, 0)
    once = 4 * (5 * 2_000 + 1_000)
    assert (seat.units, seat.reserve, seat.max_reserve, seat.lock, seat.once) == (1, 500, 1_000, 49_167, once)
    assert slots.bid_end == seat.bid_end == play.now + 12
    assert slots.reveal_end == seat.reveal_end == play.now + 18


@pytest.mark.parametrize("audit_bps", LOCKS)
def test_post__the_rate_of_audits__decides_what_is_locked_behind_a_price(kit, play, audit_bps):
    prices = {"reserve": 6_000, "max_price": 7_000, "aggregator_reserve": 6_000, "aggregator_max_price": 7_000}
    job = play.post(**prices, audit_bps=audit_bps, slots=1, quorum=1)
    p = Fraction(audit_bps, 10_000) * Fraction(2, 3) / 2
    assert LOCKS[audit_bps] == ceil(6_000 * (1 - p) / (Fraction(6, 10) * p))
    assert [kit.auction.lots(job, kind).lock for kind in (0, 1)] == [LOCKS[audit_bps]] * 2


@pytest.mark.parametrize(("policy", "of_workers"), [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0), (7, 1)])
def test_lock_terms__say_what_restitution_is_locked_for_in_each_role(kit, play, policy, of_workers):
    job = play.post(rounds=7, slots=5, policy=policy, depth=6, audit_bps=321)
    round_price = 5 * 2_000 + 1_000
    assert tuple(kit.tasks.lock_terms(job, False)) == (round_price, of_workers * 6 * round_price, 321)
    assert tuple(kit.tasks.lock_terms(job, True)) == (round_price, 6 * round_price, 321)


@pytest.mark.parametrize(
    ("value", "windows"), [(0, 1), (7_001, 1), (7_000, 2), (3_501, 2), (3_500, 3), (2_333, 4), (1, 4), (2**256 - 1, 1)]
)
def test_post__windows__are_longer_once_more_for_each_value_that_a_round_may_cost(kit, play, value, windows):
    kit.tasks.allow(kit.zen, True, value, sender=kit.deployer)
    assert kit.tasks.window_values(kit.zen) == value
    assert kit.tasks.schedules(play.post()).windows == windows  # a round is 3 * 2,000 + 1,000


def test_allow__after_a_job_was_posted__leaves_its_windows(kit, play):
    kit.tasks.allow(kit.zen, True, 7_000, sender=kit.deployer)
    job = play.post()
    kit.tasks.allow(kit.zen, True, 1, sender=kit.deployer)
    assert kit.tasks.schedules(job).windows == 2


def test_post__fewer_rounds_than_the_depth__locks_for_those(kit, play):
    job = play.post(rounds=2)
    assert kit.auction.lots(job, 1).once == 2 * (3 * 2_000 + 1_000)


def test_post__least_terms__are_accepted(kit, play):
    counts = dict.fromkeys(("rounds", "slots", "quorum", "depth", "flops"), 1)
    prices = dict.fromkeys(("reserve", "max_price", "aggregator_reserve", "aggregator_max_price"), 1)
    job = play.post(**counts, **prices, slot_s=1, aggregate_s=1, reexecute_s=1, policy=0, audit_bps=200)
    assert kit.tasks.jobs(job).escrow == 2
    assert tuple(kit.tasks.schedules(job))[1:] == (1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 0, 200, b"s" * 32)


def test_post__greatest_terms__are_accepted(kit, play):
    kit.zen.transfer(play.submitter, 10**8 * ZEN, sender=kit.deployer)
    seconds = {"slot_s": 604_800, "aggregate_s": 604_800, "reexecute_s": 604_800}
    job = play.post(slots=16_384, quorum=16_384, depth=16, policy=7, audit_bps=10_000, flops=2**96 - 1, **seconds)
    greatest = (
        16_384,
        16_384,
        1,
        16_384 * 2_000 + 1_000,
        604_800,
        604_800,
        604_800,
        1,
        2**96 - 1,
        3,
        7,
        10_000,
        b"s" * 32,
    )
    assert tuple(kit.tasks.schedules(job))[2:] == greatest  # of its depth of 16 it can use three rounds
    assert kit.tasks.schedules(play.post(rounds=16, slots=1, quorum=1, depth=16)).depth == 16
    job = play.post(rounds=10_000, slots=1, quorum=1)
    assert kit.tasks.schedules(job).rounds == 10_000


def test_post__greatest_price__fits_every_word(kit, play):
    token = load("mocks/FalseToken").deploy()
    kit.tasks.allow(token, True, 0, sender=kit.deployer)
    token.mint(play.submitter, 2**128)
    most = 2**80 - 1
    job = play.post(
        token=token.address,
        rounds=10_000,
        slots=7_000,
        reserve=most,
        max_price=most,
        aggregator_reserve=most,
        aggregator_max_price=most,
    )
    assert kit.tasks.jobs(job).escrow == most * 7_001 * 10_000
    own = -(-most * 295 // 3)
    assert [kit.auction.lots(job, kind).lock for kind in (0, 1)] == [own] * 2
    assert [kit.auction.lots(job, kind).once for kind in (0, 1)] == [0, 7_001 * most * 4]


def test_cancel__while_lots_are_open__owes_the_whole_escrow(kit, play):
    job = play.post()
    escrow = kit.tasks.jobs(job).escrow
    with play.refused("tasks: not the submitter"):
        kit.tasks.cancel(job, sender=play.anyone)
    kit.tasks.cancel(job, sender=play.submitter)
    assert (kit.tasks.jobs(job).state, kit.tasks.jobs(job).escrow) == (5, 0)
    assert kit.tasks.owed(kit.zen, play.submitter) == escrow
    assert kit.auction.lots(job, 0).cancelled_at == kit.auction.lots(job, 1).cancelled_at == play.now
    with play.refused("tasks: not open"):
        kit.tasks.cancel(job, sender=play.submitter)
    before = kit.zen.balanceOf(play.submitter)
    assert kit.tasks.withdraw(kit.zen, play.submitter, sender=play.anyone) == escrow
    assert kit.zen.balanceOf(play.submitter) == before + escrow
    with play.refused("tasks: nothing owed"):
        kit.tasks.withdraw(kit.zen, play.submitter, sender=play.anyone)


@pytest.mark.parametrize("kind", [0, 1])
def test_cancel__once_a_lot_clears__is_refused(kit, play, kind):
    ada, bob, cy, agg = play.register_all(4)
    offers = ({ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(5)})
    job = play.post()
    play.bid_all(job, *offers)
    play.reveal_all(job, *offers)
    play.clear(job, kind, offers[kind])
    with play.refused("tasks: auction is clearing"):
        kit.tasks.cancel(job, sender=play.submitter)


def test_cancel__while_paused__stays_open(kit, play):
    job = play.post()
    for contract in (kit.tasks, kit.auction, kit.registry):
        contract.pause(2**40 - 1, sender=kit.guardian)
    kit.tasks.cancel(job, sender=play.submitter)
    kit.tasks.withdraw(kit.zen, play.submitter, sender=play.anyone)


@pytest.mark.parametrize(("amount", "net"), [(0, 0), (1, 0), (19, 18), (20, 19), (21, 19), (20_000, 19_000)])
def test_pay__rounds_against_the_payee(kit, play, amount, net):
    job = play.post()
    assert kit.tasks.pay(job, play.anyone, amount, sender=kit.settlement.address) == amount - net
    assert kit.tasks.owed(kit.zen, play.anyone) == net
    assert kit.tasks.owed(kit.zen, kit.treasury) == amount - net


@pytest.mark.parametrize("function", ["pay", "restore", "close"])
def test_settlement_functions__by_anyone_else__are_refused(kit, play, function):
    args = {"pay": (1, play.anyone, 1), "restore": (1, 1, play.anyone, 1), "close": (1, 0)}[function]
    for sender in (play.anyone, kit.auction.address):
        with play.refused("tasks: not a protocol contract"):
            getattr(kit.tasks, function)(*args, sender=sender)


def test_advance__by_anyone_else__is_refused(kit, play):
    with play.refused("tasks: not a protocol contract"):
        kit.tasks.advance(1, 4, sender=play.anyone)


def test_withdraw__of_a_token_that_answers_false__is_refused_and_stays_owed(kit, play):
    token = load("mocks/FalseToken").deploy()
    kit.tasks.allow(token, True, 0, sender=kit.deployer)
    token.mint(play.submitter, UNLIMITED // 2)
    job = play.post(token=token.address)
    kit.tasks.cancel(job, sender=play.submitter)
    token.refuse(True)
    with play.refused("tasks: transfer failed"):
        kit.tasks.withdraw(token, play.submitter, sender=play.anyone)
    with play.refused("tasks: transfer failed"):
        play.post(token=token.address)
    token.refuse(False)
    kit.tasks.withdraw(token, play.submitter, sender=play.anyone)
