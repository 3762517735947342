"""Who is near whom, and who fails with whom: groups for tree aggregation, places for standbys and replicas.

Pure functions of measured times to the network's landmarks (its storage gateways, say) and of declared failure domains.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from zoo_compute.spec.schedule import Worker

NEARBY: int = 3  # landmarks whose order tells where a worker is


@dataclass(frozen=True, slots=True)
class Group:
    """Workers near each other, and the one of them with the widest link, which combines what they send."""

    head: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """Of a tree: so many send `size` bytes each to so many others; ingress: of who receives most."""

    senders: int
    receivers: int
    size: int
    ingress: int

    @property
    def total(self) -> int:
        return self.senders * self.size


def place_of(worker: Worker) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The nearest landmarks, nearest first, and how far they are: who orders them alike is near (Ratnasamy et al. 2002)."""
    nearest = sorted(range(len(worker.rtt_ms)), key=lambda each: (worker.rtt_ms[each], each))[:NEARBY]
    return tuple(nearest), tuple(worker.rtt_ms[each] for each in nearest)


def groups(workers: Sequence[Worker], fan_in: int) -> list[Group]:
    """All workers in as few groups as `fan_in` allows, their sizes at most one apart, so that no robust rule gets a handful."""
    if fan_in < 1:
        raise ValueError(f"a group has at least one member, got fan_in = {fan_in}")
    ordered = sorted(workers, key=lambda each: (place_of(each), each.number))
    count = -(-len(ordered) // fan_in)
    cuts = [len(ordered) * index // count for index in range(count + 1)] if count else []
    groups_ = []
    for first, last in pairwise(cuts):
        members = ordered[first:last]
        head = min(members, key=lambda each: (-each.kbps, each.number))
        groups_.append(Group(head.number, tuple(each.number for each in members)))
    return groups_


def tree(leaves: int, fan_in: int, leaf_bytes: int, dense_bytes: int) -> list[Level]:
    """What goes up in a round: packed updates from the leaves, combined ones, which are dense, above them.

    The last level's receiver is the aggregator. A fan-in of `leaves` or more is the flat aggregation.
    """
    levels: list[Level] = []
    senders, size = leaves, leaf_bytes
    while senders > 1 or not levels:
        receivers = -(-senders // fan_in)
        most = -(-senders // receivers)
        levels.append(Level(senders, receivers, size, most * size))
        senders, size = receivers, dense_bytes
    return levels


def spread(wanted: int, domains: Mapping[int, int], taken: Sequence[int] = ()) -> tuple[int, ...]:
    """The candidates that share failure domains least with each other and with those `taken`; lower numbers first.

    domains: candidate -> domain. taken: domains in use already. Fewer than `wanted` where there are fewer candidates.
    """
    used = Counter(taken)
    waiting: dict[int, list[int]] = {}
    for candidate in sorted(domains, reverse=True):
        waiting.setdefault(domains[candidate], []).append(candidate)
    chosen: list[int] = []
    while waiting and len(chosen) < wanted:
        domain = min(waiting, key=lambda each: (used[each], waiting[each][-1]))
        chosen.append(waiting[domain].pop())
        used[domain] += 1
        if not waiting[domain]:
            del waiting[domain]
    return tuple(chosen)
