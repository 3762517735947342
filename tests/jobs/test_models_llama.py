"""The built-in Llama: transformers' own with the same tensors, traced like any module, described by a section without torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from repops import backend
from tests.jobs.model_training import assert_training_follows_torch
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.models import LlamaSection, llama
from zoo_compute.training.rounds import begin

SIZES = {"layers": 2, "heads": 4, "kv_heads": 2, "width": 32, "hidden": 48, "context": 16, "vocab": 300}
TRAINING = {"learning_rate": 0.01, "batch_size": 4, "inner_steps": 6, "rounds": 1, "slots": 1, "warmup_steps": 3}


def job_of(model: dict[str, Any] | None = None, **training: Any) -> ComputeJob:
    return ComputeJob({"architecture": "llama"} | SIZES | (model or {}), {}, TRAINING | training, "10")


def tokens_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 300, (4, 17), dtype=np.int32)


def made(seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    return llama.build(**SIZES | options)[0]


@pytest.mark.parametrize("changes", [{}, {"tied": True}, {"kv_heads": None}, {"kv_heads": 1}])
def test_parameters__are_those_the_section_counts(changes: dict[str, Any]) -> None:
    section = LlamaSection(**SIZES | changes)
    assert section.parameters == sum(p.numel() for p in made(**changes).parameters())
    job = job_of(changes)
    assert job.profile.parameters == section.parameters == job.model.parameters
    assert job.profile.state_bytes == 4 * (3 * section.parameters + 1), (
        "moments of AdamW, and the step's number; no table"
    )


@pytest.mark.parametrize("changes", [{}, {"tied": True}, {"kv_heads": 4}])
def test_logits__are_those_of_transformers__with_the_same_tensors(changes: dict[str, Any]) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    module = made(**changes)
    sizes = SIZES | changes
    config = LlamaConfig(
        vocab_size=sizes["vocab"],
        hidden_size=sizes["width"],
        intermediate_size=sizes["hidden"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv_heads"],
        max_position_embeddings=sizes["context"],
        rms_norm_eps=1e-5,
        tie_word_embeddings=sizes.get("tied", False),
        attn_implementation="eager",
    )
    theirs = LlamaForCausalLM(config)
    missing, unexpected = theirs.load_state_dict(module.state_dict(), strict=False)
    assert not unexpected
    assert missing in ([], ["lm_head.weight"])
    theirs.tie_weights()
    tokens = torch.from_numpy(tokens_of(0)).long()[:, :16]
    torch.testing.assert_close(module(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"hiden": 2}, "unknown key 'hiden'; did you mean 'hidden'"),
        ({"width": 36}, "36 is no multiple of twice heads = 4"),
        ({"kv_heads": 3}, "3 do not divide heads = 4"),
        ({"width": 65536, "layers": 512}, "parameters exceed"),
        ({"theta": 0.5}, "model.theta: expected 1 to"),
        ({"norm_epsilon": 0.0}, "model.norm_epsilon: expected"),
        ({"kv_heads": 0}, "model.kv_heads: expected 1 to"),
    ],
)
def test_section__mistake__is_refused_with_what_was_expected(model: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError) as refusal:
        job_of(model)
    assert message in str(refusal.value)


def test_module__refuses_sizes_that_do_not_fit() -> None:
    for wrong, message in (
        ({"width": 36}, "36 is no"),
        ({"kv_heads": 3}, "3 do not"),
        ({"hidden": 0}, "hidden: expec"),
    ):
        with pytest.raises(ValueError, match=message):
            llama.build(**SIZES | wrong)


@pytest.mark.parametrize(
    "rule", [{"weight_decay": 0.1}, {"optimizer": "sgd", "clip_norm": 0.5}], ids=["adamw", "sgd, clipped"]
)
def test_training__follows_torchs_own(rule: dict[str, Any]) -> None:
    options = {name: value for name, value in rule.items() if name != "clip_norm"}
    built = llama.build(**SIZES, learning_rate=0.01, **options)
    assert_training_follows_torch(job_of(**rule), built, tokens_of, rule)


@pytest.mark.parametrize("name", ["native", "numba"])
def test_a_step__of_every_backend__has_the_references_bits(name: str) -> None:
    try:
        backend.backend(name).check()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{name}: {error}")
    tiny = {"layers": 1, "width": 8, "heads": 2, "kv_heads": 1, "hidden": 12, "context": 4, "vocab": 11}
    job = ComputeJob({"architecture": "llama"} | tiny, {}, TRAINING | {"batch_size": 2}, "10")
    assert job.traced.initial is not None
    tokens = np.random.default_rng(3).integers(0, 11, (2, 5), dtype=np.int32)
    batch = {"inputs": tokens[:, :-1].copy(), "targets": tokens[:, 1:].copy()}
    states = []
    for runner in (backend.prepare(job.traced.graph, name="reference"), backend.prepare(job.traced.graph, name=name)):
        begin(job.traced.graph, runner.state, job.traced.initial, 0)
        states.append(({}, runner.step(batch), runner.step(batch)))
        states[-1][0].update({key: array.copy() for key, array in runner.state.items()})
    assert states[0][1:] == states[1][1:]
    for key, array in states[0][0].items():
        assert array.tobytes() == states[1][0][key].tobytes(), key


def test_module__sees_no_future() -> None:
    module = made()
    tokens = torch.from_numpy(tokens_of(0)).long()[:, :16]
    changed = tokens.clone()
    changed[:, 9:] = (changed[:, 9:] + 1) % 256
    one, other = module(tokens), module(changed)
    assert torch.equal(one[:, :9], other[:, :9])
    assert not torch.equal(one[:, 9:], other[:, 9:])


def test_generate__gives_bytes_though_the_vocabulary_is_larger() -> None:
    module = made()
    assert module.generate(b"def ", 30, 1) == module.generate(b"def ", 30, 1)
    assert len(module.generate(b"def ", 30, 1)) == 30


def test_initial_weights__of_a_free_head_start_at_unit_scale() -> None:
    free, tied = made(), made(tied=True)
    assert 0.9 < free.model.embed_tokens.weight.std() < 1.1
    assert tied.model.embed_tokens.weight.std() < 0.03
    assert torch.equal(free.model.norm.weight, torch.ones(32))
    layer = free.model.layers[0].mlp
    assert layer.down_proj.weight.std() < 0.6 * layer.gate_proj.weight.std()
