"""Slot-rounds of small jobs, and committers that lie about them: one place is false, what follows is computed from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import torch

import repops
from node.disputes.board import Board, Played, play
from node.disputes.challenger import Challenger
from node.disputes.computation import Roots, SlotRound
from node.disputes.prover import Prover
from node.disputes.trees import Trees
from node.programs import Programs, State
from repops import streaming
from repops.backend import DTYPE
from repops.commitments import Array, state_root
from repops.encoding import root as program_root
from repops.graph import OPTIMIZER, Graph
from tests.repops import models
from zoo_compute.data import Examples
from zoo_compute.manifest import DataFile, HeldoutFile, Manifest, Outer, ProgramFile, StateFile
from zoo_compute.publish import initial_checkpoint
from zoo_compute.rounds import update_program
from zoo_compute.spec.games import Frame, Game, Kind, Phase, Result, Work
from zoo_compute.spec.merkle import result_root
from zoo_compute.spec.referee import begun
from zoo_compute.spec.state import Claim

from .judging import Job, Judge

ROUND, SLOT, SLOTS, ROWS = 0, 1, 2, 2
CID = "b" + "a" * 58


@dataclass(frozen=True)
class Case:
    """A job, and the slot-round that games are about."""

    graph: Graph
    checkpoint: State
    examples: Examples
    inner_steps: int = 5
    segment_steps: int = 2
    rows: int = ROWS

    @cached_property
    def manifest(self) -> Manifest:
        roots = (program_root(self.graph), state_root(self.checkpoint), state_root(self.examples))
        program, state, data = (each.hex() for each in roots)
        return Manifest(
            program=ProgramFile(CID, program, 1),
            batch_size=self.rows,
            rounds=1,
            slots=SLOTS,
            quorum=1,
            inner_steps=self.inner_steps,
            segment_steps=self.segment_steps,
            seed=0,
            state=StateFile(CID, state),
            data=DataFile(CID, data, len(next(iter(self.examples.values())))),
            heldout=HeldoutFile(CID),
            outer=Outer(0.7, 0.9),
            slot_s=1,
            aggregate_s=1,
            reexecute_s=1,
            redundancy=1,
        )

    @cached_property
    def work(self) -> Work:
        update = program_root(update_program(self.graph))
        programs = (program_root(self.graph), update, bytes(32))
        return Work(programs, self.inner_steps, self.segment_steps, self.rows)

    @cached_property
    def honest(self) -> SlotRound:
        return self.computed(SlotRound)

    def computed(self, made: Callable[..., SlotRound], **options: Any) -> SlotRound:
        return made(self.manifest, Programs(self.graph), self.checkpoint, self.examples, ROUND, SLOT, **options)

    @property
    def judge(self) -> Judge:
        data = self.manifest.data
        return Judge(Job(bytes.fromhex(data.root), data.examples, SLOTS, self.manifest.draws))

    def result(self, trees: Trees) -> Result:
        frame = Frame(inner_steps=self.inner_steps, segment_steps=self.segment_steps)
        return Result(trees.tree(frame, Phase.SEGMENTS).root, trees.states(frame, Phase.SEGMENTS)[-1])

    def game(self, result: Result, kind: Kind = Kind.TRAINING) -> Game:
        start = self.manifest.state_root
        root = result_root(SLOT, start, result.segment_root, result.end_root, result.update_root)
        claim = Claim(0, ROUND, 0, 7, SLOT << 16 | 1, 1, 1, start, root, 10)
        return begun(1, claim, kind, SLOT, self.work, result)

    def against(self, prover: Prover, result: Result | None = None) -> Played:
        """What the honest challenger makes of it."""
        board = Board(self.game(result or self.result(prover.trees)))
        return play(board, prover, Challenger(Trees(self.honest)), self.judge)


class Liar(SlotRound):
    """elements: (step, node) -> number of an element, of which one bit is false; states: steps whose state is said to be
    another in one entry (-1: the state at step 0), though the next one is computed from the right one; begun: an entry
    that the slot-round really begins with something else in."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.elements: dict[tuple[int, int], int] = {}
        self.bit = 0
        self.states: dict[int, int] = {}
        self.begun: str | None = None
        self.part: int | None = None
        self._values: dict[int, list[tuple[int, Array]]] = {}

    def values(self, step: int, wanted: Any = None) -> Any:
        if all(step != at for at, _ in self.elements):
            return super().values(step, wanted)
        if step not in self._values:
            state, batch = ({name: np.array(a) for name, a in each.items()} for each in self.given(step))
            found = []
            for at, value in streaming.values(self.graph, state, batch, piece_bytes=0):
                if (step, at) in self.elements:
                    value.reshape(-1).view(np.uint32)[self.elements[step, at]] ^= 1 << self.bit
                found.append((at, np.array(value)))
            self._values[step] = found
        return iter(self._values[step])

    def begin(self) -> None:
        super().begin()
        if self.begun is not None:
            changed = {name: np.array(value) for name, value in self.programs.step.state.items()}
            changed[self.begun].reshape(-1).view(np.uint32)[-1] ^= 1
            self.programs.load(changed)

    def advance(self, step: int) -> None:
        if all(step != at for at, _ in self.elements):
            super().advance(step)
            return
        self._at = step
        values = dict(self.values(step))
        self.programs.load({entry.name: values[entry.after] for entry in self.graph.state})

    def after(self, step: int) -> Roots:
        roots = super().after(step)
        if step in self.states:
            name = self.graph.state[self.states[step]].name
            roots = roots | {name: sha256(b"another" + roots[name]).digest()}
        return roots

    def parts(self, step: int, node: int, element: int) -> Array:
        """The last is what was committed; with `part`, that one and what follows is false too."""
        words = super().parts(step, node, element)
        if self.part is not None:
            words[self.part : -1] ^= 1
        words[-1] = self.tensors(step, [node])[node].reshape(-1).view(np.int32)[element]
        return words


def random_examples(graph: Graph, rows: int, count: int, highest: int) -> Examples:
    """As the program's batch, `count` examples of which `rows` make one."""
    rng = np.random.default_rng(5)
    found = {}
    for name, at in graph.batch:
        node = graph.nodes[at]
        shape = (count, *node.shape[1:])
        if DTYPE[node.dtype] == np.float32:
            found[name] = rng.standard_normal(shape).astype(np.float32)
        else:
            found[name] = rng.integers(0, highest, shape).astype(np.int32)
    return found


def case_of(module: torch.nn.Module, batch: Any, loss: Any, highest: int, **options: Any) -> Case:
    """A job of a module; `tokens` where it learns the next one."""
    program = repops.trace(module, loss, torch.optim.AdamW(module.parameters(), lr=0.01), batch)
    state = program.initial_state(module)
    kinds = {entry.name: entry.kind for entry in program.graph.state}
    tensors = {name: t.numpy().copy() for name, t in state.items() if kinds[name] != OPTIMIZER}
    rows = len(batch[0])
    if loss is models.next_token:
        rng = np.random.default_rng(3)
        examples = {"tokens": rng.integers(0, highest, (13, batch[0].shape[1] + 1)).astype(np.int32)}
    else:
        examples = random_examples(program.graph, rows, 13, highest)
    return Case(program.graph, initial_checkpoint(program.graph, tensors), examples, rows=rows, **options)


@lru_cache
def mlp(**options: Any) -> Case:
    torch.manual_seed(0)
    loss = torch.nn.functional.cross_entropy
    return case_of(models.mlp(), models.vectors(0, ROWS), loss, 10, **options)
