"""The other two computations of a round: a slot's update, and the aggregation of the updates. Each is one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from node.compute.programs import State, Tensors
from node.disputes.computation import Computation, DisputedWord, Roots, SlotRound
from node.disputes.previous_turn import SeatClaim
from repops.commitments import Array, tensor_roots
from repops.graph import STATE_ROLE, Graph
from zoo_compute.codec.pruning import PrunedTree
from zoo_compute.disputes import evidence
from zoo_compute.disputes.evidence import Evidence, PresentClaim, WholeTensor, Words, words_of
from zoo_compute.formats.manifest import Manifest
from zoo_compute.spec.frames import Result
from zoo_compute.spec.state import Claim
from zoo_compute.training.rounds import (
    PRESENT,
    aggregation_batch,
    aggregation_parts,
    aggregation_program,
    update_program,
)


class SingleStep(Computation):
    """A program that is run once."""

    def after(self, step: int) -> Roots:
        roots = self.trace(0)
        return {entry.name: roots[entry.after] for entry in self.graph.state}


class Update(SingleStep):
    """What a slot-round changed: its start minus its end."""

    def __init__(self, slot_round: SlotRound, *, folder: Path | None = None) -> None:
        super().__init__(
            update_program(slot_round.graph, slot_round.manifest.compression), slot_round.checkpoint, folder=folder
        )
        self.slot_round = slot_round

    def step_inputs(self, step: int) -> tuple[Tensors, State]:
        names = [entry.name for entry in self.graph.state]
        end = self.folder.kept("end")
        if end is None:
            state = self.slot_round.state(self.slot_round.manifest.inner_steps)
            end = {name: state[name].copy() for name in names}
            self.folder.keep("end", end)
        batch = {name: end[name] for name, _ in self.graph.batch}
        return {name: self.checkpoint[name] if name in batch else end[name] for name in names}, batch

    def source(self, role: int, name: str, step: int) -> Roots:
        """Private entries of the state are as the slot ended, as the batch is."""
        if role == STATE_ROLE and name in self.checkpoint:
            return self.checkpoint_roots
        return self.slot_round.after(self.slot_round.manifest.inner_steps - 1)

    def word_evidence(self, step: int, name: str, asked: DisputedWord) -> Evidence:
        raise AssertionError("all that an update is given are states")


class Aggregation(SingleStep):
    """The next checkpoint, from the present slots' updates.

    claim: the aggregation's; seated: the claims of the seats in its mask; trees: of the updates, where more is under their roots
    than `updates` has. Who answers for an aggregation needs none of these: they are for evidence. share: of one of several aggregators.
    """

    def __init__(
        self,
        manifest: Manifest,
        step: Graph,
        checkpoint: Tensors,
        updates: Mapping[int, Tensors],
        *,
        claim: Claim | None = None,
        seated: Sequence[SeatClaim] = (),
        trees: Mapping[int, PrunedTree] | None = None,
        share: int | None = None,
        folder: Path | None = None,
    ) -> None:
        super().__init__(aggregation_program(step, manifest.aggregation_spec, share=share), checkpoint, folder=folder)
        self.aggregation_spec, self.updates = manifest.aggregation_spec, updates
        self.tensor_parts = {part.batch_name: part for part in aggregation_parts(step, manifest.aggregation_spec)}
        self._trees = trees or {}
        self._claim, self._seated = claim, sorted(seated, key=lambda each: each.claim.seat)

    def step_inputs(self, step: int) -> tuple[Tensors, Mapping[str, Array]]:
        return self.checkpoint, _Stacked(self)

    def source(self, role: int, name: str, step: int) -> Roots:
        return self.checkpoint_roots if role == STATE_ROLE else {}

    def word_evidence(self, step: int, name: str, asked: DisputedWord) -> Evidence:
        """A present slot's word is its update's; that a slot is absent, and how many are present, all claims together show."""
        assert self._claim is not None, "evidence of an aggregation without its claim"
        every = tuple(PresentClaim.of(each.claim) for each in self._seated)
        if name != PRESENT:
            part = self.tensor_parts[name]
            slot, at = divmod(asked.element, part.of(self.checkpoint[part.name]).size)
            for seated in self._seated:
                if slot in seated.results:
                    words = self._word(slot, part.name, part.first + at)
                    present = (PresentClaim.of(seated.claim),)
                    return evidence.Update(*asked, self._claim, present, seated.results[slot], words)
        return evidence.Update(*asked, self._claim, every, Result(), Words())

    def _word(self, slot: int, name: str, at: int) -> Words:
        update = self.updates[slot]
        tree = self._trees.get(slot) or PrunedTree(tensor_roots(update), (), ())
        return words_of(WholeTensor.of(update[name]), at, *tree.path(name))


class _Stacked(Mapping[str, Array]):
    """The batch of an aggregation, each array made when it is looked up."""

    def __init__(self, of: Aggregation) -> None:
        self._of = of
        self._names = [name for name, _ in of.graph.batch]

    def __getitem__(self, name: str) -> Array:
        parts = [] if name == PRESENT else [self._of.tensor_parts[name]]
        return np.asarray(aggregation_batch(parts, self._of.aggregation_spec, self._of.updates)[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
