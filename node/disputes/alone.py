"""Computations of no job: steps of one program from a start of its own, on batches of zeros."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from node.admission.trial import LoadedWorkload, no_batch, trial_seed_word
from node.compute.programs import Programs, State, Tensors
from node.disputes.computation import DisputedWord, Roots, Training
from zoo_compute.disputes.evidence import Data, Evidence
from zoo_compute.models.decoding_inputs import ASKED
from zoo_compute.serving.questions import Question


class Alone(Training):
    """seed: what the state's `seed` is."""

    def __init__(self, programs: Programs, start: Tensors, seed: int, *, folder: Path | None = None) -> None:
        super().__init__(programs, start, folder=folder)
        self.seed = seed
        self._zeros = no_batch(programs.graph)

    def batch(self, step: int) -> State:
        return self._zeros

    def begin(self) -> None:
        self.programs.begin(self.checkpoint, self.seed)

    def word_evidence(self, step: int, name: str, asked: DisputedWord) -> Evidence:
        """That the right one is zero needs no opening."""
        return Data(*asked)


class Trial(Alone):
    """The workload's steps. seed: the trial's."""

    def __init__(self, loaded: LoadedWorkload, seed: bytes, *, folder: Path | None = None) -> None:
        super().__init__(loaded.programs, loaded.start, trial_seed_word(seed), folder=folder)

    @cached_property
    def checkpoint_roots(self) -> Roots:
        """Of the workload's state, which has the optimiser's entries too."""
        self._at = None
        self.programs.begin(self.checkpoint)
        return self.programs.tensor_roots()


class Answer(Alone):
    """An answer to a question. weights: the model's."""

    def __init__(self, programs: Programs, weights: Tensors, question: Question, *, folder: Path | None = None) -> None:
        super().__init__(programs, {**weights, ASKED: question.asked}, question.seed, folder=folder)
