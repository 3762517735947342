"""Ranks as threads of one process, so that every placement can be compared with one process quickly."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

import repops
from repops import backend
from repops.batches import named_arrays
from repops.commitments import Array, canonical
from repops.graph import Graph
from repops.parallel.placement import PlacedProgram
from repops.parallel.rank import PendingMessage, Prepare, RankRunner, Words, rank_parts
from zoo_compute.models import gpt

LONG_S = 60.0  # a message that takes longer never comes: ranks wait for each other in a circle


class Later:
    def __init__(self, wait: Callable[[], object]) -> None:
        self.wait = wait


class Threads:
    """Messages between threads. Words are read when they are received, not when they are sent: as a network may."""

    def __init__(
        self, rank: int, wires: dict[tuple[int, int, int], tuple[queue.Queue[Words], queue.Queue[None]]]
    ) -> None:
        self.rank, self.wires = rank, wires

    def _wire(self, source: int, target: int, tag: int) -> tuple[queue.Queue[Words], queue.Queue[None]]:
        return self.wires.setdefault((source, target, tag), (queue.Queue(), queue.Queue()))

    def send(self, words: Words, target: int, tag: int) -> PendingMessage:
        data, read = self._wire(self.rank, target, tag)
        data.put(words)
        return Later(lambda: read.get(timeout=LONG_S))

    def receive(self, words: Words, source: int, tag: int) -> PendingMessage:
        data, read = self._wire(source, self.rank, tag)

        def wait() -> None:
            words[...] = data.get(timeout=LONG_S)
            read.put(None)

        return Later(wait)


class Together:
    """All ranks of a placed program. state and losses as of one process."""

    def __init__(self, placed: PlacedProgram, state: Mapping[str, Array], prepare: Prepare | None = None) -> None:
        wires: dict[Any, Any] = {}
        self.placed, self.parts = placed, rank_parts(placed)
        self.ranks = [RankRunner(part, Threads(part.rank, wires), prepare) for part in self.parts]
        for rank, part in zip(self.ranks, self.parts, strict=True):
            for name, pieces in part.pieces.items():
                for piece in pieces:
                    values = state[name]
                    rank.state[piece.entry][...] = values[piece.start : piece.stop] if values.ndim else values

    def run(self, what: str, batch: Mapping[str, Array]) -> float:
        with ThreadPoolExecutor(len(self.ranks)) as pool:
            running = [pool.submit(getattr(rank, what), batch) for rank in self.ranks]
            (loss,) = [answer for each in running if (answer := each.result()) is not None]
        return float(loss)

    def state(self) -> dict[str, Array]:
        arrays = {entry: array for rank in self.ranks for entry, array in rank.state.items()}
        return {
            name: np.concatenate([arrays[p.entry] for p in pieces]) if len(pieces) > 1 else arrays[pieces[0].entry]
            for name, pieces in self.placed.pieces.items()
        }


def bits(array: Any) -> bytes:
    return canonical(np.asarray(array, None if isinstance(array, np.ndarray) else np.float32)).tobytes()


@dataclass(frozen=True)
class Case:
    """A program with a first state, batches, and what one process makes of them."""

    graph: Graph
    parts: int
    state: dict[str, Array]
    batches: Sequence[dict[str, Array]]
    losses: list[bytes]
    after: dict[str, bytes]

    def check(self, placed: PlacedProgram, prepare: Prepare | None = None) -> Together:
        """Every loss, before and of every step, and every tensor after the last, bit by bit."""
        ranks = Together(placed, self.state, prepare)
        for batch, loss in zip(self.batches, self.losses, strict=True):
            assert bits(ranks.run("loss", batch)) == loss
            assert bits(ranks.run("step", batch)) == loss
        after = ranks.state()
        assert {name for name, data in self.after.items() if bits(after[name]) != data} == set()
        return ranks


def case_of(graph: Graph, parts: int, state: dict[str, Array], batches: Sequence[dict[str, Array]]) -> Case:
    single = backend.prepare(graph)
    for name, array in state.items():
        single.state[name][...] = array
    losses = []
    for batch in batches:
        losses.append(bits(single.step(batch)))
    return Case(graph, parts, state, batches, losses, {name: bits(array) for name, array in single.state.items()})


class Masked(nn.Module):
    """Dropout at two places, and running statistics that each micro-batch moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 8)
        self.norm, self.drop = nn.BatchNorm1d(64), nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(torch.tanh(self.first(x)))
        out: torch.Tensor = self.last(self.drop(torch.relu(self.norm(self.second(x)))))
        return out


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.cells(x)[0][:, -1])
        return out


def _of(name: str) -> tuple[nn.Module, Any, Any, Callable[[], tuple[torch.Tensor, torch.Tensor]]]:
    entropy = nn.functional.cross_entropy
    if name == "gpt":
        module, loss, optimizer = gpt.build(2, 2, 32, 16, vocab=64)
        return module, loss, optimizer, lambda: (torch.randint(0, 64, (4, 16)), torch.randint(0, 64, (4, 16)))
    if name == "masked":
        module = Masked()
        adam = torch.optim.AdamW(module.parameters(), lr=1e-2)
        return module, entropy, adam, lambda: (torch.randn(8, 16), torch.randint(0, 8, (8,)))
    module = Recurrent()
    sgd = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    return module, entropy, sgd, lambda: (torch.randn(8, 5, 8), torch.randint(0, 4, (8,)))


MODELS = ("gpt", "masked", "recurrent")


@cache
def model_case(name: str, parts: int) -> Case:
    """Two steps, clipped; from a seed."""
    torch.manual_seed(1)
    module, loss, optimizer, draw = _of(name)

    def batch() -> tuple[torch.Tensor, ...]:
        drawn = [draw() for _ in range(parts)]
        return drawn[0] if parts == 1 else tuple(torch.stack(tensors) for tensors in zip(*drawn, strict=True))

    batches = [batch() for _ in range(2)]
    program = repops.trace(module, loss, optimizer, batches[0], accumulate=parts, clip_norm=1.0)
    state = {name: tensor.numpy().copy() for name, tensor in program.initial_state(module, seed=5).items()}
    return case_of(program.graph, parts, state, [named_arrays(each) for each in batches])
