"""A partition on real parts: a job goes on without some of its nodes, these train a job of their own, a third begins where both merge."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from repops.files import load_state, save_state
from tests.support.local_jobs import TINY, text
from tests.support.waiting import HANG_S
from zoo_compute import Client, Job
from zoo_compute.cli import main as cli
from zoo_compute.client.results import load_checkpoint, module_tensors
from zoo_compute.spec.params import ZEN
from zoo_compute.training.merge import Merge

pytestmark = [pytest.mark.integration, pytest.mark.network]

PLAN = OperatorPlan("alpha", roles=("provider", "aggregator"), price="0.80", aggregator_price="0.50", capacity=8)
STEPS, BATCH = TINY["training"]["inner_steps"], TINY["training"]["batch_size"]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    with LocalNetwork(tmp_path_factory.mktemp("net"), (PLAN,)) as network:
        yield network


def config(folder: Path, **training: Any) -> Path:
    path = folder / "job.json"
    path.write_text(json.dumps(TINY | {"training": TINY["training"] | {"quorum": 1} | training}))
    return path


def ended(network: LocalNetwork, job: Job, timeout_s: float = 2 * HANG_S) -> Job:
    """Once every claim is paid."""
    deadline = time.monotonic() + timeout_s
    while not job.view().settled:
        assert time.monotonic() < deadline, job.view()
        network.poll()
        time.sleep(0.3)
    return job


def zoo(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = cli.run([*map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    assert out, err
    return code, json.loads(out)


def test_branches__of_unequal_work__are_merged_posted_and_checked(
    network: LocalNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    account, store = network.devnet.account("submitter", zen=1_000 * ZEN), str(network.submitter_store)
    client = Client(network=network.network_path, account=account, store=store)
    options: dict[str, Any] = {"data": text(tmp_path), "max_budget": 200}
    first = ended(network, client.train(config(tmp_path, rounds=2, slots=1), **options))

    left, weights = tmp_path / "left.txt", tmp_path / "left.safetensors"
    left.write_bytes(b"".join(b"%d green bottles hanging on the wall\n" % n for n in range(3000)))
    client.use_peers()
    save_state(
        weights, module_tensors(load_checkpoint(first.view(), client.store, 1))
    )  # what the nodes that were cut off had
    alone = config(tmp_path, rounds=1, slots=3)
    second = ended(network, client.train(alone, **options | {"data": left}, weights=weights))

    for name, value in {"HOME": tmp_path / "home", "NETWORK": network.network_path, "STORE": store}.items():
        monkeypatch.setenv(f"ZOO_{name}", str(value))
    monkeypatch.setenv("ZOO_ACCOUNT", str(network.devnet.key_file("submitter")))
    monkeypatch.setenv("ZOO_PASSPHRASE_FILE", str(network.devnet.passphrase_file))
    monkeypatch.chdir(tmp_path)

    code, answer = zoo(capsys, "job", "merge", f"{first.id}", f"{second.id}")
    assert (code, "are not branches of one training" in answer["error"]) == (1, True)
    (tmp_path / "mine.json").write_text("{}")
    for out, said in (
        ("merged.json", "another ending"),
        ("mine.safetensors", "is not a parents file, so it is not replaced"),
    ):
        code, answer = zoo(capsys, "job", "merge", f"{first.id}:1", f"{second.id}", "--out", tmp_path / out)
        assert (code > 0, said in answer["error"] + answer.get("hint", "")) == (True, True)
    assert (tmp_path / "mine.json").read_text() == "{}"
    code, answer = zoo(capsys, "job", "merge", f"{first.id}:1", f"{second.id}@{network.network_path}")
    assert code == 0
    assert [(b["job"], b["since"], b["round"], b["examples"], b["share"]) for b in answer["branches"]] == [
        (first.id, 1, 2, STEPS * BATCH, 0.25),
        (second.id, 0, 1, 3 * STEPS * BATCH, 0.75),
    ]

    begin = (
        "train",
        config(tmp_path, rounds=1, slots=2),
        "--data",
        options["data"],
        "--max-budget",
        "200",
        "--no-watch",
    )
    code, refused = zoo(capsys, *begin, "--weights", weights, "--parents", answer["parents"])
    assert (code, "not the merge of these parents" in refused["error"]) == (1, True)
    flags = ("--weights", answer["path"], "--parents", answer["parents"])
    code, posted = zoo(capsys, *begin, *flags)
    assert code == 0
    third = ended(network, client.job(posted["job"]))
    assert third.view().completed_rounds == 1, "nodes train a job with parents"
    code, checked = zoo(capsys, "job", "parents", third.id)
    assert (code, checked["agrees"]) == (0, True)
    assert checked["start"] == third.view().checkpoint_roots[0].hex()

    made = Merge.from_bytes(Path(answer["parents"]).read_bytes())
    favoured = replace(made.parents.branches[0], examples=10 * STEPS * BATCH)
    false = replace(made, parents=replace(made.parents, branches=(favoured, made.parents.branches[1])))
    liar = client.train(config(tmp_path, rounds=1, slots=1), **options, weights=answer["path"], merge=false)
    code, checked = zoo(capsys, "job", "parents", liar.id)
    assert (code, checked["agrees"]) == (3, False)
    assert "the manifest says 320" in checked["differences"][0]
    assert len(load_state(answer["path"])) == len(load_state(weights))
