"""The roots that an answer commits to."""

from __future__ import annotations

import numpy as np
import pytest

from repops import backend, commitments
from repops.graph import OPTIMIZER, SEED
from tests.support.served_model import served_model
from zoo_compute.models.decoding_inputs import ASKED
from zoo_compute.serving.execution import Execution


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answers_segments__begin_at_the_state_that_its_question_has__whatever_was_answered_before(
    temperature: float,
) -> None:
    served = served_model(temperature)
    run = backend.prepare(served.graph)
    execution = Execution(served.service, served.graph, served.weights, run)
    fresh = {entry.name for entry in served.graph.state if entry.kind == OPTIMIZER}
    assert (SEED in fresh) == bool(temperature)
    for nonce in (b"n", b"m"):
        question = served.question(nonce=nonce * 32)
        ending = execution.answer(question)
        zeros = {name: np.zeros_like(run.state[name]) for name in fresh}
        state = {**served.weights, **zeros, ASKED: question.asked}
        if temperature:
            state[SEED] = np.full_like(run.state[SEED], question.seed)
        pairs = [(0, commitments.state_root(state)), (question.steps, commitments.state_root(run.state))]
        assert ending.end == pairs[1][1]
        assert ending.segments == commitments.segment_root(pairs)
