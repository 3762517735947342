"""A map small enough for unit tests, published in an embedded store; `tests.support.small_job` runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from node.inputs.programs import fetch_programs
from repops.commitments import Array
from tests.support.small_job import SmallJob
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.data_source import dataset_of
from zoo_compute.jobs.files import publish_files
from zoo_compute.store import BlockStore
from zoo_compute.training.work_root import work_of

ITEMS = np.random.default_rng(3).standard_normal((70, 5)).astype(np.float32)
SLOTS, BATCH, STEPS = 2, 4, 5  # two rounds, of which the second has ten items beyond the last


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)).eval()


def wanted() -> Array:
    """What torch makes of the items: equal but for rounding."""
    with torch.no_grad():
        return module()(torch.from_numpy(ITEMS)).numpy()


def publish(folder: Path) -> SmallJob:
    job = ComputeJob(
        {"module": module()},
        {"arrays": {"images": ITEMS}},
        map_config={"batch_size": BATCH, "slots": SLOTS, "inner_steps": STEPS, "segment_steps": 2},
        budget_max="100",
    )
    return published(job, folder)


def published(job: ComputeJob, folder: Path) -> SmallJob:
    store = BlockStore(folder / "store")
    manifest = publish_files(job, dataset_of(job, lambda text: None), store)
    programs = fetch_programs(store, manifest)
    base = {
        "job": 1,
        "round": 0,
        "manifest": store.add(manifest.to_bytes()),
        "checkpoint": None,
        "start_root": manifest.state.root,
        "work_root": work_of(manifest, programs.graph).root.hex(),
        "data_root": manifest.data.root,
        "flops": manifest.flops,
    }
    return SmallJob(store, manifest, programs, base)
