"""Evidence 6: the words that a step trains on are the job's data's, at the places that the data rule says."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from node.disputes.computation import DisputedWord, SlotRound
from repops.builder import Builder
from repops.commitments import state_root, tensor_roots
from repops.graph import BATCH_ROLE, F32, I32, PARAMETER, STATE_ROLE, Graph
from tests.referee.evidence_contracts import SLOTS, deploy, evidence_result, flips
from tests.referee.traced_step import HERE, TracedStep, changed, leaf_position, words_in
from zoo_compute.disputes.evidence import Data, Words, encode, entry_of
from zoo_compute.spec.frames import Frame, Kind, Phase, Position
from zoo_compute.spec.trials import TRIALS
from zoo_compute.training.examples import batch_of

STEPS, ROWS, EXAMPLES = 7, 4, 29
ROUND, SLOT, STEP = 2, 3, 5
RNG = np.random.default_rng(3)
TOKENS = {"tokens": RNG.integers(0, 99, (EXAMPLES, 71)).astype(np.int32)}
ARRAYS = {
    "inputs": RNG.standard_normal((EXAMPLES, 3, 50)).astype(np.float32),
    "targets": RNG.integers(0, 9, (EXAMPLES,)).astype(np.int32),
}
ARRAYS["inputs"][17] = np.nan


@lru_cache(maxsize=4)
def program(dtype: str, shape: tuple[int, ...], targets: tuple[int, ...], other: str = "targets") -> Graph:
    b = Builder()
    w = b.input(F32, (), STATE_ROLE, 0)
    batch = [("inputs", b.input(dtype, shape, BATCH_ROLE, 0)), (other, b.input(I32, targets, BATCH_ROLE, 1))]
    return b.finish([("w", PARAMETER, w, b.map("mul", w, 2.0))], batch, w)


def trained(data: dict, accumulate: int) -> TracedStep:
    """The step of ROUND, SLOT and STEP on its examples, by the rule that trainers follow."""
    first = ((ROUND * SLOTS + SLOT) * STEPS + STEP) * ROWS
    batch = batch_of(data, (first + np.arange(ROWS)) % EXAMPLES, accumulate)
    dtype = F32 if batch["inputs"].dtype == np.float32 else I32
    graph = program(dtype, batch["inputs"].shape, batch["targets"].shape)
    return TracedStep(graph, {"w": np.float32(1)}, batch)


def asked(
    step: TracedStep,
    data: dict,
    name: str,
    element: int,
    lie: int = 0,
    place: tuple[int, int, int] = (ROUND, SLOT, STEP),
) -> tuple[Frame, Position, Data]:
    """What a game about a word of the batch ends with. The place of the word in the data is worked out anew."""
    number = [each for each, _ in step.graph.batch].index(name)
    node, entry = step.graph.batch[number][1], entry_of(step.graph, len(step.graph.state) + number)
    round_, slot, at = place
    frame = step.frame(node, round=round_, slot=slot, step=at, inner_steps=STEPS, rows=ROWS)
    leaf = changed(step.leaf(node, element), element, lie)
    width = step.values[node].size // ROWS
    example = (((round_ * SLOTS + slot) * STEPS + at) * ROWS + element // width) % EXAMPLES
    is_tokens = "tokens" in data and name != "rate"
    if is_tokens:
        column = element % width + (name == "targets")
        words = words_in(data, "tokens", example * 71 + column)
    else:
        words = words_in(data, name, example * width + element % width)
    return (
        frame,
        leaf_position(leaf, element),
        Data(step.descriptor(node), entry, leaf, element, is_tokens, words),
    )


@pytest.fixture(scope="module", params=["tokens", "arrays"])
def job(request):
    data = TOKENS if request.param == "tokens" else ARRAYS
    return deploy(state_root(data)), data


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("name", ["inputs", "targets"])
def test_a_word_of_a_batch__is_the_datas__or_the_claim_is_false(job, accumulate: int, name: str):
    judges, data = job
    step = trained(data, accumulate)
    size = step.batch[name].size
    for element in {0, size - 1, *np.random.default_rng(1).integers(0, size, 6).tolist()}:
        assert evidence_result(judges, *asked(step, data, name, element)) == "evidence: not false", element
        assert evidence_result(judges, *asked(step, data, name, element, lie=1 << 22)) == "", element


def test_any_bit_of_honest_evidence__changed__convicts_nobody(job):
    judges, data = job
    step = trained(data, 1)
    for name in ("inputs", "targets"):
        frame, position, evidence = asked(step, data, name, 2)
        for bent in flips(encode(evidence), 60):
            assert evidence_result(judges, frame, position, bent, kind=6) != ""


@pytest.mark.parametrize(
    "place", [(ROUND + 1, SLOT, STEP), (ROUND, SLOT - 1, STEP), (ROUND, SLOT, STEP - 1), (0, 0, 0)]
)
def test_what_another_step__slot_or_round_trains_on__is_another_word(job, place: tuple[int, int, int]):
    """The words of a step are false where the game is about another one."""
    judges, data = job
    step = trained(data, 1)
    element = step.batch["inputs"].size - 1
    assert evidence_result(judges, *asked(step, data, "inputs", element, place=place)) == ""


def test_another_word_of_the_data__is_refused(job):
    judges, data = job
    step = trained(data, 1)
    frame, position, evidence = asked(step, data, "inputs", 0)
    name = "tokens" if data is TOKENS else "inputs"
    far = words_in(data, name, 128 * 9 + 5)
    assert evidence_result(judges, frame, position, replace(evidence, words=far)) == "evidence: state does not match"
    other = words_in({**data, name: data[name] + 1}, name, 0)
    assert evidence_result(judges, frame, position, replace(evidence, words=other)) == "evidence: state does not match"
    cut = replace(evidence.words, head=b"\0\0")
    assert evidence_result(judges, frame, position, replace(evidence, words=cut)) != ""
    assert evidence_result(judges, frame, position, replace(evidence, element=1)) != ""
    assert evidence_result(judges, frame, position, replace(evidence, element=step.batch["inputs"].size)) != ""
    assert (
        evidence_result(judges, frame, position, replace(evidence, is_tokens=not evidence.is_tokens))
        == "evidence: other data"
    )
    assert (
        evidence_result(judges, frame, position, replace(evidence, entry=entry_of(step.graph, 0)))
        == "evidence: other entry"
    )


def test_data_whose_rows_are_of_another_form__is_refused():
    """A program that takes other shapes or words than the data has."""
    step = trained(TOKENS, 1)
    for data, words in (
        ({"tokens": TOKENS["tokens"][:, :70]}, "wider"),
        ({"tokens": TOKENS["tokens"].astype(np.float32)}, "of another dtype"),
    ):
        judges = deploy(state_root(data))
        frame, position, evidence = asked(step, TOKENS, "inputs", 0, lie=1)
        evidence = replace(evidence, words=words_in(data, "tokens", 0))
        assert evidence_result(judges, frame, position, evidence) == "evidence: other data", words


def test_a_batch_of_tokens_by_another_name__is_refused():
    """What is neither a row's inputs nor its targets has no place in the tokens."""
    step = trained(TOKENS, 1)
    graph = program(I32, step.batch["inputs"].shape, step.batch["targets"].shape, "weights")
    named = TracedStep(graph, step.state, {"inputs": step.batch["inputs"], "weights": step.batch["targets"]})
    judges = deploy(state_root(TOKENS))
    assert evidence_result(judges, *asked(named, TOKENS, "weights", 0, lie=1)) == "evidence: other data"


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_rate_of_a_scheduled_step__is_the_datas__or_the_claim_is_false(accumulate: int):
    """An array beside the tokens, with one number for each example."""
    data = {**TOKENS, "rate": np.linspace(0, 1, EXAMPLES, dtype=np.float32)}
    first = ((ROUND * SLOTS + SLOT) * STEPS + STEP) * ROWS
    batch = batch_of(data, (first + np.arange(ROWS)) % EXAMPLES, accumulate)
    b = Builder()
    w = b.input(F32, (), STATE_ROLE, 0)
    inputs = [(name, b.input(F32 if name == "rate" else I32, array.shape, BATCH_ROLE, at)) for at, (name, array) in enumerate(batch.items())]  # fmt: skip
    step = TracedStep(b.finish([("w", PARAMETER, w, b.map("mul", w, 2.0))], inputs, w), {"w": np.float32(1)}, batch)
    judges = deploy(state_root(data))
    for name in ("rate", "inputs", "targets"):
        for element in (0, step.batch[name].size - 1):
            assert evidence_result(judges, *asked(step, data, name, element)) == "evidence: not false"
            assert evidence_result(judges, *asked(step, data, name, element, lie=1)) == ""
    honest = asked(step, data, "rate", 0)
    of_trainer: Any = SimpleNamespace(
        manifest=SimpleNamespace(examples_for=lambda *_: (first + np.arange(ROWS)) % EXAMPLES),
        round=ROUND, slot=SLOT, graph=step.graph, examples=data, _data_roots=tensor_roots(data),
    )  # fmt: skip
    for name in ("rate", "inputs", "targets"):
        evidence = asked(step, data, name, 1)[2]
        word = DisputedWord(evidence.descriptor, evidence.entry, evidence.leaf, 1)
        assert SlotRound.word_evidence(of_trainer, STEP, name, word) == evidence
    assert evidence_result(judges, *honest[:2], replace(honest[2], is_tokens=True)) == "evidence: other data"


def test_a_trials_batches__are_zeros(job):
    judges, data = job
    honest = trained({name: np.zeros_like(array) for name, array in data.items()}, 1)
    for name in ("inputs", "targets"):
        for lie, expected in ((0, "evidence: not false"), (1, ""), (1 << 31, "")):
            frame, position, evidence = asked(honest, data, name, 2, lie=lie)
            of_trial, unopened = replace(frame, job=TRIALS, rows=0), replace(evidence, is_tokens=False, words=Words())
            assert evidence_result(judges, of_trial, position, unopened) == expected
            assert evidence_result(judges, frame, position, unopened) != ""
    assert evidence_result(judges, of_trial, position, replace(unopened, element=200)) != ""
    assert (
        evidence_result(judges, of_trial, replace(position, open_leaf=HERE), unopened) == "evidence: bytes do not match"
    )


def test_data_is_asked_for__of_training__at_a_shown_leaf_of_a_batch(job):
    judges, data = job
    step = trained(data, 1)
    frame, position, evidence = asked(step, data, "inputs", 0, lie=1)
    here = "evidence: not here"
    assert evidence_result(judges, replace(frame, kind=Kind.AGGREGATION), position, evidence) == here
    assert evidence_result(judges, frame, replace(position, open_leaf=bytes(32)), evidence) == here
    assert evidence_result(judges, frame, replace(position, phase=Phase.PARTS), evidence) == here
    assert evidence_result(judges, frame, replace(position, open_leaf=HERE), evidence) == "evidence: bytes do not match"
    assert evidence_result(judges, frame, replace(position, index=1), evidence) == "evidence: no such element"
    state = step.graph.state[0].before
    of_state = replace(evidence, descriptor=step.descriptor(state), entry=entry_of(step.graph, 0), words=Words())
    assert evidence_result(judges, step.frame(state), position, of_state) == here
