"""Runs what survives decoding, within bounds: random state, random batch, one step."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from repops.backend import DTYPE, Runner
from repops.commitments import Array, state_root
from repops.encoding import decode
from repops.graph import F32, BadProgram, Graph, Node
from repops.profile import profile

SPECIALS = (0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x3F800000)
Prepare = Callable[[Graph], Runner]


@dataclass(frozen=True)
class Limits:
    """What a node would run: scalar operations, bytes read and written, bytes held."""

    flops: int
    traffic: int
    memory: int

    def allow(self, graph: Graph) -> bool:
        cost = profile(graph)
        needed = cost.state_bytes + cost.activation_bytes
        return cost.flops <= self.flops and cost.bytes <= self.traffic and needed <= self.memory


SLOW = Limits(flops=20_000, traffic=1 << 16, memory=1 << 16)
FAST = Limits(flops=10_000_000, traffic=1 << 25, memory=1 << 26)


@dataclass
class Tally:
    """How files ended: refused (by reason), beyond the limits, run, run and compared with the reference."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def files(self) -> int:
        return self.counts.total() - self.counts["compared"]  # these were run, too

    def refused(self, error: BadProgram) -> None:
        self.counts["refused"] += 1
        self.reasons[re.sub(r" \(\w+\)|'[^']*'|-?[\d,]*\d", "#", str(error))] += 1


def tensor(node: Node, chance: random.Random) -> Array:
    """Random words of a node's shape: for floats any, with the special ones among them; for integers mostly small."""
    if node.dtype == F32:
        words = [
            chance.choice(SPECIALS) if chance.random() < 0.1 else chance.getrandbits(32) for _ in range(node.elements)
        ]
    else:
        words = [chance.choice((chance.randrange(8), chance.getrandbits(32))) for _ in range(node.elements)]
    return np.array(words, np.uint32).view(DTYPE[node.dtype]).reshape(node.shape)


def attempt(
    data: bytes, chance: random.Random, tally: Tally, limits: Limits, prepare: Prepare, oracle: Prepare | None
) -> None:
    """Decode a file; run it when it may. Anything but a refusal with a reason is an error and comes out."""
    try:
        graph = decode(data)
    except BadProgram as error:
        tally.refused(error)
        return
    if not limits.allow(graph):
        tally.counts["beyond the limits"] += 1
        return
    state = {entry.name: tensor(graph.nodes[entry.before], chance) for entry in graph.state}
    batch = {name: tensor(graph.nodes[at], chance) for name, at in graph.batch}
    after = one_step(prepare(graph), state, batch, threads=chance.choice((1, 2)))
    tally.counts["run"] += 1
    if oracle is not None and SLOW.allow(graph):
        assert after == one_step(oracle(graph), state, batch), "the kernels and the reference disagree"
        tally.counts["compared"] += 1


def one_step(runner: Runner, state: dict[str, Array], batch: dict[str, Array], threads: int = 1) -> tuple[bytes, bytes]:
    """Loss (its bytes, NaN canonical) and root of the state after a step from `state`."""
    for name, array in state.items():
        runner.state[name][...] = array
    loss = np.float32(runner.step(batch, threads=threads))
    return (b"NaN" if np.isnan(loss) else loss.tobytes()), state_root(runner.state)
