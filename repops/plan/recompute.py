"""Drops values that are read again late, and computes them again shortly before.

The items are gone through in order, as if they ran in memory of a given size. Where a value finds no room, others make
room, that with the most bytes x time until its next use for the work of making it again first. What was dropped is made
again before the item that reads it, after whatever it is made of that was dropped too. A value made again is the same
items on the same words in other memory, so every bit is equal.

Source: Kirisame et al. 2021, Dynamic Tensor Rematerialization; here the next use of each value is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from repops.plan.ir import Item
from repops.plan.remake import renamed
from repops.plan.values import Values

SMALL = 4096  # bytes: smaller values are not worth the search
FAR = 200  # values that one is made of: what needs more is not made again
MOST_WORK = 1.0  # of the step's, that may be done again
EFFORT = 5_000_000  # values looked at: a stranger's program keeps no worker from its work


class OutOfWork(Exception):
    """More would be computed again than pays."""


class Simulation:
    """Runs the items in memory of `budget` bytes, or what is over it as little as possible."""

    def __init__(self, values: Values, budget: int) -> None:
        self.values, self.budget = values, budget
        self.out: list[Item] = []
        self.names: dict[int, int] = {}  # value -> its memory's number, if it was made again
        self.versions: Counter[int] = Counter()
        self.resident: dict[int, None] = {}  # in order of being made
        self.owed: set[int] = set()  # dropped, and needed again, if only to make others again
        self.locks: Counter[int] = Counter()
        self.used: Counter[int] = Counter()  # uses that lie behind
        self.at = self.live = self.effort = 0
        self.extra = 0.0
        self._due: dict[int, float] = {}
        self._price: dict[int, float] = {}

    def run(self) -> list[Item]:
        """Raises OutOfWork."""
        values = self.values
        for self.at, item in enumerate(values.step.items):
            reads = [node for node in dict.fromkeys(item.reads()) if node in values.makers]
            writes = [node for node in dict.fromkeys(item.writes()) if node in values.makers]
            touched = list(dict.fromkeys((*reads, *writes)))
            self.locks.update(touched)
            for node in touched:
                if node not in self.resident and values.makers[node][0] < self.at:
                    self._remake(node)
            fresh = [node for node in writes if node not in self.resident]
            self._make_room(sum(values.bytes[node] for node in fresh))
            for node in fresh:
                self._enter(node)
            self.out.append(renamed(item, self.names))
            self.locks.subtract(touched)
            for node in touched:
                self.used[node] += 1
                self._due.pop(node, None)
            for node in touched:
                self._free_if_unneeded(node)
        return self.out

    def _remake(self, wanted: int) -> None:
        """Make a dropped value again, first what it is made of."""
        values, stack, opened = self.values, [wanted], set[int]()
        while stack:
            top = stack[-1]
            if top in self.resident:
                stack.pop()
                continue
            if top not in opened:
                opened.add(top)
                self.locks.update(values.inputs[top])
            missing = [node for node in values.inputs[top] if node not in self.resident]
            if missing:
                stack += missing
                continue
            stack.pop()
            self.extra += values.cost[top]
            if self.extra > MOST_WORK * values.work:
                raise OutOfWork
            self._make_room(values.bytes[top])
            self.versions[top] += 1
            self.names[top] = top + (1 + self.versions[top]) * len(values.nodes)
            self.out += [renamed(item, self.names) for item in values.again[top]]
            self._enter(top)
            self.locks.subtract(values.inputs[top])
            for node in values.inputs[top]:
                self._free_if_unneeded(node)

    def _enter(self, node: int) -> None:
        self.resident[node] = None
        self.live += self.values.bytes[node]
        self.owed.discard(node)
        self._changed(node)

    def _leave(self, node: int, *, owed: bool) -> None:
        del self.resident[node]
        self.live -= self.values.bytes[node]
        if owed:
            waiting = [node]
            while waiting:
                each = waiting.pop()
                self.owed.add(each)
                waiting += [i for i in self.values.inputs[each] if i not in self.resident and i not in self.owed]
        self._changed(node)

    def _free_if_unneeded(self, node: int) -> None:
        if node in self.resident and not self.locks[node] and self._next(node) == math.inf:
            self._leave(node, owed=False)

    def _make_room(self, size: int) -> None:
        while self.live + size > self.budget:
            worst = self._worst()
            if worst is None:
                return
            self._leave(worst, owed=True)

    def _worst(self) -> int | None:
        """The value that is best dropped."""
        values, best, worst = self.values, 0.0, None
        self.effort += len(self.resident)
        if self.effort > EFFORT:
            raise OutOfWork
        for node in self.resident:
            if values.bytes[node] < SMALL or self.locks[node] or node in values.kept or not self._is_whole(node):
                continue
            due = self._next(node)
            if not self.at < due <= values.expires[node]:
                continue
            score = values.bytes[node] * (due - self.at) / self._price_of(node)
            if score > best:
                best, worst = score, node
        return worst

    def _next(self, node: int) -> float:
        """The next item that needs the value, if only to make others again."""
        if node not in self._due:
            reached = [node, *self._reach(node, self.values.outputs, self.owed.__contains__)]
            self._due[node] = min(map(self._own_next, reached))
        return self._due[node]

    def _own_next(self, node: int) -> float:
        uses, behind = self.values.uses[node], self.used[node]
        return uses[behind] if behind < len(uses) else math.inf

    def _price_of(self, node: int) -> float:
        """Work of making the value again, with all that is missing for it."""
        if node not in self._price:
            missing = self._reach(node, self.values.inputs, self._is_missing)
            total = 1 + self.values.cost[node] + sum(self.values.cost[each] for each in missing)
            self._price[node] = total if len(missing) < FAR else math.inf
        return self._price[node]

    def _is_missing(self, node: int) -> bool:
        return node not in self.resident and self._is_whole(node)

    def _is_whole(self, node: int) -> bool:
        return self.values.makers[node][-1] < self.at

    def _changed(self, node: int) -> None:
        for each in (node, *self._reach(node, self.values.inputs, self._is_missing, edge=True)):
            self._due.pop(each, None)
        for each in (node, *self._reach(node, self.values.outputs, self._is_missing, edge=True)):
            self._price.pop(each, None)

    def _reach(
        self, node: int, edges: Mapping[int, Sequence[int]], through: Callable[[int], bool], *, edge: bool = False
    ) -> list[int]:
        """Up to FAR values that edges lead to through some values; with those where that ends, if `edge`."""
        seen, waiting, out = {node}, [node], list[int]()
        while waiting and len(out) < FAR:
            for each in edges.get(waiting.pop(), ()):
                if each in seen:
                    continue
                seen.add(each)
                if through(each):
                    out.append(each)
                    waiting.append(each)
                elif edge:
                    out.append(each)
        return out
