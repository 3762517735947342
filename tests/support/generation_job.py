"""A generation small enough for unit tests, published in an embedded store; `tests.support.small_job` runs it. And what torch alone makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tests.support.map_job import published
from tests.support.small_job import SmallJob
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.models import gpt

SIZES = {"layers": 2, "heads": 2, "width": 32, "context": 24}
PROMPTS = ["The cat", "Hello", "a", "One more, longer", "two"]
NEW, BATCH, SLOTS = 6, 2, 2  # two rounds, the second of which has three texts beyond the last


def job(prompts: Any = PROMPTS, *, data: Any = None, **map_: Any) -> ComputeJob:
    from zoo_compute.jobs.generation import prompts_array

    sections = {"batch_size": BATCH, "slots": SLOTS, "new_tokens": NEW, **map_}
    arrays = {"arrays": {"prompts": prompts_array(prompts)}}
    return ComputeJob.from_dict({"model": SIZES, "data": data or arrays, "map": sections, "budget_max": 100})


def publish(folder: Path, **map_: Any) -> SmallJob:
    return published(job(**map_), folder)


def model(seed: int = 0) -> torch.nn.Module:
    """With the weights that a job with this seed draws."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return gpt.build(**SIZES)[0].eval()


@torch.no_grad()
def continued(module: torch.nn.Module, prompt: Sequence[int], count: int) -> list[int]:
    """The likeliest next tokens by the whole model on the whole text each time: no cache, no step."""
    text = list(prompt)
    for _ in range(count):
        text.append(int(module(torch.tensor([text]))[0, -1].argmax()))
    return text[len(prompt) :]
