"""Order, allocation and critical prices, by examples worked by hand and by an oracle that re-runs the auction."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo_compute.spec import auction
from zoo_compute.spec.params import BPS
from zoo_compute.spec.pricing import LosingRun, RevealedBid, Win

RESERVE = 100


def bids(*offers: tuple[int, int], discounts: tuple[int, ...] = ()) -> list[RevealedBid]:
    """Operators 1, 2, ... with `(price, capacity)`."""
    padded = (*discounts, *[0] * len(offers))
    return [RevealedBid(1 + i, price, padded[i], capacity) for i, (price, capacity) in enumerate(offers)]


def test_three_equal_capacities_fill_six_slots_by_thirds_and_are_paid_the_reserve() -> None:
    # Six slots, three bidders: nobody wins more than two. 2 + 2 + 2 = 6, so no unit within the cap loses, and
    # each winner would still win at any price up to the reserve.
    three = bids((60, 4), (70, 4), (80, 4))
    allocation = auction.allocate(auction.order_bids(three), 6)
    assert allocation.wins == (Win(1, 0, 2), Win(2, 2, 2), Win(3, 4, 2))
    assert allocation.losing == ()
    assert auction.critical_prices(three, 6, RESERVE) == {1: 100, 2: 100, 3: 100}


def test_a_fourth_bidder_sets_the_price_of_the_three_before_it() -> None:
    # The fourth one's two units at 90 are what each winner's two units displace: (90 + 90) / 2.
    four = bids((60, 4), (70, 4), (80, 4), (90, 4))
    assert auction.critical_prices(four, 6, RESERVE) == {1: 90, 2: 90, 3: 90}


def test_a_winners_own_leftover_is_no_competitor_of_its_bid() -> None:
    # Five slots, cap two: 2 + 2 + 1. The third one's leftover unit at 80 prices one unit of each of the others, their
    # second one has nobody behind it: (80 + 100) / 2 = 90. Its own unit has nobody but itself behind it: 100.
    three = bids((60, 2), (70, 2), (80, 2))
    allocation = auction.allocate(auction.order_bids(three), 5)
    assert allocation.losing == (LosingRun(3, 80 * BPS, 1),)
    assert auction.critical_prices(three, 5, RESERVE) == {1: 90, 2: 90, 3: 100}


def test_the_mean_is_rounded_down() -> None:
    # Thresholds 71 and 100: the mean 85.5 becomes 85.
    assert auction.critical_prices(bids((60, 2), (70, 2), (71, 2)), 5, RESERVE)[1] == (71 + 100) // 2 == 85


def test_two_bidders_are_not_capped() -> None:
    # Four slots, two bidders: the first takes all; the other's two units at 70 price half of them: (70 + 70 + 200) / 4.
    two = bids((60, 4), (70, 2))
    assert auction.allocate(auction.order_bids(two), 4).wins == (Win(1, 0, 4),)
    assert auction.critical_prices(two, 4, RESERVE) == {1: 85}


def test_a_discount_lowers_the_score_and_raises_the_price() -> None:
    # 100 with 10 % off scores as 90. Against a rival at 95 its price is 95 / 0.9 = 105.5, above the reserve: 100.
    # The rival, were it alone behind, would be paid at most 90: its own 95 loses.
    pair = bids((100, 1), (95, 1), discounts=(1_000,))
    assert [bid.operator for bid in auction.order_bids(pair)] == [1, 2]
    assert auction.critical_prices(pair, 1, RESERVE) == {1: 100}
    # Against 80 instead: 80 / 0.9 = 88.8, and a bid of 85 (score 76.5) is paid 88.
    assert auction.critical_prices(bids((85, 1), (80, 1), discounts=(1_000,)), 1, RESERVE) == {1: 88}


def test_equal_scores_are_ordered_by_operator() -> None:
    assert [bid.operator for bid in auction.order_bids(reversed(bids((50, 1), (50, 1), (50, 1))))] == [1, 2, 3]


@pytest.mark.parametrize(("units", "revealed", "cap"), [(6, 3, 2), (7, 3, 3), (1, 3, 1), (6, 2, 6), (256, 9, 86)])
def test_the_cap_is_a_third_rounded_up_from_three_bidders_on(units: int, revealed: int, cap: int) -> None:
    assert auction.cap_of(units, [units] * revealed) == cap


@pytest.mark.parametrize(
    ("units", "capacities", "cap"),
    [
        (6, (6, 1, 1), 4),  # 4 + 1 + 1
        (16, (16, 16, 1), 8),  # 8 + 8 + 1 with one unit to spare; at 7 one would be missing
        (16, (16, 7, 1), 8),  # the smaller of the large ones is used up at 7, the larger one must offer 8
        (16, (9, 5, 1), 16),  # 15 units whatever the cap: the lot stays short
        (9, (4, 4, 1, 0), 4),
    ],
)
def test_the_cap_rises_to_the_least_value_that_fills_the_lot(units: int, capacities: tuple[int, ...], cap: int) -> None:
    assert auction.cap_of(units, capacities) == cap


@settings(max_examples=300, deadline=None, derandomize=True)
@given(units=st.integers(1, 40), capacities=st.lists(st.integers(1, 40), min_size=3, max_size=7))
def test_a_yielding_cap_fills_every_lot_that_can_be_filled_and_is_never_higher_than_that_needs(
    units: int, capacities: list[int]
) -> None:
    capacities = [min(capacity, units) for capacity in capacities]
    cap, third = auction.cap_of(units, capacities), -(-units // 3)
    if sum(capacities) < units:
        return
    assert third <= cap
    assert sum(min(capacity, cap) for capacity in capacities) >= units
    assert cap == third or sum(min(capacity, cap - 1) for capacity in capacities) < units
    assert sum(capacity > third for capacity in capacities) <= 2 or cap == third, "what the contract keeps suffices"


def test_bids_are_enough_where_they_fill_the_lot() -> None:
    assert auction.is_enough(bids((50, 4), (50, 1), (50, 1)), 6)
    assert not auction.is_enough(bids((50, 3), (50, 1), (50, 1)), 6)
    assert auction.is_enough(bids((50, 6)), 6)
    assert not auction.is_enough([], 1)


def test_a_tiny_third_bid_no_longer_blocks_two_that_fill_the_lot() -> None:
    # M4: 16 slots, two operators that could do all of them, and a name that bids 1 for one slot. It wins its slot; the others
    # share the rest. The one unit that loses, at 510, prices one unit of the operator before it; the others the reserve.
    three = bids((1, 1), (500, 16), (510, 16))
    allocation = auction.allocate(auction.order_bids(three), 16)
    assert allocation.wins == (Win(1, 0, 1), Win(2, 1, 8), Win(3, 9, 7))
    assert auction.critical_prices(three, 16, 1_000) == {1: 510, 2: (510 + 7 * 1_000) // 8, 3: 1_000}


@pytest.mark.parametrize("units", [1, 15, 16, 17, 256])
def test_a_stake_covers_units_in_proportion(units: int) -> None:
    least = 100 * 10**18
    needed = least * units // 16
    assert auction.most_capacity(needed, least) == units
    assert auction.most_capacity(needed - 1, least) == units - 1


def units_won(offers: list[RevealedBid], units: int) -> dict[int, int]:
    """The oracle's allocation, written otherwise: every unit offered within the cap, sorted; the first ones win."""
    cap = -(-units // 3) if len(offers) >= 3 else units
    while cap < units and sum(min(bid.capacity, cap) for bid in offers) < units:
        cap += 1
    offered = sorted(
        (bid.price * (BPS - bid.discount_bps), bid.operator) for bid in offers for _ in range(min(bid.capacity, cap))
    )
    winners = [operator for _, operator in offered[:units]]
    return {bid.operator: winners.count(bid.operator) for bid in offers}


def highest_winning_price(offers: list[RevealedBid], units: int, index: int, won: int, reserve: int) -> int:
    """The most one bidder could ask and still win `won` units, ties in its favour: by trying every price."""
    bid = offers[index]
    for price in range(reserve, -1, -1):
        varied = [*offers[:index], RevealedBid(0, price, bid.discount_bps, bid.capacity), *offers[index + 1 :]]
        if units_won(varied, units)[0] >= won:
            return price
    raise AssertionError("a winner does not win even for nothing")


auctions = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 5), st.sampled_from([0, 0, 7, 500, 1_000])), min_size=1, max_size=6
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(offers=auctions, units=st.integers(1, 9))
def test_a_critical_price_is_the_mean_of_the_highest_prices_that_still_win(
    offers: list[tuple[int, int, int]], units: int
) -> None:
    reserve = 40
    every = [RevealedBid(1 + i, price, discount, capacity) for i, (price, capacity, discount) in enumerate(offers)]
    if not auction.is_enough(every, units):
        return
    won = units_won(every, units)
    prices = auction.critical_prices(every, units, reserve)
    assert set(prices) == {operator for operator, count in won.items() if count}
    for operator, price in prices.items():
        count = won[operator]
        thresholds = [highest_winning_price(every, units, operator - 1, unit, reserve) for unit in range(1, count + 1)]
        assert price == sum(thresholds) // count
        assert every[operator - 1].price <= price <= reserve


Pricing = Callable[[list[RevealedBid], int, int], dict[int, int]]


def pay_as_bid(offers: list[RevealedBid], units: int, reserve: int) -> dict[int, int]:
    """What this auction is not: winners are paid what they asked."""
    return {bid.operator: bid.price for bid in offers}


def earnings(offers: list[RevealedBid], units: int, reserve: int, cost: int, pricing: Pricing) -> tuple[int, int]:
    """What operator 1 earns per round at this cost, and how many units it wins."""
    won = units_won(offers, units)[1]
    return (won * (pricing(offers, units, reserve)[1] - cost), won) if won else (0, 0)


def gains_of_lying(
    step: int,
    capacities: tuple[int, ...],
    units: int,
    discounts: tuple[int, ...] = (0, 0, 0, 0),
    pricing: Pricing = auction.critical_prices,
) -> list[tuple[int, int]]:
    """For every profile of costs and every misreport of operator 1: (gain, units it wins when truthful)."""
    reserve, gains = 5 * step, []
    for costs in product(range(step, reserve + 1, step), repeat=len(capacities)):
        truthful = bids(*zip(costs, capacities, strict=True), discounts=discounts)
        honest, won = earnings(truthful, units, reserve, costs[0], pricing)
        for lie in range(1, reserve + 1):
            reported = [RevealedBid(1, lie, discounts[0], capacities[0]), *truthful[1:]]
            gains.append((earnings(reported, units, reserve, costs[0], pricing)[0] - honest, won))
    return gains


@pytest.mark.parametrize(
    ("capacities", "units"),
    [
        *(((2, 2, 2, 2), 6), ((2, 2, 1, 2), 5), ((1, 2, 2), 4), ((3, 2), 3), ((2, 1, 1), 2)),
        *(((4, 1, 1), 6), ((4, 4, 1), 6), ((1, 4, 4), 6), ((4, 3, 1), 6)),  # where the cap yields
    ],
)
@pytest.mark.parametrize("discounts", [(0, 0, 0, 0), (1_000, 0, 500, 0), (0, 1_000, 0, 300)])
def test_no_operator_gains_by_misreporting_its_price(
    capacities: tuple[int, ...], units: int, discounts: tuple[int, ...]
) -> None:
    # The floor of the mean takes less than one smallest unit from each unit won, which is all that lying can regain.
    gains = gains_of_lying(1, capacities, units, discounts)
    assert len(gains) > 100
    assert all(gain <= max(0, won - 1) for gain, won in gains)


@pytest.mark.parametrize(("capacities", "units"), [((2, 2, 2, 2), 6), ((2, 2, 1, 2), 5), ((2, 2), 3)])
def test_no_operator_gains_anything_where_the_mean_needs_no_rounding(capacities: tuple[int, ...], units: int) -> None:
    # Costs are even and nobody wins more than two units, so means of thresholds are whole.
    assert max(gain for gain, _ in gains_of_lying(2, capacities, units)) <= 0


def test_the_same_search_finds_liars_where_winners_are_paid_their_bids() -> None:
    assert max(gain - max(0, won - 1) for gain, won in gains_of_lying(1, (2, 2, 2, 2), 6, pricing=pay_as_bid)) > 0
