"""The network file: strict, atomic, and clear about what to do."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from zoo_compute.chain import network
from zoo_compute.chain.network import CONTRACTS, Network, load, parse
from zoo_compute.chain.provider import FailoverProvider, authorization, redacted
from zoo_compute.errors import ConfigError, Unreachable
from zoo_compute.spec.params import PRESETS


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("sockets are blocked in unit tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("zoo_compute.chain.provider.PAUSE_S", 0)


def document() -> dict:
    return {
        "version": 1,
        "name": "testnet",
        "preset": "devnet",
        "chain_id": 31337,
        "first_block": 7,
        "rpcs": ["http://127.0.0.1:1", "https://rpc.example"],
        "storage": [],
        "signer": None,
        "contracts": {name: f"0x{index + 1:040x}" for index, name in enumerate(CONTRACTS)},
        "code_hashes": {name: f"0x{index + 1:064x}" for index, name in enumerate(CONTRACTS)},
    }


def test_a_saved_network__loads_equal(tmp_path: Path):
    parsed = parse(document())
    parsed.save(tmp_path / "network.json")
    assert load(tmp_path / "network.json") == parsed
    assert parsed.params is PRESETS["devnet"]


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"chain_idd": 1}, "unknown key 'chain_idd'", "did you mean 'chain_id'?"),
        ({"completely_unlike": 1}, "unknown key 'completely_unlike'", "known keys:"),
        ({"preset": "devnett"}, "preset is 'devnett', expected one of devnet, production", "did you mean 'devnet'?"),
        ({"chain_id": "1"}, "chain_id is '1', expected an integer", ""),
        ({"chain_id": True}, "chain_id is True", ""),
        ({"first_block": -1}, "first_block is -1", ""),
        ({"version": 2}, "version 2, expected 1", "upgrade"),
        ({"name": "../../etc"}, "name is", ""),
        ({"rpcs": []}, "rpcs is [], expected a list of at least 1 URLs", ""),
        ({"rpcs": "http://127.0.0.1"}, "expected a list", ""),
        ({"rpcs": ["ws://127.0.0.1"]}, "rpcs[0] is 'ws://127.0.0.1', expected an http(s) URL", ""),
        ({"rpcs": ["https://user:secret@rpc.example"]}, "contains a user name or password", "API key"),
        ({"signer": 5}, "signer is 5", ""),
        ({"contracts": {**document()["contracts"], "zen": "0x12"}}, "contracts.zen is '0x12'", ""),
        ({"contracts": {**document()["contracts"], "zen": "0x" + "0" * 40}}, "contracts.zen is", ""),
        ({"contracts": {**document()["contracts"], "zenn": "0x12"}}, "unknown key 'zenn' in contracts", "'zen'"),
        (
            {"contracts": {}},
            "contracts lacks admissions, auction, audit_pool, audits, availability, channels, consistency, credits, custody, datasets, descent, evidence, executor, guardian, locks, referee, registry",
            "complete",
        ),
        ({"contracts": []}, "contracts is a list", ""),
        ({"code_hashes": {**document()["code_hashes"], "zen": "0x12"}}, "code_hashes.zen is '0x12'", ""),
    ],
)
def test_a_wrong_value__is_refused_with_what_was_expected(change: dict, message: str, hint: str):
    with pytest.raises(ConfigError) as caught:
        parse({**document(), **change})
    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_an_address__with_a_changed_digit_is_refused():
    good = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
    contracts = {**document()["contracts"], "zen": good}
    assert parse({**document(), "contracts": contracts}).contracts["zen"] == good
    with pytest.raises(ConfigError, match="checksum"):
        parse({**document(), "contracts": {**contracts, "zen": good.replace("5aA", "5bA")}})


def test_a_missing_key__is_named():
    incomplete = document()
    del incomplete["rpcs"]
    with pytest.raises(ConfigError, match="lacks rpcs"):
        parse(incomplete)


@pytest.mark.parametrize("content", ["", "{", "[]", '"x"', "null", "\x00"])
def test_a_broken_file__is_named(tmp_path: Path, content: str):
    path = tmp_path / "network.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"network\.json"):
        load(path)


def test_an_absent_file__says_where_to_get_one(tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "absent.json")
    assert "zoo devnet" in caught.value.hint


def test_a_failed_save__leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "network.json"
    parse(document()).save(path)
    before = path.read_text()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        replace(parse(document()), name="other").save(path)
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["network.json"]


def test_an_api_key__never_travels_in_clear_text_to_another_machine():
    assert authorization(None, ["http://rpc.example"]) == {}
    assert authorization("key", ["https://rpc.example"]) == {"Authorization": "Bearer key"}
    assert authorization("key", ["http://127.0.0.1:8545"]) == {"Authorization": "Bearer key"}
    with pytest.raises(ConfigError, match="clear text"):
        authorization("key", ["https://rpc.example", "http://rpc.example"])
    for bad in ("", "a b", "k\n", "schlüssel"):
        with pytest.raises(ConfigError, match="API key"):
            authorization(bad, ["https://rpc.example"])


def test_no_rpc__is_told_of_each_without_its_path():
    """Hosted RPCs carry keys in the path; messages end up in logs."""
    provider = FailoverProvider(["http://127.0.0.1:1/v1/SECRET", "https://rpc.example/SECRET"], 31337, "SECRET")
    with pytest.raises(Unreachable) as caught:
        provider.make_request("eth_blockNumber", [])  # type: ignore[arg-type]
    assert "SECRET" not in str(caught.value)
    for endpoint in ("http://127.0.0.1:1", "https://rpc.example"):
        assert f"{endpoint}: connection failed" in str(caught.value)
    assert redacted("https://host:8/key?x=1") == "https://host:8"


def test_a_forked_process__opens_connections_of_its_own(monkeypatch: pytest.MonkeyPatch):
    provider = FailoverProvider(["http://127.0.0.1:1"], 31337)
    before = provider.endpoints
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(Unreachable):
        provider.make_request("eth_blockNumber", [])  # type: ignore[arg-type]
    assert provider.endpoints is not before


def test_the_file__is_what_the_docstring_shows():
    doc = network.__doc__ or ""
    assert all(f'"{key}"' in doc for key in document())
    assert Network.__dataclass_fields__.keys() == document().keys() - {"version"}


def test_the_saved_file__is_json_with_a_version(tmp_path: Path):
    parse(document()).save(tmp_path / "n.json")
    assert json.loads((tmp_path / "n.json").read_text())["version"] == 1


def test_an_rpc_on_this_machine__is_asked_without_proxies_and_netrc():
    provider = FailoverProvider(("http://127.0.0.1:1", "https://rpc.example"), 1)
    sessions = [
        each.rpc._request_session_manager.cache_and_return_session(each.rpc.endpoint_uri) for each in provider.endpoints
    ]
    assert [session.trust_env for session in sessions] == [False, True]
