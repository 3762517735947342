"""Models by name: their published sizes, a job's file and the trainer alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo_compute import DistributedTrainer
from zoo_compute.errors import UserError
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.models import gpt
from zoo_compute.models.presets import MODELS, section_of

TRAINING = {"batch_size": 4, "inner_steps": 6, "rounds": 1, "slots": 1}

# What the sources, or the configurations on Hugging Face, say of each.
PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama-15m": 15_191_712,
    "llama-68m": 68_030_208,
    "llama-160m": 162_417_408,
    "llama-1b": 1_100_048_384,
    "llama-3b": 3_426_473_600,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
}


def job_of(model: dict[str, Any], **training: Any) -> ComputeJob:
    return ComputeJob(model, {}, TRAINING | training, "10")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_name__has_the_published_parameters(name: str) -> None:
    assert section_of(name).parameters == PUBLISHED[name]


@pytest.mark.parametrize("name", MODELS)
def test_every_name__is_a_job_of_about_the_size_it_says_and_names_its_source(name: str) -> None:
    job = job_of({"name": name})
    assert job.model.parameters == section_of(name).parameters
    assert job.model.options["learning_rate"] == MODELS[name].learning_rate
    assert MODELS[name].source
    said = name.rpartition("-")[2]
    if said[:-1].isdecimal():
        unit = {"k": 1e3, "m": 1e6, "b": 1e9}[said[-1]]
        assert 0.8 < job.model.parameters / (int(said[:-1]) * unit) < 1.25


@pytest.mark.parametrize("name", ["gpt-100k", "llama-100k"])
def test_a_name__is_traced_as_its_architecture_with_its_sizes_is(name: str) -> None:
    by_name = job_of({"name": name, "context": 8})
    by_size = job_of({**MODELS[name].sizes, "context": 8}, learning_rate=1e-3)
    assert by_name.traced.root == by_size.traced.root
    assert by_name.profile.parameters == by_name.model.parameters


def test_other_keys__go_over_those_of_the_name() -> None:
    job = job_of({"name": "llama-160m", "context": 128, "vocab": 256}, learning_rate=0.01)
    assert (job.context, job.model.options["vocab"], job.model.options["layers"]) == (128, 256, 12)
    assert job.model.options["learning_rate"] == 0.01


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"name": "llama-7B"}, "model.name: unknown model 'llama-7B'; did you mean 'llama-7b'"),
        ({"name": "resnet"}, "model.name: unknown model 'resnet'; expected one of gpt-100k"),
        ({"name": 7}, "model.name: unknown model 7"),
        ({"name": "gpt2", "architecture": "gpt"}, "name and architecture exclude each other"),
        ({"name": "gpt2", "hidden": 3}, "unknown key 'hidden'"),
        ({"name": "gpt2", "width": 700}, "700 is no multiple of heads = 12"),
    ],
)
def test_a_mistake__is_refused_with_what_was_expected(model: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError) as refusal:
        job_of(model)
    assert message in str(refusal.value)


def test_a_module_of_ones_own__may_take_an_option_called_name() -> None:
    job = job_of({"module": "model.py:build", "name": "llama-7B"})
    assert job.model.options == {"name": "llama-7B"}
    assert job.model.parameters is None


def test_a_trainer__takes_a_name_and_what_goes_over_it(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    others: dict[str, Any] = {"dataset": tmp_path / "text", "nodes": 4, "budget_tokens": 3e5, "max_budget": 1}
    job = DistributedTrainer(model="llama-100k", **others).job_description
    assert (job.context, job.model.function) == (64, "zoo_compute.models.llama:build")
    small = DistributedTrainer(model={"name": "llama-160m", "context": 32}, **others).job_description
    assert (small.context, small.model.options["learning_rate"]) == (32, 3e-4)
    with pytest.raises(UserError, match="did you mean 'llama-160m'"):
        DistributedTrainer(model="lama-160m", **others)


def test_a_large_model__is_profiled_without_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its 27 GB are drawn when they are stored, not for a quote."""
    from zoo_compute.models import llama

    devices = []
    original = llama.Llama._initialise
    monkeypatch.setattr(
        llama.Llama, "_initialise", lambda self: (devices.append(next(self.parameters()).device.type), original(self))
    )
    job = job_of({"name": "llama-100k", "layers": 1})
    assert job.profile.parameters == job.model.parameters
    assert devices == ["meta"]
    assert job.traced.initial is not None
    assert devices == ["meta", "cpu"]


def test_initial_weights__are_those_torch_draws_under_the_jobs_seed() -> None:
    job = job_of({"name": "gpt-100k", "context": 8}, seed=5)
    torch.manual_seed(5)
    sizes = {key: value for key, value in MODELS["gpt-100k"].sizes.items() if key != "architecture"}
    module = gpt.build(**{**sizes, "context": 8})[0]
    assert job.traced.initial is not None
    for name, tensor in module.named_parameters():
        assert np.array_equal(job.traced.initial[name], tensor.detach().numpy()), name
