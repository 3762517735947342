"""Slot-rounds of small jobs, and committers that lie about them: one place is false, what follows is computed from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import torch

import repops
from node.compute.programs import Programs, State, Tensors
from node.compute.training import root_of
from node.disputes.computation import SlotRound
from node.disputes.previous_turn import SeatClaim
from node.disputes.rounds import Aggregation, Update
from node.disputes.trees import Trees
from repops.backend import DTYPE
from repops.commitments import state_root
from repops.encoding import root as program_root
from repops.graph import OPTIMIZER, Graph
from repops.merkle import Tree
from tests.support.liars.faults import Liar, Lies
from tests.support.programs import models
from zoo_compute.formats.aggregation import NO_OUTER, AggregationSpec, OuterOptimizer
from zoo_compute.formats.aggregation import Aggregation as Rule
from zoo_compute.formats.manifest import Compression, DataFile, HeldoutFile, Manifest, ProgramFile, StateFile
from zoo_compute.jobs.files import initial_checkpoint
from zoo_compute.models import gpt
from zoo_compute.models.decoding_inputs import OWN, beginning
from zoo_compute.models.generation import Generator
from zoo_compute.models.sampling import Sampling
from zoo_compute.spec.frames import Frame, Phase, Result, Work
from zoo_compute.spec.merkle import result_root
from zoo_compute.spec.state import Claim
from zoo_compute.training.examples import Examples
from zoo_compute.training.work_root import work_of

ROUND, SLOT, SLOTS, ROWS = 0, 1, 4, 2
SEATS = {0: (0, 1), 2: (3,)}  # seat -> its slots; slot 2 is absent
CID = "b" + "a" * 58
WHOLE = Compression()
OUTER, MEAN = OuterOptimizer(0.7, 0.9), Rule()
UNCHANGED = OuterOptimizer(1.0, 0.0, NO_OUTER)  # of a map


@dataclass(frozen=True)
class Case:
    """A job, and the slot-round that disputes are about."""

    graph: Graph
    checkpoint: Tensors
    examples: Examples
    inner_steps: int = 5
    segment_steps: int = 2
    rows: int = ROWS
    slots: int = SLOTS
    slot: int = SLOT
    round: int = ROUND  # and turn
    carry: int = 1
    compression: Compression = WHOLE
    rule: Rule = MEAN

    @cached_property
    def manifest(self) -> Manifest:
        roots = (program_root(self.graph), state_root(self.checkpoint), state_root(self.examples))
        program, state, data = (each.hex() for each in roots)
        return Manifest(
            program=ProgramFile(CID, program, 1),
            batch_size=self.rows,
            rounds=self.round + 1,
            slots=self.slots,
            quorum=self.slots if self.is_map else 1,
            inner_steps=self.inner_steps,
            segment_steps=self.segment_steps,
            seed=0,
            state=StateFile(CID, state),
            data=DataFile(CID, data, len(next(iter(self.examples.values()))), CID),
            heldout=None if self.is_map else HeldoutFile(CID),
            outer=UNCHANGED if self.is_map else OUTER,
            aggregation=self.rule,
            slot_s=1,
            aggregate_s=1,
            reexecute_s=1,
            redundancy=1 if self.rule.aggregators == 1 else 3,
            carry=self.carry,
            compression=self.compression,
            policy="roll back" if self.is_map else "tolerate",
        )

    @property
    def is_map(self) -> bool:
        return bool(self.graph.outputs)

    @cached_property
    def start_root(self) -> bytes:
        """Of the checkpoint, whoever made it."""
        return root_of(self.checkpoint)

    @cached_property
    def work(self) -> Work:
        return work_of(self.manifest, self.graph)

    def lying(self, **options: Any) -> Liar:
        """One at a time: liars share their programs."""
        return Liar(self.manifest, self._liars, self.checkpoint, self.examples, self.round, self.slot, **options)

    @cached_property
    def honest(self) -> SlotRound:
        return SlotRound(self.manifest, Programs(self.graph), self.checkpoint, self.examples, self.round, self.slot)

    @cached_property
    def _liars(self) -> Programs:
        return Programs(self.graph)

    @cached_property
    def update(self) -> Update:
        return Update(self.honest)

    # --- an aggregation: what was aggregated, by whom

    @cached_property
    def updates(self) -> dict[int, State]:
        rng = np.random.default_rng(11)
        nodes = {entry.name: self.graph.nodes[entry.before] for entry in self.graph.state}
        shapes = {name: nodes[name].shape for name in self.graph.exchanged}
        return {
            slot: {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
            for slots in SEATS.values()
            for slot in slots
        }

    @cached_property
    def seated(self) -> tuple[SeatClaim, ...]:
        seat_claims = []
        for seat, slots in SEATS.items():
            results = [Result(bytes([1]) * 32, bytes([slot]) * 32, state_root(self.updates[slot])) for slot in slots]
            tree = Tree([self.leaf(slot, result) for slot, result in zip(slots, results, strict=True)])
            with_paths = {slot: replace(results[at], path=tree.path(at)) for at, slot in enumerate(slots)}
            scope = slots[0] << 16 | len(slots)
            seat_claims.append(SeatClaim(self.claim(tree.root, seat=seat, scope=scope), with_paths))
        return tuple(seat_claims)

    def claim(self, root: bytes, *, seat: int = 0, scope: int | None = None) -> Claim:
        scope = self.slot << 16 | 1 if scope is None else scope
        return Claim(self.round, self.round, seat, 7 + seat, scope, 1, self.start_root, root)

    def leaf(self, slot: int, result: Result) -> bytes:
        return result_root(slot, self.start_root, result.segment_root, result.end_root, result.update_root)

    def aggregated(
        self, made: Callable[..., Aggregation] = Aggregation, claim: Claim | None = None, share: int | None = None
    ) -> Aggregation:
        """share: of one of several aggregators."""
        fixed = self.manifest, self.graph, self.checkpoint, self.updates
        return made(*fixed, claim=claim, seated=self.seated, share=share)

    def result(self, trees: Trees) -> Result:
        """Of a slot-round, as somebody computed it."""
        frame = Frame(inner_steps=self.inner_steps, segment_steps=self.segment_steps)
        return Result(trees.tree(frame, Phase.SEGMENTS).root, trees.states(frame, Phase.SEGMENTS)[-1])


class LyingUpdate(Lies, Update):
    """An update that is another."""


class LyingAggregation(Lies, Aggregation):
    """A checkpoint that is another."""


class LeafOnly(Trees):
    """One hash of a tree is not of what lies below."""

    place: tuple[Phase, int] = (Phase.SEGMENTS, 1)
    to = sha256(b"nothing below").digest()

    def leaves(self, frame: Frame, phase: Phase) -> list[bytes]:
        leaves = list(super().leaves(frame, phase))
        if self.place[0] == phase:
            leaves += [bytes(32)] * (self.place[1] + 1 - len(leaves))
            leaves[self.place[1]] = self.to
        return leaves


def random_examples(graph: Graph, rows: int, count: int, highest: int) -> Examples:
    """As the program's batch, `count` examples of which `rows` make one."""
    rng = np.random.default_rng(5)
    batch = {}
    for name, at in graph.batch:
        node = graph.nodes[at]
        shape = (count, *node.shape[1:])
        if DTYPE[node.dtype] == np.float32:
            batch[name] = rng.standard_normal(shape).astype(np.float32)
        else:
            batch[name] = rng.integers(0, highest, shape).astype(np.int32)
    return batch


def case_of(module: torch.nn.Module, batch: Any, loss: Any, highest: int, **options: Any) -> Case:
    """A job of a module; `tokens` where it learns the next one."""
    program = repops.trace(module, loss, torch.optim.AdamW(module.parameters(), lr=0.01), batch)
    tensors = tensors_of(program, module)
    rows = len(batch[0])
    if loss is models.next_token:
        rng = np.random.default_rng(3)
        examples = {"tokens": rng.integers(0, highest, (13, batch[0].shape[1] + 1)).astype(np.int32)}
    else:
        examples = random_examples(program.graph, rows, 13, highest)
    aggregation_spec = AggregationSpec(SLOTS, OUTER, options.get("rule", MEAN))
    return Case(
        program.graph, initial_checkpoint(program.graph, tensors, aggregation_spec), examples, rows=rows, **options
    )


@lru_cache
def mlp(**options: Any) -> Case:
    torch.manual_seed(0)
    loss = torch.nn.functional.cross_entropy
    return case_of(models.mlp(), models.vectors(0, ROWS), loss, 10, **options)


def tensors_of(program: repops.Program, module: torch.nn.Module) -> Examples:
    """The module's own, by name."""
    kinds = {entry.name: entry.kind for entry in program.graph.state}
    state = program.initial_state(module)
    return {name: t.numpy().copy() for name, t in state.items() if kinds[name] != OPTIMIZER}


class Lookup(torch.nn.Module):
    """Two outputs, one of them drawn at random; it counts its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = torch.nn.Embedding(10, 6), torch.nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, words: torch.Tensor) -> dict[str, torch.Tensor]:
        self.seen.add_(1)
        rows = self.table(words).mean(1)
        return {"classes": self.head(rows).softmax(-1), "drawn": rows * self.seen + torch.rand(rows.shape)}


@lru_cache
def mapped() -> Case:
    """A map of a lookup over items that are words."""
    torch.manual_seed(0)
    module, steps = Lookup().eval(), 5
    program = repops.trace_map(module, torch.zeros((ROWS, 4), dtype=torch.int64), steps)
    examples = random_examples(program.graph, ROWS, 13, 10)
    return Case(program.graph, tensors_of(program, module), examples, inner_steps=steps)


@lru_cache
def generating() -> Case:
    """Texts of a GPT of one layer, drawn by their odds: two rows, of which the second begins a new text in its fourth step."""
    torch.manual_seed(0)
    model, steps = gpt.build(1, 2, 8, 5, vocab=11)[0].eval(), 5
    generator = Generator(model, model.decode, model.cache_shape, ROWS, Sampling(0.8), end=10).eval()
    program = repops.trace_map(generator, torch.zeros(ROWS, dtype=torch.int64), steps, fresh=generator.fresh)
    rows = np.array([[beginning(3), beginning(7)], [4, OWN], [OWN, OWN], [OWN, beginning(2)], [OWN, OWN]], np.int32)
    items = np.zeros((SLOTS, steps, ROWS), np.int32)
    items[SLOT] = rows
    return Case(program.graph, tensors_of(program, generator), {"inputs": items.ravel()}, inner_steps=steps)
