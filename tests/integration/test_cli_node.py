"""`zoo node` against a real chain: joining, money, leaving."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.cli_kit import Place, Zoo, a_place
from zoo_compute.chain import keystore
from zoo_compute.chain.sender import Sender
from zoo_compute.spec.params import ZEN

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    with a_place(tmp_path_factory.mktemp("place")) as found:
        yield found


@pytest.fixture
def zoo(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Zoo:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_NETWORK", str(place.devnet.network_file))
    monkeypatch.setenv("ZOO_ACCOUNT", str(place.account(f"owner-{tmp_path.name}")))
    monkeypatch.setenv("ZOO_PASSPHRASE_FILE", str(place.devnet.passphrase_file))
    monkeypatch.chdir(tmp_path)
    return Zoo(place, capsys)


def register(zoo: Zoo) -> dict[str, object]:
    return zoo.json("node", "register", "--gpu-type", "rtx4090", "--memory", "24GB")


def test_register__makes_the_hot_key_stakes_and_writes_what_start_needs(zoo: Zoo, place: Place, tmp_path: Path) -> None:
    told = register(zoo)
    home = tmp_path / "home" / "node"
    assert (told["class"], told["multiplier_percent"], told["vram_gb"], told["stake"], told["new"]) == (
        "consumer",
        100,
        24,
        str(100 * ZEN),
        True,
    )
    assert keystore.unlock(home / "hot.json", (home / "passphrase").read_text().strip()).address == told["hot"]
    assert {path.stat().st_mode & 0o077 for path in (home / "hot.json", home / "passphrase")} == {0}
    assert place.devnet.chain.coin(str(told["hot"])) == 10**18
    assert place.devnet.chain.zen.allowance(told["owner"], place.devnet.network.contracts["registry"]) == 0

    from keepers.config import load

    config = load(home)
    assert (config.operator, config.network_path) == (told["operator"], place.devnet.network_file)
    assert config.endpoint == f"http://127.0.0.1:{config.gateway_port}"

    shown = zoo.json("node", "show")
    assert (shown["operator"], shown["eligible"], shown["stake"], shown["endpoint"]) == (
        told["operator"],
        True,
        str(100 * ZEN),
        config.endpoint,
    )


def test_register__run_again__is_the_same_operator(zoo: Zoo) -> None:
    first = register(zoo)
    again = register(zoo)
    assert (again["operator"], again["hot"], again["new"]) == (first["operator"], first["hot"], False)


def test_register__killed_after_the_transaction__finds_its_operator(
    zoo: Zoo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    send_coin = Sender.send_coin

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Sender, "send_coin", dies)
    assert zoo.run("node", "register", "--gpu-type", "rtx4090", "--memory", "24GB")[0] == 130
    assert not (tmp_path / "home" / "node" / "operator.json").exists()
    monkeypatch.setattr(Sender, "send_coin", send_coin)
    told = register(zoo)
    assert told["new"] is False
    assert json.loads((tmp_path / "home" / "node" / "operator.json").read_text())["operator"] == told["operator"]


def test_stake_and_collateral__move_to_the_wei(zoo: Zoo) -> None:
    number = register(zoo)["operator"]
    before = int(zoo.json("account", "show")["zen"])
    assert zoo.json("node", "stake", "50.5")["stake"] == str(150 * ZEN + ZEN // 2)
    assert zoo.json("node", "deposit", "200")["collateral"] == str(200 * ZEN)
    assert int(zoo.json("account", "show")["zen"]) == before - 250 * ZEN - ZEN // 2
    assert zoo.json("node", "withdraw", "--collateral", "all") == {
        "operator": number, "payments": "0", "rewards": "0", "collateral": str(200 * ZEN),
    }  # fmt: skip
    told = zoo.refused("node", "withdraw", "--collateral", "1")
    assert "exceeds free collateral" in told
    earned = zoo.json("node", "earnings")
    assert (earned["paid"], earned["slashed"], earned["claims"]) == ("0", "0", [])


def test_leaving__drains_waits_for_the_delay_and_returns_the_stake(zoo: Zoo, place: Place, tmp_path: Path) -> None:
    register(zoo)
    marker = tmp_path / "home" / "node" / "draining"
    before = int(zoo.json("account", "show")["zen"])
    drained = zoo.json("node", "drain")
    assert marker.exists()
    assert drained["exit_at"] > 0
    assert zoo.json("node", "show")["eligible"] is False
    assert "exit delay runs" in zoo.refused("node", "unstake")
    place.devnet.warp_to(drained["exit_at"])
    assert zoo.json("node", "unstake")["withdrawn"] == str(100 * ZEN)
    assert int(zoo.json("account", "show")["zen"]) == before + 100 * ZEN
    assert "nothing at stake" in zoo.refused("node", "unstake")
    zoo.json("node", "drain", "--undo")
    assert not marker.exists()


def test_announce__is_seen_by_others(zoo: Zoo) -> None:
    register(zoo)
    zoo.json("node", "announce", "http://203.0.113.7:8600")
    assert zoo.json("node", "show")["endpoint"] == "http://203.0.113.7:8600"
    assert "an endpoint is a URL" in zoo.refused("node", "announce", "203.0.113.7")


def test_bad_input__is_refused_with_what_to_do(zoo: Zoo, place: Place) -> None:
    assert "has no operator" in zoo.refused("node", "show")
    assert "there is no operator 4711" in zoo.refused("node", "show", "--operator", "4711")
    assert "below the network's least" in zoo.refused(
        "node", "register", "--gpu-type", "m2", "--memory", "16GB", "--stake", "99"
    )
    told = zoo.refused("node", "register", "--gpu-type", "m2", "--memory", "16GB", "--stake", "5000")
    assert "1,000 ZEN" in told
    assert "5,000 ZEN" in told
    register(zoo)
    other = place.account("stranger")
    told = zoo.refused("node", "unstake", "--account", other)
    assert "not the owner" in told
