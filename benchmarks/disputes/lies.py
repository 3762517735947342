"""Lies about a program: one false word each in an honest computation. For benchmarks/disputes/dispute.py.

An asker goes to the first difference alone, so later states need not follow from the lie: they are just other hashes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from node.disputes.computation import Computation, DisputedWord, Roots
from node.disputes.trees import Trees
from repops.commitments import Array, canonical, state_root_of, tensor_roots
from repops.graph import BATCH_ROLE, MAX_RANK, OPTIMIZER, Graph
from repops.parts import part_count
from zoo_compute.disputes.evidence import Evidence
from zoo_compute.disputes.evidence import Update as UpdateEvidence
from zoo_compute.spec.frames import Frame, Kind, Phase, Result
from zoo_compute.spec.state import Claim

BEGIN = -1  # the step number of the state before the first step


class CachedComputation(Computation):
    """Another computation, with the values of one step and the requested states cached in memory."""

    def __init__(self, of: Computation) -> None:
        super().__init__(of.graph, of.checkpoint)
        self.of = of
        self._step, self._values = -1, list[tuple[int, Array]]()
        self._after: dict[int, Roots] = {}
        self._sources: dict[tuple[int, str, int], Roots] = {}

    def step_inputs(self, step: int) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        return self.of.step_inputs(step)

    def after(self, step: int) -> Roots:
        if step not in self._after:
            self._after[step] = self.of.after(step)
        return self._after[step]

    def source(self, role: int, name: str, step: int) -> Roots:
        if (role, name, step) not in self._sources:
            self._sources[role, name, step] = self.of.source(role, name, step)
        return self._sources[role, name, step]

    def word_evidence(self, step: int, name: str, asked: DisputedWord) -> Evidence:
        return self.of.word_evidence(step, name, asked)

    def state_roots(self, steps: Sequence[int]) -> list[bytes]:
        return self.of.state_roots(steps)

    def values(self, step: int, wanted: Sequence[int] | None = None) -> Iterator[tuple[int, Array]]:
        """Inputs are the arrays of a program that goes on: copied."""
        if step != self._step:
            nodes = self.graph.nodes
            values = self.of.values(step)
            self._values = [(at, np.array(value) if nodes[at].op == "input" else value) for at, value in values]
            self._step = step
        return iter(self._values)


class CachedAggregation(CachedComputation):
    """An aggregation in many disputes. claim: the one that is disputed now."""

    claim: Claim

    def word_evidence(self, step: int, name: str, asked: DisputedWord) -> Evidence:
        evidence = super().word_evidence(step, name, asked)
        assert isinstance(evidence, UpdateEvidence)
        return replace(evidence, claim=self.claim)


@dataclass(frozen=True)
class Lie:
    """One false word of step `step`.

    what: `begin`, `output` (bit `bit` of the root of entry `entry` of the state after it), `end` (the result's last state
    alone), `descriptor` (a node's tensor has another shape), `training`, `update` or `aggregation` (bit `bit` of an element of a
    node; with `part` also of the element's parts from that one on; with `entry` of what the last two end in, and of no node).
    """

    what: str
    step: int
    node: int = 0
    element: int = 0
    bit: int = 0
    part: int | None = None
    entry: int | None = None

    @property
    def kind(self) -> Kind:
        return {"update": Kind.UPDATE, "aggregation": Kind.AGGREGATION}.get(self.what, Kind.TRAINING)

    def place(self, graph: Graph) -> str:
        """The kind of committed number that is false. graph: of the lie's program."""
        if self.kind == Kind.AGGREGATION:
            return "aggregation" if self.entry is None else "checkpoint"
        if self.what in ("descriptor", "update"):
            return self.what
        if self.what == "end":
            return "state"
        if self.entry is not None:
            return _place_of_entry(graph, self.entry, "checkpoint" if self.what == "begin" else "state")
        node = graph.nodes[self.node]
        if node.op == "constant":
            return "table"
        if node.op == "input":
            role, at = node.attributes
            return "data" if role == BATCH_ROLE else _place_of_entry(graph, at, "state")
        return "node output" if self.part is None else "partial sum"


def _place_of_entry(graph: Graph, entry: int, place: str) -> str:
    """`place`, or `private state`: a worker publishes its optimiser's moments, counters and seed only as hashes."""
    return "private state" if graph.state[entry].kind == OPTIMIZER else place


class LyingComputation(Computation):
    """An honest computation with one lie."""

    def __init__(self, honest: Computation, lie: Lie) -> None:
        super().__init__(honest.graph, honest.checkpoint)
        self.honest, self.lie = honest, lie

    def state_roots(self, steps: Sequence[int]) -> list[bytes]:
        first, roots = self.lie.step + 1, self.honest.state_roots(steps)
        return [
            root if at < first else state_root_of(self.after(at - 1)) if at == first else _another(root)
            for at, root in zip(steps, roots, strict=True)
        ]

    def after(self, step: int) -> Roots:
        roots = self.honest.after(step)
        if step != self.lie.step:
            return roots
        name = self.graph.state[self.lie.entry or 0].name
        return {**roots, name: _another(roots[name], self.lie.bit)}

    def trace(self, step: int) -> list[bytes]:
        roots = self.honest.trace(step)
        if self.lie.entry is not None:
            return roots
        at, value = self.lie.node, self._value()
        false = value[..., None] if self.lie.what == "descriptor" else value
        return [*roots[:at], tensor_roots({"": false})[""], *roots[at + 1 :]]

    def tensors(self, step: int, node: int) -> dict[int, Array]:
        values = self.honest.tensors(step, node)
        return values if self.lie.entry is not None or node != self.lie.node else values | {node: self._value()}

    def parts(self, step: int, node: int, element: int) -> Array:
        """The last is what was committed."""
        words = self.honest.parts(step, node, element)
        if self.lie.part is not None:
            words[self.lie.part : -1] ^= 1
        words[-1] = canonical(self.tensors(step, node)[node]).reshape(-1).view(np.int32)[element]
        return words

    def _value(self) -> Array:
        value = np.array(self.honest.tensors(self.lie.step, self.lie.node)[self.lie.node])
        if self.lie.what == "descriptor":
            return value
        flat = value.reshape(-1)
        words = flat.view(np.uint32)
        words[self.lie.element] = 1 if np.isnan(flat[self.lie.element]) else words[self.lie.element] ^ 1 << self.lie.bit
        return value

    def step_inputs(self, step: int) -> Any:
        raise AssertionError("a liar computes nothing")

    def source(self, role: int, name: str, step: int) -> Roots:
        raise AssertionError("a liar shows no evidence")

    def word_evidence(self, step: int, name: str, asked: DisputedWord) -> Evidence:
        raise AssertionError("a liar shows no evidence")


def _another(root: bytes, bit: int = 0) -> bytes:
    return (int.from_bytes(root, "big") ^ 1 << bit).to_bytes(32, "big")


def result_of(trees: Trees, inner_steps: int, segment_steps: int) -> Result:
    """Of a slot-round; its update is any."""
    frame = Frame(inner_steps=inner_steps, segment_steps=segment_steps)
    segments = trees.states(frame, Phase.SEGMENTS)
    return Result(trees.tree(frame, Phase.SEGMENTS).root, segments[-1], _another(segments[-1]))


# --- which lies


@dataclass(frozen=True)
class Plan:
    """steps: of the lies. each: lies per operator. states: lies of every other kind. total: a lower bound."""

    steps: tuple[int, ...]
    each: int
    states: int
    total: int = 0
    operators: frozenset[str] | None = None
    has_data: bool = True


def lies_of(graphs: Mapping[Kind, Graph], plan: Plan, rng: random.Random) -> list[Lie]:
    """The planned lies about a job's three programs. Nodes repeat only after every node had a turn, to cover layouts evenly."""
    graph = graphs[Kind.TRAINING]
    wanted = [at for at, node in enumerate(graph.nodes) if node.elements and _is_wanted(graph, at, plan)]
    lies = []
    for op in sorted({graph.nodes[at].op for at in wanted}):
        lies += [_lie("training", graph, at, plan, rng) for at in _spread(wanted, plan.each, rng, graph, op)]
    lies += [lie for _ in range(plan.states) for lie in _states(graphs, plan, rng)]
    if plan.states:
        for kind in (Kind.UPDATE, Kind.AGGREGATION):
            other = graphs[kind]
            nodes = [at for at, node in enumerate(other.nodes) if node.elements and node.op != "scalar"]
            lies += [_lie(kind.name.lower(), other, at, plan, rng) for at in _spread(nodes, plan.states, rng)]
        shaped = [at for at in wanted if len(graph.nodes[at].shape) < MAX_RANK]
        lies += [Lie("descriptor", rng.choice(plan.steps), at) for at in _spread(shaped, plan.states, rng)]
        data = [at for at in wanted if _is_data(graph, at)]
        lies += [_lie("training", graph, at, plan, rng) for at in _spread(data, plan.states, rng)]
        summed = [at for at in wanted if _parts(graph, at) > 1]
        extra = [_lie("training", graph, at, plan, rng) for at in _spread(summed, plan.states, rng)]
        lies += [replace(lie, part=rng.randrange(_parts(graph, lie.node))) for lie in extra]
    missing = plan.total - len(lies)
    return lies + [_lie("training", graph, at, plan, rng) for at in _spread(wanted, max(0, missing), rng)]


def _states(graphs: Mapping[Kind, Graph], plan: Plan, rng: random.Random) -> Iterator[Lie]:
    """Of what a round exchanges and what is private, at the beginning and after a step; of update and checkpoint; of the end."""
    graph = graphs[Kind.TRAINING]
    for is_private in (False, True):
        entries = [at for at, entry in enumerate(graph.state) if (entry.kind == OPTIMIZER) == is_private]
        for what, step in (("begin", BEGIN), ("output", rng.choice(plan.steps))):
            if entries:
                yield Lie(what, step, bit=rng.randrange(256), entry=rng.choice(entries))
    for kind in (Kind.UPDATE, Kind.AGGREGATION):
        yield Lie(kind.name.lower(), 0, bit=rng.randrange(256), entry=rng.randrange(len(graphs[kind].state)))
    yield Lie("end", max(plan.steps))


def _is_wanted(graph: Graph, at: int, plan: Plan) -> bool:
    op = graph.nodes[at].op
    return (plan.operators is None or op in plan.operators) and (plan.has_data or not _is_data(graph, at))


def _is_data(graph: Graph, at: int) -> bool:
    node = graph.nodes[at]
    return bool(node.op == "input" and node.attributes[0] == BATCH_ROLE)


def _spread(nodes: list[int], count: int, rng: random.Random, graph: Graph | None = None, op: str = "") -> list[int]:
    """`count` nodes (of an operator), each equally often."""
    left = [at for at in nodes if graph is None or graph.nodes[at].op == op]
    rng.shuffle(left)
    return [left[number % len(left)] for number in range(count)]


def _lie(what: str, graph: Graph, at: int, plan: Plan, rng: random.Random) -> Lie:
    """A lie about a node's element, often at an end of the tensor, where Merkle paths are shortest and deepest."""
    node = graph.nodes[at]
    element = rng.choice((0, node.elements - 1, rng.randrange(node.elements), rng.randrange(node.elements)))
    count = _parts(graph, at)
    part = rng.randrange(count) if count > 1 and rng.random() < 0.7 else None
    step = rng.choice(plan.steps) if what == "training" else 0
    return Lie(what, step, at, element, rng.randrange(32), part)


def _parts(graph: Graph, at: int) -> int:
    node = graph.nodes[at]
    return 1 if node.op in ("input", "constant") else part_count(node)
