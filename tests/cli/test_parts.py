"""The command line without a chain: accounts, stores, doctor."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.zoo_command import CONFIG, Zoo, zoo_fixture  # noqa: F401
from zoo_compute.chain import keystore
from zoo_compute.store import BlockStore, Gateway

# -- accounts


def test_account__is_created_listed_and_found_as_the_only_one(zoo: Zoo) -> None:
    made = zoo.json("account", "create", "me")
    assert Path(made["keystore"]).stat().st_mode & 0o777 == 0o600
    assert zoo.json("account", "list")["accounts"] == [made]
    code, out, err = zoo.run("account", "show")
    assert code == 0
    assert made["address"] in out
    assert "balances unknown" in err


def test_account__created_twice__is_refused_and_kept(zoo: Zoo) -> None:
    made = zoo.json("account", "create", "me")
    before = Path(made["keystore"]).read_bytes()
    assert "already" in zoo.refused("account", "create", "me")
    assert Path(made["keystore"]).read_bytes() == before


def test_account__of_several__must_be_chosen(zoo: Zoo) -> None:
    for name in ("alice", "bob"):
        zoo.json("account", "create", name)
    assert "alice, bob" in zoo.refused("account", "show")
    assert "did you mean 'alice'" in zoo.refused("--account", "alcie", "account", "show")


def test_account__name_that_is_a_path__is_refused(zoo: Zoo) -> None:
    assert "plain word" in zoo.refused("account", "create", "../evil")


def test_account_import__takes_a_wallets_file_and_refuses_a_wrong_passphrase(
    zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = keystore.create(tmp_path / "wallet.json", "correct horse", work=keystore.DEVNET_WORK)
    monkeypatch.setenv("ZOO_PASSPHRASE", "wrong")
    assert "wrong passphrase" in zoo.refused("account", "import", str(tmp_path / "wallet.json"))
    assert zoo.json("account", "list")["accounts"] == []
    monkeypatch.setenv("ZOO_PASSPHRASE", "correct horse")
    assert zoo.json("account", "import", str(tmp_path / "wallet.json"), "--name", "old")["address"] == address


def test_passphrase__neither_given_nor_askable__is_told(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOO_PASSPHRASE")
    assert "ZOO_PASSPHRASE_FILE" in zoo.refused("account", "create", "me")


# -- stores


def test_store_add__with_json__prints_exactly_the_cid(zoo: Zoo, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"hello world\n")
    code, out, _ = zoo.run("store", "add", str(tmp_path / "text"), "--json")
    # as `ipfs add --cid-version=1 --raw-leaves` answers
    assert (code, out) == (0, '{"cid": "bafkreifjjcie6lypi6ny7amxnfftagclbuxndqonfipmb64f2km2devei4"}\n')
    assert zoo.json("store", "ls")["pins"] == [json.loads(out)["cid"]]


def test_store_get__writes_what_was_added(zoo: Zoo, tmp_path: Path) -> None:
    content = bytes(range(256)) * 3_000
    (tmp_path / "file").write_bytes(content)
    cid = zoo.json("store", "add", str(tmp_path / "file"))["cid"]
    got = zoo.json("store", "get", cid, "--out", str(tmp_path / "copy"))
    assert got == {"cid": cid, "path": str(tmp_path / "copy"), "bytes": len(content)}
    assert (tmp_path / "copy").read_bytes() == content


def test_store_get__of_missing_content__is_told_and_writes_nothing(zoo: Zoo, tmp_path: Path) -> None:
    cid = "bafkreifjjcie6lypi6ny7amxnfftagclbuxndqonfipmb64f2km2devei4"
    assert cid in zoo.refused("store", "get", cid, "--out", str(tmp_path / "copy"), "--timeout", "1")
    assert not (tmp_path / "copy").exists()


def test_store_get__of_tampered_content__is_told_and_writes_nothing(zoo: Zoo, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"honest")
    cid = zoo.json("store", "add", str(tmp_path / "file"))["cid"]
    (block,) = [path for path in (zoo.home / "store" / "blocks").rglob("*") if path.is_file()]
    block.chmod(0o644)
    block.write_bytes(b"forged")
    assert cid in zoo.refused("store", "get", cid, "--out", str(tmp_path / "copy"), "--timeout", "1")
    assert not (tmp_path / "copy").exists()


def test_store__bad_cid_and_unreachable_daemon__are_told(zoo: Zoo) -> None:
    assert "not-a-cid" in zoo.refused("store", "pin", "not-a-cid")
    assert "127.0.0.1:1" in zoo.refused("store", "ls", "--store", "kubo:http://127.0.0.1:1")


def test_store_pin__fetches_from_the_networks_gateway(
    zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = BlockStore(tmp_path / "other")
    cid = other.add(b"from afar")
    gateway = Gateway(other)
    gateway.start()
    try:
        monkeypatch.setattr(
            "zoo_compute.cli.context.Settings.network", lambda _: type("N", (), {"storage": (gateway.url,)})()
        )
        assert zoo.json("store", "pin", cid) == {"cid": cid, "pinned": True}
        assert zoo.json("store", "ls")["pins"] == [cid]
    finally:
        gateway.stop()


# -- doctor


def test_doctor__in_an_empty_home__lists_what_is_missing_and_exits_1(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo_compute.cli.doctor_checks.SystemChecks._torch", lambda _: (None, "there"))
    code, out, _ = zoo.run("doctor", "--json")
    report = json.loads(out)
    assert (code, report["ok"]) == (1, False)
    missing = {check["name"]: check["do"] for check in report["checks"] if not check["ok"]}
    assert set(missing) == {"network file", "account"}
    assert all(missing.values())


def test_doctor__tells_an_absent_extra_apart_from_something_missing(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    _, out, _ = zoo.run("doctor", "--json")
    torch = next(check for check in json.loads(out)["checks"] if check["name"] == "torch")
    assert (torch["ok"], torch["needed"], "zoo-compute[node]" in torch["do"]) == (False, False, True)
    _, out, _ = zoo.run("doctor", "--node", "--json")
    torch = next(check for check in json.loads(out)["checks"] if check["name"] == "torch")
    assert torch["needed"]


def test_doctor__unreachable_broker__is_told(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo_compute.cli.doctor_checks.SystemChecks._torch", lambda _: (None, "there"))
    folder = zoo.home / "node"
    folder.mkdir(parents=True)
    (folder / "operator.json").write_text(json.dumps({"broker": "redis://user:secret@127.0.0.1:1/0", "operator": 1}))
    code, out, _ = zoo.run("doctor", "--json")
    broker = next(check for check in json.loads(out)["checks"] if check["name"] == "broker")
    assert (code, broker["ok"], broker["needed"]) == (1, False, True)
    assert "127.0.0.1:1" in broker["found"]
    assert "secret" not in out


def test_configure__with_a_token__prices_that_token_and_leaves_zen_s_price(zoo: Zoo, tmp_path: Path) -> None:
    home, coin = str(tmp_path / "node"), "0x00000000000000000000000000000000000000AA"
    (tmp_path / "network.json").write_text("{}")
    configure = ("node", "configure", "--home", home)
    zoo.json(*configure, "--network-file", "network.json", "--operator", "3", "--price", "0.9")
    zoo.json(*configure, "--price", "0.8", "--token", coin.lower())
    config = zoo.json(*configure, "--aggregator-price", "0.1", "--token", coin)
    assert (config["price"], config["prices"]) == ("0.9", {coin: {"price": "0.8", "aggregator_price": "0.1"}})
    assert zoo.json(*configure, "--token", coin)["prices"] == {}
    code, _, err = zoo.run(*configure, "--price", "1", "--token", "USDC")
    assert (code, "--token takes an address or `credits`, not 'USDC'" in err) == (1, True)


@pytest.mark.parametrize(
    ("kept", "ok", "finding"),
    [
        (["cuda:0", "NVIDIA X", True, 466, ""], True, "NVIDIA X: all 466 cases have the right bits"),
        (["cuda:0", "NVIDIA X", False, 0, "not checked on this machine yet"], False, "NVIDIA X: not checked on"),
        (["mps", "Apple GPU (MPS)", False, 0, "this release has no kernels for mps"], False, "programs run on the CPU"),
        (["cpu", "CPU Y", False, 0, "not checked on this machine yet"], True, "`zoo node conformance` checks it"),
    ],
)
def test_doctor__of_a_node__says_whether_its_device_is_used(
    zoo: Zoo, monkeypatch: pytest.MonkeyPatch, kept: list[object], ok: bool, finding: str
) -> None:
    def answered(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(
            command, 0, json.dumps(kept) if "conformance" in command[2] else "[1, null]", ""
        )

    monkeypatch.setattr("zoo_compute.cli.doctor_checks.subprocess.run", answered)
    _, out, _ = zoo.run("doctor", "--node", "--json")
    kernels = next(check for check in json.loads(out)["checks"] if check["name"] == "kernels")
    assert (kernels["ok"], kernels["needed"]) == (ok, False)
    assert finding in kernels["found"]
    assert ok or ("docs/guides/hardware.md" if kept[0] == "mps" else "zoo node conformance") in kernels["do"]


def test_doctor__of_a_node_that_was_never_checked__reads_that_and_runs_nothing(zoo: Zoo) -> None:
    _, out, _ = zoo.run("doctor", "--node", "--json")
    kernels = next(check for check in json.loads(out)["checks"] if check["name"] == "kernels")
    assert "not checked on this machine yet" in kernels["found"]
    assert not (zoo.home / "conformance").exists()
