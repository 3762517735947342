"""Groups of nodes that a rank can compute without waiting in between, and the order in which each rank runs its groups.

The orders come from one simulated run, so they agree with one order of all groups. Ranks that send without waiting and
receive in this order cannot deadlock.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from repops.parallel.placement import PlacedProgram, ancestors, labels, node_cost, resent

MESSAGE = 1 << 16  # what a message costs before its first word, as operations
WORD = 64  # what a word sent costs


@dataclass
class Group:
    """nodes ascend. start: its number in the simulated run; groups of one rank run in this order."""

    rank: int
    level: int
    label: int
    nodes: list[int] = field(default_factory=list)
    start: int = -1

    @property
    def priority(self) -> tuple[int, int]:
        """Smallest runs first: the groups furthest ahead, so that values die early; then the earliest micro-batch."""
        return (-self.level, self.label)


def schedule(placed: PlacedProgram, roots: Sequence[int]) -> list[Group]:
    """The nodes that `roots` need, as groups in the order in which they start."""
    groups, of_node = _groups(placed, roots)
    before = _waits(placed, groups, of_node)
    return _simulated(placed, groups, before)


def _groups(placed: PlacedProgram, roots: Sequence[int]) -> tuple[list[Group], dict[int, int]]:
    """By rank, by how many messages in a row lead to a node, and by micro-batch."""
    wanted, label = ancestors(placed.graph, roots), labels(placed.graph, placed.parts)
    levels = _levels(placed, wanted, label)
    sent_again = resent(placed)
    keys: dict[tuple[int, int, int], int] = {}
    groups: list[Group] = []
    of_node: dict[int, int] = {}
    for at, node in enumerate(placed.graph.nodes):
        rank = placed.owner[at]
        if not wanted[at] or rank is None or node.op == "input" or at in sent_again:
            continue
        key = (levels[at], label[at], rank)
        if key not in keys:
            keys[key] = len(groups)
            groups.append(Group(rank, levels[at], label[at]))
        groups[keys[key]].nodes.append(at)
        of_node[at] = keys[key]
    return groups, of_node


def _levels(placed: PlacedProgram, wanted: list[bool], label: list[int]) -> list[int]:
    """As early as possible; but nodes that depend on no data (gathered weights, masks) as late as possible, to save memory.

    A node that one micro-batch alone reads gets the label of that micro-batch.
    """
    owner, nodes = placed.owner, placed.graph.nodes
    out, readers = [0] * len(owner), [[] for _ in owner]  # type: list[int], list[list[int]]
    for at, node in enumerate(nodes):
        for source in {operand.node for operand in node.operands} if wanted[at] and owner[at] is not None else ():
            readers[source].append(at)
            if owner[source] is not None:
                out[at] = max(out[at], out[source] + (owner[source] != owner[at]))
    for at in range(len(nodes) - 1, -1, -1):
        if readers[at] and not label[at]:
            out[at] = max(out[at], min(out[reader] - (owner[reader] != owner[at]) for reader in readers[at]))
            users = {label[reader] for reader in readers[at]}
            label[at] = users.pop() if len(users) == 1 else 0
    return out


def _waits(placed: PlacedProgram, groups: list[Group], of_node: dict[int, int]) -> list[dict[int, int]]:
    """For each group the groups it reads from, with the words it receives from them (0 on its own rank)."""
    out: list[dict[int, int]] = [{} for _ in groups]
    for number, group in enumerate(groups):
        sources = {operand.node for at in group.nodes for operand in placed.graph.nodes[at].operands}
        for source in sources & of_node.keys():
            other = of_node[source]
            if other != number:
                words = placed.graph.nodes[source].elements if groups[other].rank != group.rank else 0
                out[number][other] = out[number].get(other, 0) + words
    return out


def _simulated(placed: PlacedProgram, groups: list[Group], before: list[dict[int, int]]) -> list[Group]:
    """The groups in the order in which they start if each rank runs the best group that is ready."""
    after: list[list[int]] = [[] for _ in groups]
    for number, sources in enumerate(before):
        for source in sources:
            after[source].append(number)
    left = [len(sources) for sources in before]
    ready = [0] * len(groups)  # when all it reads is there
    events = [(0, number) for number, count in enumerate(left) if not count]
    heapq.heapify(events)
    waiting: list[list[tuple[tuple[int, int], int]]] = [[] for _ in range(placed.ranks)]
    free = [0] * placed.ranks
    order: list[Group] = []

    def begin(rank: int, now: int) -> None:
        _, number = heapq.heappop(waiting[rank])
        groups[number].start = len(order)
        order.append(groups[number])
        end = now + sum(node_cost(placed.graph.nodes[at]) for at in groups[number].nodes)
        free[rank] = end
        heapq.heappush(events, (end, -1 - rank))
        for reader in after[number]:
            words = before[reader][number]
            ready[reader] = max(ready[reader], end + (MESSAGE + WORD * words if words else 0))
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(events, (ready[reader], reader))

    while events:
        now = events[0][0]
        ranks = set()
        while events and events[0][0] == now:
            _, number = heapq.heappop(events)
            if number >= 0:
                heapq.heappush(waiting[groups[number].rank], (groups[number].priority, number))
            ranks.add(groups[number].rank if number >= 0 else -1 - number)
        for rank in sorted(ranks):
            if waiting[rank] and free[rank] <= now:
                begin(rank, now)
    assert len(order) == len(groups)
    return order
