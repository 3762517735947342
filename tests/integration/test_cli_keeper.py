"""`zoo keeper check`, and a hot key that is replaced, against a real chain."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_network import CliNetwork, Zoo
from tests.integration.test_cli_node import register, zoo_of
from zoo_compute.chain import keystore
from zoo_compute.chain.network import load
from zoo_compute.operators.account import Operators

pytestmark = pytest.mark.integration


@pytest.fixture
def zoo(place: CliNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Zoo:
    return zoo_of(place, tmp_path, capsys, monkeypatch)


def checks(zoo: Zoo) -> tuple[int, dict[str, Any]]:
    """What `zoo keeper check` says, the last of each name."""
    code, out, _ = zoo.run("keeper", "check", "--json")
    return code, {check["name"]: check for check in json.loads(out)["checks"]}


def test_keeper_check__says_without_a_key_what_the_keeper_would_send_and_its_cost(
    zoo: Zoo, place: CliNetwork, tmp_path: Path
) -> None:
    answer = register(zoo, "--deposit", "100")
    zoo.json("node", "declare", "--hours", "0-23")
    zoo.json("node", "configure", "--price", "1", "--aggregator-price", "1")
    home = tmp_path / "home" / "node"
    (home / "passphrase").unlink()
    before = sorted(path for path in home.rglob("*") if path.name not in ("queue.key", "store"))
    sent = place.devnet.chain.w3.eth.get_transaction_count(str(answer["hot"]))
    code, found = checks(zoo)
    assert (code, found["operator"]["ok"], found["wiring"]["ok"], found["RPC"]["ok"]) == (0, True, True, True)
    assert "account" not in found
    assert re.fullmatch(r"NodeRegistry\.heartbeat: [\d,]+ gas, ~?0\.0\d+ of coin", found["would send"]["found"])
    assert re.search(r"1 transactions for ~?0\.0\d+ of coin, 0 pieces of work", found["next look"]["found"])
    assert place.devnet.chain.w3.eth.get_transaction_count(str(answer["hot"])) == sent
    assert [path for path in before if not path.exists()] == []


def test_keeper_check__fails_for_what_an_operator_lacks(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    register(zoo)
    network = load(place.devnet.network_file)
    other = tmp_path / "two.json"
    replace(network, rpcs=(*network.rpcs, "http://127.0.0.1:1")).save(other)
    zoo.json("node", "configure", "--network-file", str(other))
    code, found = checks(zoo)
    assert code == 1
    assert not found["RPC"]["ok"]
    assert "http://127.0.0.1:1" in found["RPC"]["found"]
    assert found["RPC"]["do"]
    assert (found["operator"]["found"], found["operator"]["do"]) == ("no collateral", "zoo node deposit 2500")
    assert found["next look"]["ok"], "the other RPC answers"


@pytest.mark.parametrize("dies", [False, True])
def test_hot_key__is_replaced_and_the_operator_is_the_same(
    zoo: Zoo, place: CliNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    first, home = register(zoo), tmp_path / "home" / "node"
    if dies:  # after the chain knows the new key, before the folder does
        with monkeypatch.context() as broken:
            broken.setattr(Operators, "top_up", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            assert zoo.run("node", "hot-key")[0] == 130
        assert keystore.address_of(home / "hot.json") == first["hot"]
    hot = zoo.json("node", "hot-key")["hot"]
    shown = place.devnet.chain.registry.hot_key(int(str(first["operator"])))
    assert hot == shown == keystore.unlock(home / "hot.json", (home / "passphrase").read_text().strip()).address
    assert hot != first["hot"]
    assert place.devnet.chain.coin(hot) == 2 * 10**16
    assert [keystore.address_of(path) for path in home.glob("hot.json.*")] == [first["hot"]]
    again = register(zoo)
    assert (again["operator"], again["hot"], again["new"]) == (first["operator"], hot, False)
