"""A small job that was computed: programs, states, traces, and the frames and positions that explorations of them end at."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
from eth_utils.crypto import keccak

from repops import encoding, reference
from repops.builder import Builder, View
from repops.commitments import Array, sorted_names, state_leaf, state_leaves, state_root, tensor_root, trace_leaf
from repops.graph import BATCH_ROLE, BUFFER, F32, I32, OPTIMIZER, PARAMETER, STATE_ROLE, Graph
from repops.merkle import merkle_proof, merkle_root
from repops.parts import Part, parts
from zoo_compute.disputes import evidence
from zoo_compute.disputes.evidence import PARTS_OPERAND, WORDS_A_LEAF, Tensor, WholeTensor, Words, words_of
from zoo_compute.spec.frames import Frame, Hashes, Phase, Position

State = Mapping[str, Array]
HERE = b"\x11" * 32  # of a subtree that nobody asks about


@lru_cache(maxsize=1)
def step_program() -> Graph:
    """Four examples of five tokens; the state's tensors have one leaf, two, or one word."""
    b = Builder()
    fixed, m = b.input(F32, (3,), STATE_ROLE, 0), b.input(F32, (150,), STATE_ROLE, 1)
    seed, w = b.input(I32, (), STATE_ROLE, 2), b.input(F32, (150,), STATE_ROLE, 3)
    inputs, targets = (b.input(I32, (4, 5), BATCH_ROLE, at) for at in range(2))
    table = b.constant(np.linspace(-2, 2, 150, dtype=np.float32))
    rows = [View(each.node, F32, (4, 5, 150), 0, (0, 0, 1)) for each in (w, table)]
    error = b.map("sub", b.take(rows[0], inputs), b.take(rows[1], targets))
    noise = b.map("to_float", b.map("random", b.iota(150), seed, 7))
    gradient = b.map("fma", table, b.sum(error, [0, 1]), b.map("mul", noise, 1e-9))
    long = [View(each.node, F32, (1, 4, 150), 0, (0, 0, 1)) for each in (w, gradient)]
    scale = b.reduce("sum_sequential", b.map("mul", *long), [0, 1, 2])
    product = b.matmul(b.reshape(b.copy(long[0]), (1, 600)), b.reshape(b.copy(long[1]), (600, 1)))
    m1 = b.map("fma", m, 0.9, b.map("mul", gradient, b.map("add", scale, b.reshape(product, ()))))
    state = [("b", BUFFER, fixed, fixed), ("m", OPTIMIZER, m, m1), ("seed", OPTIMIZER, seed, seed)]
    loss = b.sum(b.map("mul", error, error), [0, 1])
    return b.finish(
        [*state, ("w", PARAMETER, w, b.map("sub", w, m1))], [("inputs", inputs), ("targets", targets)], loss
    )


@dataclass(frozen=True)
class TracedStep:
    """One step of a program, computed. altered: nodes whose tensors are taken to be others; what follows is as it was."""

    graph: Graph
    state: State
    batch: State
    altered: Mapping[int, Array] | None = None

    @cached_property
    def values(self) -> list[Array]:
        runner = reference.prepare(self.graph)
        for name, array in self.state.items():
            runner.state[name][...] = array
        return [(self.altered or {}).get(at, array) for at, array in enumerate(runner.trace(self.batch))]

    @cached_property
    def tensors(self) -> list[WholeTensor]:
        return [WholeTensor.of(array) for array in self.values]

    @cached_property
    def leaves(self) -> list[bytes]:
        return [trace_leaf(at, tensor_root(array)) for at, array in enumerate(self.values)]

    def path(self, node: int) -> Hashes:
        """Of a node's leaf under the trace's root."""
        return tuple(merkle_proof(self.leaves, node))

    def node(self, op: str, number: int = 0) -> int:
        """The number of the `number`-th node of an operator."""
        return [at for at, node in enumerate(self.graph.nodes) if node.op == op][number]

    def descriptor(self, node: int) -> bytes:
        return encoding.descriptor(self.graph.nodes[node])

    def frame(self, node: int = 0, **changes: Any) -> Frame:
        """Of a game that went down to this node."""
        array = self.values[node]
        made_frame = Frame(
            job=1,
            program_root=encoding.root(self.graph),
            before=state_root(self.state),
            trace_root=merkle_root(self.leaves),
            node=node,
            descriptor=keccak(self.descriptor(node)),
            tensor_root=tensor_root(array),
            elements_root=self.tensors[node].node(self.tensors[node].height, 0),
        )
        return replace(made_frame, **changes)

    def leaf(self, node: int, element: int) -> bytes:
        """The leaf that holds an element."""
        return self.tensors[node].leaf(element // WORDS_A_LEAF)

    # --- parts

    def parts(self, node: int, element: int) -> list[Part]:
        return list(parts(self.graph.nodes[node], element, lambda of, at: self.word(node, of, at)))

    def word(self, node: int, operand: int, at: int) -> int:
        source = self.graph.nodes[node].operands[operand].node
        return int.from_bytes(self.tensors[source].data[4 * at : 4 * at + 4], "little")

    def results(self, node: int, element: int) -> WholeTensor:
        """Of an element's parts, as they are committed."""
        results: list[int] = []
        for part in self.parts(node, element):
            words = [results[at] for at in part.carried] + [self.word(node, *read) for read in part.reads]
            results.append(part.recipe.run(*words))
        is_float = self.graph.nodes[node].dtype == F32
        results[-1] = reference.canonical(results[-1]) if is_float else results[-1]
        return WholeTensor(b"", struct.pack(f"<{len(results)}I", *results))

    def part(
        self, node: int, element: int, number: int | None = None, lie: int = 0
    ) -> tuple[Frame, Position, evidence.Part]:
        """Where a game over a part ends (over the element, without `number`), `lie` added to the disputed word, bit by bit."""
        graph_node, every = self.graph.nodes[node], self.parts(node, element)
        trees: dict[int, tuple[evidence.TensorTree, Hashes]] = {
            at: (self.tensors[operand.node], self.path(operand.node)) for at, operand in enumerate(graph_node.operands)
        }
        frame, tree, at = self.frame(node), self.tensors[node], element
        if number is not None:
            tree, at = self.results(node, element), number
            trees[PARTS_OPERAND] = (tree, ())
            frame = replace(frame, element=element, parts=len(every), parts_root=tree.node(tree.height, 0))
        chosen = every[number or 0]
        leaf = changed(tree.leaf(at // WORDS_A_LEAF), at, lie)
        phase = Phase.ELEMENTS if number is None else Phase.PARTS
        return (
            frame,
            leaf_position(leaf, at, phase),
            evidence.part_of(self.descriptor(node), at, leaf, chosen.carried, chosen.reads, trees),
        )


def changed(leaf: bytes, element: int, lie: int) -> bytes:
    """A leaf with bits of one of its words flipped."""
    at = 4 * (element % WORDS_A_LEAF)
    word = int.from_bytes(leaf[at : at + 4], "little") ^ lie
    return leaf[:at] + word.to_bytes(4, "little") + leaf[at + 4 :]


def leaf_position(leaf: bytes, element: int, phase: Phase = Phase.ELEMENTS) -> Position:
    """At a leaf whose bytes were shown."""
    node = sha256(b"\0" + leaf).digest()
    return Position(phase, 0, element // WORDS_A_LEAF, node, node)


def at_entry(state: State, names: list[str], index: int) -> Position:
    """At the leaf of a state's entry."""
    name = names[index]
    return Position(Phase.STATE, 0, index, state_leaf(name, tensor_root(state[name])), bytes(32))


def tensor_in(state: State, name: str) -> Tensor:
    """A tensor opened in its state."""
    roots = {each: tensor_root(array) for each, array in state.items()}
    index = sorted_names(roots).index(name)
    return Tensor(roots[name], index, tuple(merkle_proof(state_leaves(roots), index)))


def words_in(state: State, name: str, at: int) -> Words:
    """The leaf that holds a word of a tensor of a state."""
    tensor = tensor_in(state, name)
    return words_of(WholeTensor.of(state[name]), at, tensor.index, tensor.path)
