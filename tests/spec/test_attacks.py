"""No attack pays: each is played on the specification, and its profit is at most what docs/design/economics.md states."""

import pytest

from tests.support.attacks import ATTACKS, EVERYBODY, LARGE, Attack, ProfitMeter, farm, honest_course, new_stage, play
from zoo_compute.spec import audit_ends, jobs, locks, node_registry, seats
from zoo_compute.spec.locks import take
from zoo_compute.spec.params import (
    BOUNTY_FEES,
    BPS,
    DEFAULT_AUDIT_BPS,
    FEE_BPS,
    REWARD_CAP_BPS,
    REWARD_FLOW_BPS,
    ZEN,
    lock_of,
    slash_of,
    vacant_price,
)
from zoo_compute.spec.state import World

TENTH = slash_of(lock_of(2 * 80, DEFAULT_AUDIT_BPS))  # of two slots' lock at 80


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.title)
def test_attack__earns_no_more_than_its_bound(attack: Attack) -> None:
    outcome = play(attack)
    assert outcome.profit <= outcome.limit
    assert outcome.how
    assert outcome.bound.startswith("<= ")


def profit_of(title: str) -> int:
    (attack,) = [each for each in ATTACKS if each.title == title]
    return play(attack).profit


def test_the_table__names_every_attack_once() -> None:
    titles = [attack.title for attack in ATTACKS]
    assert len(titles) == len(set(titles)) >= 16


def test_self_challenge__costs_six_tenths_of_the_lock() -> None:
    lock = lock_of(2 * 80, DEFAULT_AUDIT_BPS)  # of two slots at 80
    assert profit_of("self-challenge") == -lock + lock * 4 // 10
    assert profit_of("silence instead of a judgement") == -lock
    assert profit_of("copying results") == -lock  # somebody else found it


def test_own_seat__taken_back_in_the_same_turn__costs_a_tenth_of_the_lock() -> None:
    assert profit_of("timeouts farmed by a colluding standby") == -TENTH


@pytest.mark.parametrize(
    ("title", "module", "rule", "old"),
    [
        (
            "own seat taken back by a lone bidder",
            seats,
            "vacant_price",
            lambda price, n, _: vacant_price(price, n, 160),
        ),
        (
            "own seat that everybody else has left to, after a good record",
            locks,
            "needed_of",
            lambda share, dearer: 0,
        ),
        (
            "a miss of somebody else, farmed by a submitter that leaves the seat",
            locks,
            "points_of",
            lambda w, operator, stake, now: node_registry.reputation(w, operator, now),
        ),
        ("a lie for the bounty of an own auditor", audit_ends, "bounty_of", lambda fee, *_: BOUNTY_FEES * fee),
        (
            "lies in every pending turn for bounties of one lock",
            audit_ends,
            "taken_of",
            lambda w, job, claim: lock_of(claim.price, w.terms[job].audit_bps),
        ),
    ],
)
def test_attack__under_the_rule_that_plays_broke__paid(
    monkeypatch: pytest.MonkeyPatch, title: str, module: object, rule: str, old: object
) -> None:
    assert profit_of(title) <= 0
    monkeypatch.setattr(module, rule, old)
    assert profit_of(title) > 0


def paid_when_taken(w: World, job: int, operator: int, seat: int, *args: int) -> None:
    """As once: what a seat did not need is its leaver's as soon as somebody takes the seat."""
    leaver = w.set_aside[job, seat].operator if (job, seat) in w.set_aside else 0
    take(w, job, operator, seat, *args)
    amount = w.kept.get((job, leaver), 0)
    if amount:
        w.kept[job, leaver] = 0
        node_registry.pay_out(w, w.job(job).token, amount)
        jobs.restore(w, job, 0, w.operator(leaver).owner, amount)


@pytest.mark.parametrize(
    ("title", "module", "rule", "old"),
    [
        ("ending somebody's job after a good record", locks, "take", paid_when_taken),
        ("a liar that leaves before its verdict, after a good record", locks, "forfeit", lambda w, job, operator: 0),
    ],
)
def test_attack__under_the_rule_that_plays_broke__cost_less_than_it_should(
    monkeypatch: pytest.MonkeyPatch, title: str, module: object, rule: str, old: object
) -> None:
    (attack,) = [each for each in ATTACKS if each.title == title]
    assert play(attack).profit <= play(attack).limit
    monkeypatch.setattr(module, rule, old)
    assert play(attack).profit > play(attack).limit


def test_a_miss_that_its_submitter_farms__brings_it_less_than_the_miss_costs() -> None:
    assert 0 < profit_of("a miss of somebody else, farmed by its submitter") < TENTH


def test_forfeit__is_the_reserve_for_every_unit() -> None:
    assert profit_of("bid-bond griefing") == -4 * 100
    assert profit_of("front-running a reveal") == -2 * 100


def test_showing_ones_own_fault__costs_what_is_not_sent_back() -> None:
    stake = new_stage().operator("alice").stake
    assert profit_of("a benchmark made up and found by oneself") == -stake // 5 * 3 // 5
    assert profit_of("a promise broken for its fee") == -stake * 9 // 1_000


def test_honest_course__pays_its_workers() -> None:
    """The yardstick is not zero because nothing happened: two slots at 80 for three rounds, less the fee."""
    assert honest_course("alice") == 2 * 80 * 3 * (BPS - FEE_BPS) // BPS
    assert honest_course("submitter") == -(4 * 80 + 40) * 3


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("slots", [2, 3, 6])
def test_farming__never_returns_more_than_the_fees(rounds: int, slots: int) -> None:
    """Every role in one hand, alone in the epoch, the pool a million times the fees."""
    profit, fees = farm(10_000, rounds=rounds, slots=slots, **LARGE)
    aggregations = rounds * 10_000 * FEE_BPS // BPS
    assert fees == slots * rounds * 10_000 * FEE_BPS // BPS
    assert -aggregations - 10 < profit <= -aggregations


def test_farming__without_audits_data_and_heartbeats__returns_seven_tenths() -> None:
    profit, fees = farm(10_000, helped=False, **LARGE)
    assert profit == -fees - 1_500 + fees * REWARD_CAP_BPS[0] // BPS


def test_shares_of_budget_and_fee__sum_to_the_whole() -> None:
    assert sum(REWARD_FLOW_BPS.values()) == BPS
    assert sum(REWARD_CAP_BPS.values()) == BPS


def test_watched__sees_what_leaves_and_what_comes() -> None:
    s = new_stage()
    watched = ProfitMeter(s, *EVERYBODY)
    s.ok("token", "transfer", "alice owner", s.tokens["zen"], "bob hot", ZEN)
    assert watched.profit == 0
    s.ok("token", "transfer", "alice owner", s.tokens["zen"], "sink", 5)
    assert watched.profit == -5
