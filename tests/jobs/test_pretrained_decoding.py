"""Models of `transformers` decode as `model.generate` does, and those whose cache is another are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.jobs.test_decoding import NEW, PROMPTS, STEPS, VOCAB, run, texts_of
from zoo_compute.errors import UserError
from zoo_compute.huggingface.generation import decoding_of
from zoo_compute.models.decoding_inputs import inputs_of
from zoo_compute.models.generation import Generator

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}


def model(name: str, **changes: Any) -> Any:
    config = getattr(transformers, f"{name}Config")(**SIZES | changes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        head = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
        return getattr(transformers, f"{name}{head}")(config).eval()


NAMES = {
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32},
    "Llama": {},
    "Qwen2": {},
    "Mistral": {"sliding_window": 32},
    "GPTNeoX": {},
    "OPT": {"ffn_dim": 48, "word_embed_proj_dim": 32},
}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", NAMES)
def test_a_greedy_text__is_that_of_generate(name: str, attention: str) -> None:
    module = model(name, attn_implementation=attention, **NAMES[name])
    wanted = [_generated(module, prompt) for prompt in PROMPTS]
    decode, shape = decoding_of(module, STEPS)
    made = run(Generator(module, decode, shape, len(PROMPTS)).eval(), inputs_of(PROMPTS, STEPS))
    assert texts_of(made, PROMPTS) == wanted
    heads = 4 if name in ("GPT2", "GPTNeoX", "OPT") else 2
    assert shape.layers == ((heads, 8),) * 2


def _generated(module: Any, prompt: list[int]) -> list[int]:
    tokens = torch.tensor([prompt])
    mask = torch.ones_like(tokens)
    made = module.generate(tokens, attention_mask=mask, max_new_tokens=NEW, do_sample=False, eos_token_id=None)
    return made[0, len(prompt) :].tolist()


def test_attention_that_slides_below_the_text__is_refused() -> None:
    with pytest.raises(UserError, match="attention slides over 4 tokens"):
        decoding_of(model("Mistral", sliding_window=4), STEPS)


def test_more_positions_than_the_model_has__are_refused() -> None:
    with pytest.raises(UserError, match="take 33 tokens, the model has 32 positions"):
        decoding_of(model("Llama"), 33)


def test_a_model_of_another_state__is_refused() -> None:
    config = transformers.MambaConfig(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=1, state_size=4)
    with pytest.raises(UserError, match="MambaForCausalLM keeps no keys and values"):
        decoding_of(transformers.MambaForCausalLM(config).eval(), STEPS)
