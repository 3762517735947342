"""The decoding step of a causal model: token for token what the whole model gives on the whole text, whoever runs it.

Greedy texts are compared with torch's own arithmetic, so a tie between two logits within rounding could differ; the models' weights are
fixed, and the smallest lead of a chosen token is asserted to be far above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

import repops
from repops.commitments import Array
from repops.fields import BadField
from tests.support.generation_job import continued
from zoo_compute.models import gpt, llama
from zoo_compute.models.decoding_inputs import OWN, beginning, inputs_of
from zoo_compute.models.generation import CacheShape, CacheView, Generator, decoding_of
from zoo_compute.models.sampling import GREEDY, Sampling

VOCAB, CONTEXT, NEW = 61, 20, 8
PROMPTS = [[3, 9, 60, 1], [7], [50, 50, 2, 2, 2, 31]]
STEPS = max(map(len, PROMPTS)) + NEW - 1
LEAD = 5e-5  # between the likeliest token and the next, against rounding errors near 1e-6


def seeded(make: Any) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return make().eval()


MODELS = {
    "gpt": lambda: gpt.build(2, 2, 32, CONTEXT, VOCAB)[0],
    "gpt with a head of its own": lambda: gpt.build(1, 2, 16, CONTEXT, VOCAB, tied=False)[0],
    "llama": lambda: llama.build(2, 4, 32, 48, CONTEXT, vocab=VOCAB)[0],
    "llama with grouped queries": lambda: llama.build(2, 4, 32, 48, CONTEXT, kv_heads=2, vocab=VOCAB)[0],
}


def generator_of(module: torch.nn.Module, batch: int, sampling: Sampling = GREEDY, **options: Any) -> Generator:
    return Generator(module, *decoding_of(module, STEPS), batch, sampling, **options).eval()


def run(generator: Generator, inputs: Array, seed: int = 0) -> Array:
    """Outputs of all steps (steps, batch), by the kernels."""
    steps = len(inputs)
    program = repops.trace_map(generator, torch.from_numpy(inputs[0]).long(), steps, fresh=generator.fresh)
    runner = repops.backend.prepare(program.graph)
    for name, tensor in program.initial_state(generator, seed).items():
        runner.state[name][...] = tensor.numpy()
    for row in inputs:
        runner.step({"inputs": row})
    return runner.state["outputs"].copy()


def texts_of(outputs: Array, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    return [row[len(prompt) - 1 :][:NEW].astype(int).tolist() for prompt, row in zip(prompts, outputs.T, strict=True)]


@torch.no_grad()
def least_lead(module: torch.nn.Module, text: Sequence[int], prompt: int) -> float:
    best, second = module(torch.tensor([text]))[0, prompt - 1 : -1].topk(2).values.unbind(-1)
    return float((best - second).min())


@pytest.mark.parametrize("name", MODELS)
def test_a_greedy_text__is_what_the_whole_model_gives(name: str) -> None:
    module = seeded(MODELS[name])
    wanted = [continued(module, prompt, NEW) for prompt in PROMPTS]
    pairs = list(zip(PROMPTS, wanted, strict=True))
    assert min(least_lead(module, [*prompt, *text], len(prompt)) for prompt, text in pairs) > LEAD
    made = run(generator_of(module, len(PROMPTS)), inputs_of(PROMPTS, STEPS))
    assert texts_of(made, PROMPTS) == wanted
    assert len({tuple(text) for text in wanted}) == len(wanted), "texts that do not depend on their prompts"


def test_torch_itself__runs_the_step_with_the_same_tokens() -> None:
    generator = generator_of(seeded(MODELS["gpt"]), len(PROMPTS))
    inputs = inputs_of(PROMPTS, STEPS)
    with torch.no_grad():
        eager = [generator(torch.from_numpy(row).long()) for row in inputs]
    assert np.array_equal(run(generator, inputs), torch.stack(eager).numpy())


def test_a_text__does_not_depend_on_the_others_of_its_batch() -> None:
    module = seeded(MODELS["llama"])
    together = run(generator_of(module, len(PROMPTS)), inputs_of(PROMPTS, STEPS))
    for at, prompt in enumerate(PROMPTS):
        alone = run(generator_of(module, 1), inputs_of([prompt], STEPS))
        assert np.array_equal(alone[:, 0], together[:, at])


def test_a_new_text__begins_in_a_row_as_in_an_empty_one() -> None:
    generator = generator_of(seeded(MODELS["gpt"]), 1)
    second = inputs_of([[5, 6]], 6)
    alone = run(generator, second)
    after = run(generator, np.concatenate([inputs_of([[40, 41, 42]], 7), second]))
    assert np.array_equal(after[7:], alone)
    as_it_was = run(generator, np.concatenate([inputs_of([[40, 41, 42]], 7), np.abs(second)]))
    assert not np.array_equal(as_it_was[7:], alone), "a token that begins no text goes on with the old one"


def test_after_the_end_token__a_text_repeats_it_and_a_prompt_may_have_it() -> None:
    module = seeded(MODELS["gpt"])
    free = texts_of(run(generator_of(module, 1), inputs_of([PROMPTS[0]], STEPS)), [PROMPTS[0]])[0]
    end = free[3]
    at = free.index(end)
    made = texts_of(run(generator_of(module, 1, end=end), inputs_of([PROMPTS[0]], STEPS)), [PROMPTS[0]])[0]
    assert made == [*free[:at], *[end] * (NEW - at)]
    prompt = [2, 4, end]
    (after,) = continued(module, prompt, 1)
    assert after != end, "a test that a text which ends at once would pass"
    assert run(generator_of(module, 1, end=end), inputs_of([prompt], STEPS))[2, 0] == after


def test_draws__follow_the_odds_and_the_seed() -> None:
    """40 rows of 19 draws from logits that do not change: of a fair share p of 760 draws at most 5 standard deviations away."""

    class Fixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits = torch.nn.Parameter(torch.tensor([0.0, 1.0, -1.0, 2.0]))

        def decode(self, x_B: torch.Tensor, cache: CacheView) -> torch.Tensor:
            cache.keep(0)(*[x_B.float()[:, None, None, None]] * 2)
            return self.logits.expand(len(x_B), 4)

        cache_shape = CacheShape(((1, 1),), CONTEXT)

    generator = generator_of(Fixed(), 40, Sampling(0.7))
    inputs = inputs_of([[1]] * 40, 19)
    made = run(generator, inputs, seed=5)
    odds = torch.softmax(generator.logits.detach() / 0.7, 0).numpy()
    counts = np.bincount(made.astype(int).ravel(), minlength=4)
    assert (abs(counts - made.size * odds) < 5 * np.sqrt(made.size * odds * (1 - odds))).all(), (
        counts,
        made.size * odds,
    )
    assert np.array_equal(run(generator, inputs, seed=5), made)
    assert not np.array_equal(run(generator, inputs, seed=6), made)


def test_equal_logits__give_the_smallest_token() -> None:
    assert Sampling().next_of(torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])).tolist() == [1, 0]


def test_what_changes__is_no_part_of_the_checkpoint_and_weights_have_the_models_names() -> None:
    module = seeded(MODELS["gpt"])
    generator = generator_of(module, 2)
    program = repops.trace_map(generator, torch.zeros(2, dtype=torch.int64), 4, fresh=generator.fresh)
    kept = {entry.name for entry in program.graph.state if entry.kind != "optimizer"}
    assert kept == module.state_dict().keys()
    assert {f"generation.{kind}_{layer}" for kind in ("keys", "values") for layer in range(2)} < set(generator.fresh)


def test_a_model_without_a_decoding_step__is_refused() -> None:
    with pytest.raises(BadField, match="Linear has no decoding step"):
        decoding_of(torch.nn.Linear(2, 2), 4)


def test_a_step_that_leaves_a_layer_out__is_refused() -> None:
    module = seeded(MODELS["gpt"])
    decode, shape = decoding_of(module, STEPS)
    more = CacheShape((*shape.layers, (1, 1)), STEPS)
    with pytest.raises(ValueError, match="keeps keys and values in 2 of 3 layers"):
        Generator(module, decode, more, 1)(torch.tensor([beginning(1)]))


def test_inputs__are_the_prompt_and_then_the_rows_own() -> None:
    assert inputs_of([[5, 0], [7]], 3).tolist() == [[-7, -9], [0, OWN], [OWN, OWN]]
