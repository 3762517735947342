"""Faults to inject, for tests and the demo's liar. Nothing else imports this.

`run_shard(..., tamper=flip_bit(...))` commits to a false update. A `Liar` computes a slot-round in which one number is false, and
can answer for it in a dispute as if it were right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from node.compute.programs import Programs, State
from node.compute.training import ShardResult, root_of
from node.disputes.computation import Computation, Roots, SlotRound, Training
from node.inputs.job_files import Inputs
from repops import commitments, streaming
from repops.commitments import Array, canonical

Tamper = Callable[[Inputs, ShardResult], ShardResult]


@dataclass
class FlipBit:
    """Flip one bit of one update and commit to the result; counts how often it fired."""

    round: int
    slot: int
    tensor: str
    element: int = 0
    bit: int = 0
    fired: int = field(default=0, init=False)

    def answered(
        self, manifest: Any, programs: Programs, checkpoint: Any, examples: Any, round: int, slot: int, **options: Any
    ) -> SlotRound:
        """What a dispute about any slot-round is answered with: the false one as if it were right."""
        made = self.slot_round if self._is_about(round, slot) else SlotRound
        return made(manifest, programs, checkpoint, examples, round, slot, **options)

    def __call__(self, inputs: Inputs, result: ShardResult) -> ShardResult:
        if (result.round, result.slot) != (self.round, self.slot):
            return result
        self.fired += 1
        values = result.update[self.tensor].copy()
        values.reshape(-1).view(np.uint32)[self.element] ^= np.uint32(1 << self.bit)
        return with_update(result, {**result.update, self.tensor: values})


def with_update(result: ShardResult, update: State) -> ShardResult:
    """The same result with another update, rooted as it is."""
    return replace(result, update=update, update_root=root_of(update))


def flip_bit(*, round: int, slot: int, tensor: str, element: int = 0, bit: int = 0) -> Tamper:
    return FlipBit(round, slot, tensor, element, bit)


class Lies(Computation):
    """A computation of which something is false, and what follows is computed from it.

    elements: (step, node) -> number of an element, of which one bit is false; states: steps after which the state is
    said to be another in one entry (-1: the state at step 0), though what follows is computed from the right one."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.elements: dict[tuple[int, int], int] = {}
        self.bit = 0
        self.states: dict[int, int] = {}
        self.part: int | None = None
        self._values: dict[int, list[tuple[int, Array]]] = {}

    def values(self, step: int, wanted: Any = None) -> Any:
        if all(step != at for at, _ in self.elements):
            return super().values(step, wanted)
        if step not in self._values:
            self._values[step] = self._made(step)
        return iter(self._values[step])

    def _made(self, step: int) -> list[tuple[int, Array]]:
        """The honest values; from each false one on, those that read it anew."""
        arrays = {at: np.array(value) for at, value in super().values(step)}
        for node in sorted(node for at, node in self.elements if at == step):
            words, place = arrays[node].reshape(-1).view(np.uint32), self.elements[step, node]
            words[place] = 1 if np.isnan(arrays[node].reshape(-1)[place]) else words[place] ^ 1 << self.bit
            reached = {node}
            for at, made in enumerate(self.graph.nodes):
                if any(operand.node in reached for operand in made.operands):
                    reached.add(at)
            later = sorted(reached - {node})
            if later:
                arrays |= zip(later, streaming.compute(self.graph, later, arrays), strict=True)
        return sorted(arrays.items())

    def after(self, step: int) -> Roots:
        roots = super().after(step)  # type: ignore[safe-super]
        if step in self.states:
            name = self.graph.state[self.states[step]].name
            roots = {**roots, name: sha256(b"another" + roots[name]).digest()}
        return roots

    def parts(self, step: int, node: int, element: int) -> Array:
        """The last is what was committed; with `part`, that one and what follows is false too."""
        words = super().parts(step, node, element)
        if self.part is not None:
            words[self.part : -1] ^= 1
        words[-1] = canonical(self.tensors(step, node)[node]).reshape(-1).view(np.int32)[element]
        return words


class LyingTraining(Lies, Training):
    """begun: an entry that it really begins with something else in."""

    begun: str | None = None

    def begin(self) -> None:
        super().begin()  # type: ignore[safe-super]
        if self.begun is not None:
            changed = {name: np.array(value) for name, value in self.programs.step.state.items()}
            changed[self.begun].reshape(-1).view(np.uint32)[-1:] ^= 1
            self.programs.load(changed)

    def advance(self, step: int) -> None:
        if all(step != at for at, _ in self.elements):
            super().advance(step)
            return
        self._at = step
        values = dict(self.values(step))
        self.programs.load({entry.name: values[entry.after] for entry in self.graph.state})


class Liar(LyingTraining, SlotRound):
    """A slot-round that is another."""


@dataclass(frozen=True)
class Lie:
    """One bit of one element of one step, in the node that is in the middle of those of `op`, or that gives the state's `entry`."""

    round: int
    slot: int
    step: int
    op: str = "dot"
    element: int = 3
    bit: int = 20
    entry: str = ""

    def _is_about(self, round: int, slot: int) -> bool:
        return (round, slot) == (self.round, self.slot)

    def slot_round(self, *args: Any, **options: Any) -> Liar:
        """Made as a SlotRound."""
        liar = Liar(*args, **options)
        nodes = [at for at, node in enumerate(liar.graph.nodes) if node.op == self.op]
        if self.entry:
            nodes = [each.after for each in liar.graph.state if each.name == self.entry]
        liar.elements[self.step, nodes[len(nodes) // 2]] = self.element
        liar.bit = self.bit
        return liar

    def answered(
        self, manifest: Any, programs: Programs, checkpoint: Any, examples: Any, round: int, slot: int, **options: Any
    ) -> SlotRound:
        """What a dispute about any slot-round is answered with: the false one as if it were right."""
        made = self.slot_round if self._is_about(round, slot) else SlotRound
        return made(manifest, programs, checkpoint, examples, round, slot, **options)

    def __call__(self, inputs: Inputs, result: ShardResult) -> ShardResult:
        """What the liar commits to: as the honest result where the lie is about another one."""
        if not self._is_about(result.round, result.slot):
            return result
        programs = Programs(inputs.programs.graph, inputs.programs.device)
        place = (result.round, result.slot)
        liar = self.slot_round(inputs.manifest, programs, inputs.checkpoint, inputs.examples, *place)
        steps = inputs.manifest.segments()
        segments = list(zip(steps, liar.state_roots(steps), strict=True))
        update = programs.update(
            inputs.manifest.compression, inputs.checkpoint, liar.state(inputs.manifest.inner_steps)
        )
        return replace(
            result,
            update=update,
            segments=segments,
            segment_root=commitments.segment_root(segments),
            end_root=segments[-1][1],
            update_root=root_of(update),
        )
