"""LoRA: adapters alone are trained and travel; the result is what `peft` loads, or a merged model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from node import tasks
from repops.commitments import Array
from tests.client.trained_gpt2 import Trained, trained_in
from tests.support.tiny_gpt2 import CONTEXT, VOCABULARY, logits_of
from zoo_compute.client.results import module_tensors
from zoo_compute.errors import UserError
from zoo_compute.huggingface.folder import write_folder
from zoo_compute.huggingface.lora import ADAPTER
from zoo_compute.huggingface.places import Place
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.submission import prepare

TRAINING = {"batch_size": 4, "inner_steps": 4, "rounds": 1, "slots": 2, "learning_rate": 0.05}
INPUTS = np.random.default_rng(0).integers(0, VOCABULARY, (4, CONTEXT)).astype(np.int32)


def job_of(folder: Path, lora: dict[str, Any] | None, model: Any = "gpt2", **training: Any) -> ComputeJob:
    section = {"transformers": model} | ({} if lora is None else {"lora": lora})
    data = {"path": "stories.parquet", "heldout": 8, "tokenizer": "gpt2"}
    return ComputeJob(section, data, TRAINING | training, "100", directory=folder)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained_in(tmp_path_factory.mktemp("lora"), lambda folder: job_of(folder, {"r": 4, "alpha": 12}))


@pytest.fixture
def home(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(trained.home))


def logits(model: Any) -> Array:
    with torch.no_grad():
        return model.eval()(torch.from_numpy(INPUTS).long()).logits.numpy()


def base(trained: Trained) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(trained.folder / "gpt2")


def test_adapters_alone__are_trained_and_exchanged(trained: Trained) -> None:
    from safetensors.numpy import load_file

    graph = trained.job.traced.graph
    assert len(graph.exchanged) == 2 * 2 * 4, "A and B of four linear layers in two blocks"
    assert all(name.startswith(ADAPTER) for name in graph.exchanged)
    weights = load_file(trained.folder / "gpt2" / "model.safetensors")
    assert all(np.array_equal(trained.state[name], weights[name]) for name in weights), "no bit of the base changes"
    assert all(np.abs(trained.state[name]).max() > 0 for name in graph.exchanged)
    assert trained.losses[1] < trained.losses[0]


def test_the_folder__is_an_adapter_that_peft_loads__with_the_programs_logits(
    trained: Trained, home: None, tmp_path: Path
) -> None:
    from peft import PeftModel
    from transformers import AutoTokenizer

    trained.write(tmp_path / "tuned")
    own = logits_of(trained.job.traced.graph, trained.state, INPUTS)
    assert np.abs(logits(PeftModel.from_pretrained(base(trained), tmp_path / "tuned")) - own).max() < 1e-5
    assert np.abs(logits(base(trained)) - own).max() > 1e-2, "it was trained"
    config = json.loads((tmp_path / "tuned" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["base_model_name_or_path"]) == (4, 12.0, "gpt2")
    assert not (tmp_path / "tuned" / "model.safetensors").exists()
    assert "LoRA of rank 4 with alpha 12 on 8 layers |" in (tmp_path / "tuned" / "README.md").read_text()
    assert AutoTokenizer.from_pretrained(tmp_path / "tuned")("Story").input_ids


def test_merged__it_is_a_whole_model(trained: Trained, home: None, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    trained.write(tmp_path / "tuned", merge=True)
    own = logits_of(trained.job.traced.graph, trained.state, INPUTS)
    assert np.abs(logits(AutoModelForCausalLM.from_pretrained(tmp_path / "tuned")) - own).max() < 1e-5
    assert not (tmp_path / "tuned" / "adapter_config.json").exists()
    assert "added to the weights" in (tmp_path / "tuned" / "README.md").read_text()


def test_another_machine__needs_the_models_configuration_alone(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank, alpha and layers are in the checkpoint."""
    from peft import PeftModel

    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "nothing"))
    trained.write(tmp_path / "tuned", trained.folder / "gpt2")
    own = logits_of(trained.job.traced.graph, trained.state, INPUTS)
    assert np.abs(logits(PeftModel.from_pretrained(base(trained), tmp_path / "tuned")) - own).max() < 1e-5


def test_what_is_exchanged__is_as_small_as_the_adapters(trained: Trained, tmp_path: Path, home: None) -> None:
    """Bytes of the update files of one slot, as a node publishes them, and of the blocks of a new checkpoint."""
    full = job_of(trained.folder, None)
    sizes = {}
    for name, manifest in (
        ("lora", trained.prepared.manifest),
        ("full", prepare(full, trained.store, say=lambda _: None).manifest),
    ):
        request = {
            "job": 1,
            "manifest": trained.store.add(manifest.to_bytes()),
            "round": 0,
            "checkpoint": None,
            "slot": 0,
        }
        report = tasks.run_shard(request | {"start_root": manifest.state.root}, trained.store)
        sizes[name] = len(trained.store.read(report["update"], max_bytes=2**30, timeout_s=1))
    counts = {name: sum(graph.nodes[e.before].elements for e in graph.state if e.name in graph.exchanged) for name, graph in (("lora", trained.job.traced.graph), ("full", full.traced.graph))}  # fmt: skip
    assert counts == {"lora": 2_048, "full": 11_648}
    assert sizes["lora"] < 0.3 * sizes["full"]


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "GPTNeoXForCausalLM"])
def test_linear_layers__keep_their_form(kind: str, trained: Trained, tmp_path: Path) -> None:
    """GPT-2 has its weights the other way round; these do not."""
    import transformers
    from peft import PeftModel

    from tests.client.test_pretrained import SIZES

    maker = getattr(transformers, kind)
    torch.manual_seed(0)
    model = maker(maker.config_class(**SIZES))
    model.save_pretrained(tmp_path / "base")
    job = job_of(trained.folder, {"r": 2, "alpha": 2}, model)
    state = job.traced.initial
    assert state is not None
    noise = np.random.default_rng(0)
    state = {name: array + noise.normal(size=array.shape).astype(np.float32) / 9 if name.endswith(".B") else array for name, array in state.items()}  # fmt: skip
    own = logits_of(job.traced.graph, state, INPUTS)
    place = Place("base", str(tmp_path / "base"))
    write_folder(place, module_tensors(state), tmp_path / "adapter")
    write_folder(place, module_tensors(state), tmp_path / "merged", merge=True)
    assert np.abs(logits(maker.from_pretrained(tmp_path / "merged")) - own).max() < 1e-5
    adapted = PeftModel.from_pretrained(maker.from_pretrained(tmp_path / "base"), tmp_path / "adapter")
    assert np.abs(logits(adapted) - own).max() < 1e-5


@pytest.mark.parametrize(
    ("lora", "what"),
    [
        ({"rank": 4}, "model.lora"),
        ({"r": 0}, r"model\.lora\.r"),
        ({"target_modules": "c_attn"}, r"expected 'all-linear' or a list"),
        ({"target_modules": ["q_proj"]}, "no linear layer is named 'q_proj'; there are c_attn, c_fc, c_proj, lm_head"),
        ({"target_modules": ["lm_head"]}, "shares its weight with the embedding"),
    ],
)
def test_a_section__that_cannot_be__is_refused(trained: Trained, lora: dict[str, Any], what: str) -> None:
    with pytest.raises(UserError, match=what):
        _ = job_of(trained.folder, lora).traced


def test_target_modules__are_ends_of_names(trained: Trained) -> None:
    exchanged = job_of(trained.folder, {"target_modules": ["c_attn", "h.1.mlp.c_fc"]}).traced.graph.exchanged
    layers = {name.removeprefix(ADAPTER).rpartition(".")[0] for name in exchanged}
    assert layers == {"transformer/h/0/attn/c_attn", "transformer/h/1/attn/c_attn", "transformer/h/1/mlp/c_fc"}


def test_a_whole_model__has_nothing_to_merge(trained: Trained, tmp_path: Path) -> None:
    tensors = {name: array for name, array in trained.state.items() if not name.startswith(ADAPTER)}
    with pytest.raises(UserError, match="trained a whole model"):
        write_folder(
            Place("gpt2", str(trained.folder / "gpt2")), module_tensors(tensors), tmp_path / "tuned", merge=True
        )
