"""The computation of a trial: the workload's steps under the trial's seed."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from node.admission.trial import LoadedWorkload, no_batch, trial_seed_word
from node.compute.programs import State
from node.disputes.computation import DisputedWord, Roots, Training
from zoo_compute.disputes.evidence import Data, Evidence


class Trial(Training):
    """From the workload's state, every batch zero. seed: the trial's."""

    def __init__(self, loaded: LoadedWorkload, seed: bytes, *, folder: Path | None = None) -> None:
        super().__init__(loaded.programs, loaded.start, folder=folder)
        self.seed = seed
        self._zeros = no_batch(loaded.programs.graph)

    def batch(self, step: int) -> State:
        return self._zeros

    def begin(self) -> None:
        self.programs.begin(self.checkpoint, trial_seed_word(self.seed))

    @cached_property
    def checkpoint_roots(self) -> Roots:
        """Of the workload's state, which has the optimiser's entries too."""
        self._at = None
        self.programs.begin(self.checkpoint)
        return self.programs.tensor_roots()

    def word_evidence(self, step: int, name: str, asked: DisputedWord) -> Evidence:
        """That the right one is zero needs no opening."""
        return Data(*asked)
