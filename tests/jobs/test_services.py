"""A service's file: what is published answers questions as its file says, and what cannot be served is refused by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from repops import backend, files
from zoo_compute.errors import UserError
from zoo_compute.jobs.services import publish_service
from zoo_compute.models.gpt import GPT
from zoo_compute.serving.execution import Execution, tokens_of
from zoo_compute.serving.files import StoredService
from zoo_compute.serving.questions import Question
from zoo_compute.serving.service import BYTES
from zoo_compute.serving.texts import open_texts
from zoo_compute.store import BlockStore

SIZES = {"layers": 1, "heads": 2, "width": 16, "context": 32, "vocab": 256, "tied": True}
GPT_FILE: dict[str, Any] = {
    "model": SIZES,
    "serve": {"kind": "completions", "model": "tiny", "context": 16, "rows": [1, 2]},
}
MEAN = """
import torch

class Mean(torch.nn.Module):
    def __init__(self, pools=True):
        super().__init__()
        self.table, self.pools = torch.nn.Embedding(256, 8), pools

    def forward(self, tokens):
        vectors = self.table(tokens)
        return vectors.mean(1) if self.pools else vectors

def build(pools=True):
    return Mean(pools)
"""
MEAN_FILE: dict[str, Any] = {
    "model": {"module": "mean.py:build"},
    "serve": {"kind": "embeddings", "model": "mean", "context": 4, "rows": [2], "vocabulary": 256},
}


@pytest.fixture
def store(tmp_path: Path) -> BlockStore:
    return BlockStore(tmp_path / "store")


def written(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "mean.py").write_text(MEAN)
    path = folder / "service.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def published(folder: Path, store: BlockStore, content: dict[str, Any]) -> StoredService:
    cid, service = publish_service(written(folder, content), store, lambda _: None)
    stored = StoredService.fetch(store, cid)
    assert stored.service == service
    return stored


def execution(stored: StoredService, program: int = 0) -> Execution:
    graph = stored.graph(stored.service.programs[program])
    return Execution(stored.service, graph, stored.weights(graph), backend.prepare(graph))


def greedy(model: GPT, prompt: list[int], count: int) -> tuple[int, ...]:
    """By the model alone, without a cache."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
    return tuple(tokens[len(prompt) :])


def test_a_published_model__generates_what_the_model_does(tmp_path: Path, store: BlockStore) -> None:
    torch.manual_seed(3)
    model = GPT(1, 2, 16, 32, 256, True).eval()
    drawn = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    files.save_state(tmp_path / "weights.safetensors", drawn)
    stored = published(tmp_path, store, GPT_FILE | {"weights": "weights.safetensors"})
    assert [program.rows for program in stored.service.programs] == [1, 2]
    assert (stored.service.vocabulary, stored.service.end, stored.service.tokenizer) == (256, None, BYTES)
    prompts = ((97, 98, 99), (120,))
    question = Question(stored.service, prompts, 5, bytes(32))
    made = tokens_of(question, execution(stored, 1).answer(question).outputs)
    assert made == tuple(greedy(model, list(prompt), 5) for prompt in prompts)


def test_drawn_weights__follow_from_the_seed(tmp_path: Path, store: BlockStore) -> None:
    first, again = (published(tmp_path, store, GPT_FILE) for _ in range(2))
    assert first.cid == again.cid
    other = published(tmp_path, store, GPT_FILE | {"serve": GPT_FILE["serve"] | {"seed": 1}})
    assert other.service.weights != first.service.weights
    warm = published(tmp_path, store, GPT_FILE | {"serve": GPT_FILE["serve"] | {"temperature": 0.5}})
    assert (warm.service.temperature, first.service.temperature) == (0.5, 0.0)
    assert warm.service.programs != first.service.programs


def test_embeddings__are_the_modules_vectors(tmp_path: Path, store: BlockStore) -> None:
    stored = published(tmp_path, store, MEAN_FILE)
    question = Question(stored.service, ((1, 2, 3, 4), (5,)), 0, bytes(32))
    outputs = execution(stored).answer(question).outputs
    table = stored.weights(stored.graph(stored.service.programs[0]))["table.weight"]
    expected = np.stack([table[[1, 2, 3, 4]].mean(0), table[[5, 0, 0, 0]].mean(0)])
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-6)


def test_a_tokenizer__is_stored_with_the_service(tmp_path: Path, store: BlockStore) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: number for number, word in enumerate(("[UNK]", "the", "quick", "fox", "</s>"))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    stored = published(tmp_path, store, GPT_FILE | {"data": {"tokenizer": "tokenizer.json"}})
    texts = open_texts(stored.service, store)
    assert texts.encode("the fox") == (1, 3)
    assert texts.decode([2, 3]) == "quick fox"


def serve(**keys: Any) -> dict[str, Any]:
    return GPT_FILE | {"serve": GPT_FILE["serve"] | keys}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (serve(kind="chat"), "serve.kind: expected completions or embeddings"),
        (serve(rows=[2, 1]), "serve.rows: expected one or more numbers in ascending order"),
        (serve(rows=[65]), "serve.rows: expected 1 to 64"),
        (serve(context=33), "33 exceeds the model's 32 positions"),
        (serve(temperature=1e-6), "serve.temperature: expected 0, or"),
        (serve(vocabulary=300), "serve.vocabulary: the model has 256"),
        (serve(seats=1), "unknown key 'seats'"),
        (GPT_FILE | {"training": {}}, "unknown section 'training'"),
        ({"model": SIZES}, "serve: expected a section"),
        (GPT_FILE | {"weights": 3}, "weights: expected the path"),
        (GPT_FILE | {"model": {"program": "p.repops"}}, "takes a model"),
        (MEAN_FILE | {"serve": MEAN_FILE["serve"] | {"vocabulary": None}}, "serve.vocabulary: missing"),
        (MEAN_FILE | {"model": {"module": "mean.py:build", "pools": False}}, "embeddings are one tensor"),
        (MEAN_FILE | {"serve": MEAN_FILE["serve"] | {"kind": "completions"}}, "no decoding step"),
        (MEAN_FILE | {"serve": MEAN_FILE["serve"] | {"temperature": 1}}, "serve.temperature"),
    ],
)
def test_what_cannot_be_served__is_refused_by_the_file(
    tmp_path: Path, store: BlockStore, content: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words) as refused:
        publish_service(written(tmp_path, content), store, lambda _: None)
    assert "service.yaml" in str(refused.value)


def test_weights_of_another_model__are_refused(tmp_path: Path, store: BlockStore) -> None:
    files.save_state(tmp_path / "other.safetensors", {"table.weight": np.zeros((2, 2), np.float32)})
    with pytest.raises(UserError, match="does not fit the module"):
        publish_service(written(tmp_path, GPT_FILE | {"weights": "other.safetensors"}), store, lambda _: None)
