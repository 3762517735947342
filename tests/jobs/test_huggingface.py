"""Data through `datasets` and `tokenizers`, models of `transformers`: what a job reads, and refusals that list what there is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.replay import replay
from tests.support import tiny_gpt2
from tests.support.job_board import a_board, a_client
from tests.support.tiny_gpt2 import CONTEXT, STORIES, VOCABULARY
from zoo_compute import DistributedTrainer
from zoo_compute.errors import UserError
from zoo_compute.huggingface import places
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.jobs.data_source import dataset_of
from zoo_compute.jobs.files import publish_files
from zoo_compute.jobs.model_record import record_folder
from zoo_compute.jobs.submission import PreparedJob, prepare
from zoo_compute.store import BlockStore

TRAINING: dict[str, Any] = {"batch_size": 4, "inner_steps": 4, "rounds": 2, "slots": 2, "learning_rate": 0.01}
PARQUET = {"path": "stories.parquet"}
NO_HUB = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("huggingface")
    tiny_gpt2.save_all(made)
    return made


@pytest.fixture(autouse=True)
def caches_in_the_tests_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(places, "_newest", lambda *_: None)


def job_of(folder: Path, data: dict[str, Any], model: Any = "gpt2", **training: Any) -> ComputeJob:
    said = {"heldout": 8, **data}
    return ComputeJob({"transformers": model}, said, TRAINING | training, "100", directory=folder)


def prepared(job: ComputeJob, folder: Path) -> PreparedJob:
    return prepare(job, BlockStore(folder / "store"), say=lambda _: None)


# -- data


def test_the_same_texts__from_any_kind_of_file__make_the_same_root(folder: Path, tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [
        PARQUET,
        PARQUET,
        {"path": "stories.jsonl", "column": "story", "tokenizer": "gpt2"},
        {"paths": ["stories.csv"], "split": "train"},
    ]
    roots = [prepared(job_of(folder, data), tmp_path / str(n)).manifest.data_root for n, data in enumerate(kinds)]
    assert len(set(roots)) == 1
    other = prepared(job_of(folder, PARQUET, seed=1), tmp_path / "other").manifest
    assert other.data_root != roots[0], "the seed shuffles"


def test_documents__are_packed_whole_and_in_order__with_the_end_of_text_after_each(folder: Path) -> None:
    from transformers import AutoTokenizer

    job = job_of(folder, PARQUET)
    data = dataset_of(job, lambda _: None)
    assert job.context == CONTEXT, "as many as the model has positions"
    tokenizer = AutoTokenizer.from_pretrained(folder / "gpt2")
    end = tokenizer.eos_token_id
    row = [token for story in STORIES for token in (*tokenizer(story).input_ids, end)]
    whole = len(row) - len(row) % (CONTEXT + 1)
    wanted = np.array(row[:whole], np.int32).reshape(-1, CONTEXT + 1)
    examples = np.concatenate([data.heldout["tokens"], data.examples["tokens"]])
    assert {bytes(each) for each in examples} <= {bytes(each) for each in wanted}
    assert len(examples) == 8 + job.examples_wanted


def test_text_files__are_a_document_each(folder: Path, tmp_path: Path) -> None:
    for number, story in enumerate(STORIES):
        (tmp_path / f"{number:03}.txt").write_text(story)
    files = job_of(folder, {"path": str(tmp_path)})
    table = job_of(folder, PARQUET)
    got, wanted = (dataset_of(job, lambda _: None).examples["tokens"] for job in (files, table))
    assert np.array_equal(got, wanted)


def test_a_long_document__is_tokenized_in_parts_that_join_to_the_same_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo_compute.huggingface import tokens
    from zoo_compute.huggingface.places import Place

    tokenizer = tokens.load_tokenizer(Place("gpt2", str(folder / "gpt2")))
    text = "".join(STORIES) + "no end of line"
    monkeypatch.setattr(tokens, "PIECE", 100)
    parts = list(tokens._pieces(text))
    assert len(parts) > 10
    assert "".join(parts) == text
    row = tokens.tokens_of([text], tokenizer, lambda _: None)
    assert tokenizer.decode(row[:-1]) == text
    assert row[-1] == tokenizer.eos_token_id


def test_a_column_without_a_tokenizer__is_bytes_for_a_built_in_model(folder: Path) -> None:
    model = {"layers": 1, "heads": 1, "width": 8, "context": 16}
    job = ComputeJob(model, {"heldout": 8, **PARQUET}, TRAINING, "100", directory=folder)
    data = dataset_of(job, lambda _: None)
    text = "\n".join(STORIES).encode()
    assert all(row.astype(np.uint8).tobytes() in text for row in data.examples["tokens"])


def test_progress__is_said_while_documents_are_tokenized(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo_compute.huggingface.tokens.AT_ONCE", 20)
    lines: list[str] = []
    dataset_of(job_of(folder, PARQUET), lines.append)
    assert lines[0] == f"tokenizing {len(STORIES)} documents with gpt2"
    assert len(lines) > 4
    assert "tokenized 108 of 108 documents" in lines[-1]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"path": "nowhere.parquet"}, r"there is no .*nowhere\.parquet"),
        ({**PARQUET, "column": "txt"}, "no column 'txt'; columns are id, story"),
        ({**PARQUET, "column": "id"}, "'id' has no text; columns of text are story"),
        ({**PARQUET, "split": "validation"}, r'data\.split: .*"validation".*train'),
        ({"paths": ["stories.csv", "stories.parquet"]}, "expected files of one kind"),
        ({"path": "empty.jsonl"}, "there are no rows"),
        ({"path": "nothing"}, "no text"),
        ({"path": "nothing", "column": "text"}, "doesn't contain any data files"),
        ({"path": "broken.jsonl"}, r"data: cannot be read: .*JSON"),
        ({"path": "blank.jsonl"}, "too little text: 0 tokens make 0 examples of 17 tokens"),
        ({**PARQUET, "tokenizer": "nowhere"}, r"data\.tokenizer: 'nowhere' is no folder here"),
        ({**PARQUET, "tokenizer": "stories.csv"}, r"data\.tokenizer: stories\.csv cannot be read"),
        ({**PARQUET, "tokenizer": "nothing"}, r"data\.tokenizer: nothing has no tokenizer\.json"),
        ({**PARQUET, "tokenizer": "large"}, r"large has 346 tokens, the model 300"),
        ({**PARQUET, "context": 17}, r"data\.context: 17 exceeds the model's 16 positions"),
        ({"dataset": "owner/name"}, r"data\.dataset: 'owner/name': .* needs the 40 digits of a revision"),
        ({"dataset": "owner/name@main"}, "needs the 40 digits of a revision"),
    ],
)
def test_wrong_data__is_refused_with_what_there_is(folder: Path, data: dict[str, Any], expected: str) -> None:
    (folder / "nothing").mkdir(exist_ok=True)
    (folder / "empty.jsonl").write_text("")
    (folder / "broken.jsonl").write_text("{no json\n")
    (folder / "blank.jsonl").write_text('{"story": ""}\n')
    if data.get("tokenizer") == "large":
        tiny_gpt2.save_tokenizer(folder / "large", 400)
    with pytest.raises(UserError, match=expected):
        dataset_of(job_of(folder, data), lambda _: None)


def test_a_folder_of_tables__is_read_by_its_splits(folder: Path) -> None:
    """Not in `tmp_path`: `datasets` takes files in a folder named test_* for a split of that name."""
    (folder / "splits").mkdir()
    for split in ("train", "validation"):
        (folder / "splits" / f"{split}.parquet").write_bytes((folder / "stories.parquet").read_bytes())
    (folder / "splits" / "README.md").write_text("about these")
    whole, part = (
        dataset_of(job_of(folder, {"path": "splits", **which}), lambda _: None).examples["tokens"]
        for which in ({}, {"split": "validation[:80]", "column": "story"})
    )
    assert np.array_equal(whole, dataset_of(job_of(folder, PARQUET), lambda _: None).examples["tokens"])
    assert not np.array_equal(part, whole)


def test_a_library_that_is_missing__is_refused_with_the_line_that_installs_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match="data needs datasets") as refused:
        dataset_of(job_of(folder, PARQUET), lambda _: None)
    assert refused.value.hint == "pip install 'zoo-compute[hf]'"


def test_split_and_column__of_what_has_none__are_refused() -> None:
    with pytest.raises(JobError, match="split, subset and column are of files"):
        job_of(Path(), {"dataset": "a-name", "split": "train"})


# -- the hub


def test_a_name_of_the_hub__is_loaded_at_its_revision_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked: list[Any] = []

    def load(*places: Any, **options: Any) -> Any:
        asked.append((places, options))
        return datasets.Dataset.from_dict({"text": STORIES})

    monkeypatch.setattr(datasets, "load_dataset", load)
    dataset_of(job_of(folder, {"dataset": f"owner/name@{NO_HUB}", "subset": "small"}), lambda _: None)
    assert asked == [(("owner/name", "small"), {"split": "train", "revision": NO_HUB})]


def test_an_unpinned_name__is_refused_with_the_revision_to_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_newest", lambda name, revision, kind: NO_HUB)
    with pytest.raises(UserError, match="a model of the hub needs the 40 digits") as refused:
        job_of(folder, PARQUET, "openai-community/gpt2")
    assert refused.value.hint == f"write openai-community/gpt2@{NO_HUB}, which it is at now"


# -- the model


def test_a_folder__is_trained_from_its_weights__to_predict_the_next_token(folder: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    job = job_of(folder, {**PARQUET, "heldout": 40}, rounds=3)
    weights = load_file(folder / "gpt2" / "model.safetensors")
    assert job.traced.initial is not None
    assert set(job.traced.initial) >= set(weights)
    assert all(np.array_equal(job.traced.initial[name], weights[name]) for name in weights)
    store = BlockStore(tmp_path / "store")
    run = replay(publish_files(job, dataset_of(job, lambda _: None), store), store, [0b11] * 3)
    assert abs(run.losses[0] - np.log(VOCABULARY)) < 0.5, "a mean over tokens, in nats"
    assert run.losses[3] < run.losses[1] < run.losses[0]


def test_a_folder_without_weights__starts_from_the_seed(folder: Path) -> None:
    tiny_gpt2.save_model(folder / "new", weights=False)
    one, same, other = (job_of(folder, PARQUET, "new", seed=seed).traced.initial for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    name = "transformer.wte.weight"
    assert np.array_equal(one[name], same[name])
    assert not np.array_equal(one[name], other[name])


def test_dropout__is_the_configurations(folder: Path) -> None:
    tiny_gpt2.save_model(folder / "dropping", dropout=0.1)
    graphs = [job_of(folder, PARQUET, model).traced.graph for model in ("dropping", "gpt2")]
    assert [any(entry.name == "seed" for entry in graph.state) for graph in graphs] == [True, False]


def test_a_model_in_memory__posts_the_same_job_as_its_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    board, lines = a_board(tmp_path, monkeypatch), list[str]()
    model = AutoModelForCausalLM.from_pretrained(folder / "gpt2")
    data = {"path": str(folder / "stories.parquet"), "tokenizer": str(folder / "gpt2"), "heldout": 8}
    a_client(board, say=lines.append).train(model={"transformers": model}, data=data, training=TRAINING)
    assert lines[0].startswith("public once the job is posted: the data, the program, every checkpoint")
    a_client(board).train(model={"transformers": str(folder / "gpt2")}, data=data, training=TRAINING)
    options = {key: value for key, value in TRAINING.items() if key != "slots"}
    path = data.pop("path")
    DistributedTrainer(model, path, 2, 1e3, client=a_client(board), data=data, training=options).submit()
    assert board.posted[0] == board.posted[1]
    assert board.posted[2] == board.posted[0]
    assert not model.training, "it stays as it was"


def test_a_trainers_tokens__count_the_positions_of_the_model(folder: Path) -> None:
    model, data = {"transformers": str(folder / "gpt2")}, str(folder / "stories.parquet")
    job = DistributedTrainer(model, data, 2, 10 * 2 * 8 * CONTEXT, training={"rounds": 1}).job_description
    assert job.training.inner_steps == 10
    assert job.training.learning_rate == 5e-5


def test_tokens_as_arrays__need_no_tokenizer__and_the_models_is_recorded(folder: Path, tmp_path: Path) -> None:
    tokens = np.arange(40 * (CONTEXT + 1), dtype=np.int32).reshape(40, -1) % VOCABULARY
    tiny_gpt2.save_model(folder / "alone")
    for model, has_it in (("gpt2", True), ("alone", False)):
        job = job_of(folder, {"arrays": {"tokens": tokens}}, model)
        record = record_folder(prepared(job, tmp_path).manifest)
        assert (record / "config.json").exists()
        assert (record / "tokenizer.json").exists() == has_it


def test_a_model_in_memory__needs_a_tokenizer_by_name(folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder / "gpt2")
    with pytest.raises(UserError, match=r"data\.tokenizer: missing"):
        dataset_of(job_of(folder, PARQUET, model), lambda _: None)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"transformers": "nowhere"}, r"model\.transformers: 'nowhere' is no folder here"),
        ({"transformers": 5}, "expected a folder, a name of the hub or a model, got int"),
        ({"transformers": "gpt2", "width": 8}, "unknown key 'width' beside transformers"),
        ({"transformers": "gpt2", "module": "a.py:b"}, "exclude each other"),
    ],
)
def test_a_wrong_model__is_refused(folder: Path, section: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        ComputeJob(section, PARQUET, TRAINING, "100", directory=folder)


def test_weights_in_a_pickle__are_refused_and_not_replaced_by_new_ones(folder: Path) -> None:
    tiny_gpt2.save_model(folder / "pickled", weights=False)
    (folder / "pickled" / "pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(UserError, match=r"pytorch_model\.bin, a pickle, which is not read"):
        _ = job_of(folder, PARQUET, "pickled").traced
