"""Runs the program of a service on a question: the operator to answer it, and whoever checks the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from repops import commitments, encoding
from repops.backend import DTYPE, Runner
from repops.commitments import Array, tensor_root
from repops.fields import BadField
from repops.graph import OPTIMIZER, SEED, Graph
from repops.merkle import Tree
from zoo_compute.models.decoding_inputs import ASKED
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import COMPLETIONS, OUTPUTS, Service
from zoo_compute.training.rounds import batch_nodes

Tokens = tuple[tuple[int, ...], ...]
Said = Callable[[int, Array], None]  # the number of a step that is done, and its outputs (rows, ...)


@dataclass(frozen=True)
class Ending:
    """Where a run ended: roots, and the answer with what opens it. outputs: (steps, rows, ...) float32; path: of its leaf in `end`."""

    segments: bytes
    end: bytes
    outputs: Array
    path: tuple[bytes, ...]


class Execution:
    """A program of a service with the model's weights, ready to run. It has one state: one question at a time.

    run: a runner of the graph. Raises BadField where program or weights are not those of the service.
    """

    def __init__(
        self, service: Service, graph: Graph, weights: Mapping[str, Array], run: Runner, threads: int = 1
    ) -> None:
        self._run, self._threads = run, threads
        self.root = encoding.root(graph).hex()
        if self.root not in {program.root for program in service.programs}:
            raise BadField(f"programs: the file has the root {self.root}, which is none of the service's")
        self._roots = commitments.tensor_roots(weights, threads=threads)
        expected = {name: bytes.fromhex(root) for name, root in service.roots.items()}
        if self._roots != expected:
            raise BadField(f"weights: {_differing(self._roots, expected)} differ from the service's")
        self._batch = {name: np.zeros(node.shape, DTYPE[node.dtype]) for name, node in batch_nodes(graph).items()}
        self._fresh = [entry.name for entry in graph.state if entry.kind == OPTIMIZER]
        for name, array in weights.items():
            run.state[name][...] = array
        for name in self._fresh:
            run.state[name][...] = 0
        # Every question starts from these, but for the seed: a model's cache is large, and the first token waits for its root.
        self._fresh_roots = self._roots_of(self._fresh)

    def answer(self, question: Question, said: Said = lambda step, outputs: None) -> Ending:
        """Run it to its end. said: called after each step."""
        if question.program.root != self.root:
            raise ValueError("the question is of another program")
        state = self._run.state
        state[ASKED][...] = question.asked
        for name in self._fresh:
            state[name][...] = question.seed if name == SEED else 0
        unchanged = {**self._roots, ASKED: tensor_root(question.asked)}
        first = {**unchanged, **self._fresh_roots, **self._roots_of(name for name in self._fresh if name == SEED)}
        for step in range(question.steps):
            self._run.step(self._batch, threads=self._threads)
            said(step, state[OUTPUTS][step])
        last = {**unchanged, **self._roots_of(self._fresh)}
        end = commitments.state_root_of(last)
        segments = commitments.segment_root([(0, commitments.state_root_of(first)), (question.steps, end)])
        return Ending(segments, end, state[OUTPUTS].copy(), _path(last))

    def _roots_of(self, names: Iterable[str]) -> dict[str, bytes]:
        return commitments.tensor_roots({name: self._run.state[name] for name in names}, threads=self._threads)


def _differing(mine: Mapping[str, bytes], theirs: Mapping[str, bytes]) -> str:
    names = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def tokens_of(question: Question, outputs: Array) -> Tokens:
    """The new tokens of each text, up to the end-of-text token and without it. outputs: (steps, rows), of all steps that were done."""
    assert question.service.kind == COMPLETIONS
    out = []
    for row, prompt in enumerate(question.prompts):
        new = outputs[len(prompt) - 1 :, row][: question.new_tokens]
        tokens = [int(token) for token in new]
        end = question.service.end
        out.append(tuple(tokens[: tokens.index(end)] if end in tokens else tokens))
    return tuple(out)


def _path(roots: Mapping[str, bytes]) -> tuple[bytes, ...]:
    names = commitments.sorted_names(roots)
    return Tree(commitments.state_leaves(roots)).path(names.index(OUTPUTS))
