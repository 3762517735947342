"""What a step's items make in its arena, when that is read, and how each value is made again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from repops.graph import Node
from repops.plan.ir import Item
from repops.plan.memory import rounded
from repops.plan.order import Step
from repops.plan.remake import remaking, work


class Values:
    """By node. sources: nodes with memory outside the arena.

    makers, uses: positions of the items that write it, and that read or write it. again, cost: the items that make it again, and
    their work. inputs, outputs: values that these read, and whose items read it. expires: the last item before which it can be
    made again; those after it see state that was overwritten.
    """

    def __init__(self, nodes: Sequence[Node], step: Step, sizes: Callable[[int], int], sources: Iterable[int]) -> None:
        self.nodes, self.step, self.sizes = nodes, step, sizes
        self.source_of = {at: at for at in sources} | step.in_place
        self.makers: dict[int, list[int]] = {}
        self.uses: dict[int, list[int]] = {}
        self.overwritten: dict[int, int] = {}  # source -> the first item that writes over it
        for at, item in enumerate(step.items):
            written = set(item.writes())
            for node in sorted(written):
                if node in self.source_of:
                    self.overwritten.setdefault(self.source_of[node], at)
                else:
                    self.makers.setdefault(node, []).append(at)
            for node in sorted(written.union(item.reads())):
                self.uses.setdefault(node, []).append(at)
        self.kept = set(step.kept)
        for node in step.kept:
            self.uses.setdefault(node, []).append(len(step.items))
        self.bytes = {node: rounded(sizes(node)) for node in self.makers}
        self.work = sum(work(nodes, item) for item in step.items)
        self.again: dict[int, list[Item]] = {}
        self.inputs: dict[int, list[int]] = {}
        self.outputs: dict[int, list[int]] = {}
        self.cost: dict[int, float] = {}
        self.expires: dict[int, float] = {}
        for node in sorted(self.makers, key=lambda node: self.makers[node][0]):
            self._analyse(node)

    def _analyse(self, node: int) -> None:
        made = self.makers[node]
        items = remaking([self.step.items[at] for at in made], node)
        self.again[node] = items or []
        reads = sorted({read for item in self.again[node] for read in item.reads()} - {node})
        self.inputs[node] = [read for read in reads if read in self.makers]
        for read in self.inputs[node]:
            self.outputs.setdefault(read, []).append(node)
        self.cost[node] = sum(work(self.nodes, item) for item in self.again[node])
        # An item between two makers may read a part that is done; what the second reads may be of that part.
        between = [at for at in self.uses[node] if at < made[-1] and at not in made]
        if items is None or between or any(self.makers[read][-1] > made[-1] for read in self.inputs[node]):
            self.expires[node] = -1
            return
        limits = [self.expires.get(read, -1.0) for read in self.inputs[node]]
        old = [read for read in reads if read in self.source_of and read not in self.step.in_place]
        limits += [self.overwritten.get(read, math.inf) for read in old]
        self.expires[node] = min(limits, default=math.inf)
