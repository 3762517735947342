"""The arithmetic behind docs/design/scaling.md: gas as measured, chances exact, and the tree's bytes."""

import random
from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest

from benchmarks.scaling import model as m
from benchmarks.scaling import network, scale
from zoo_compute.formats.aggregation import Aggregation


def enumerated(region: int, regions: int, hostile: int, least: int) -> Fraction:
    """By counting all placements."""
    leaves = region * regions
    placed = list(combinations(range(leaves), hostile))
    fallen = [Counter(leaf // region for leaf in each) for each in placed]
    captured = [sum(n > m.tolerated(region) for n in each.values()) for each in fallen]
    return Fraction(sum(n >= least for n in captured), len(placed))


@pytest.mark.parametrize("hostile", range(8))
def test_the_chance_that_a_tree_is_captured__is_what_counting_gives(hostile: int):
    for least in (1, 2, 3):
        assert m.tree_captured(5, 3, hostile, least) == enumerated(5, 3, hostile, least)
    if hostile:
        expected = Fraction(
            sum(sum(leaf < 5 for leaf in each) > 1 for each in combinations(range(15), hostile)),
            len(list(combinations(range(15), hostile))),
        )
        assert m.region_captured(15, 5, hostile) == expected


def test_as_many_as_decide_a_tree__decide_it_where_they_choose_their_places_and_never_fewer():
    least = m.least_to_capture(17, 17)
    assert least == 25 == (4 + 1) ** 2
    assert m.tree_captured(17, 17, least - 1) == 0 < m.tree_captured(17, 17, least)
    assert m.tolerated(289) == 68


def test_a_list_costs__what_was_measured_at_the_measured_lengths():
    gas = m.measured_gas()
    assert m.cost_of(gas, "finalise", 24) == gas["finalise_24_claims"]
    assert m.cost_of(gas, "award", 4) == gas["award_4"]
    assert m.cost_of(gas, "commit", 0) == gas["commit"]
    assert gas["clear_1"] < m.cost_of(gas, "clear", 3) < gas["clear_4"]


@pytest.mark.parametrize(("seats", "name"), [(1, "finalise_per_shard"), (4, "finalise_per_shard_4")])
def test_the_gas_of_a_round__comes_near_the_one_measured(seats: int, name: str):
    claims = 12 * (seats + 1)
    calls = Counter({("commit", 0): 12 * seats, ("post_checkpoint", 0): 12, ("finalise", claims): 1})
    assert m.gas_of(calls) / 12 / 1_024 == pytest.approx(m.measured_gas()[name], rel=0.1)


def test_a_tree__lightens_its_root_and_sends_more_in_all_where_leaves_are_packed():
    levels = m.trees(65_536, 10**6, 200.0, (16, 256))
    total = {name: sum(level.total for level in each) for name, each in levels.items()}
    assert [level.receivers for level in levels["16"]] == [4_096, 256, 16, 1]
    assert levels["16"][-1].ingress == 16 * 4 * 10**6 < levels["256"][-1].ingress < levels["flat"][-1].ingress
    assert total["16"] > total["256"] > total["flat"] == 65_536 * 20_000


def test_the_trace_of_an_aggregation__bounds_the_slots_of_a_job():
    mean, nearest = Aggregation(), m.NEAREST
    assert m.most_slots(10**6, mean) > m.most_slots(10**9, mean) > m.most_slots(10**10, mean) > 0
    assert m.most_slots(10**10, nearest) < m.most_slots(10**10, mean), "it looks at each pair of slots"
    assert m.most_slots(1, mean) == m.MAX_SLOTS


def test_a_small_network__is_played_to_its_last_payment_and_ends_as_early_as_can_be():
    (point,) = scale.run(1, scale.FARMS[:1])["points"]
    took = point["round_s"]
    assert took["schedule"] <= took["shared queue"] <= took["equal shares"]
    assert took["schedule"] <= network.SLOT_S
    assert 0 < point["local_share"] < 1
    own = m.turn_gas(1) * point["seats"] / point["shards"]  # of the seats alone; the checkpoint comes on top
    assert own < point["gas_per_shard"] < 1.5 * own


def test_the_network__is_the_same_for_the_same_seed():
    made = [network.nodes(50, 5, 20, random.Random(seed)) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
