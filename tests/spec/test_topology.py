"""Groups of near workers, trees of them, and places that do not fail together."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo_compute.spec import topology
from zoo_compute.spec.schedule import CONSUMER, Worker


def worker(number: int, rtt_ms: tuple[int, ...] = (), kbps: int = 1_000) -> Worker:
    return Worker(number, 1, CONSUMER, 24, 1_000_000, kbps, rtt_ms=rtt_ms)


def test_near_workers__are_grouped_and_the_widest_link_leads():
    west, east = [(10, 90), (12, 88), (14, 95)], [(95, 11), (90, 9), (99, 12)]
    rtt = [each for pair in zip(west, east, strict=True) for each in pair]
    groups = topology.groups([worker(n, each, kbps=100 + n) for n, each in enumerate(rtt)], 3)
    assert [(g.head, sorted(g.members)) for g in groups] == [(4, [0, 2, 4]), (5, [1, 3, 5])]


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=60), st.integers(1, 20), st.randoms())
def test_groups__hold_everyone_once_in_equal_parts(rtt: list[tuple[int, int]], fan_in: int, chance):
    workers = [worker(number, each) for number, each in enumerate(rtt)]
    groups = topology.groups(workers, fan_in)
    sizes = [len(group.members) for group in groups]
    assert sorted(n for group in groups for n in group.members) == list(range(len(workers)))
    assert len(groups) == -(-len(workers) // fan_in)
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert all(group.head in group.members for group in groups)
    chance.shuffle(workers)
    assert topology.groups(workers, fan_in) == groups


def test_a_group__of_nobody_is_the_callers_mistake():
    with pytest.raises(ValueError, match="at least one member"):
        topology.groups([worker(0)], 0)


def test_a_tree__sends_packed_leaves_and_dense_results():
    levels = topology.tree(leaves=289, fan_in=17, leaf_bytes=5, dense_bytes=1_000)
    assert [(each.senders, each.receivers, each.ingress) for each in levels] == [(289, 17, 85), (17, 1, 17_000)]
    assert [each.total for each in levels] == [1_445, 17_000]
    assert topology.tree(289, 289, 5, 1_000) == [topology.Level(289, 1, 5, 1_445)]


@given(st.dictionaries(st.integers(0, 40), st.integers(0, 5)), st.integers(0, 12), st.lists(st.integers(0, 5)))
def test_chosen_places__share_failure_domains_as_little_as_can_be(
    domains: dict[int, int], wanted: int, taken: list[int]
):
    chosen = topology.spread(wanted, domains, taken)
    assert len(set(chosen)) == len(chosen) == min(wanted, len(domains))
    used = Counter(taken) + Counter(domains[each] for each in chosen)
    for left in set(domains) - set(chosen):  # nobody left out stands in a domain that is used less than a chosen one's
        assert all(used[domains[left]] >= used[domains[each]] - 1 for each in chosen)


def test_a_standby__is_not_of_the_holders_building():
    assert topology.spread(2, {1: 7, 2: 7, 3: 8, 4: 9}, taken=[7]) == (3, 4)
