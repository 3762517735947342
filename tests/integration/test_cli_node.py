"""`zoo node` against a real chain: joining, money, leaving."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_network import CliNetwork, Zoo, cli_network
from tests.support.waiting import HANG_S
from zoo_compute.chain import keystore
from zoo_compute.operators import registration
from zoo_compute.operators.account import Operators
from zoo_compute.operators.machine import Card
from zoo_compute.spec.params import ZEN

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory):
    with cli_network(tmp_path_factory.mktemp("production"), preset="production") as cli:
        yield cli


@pytest.fixture
def zoo(place: CliNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Zoo:
    return zoo_of(place, tmp_path, capsys, monkeypatch)


def zoo_of(
    place: CliNetwork,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    zen: int = 5_000 * ZEN,
) -> Zoo:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_NETWORK", str(place.devnet.network_file))
    monkeypatch.setenv("ZOO_ACCOUNT", str(place.account(f"owner-{tmp_path.name}", zen=zen)))
    monkeypatch.setenv("ZOO_PASSPHRASE_FILE", str(place.devnet.passphrase_file))
    monkeypatch.chdir(tmp_path)
    return Zoo(place, capsys)


CARD = ("--gpu-type", "rtx4090", "--memory", "24GB")


def register(zoo: Zoo, *options: str) -> dict[str, object]:
    return zoo.json("node", "register", *CARD, *(options or ("--deposit", "0")))


def test_register__makes_the_hot_key_stakes_and_writes_what_start_needs(
    zoo: Zoo, place: CliNetwork, tmp_path: Path
) -> None:
    answer = register(zoo)
    home = tmp_path / "home" / "node"
    assert (answer["class"], answer["multiplier_percent"], answer["vram_gb"], answer["stake"], answer["new"]) == (
        "consumer",
        100,
        24,
        str(100 * ZEN),
        True,
    )
    assert keystore.unlock(home / "hot.json", (home / "passphrase").read_text().strip()).address == answer["hot"]
    assert {path.stat().st_mode & 0o077 for path in (home / "hot.json", home / "passphrase")} == {0}
    assert place.devnet.chain.coin(str(answer["hot"])) == 10**18
    assert place.devnet.chain.zen.allowance(answer["owner"], place.devnet.network.contracts["registry"]) == 0

    from keepers.config import load

    config = load(home)
    assert (config.operator, config.network_path) == (answer["operator"], place.devnet.network_file)
    assert config.endpoint == f"http://127.0.0.1:{config.gateway_port}"

    facts = zoo.json("node", "show")
    assert (facts["operator"], facts["eligible"], facts["stake"], facts["endpoint"]) == (
        answer["operator"],
        True,
        str(100 * ZEN),
        config.endpoint,
    )


def test_register__run_again__is_the_same_operator(zoo: Zoo) -> None:
    first = register(zoo)
    again = register(zoo)
    assert (again["operator"], again["hot"], again["new"]) == (first["operator"], first["hot"], False)


@pytest.mark.parametrize(
    ("at", "step"),
    [("deposit", Operators.deposit), ("top_up", Operators.top_up), ("register", registration._write_config)],
)
def test_register__killed_at_any_step__goes_on_and_registers_once(
    zoo: Zoo, place: CliNetwork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at: str, step: Any
) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    owner, name = (registration, "_write_config") if at == "register" else (Operators, at)
    monkeypatch.setattr(owner, name, dies)
    before = place.devnet.chain.registry.operator_count()
    assert zoo.run("node", "register", *CARD)[0] == 130
    monkeypatch.setattr(owner, name, step)
    answer = zoo.json("node", "register")
    assert place.devnet.chain.registry.operator_count() == before + 1
    assert (answer["new"], answer["stake"], answer["collateral"]) == (False, str(100 * ZEN), str(2_500 * ZEN))
    assert place.devnet.chain.coin(str(answer["hot"])) == 10**18
    assert json.loads((tmp_path / "home" / "node" / "operator.json").read_text())["operator"] == answer["operator"]


def test_register__without_options_and_without_a_gpu__makes_a_node_that_may_bid_on_a_devnet(
    zoo: Zoo, place: CliNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo_compute.operators.machine._SOURCES", ())
    code, out, err = zoo.run("register", "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert (answer["class"], answer["collateral"], answer["roles"]) == (
        "consumer",
        str(2_500 * ZEN),
        ["provider", "aggregator"],
    )
    assert "using the CPU, which a devnet allows" in err
    sent = next(line for line in err.splitlines() if line.startswith("to send from"))
    for part in (
        "stake 100 ZEN",
        "collateral 2,500 ZEN",
        "1 coin",
        answer["owner"],
        answer["hot"],
        place.devnet.network.contracts["registry"],
    ):
        assert part in sent
    assert zoo.json("node", "status")["needs"] == [{"what": "the node does not run", "do": "zoo node start"}]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


ANSWERS = ("", "", "0.8", "200", "http://203.0.113.7:8600", "")  # class, memory, price, collateral, endpoint, listen


def test_register__in_a_terminal__asks_for_what_it_cannot_know_and_sends_when_agreed(
    production: CliNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo = zoo_of(production, tmp_path, capsys, monkeypatch, zen=1_200 * ZEN)
    card = Card("NVIDIA GeForce RTX 4090", 24, "nvidia", "cuda:0")
    monkeypatch.setattr("zoo_compute.operators.machine._SOURCES", (lambda: [card],))
    before = production.devnet.chain.registry.operator_count()
    monkeypatch.setattr("sys.stdin", Terminal("\n".join((*ANSWERS, "n")) + "\n"))
    code, _, err = zoo.run("node", "register")
    assert (code, production.devnet.chain.registry.operator_count()) == (130, before), "nothing is sent without a yes"
    for asked in ("card: NVIDIA GeForce RTX 4090, 24 GB", "your cost", "which bids lock", "URL at which", "0.0.0.0"):
        assert asked in err
    assert "stake 1,000 ZEN and collateral 200 ZEN to the registry" in err

    monkeypatch.setattr("sys.stdin", Terminal("\n".join((*ANSWERS, "")) + "\n"))
    code, out, err = zoo.run("node", "register")
    assert code == 0, err
    assert "stake 1,000 ZEN, collateral 200 ZEN" in out
    written = json.loads((tmp_path / "home" / "node" / "operator.json").read_text())
    answer = {key: written[key] for key in ("price", "endpoint", "gateway_host", "gateway_port")}
    assert answer == {
        "price": "0.8", "endpoint": "http://203.0.113.7:8600", "gateway_host": "0.0.0.0", "gateway_port": 8600,
    }  # fmt: skip


def test_register__without_a_terminal_in_production__deposits_only_where_it_is_asked_to(
    production: CliNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo = zoo_of(production, tmp_path, capsys, monkeypatch, zen=3_500 * ZEN)
    code, out, err = zoo.run("node", "register", *CARD)
    assert code == 0, err
    assert "no collateral yet, so it cannot bid: zoo node deposit 2500" in out
    assert "no --endpoint: others cannot fetch" in err
    assert "gateway_host" not in json.loads((tmp_path / "home" / "node" / "operator.json").read_text())
    assert zoo.json("node", "register", "--yes")["collateral"] == str(2_500 * ZEN)
    answer = [need["what"] for need in zoo.json("node", "status")["needs"]]
    assert "no endpoint is announced, so nobody can fetch your results" in answer


def test_register__in_a_folder_of_another_network__is_refused(
    zoo: Zoo, place: CliNetwork, production: CliNetwork
) -> None:
    register(zoo)
    network = ("--network", production.devnet.network_file)
    answer = zoo.refused("node", "register", *CARD, *network)
    assert "pass --home FOLDER for an operator of another network" in answer
    needs = zoo.json("node", "status", *network)["needs"]
    assert {"export ZOO_NETWORK=" + str(place.devnet.network_file)} & {need["do"] for need in needs}


def test_start__on_a_chain_that_was_started_anew__is_refused_and_register_mends_it(
    zoo: Zoo, place: CliNetwork, tmp_path: Path
) -> None:
    register(zoo)
    path = tmp_path / "home" / "node" / "operator.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"operator": 4711}))
    assert "this network has no operator 4711 | zoo node register" in zoo.refused("node", "start")
    zoo.json("node", "register")
    assert json.loads(path.read_text())["operator"] != 4711


def test_register__without_the_money__says_how_much_is_missing_and_sends_nothing(zoo: Zoo, place: CliNetwork) -> None:
    poor = ("--account", place.account("poor", zen=150 * ZEN))
    before = place.devnet.chain.registry.operator_count()
    answer = zoo.refused("node", "register", *CARD, *poor)
    assert "lacks 2,450 ZEN: the stake is 100 ZEN, the collateral 2,500 ZEN" in answer
    assert place.devnet.chain.registry.operator_count() == before
    assert zoo.json("node", "register", *CARD, "--deposit", "20", *poor)["collateral"] == str(20 * ZEN)


def test_register__in_a_folder_of_another_owner__is_refused(zoo: Zoo, place: CliNetwork) -> None:
    number = register(zoo)["operator"]
    answer = zoo.refused("node", "register", *CARD, "--account", place.account("second"))
    assert f"already belongs to operator {number}" in answer


def test_what_is_missing__is_said_by_status_and_doctor_until_it_is_mended(
    zoo: Zoo, place: CliNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo_compute.cli.doctor_checks.SystemChecks._torch", lambda _: (None, "there"))
    register(zoo)
    need = {"what": "no collateral", "do": "zoo node deposit 2500"}
    assert need in zoo.json("node", "status")["needs"]
    code, out, _ = zoo.run("doctor", "--json")
    assert (code, json.loads(out)["needs"]) == (1, [need])
    endpoint = next(check for check in json.loads(out)["checks"] if check["name"] == "endpoint")
    assert endpoint["ok"], "the doctor lends the gateway that does not run yet"
    zoo.json("node", "deposit", "2500")
    assert need not in zoo.json("node", "status")["needs"]
    assert json.loads(zoo.run("doctor", "--json")[1])["needs"] == []


def test_stake_and_collateral__move_to_the_wei(zoo: Zoo) -> None:
    number = register(zoo)["operator"]
    before = int(zoo.json("account", "show")["zen"])
    assert zoo.json("node", "stake", "50.5")["stake"] == str(150 * ZEN + ZEN // 2)
    assert zoo.json("node", "deposit", "200")["collateral"] == str(200 * ZEN)
    assert int(zoo.json("account", "show")["zen"]) == before - 250 * ZEN - ZEN // 2
    withdrawn = zoo.json("node", "withdraw", "--collateral", "all")
    assert withdrawn.pop("token")["symbol"] == "ZEN"
    assert withdrawn == {
        "operator": number, "payments": "0", "rewards": "0", "coin": "0", "collateral": str(200 * ZEN),
    }  # fmt: skip
    answer = zoo.refused("node", "withdraw", "--collateral", "1")
    assert "exceeds free collateral" in answer
    earned = zoo.json("node", "earnings")
    assert (earned["paid"], earned["slashed"], earned["claims"]) == ("0", "0", [])


def test_leaving__drains_waits_for_the_delay_and_returns_the_stake(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    register(zoo)
    marker = tmp_path / "home" / "node" / "draining"
    before = int(zoo.json("account", "show")["zen"])
    drained = zoo.json("node", "drain")
    assert marker.exists()
    assert drained["exit_at"] > 0
    assert zoo.json("node", "drain", "--undo")["exit_at"] > 0, "an exit is not undone"
    assert "takes no work: its exit is requested" in zoo.run("node", "drain", "--undo")[1]
    assert zoo.json("node", "show")["eligible"] is False
    assert "exit delay runs" in zoo.refused("node", "unstake")
    place.devnet.warp_to(drained["exit_at"])
    assert zoo.json("node", "unstake")["withdrawn"] == str(100 * ZEN)
    assert int(zoo.json("account", "show")["zen"]) == before + 100 * ZEN
    assert "nothing at stake" in zoo.refused("node", "unstake")
    zoo.json("node", "drain", "--undo")
    assert not marker.exists()


def test_answer_key__until_it_is_removed__may_answer(zoo: Zoo, place: CliNetwork) -> None:
    register(zoo)
    other, registry = "0x" + "ab" * 20, place.devnet.chain.registry
    assert "is no address" in zoo.refused("node", "answer-key", "0xab")
    allowed = zoo.json("node", "answer-key", other)
    assert allowed["allowed"] is True
    assert allowed["account"].lower() == other
    assert registry.may_answer(allowed["operator"], allowed["account"])
    assert zoo.json("node", "answer-key", other, "--remove")["allowed"] is False
    assert not registry.may_answer(allowed["operator"], allowed["account"])


def test_announce__is_seen_by_others(zoo: Zoo) -> None:
    register(zoo)
    zoo.json("node", "announce", "http://203.0.113.7:8600")
    assert zoo.json("node", "show")["endpoint"] == "http://203.0.113.7:8600"
    assert "an endpoint is a URL" in zoo.refused("node", "announce", "203.0.113.7")


def test_a_sponsor__registers_who_agreed_to_it_once(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    agreed = zoo.json("node", "consent", "--gpu-type", "rtx4090", "--memory", "24GB", "--out", "agreed.json")
    mine = zoo.json("account", "show")
    sponsor = ("--account", str(place.account(f"sponsor-{tmp_path.name}")))
    done = zoo.json("node", "register-for", "agreed.json", "--hot-coin", "0.5", *sponsor)
    assert (done["owner"], done["hot"]) == (mine["address"], agreed["hot"])
    assert place.devnet.chain.coin(agreed["hot"]) == 10**18 // 2
    assert zoo.json("account", "show")["zen"] == mine["zen"], "the sponsor pays the stake"
    assert "owner did not sign" in zoo.refused("node", "register-for", "agreed.json", *sponsor), "its nonce is spent"
    cli = register(zoo)
    assert (cli["operator"], cli["new"], cli["stake"]) == (done["operator"], False, str(100 * ZEN))

    forged = json.loads(Path("agreed.json").read_text()) | {"vram_gb": 48, "nonce": 1}
    Path("forged.json").write_text(json.dumps(forged))
    assert "did not sign" in zoo.refused("node", "register-for", "forged.json", *sponsor)
    Path("abroad.json").write_text(json.dumps(forged | {"chain_id": 1}))
    assert "on chain 1, this network's is" in zoo.refused("node", "register-for", "abroad.json", *sponsor)
    Path("none.json").write_text("{}")
    assert "not a consent" in zoo.refused("node", "register-for", "none.json", *sponsor)


def test_declare__promises_hours_and_tells_the_keeper(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    register(zoo)
    epoch_s = place.devnet.chain.params.epoch_s
    place.devnet.warp_to((place.devnet.chain.now() // epoch_s + 1) * epoch_s)  # in one epoch a promise may be changed
    assert zoo.json("node", "declare", "--hours", "8-10,22")["hours"] == [8, 9, 10, 22]
    assert zoo.json("node", "show")["hours"] == [8, 9, 10, 22]
    assert "hours 8-10, 22" in zoo.run("node", "show")[1]

    from keepers.config import load

    assert load(tmp_path / "home" / "node").availability_hours == [8, 9, 10, 22]
    assert "not an hour or a range" in zoo.refused("node", "declare", "--hours", "24")
    other = ("node", "register", *CARD, "--deposit", "0", "--home", tmp_path / "other")
    number = str(zoo.json(*other)["operator"])
    assert f"not {number}" in zoo.refused("node", "declare", "--operator", number, "--hours", "3")
    assert load(tmp_path / "home" / "node").availability_hours == [8, 9, 10, 22]
    assert "class below the tier" in zoo.refused("node", "declare", "--tier", "gold", "--hours", "0-23")
    assert "'DE' is no region" in zoo.refused("node", "declare", "--region", "DE")
    declared = zoo.json("node", "declare", "--region", "eu-de")
    assert declared.keys() >= {"region", "region_transaction"}
    assert "hours" not in declared, "a region alone leaves the promise as it is"
    shown = zoo.json("node", "show")
    assert (shown["region"], shown["hours"]) == ("EU-DE", [8, 9, 10, 22])
    assert zoo.json("node", "declare", "--region", "none", "--hours", "8")["hours"] == [8]
    assert zoo.json("node", "show")["region"] == ""
    zoo.json("node", "declare")
    assert zoo.json("node", "show")["hours"] == []


def test_bad_input__is_refused_with_what_to_do(zoo: Zoo, place: CliNetwork) -> None:
    assert "has no operator" in zoo.refused("node", "show")
    assert "there is no operator 4711" in zoo.refused("node", "show", "--operator", "4711")
    assert "below the network's minimum" in zoo.refused(
        "node", "register", "--gpu-type", "m2", "--memory", "16GB", "--stake", "99"
    )
    answer = zoo.refused("node", "register", "--gpu-type", "m2", "--memory", "16GB", "--stake", "200.0000001")
    assert "a stake must be a multiple of 0.000001 ZEN" in answer
    answer = zoo.refused("node", "register", "--gpu-type", "m2", "--memory", "16GB", "--stake", "5000")
    assert "lacks 2,500 ZEN" in answer
    assert "5,000 ZEN" in answer
    register(zoo)
    other = place.account("stranger")
    answer = zoo.refused("node", "unstake", "--account", other)
    assert "not the owner" in answer


def completions(*words: str) -> list[str]:
    """What `zoo` answers to bash where somebody presses Tab behind the words."""
    environment = {
        **os.environ,
        "_ZOO_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["zoo", *words]),
        "COMP_CWORD": str(len(words)),
    }
    command = [str(Path(sys.executable).with_name("zoo"))]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S, check=True)
    return [line.removeprefix("plain,") for line in answer.stdout.split()]


def test_completion__proposes_the_operators_of_the_network_newest_first(zoo: Zoo, tmp_path: Path) -> None:
    newest = register(zoo)["operator"]
    assert isinstance(newest, int)
    proposed = completions("node", "show", "--operator", "")
    assert proposed == [str(number) for number in range(newest, 0, -1)]
    assert completions("node", "show", "--operator", str(newest)) == [str(newest)]


def test_completion__where_no_network_answers__proposes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_NETWORK", str(tmp_path / "none.json"))
    assert completions("node", "show", "--operator", "") == []
