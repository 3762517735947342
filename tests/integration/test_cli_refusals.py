"""Bad input against a real chain gets a clear error and loses nothing; what is there is shown."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.integration.cli_network import ESCROW, CliNetwork, Zoo, jobs, zoo_fixture  # noqa: F401
from zoo_compute import Client
from zoo_compute.chain.network import load
from zoo_compute.spec.params import PRESETS, ZEN

pytestmark = pytest.mark.integration


@pytest.fixture
def client(zoo: Zoo, place: CliNetwork) -> Client:
    return Client(say=print)


# -- bad input


def test_budget_below_the_worst_case__is_refused_and_nothing_is_sent(zoo: Zoo, place: CliNetwork) -> None:
    before = place.devnet.chain.w3.eth.get_transaction_count(zoo.json("account", "show")["address"])
    answer = zoo.refused("train", place.config(), "--data", place.text, "--max-budget", "13.9")
    assert "13.9 ZEN" in answer
    assert "14 ZEN" in answer
    answer = zoo.refused("train", place.config(), "--data", place.text, "--max-budget", "5")
    assert "below the reserve" in answer
    assert place.devnet.chain.w3.eth.get_transaction_count(zoo.json("account", "show")["address"]) == before


def test_too_little_data__is_refused_with_what_is_needed(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("too short")
    before = jobs(place)
    answer = zoo.refused("train", place.config(), "--data", tmp_path / "short.txt", "--max-budget", "14")
    assert "too little text" in answer
    assert jobs(place) == before


def test_vocabulary_too_small_for_the_text__is_refused(zoo: Zoo, place: CliNetwork) -> None:
    config = place.config()
    sections = json.loads(config.read_text())
    sections["model"]["vocab"] = 64
    config.write_text(json.dumps(sections))
    assert "model.vocab" in zoo.refused("train", config, "--data", place.text, "--max-budget", "14")


def test_wrong_chain_id__is_refused(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    dataclasses.replace(load(place.devnet.network_file), chain_id=1).save(other)
    for command in (
        ["network", "show"],
        ["train", place.config(), "--data", place.text, "--max-budget", "14"],
        ["job", "list"],
    ):
        answer = zoo.refused(*command, "--network", other)
        assert "31337" in answer
        assert "1" in answer


def test_unreachable_rpc__is_refused(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    dataclasses.replace(load(place.devnet.network_file), rpcs=("http://127.0.0.1:1",)).save(other)
    answer = zoo.refused("job", "show", "1", "--network", other)
    assert "no RPC" in answer
    assert "http://127.0.0.1:1" in answer
    code, out, _ = zoo.run("doctor", "--network", other, "--json")
    assert code == 1
    rpc = next(check for check in json.loads(out)["checks"] if check["name"] == "RPC")
    assert not rpc["ok"]
    assert rpc["do"]


@pytest.mark.parametrize("how", ["no code there", "other code there", "two contracts swapped"])
def test_contracts_of_another_deployment__are_refused(zoo: Zoo, place: CliNetwork, tmp_path: Path, how: str) -> None:
    cli = load(place.devnet.network_file)
    contracts = dict(cli.contracts)
    if how == "no code there":
        contracts["tasks"] = "0x" + "11" * 20
    elif how == "other code there":
        contracts["tasks"] = contracts["registry"]
    else:
        contracts["tasks"], contracts["registry"] = contracts["registry"], contracts["tasks"]
    other = tmp_path / "other.json"
    dataclasses.replace(cli, contracts=contracts).save(other)
    answer = zoo.refused("train", place.config(), "--data", place.text, "--max-budget", "14", "--network", other)
    assert "TaskRegistry" in answer or "NodeRegistry" in answer
    assert "another deployment" in answer


def test_unfunded_account__is_refused_before_anything_is_stored(zoo: Zoo, place: CliNetwork) -> None:
    poor = place.account("poor", zen=3 * ZEN)
    answer = zoo.refused("train", place.config(), "--data", place.text, "--max-budget", "14", "--account", poor)
    assert "3 ZEN" in answer
    assert "14 ZEN" in answer
    assert "11 ZEN" in answer
    dry = place.account("dry", zen=100 * ZEN, coin=0)
    answer = zoo.refused("train", place.config(), "--data", place.text, "--max-budget", "14", "--account", dry)
    assert "has 0 coin; posting takes a deposit" in answer


def test_wrong_passphrase__is_refused(
    zoo: Zoo, place: CliNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = shutil.copy(os.environ["ZOO_ACCOUNT"], tmp_path / "own.json")  # a devnet's key brings its passphrase along
    monkeypatch.setenv("ZOO_ACCOUNT", str(own))
    monkeypatch.delenv("ZOO_PASSPHRASE_FILE")
    monkeypatch.setenv("ZOO_PASSPHRASE", "wrong")
    answer = zoo.refused("train", place.config(), "--data", place.text, "--max-budget", "14")
    assert "wrong passphrase" in answer


def test_unknown_job__is_refused_by_every_command(zoo: Zoo) -> None:
    for command in ("show", "watch", "cancel", "result"):
        assert "there is no job 4711" in zoo.refused("job", command, "4711")


def test_result__before_the_first_checkpoint__is_refused(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    job = zoo.json("train", place.config(), "--data", place.text, "--max-budget", "14", "--no-watch")["job"]
    assert "no checkpoint yet" in zoo.refused("job", "result", str(job), "--out", tmp_path / "model.safetensors")
    assert not (tmp_path / "model.safetensors").exists()


def test_files_that_nobody_serves__are_refused_before_any_escrow(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    before = jobs(place)
    answer = zoo.refused(
        "train", place.config(), "--data", place.text, "--max-budget", "14", "--store", tmp_path / "private"
    )
    assert "no storage peer of the network serves" in answer
    assert jobs(place) == before
    anyway = zoo.json(
        "train",
        place.config(),
        "--data",
        place.text,
        "--max-budget",
        "14",
        "--store",
        tmp_path / "private",
        "--anyway",
        "--no-watch",
    )
    assert anyway["job"] == before + 1


def test_train__serves_the_store_itself_when_the_networks_address_is_free(
    zoo: Zoo, place: CliNetwork, tmp_path: Path
) -> None:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    other = tmp_path / "other.json"
    dataclasses.replace(load(place.devnet.network_file), storage=(f"http://127.0.0.1:{port}",)).save(other)
    code, _, err = zoo.run(
        "train", place.config(), "--data", place.text, "--max-budget", "14", "--no-watch",
        "--store", tmp_path / "private", "--network", other,
    )  # fmt: skip
    assert code == 0, err
    assert f"serving the job's files at http://127.0.0.1:{port}" in err


def test_unreachable_store__is_refused(zoo: Zoo, place: CliNetwork) -> None:
    answer = zoo.refused(
        "train", place.config(), "--data", place.text, "--max-budget", "14", "--store", "kubo:http://127.0.0.1:1"
    )
    assert "127.0.0.1:1" in answer


def test_no_torch__is_told_and_weights_take_its_place(
    client: Client, place: CliNetwork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import numpy as np

    from repops import encoding
    from repops.files import save_state
    from zoo_compute.jobs.loading import plan_job
    from zoo_compute.jobs.traced_step import trace_module

    config = place.config()
    traced = plan_job(config, 14).job.traced
    assert traced.initial is not None
    save_state(tmp_path / "weights.safetensors", traced.initial)
    save_state(tmp_path / "other.safetensors", {"w": np.zeros(3, np.float32)})
    (tmp_path / "step.repops").write_bytes(encoding.encode(traced.graph))
    sections = json.loads(config.read_text())
    del sections["training"]["learning_rate"]
    brought = {**sections, "model": {"program": str(tmp_path / "step.repops")}}
    monkeypatch.setattr("zoo_compute.jobs.config.trace_module", trace_module)  # not what tests remember of it
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(Exception, match="torch, which is not installed") as refused:
        client.train(config, 14, place.text)
    assert "zoo-compute[node]" in refused.value.hint  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="a program file has no weights"):
        client.train(brought, 14, place.text)
    with pytest.raises(Exception, match="the weights do not fit the module"):
        client.train(brought, 14, place.text, weights=tmp_path / "other.safetensors")
    job = client.train(brought, 14, place.text, weights=tmp_path / "weights.safetensors")
    assert job.progress().state == "open"


def test_mistyped_network_file__names_the_key(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    document = json.loads(place.devnet.network_file.read_text())
    document["storrage"] = document.pop("storage")
    other.write_text(json.dumps(document))
    assert "did you mean 'storage'" in zoo.refused("network", "show", "--network", other)


# -- the network and the machine


def test_network_show__has_both_presets_side_by_side(zoo: Zoo, place: CliNetwork) -> None:
    answer = zoo.json("network", "show")
    assert answer["presets"]["devnet"]["bid_window_s"] == PRESETS["devnet"].bid_window_s
    assert answer["presets"]["production"]["bid_window_s"] == 3_600
    assert answer["contracts"] == dict(place.devnet.network.contracts)
    assert answer["head"]["number"] > 0
    _, out, _ = zoo.run("network", "show")
    assert re.search(r"devnet \(this network\) +production", out)


def test_doctor__finds_everything(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo_compute.cli.doctor_checks.SystemChecks._torch", lambda _: (None, "there"))
    code, out, _ = zoo.run("doctor")
    assert code == 0, out
    assert "nothing is missing" in out


def test_doctor__of_an_unfunded_account_and_a_dead_gateway__says_what_to_do(
    zoo: Zoo, place: CliNetwork, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    dataclasses.replace(load(place.devnet.network_file), storage=("http://127.0.0.1:1",)).save(other)
    dry = place.account("dry-too", zen=0, coin=0)
    code, out, _ = zoo.run("doctor", "--network", other, "--account", dry, "--json")
    missing = {check["name"]: check["do"] for check in json.loads(out)["checks"] if check["needed"] and not check["ok"]}
    assert code == 1
    assert set(missing) >= {"coin for gas", "ZEN", "storage peers"}
    assert all(missing.values())


def test_disk_that_fills__is_told_nothing_is_posted_and_the_next_run_goes_on(zoo: Zoo, place: CliNetwork) -> None:
    import resource

    config, before = place.config(), jobs(place)
    sections = json.loads(config.read_text())
    sections["model"]["width"] = 128  # 200 thousand parameters: their file does not fit
    config.write_text(json.dumps(sections))
    command = ["train", config, "--data", place.text, "--max-budget", "14", "--no-watch"]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        answer = zoo.refused(*command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "no room" in answer or "disk is full" in answer
    assert jobs(place) == before
    assert zoo.json(*command)["job"] == before + 1
