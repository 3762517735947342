"""What a job says is what is posted: every key of every section, through every way in, read back from terms and manifest.

The keys come from the sections themselves (`SECTIONS`), so a new one that no way carries, or that has no effect, fails here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.jobs.job_keys import (
    ADAMW,
    ALL_IN_FILES,
    ELSEWHERE,
    IN_TERMS,
    JOBS,
    KEYS,
    OF_MAPS,
    OF_TABLES,
    PLAIN,
    SGD,
    TOKEN,
)
from tests.support.job_board import Board, a_board, a_client
from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute import Client, ComputeJob, DistributedTrainer
from zoo_compute.cli.context import Settings
from zoo_compute.client import datasets
from zoo_compute.jobs.config import JobError
from zoo_compute.jobs.custody import CustodyTerms
from zoo_compute.jobs.data_source import dataset_of
from zoo_compute.jobs.files import publish_files
from zoo_compute.jobs.quote import BudgetTooSmall
from zoo_compute.jobs.requirements import RequirementsSection
from zoo_compute.requirement_words import described
from zoo_compute.spec import params
from zoo_compute.spec.custody import fee_of
from zoo_compute.store import BlockStore
from zoo_compute.training.held_bytes import residual_bytes, update_bytes
from zoo_compute.training.rounds import checkpoint_bytes

TEXT = bytes(range(32, 122)) * 60


def test_every_key__has_a_place() -> None:
    places = [*PLAIN, *IN_TERMS, *(key for keys in ALL_IN_FILES.values() for key in keys), *ELSEWHERE]
    assert sorted(places) == sorted(set(places))
    assert set(places) == set(KEYS)
    said = {f"{name}.{key}" for job in JOBS.values() for name, section in job.items() for key in section}
    assert set(KEYS) - said == {"data.arrays", "data.dataset", *OF_TABLES, *OF_MAPS}, (
        "keys that no job of this test says"
    )


# -- the ways in


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("jobs")
    (made / "one.txt").write_bytes(TEXT)
    (made / "two.txt").write_bytes(TEXT[::-1])
    tokens = np.arange(26 * 40, dtype=np.int32).reshape(80, 13) % 256
    np.savez(made / "tokens.npz", tokens=tokens)
    for name, job in JOBS.items():
        (made / f"{name}.json").write_text(json.dumps(job))
    return made


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    return a_board(tmp_path, monkeypatch)


def from_a_file(board: Board, folder: Path, name: str) -> None:
    a_client(board).train(folder / f"{name}.json")


def from_a_file_with_a_budget(board: Board, folder: Path, name: str) -> None:
    a_client(board).train(str(folder / f"{name}.json"), max_budget=1_000)


def from_a_mapping(board: Board, _folder: Path, name: str) -> None:
    a_client(board).train(JOBS[name])


def from_keyword_arguments(board: Board, _folder: Path, name: str) -> None:
    a_client(board).train(**JOBS[name])


def from_keywords_over_a_file(board: Board, folder: Path, name: str) -> None:
    """What the file says is another's: the keywords win."""
    other = {
        "model": {"module": "no.py:build"},
        "data": {"path": "no.txt", "heldout": 1},
        "training": {"slots": 9, "rounds": 9},
        "checkpoint": {"redundancy": 9},
    }
    (folder / "other.json").write_text(json.dumps(other))
    a_client(board).train(folder / "other.json", **JOBS[name])


def from_a_compute_job(board: Board, folder: Path, name: str) -> None:
    job = ComputeJob(**{f"{key}_config": section for key, section in JOBS[name].items()}, directory=folder)
    asyncio.run(a_client(board).network.submit(job))


def from_a_compute_job_with_a_budget(board: Board, folder: Path, name: str) -> None:
    a_client(board).train(ComputeJob.from_file(folder / f"{name}.json"), max_budget=1_000)


def from_a_trainer(board: Board, folder: Path, name: str) -> None:
    said = {key: dict(section) for key, section in JOBS[name].items()}
    data = said.pop("data")
    paths = [folder / data.pop("path"), *(folder / path for path in data.pop("paths", []))]
    nodes = said["training"].pop("slots")
    DistributedTrainer(said.pop("model"), paths, nodes, 1e6, client=a_client(board), data=data, **said).submit()


WAYS: list[Callable[[Board, Path, str], None]] = [
    from_a_file,
    from_a_file_with_a_budget,
    from_a_mapping,
    from_keyword_arguments,
    from_keywords_over_a_file,
    from_a_compute_job,
    from_a_compute_job_with_a_budget,
    from_a_trainer,
]


# -- what is posted


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *(("adamw", way) for way in WAYS),
        *((n, w) for n in ("sgd", "llama") for w in (from_a_compute_job, from_a_trainer)),
    ],
)
def test_every_key__is_posted(
    name: str, way: Callable[[Board, Path, str], None], folder: Path, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    way(board, folder, name)
    check_posted(board, folder, name)


@pytest.mark.parametrize("name", JOBS)
def test_every_key__is_posted_by_zoo_train(
    name: str, folder: Path, board: Board, zoo: Zoo, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(Settings, "client", lambda *_args, **_options: a_client(board))
    zoo.json("train", str(folder / f"{name}.json"), "--max-budget", "1000", "--no-watch")
    check_posted(board, folder, name)
    check_quoted(board, zoo.json("quote", str(folder / f"{name}.json"), "--preset", "devnet"))


def check_posted(board: Board, folder: Path, name: str) -> None:
    manifest, terms = asdict(board.manifest), asdict(board.posted[-1])
    for section, keys in JOBS[name].items():
        for key, value in keys.items():
            where = f"{section}.{key}"
            if where in PLAIN:
                entry: Any = manifest
                for step in PLAIN[where]:
                    entry = entry[step]
                assert entry == value, where
            elif where in IN_TERMS:
                unit = 10**6 if terms["token"] == TOKEN else params.ZEN
                amount = value if key == "token" else int(float(value) * unit)
                assert terms[IN_TERMS[where]] == amount, where
    roots = roots_of(name, folder)
    assert {each: root_in(manifest, each) for each in roots} == roots
    shared = set(manifest) & set(terms) - {"policy"}
    assert {key: terms[key] for key in shared} == {key: manifest[key] for key in shared}
    assert terms["policy"] == board.manifest.policy_bits
    assert terms["flops"] == board.manifest.flops
    word = RequirementsSection(**JOBS[name].get("requirements", {})).word
    assert terms["requirements"] == word
    assert bool(word) == ("requirements" in JOBS[name])


def check_quoted(board: Board, quoted: dict[str, Any]) -> None:
    """The quote is of what was posted."""
    manifest, terms = board.manifest, board.posted[-1]
    steps = terms.rounds * terms.slots * manifest.inner_steps
    assert (quoted["rounds"], quoted["slots"], quoted["quorum"]) == (terms.rounds, terms.slots, terms.quorum)
    assert (quoted["inner_steps"], quoted["steps"]) == (manifest.inner_steps, steps)
    assert quoted["flops"] == terms.flops * terms.rounds * terms.slots
    assert int(quoted["escrow"]) == params.escrow(terms)
    assert int(quoted["lock_slot"]) == params.lock_of(terms.reserve, terms.audit_bps)
    assert int(quoted["lock_once"]) == params.lock_once(terms)
    of_aggregator = params.lock_of(terms.aggregator_reserve, terms.audit_bps)
    assert int(quoted["lock_aggregator"]) == of_aggregator + params.restitution(terms)
    assert quoted["round_longest_s"] == 2 * terms.slot_s + terms.aggregate_s
    window_s = params.window_s(params.DEVNET, terms.reexecute_s, params.windows(terms, params.DEVNET.window_value))
    assert quoted["window_s"] == window_s
    assert (quoted["update_bytes"] < quoted["checkpoint_bytes"]) == manifest.compression.is_lossy
    assert quoted["checkpoint_every_steps"] == manifest.keep_every * manifest.inner_steps
    assert quoted["requirements"] == list(described(terms.requirements))
    assert {key: int(value) for key, value in quoted["prices"].items()} == {
        key: asdict(terms)[key] for key in quoted["prices"]
    }


# -- files


def root_in(manifest: dict[str, Any], file: str) -> str:
    return str(manifest[file].get("root") or manifest[file]["cid"])


@cache
def _published(sections_json: str, directory: Path) -> dict[str, str]:
    job = ComputeJob.from_dict(json.loads(sections_json), directory=directory)
    manifest = asdict(publish_files(job, dataset_of(job, print), BlockStore(directory / "expected")))
    return {each: root_in(manifest, each) for each in ("program", "state", "data", "heldout")}


def roots_of(name: str, folder: Path, **changed: Any) -> dict[str, str]:
    """Of the files of a job; changed: keys, as `section__key`, that have another value (None: are not said)."""
    said = {section: dict(keys) for section, keys in JOBS[name].items()}
    for where, value in changed.items():
        section, _, key = where.partition("__")
        said[section] |= {key: value}
        if value is None:
            del said[section][key]
    return _published(json.dumps(said), folder)


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in ALL_IN_FILES.items() for key in keys])
def test_a_key__that_is_in_no_field__changes_a_file(name: str, key: str, folder: Path) -> None:
    file, other = ALL_IN_FILES[name][key]
    assert roots_of(name, folder)[file] != roots_of(name, folder, **{key.replace(".", "__"): other})[file]


def test_arrays__of_python__are_posted(folder: Path, board: Board) -> None:
    tokens = np.load(folder / "tokens.npz")["tokens"]
    rest = {name: section for name, section in SGD.items() if name != "data"}
    client, data = a_client(board), {"arrays": {"tokens": tokens}, "heldout": 6}
    client.train({**rest, "data": data})
    client.train(rest, data=data)
    client.train(ComputeJob.from_dict({**rest, "data": data}), max_budget=1_000)
    training = {key: value for key, value in SGD["training"].items() if key != "slots"}
    changed = {**rest, "training": training}
    model = changed.pop("model")
    DistributedTrainer(model, {"tokens": tokens}, 2, 1e6, client=client, data={"heldout": 6}, **changed).submit()
    assert len({terms.data_root for terms in board.posted}) == 1 < len(board.posted)
    assert board.manifest.data.root == roots_of("sgd", folder)["data"]


def test_a_dataset__of_the_network__is_posted(folder: Path, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    cited: list[int | None] = []
    tokens = np.load(folder / "tokens.npz")["tokens"]
    monkeypatch.setattr(
        datasets, "find_dataset", lambda _chain, name: SimpleNamespace(cid="b", number=int(name == "words"))
    )
    monkeypatch.setattr(datasets, "fetch", lambda *_: {"tokens": tokens})
    monkeypatch.setattr(BlockStore, "has", lambda *_: True)
    monkeypatch.setattr(Client, "_cite", lambda _self, _job, number: cited.append(number))
    client, data = a_client(board), {"dataset": "words", "heldout": 6}
    (folder / "named.json").write_text(json.dumps({**SGD, "data": data}))
    client.train(folder / "named.json")
    client.train(folder / "sgd.json", data=data)
    client.submit(ComputeJob.from_dict({**SGD, "data": data}))
    training = {key: value for key, value in SGD["training"].items() if key != "slots"}
    sections = {"training": training, "market": SGD["market"], "data": {"heldout": 6}}
    DistributedTrainer(SGD["model"], "words", 2, 1e6, client=client, **sections).submit()
    assert cited == [1, 1, 1, 1]
    assert {terms.data_root.hex() for terms in board.posted} == {roots_of("sgd", folder)["data"]}


def test_custodians__are_asked_for_at_the_files_price_and_the_jobs_bytes(folder: Path, board: Board, zoo: Zoo) -> None:
    client = a_client(board)
    client.train(folder / "adamw.json")
    [asked] = board.custody
    job, manifest = ComputeJob.from_file(folder / "adamw.json"), board.manifest
    graph = job.traced.graph
    assert manifest.keeps_residuals
    of_slot = update_bytes(graph, manifest) + residual_bytes(graph, manifest)
    size = manifest.slots * of_slot + checkpoint_bytes(graph, manifest.aggregation_spec)
    assert residual_bytes(graph, manifest) == sum(
        4 * graph.nodes[entry.before].elements for entry in graph.state if entry.name in graph.exchanged
    )
    assert asked == CustodyTerms(3, 250_000, size, rounds=3)
    quoted = zoo.json("quote", str(folder / "adamw.json"), "--preset", "devnet")
    assert quoted["custody"]["cost"] == str(asked.cost) == str(2 * 3 * 3 * fee_of(250_000, size))
    assert quoted["custody"]["capture"] == pytest.approx({"0.1": 0.028, "0.33": 0.25483}, abs=1e-4)
    client.train(folder / "llama.json")
    assert len(board.custody) == 1, "two copies are nobody's duty"


def test_custodians__in_a_token__need_a_price__and_fit_the_budget(folder: Path, board: Board) -> None:
    client = a_client(board)
    market = {key: value for key, value in ADAMW["market"].items() if key != "custody_price"}
    with pytest.raises(JobError, match=r"market\.custody_price: missing"):
        client.train({**ADAMW, "market": market})
    job = ComputeJob.from_file(folder / "adamw.json")
    usd = job.token
    with pytest.raises(BudgetTooSmall, match="below the worst case"):
        client.train(folder / "adamw.json", max_budget=usd.exact(job.most - 1))
    client.train(folder / "adamw.json", max_budget=usd.exact(job.most))
    rest = {name: section for name, section in SGD.items() if name != "market"}
    client.train({**rest, "checkpoint": {"redundancy": 5}}, max_budget=60, data=folder / "tokens.npz")
    assert params.escrow(board.posted[-1]) + board.custody[-1].cost <= 60 * params.ZEN


@pytest.mark.parametrize("redundancy", [0, 4, 6, 10])
def test_redundancy__that_no_majority_outvotes__is_refused(redundancy: int) -> None:
    with pytest.raises(JobError, match=r"checkpoint\.redundancy: expected 1 or 2 .* or 3, 5, 7 or 9"):
        ComputeJob.from_dict({**SGD, "checkpoint": {"redundancy": redundancy}})


@pytest.mark.parametrize(("interval", "rounds"), [(0, 1), (1, 1), (12, 2), (13, 3), (1000, 167)])
def test_checkpoint_interval__is_in_the_manifest_as_rounds(interval: int, rounds: int, folder: Path) -> None:
    said = {**ADAMW, "checkpoint": {"interval": interval}}
    assert ComputeJob.from_dict(said, directory=folder).outline().keep_every == rounds


def test_a_budget__without_prices__is_the_most_that_is_posted(folder: Path, board: Board) -> None:
    rest = {name: section for name, section in SGD.items() if name not in ("market", "checkpoint", "aggregation")}
    a_client(board).train(rest, max_budget=60, data=folder / "tokens.npz")
    a_client(board).train({**rest, "budget_max": 30}, data=folder / "tokens.npz")
    a_client(board).train(ComputeJob.from_dict({**rest, "budget_max": 30}), 60, folder / "tokens.npz")
    assert [params.escrow(terms) // params.ZEN for terms in board.posted] == [60, 30, 60]


def test_several_aggregators__are_in_the_terms__each_with_the_price_of_one(folder: Path, board: Board) -> None:
    a_client(board).train(folder / "sgd.json")
    [terms] = board.posted
    assert (terms.aggregators, board.manifest.aggregators) == (2, 2)
    assert params.escrow(terms) == terms.rounds * (2 * terms.max_price + 2 * terms.aggregator_max_price)
    rest = {name: section for name, section in SGD.items() if name != "market"}
    a_client(board).train(rest, max_budget=60, data=folder / "tokens.npz")
    assert params.escrow(board.posted[1]) + board.custody[1].cost <= 60 * params.ZEN


def test_decimals__are_the_tokens_own(folder: Path, board: Board) -> None:
    client = a_client(board)
    with pytest.raises(JobError, match=r"market\.decimals: USD .* has 6, not 7"):
        client.train(folder / "adamw.json", market={"decimals": 7})
