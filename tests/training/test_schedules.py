"""A learning-rate schedule over all rounds: the factors of `transformers`, in the data, one for each step of the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from node import tasks
from node.replay import Replay, replay
from repops.graph import RATE
from zoo_compute.errors import UserError
from zoo_compute.formats.manifest import Manifest
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.submission import prepare
from zoo_compute.store import BlockStore
from zoo_compute.training.examples import Dataset, batch_of
from zoo_compute.training.schedules import SCHEDULES, factors_of, with_rates

STEPS, ROUNDS = 5, 3
TRAINING: dict[str, Any] = {
    "batch_size": 4, "inner_steps": STEPS, "rounds": ROUNDS, "slots": 1, "outer_learning_rate": 1.0, "outer_momentum": 0.0,
}  # fmt: skip
RATE_AT_FIRST = 0.3


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize(("warmup", "steps"), [(0, 7), (3, 10), (10, 10)])
def test_factors__are_those_of_transformers(kind: str, warmup: int, steps: int) -> None:
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = get_scheduler(kind, optimizer, num_warmup_steps=warmup, num_training_steps=steps)
    expected = []
    for _ in range(steps):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert factors_of(kind, warmup, steps) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("count", [7, 48, 60])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_data__has_each_steps_factor__and_the_examples_as_before(count: int, accumulate: int) -> None:
    """7 examples repeat: each time they are another row."""
    slots, size = 2, 2
    manifest = Manifest.examples_for
    tokens = np.arange(3 * count, dtype=np.int32).reshape(count, 3)
    factors = [step / 100 for step in range(4 * 3)]
    made = with_rates(Dataset({"tokens": tokens}, {"tokens": tokens[:2]}), factors, slots=slots, inner_steps=3, batch_size=size)  # fmt: skip

    def job(examples: int) -> Any:
        sizes = {"rounds": 4, "slots": slots, "inner_steps": 3, "batch_size": size}
        return type("Sizes", (), {**sizes, "data": type("Data", (), {"examples": examples})})

    for round_ in range(4):
        for slot in range(slots):
            for step in range(3):
                index = manifest(job(len(made.examples["tokens"])), round_, slot, step)
                batch = batch_of(made.examples, index, accumulate)
                before = batch_of({"tokens": tokens}, manifest(job(count), round_, slot, step), accumulate)
                assert (batch.pop(RATE) == np.float32(factors[3 * round_ + step])).all()
                assert all(np.array_equal(batch[name], before[name]) for name in ("inputs", "targets"))
    assert made.heldout[RATE].tolist() == [1.0, 1.0]


def module() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def job_of(scheduler: Any = None, **training: Any) -> ComputeJob:
    rng = np.random.default_rng(0)
    arrays = {"inputs": rng.normal(size=(99, 6)).astype(np.float32), "targets": rng.integers(0, 3, 99).astype(np.int32)}
    net = module()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE_AT_FIRST)
    model = {"module": net, "loss": functional.cross_entropy, "optimizer": optimizer}
    if scheduler is not None:
        model["scheduler"] = scheduler(optimizer)
    return ComputeJob(model, {"arrays": arrays, "heldout": 8}, TRAINING | training, "100")


def replayed(job: ComputeJob, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Manifest, BlockStore, Replay]:
    monkeypatch.setenv("ZOO_HOME", str(folder / "home"))
    store = BlockStore(folder / "store")
    manifest = prepare(job, store, say=lambda _: None).manifest
    return manifest, store, replay(manifest, store, [0b1] * ROUNDS)


def test_a_job__trains_as_torch_does_under_the_schedule__over_all_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One slot, plain SGD, and an outer optimizer that takes the slot's result: the job is one run of torch."""
    from transformers import get_cosine_schedule_with_warmup

    job = job_of(lr_scheduler_type="cosine", warmup_steps=4)
    manifest, store, run = replayed(job, tmp_path, monkeypatch)
    net = module()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE_AT_FIRST)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 4, ROUNDS * STEPS)
    from repops.files import parse_state

    examples = parse_state(store.read(manifest.data.cid, max_bytes=2**20, timeout_s=1))
    for round_ in range(ROUNDS):
        for step in range(STEPS):
            batch = batch_of(examples, manifest.examples_for(round_, 0, step))
            inputs, targets = torch.from_numpy(batch["inputs"]), torch.from_numpy(batch["targets"]).long()
            optimizer.zero_grad()
            functional.cross_entropy(net(inputs), targets).backward()
            optimizer.step()
            scheduler.step()
    for name, tensor in net.state_dict().items():
        np.testing.assert_allclose(run.state[name], tensor.numpy(), rtol=2e-5, atol=2e-6, err_msg=name)


def test_a_node__trains_a_scheduled_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, store, run = replayed(job_of(lr_scheduler_type="linear"), tmp_path, monkeypatch)
    request = {"job": 1, "manifest": store.add(manifest.to_bytes()), "round": 0, "checkpoint": None}
    report = tasks.run_shard(request | {"slot": 0, "start_root": manifest.state.root}, store)
    assert report["end_root"] == run.results[0].end_root.hex()


def cosine(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=ROUNDS * STEPS)


def test_a_schedule_of_torchs__becomes_the_same_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, named = job_of(cosine), job_of(lr_scheduler_type="cosine")
    assert own.traced.root == named.traced.root
    assert own.traced.factors == pytest.approx(named.traced.factors, abs=1e-12)
    assert job_of().traced.factors == ()
    assert job_of().traced.root != own.traced.root


def test_a_schedule__is_left_as_it_was() -> None:
    made: list[Any] = []

    def warm(optimizer: Any) -> Any:
        made.extend([optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))])
        return made[1]

    factors = job_of(warm).traced.factors
    assert factors == (0.25, 0.5, 0.75, *[1.0] * (ROUNDS * STEPS - 3))
    assert made[1].last_epoch == 0
    assert made[0].param_groups[0]["lr"] == RATE_AT_FIRST


@pytest.mark.parametrize(
    ("scheduler", "training", "what"),
    [
        (torch.optim.lr_scheduler.ReduceLROnPlateau, {}, "ReduceLROnPlateau cannot run before the training"),
        (lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1.0, total_steps=99, cycle_momentum=True), {}, "changes more than"),
        (lambda _: cosine(torch.optim.SGD(module().parameters(), lr=1.0)), {}, "no schedule of the optimizer"),
        (cosine, {"lr_scheduler_type": "linear"}, "lr_scheduler_type: your module brings its own schedule"),
        (cosine, {"warmup_steps": 2}, "warmup_steps: your module brings its own schedule"),
    ],
)  # fmt: skip
def test_a_schedule__that_cannot_be_a_table__is_refused(scheduler: Any, training: Any, what: str) -> None:
    with pytest.raises(UserError, match=what):
        _ = job_of(scheduler, **training).traced


@pytest.mark.parametrize(
    ("training", "what"),
    [
        ({"lr_scheduler_type": "cosin"}, "unknown lr scheduler type 'cosin'; did you mean 'cosine'"),
        ({"lr_scheduler_type": "linear", "warmup_steps": 16}, "16 exceed the job's 15 steps"),
        ({"max_grad_norm": 1.0}, "unknown key 'max_grad_norm'; write 'clip_norm'"),
    ],
)
def test_the_section__refuses_what_is_no_schedule(training: dict[str, Any], what: str) -> None:
    with pytest.raises(UserError, match=what):
        job_of(**training)
