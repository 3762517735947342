"""`--unsigned` and `--safe` on a real chain: what is printed, sent from elsewhere, has the effect of the command itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_network import ESCROW, CliNetwork, Zoo, jobs, zoo_fixture  # noqa: F401
from tests.support.devnet_driver import DevnetOperator, rolled_back
from tests.support.unlocked import events_since, send_printed
from zoo_compute.chain import unsigned
from zoo_compute.chain.sender import Sender
from zoo_compute.paths import HOT_KEY, NEW_HOT_KEY
from zoo_compute.spec.params import ZEN

pytestmark = pytest.mark.integration

COMMANDS = {
    "announce": "node announce http://203.0.113.7:8600",
    "answer key": "node answer-key 0x1111111111111111111111111111111111111111",
    "hand over": "node hand-over 0x1111111111111111111111111111111111111111",
    "stake": "node stake 25",
    "unstake": "node unstake",
    "drain": "node drain",
    "deposit": "node deposit 12.5",
    "withdraw": "node withdraw --collateral 100",
    "declare": "node declare --hours 8-17 --region EU-DE",
    "offer audits": "node audit offer --places 2 --deposit 30",
    "deposit for custody": "node custody deposit 40",
    "contribute": "dataset contribute {text} --name fox",
    "cancel": "job cancel {job}",
    "fund audits": "job audit {job} --fund 7",
}


@pytest.fixture
def operator(place: CliNetwork) -> DevnetOperator:
    operator = DevnetOperator(place.devnet, "owner", price=1)
    place.account("owner", zen=6_000 * ZEN)
    return operator


def printed(zoo: Zoo, *arguments: str | Path) -> tuple[list[dict[str, Any]], str]:
    """The transactions, and what the command says on stderr."""
    code, out, err = zoo.run(*arguments, "--unsigned")
    assert code == 0, err
    return json.loads(out), err


def without_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ZOO_ACCOUNT", "ZOO_PASSPHRASE_FILE", "ZOO_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("zoo_compute.paths.find_keystore", lambda *_: pytest.fail("a key file is looked for"))
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "keyless"))


def post(zoo: Zoo, place: CliNetwork, *options: str) -> int:
    answer = zoo.json("train", place.config(), "--data", place.text, "--max-budget", "14", "--no-watch", *options)
    return int(answer["job"])


@pytest.mark.parametrize("name", COMMANDS)
def test_printed_transactions__do_what_the_command_does(
    zoo: Zoo, place: CliNetwork, operator: DevnetOperator, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devnet, owner = place.devnet, str(operator.account.address)
    monkeypatch.setenv("ZOO_ACCOUNT", str(devnet.key_file("owner")))
    job = post(zoo, place) if "{job}" in COMMANDS[name] else 0
    if job:
        devnet.fund(owner, zen=1_000 * ZEN)
    command = [part.format(job=job, text=place.text) for part in COMMANDS[name].split()]
    if command[0] == "node":
        command += ["--operator", str(operator.id)]
    before = devnet.chain.head().number
    with rolled_back(devnet):
        zoo.json(*command)
        expected = events_since(devnet, before)
    assert expected, "the command does something"

    without_keys(monkeypatch, tmp_path)
    transactions, said = printed(zoo, *command, "--from", owner)
    assert events_since(devnet, before) == [], "nothing is sent"
    for number, each in enumerate(transactions, 1):
        assert f"{number}. {each['description']}" in said
    send_printed(devnet, transactions)
    assert events_since(devnet, before) == expected


def test_approve_then_deposit__are_one_batch_in_words(zoo: Zoo, place: CliNetwork, operator: DevnetOperator) -> None:
    command = ("node", "deposit", "12.5", "--operator", str(operator.id), "--from", str(operator.account.address))
    transactions, _ = printed(zoo, *command)
    registry, zen = (place.devnet.network.contracts[name] for name in ("registry", "zen"))
    assert transactions.pop(0)["arguments"][1]["text"] == "0 ZEN", "a token may change an allowance by way of zero only"
    assert [each["description"] for each in transactions] == [
        f"let NodeRegistry ({registry}) take up to 12.5 ZEN from your account (ZenToken.approve at {zen})",
        f"add 12.5 ZEN to the collateral of operator {operator.id} (NodeRegistry.deposit at {registry})",
    ]
    assert [(each["to"], each["value"], each["chainId"]) for each in transactions] == [
        (zen, "0x0", hex(place.devnet.network.chain_id)),
        (registry, "0x0", hex(place.devnet.network.chain_id)),
    ]
    [number, token, amount] = transactions[1]["arguments"]
    assert (number["value"], amount["value"], amount["text"]) == (str(operator.id), str(25 * ZEN // 2), "12.5 ZEN")
    assert token["text"].startswith("ZEN (0x")


def test_a_batch_that_the_contract_would_refuse__is_refused_with_its_reason(zoo: Zoo, operator: DevnetOperator) -> None:
    options = ("--operator", str(operator.id), "--from", str(operator.account.address), "--unsigned")
    assert "registry:" in zoo.refused("node", "withdraw", "--collateral", "4000", *options)


def test_a_job__is_posted_by_what_is_printed__and_the_same_command_goes_on(
    zoo: Zoo, place: CliNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a job is known when it is mined: until then nothing after it is printed."""
    owner = str(place.devnet.account("multisig", zen=100 * ZEN).address)
    without_keys(monkeypatch, tmp_path)
    train = ("train", place.config(), "--data", place.text, "--max-budget", "14", "--from", owner)
    known = jobs(place)
    transactions, said = printed(zoo, *train)
    assert [each["function"] for each in transactions] == ["approve", "post"]
    assert "2 rounds of 3 slots, each for at most 2 ZEN a round" in transactions[1]["description"]
    assert "14 ZEN in escrow" in transactions[1]["description"]
    assert "coin along" in transactions[1]["description"]
    assert "the job gets its number when it is mined" in said
    assert int(transactions[1]["value"], 16) > 0, "the posting deposit"

    send_printed(place.devnet, transactions)
    assert jobs(place) == known + 1
    assert place.devnet.chain.tasks.jobs(known + 1).submitter == owner
    assert place.devnet.chain.tasks.jobs(known + 1).escrow == ESCROW

    left, said = printed(zoo, *train)
    assert left == []
    assert "already posted it" in said
    assert "posted before" in zoo.refused(*train, "--unsigned")


def test_an_operator__is_registered_in_two_batches(
    zoo: Zoo, place: CliNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = str(place.devnet.account("cold", zen=5_000 * ZEN).address)
    without_keys(monkeypatch, tmp_path)
    home = tmp_path / "keyless" / "node"
    register = (
        "node",
        "register",
        "--gpu-type",
        "rtx4090",
        "--memory",
        "24GB",
        "--deposit",
        "50",
        "--yes",
        "--from",
        owner,
    )
    first, said = printed(zoo, *register)
    assert [each["function"] for each in first] == ["approve", "register"]
    assert "run the same command again" in said
    assert not (home / "operator.json").exists()
    send_printed(place.devnet, first)
    second, _ = printed(zoo, *register)
    assert [each["function"] for each in second] == ["approve", "deposit", None]
    number = json.loads((home / "operator.json").read_text())["operator"]
    assert "send 1 coin to" in second[2]["description"]
    send_printed(place.devnet, second)
    assert printed(zoo, *register)[0] == []
    chain = place.devnet.chain
    assert chain.registry.collateral(number, chain.zen.address).balance == 50 * ZEN


def test_a_new_hot_key__waits_until_the_registry_knows_it(
    zoo: Zoo, place: CliNetwork, operator: DevnetOperator, tmp_path: Path
) -> None:
    home = tmp_path / "node"
    command = (
        "node",
        "hot-key",
        "--operator",
        str(operator.id),
        "--home",
        home,
        "--from",
        str(operator.account.address),
    )
    first, said = printed(zoo, *command)
    assert [each["function"] for each in first] == ["set_hot"]
    assert "when the registry knows it" in said
    assert (home / NEW_HOT_KEY).exists()
    assert not (home / HOT_KEY).exists()
    send_printed(place.devnet, first)
    second, _ = printed(zoo, *command)
    assert [each["function"] for each in second] == [None], "coin for the new key"
    assert (home / HOT_KEY).exists()
    assert not (home / NEW_HOT_KEY).exists()


def test_a_governors_call__is_scheduled__then_executed(zoo: Zoo, place: CliNetwork) -> None:
    governor = str(place.devnet.account("deployer").address)
    command = (
        "network",
        "govern",
        "guardian.appoint",
        "0x1111111111111111111111111111111111111111",
        "--from",
        governor,
    )
    first, said = printed(zoo, *command)
    assert [each["function"] for each in first] == ["schedule"]
    assert "call Guardian.appoint with account 0x1111111111111111111111111111111111111111" in first[0]["description"]
    assert "after it is mined, to execute it" in said
    send_printed(place.devnet, first)
    place.devnet.warp(place.devnet.chain.timelock.get_minimum_delay() + 1)
    second, _ = printed(zoo, *command)
    assert [each["function"] for each in second] == ["execute"]
    send_printed(place.devnet, second)
    assert place.devnet.chain.guardian.account() == "0x1111111111111111111111111111111111111111"


def test_an_rpc_that_cannot_simulate_in_a_row__prints_one_after_the_other(
    zoo: Zoo, place: CliNetwork, operator: DevnetOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsigned, "simulate_all", lambda *_: None)
    command = ("node", "deposit", "5", "--operator", str(operator.id), "--from", str(operator.account.address))
    for expected in ("approve", "approve", "deposit"):  # the allowance goes by way of zero
        transactions, said = printed(zoo, *command)
        assert [each["function"] for each in transactions] == [expected]
        assert expected == "deposit" or "cannot simulate several transactions in a row" in said
        send_printed(place.devnet, transactions)


def test_an_unsigned_account__in_python(place: CliNetwork, operator: DevnetOperator) -> None:
    from zoo_compute.chain.connection import connect
    from zoo_compute.chain.unsigned import UnsignedAccount

    account, chain = UnsignedAccount(str(operator.account.address)), connect(place.devnet.network)
    sender = Sender(chain, account)
    sender.send(chain.zen.approve(chain.registry.address, 3 * ZEN))
    assert chain.zen.allowance(account.address, chain.registry.address) == 3 * ZEN, "as it will be"
    assert place.devnet.chain.zen.allowance(account.address, chain.registry.address) != 3 * ZEN, "as it is"
