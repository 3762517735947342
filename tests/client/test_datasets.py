"""Datasets by name: what is a name, what is looked up, and that nothing with another root is ever used."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from repops.commitments import state_root
from repops.files import state_bytes
from zoo_compute import DistributedTrainer
from zoo_compute.chain.generated.bindings.datasets import Dataset
from zoo_compute.client.client import Client
from zoo_compute.client.datasets import decode_name, encode_name, fetch, find_dataset, is_name, list_datasets
from zoo_compute.errors import UserError, ZooError
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.jobs.loading import plan_job
from zoo_compute.store import BlockStore, ContentMissing, ContentTampered
from zoo_compute.store.cid import file_cid, file_digest

MODEL = {"layers": 1, "heads": 2, "width": 16, "context": 16}
TRAINING = {"learning_rate": 0.01, "batch_size": 2, "inner_steps": 2, "rounds": 1, "slots": 2}
CONTRIBUTOR = "0x" + "12" * 20
TEXT = b"a text of some length, again and again. " * 400


class Contract:
    """`Datasets` on chain, as its specification says."""

    def __init__(self) -> None:
        self.kept: list[Dataset] = []
        self.cited: list[int] = []

    def add(self, arrays: dict[str, Any], store: BlockStore, name: str = "", *, root: bytes | None = None) -> None:
        data = state_bytes(arrays)
        digest = file_digest(store.add(data))
        self.kept.append(Dataset(CONTRIBUTOR, root or state_root(arrays), len(data), digest, encode_name(name)))

    def dataset_count(self) -> int:
        return len(self.kept)

    def datasets(self, number: int) -> Dataset:
        return self.kept[number - 1]

    def named(self, word: bytes) -> int:
        return next((number for number, each in enumerate(self.kept, 1) if each.name == word), 0)

    def citations(self, job: int) -> Any:
        return SimpleNamespace(cited=self.cited)

    def cite(self, job: int, cited: list[int]) -> tuple[int, list[int]]:
        return job, cited


@pytest.fixture
def store(tmp_path: Path) -> BlockStore:
    return BlockStore(tmp_path / "store")


@pytest.fixture
def chain(store: BlockStore) -> Any:
    contract = Contract()
    contract.add({"bytes": np.frombuffer(TEXT, np.uint8)}, store, "zoo-dataset-v2")
    contract.add({"tokens": np.arange(60 * 17, dtype=np.int32).reshape(60, 17) % 250}, store)
    return SimpleNamespace(datasets=contract, network=SimpleNamespace(name="devnet"))


def client_of(chain: Any, store: BlockStore, lines: list[str]) -> Client:
    client = Client.__new__(Client)
    client.__dict__.update(chain=chain, store=store, say=lines.append)
    return client


# --- names


@pytest.mark.parametrize("name", ["zoo-dataset-v2", "a", "wiki_2023.en", "a" * 32])
def test_a_name__is_a_word_and_back(name: str) -> None:
    assert decode_name(encode_name(name)) == name
    assert len(encode_name(name)) == 32


@pytest.mark.parametrize("name", ["7", "Zoo", "a b", "a" * 33, "-a", "ünder", "a/b", "a\n", "a\0"])
def test_what_is_no_name__is_refused(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(UserError, match="is not a valid dataset name") as refused:
        encode_name(name)
    assert "begins with a letter" in (refused.value.hint or "")


@pytest.mark.parametrize("word", [b"Zoo", b"7", b"a\0b", b"a\n", b"\xff" * 32])
def test_a_word_that_is_no_name__is_shown_as_hex(word: bytes) -> None:
    """Anybody may write any word on chain: none of them passes for a name, or reaches a terminal."""
    assert decode_name(word.ljust(32, b"\0")) == "0x" + word.ljust(32, b"\0").hex()


@pytest.mark.parametrize("size", [1, 256 * 1024, 256 * 1024 + 1, 600_000])
def test_a_cid__comes_back_from_its_digest_and_the_files_size(size: int, store: BlockStore) -> None:
    """Of a file above 256 KiB too, which `contribute` refused: "a file of several blocks"."""
    cid = store.add(bytes(size))
    assert file_cid(file_digest(cid), size) == cid


# --- looking up


def test_find__by_name_and_by_number(chain: Any) -> None:
    record = find_dataset(chain, "zoo-dataset-v2")
    assert (record.number, record.name, record.contributor) == (1, "zoo-dataset-v2", CONTRIBUTOR)
    assert find_dataset(chain, 1) == find_dataset(chain, "1") == record == list_datasets(chain)[0]
    assert (find_dataset(chain, 2).name, find_dataset(chain, 2).label) == ("", "dataset 2")


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("zoo-datset-v2", "did you mean 'zoo-dataset-v2'"),
        ("corpus", "no file or folder 'corpus' here, and no dataset of that name on devnet: there are zoo-dataset-v2"),
        ("./corpus", "no file or folder './corpus' here"),
        ("3", "there is no dataset 3 on devnet: the newest is 2"),
        (0, "there is no dataset 0"),
    ],
)
def test_find__what_is_not_there__names_the_nearest(chain: Any, which: str | int, message: str) -> None:
    with pytest.raises(UserError) as refused:
        find_dataset(chain, which)
    assert message in str(refused.value)
    assert "zoo dataset list" in (refused.value.hint or "")


# --- fetching


def test_fetch__gives_the_arrays_and_tells_how_far_it_is(chain: Any, store: BlockStore) -> None:
    big = {"inputs": np.zeros((3_000_000,), np.float32)}
    chain.datasets.add(big, store, "big")
    lines: list[str] = []
    assert np.array_equal(fetch(find_dataset(chain, "big"), store, lines.append)["inputs"], big["inputs"])
    assert lines[0].startswith("fetching dataset 3 (big): 12 MB")
    assert sum("fetched " in line for line in lines) >= 5
    assert "root 0x" + state_root(big).hex() in lines[-1]


def test_fetch__of_another_root__is_refused(chain: Any, store: BlockStore) -> None:
    chain.datasets.add({"bytes": np.frombuffer(b"what was promised", np.uint8)}, store, "false", root=b"\7" * 32)
    with pytest.raises(ContentTampered, match=r"has the root .* the chain says 0707"):
        fetch(find_dataset(chain, "false"), store, lambda _: None)


def test_fetch__what_nobody_serves__says_so(chain: Any, tmp_path: Path) -> None:
    with pytest.raises(ContentMissing):
        fetch(find_dataset(chain, 1), BlockStore(tmp_path / "empty"), lambda _: None)


# --- a job


def job_of(dataset: str | int, **data: Any) -> ComputeJob:
    return ComputeJob(MODEL, {"dataset": dataset, "heldout": 8, **data}, TRAINING, "10")


def test_a_job__on_a_named_text__trains_on_its_bytes(chain: Any, store: BlockStore) -> None:
    job, lines = job_of("zoo-dataset-v2"), []
    assert client_of(chain, store, lines).bring(job) == 1
    assert job.text == TEXT
    assert job.arrays is None
    assert client_of(chain, store, lines).bring(job) == 1
    assert sum("fetching" in line for line in lines) == 1, "once"


def test_a_job__on_numbered_arrays__trains_on_them(chain: Any, store: BlockStore) -> None:
    job = job_of(2)
    assert job.profile.parameters == job.model.parameters, "a quote takes it for text, and asks no chain"
    assert client_of(chain, store, []).bring(job) == 2
    assert job.arrays is not None
    assert job.arrays["tokens"].shape == (60, 17)


def test_a_job__whose_dataset_was_not_fetched__is_not_prepared() -> None:
    with pytest.raises(JobError, match=r"data\.dataset: 'zoo-dataset-v2' was not fetched"):
        _ = job_of("zoo-dataset-v2").text


@pytest.mark.parametrize("other", [{"path": "x"}, {"paths": ["x"]}, {"arrays": {}}])
def test_a_dataset__beside_a_path__is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(JobError, match="data: dataset excludes path, paths and arrays"):
        job_of("zoo-dataset-v2", **other)


def test_a_path_on_the_command_line__takes_the_datasets_place(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(TEXT)
    sections = {"model": MODEL, "training": TRAINING, "data": {"dataset": "zoo-dataset-v2"}}
    job = plan_job(sections, 10, tmp_path / "text").job
    assert job.data.dataset is None
    assert job.text == [tmp_path / "text"]


# --- the trainer


def trainer(dataset: Any) -> DistributedTrainer:
    return DistributedTrainer("gpt-100k", dataset, 2, 1e4, max_budget=1)


def test_a_trainers_string__is_a_path_where_there_is_one_else_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trainer("corpus").job_description.data.dataset == "corpus"
    (tmp_path / "corpus").write_bytes(TEXT)
    assert trainer("corpus").job_description.data_paths() == [tmp_path / "corpus"]
    assert trainer(7).job_description.data.dataset == 7
    with pytest.raises(UserError, match=r"no data at corpse, and that is not a dataset's name") as refused:
        trainer("./corpse")
    assert "zoo dataset list" in (refused.value.hint or "")


# --- the citation


class Sender:
    def __init__(self, error: ZooError | None = None) -> None:
        self.sent: list[Any] = []
        self.error = error

    def send(self, call: Any) -> None:
        if self.error:
            raise self.error
        self.sent.append(call)


def test_a_posted_job__cites_its_dataset_once(chain: Any, store: BlockStore) -> None:
    client = client_of(chain, store, [])
    client.__dict__["sender"] = sender = Sender()
    client._cite(5, 1)
    client._cite(5, None)
    chain.datasets.cited = [1]
    client._cite(5, 1)
    assert sender.sent == [(5, [1])]


def test_a_citation_that_fails__leaves_the_job_and_says_how_to_repeat_it(chain: Any, store: BlockStore) -> None:
    lines: list[str] = []
    client = client_of(chain, store, lines)
    client.__dict__["sender"] = Sender(UserError("no coin for gas"))
    client._cite(5, 1)
    assert lines == ["job 5 does not cite dataset 1 yet (no coin for gas): `zoo job cite 5 1`"]
