"""Runs one program on two runners and compares the bits of their results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from repops import encoding
from repops.backend import Runner
from repops.commitments import Array, canonical
from repops.conformance.programs import Sample
from repops.graph import F32, PARAMETER, Graph

STEPS = 2  # the second one replays what the first one prepared
TOKENS = 256  # of a training program's vocabulary

Cases = dict[str, bool]  # by operator, `step` or `loss`: whether the bits agree


def compare(sample: Sample, ours: Runner, theirs: Runner, *, traced: bool = True, threads: int = 1) -> Cases:
    """The trace operator by operator, the loss, and the state after each of STEPS steps."""
    graph, state, batch = sample
    for runner in (ours, theirs):
        for name, array in state.items():
            runner.state[name][...] = array
    cases: Cases = {}
    if traced:
        cases |= _operators(graph, ours.trace(batch, threads=threads), theirs.trace(batch, threads=threads))
    cases["loss"] = same_number(ours.loss(batch, threads=threads), theirs.loss(batch, threads=threads))
    cases["step"] = all(_steps(ours, theirs, batch, threads))
    return cases


def _steps(ours: Runner, theirs: Runner, batch: dict[str, Array], threads: int) -> Iterator[bool]:
    for _ in range(STEPS):
        yield same_number(ours.step(batch, threads=threads), theirs.step(batch, threads=threads))
        for name, array in theirs.state.items():
            yield bool((bits(array) == bits(ours.state[name])).all())


def _operators(graph: Graph, ours: list[Array], theirs: list[Array]) -> Cases:
    """False for the operator of each node that differs although its operands agree."""
    agrees = [bool((_words(a) == _words(b)).all()) for a, b in zip(ours, theirs, strict=True)]
    cases = dict.fromkeys((node.op for node in graph.nodes), True)
    for at, node in enumerate(graph.nodes):
        if not agrees[at] and all(agrees[operand.node] for operand in node.operands):
            cases[node.op] = False
    return cases


def _words(array: Array) -> Array:
    """The words as they are: a trace has canonical NaNs."""
    return array.reshape(-1).view(np.uint32)


def bits(array: Array) -> Array:
    """The words as they are committed: every NaN is 0x7fc00000."""
    return _words(canonical(array))


def same_number(a: float, b: float) -> bool:
    return np.float32(a).tobytes() == np.float32(b).tobytes() or (a != a and b != b)


def training(path: Path) -> Sample:
    """A program that trains, from a file, with weights and tokens of this module's own."""
    graph, rng = encoding.decode(path.read_bytes()), np.random.default_rng(12)
    state: dict[str, Array] = {}
    for entry in graph.state:
        node = graph.nodes[entry.before]
        array = np.zeros(node.shape, np.float32 if node.dtype == F32 else np.int32)
        if entry.kind == PARAMETER and node.dtype == F32:
            fan_in = node.shape[-1] if len(node.shape) > 1 else 1
            array[...] = rng.standard_normal(node.shape) / np.sqrt(fan_in)
        state[entry.name] = array
    batch = {name: rng.integers(0, TOKENS, graph.nodes[at].shape).astype(np.int32) for name, at in graph.batch}
    return graph, state, batch
