"""`zoo dataset` and a job's citations, on a real chain."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from repops.commitments import state_root
from tests.integration.cli_network import CliNetwork, Zoo, zoo_fixture  # noqa: F401
from zoo_compute.store import BlockStore, digest_of
from zoo_compute.training.examples import read_arrays

pytestmark = pytest.mark.integration


def test_a_contribution__is_kept_and_its_root_is_on_chain(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    chain = place.devnet.chain
    np.savez(tmp_path / "data.npz", inputs=np.arange(12, dtype=np.float32), targets=np.arange(3))
    (tmp_path / "data.txt").write_text("some text, and some more")
    for name, arrays in (
        ("data.npz", read_arrays(tmp_path / "data.npz")),
        ("data.txt", {"bytes": np.frombuffer(b"some text, and some more", np.uint8)}),
    ):
        answer = zoo.json("dataset", "contribute", tmp_path / name)
        kept = chain.datasets.datasets(answer["dataset"])
        assert kept.contributor == zoo.json("account", "show")["address"]
        assert kept.root == state_root(arrays)
        assert (answer["root"], answer["size"]) == ("0x" + kept.root.hex(), kept.size)
        store = BlockStore(Path(place.store))
        assert answer["cid"] in store.pins()
        assert len(store.read(answer["cid"], max_bytes=10**6)) == kept.size
        assert len(digest_of(answer["cid"])) == 32
    (tmp_path / "long.txt").write_bytes(bytes(range(250)) * 2_000)  # more than one block
    assert zoo.json("dataset", "contribute", tmp_path / "long.txt")["size"] > 500_000
    np.savez(tmp_path / "odd.npz", inputs=np.zeros(3, np.complex64))
    assert "cannot be committed" in zoo.refused("dataset", "contribute", tmp_path / "odd.npz")


def test_a_job__cites_datasets_once_and_scores_them_when_it_is_settled(
    zoo: Zoo, place: CliNetwork, tmp_path: Path
) -> None:
    (tmp_path / "more.txt").write_text("a text")
    first, second = (zoo.json("dataset", "contribute", tmp_path / "more.txt")["dataset"] for _ in range(2))
    job = zoo.json("train", place.config(), "--data", place.text, "--max-budget", "14", "--no-watch", "--anyway")["job"]
    assert "not the submitter" in zoo.refused("job", "cite", job, first, "--account", place.account("somebody"))
    assert zoo.json("job", "cite", job, second, first)["cited"] == [first, second]
    assert list(place.devnet.chain.datasets.citations(job).cited) == [first, second]
    assert "already cited" in zoo.refused("job", "cite", job, first)
    assert "unknown dataset" in zoo.refused("job", "cite", _another(zoo, place), second + 1)
    assert "job not settled" in zoo.refused("job", "score", job, 80, 100)
    assert "at most 8" in zoo.refused("job", "score", job, *range(9))
    code, _, err = zoo.run("job", "score", str(job), "101")
    assert (code, "0<=x<=100" in err) == (2, True)


def test_a_named_dataset__is_shown_fetched_trained_on_and_cited(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    text = place.text.read_bytes()
    answer = zoo.json("dataset", "contribute", place.text, "--name", "zoo-dataset-v2")
    assert "name taken" in zoo.refused("dataset", "contribute", place.text, "--name", "zoo-dataset-v2")
    assert "is not a valid dataset name" in zoo.refused("dataset", "contribute", place.text, "--name", "Zoo Dataset")
    facts = zoo.json("dataset", "show", "zoo-dataset-v2")
    assert facts == zoo.json("dataset", "show", str(answer["dataset"])) == zoo.json("dataset", "list")["datasets"][-1]
    assert {key: answer[key] for key in ("dataset", "name", "root", "cid", "size")} == {
        key: facts[key] for key in ("dataset", "name", "root", "cid", "size")
    }
    assert "did you mean 'zoo-dataset-v2'" in zoo.refused("dataset", "show", "zoo-datset-v2")
    zoo.json("dataset", "fetch", "zoo-dataset-v2", "--out", tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == text
    for which in ("zoo-dataset-v2", answer["dataset"]):
        config = _on(place, which)
        zoo.json("quote", config, "--max-budget", "14")
        job = zoo.json("train", config, "--max-budget", "14", "--no-watch", "--anyway")["job"]
        assert list(place.devnet.chain.datasets.citations(job).cited) == [answer["dataset"]]
    missing = _on(place, "zoo-datset-v2")
    assert "did you mean 'zoo-dataset-v2'" in zoo.refused(
        "train", missing, "--max-budget", "14", "--no-watch", "--anyway"
    )


def _on(place: CliNetwork, dataset: str | int) -> Path:
    """A job's file of its own, on a dataset of the network."""
    path = place.config()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data": {"dataset": dataset, "heldout": 4}}))
    return path


def _another(zoo: Zoo, place: CliNetwork) -> int:
    return int(
        zoo.json("train", place.config(), "--data", place.text, "--max-budget", "14", "--no-watch", "--anyway")["job"]
    )
