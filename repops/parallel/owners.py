"""Whole nodes to ranks: by layers (pipeline) and by micro-batches (data)."""

from __future__ import annotations

from collections.abc import Sequence

from repops.graph import Graph
from repops.parallel.placement import (
    NotParallel,
    Piece,
    Placed,
    check_ranks,
    computed,
    families,
    is_free,
    labels,
    lead_to,
    same_size_makers,
    settled,
    work,
)

UPDATE = 32  # operations that a word of the state costs in a step, about


def pipeline(graph: Graph, ranks: int, parts: int = 1) -> Placed:
    """Layers side by side: the forward pass is cut in order into as many stages as ranks, the backward follows it.

    Each tensor of the state lives with its first reader. With several micro-batches the stages overlap.
    """
    check_ranks(ranks)
    graph = computed(graph)
    return _Pipeline(graph, ranks, parts).placed()


def data(graph: Graph, ranks: int, parts: int) -> Placed:
    """Micro-batches side by side: each rank computes whole ones, and their gradients are added in the program's order.

    The state is shared out: each tensor, with its moments, lives on one rank, which adds its gradients and sends it.
    """
    check_ranks(ranks)
    if parts < ranks:
        what = f"data: {parts} micro-batches cannot keep {ranks} ranks busy"
        raise NotParallel(f"{what}; take fewer ranks, or a split by tensor, or a job that accumulates over more")
    graph = computed(graph)
    return _Data(graph, ranks, parts).placed()


class _Owners:
    """owner: of each node, as far as it is known."""

    def __init__(self, graph: Graph, ranks: int, parts: int) -> None:
        self.graph, self.ranks, self.parts = graph, ranks, parts
        self.labels = labels(graph, parts)
        self.owner: list[int | None] = [None] * len(graph.nodes)
        self.forward = lead_to(graph, [graph.loss])
        self.makers = same_size_makers(graph, self.labels, parts)
        self.readers: list[list[int]] = [[] for _ in graph.nodes]
        for at, node in enumerate(graph.nodes):
            for source in {operand.node for operand in node.operands}:
                self.readers[source].append(at)

    def placed(self) -> Placed:
        self.micro_batches()
        self._follow_readers([at for at, label in enumerate(self.labels) if not label])
        self.homes()
        for at in self._open():
            self.owner[at] = self.chosen(self.owners_read(at))
        self._follow_readers(self._open())
        owner = [None if is_free(node) else self.owner[at] or 0 for at, node in enumerate(self.graph.nodes)]
        pieces: dict[str, tuple[Piece, ...]] = {
            e.name: (Piece(e.name, 0, _rows(self.graph, e.before)),) for e in self.graph.state
        }
        graph, owners = settled(self.graph, owner)
        return Placed(graph, owners, pieces, self.ranks, self.parts)

    def _open(self) -> list[int]:
        """Nodes whose owner is not known."""
        return [at for at, node in enumerate(self.graph.nodes) if self.owner[at] is None and not is_free(node)]

    def micro_batches(self) -> None:
        raise NotImplementedError

    def homes(self) -> None:
        raise NotImplementedError

    def chosen(self, read: dict[int, int]) -> int | None:
        """The owner of a node that reads so many words of each rank's; None where it reads only what everyone has."""
        raise NotImplementedError

    def live(self, names: Sequence[str], rank: int) -> None:
        """These tensors, and what makes their new values, belong to a rank."""
        before = {entry.name: entry.before for entry in self.graph.state}
        for name in names:
            self.owner[before[name]] = rank
            for at in self.makers[name]:
                if self.owner[at] is None:
                    self.owner[at] = rank

    def _follow_readers(self, nodes: list[int]) -> None:
        """What depends on no data (masks, turned weights) is made by who reads it first."""
        for at in reversed(nodes):
            if self.owner[at] is None and self.graph.nodes[at].op != "input":
                owners = (self.owner[reader] for reader in self.readers[at])
                self.owner[at] = next((owner for owner in owners if owner is not None), None)

    def owners_read(self, at: int) -> dict[int, int]:
        """Words of a node's operands by owner; single words count only where there is nothing else."""
        nodes = self.graph.nodes
        found = [
            (owner, nodes[o.node].elements) for o in nodes[at].operands if (owner := self.owner[o.node]) is not None
        ]
        large = [(owner, words) for owner, words in found if words > 1]
        out: dict[int, int] = {}
        for owner, words in large or found:
            out[owner] = out.get(owner, 0) + words
        return out


class _Pipeline(_Owners):
    def micro_batches(self) -> None:
        seen: set[int] = set()
        for part in range(self.parts):
            mine = [at for at, label in enumerate(self.labels) if self.forward[at] and label == 1 << part]
            costs = [work(self.graph.nodes[at]) + UPDATE * self._first_read(at, seen) for at in mine]
            if part == 0 and len(mine) < self.ranks:
                raise NotParallel(f"pipeline: {len(mine)} nodes of the forward pass for {self.ranks} ranks")
            total, done = sum(costs) or 1, 0
            for at, cost in zip(mine, costs, strict=True):
                self.owner[at] = min(self.ranks - 1, (2 * done + cost) * self.ranks // (2 * total))
                done += cost
            seen.clear()  # every part counts as the first, so that all are cut alike

    def _first_read(self, at: int, seen: set[int]) -> int:
        words = 0
        for operand in self.graph.nodes[at].operands:
            source = self.graph.nodes[operand.node]
            if operand.node not in seen and source.op == "input" and not is_free(source):
                words += source.elements
                seen.add(operand.node)
        return words

    def homes(self) -> None:
        entries = {entry.name: entry for entry in self.graph.state}
        for names in families(self.graph, self.makers):
            users = [at for name in names for at in self.readers[entries[name].before] if self.forward[at]]
            owners = [owner for at in sorted(users) if (owner := self.owner[at]) is not None]
            self.live(names, owners[0] if owners else 0)

    def chosen(self, read: dict[int, int]) -> int | None:
        return min(read, default=None)


class _Data(_Owners):
    def micro_batches(self) -> None:
        for at, label in enumerate(self.labels):
            if label.bit_count() == 1:
                self.owner[at] = (label.bit_length() - 1) % self.ranks

    def homes(self) -> None:
        sizes = {entry.name: self.graph.nodes[entry.before].elements for entry in self.graph.state}
        held = [0] * self.ranks
        for names in sorted(families(self.graph, self.makers), key=lambda names: -sum(sizes[name] for name in names)):
            rank = held.index(min(held))
            self.live(names, rank)
            held[rank] += sum(sizes[name] for name in names)

    def chosen(self, read: dict[int, int]) -> int | None:
        return max(sorted(read), key=lambda owner: read[owner], default=None)


def _rows(graph: Graph, at: int) -> int:
    shape = graph.nodes[at].shape
    return shape[0] if shape else 1
