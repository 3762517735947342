"""Zoo Compute: train a torch model on other people's GPUs without having to trust them.

    from zoo_compute import Client, ComputeJob, DistributedTrainer

Names are imported on first use, so that importing the package is fast and needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo_compute.client.client import Client, Network
    from zoo_compute.client.job import Job
    from zoo_compute.client.progress import Progress
    from zoo_compute.client.results import Result
    from zoo_compute.client.trainer import DistributedTrainer
    from zoo_compute.errors import ZooError
    from zoo_compute.inference.client import Inference
    from zoo_compute.jobs.config import CheckpointConfig, ComputeJob
    from zoo_compute.jobs.quote import Quote

__all__ = [
    "CheckpointConfig",
    "Client",
    "ComputeJob",
    "DistributedTrainer",
    "Inference",
    "Job",
    "Network",
    "Progress",
    "Quote",
    "Result",
    "ZooError",
]

_HOMES = {
    "CheckpointConfig": "jobs.config",
    "Client": "client.client",
    "ComputeJob": "jobs.config",
    "DistributedTrainer": "client.trainer",
    "Inference": "inference.client",
    "Job": "client.job",
    "Network": "client.client",
    "Progress": "client.progress",
    "Quote": "jobs.quote",
    "Result": "client.results",
    "ZooError": "errors",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"zoo_compute.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'zoo_compute' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
