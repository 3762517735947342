"""The clocks of openings: presets, boundaries, prices, and the formulas of delay and cost."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.campaigns.clocks.model import Violation
from tests.campaigns.clocks.random_plays import RandomPlay, play_many
from zoo_compute.spec import clock_costs as costs
from zoo_compute.spec import clocks as c
from zoo_compute.spec.clocks import DEVNET, PRODUCTION, ClockPreset, End, PathClocks, Shares
from zoo_compute.spec.revert import Refused

HOUR = 3_600
DEADLINE = 1_000_000
GWEI = c.GWEI
GAS = 128_000
SECONDS = st.integers(0, 10**6)


def ask(clocks: PathClocks, now: int, heavy: bool = False, open_heavy: int = 0, slots: int = 1) -> PathClocks:
    return c.asked(clocks, now, DEADLINE, heavy, open_heavy, slots, 60, PRODUCTION)


# --- presets and protocol time


def test_bound__in_production__is_fourteen_hours_and_32_reexecutions() -> None:
    assert c.bound(DEADLINE, 600, PRODUCTION) == DEADLINE + 14 * HOUR + 32 * 600
    assert c.aged_at(DEADLINE, 600, PRODUCTION) == DEADLINE + 28 * HOUR + 64 * 600


def test_production__leaves_the_askers_time_after_a_halt() -> None:
    assert 4 * PRODUCTION.outage_s <= PRODUCTION.asker_s  # a halt costs each running clock outage_s at most


@pytest.mark.parametrize("preset", [PRODUCTION, DEVNET])
def test_presets__fade_the_pay_within_the_committers_clock(preset: ClockPreset) -> None:
    assert preset.asker_s <= preset.committer_s
    assert preset.pay_fades_from_s < preset.pay_gone_at_s <= preset.committer_s
    assert costs.stranger_defence_s(12, preset.committer_s, preset) >= preset.committer_s // 2


@given(st.lists(st.integers(0, 30_000), min_size=1, max_size=20), st.randoms())
def test_protocol_time__never_runs_backwards__and_a_halt_costs_outage_s(gaps: list[int], chance: random.Random) -> None:
    now = beat = stopped = 0
    time = c.protocol_time_s(now, stopped, beat, PRODUCTION)
    expected = 0
    for gap in gaps:
        for at in sorted(chance.randrange(gap + 1) for _ in range(3)):
            read = c.protocol_time_s(now + at, stopped, beat, PRODUCTION)
            assert read >= time
            time = read
        now += gap
        expected += min(gap, PRODUCTION.outage_s)
        stopped, beat = c.stopped_after(now, stopped, beat, PRODUCTION), now
        assert c.protocol_time_s(now, stopped, beat, PRODUCTION) == expected >= time


# --- a path


def test_asked__before_the_deadline__costs_the_askers_nothing() -> None:
    clocks = ask(c.first(DEADLINE, PRODUCTION), DEADLINE - 5 * HOUR)
    clocks = c.answered(clocks, DEADLINE - 4 * HOUR)
    clocks = ask(clocks, DEADLINE)
    assert clocks.asker_left_s == 2 * HOUR
    assert clocks.committer_left_s == 11 * HOUR


@pytest.mark.parametrize("late", [0, 1])
def test_asked__in_the_askers_last_second__is_accepted_and_later_refused(late: int) -> None:
    clocks = c.answered(ask(c.first(DEADLINE, PRODUCTION), DEADLINE), DEADLINE + HOUR)
    now = DEADLINE + 3 * HOUR + late
    assert c.is_askable(clocks, now, DEADLINE) is not bool(late)
    if late:
        with pytest.raises(Refused, match="askers' time"):
            ask(clocks, now)
    else:
        assert ask(clocks, now).asker_left_s == 0


@pytest.mark.parametrize("late", [0, 1])
def test_answered__in_the_last_second__is_accepted_and_later_refused(late: int) -> None:
    clocks = ask(c.first(DEADLINE, PRODUCTION), DEADLINE)
    now = DEADLINE + 12 * HOUR + late
    assert c.is_expired(clocks, now) is bool(late)
    assert c.may_answer(clocks, now, False, PRODUCTION) is not bool(late)
    if late:
        with pytest.raises(Refused, match="committer's time"):
            c.answered(clocks, now)
    else:
        assert c.answered(clocks, now).committer_left_s == 0


def test_an_ask_in_the_askers_last_second__answered_in_the_committers_last__ends_at_the_bound() -> None:
    clocks = ask(c.first(DEADLINE, PRODUCTION), DEADLINE, heavy=True, open_heavy=32)
    clocks = c.answered(clocks, DEADLINE + 1)
    clocks = ask(clocks, DEADLINE + 1 + 2 * HOUR)
    end = DEADLINE + 14 * HOUR + 32 * 60
    clocks = c.answered(clocks, end)
    assert c.latest(0, clocks, DEADLINE) == end == c.bound(DEADLINE, 60, PRODUCTION)
    assert not c.is_final(end, DEADLINE, end, 0)
    assert c.is_final(end + 1, DEADLINE, end, 0)


@pytest.mark.parametrize(
    ("open_heavy", "slots", "counted"), [(1, 4, 1), (4, 4, 1), (5, 4, 2), (1000, 4, 32), (3, 0, 3)]
)
def test_a_heavy_ask__adds_what_one_worker_a_slot_needs(open_heavy: int, slots: int, counted: int) -> None:
    clocks = ask(c.first(DEADLINE, PRODUCTION), DEADLINE, True, open_heavy, slots)
    assert clocks.committer_left_s == 12 * HOUR + counted * 60
    assert clocks.counted_left == 32 - counted
    assert clocks.exhausted is (open_heavy > 32 * max(slots, 1))
    assert not c.answered(clocks, DEADLINE).exhausted


def test_two_heavy_asks_of_a_path__add_32_reexecutions_together() -> None:
    clocks = c.answered(ask(c.first(DEADLINE, PRODUCTION), DEADLINE, True, 20), DEADLINE)
    clocks = ask(clocks, DEADLINE, True, 20)
    assert clocks.committer_left_s == 12 * HOUR + 32 * 60
    assert clocks.counted_left == 0


@pytest.mark.parametrize(("after_s", "stranger"), [(0, False), (1_799, False), (1_800, True)])
def test_strangers__answer_after_the_authors_half_hour(after_s: int, stranger: bool) -> None:
    clocks = ask(c.first(DEADLINE, PRODUCTION), DEADLINE)
    assert c.may_answer(clocks, DEADLINE + after_s, True, PRODUCTION)
    assert c.may_answer(clocks, DEADLINE + after_s, False, PRODUCTION) is stranger


def test_strangers__have_half_of_what_a_dead_author_left() -> None:
    clocks = replace(ask(c.first(DEADLINE, PRODUCTION), DEADLINE), committer_left_s=60)
    assert not c.may_answer(clocks, DEADLINE + 29, False, PRODUCTION)
    assert c.may_answer(clocks, DEADLINE + 30, False, PRODUCTION)


# --- the aggregator's pay


@pytest.mark.parametrize(("hours", "pay"), [(0, 1000), (2, 1000), (7, 500), (12, 0), (13, 0)])
def test_an_aggregators_pay__fades_between_two_and_twelve_hours(hours: int, pay: int) -> None:
    assert c.fading_pay(1000, hours * HOUR, PRODUCTION) == pay


def test_used_s__does_not_count_what_heavy_asks_added() -> None:
    clocks = c.answered(ask(c.first(DEADLINE, PRODUCTION), DEADLINE, True, 10), DEADLINE + 10 * 60)
    assert c.used_s(clocks, PRODUCTION) == 0
    assert c.used_s(c.answered(ask(clocks, DEADLINE + 600), DEADLINE + 600 + HOUR), PRODUCTION) == HOUR


# --- prices


def test_the_kth_unanswered_ask__prepays_k_times_at_four_base_fees_and_one_gwei_at_least() -> None:
    assert c.answer_fee(1, GAS, 10 * GWEI) == 40 * GAS * GWEI
    assert c.answer_fee(7, GAS, 10 * GWEI) == 280 * GAS * GWEI
    assert c.answer_fee(1, GAS, 0) == GAS * GWEI
    assert c.heavy_fee(3, 5) == c.heavy_fee(5, 3) == 5


@given(st.integers(0, 10**20), st.sampled_from(End), st.booleans())
def test_shares__add_up_and_nothing_burns_of_a_true_claim(fee: int, end: End, on_path: bool) -> None:
    for shares in (c.answer_shares(fee, end), c.heavy_shares(fee, end, on_path)):
        assert shares.asker + shares.answerer + shares.burned == fee
        assert min(shares.asker, shares.answerer, shares.burned) >= 0
        assert (shares.answerer > 0) == (end is End.FINAL and fee > 0)
        if end is End.FINAL:
            assert shares.burned == 0


@pytest.mark.parametrize("end", [End.JUDGED, End.SILENT])
def test_an_asker_on_the_convicting_path__gets_everything_back(end: End) -> None:
    assert c.heavy_shares(101, end, True) == Shares(asker=101)
    assert c.heavy_shares(101, end, False) == Shares(asker=51, burned=50)


def test_silence__slashes_the_lock__unless_the_ask_was_exhausted() -> None:
    assert c.silence_slash(7_200, 100, End.SILENT) == 7_200
    assert c.silence_slash(7_200, 2_200, End.EXHAUSTED) == 4_400
    assert c.silence_slash(7_200, 100_000, End.EXHAUSTED) == 7_200
    assert c.silence_slash(7_200, 100, End.EXHAUSTED) == 4_220  # three fifths, less what burned


@given(lock=st.integers(0, 10**24), reexecution=st.integers(0, 10**22), asks=st.integers(0, 5_000))
def test_a_liar_that_exhausts_itself__loses_no_less_than_by_a_judgement(lock: int, reexecution: int, asks: int) -> None:
    assert costs.liar_loses(asks, reexecution, lock) >= min(lock, costs.judgement_costs(lock))


# --- formulas


def test_delay__with_everything_used__is_the_bound() -> None:
    assert costs.delay_s(PRODUCTION.committer_s, 10**6, 8, 600, PRODUCTION) == c.bound_s(600, PRODUCTION)
    assert costs.delay_s(0, 0, 1, 600, PRODUCTION) == 2 * HOUR


def serve(asks: int, slots: int, reexecute_s: int) -> int:
    """How many of heavy asks made in one second are answered late by one worker a slot, oldest first; simulated."""
    free, late = [0] * slots, 0
    for number in range(1, asks + 1):
        worker = free.index(min(free))
        free[worker] += reexecute_s
        clocks = c.asked(c.first(0, PRODUCTION), 0, 0, True, number, slots, reexecute_s, PRODUCTION)
        late += c.is_expired(clocks, free[worker])
    return late


@pytest.mark.parametrize(("slots", "reexecute_s"), [(1, 3_600), (3, 3_600), (2, 5_000), (1, 43_201), (4, 14_400)])
def test_exhausting_asks__are_the_fewest_that_an_awake_operator_cannot_serve(slots: int, reexecute_s: int) -> None:
    fewest = costs.exhausting_asks(slots, reexecute_s, PRODUCTION)
    assert serve(fewest - 1, slots, reexecute_s) == 0
    assert serve(fewest, slots, reexecute_s) == 1
    assert fewest > 32 * slots  # so the ask that expires was marked as exhausted


@given(
    st.integers(1, 4),
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), min_size=1, max_size=60),
)
def test_oldest_first__never_touches_the_committers_own_time(
    slots: int, reexecute_s: int, bursts: list[tuple[int, int]]
) -> None:
    """Heavy asks that come at any time, up to 32 a slot: each is computed within what it adds."""
    now, free = 0, [0] * slots
    ends: list[int] = []
    for wait, asks in bursts:
        now += wait
        for _ in range(asks):
            open_heavy = sum(end > now for end in ends) + 1
            if open_heavy > 32 * slots:
                continue
            clocks = c.asked(c.first(10**9, PRODUCTION), now, 10**9, True, open_heavy, slots, reexecute_s, PRODUCTION)
            worker = free.index(min(free))
            free[worker] = max(free[worker], now) + reexecute_s
            ends.append(free[worker])
            assert free[worker] - now <= clocks.committer_left_s - PRODUCTION.committer_s


@pytest.mark.parametrize("rise", [1, 2, 4, 10, 100])
def test_shortfall__of_answers__is_at_most_an_eighth_of_the_rise_squared(rise: int) -> None:
    base = 10 * GWEI
    worst = max(costs.shortfall(n, GAS, base, rise) for n in range(300))
    assert worst <= max(0, rise - 2) ** 2 * GAS * base // 8
    assert (worst == 0) == (rise <= 4)
    lost = max(range(300), key=lambda n: costs.shortfall(n, GAS, base, rise))
    assert sum(c.answer_fee(k, GAS, base) for k in range(1, lost + 1)) >= worst
    if rise > 10:
        assert worst > 0.99 * (rise - 2) ** 2 * GAS * base / 8


@given(st.integers(1, 20), st.integers(0, 200), st.integers(0, 10**12))
def test_defending__earns_four_times_its_gas_at_an_even_base_fee(pairs: int, heavy: int, base_fee: int) -> None:
    attack = costs.attack_cost(pairs, heavy, GAS, base_fee, 5)
    assert attack.coin >= 4 * costs.defence_cost(pairs, heavy, GAS, base_fee)
    assert attack.token == 5 * heavy
    hour = costs.attack_cost_per_hour(attack, 2 * HOUR)
    assert hour.coin == attack.coin // 2


def test_strangers_that_raise_an_honest_askers_price__prepay_the_square() -> None:
    one = c.answer_fee(1, GAS, GWEI)
    for open_asks in (1, 10, 1_000):
        prepaid = costs.attack_cost(open_asks, open_asks, GAS, GWEI, 0).coin - (open_asks - 1) * one
        assert 2 * prepaid * one >= (costs.capital_to_ask(open_asks, GAS, GWEI).coin - one) ** 2


def test_exhausting_an_operator__costs_half_of_what_it_costs_the_operator() -> None:
    price, lock = 10**18, 72 * 10**18
    asks = costs.exhausting_asks(1, HOUR, PRODUCTION)
    assert asks == 45
    cost = costs.exhaustion(asks, price, lock)
    assert (cost.attacker, cost.operator) == (225 * 10**17, 45 * 10**18)
    assert costs.exhaustion(4 * asks, price, lock).operator == lock


def test_random_large_disputes__convict_every_lie_and_no_true_claim() -> None:
    counted = play_many(100)
    assert counted["FINAL"] == 50
    assert min(counted["JUDGED"], counted["SILENT"]) > 0


WRONG: dict[str, tuple[object, str, object]] = {
    "an honest committer is out of pocket": (c, "FEE_MULTIPLE", 1),
    "an honest asker is out of pocket": (c, "heavy_shares", lambda fee, end, on_path: Shares(burned=fee)),
    "an honest claim is delayed beyond the formula": (costs, "delay_s", lambda own_s, *_: own_s),
    "an honest committer is refused": (
        c,
        "is_expired",
        lambda clocks, now: now >= clocks.since + clocks.committer_left_s,
    ),
    "an honest committer is convicted": (
        c,
        "is_expired",
        lambda clocks, now: now >= clocks.since + clocks.committer_left_s,
    ),
    "an honest asker is refused": (c, "asks_end", lambda clocks, deadline: clocks.since + clocks.asker_left_s),
    "a lie became final": (c, "is_final", lambda *_: True),
    "after the bound": (c, "bound", lambda deadline, *_: deadline + 14 * HOUR - 1),
    "not final": (c, "is_final", lambda *_: False),
}


@pytest.mark.parametrize("demand", WRONG)
def test_every_demand_of_a_random_dispute__is_seen_to_fail(demand: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*WRONG[demand])
    for seed in range(200):
        try:
            RandomPlay(seed, is_lie=seed % 2 == 0).play()
        except Violation as violation:
            if demand in str(violation):
                return
    raise AssertionError("no play failed")


@pytest.mark.long
def test_many_random_large_disputes__convict_every_lie_and_no_true_claim() -> None:
    counted = play_many(6_000, seed=1_000)
    assert counted["FINAL"] == 3_000
    assert min(counted["JUDGED"], counted["SILENT"], counted["EXHAUSTED"]) > 0
