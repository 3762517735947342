"""Runs one rank's part of a program. The caller transports messages, by a `Link`.

Stages read and write the state and each other's values in shared memory. Kernels other than the native ones have their
own memory; for them values are copied in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from repops.backend import DTYPE, Runner
from repops.commitments import Array
from repops.graph import Graph, Node
from repops.native.runner import NativeRunner
from repops.parallel.placement import Piece, PlacedProgram
from repops.parallel.stages import Message, RankProgram, Stage, loss_of, step_of
from repops.plan.memory import Arena, rounded

Words = npt.NDArray[np.int32]
Prepare = Callable[[Graph], Runner]


class PendingMessage(Protocol):
    """A message in transit."""

    def wait(self) -> object:
        """Return when its words may be reused; raise if the transfer failed."""
        ...


class Link(Protocol):
    """Messages between ranks. Those of one tag, from one rank to another, arrive in the order in which they were sent."""

    def send(self, words: Words, target: int, tag: int) -> PendingMessage: ...

    def receive(self, words: Words, source: int, tag: int) -> PendingMessage: ...


@dataclass(frozen=True)
class RankPart:
    """One rank's programs, and its tensors: name of the whole tensor -> the rank's pieces of it."""

    rank: int
    step: RankProgram
    loss: RankProgram
    pieces: dict[str, tuple[Piece, ...]]


def rank_parts(placed: PlacedProgram) -> list[RankPart]:
    """The part of each rank."""
    owner = {entry.name: placed.owner[entry.before] for entry in placed.graph.state}
    steps, losses = step_of(placed), loss_of(placed)
    return [
        RankPart(
            rank,
            steps[rank],
            losses[rank],
            {
                name: mine
                for name, pieces in placed.pieces.items()
                if (mine := tuple(piece for piece in pieces if owner[piece.entry] == rank))
            },
        )
        for rank in range(placed.ranks)
    ]


class RankRunner:
    """state: the pieces that this rank holds, by entry of the placed graph; live."""

    def __init__(self, part: RankPart, link: Link, prepare: Prepare | None = None) -> None:
        """prepare: makes the runner of a stage; by default that is the native one, which shares memory."""
        self._link, self._prepare = link, prepare
        self._state_memory = _laid_out({at: part.step.kept[at] for at in part.step.state.values()})
        self.state = {entry: self._state_memory.arrays[at] for entry, at in part.step.state.items()}
        self._values = Arena(4 * max(part.step.arena_words, part.loss.arena_words))
        self._programs = {"step": self._loaded(part.step), "loss": self._loaded(part.loss)}
        if prepare is None:
            self._share_workspace()

    def _loaded(self, program: RankProgram) -> _Loaded:
        return _Loaded(program, self._state_memory.arrays, self._values, self._prepare)

    def _share_workspace(self) -> None:
        """Stages run one after another: what they compute for themselves may lie in the same place."""
        plans = [run.plan for each in self._programs.values() for run in each.runners if isinstance(run, NativeRunner)]
        self._workspace = Arena(max((plan.size for plan in plans), default=0))
        for plan in plans:
            plan.arena = self._workspace

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of memory by purpose."""
        out = {"state": self._state_memory.size, "values": self._values.words.nbytes, "workspace": 0}
        if self._prepare is None:
            out["workspace"] = self._workspace.words.nbytes
        return out

    def batch_names(self) -> set[str]:
        return set().union(*(each.program.batch for each in self._programs.values()))

    def step(self, batch: Mapping[str, Array], *, threads: int = 1) -> float | None:
        """Run one step of this rank's part; returns the loss before it if this rank computes it."""
        return self._programs["step"].run(batch, self._link, threads)

    def loss(self, batch: Mapping[str, Array], *, threads: int = 1) -> float | None:
        return self._programs["loss"].run(batch, self._link, threads)


@dataclass
class _Memory:
    arrays: dict[int, Array]
    size: int
    arena: Arena


def _laid_out(nodes: Mapping[int, Node]) -> _Memory:
    """One array for each node, side by side."""
    places, size = {}, 0
    for at, node in nodes.items():
        places[at] = size
        size += rounded(4 * node.elements)
    arena = Arena(size)
    arrays = {at: arena.array(places[at], DTYPE[node.dtype], node.shape) for at, node in nodes.items()}
    return _Memory(arrays, size, arena)


class _Loaded:
    """A rank's program with its memory: that of the state is given, and the arena for values."""

    def __init__(self, program: RankProgram, state: Mapping[int, Array], arena: Arena, prepare: Prepare | None) -> None:
        self.program, self._arena = program, arena
        self._batch = _laid_out({at: program.kept[at] for at in program.batch.values()})
        self.arrays = {at: state[at] for at in program.state.values()} | self._batch.arrays
        for at, node in program.kept.items():
            if at not in self.arrays:
                self.arrays[at] = self._arena.array(4 * program.places[at], DTYPE[node.dtype], node.shape)
        self.arrays |= {at: self.arrays[source] for at, source in program.resent.items()}
        self._shares = prepare is None
        self.runners = [self._runner(stage, prepare) for stage in program.stages]

    def _runner(self, stage: Stage, prepare: Prepare | None) -> Runner:
        if prepare is not None:
            return prepare(stage.graph)
        memory = {entry.name: self.arrays[int(entry.name)] for entry in stage.graph.state}
        return NativeRunner(stage.graph, fused=True, memory=memory)

    def run(self, batch: Mapping[str, Array], link: Link, threads: int) -> float | None:
        program, stages = self.program, self.program.stages
        for name, at in program.batch.items():
            self.arrays[at][...] = batch[name]
        reading: dict[
            int, list[PendingMessage]
        ] = {}  # by tensor of the state: who still reads what is to be overwritten
        for message in program.first_sends:
            at = message.nodes[0]
            sent = link.send(_words(self.arrays[at]), message.target, message.tag)
            reading.setdefault(program.resent.get(at, at), []).append(sent)
        sending: list[tuple[PendingMessage, Words]] = []
        arriving = {at: self._post(stages[at], link) for at in range(min(1, len(stages)))}
        for at, (stage, runner) in enumerate(zip(stages, self.runners, strict=True)):
            if at + 1 < len(stages):
                arriving[at + 1] = self._post(stages[at + 1], link)
            for done in arriving.pop(at):
                done.wait()
            for node in stage.overwrites:
                for done in reading.pop(node, ()):
                    done.wait()
            self._compute(stage, runner, threads)
            for message in stage.sends:
                packed = self._packed(message)
                sending.append((link.send(packed, message.target, message.tag), packed))
        for done in [*(done for dones in reading.values() for done in dones), *(done for done, _ in sending)]:
            done.wait()
        for after, before in program.at_end:
            self.arrays[before][...] = self.arrays[after]
        return None if program.loss is None else float(self.arrays[program.loss])

    def _post(self, stage: Stage, link: Link) -> list[PendingMessage]:
        out = []
        for message in stage.receives:
            place = self.program.places[-1 - message.tag]
            words = self._arena.words[place : place + message.words].view(np.int32)
            out.append(link.receive(words, message.source, message.tag))
        return out

    def _packed(self, message: Message) -> Words:
        words = np.empty(message.words, np.int32)
        for at, offset in zip(message.nodes, message.offsets, strict=True):
            own = _words(self.arrays[at])
            words[offset : offset + own.size] = own
        return words

    def _compute(self, stage: Stage, runner: Runner, threads: int) -> None:
        if not self._shares:
            for entry in stage.graph.state:
                runner.state[entry.name][...] = self.arrays[int(entry.name)]
        runner.step({}, threads=threads)
        if not self._shares:
            for entry in stage.graph.state:
                if entry.after != entry.before:
                    self.arrays[int(entry.name)][...] = runner.state[entry.name]


def _words(array: Array) -> Words:
    return array.reshape(-1).view(np.int32)
