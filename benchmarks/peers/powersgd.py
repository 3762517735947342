"""The peer of benchmarks/training/compression.py: data parallelism by torch over gloo, with and without torch's own powerSGD_hook.

Two processes, half of the network's batch each; they synchronise gradients at every step. Same module, weights, examples and
rule as the job's.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel

from repops.commitments import Array
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.model_source import call_model_function
from zoo_compute.training.examples import INPUTS, TARGETS, Dataset, batch_of

PROCESSES = 2


def run(
    job: ComputeJob, data: Dataset, weights: dict[str, Array], kind: str, *, rank: int, synced: int
) -> dict[str, Any]:
    """Bytes that one process sent, and the held-out loss. kind: allreduce or powersgd, of this rank after `synced` steps."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (job, data, weights, Path(folder), kind, rank, synced)
        multiprocessing.spawn(_process, args=arguments, nprocs=PROCESSES, join=True)  # type: ignore[attr-defined]
        result: dict[str, Any] = torch.load(Path(folder) / "result")
    return result


def _process(
    number: int,
    job: ComputeJob,
    data: Dataset,
    weights: dict[str, Array],
    folder: Path,
    kind: str,
    rank: int,
    synced: int,
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=number, world_size=PROCESSES)
    torch.manual_seed(job.training.seed)
    module, loss_of, optimizer = call_model_function(job.model, job.directory)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    parallel, sent = DistributedDataParallel(module), None
    if kind == "powersgd":
        sent = powersgd.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=max(synced, 2))
        parallel.register_comm_hook(sent, powersgd.powerSGD_hook)
    numbers = sum(parameter.numel() for parameter in module.parameters())
    rate, factors = optimizer.param_groups[0]["lr"], job.training.rates or (1.0,)
    steps = job.training.rounds * job.training.inner_steps
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * factors[min(step, len(factors) - 1)]
        inputs, targets = _tensors(data.examples, _examples(job, len(data.examples["tokens"]), step)[number::PROCESSES])
        optimizer.zero_grad()
        loss_of(parallel(inputs), targets).backward()
        optimizer.step()
    if number == 0:
        result = {"loss": _heldout(job, data, module, loss_of), "bytes": 4.0 * steps * numbers}
        if sent is not None:
            plain = max(synced, 2) * numbers
            result["bytes"] = 4.0 * (plain + sent.total_numel_after_compression)
            result["compression"] = sent.compression_stats()[0]
        torch.save(result, folder / "result")
    dist.destroy_process_group()


def _examples(job: ComputeJob, count: int, step: int) -> Array:
    """The examples that all slots use at this inner step of their round."""
    training = job.training
    round_, inner = divmod(step, training.inner_steps)
    first = (round_ * training.slots + np.arange(training.slots)) * training.inner_steps + inner
    return ((first[:, None] * training.batch_size + np.arange(training.batch_size)) % count).reshape(-1)


def _tensors(examples: dict[str, Array], index: Array) -> tuple[torch.Tensor, torch.Tensor]:
    batch = batch_of(examples, index)
    return torch.from_numpy(batch[INPUTS]).long(), torch.from_numpy(batch[TARGETS]).long()


@torch.no_grad()
def _heldout(job: ComputeJob, data: Dataset, module: nn.Module, loss_of: Any) -> float:
    size = job.training.batch_size
    count = len(data.heldout["tokens"]) // size
    batches = np.arange(count * size).reshape(count, size)
    return float(
        np.mean(
            [
                float(loss_of(module(inputs), targets))
                for inputs, targets in (_tensors(data.heldout, index) for index in batches)
            ]
        )
    )
