"""Whole nodes to ranks: by layers (pipeline) and by micro-batches (data)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from repops.graph import Graph
from repops.parallel.placement import (
    NotParallel,
    Piece,
    PlacedProgram,
    ancestors,
    check_ranks,
    grouped_tensors,
    is_free,
    labels,
    node_cost,
    same_size_makers,
    with_copied_sources,
    with_state_owners,
)

UPDATE = 32  # operations that a word of the state costs in a step, about
SLACK = 0.2  # share of a stage by which a cut may move to reduce traffic


def pipeline(graph: Graph, ranks: int, parts: int = 1) -> PlacedProgram:
    """Layers side by side: the forward pass is cut in order into as many stages as ranks, the backward follows it.

    Each tensor of the state lives with its first reader. With several micro-batches the stages overlap.
    """
    check_ranks(ranks)
    graph = with_copied_sources(graph)
    return _Pipeline(graph, ranks, parts).placed()


def data(graph: Graph, ranks: int, parts: int) -> PlacedProgram:
    """Micro-batches side by side: each rank computes whole ones, and their gradients are added in the program's order.

    The state is shared out: each tensor, with its moments, lives on one rank, which adds its gradients and sends it.
    """
    check_ranks(ranks)
    if parts < ranks:
        what = f"data: {parts} micro-batches cannot keep {ranks} ranks busy"
        raise NotParallel(f"{what}; take fewer ranks, or a split by tensor, or a job that accumulates over more")
    graph = with_copied_sources(graph)
    return _Data(graph, ranks, parts).placed()


class _Owners:
    """owner: of each node, as far as it is known."""

    def __init__(self, graph: Graph, ranks: int, parts: int) -> None:
        self.graph, self.ranks, self.parts = graph, ranks, parts
        self.labels = labels(graph, parts)
        self.owner: list[int | None] = [None] * len(graph.nodes)
        self.used_by: dict[int, int] = {}  # tensor of the state -> who reads it beside its home
        self.forward = ancestors(graph, [graph.loss])
        self.makers = same_size_makers(graph, self.labels, parts)
        self.readers: list[list[int]] = [[] for _ in graph.nodes]
        for at, node in enumerate(graph.nodes):
            for source in {operand.node for operand in node.operands}:
                self.readers[source].append(at)

    def placed(self) -> PlacedProgram:
        self.micro_batches()
        self._follow_readers([at for at, label in enumerate(self.labels) if not label])
        self.state_owners()
        for at in self._open():
            self.owner[at] = self.choose_owner(self.owners_read(at))
        self._follow_readers(self._open())
        owner = [None if is_free(node) else self.owner[at] or 0 for at, node in enumerate(self.graph.nodes)]
        pieces: dict[str, tuple[Piece, ...]] = {
            e.name: (Piece(e.name, 0, _rows(self.graph, e.before)),) for e in self.graph.state
        }
        graph, owners = with_state_owners(self.graph, owner)
        return PlacedProgram(graph, owners, pieces, self.ranks, self.parts)

    def _open(self) -> list[int]:
        """Nodes whose owner is not known."""
        return [at for at, node in enumerate(self.graph.nodes) if self.owner[at] is None and not is_free(node)]

    def micro_batches(self) -> None:
        raise NotImplementedError

    def state_owners(self) -> None:
        raise NotImplementedError

    def choose_owner(self, read: dict[int, int]) -> int | None:
        """The owner of a node. words: how many it reads by rank. None if every rank has all that it reads."""
        raise NotImplementedError

    def place_state(self, names: Sequence[str], rank: int) -> None:
        """Assign these tensors, and the nodes that compute their new values, to a rank."""
        before = {entry.name: entry.before for entry in self.graph.state}
        for name in names:
            self.owner[before[name]] = rank
            for at in self.makers[name]:
                if self.owner[at] is None:
                    self.owner[at] = rank

    def _follow_readers(self, nodes: list[int]) -> None:
        """Assign nodes that depend on no data (masks, transposed weights) to their first reader."""
        for at in reversed(nodes):
            if self.owner[at] is None and self.graph.nodes[at].op != "input":
                owners = (self.owner[reader] for reader in self.readers[at])
                self.owner[at] = next((owner for owner in owners if owner is not None), None)

    def owners_read(self, at: int) -> dict[int, int]:
        """Words of a node's operands by owner; single words count only where there is nothing else."""
        nodes = self.graph.nodes
        sources = [operand.node for operand in nodes[at].operands]
        owners = [self.used_by.get(source, self.owner[source]) for source in sources]
        sized = [(o, nodes[source].elements) for o, source in zip(owners, sources, strict=True) if o is not None]
        large = [(owner, words) for owner, words in sized if words > 1]
        out: dict[int, int] = {}
        for owner, words in large or sized:
            out[owner] = out.get(owner, 0) + words
        return out


class _Pipeline(_Owners):
    def micro_batches(self) -> None:
        seen: set[int] = set()
        for part in range(self.parts):
            mine = [at for at, label in enumerate(self.labels) if self.forward[at] and label == 1 << part]
            costs = [node_cost(self.graph.nodes[at]) + UPDATE * self._first_read(at, seen) for at in mine]
            if part == 0 and len(mine) < self.ranks:
                raise NotParallel(f"pipeline: {len(mine)} nodes of the forward pass for {self.ranks} ranks")
            cuts = self._cuts(list(accumulate(costs)), self._crossing(mine))
            for number, at in enumerate(mine):
                self.owner[at] = bisect_right(cuts, number)
            seen.clear()  # every part counts as the first, so that all are cut alike

    def _cuts(self, done: list[int], crossing: list[int]) -> list[int]:
        """Where each stage but the first begins: close to equal shares of the cost, where the fewest words cross."""
        out: list[int] = []
        for stage in range(1, self.ranks):
            share = done[-1] / self.ranks
            near = [at for at in range(1, len(done)) if abs(done[at - 1] - stage * share) <= SLACK * share]
            ideal = min(range(1, len(done)), key=lambda at: abs(done[at - 1] - stage * share))
            out.append(min([ideal, *near], key=lambda at: (crossing[at], abs(done[at - 1] - stage * share))))
        return out

    def _crossing(self, mine: list[int]) -> list[int]:
        """For each place in the forward pass the words made before it that are read from there on."""
        number = {at: place for place, at in enumerate(mine)}
        change = [0] * (len(mine) + 1)
        for place, at in enumerate(mine):
            last = max((number[reader] for reader in self.readers[at] if reader in number), default=place)
            change[place + 1] += self.graph.nodes[at].elements
            change[last + 1] -= self.graph.nodes[at].elements
        return list(accumulate(change))

    def _first_read(self, at: int, seen: set[int]) -> int:
        words = 0
        for operand in self.graph.nodes[at].operands:
            source = self.graph.nodes[operand.node]
            if operand.node not in seen and source.op == "input" and not is_free(source):
                words += source.elements
                seen.add(operand.node)
        return words

    def state_owners(self) -> None:
        entries = {entry.name: entry for entry in self.graph.state}
        for names in grouped_tensors(self.graph, self.makers):
            users = [at for name in names for at in self.readers[entries[name].before] if self.forward[at]]
            owners = [owner for at in sorted(users) if (owner := self.owner[at]) is not None]
            self.place_state(names, owners[0] if owners else 0)
        # The backward pass reads a tensor where the forward pass did last: an embedding that is the head too, at the end.
        for entry in self.graph.state:
            readers = [self.owner[at] or 0 for at in self.readers[entry.before] if self.forward[at]]
            if readers:
                self.used_by[entry.before] = max(readers)

    def choose_owner(self, read: dict[int, int]) -> int | None:
        return min(read, default=None)


class _Data(_Owners):
    def micro_batches(self) -> None:
        for at, label in enumerate(self.labels):
            if label.bit_count() == 1:
                self.owner[at] = (label.bit_length() - 1) % self.ranks

    def state_owners(self) -> None:
        sizes = {entry.name: self.graph.nodes[entry.before].elements for entry in self.graph.state}
        loads = [0] * self.ranks
        for names in sorted(
            grouped_tensors(self.graph, self.makers), key=lambda names: -sum(sizes[name] for name in names)
        ):
            rank = loads.index(min(loads))
            self.place_state(names, rank)
            loads[rank] += sum(sizes[name] for name in names)

    def choose_owner(self, read: dict[int, int]) -> int | None:
        return max(sorted(read), key=lambda owner: read[owner], default=None)


def _rows(graph: Graph, at: int) -> int:
    shape = graph.nodes[at].shape
    return shape[0] if shape else 1
