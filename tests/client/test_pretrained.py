"""A result as a folder of transformers: it computes what the job's program computes, generates, and names its proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from node.replay import replay
from repops import commitments, files
from tests.client.trained_gpt2 import NETWORK, Trained, trained_in
from tests.support import tiny_gpt2
from tests.support.tiny_gpt2 import CONTEXT, VOCABULARY, generated, logits_of
from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute.amounts import ZEN as ZEN_TOKEN
from zoo_compute.cli.context import Settings
from zoo_compute.client.evaluation import evaluate
from zoo_compute.client.history import rows_of
from zoo_compute.client.job import Job
from zoo_compute.client.progress import progress_of
from zoo_compute.client.results import module_tensors
from zoo_compute.errors import UserError
from zoo_compute.huggingface.folder import write_folder
from zoo_compute.huggingface.places import Place
from zoo_compute.huggingface.tokens import load_tokenizer
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.model_record import record_folder
from zoo_compute.jobs.submission import prepare
from zoo_compute.spec.params import ZEN
from zoo_compute.store import BlockStore

TRAINING = {"batch_size": 4, "inner_steps": 4, "rounds": 1, "slots": 2, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    data = {"path": "stories.parquet", "heldout": 8}
    return trained_in(
        tmp_path_factory.mktemp("pretrained"),
        lambda folder: ComputeJob({"transformers": "gpt2"}, data, TRAINING, "100", directory=folder),
    )


@pytest.fixture
def home(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_HOME", str(trained.home))
    return trained.home


def test_the_folder__computes_what_the_program_computes__and_generates(
    trained: Trained, home: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    result = trained.write(tmp_path / "tuned")
    assert (result.path, result.final, result.round) == (tmp_path / "tuned", True, 1)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "tuned").eval()
    tokens, length = generated(tmp_path / "tuned", "Story 7: the fox")
    inputs = np.random.default_rng(0).integers(0, VOCABULARY, (4, CONTEXT)).astype(np.int32)
    inputs[0, : len(tokens)] = tokens
    with torch.no_grad():
        logits = model(torch.from_numpy(inputs).long()).logits.numpy()
    own = logits_of(trained.job.traced.graph, trained.state, inputs)
    assert np.abs(logits - own).max() < 1e-5
    untrained = AutoModelForCausalLM.from_pretrained(trained.folder / "gpt2").eval()
    with torch.no_grad():
        assert np.abs(untrained(torch.from_numpy(inputs).long()).logits.numpy() - own).max() > 1e-2
    assert len(tokens) > length
    assert np.array_equal(tokens[length:], own[0, length - 1 : len(tokens) - 1].argmax(-1))


@pytest.mark.parametrize("source", ["gpt2", "gpt2/tokenizer.json"])
def test_a_tokenizer__gives_the_model_what_it_was_trained_on_alone(
    trained: Trained, tmp_path: Path, source: str
) -> None:
    """Token types, which a tokenizer of no particular model adds, are tokens to GPT-2, and refused by others."""
    from transformers import AutoTokenizer

    load_tokenizer(Place(source, str(trained.folder / source))).save_pretrained(tmp_path / "saved")
    words = AutoTokenizer.from_pretrained(tmp_path / "saved")("Story 7")
    assert list(words) == ["input_ids", "attention_mask"]


SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": 0,
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("LlamaForCausalLM", SIZES),
        ("Qwen2ForCausalLM", {**SIZES, "tie_word_embeddings": True}),
        ("GPTNeoXForCausalLM", SIZES),
        ("MistralForCausalLM", SIZES),
        ("GemmaForCausalLM", {**SIZES, "head_dim": 4}),
        ("Phi3ForCausalLM", SIZES),
        ("BloomForCausalLM", {"vocab_size": VOCABULARY, "hidden_size": 16, "n_layer": 2, "n_head": 2}),
    ],
)
def test_other_models__from_weights_in_bfloat16__compute_what_their_programs_compute(
    kind: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    maker = getattr(transformers, kind)
    maker(maker.config_class(**settings)).to(torch.bfloat16).save_pretrained(tmp_path / "model")
    tiny_gpt2.save_tokenizer(tmp_path / "model")
    (tmp_path / "stories.txt").write_text("".join(tiny_gpt2.STORIES))
    data = {"path": "stories.txt", "context": CONTEXT, "heldout": 8}
    job = ComputeJob({"transformers": "model"}, data, TRAINING, "100", directory=tmp_path)
    store = BlockStore(tmp_path / "store")
    ready = prepare(job, store, say=lambda _: None)
    state = dict(replay(ready.manifest, store, [0b11]).state)
    recorded = Place("model", str(record_folder(ready.manifest)))
    write_folder(recorded, module_tensors(state), tmp_path / "tuned")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "tuned").eval()
    inputs = np.random.default_rng(0).integers(0, VOCABULARY, (4, CONTEXT)).astype(np.int32)
    with torch.no_grad():
        logits = model(torch.from_numpy(inputs).long()).logits.numpy()
    assert model.dtype == torch.float32
    assert np.abs(logits - logits_of(job.traced.graph, state, inputs)).max() < 1e-5


def test_the_card__names_data_rounds_price_and_proof(trained: Trained, home: Path, tmp_path: Path) -> None:
    import yaml

    trained.write(tmp_path / "tuned")
    card = (tmp_path / "tuned" / "README.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    assert head == {"library_name": "transformers", "pipeline_tag": "text-generation", "tags": ["zoo-compute"]}
    manifest = trained.prepared.manifest
    for text in (
        "# tuned",
        "| started from | gpt2 |",
        f"| data | stories.parquet; {manifest.data.examples:,} examples |",
        "1 of 1 rounds of 2 slots, 4 steps of 4 examples each",
        "5.5000 (reported by nodes, unverified)",
        "3 ZEN paid",
        "final: nobody can challenge it",
        "testnet, chain 31337",
        "| job | 5 |",
        "| TaskRegistry | `0xtasks` |",
        "| Referee | `0xreferee` |",
        f"root `0x{commitments.state_root(trained.state).hex()}`",
        f"root `0x{manifest.data.root}`",
        f"`{trained.prepared.cid}`",
        "zoo verify 5 --all",
    ):
        assert text in card
    assert str(trained.folder) not in card, "the folders of this machine are nobody's business"


def test_another_machine__names_the_model_it_started_from(trained: Trained, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="was not posted from this machine") as refused:
        trained.write(tmp_path / "tuned")
    assert "--model FOLDER" in refused.value.hint
    assert not (tmp_path / "tuned").exists()
    trained.write(tmp_path / "tuned", trained.folder / "gpt2")
    made = {path.name for path in (tmp_path / "tuned").iterdir()}
    assert made >= {"config.json", "model.safetensors", "tokenizer.json", "README.md", "generation_config.json"}
    assert "started from" not in (tmp_path / "tuned" / "README.md").read_text()


def test_the_wrong_model__is_refused_and_nothing_is_written(trained: Trained, home: Path, tmp_path: Path) -> None:
    from transformers import GPT2Config, LlamaConfig

    sizes = {"vocab_size": VOCABULARY, "n_positions": CONTEXT, "n_embd": 16, "n_layer": 1, "n_head": 2}
    GPT2Config(**sizes).save_pretrained(tmp_path / "shallow")
    GPT2Config(**{**sizes, "n_embd": 8}).save_pretrained(tmp_path / "narrow")
    LlamaConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2).save_pretrained(
        tmp_path / "llama"
    )
    for name in ("shallow", "narrow", "llama"):
        with pytest.raises(UserError, match=r"does not fit the model of .*(alone|shape)"):
            trained.write(tmp_path / "tuned", tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"shallow", "narrow", "llama"}


def test_a_folder_with_something_in_it__is_left_alone(trained: Trained, home: Path, tmp_path: Path) -> None:
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "mine").write_text("mine")
    with pytest.raises(UserError, match="is there already, and not empty"):
        trained.write(tmp_path / "tuned")
    (tmp_path / "tuned" / "mine").unlink()
    assert trained.write(tmp_path / "tuned").path == tmp_path / "tuned"


def test_a_record__is_kept_of_the_hubs_models_alone(trained: Trained, home: Path, tmp_path: Path) -> None:
    assert record_folder(trained.prepared.manifest).is_dir()
    (tmp_path / "text").write_text("a text of some length, again and again. " * 100)
    model = {"layers": 1, "heads": 1, "width": 8, "context": 8}
    job = ComputeJob(model, {"path": "text", "heldout": 8}, TRAINING, "100", directory=tmp_path)
    ready = prepare(job, trained.store, say=lambda _: None)
    assert not record_folder(ready.manifest).exists()


def test_the_job__writes_it_with_what_it_reads_of_the_chain(
    trained: Trained, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got = a_job(trained, monkeypatch).save_pretrained(tmp_path / "tuned")
    assert got.path == tmp_path / "tuned"
    assert "1 ZEN paid, and 0.5 ZEN is due" in (tmp_path / "tuned" / "README.md").read_text()


def a_job(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> Job:
    """As a client has it whose chain has `trained.view`."""
    client: Any = SimpleNamespace(
        store=trained.store,
        chain=SimpleNamespace(network=SimpleNamespace(first_block=0)),
        use_peers=lambda: None,
        description=NETWORK,
    )
    monkeypatch.setattr("zoo_compute.client.job.read_job", lambda *_: trained.view)
    monkeypatch.setattr(Job, "progress", lambda _: progress_of(trained.view, spent=ZEN, due=ZEN // 2))
    return Job(client, 5)


def test_the_command__writes_a_folder_beside_where_it_runs(
    trained: Trained, zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(trained, monkeypatch)
    monkeypatch.setenv("ZOO_HOME", str(trained.home))
    monkeypatch.setattr(Settings, "client", lambda *_, **__: SimpleNamespace(job=lambda _: job))
    code, out, err = zoo.run("job", "result", "5", "--format", "hf")
    assert code == 0, err
    assert out.startswith("job-5: ")
    assert "verified against the chain: root 0x" in out
    assert (tmp_path / "job-5" / "model.safetensors").is_file()


def test_held_out_loss__is_computed_here__from_checkpoints_that_match_the_chain(
    trained: Trained, zoo: Zoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = {0: trained.prepared.manifest.state_root, 1: trained.view.checkpoint_roots[1]}
    view = replace(trained.view, checkpoint_roots=roots)
    monkeypatch.setattr(Settings, "client", lambda *_, **__: SimpleNamespace(job=lambda _: job))
    job = a_job(trained, monkeypatch)
    monkeypatch.setattr("zoo_compute.client.job.read_job", lambda *_: view)
    start, newest = zoo.json("job", "evaluate", "5")["checkpoints"]
    assert (start["round"], newest["round"]) == (0, 1)
    assert [start["loss"], newest["loss"]] == trained.losses
    assert newest["loss"] < start["loss"]
    assert newest["perplexity"] == pytest.approx(np.exp(newest["loss"]))
    assert newest["root"] == "0x" + roots[1].hex()
    assert newest["accuracy"] is None, "this machine has no record of the model"
    _, out, _ = zoo.run("job", "evaluate", "5", "--all")
    assert [line.split()[0] for line in out.splitlines()] == ["round", "start", "1"]

    false = replace(view, checkpoint_roots={**roots, 0: b"\1" * 32})
    monkeypatch.setattr("zoo_compute.client.job.read_job", lambda *_: false)
    assert "the chain says" in zoo.refused("job", "evaluate", "5")


METRIC = """
import numpy as np

def size(tensors, heldout):
    return {"examples": len(heldout["tokens"]), "norm": float(np.linalg.norm(tensors["transformer.wte.weight"]))}

def fails(tensors, heldout):
    return tensors["nothing"]
"""


def test_accuracy_and_a_metric_of_ones_own__are_columns_of_table_and_history(
    trained: Trained, zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    job, view = a_job(trained, monkeypatch), trained.view
    roots = {0: trained.prepared.manifest.state_root, 1: view.checkpoint_roots[1]}
    monkeypatch.setattr("zoo_compute.client.job.read_job", lambda *_: replace(view, checkpoint_roots=roots))
    monkeypatch.setattr(Settings, "client", lambda *_, **__: SimpleNamespace(job=lambda _: job))
    monkeypatch.setenv("ZOO_HOME", str(trained.home))
    (tmp_path / "metric.py").write_text(METRIC)
    reference = str(tmp_path / "metric.py")
    newest = zoo.json("job", "evaluate", "5", "--metric", f"{reference}:size")["checkpoints"][1]
    trained.write(tmp_path / "tuned")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "tuned").eval()
    manifest = trained.prepared.manifest
    tokens = files.parse_state(trained.store.read(manifest.heldout.cid, max_bytes=2**20, timeout_s=1))["tokens"]
    with torch.no_grad():
        likeliest = model(torch.from_numpy(tokens[:, :-1]).long()).logits.argmax(-1).numpy()
    assert 0 < newest["accuracy"] == pytest.approx(float((likeliest == tokens[:, 1:]).mean()))
    norm = float(np.linalg.norm(trained.state["transformer.wte.weight"]))
    assert newest["metrics"] == {"examples": 8.0, "norm": pytest.approx(norm)}
    code, out, err = zoo.run("job", "evaluate", "5", "--metric", f"{reference}:size")
    assert code == 0, err
    assert out.splitlines()[0].split() == ["round", "held-out", "loss", "perplexity", "accuracy", "examples", "norm", "root"]  # fmt: skip
    rows = rows_of(replace(view, checkpoint_roots=roots), (), job._evaluations, ZEN_TOKEN, lambda _: 0)
    assert [row["accuracy"] for row in rows][1] == newest["accuracy"]
    assert rows[1]["examples"] == 8.0
    assert "the metric fails failed: KeyError" in zoo.refused("job", "evaluate", "5", "--metric", f"{reference}:fails")
    assert "the metric: " in zoo.refused("job", "evaluate", "5", "--metric", f"{reference}:none")
    assert "names no function" in zoo.refused("job", "evaluate", "5", "--metric", "metric.py")


def test_a_checkpoint_that_is_not_kept__has_no_loss(trained: Trained) -> None:
    gone = replace(trained.view, checkpoint_roots={1: bytes(32)}, checkpoint_cids={1: (b"\2" * 32,)})
    [only] = evaluate(gone, trained.store, [1])
    assert (only.loss, only.perplexity) == (None, None)


def test_the_command__refuses_options_of_the_other_format(zoo: Zoo, tmp_path: Path) -> None:
    assert "--whole is of one file" in zoo.refused("job", "result", "1", "--format", "hf", "--whole")
    assert "--model needs --format hf" in zoo.refused("job", "result", "1", "--model", "gpt2")
    assert "a folder, needs --format hf" in zoo.refused("job", "result", "1", "--out", str(tmp_path))
