"""Network distance and failure domains: groups for tree aggregation, locations for standbys and replicas.

Pure functions of measured times to the network's landmarks (such as storage gateways) and of declared failure domains.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from zoo_compute.spec.schedule import Worker

NEARBY: int = 3  # landmarks whose order locates a worker


@dataclass(frozen=True, slots=True)
class Group:
    """Workers near each other. The head has the fastest link and combines their updates."""

    head: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the tree: `senders` send `size` bytes each to `receivers`; ingress: the most bytes that one receives."""

    senders: int
    receivers: int
    size: int
    ingress: int

    @property
    def total(self) -> int:
        return self.senders * self.size


def place_of(worker: Worker) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The nearest landmarks, in order, and their distances. Workers with the same order are near each other (Ratnasamy et al. 2002)."""
    nearest = sorted(range(len(worker.rtt_ms)), key=lambda each: (worker.rtt_ms[each], each))[:NEARBY]
    return tuple(nearest), tuple(worker.rtt_ms[each] for each in nearest)


def groups(workers: Sequence[Worker], fan_in: int) -> list[Group]:
    """All workers in the fewest groups that `fan_in` allows. Sizes differ by at most one, so that robust rules never get too few rows."""
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
    """The uploads of a round: compressed updates from the leaves, dense combined ones above them.

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
    """The candidates that share the fewest failure domains with each other and with `taken`; lower numbers first.

    domains: candidate -> domain. taken: domains in use already. Returns fewer than `wanted` if there are fewer candidates.
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
