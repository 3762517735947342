"""The built-in GPT: an ordinary module whose training follows torch's, described by a section that is checked without torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.jobs.model_training import assert_training_follows_torch
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.models import GPTSection, gpt

SIZES = {"layers": 2, "heads": 2, "width": 32, "context": 16}
TRAINING = {"learning_rate": 0.01, "batch_size": 4, "inner_steps": 6, "rounds": 1, "slots": 1, "warmup_steps": 3}


def job_of(model: dict[str, Any] | None = None, **training: Any) -> ComputeJob:
    return ComputeJob(SIZES | (model or {}), {}, TRAINING | training, "10")


def tokens_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (4, 17), dtype=np.int32)


def made(seed: int = 0, **options: Any) -> gpt.GPT:
    torch.manual_seed(seed)
    return gpt.build(**SIZES, **options)[0]


@pytest.mark.parametrize("tied", [True, False])
def test_parameters__are_those_the_section_counts(tied: bool) -> None:
    module = made(tied=tied)
    assert GPTSection(**SIZES, tied=tied).parameters == sum(p.numel() for p in module.parameters())
    profile = job_of({"tied": tied}).profile
    assert profile.parameters == GPTSection(**SIZES, tied=tied).parameters
    assert profile.state_bytes == 4 * (3 * profile.parameters + 1), "moments of AdamW, and the step's number"


@pytest.mark.parametrize(
    ("model", "training", "message"),
    [
        ({"layer": 2}, {}, "unknown key 'layer'; did you mean 'layers'"),
        ({"width": 33}, {}, "33 is no multiple of heads = 2"),
        ({"architecture": "gtp"}, {}, "unknown 'gtp'; did you mean 'gpt'"),
        ({"width": 65536, "layers": 512}, {}, "parameters exceed"),
        ({"vocab": 1}, {}, "model.vocab: expected 2 to"),
        ({}, {"optimizer": "adam"}, "did you mean 'adamw'"),
        ({}, {"optimizer": "sgd", "weight_decay": 0.1}, "the built-in sgd has none"),
        ({}, {"beta1": 1.0}, "training.beta1: expected 0 to 0.999999"),
        ({}, {"clip_norm": -1.0}, "training.clip_norm: expected 0 to"),
        ({}, {"warmup_steps": -1}, "training.warmup_steps: expected 0 to"),
    ],
)
def test_section__mistake__is_refused_with_what_was_expected(
    model: dict[str, Any], training: dict[str, Any], message: str
) -> None:
    with pytest.raises(JobError) as refusal:
        job_of(model, **training)
    assert message in str(refusal.value)


def test_module__refuses_sizes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="33 is no multiple"):
        gpt.build(**SIZES | {"width": 33})
    with pytest.raises(ValueError, match="layers: expected at least 1"):
        gpt.build(**SIZES | {"layers": 0})


@pytest.mark.parametrize(
    "rule", [{"weight_decay": 0.1}, {"optimizer": "sgd", "clip_norm": 0.5}], ids=["adamw", "sgd, clipped"]
)
def test_training__follows_torchs_own(rule: dict[str, Any]) -> None:
    options = {name: value for name, value in rule.items() if name != "clip_norm"}
    built = gpt.build(**SIZES, learning_rate=0.01, **options)
    assert_training_follows_torch(job_of(**rule), built, tokens_of, rule)


def test_module__sees_no_future() -> None:
    module = made()
    tokens = torch.from_numpy(tokens_of(0)).long()[:, :16]
    changed = tokens.clone()
    changed[:, 9:] = (changed[:, 9:] + 1) % 256
    one, other = module(tokens), module(changed)
    assert torch.equal(one[:, :9], other[:, :9])
    assert not torch.equal(one[:, 9:], other[:, 9:])


def test_generate__depends_on_the_seed_and_outgrows_the_context() -> None:
    module = made()
    one, same, other = (module.generate(b"def ", 30, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert len(one) == 30
    assert module.generate(b"", 0, 1) == b""
    assert module.generate(b"x", 5, 1, temperature=0) == module.generate(b"x", 5, 2, temperature=0)


def test_initial_weights__of_a_free_head_start_at_unit_scale_with_sinusoids() -> None:
    free, tied = made(tied=False), made(tied=True)
    assert 0.9 < free.tokens.weight.std() < 1.1
    assert tied.tokens.weight.std() < 0.03
    assert torch.equal(free.positions.weight, made(seed=9, tied=False).positions.weight), "nothing drawn"
    assert torch.equal(free.norm.weight, torch.ones(32))
    assert torch.equal(free.blocks[0].expand.bias, torch.zeros(128))
