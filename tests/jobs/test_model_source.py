"""A job brings its own module: where it comes from, what it becomes, and refusals that say the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import repops
from node import tasks
from node.replay import replay
from repops.files import save_state
from zoo_compute import DistributedTrainer
from zoo_compute.errors import UserError
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.jobs.files import publish_files
from zoo_compute.jobs.loading import plan_job
from zoo_compute.jobs.submission import prepare
from zoo_compute.store import BlockStore
from zoo_compute.training.examples import prepare_arrays, prepare_text

MODULE = """
import torch
from torch import nn
from torch.nn import functional
from sizes import WIDTH

class Words(nn.Module):
    def __init__(self, vocab, dropout):
        super().__init__()
        self.embed = nn.Embedding(vocab, WIDTH)
        self.drop = nn.Dropout(dropout)
        self.rnn = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, vocab)

    def forward(self, tokens):
        return self.head(torch.tanh(self.rnn(self.drop(self.embed(tokens)))))

def loss(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

def build(vocab=256, rate=0.01, dropout=0.0, context=8):
    module = Words(vocab, dropout)
    return module, loss, torch.optim.AdamW(module.parameters(), lr=rate)

def fails():
    raise RuntimeError("no such luck")

def half():
    return nn.Linear(2, 2)

class Narrow(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x)

def narrow():
    module = Narrow()
    return module, loss, torch.optim.SGD(module.parameters(), lr=0.1)

class Choosy(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(8))

    def forward(self, x):
        kept = x[x > 0]
        return kept.sum() + self.w.sum()

def choosy():
    module = Choosy()
    return module, lambda y, t: y, torch.optim.SGD(module.parameters(), lr=0.1)

NUMBER = 5

def gpt2(loss=functional.cross_entropy):
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    return model, loss, torch.optim.AdamW(model.parameters(), lr=0.01)

def gpt2_alone():
    return gpt2(None)
"""
TRAINING: dict[str, Any] = {
    "batch_size": 4, "inner_steps": 3, "rounds": 2, "slots": 2, "segment_steps": 2, "warmup_steps": 2, "clip_norm": 1.0,
}  # fmt: skip
TEXT = bytes(range(97, 123)) * 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODULE)
    (tmp_path / "sizes.py").write_text("WIDTH = 12\n")
    return tmp_path


def job_of(folder: Path, model: dict[str, Any], data: dict[str, Any] | None = None, **training: Any) -> ComputeJob:
    return ComputeJob(model, {"heldout": 8} | (data or {}), TRAINING | training, "100", directory=folder)


def published(job: ComputeJob, folder: Path, weights: Any = None) -> tuple[Any, BlockStore]:
    sizes = {"wanted": job.examples_wanted, "minimum": job.examples_per_round, "heldout": job.data.heldout}
    data = prepare_text(TEXT, job.context, 0, **sizes) if job.arrays is None else prepare_arrays(job.arrays, 0, **sizes)
    store = BlockStore(folder / "store")
    return publish_files(job, data, store, weights=weights), store


def test_a_module_of_the_submitters__goes_all_the_way(folder: Path) -> None:
    job = job_of(folder, {"module": "model.py:build", "context": 8, "rate": 0.05}, accumulate=2)
    manifest, store = published(job, folder)
    run = replay(manifest, store, [0b11, 0b10])
    assert run.losses[2] < run.losses[1] < run.losses[0] < 6
    assert set(run.state) == {p + n for p in ("", "outer/") for n in dict(module_of(job).named_parameters())}
    request = {"job": 1, "manifest": store.add(manifest.to_bytes()), "round": 0, "checkpoint": None}
    report = tasks.run_shard(request | {"slot": 1, "start_root": manifest.state.root}, store)
    assert report["end_root"] == run.results[1].end_root.hex()
    assert report["tokens"] == 3 * 4 * 8


def test_a_bare_model_of_hugging_face__with_torchs_cross_entropy_or_none__is_a_job(folder: Path) -> None:
    jobs = [job_of(folder, {"module": f"model.py:{name}"}, {"context": 8}) for name in ("gpt2", "gpt2_alone")]
    assert jobs[0].traced.root == jobs[1].traced.root
    manifest, store = published(jobs[0], folder)
    run = replay(manifest, store, [0b11, 0b11])
    assert run.losses[2] < run.losses[0] < 6


def module_of(job: ComputeJob) -> nn.Module:
    from zoo_compute.jobs.model_source import call_model_function

    return call_model_function(job.model, job.directory)[0]


def test_initial_weights__follow_from_the_seed_and_leave_torchs_own_alone(folder: Path) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    jobs = [job_of(folder, {"module": "model.py:build", "context": 8}, seed=seed) for seed in (1, 1, 2)]
    one, same, other = (job.traced for job in jobs)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert one.initial is not None
    assert other.initial is not None
    assert all(np.array_equal(one.initial[n], same.initial[n]) for n in one.initial)  # type: ignore[index]
    assert not np.array_equal(one.initial["head.weight"], other.initial["head.weight"])
    assert one.root == same.root == other.root, "the weights are no part of the program"


def test_dropout__draws_differently_in_every_slot_and_round_and_the_same_again(folder: Path) -> None:
    job = job_of(folder, {"module": "model.py:build", "context": 8, "dropout": 0.5})
    assert any(entry.name == "seed" for entry in job.traced.graph.state)
    manifest, store = published(job, folder)
    one, same = (replay(manifest, store, [0b11, 0b11]) for _ in range(2))
    assert one.roots == same.roots
    assert len({result.update_root for result in one.results}) == 4


def test_live_objects__are_a_job_and_keep_their_own_weights(folder: Path) -> None:
    module = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(4), nn.Linear(4, 3))
    module[2].bias.requires_grad_(False)
    rows = np.random.default_rng(0).standard_normal((60, 2, 2)).astype(np.float32)
    arrays = {"inputs": rows, "targets": (rows.sum((1, 2)) > 0).astype(np.int64)}
    model = {
        "module": module,
        "loss": nn.functional.cross_entropy,
        "optimizer": torch.optim.SGD([module[1].weight, module[1].bias, module[2].weight], lr=0.5),
    }
    job = job_of(folder, model, {"arrays": arrays})
    manifest, store = published(job, folder)
    run = replay(manifest, store, [0b11, 0b11])
    assert run.losses[2] < run.losses[0]
    assert np.array_equal(run.state["2.bias"], module[2].bias.detach().numpy()), "frozen: carried along, never changed"
    assert not np.array_equal(run.state["1.running_mean"], np.zeros(4)), "float buffers are exchanged"
    assert run.state["1.num_batches_tracked"].dtype == np.int32
    assert "outer/2.bias" not in run.state
    assert plan_job(job).job.traced.root == job.traced.root


def test_a_programs_file__needs_weights_and_no_module(folder: Path) -> None:
    traced = job_of(folder, {"module": "model.py:build", "context": 8}).traced
    repops.save(repops.Program(traced.graph), folder / "step.repops")
    job = job_of(folder, {"program": "step.repops"}, warmup_steps=0, clip_norm=0.0)
    assert (job.context, job.traced.root) == (8, traced.root)
    with pytest.raises(JobError, match="has no weights"):
        published(job, folder)
    assert traced.initial is not None
    manifest, _ = published(job, folder, traced.initial)
    assert manifest.program_root == traced.root
    with pytest.raises(JobError, match=r"weights do not fit the module: 'head\.bias' is missing"):
        published(job, folder, {n: v for n, v in traced.initial.items() if n != "head.bias"})
    with pytest.raises(JobError, match=r"'head.bias' is float32 \(3,\), it takes float32 \(256,\)"):
        published(job, folder, traced.initial | {"head.bias": np.zeros(3, np.float32)})
    with pytest.raises(JobError, match=r"inputs is int32 \(2, 8\), the program takes int32 \(4, 8\)"):
        published(job_of(folder, {"program": "step.repops"}, batch_size=2, warmup_steps=0, clip_norm=0.0), folder, {})
    save_state(folder / "no.repops", {"w": np.zeros(3, np.float32)})
    for name, message in {"no.repops": "does not begin as a program", "absent.repops": "cannot be read"}.items():
        with pytest.raises(JobError, match=message):
            _ = job_of(folder, {"program": name}).traced


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such file": ({"module": "absent.py:build"}, r"there is no file .*absent\.py"),
    "no such function": ({"module": "model.py:biuld"}, r"has no function 'biuld'; did you mean 'build'\?"),
    "something that is no function": ({"module": "model.py:NUMBER"}, "has no function 'NUMBER'"),
    "no such package": ({"module": "not_a_package:build"}, "ModuleNotFoundError"),
    "an option the function lacks": (
        {"module": "model.py:build", "widht": 3},
        r"model\.widht: model\.py:build takes no such argument; ",
    ),
    "a function that fails": ({"module": "model.py:fails"}, r"RuntimeError: no such luck \(model\.py, line \d+\)"),
    "not the three": ({"module": "model.py:half"}, "model.py:half returned Linear"),
    "an operator outside the table": ({"module": "model.py:choosy"}, r"cannot be traced: .*model\.py"),
    "a module that does not take the batch": (
        {"module": "model.py:narrow"},
        r"does not run on a batch: RuntimeError: .*\(model\.py, line \d+\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_module__that_cannot_be_a_job__is_refused_with_its_place(folder: Path, name: str) -> None:
    model, message = REFUSED[name]
    with pytest.raises(JobError, match=message) as refusal:
        _ = job_of(folder, model, {"context": 8}).traced
    if name in ("not the three", "an operator outside the table"):
        assert refusal.value.hint


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a rate beside a module": ({"module": "model.py:build"}, {"learning_rate": 0.1}, "training.learning_rate: your module brings its own"),
    "two sources": ({"module": "model.py:build", "program": "x"}, {}, "module and program exclude each other"),
    "a file without a function": ({"module": "model.py"}, {}, "expected FILE.py:FUNCTION, got 'model.py'"),
    "a program with options": ({"program": "x.repops", "layers": 2}, {}, "program names a file and allows no other key"),
    "half of live objects": ({"module": nn.Linear(2, 2), "loss": None}, {}, "needs `loss` and `optimizer` beside it"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_model_section__that_is_none__is_refused_before_anything_runs(folder: Path, name: str) -> None:
    model, training, message = WRONG[name]
    with pytest.raises(JobError) as refusal:
        job_of(folder, model, **training)
    assert message in str(refusal.value)


@pytest.mark.parametrize(("vocab", "refused"), [(100, True), (256, False)])
def test_prepare__a_first_step_that_would_be_skipped__is_refused(folder: Path, vocab: int, refused: bool) -> None:
    (folder / "text.txt").write_bytes(TEXT)
    job = job_of(folder, {"module": "model.py:build", "vocab": vocab}, {"path": "text.txt", "context": 8})
    store, said = BlockStore(folder / "store"), []
    if refused:
        with pytest.raises(UserError, match="first step would be skipped") as refusal:
            prepare(job, store, say=said.append)
        assert "tokens or classes beyond" in refusal.value.hint
    else:
        assert prepare(job, store, say=said.append).terms.flops == job.flops
        assert any("48 examples of tokens int32 (9,); 8 held out" in line for line in said)


def test_text__whose_examples_have_no_length__is_refused_with_what_to_say(folder: Path) -> None:
    with pytest.raises(JobError, match=r"data\.context: missing") as refusal:
        _ = job_of(folder, {"module": "model.py:build"}).traced
    assert "tokens per example" in refusal.value.hint


def test_arrays__from_a_file__are_the_data(folder: Path) -> None:
    np.savez(folder / "digits.npz", inputs=np.zeros((40, 8), np.int64), targets=np.zeros((40, 8), np.int64))
    job = job_of(folder, {"module": "model.py:build"}, {"path": "digits.npz"})
    assert job.traced.batch["inputs"].shape == (4, 8)
    with pytest.raises(JobError, match="the only path"):
        _ = job_of(folder, {"module": "model.py:build"}, {"paths": ["digits.npz", "x.txt"]}).arrays


def test_distributed_trainer__takes_a_function_of_a_file(folder: Path) -> None:
    (folder / "text.txt").write_bytes(TEXT)
    trainer = DistributedTrainer(f"{folder}/model.py:build", folder / "text.txt", 2, 1e3, max_budget=10)
    assert trainer.job_description.model.function == f"{folder}/model.py:build"
    with pytest.raises(UserError, match="unknown model 'gpt-2m'"):
        DistributedTrainer("gpt-2m", folder / "text.txt", 2, 1e3, max_budget=10)
