"""`zoo network check` and `govern`, the audits' pool, and an operator's new owner, on a real chain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from keepers.monitoring.lanes import Lanes
from keepers.processes import keeper_process
from tests.integration.cli_network import CliNetwork, Zoo, zoo_fixture  # noqa: F401
from zoo_compute.chain import network
from zoo_compute.chain.connection import connect
from zoo_compute.chain.deployment import Web3Deployer, deploy
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.chain.wiring import check_wiring
from zoo_compute.errors import WrongDeployment
from zoo_compute.spec.params import DEVNET, ZEN

pytestmark = pytest.mark.integration

FOR_EVER = 2**40 - 1


@pytest.fixture(scope="module")
def mixed(place: CliNetwork, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the auction of a second version: the code hashes are right, the wiring is not."""
    w3 = place.devnet.chain.w3
    zen = place.devnet.network.contracts["zen"]
    second = deploy(Web3Deployer(w3, place.devnet.account("deployer")), DEVNET, devnet=True, zen=zen)
    ours = network.load(place.devnet.network_file)
    file = tmp_path_factory.mktemp("mixed") / "network.json"
    replace(
        ours,
        contracts={**ours.contracts, "auction": second.contracts["auction"]},
        code_hashes={**ours.code_hashes, "auction": second.code_hashes["auction"]},
    ).save(file)
    return file


def deployer(place: CliNetwork) -> tuple[str, str]:
    return "--account", str(place.devnet.key_file("deployer"))


def test_check__of_a_network_that_is_wired_as_its_file_says(zoo: Zoo, place: CliNetwork) -> None:
    found = zoo.json("network", "check")
    assert (found["ok"], found["faults"], found["paused_until"]) == (True, [], {})
    assert found["timelock_s"] == DEVNET.timelock_s
    assert found["guardian"] == place.devnet.account("deployer").address
    assert f"{len(CONTRACTS)} contracts are wired as the file says" in zoo.run("network", "check")[1]


def test_a_contract_of_another_version__passes_the_code_hashes_and_is_noticed(
    zoo: Zoo, place: CliNetwork, mixed: Path
) -> None:
    code, out, _ = zoo.run("network", "check", "--network", mixed)
    assert code == 1
    assert "MISWIRED Auction.registry is " in out
    assert f"expected NodeRegistry at {place.devnet.network.contracts['registry']}" in out
    assert "MISWIRED NodeRegistry.auction is " in out
    chain = connect(network.load(mixed))
    with pytest.raises(WrongDeployment, match=r"miswired: Auction\.guardian is 0x"):
        check_wiring(chain)
    code, out, _ = zoo.run("doctor", "--network", mixed)
    assert code == 1
    assert "MISSING wiring" in out
    assert "do not use it" in out


def test_a_keeper__does_not_start_on_a_network_that_is_miswired(place: CliNetwork, mixed: Path, tmp_path: Path) -> None:
    class Config:
        network_path, poll_s, folder = mixed, 0.1, tmp_path
        keystore, passphrase_file = place.devnet.key_file("deployer"), place.devnet.passphrase_file

        def path(self, name: Path) -> Path:
            return name

    with pytest.raises(WrongDeployment, match="is miswired"):
        keeper_process.make_keeper(Config(), app=None, client=None, lanes=Lanes())  # type: ignore[arg-type]


def test_doctor__names_the_wiring(zoo: Zoo) -> None:
    _, out, _ = zoo.run("doctor", "--json")
    checks = {check["name"]: check["ok"] for check in json.loads(out)["checks"]}
    assert checks["wiring"] is True


def test_govern__closes_an_intake_and_opens_it_again(zoo: Zoo, place: CliNetwork) -> None:
    chain, by = place.devnet.chain, deployer(place)
    close = ("network", "govern", "guardian.govern", chain.tasks.address, str(FOR_EVER))
    assert "role" in zoo.refused(*close)
    first = zoo.json(*close, *by)
    assert (first["state"], first["call"]) == ("scheduled", "guardian.govern")
    place.devnet.warp_to(first["ready_at"])
    assert zoo.json(*close, *by)["state"] == "executed"
    assert zoo.json("network", "check")["paused_until"] == {"tasks": FOR_EVER}
    assert "paused: tasks, for ever" in zoo.run("network", "check")[1]
    assert "executed already" in zoo.refused(*close, *by)
    resume = ("network", "govern", "guardian.govern", chain.tasks.address, "0", "--wait")
    assert zoo.json(*resume, *by)["state"] == "executed"
    assert zoo.json("network", "check")["paused_until"] == {}


def test_govern__prints_what_multisigs_sign(zoo: Zoo, place: CliNetwork) -> None:
    chain, guardian = place.devnet.chain, place.devnet.account("new guardian").address
    appoint = ("network", "govern", "guardian.appoint", guardian)
    printed = zoo.json(*appoint, "--print")
    assert set(printed["steps"]) == {"proposer", "executor", "canceller"}
    w3, sender = chain.w3, place.devnet.account("deployer")
    before = chain.guardian.account()

    def sign(role: str) -> None:
        step = printed["steps"][role]
        w3.provider.make_request("anvil_impersonateAccount", [sender.address])  # type: ignore[arg-type]
        digest = w3.eth.send_transaction({"from": sender.address, "to": step["to"], "data": step["data"]})
        assert w3.eth.wait_for_transaction_receipt(digest)["status"] == 1

    sign("proposer")
    assert chain.guardian.account() == before
    place.devnet.warp(DEVNET.timelock_s)
    sign("executor")
    assert chain.guardian.account() == guardian
    assert zoo.json("network", "govern", "guardian.appoint", before, "--wait", *deployer(place))["state"] == "executed"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (("nobody.pause",), "there is no contract 'nobody'"),
        (("guardian.apoint", "0x" + "11" * 20), "did you mean guardian.appoint?"),
        (("guardian.ends", "0x" + "11" * 20), "no function 'ends' to send"),
        (("guardian.appoint",), "takes 1 argument, got 0"),
        (("guardian.appoint", "0xab"), "account takes address, not '0xab'"),
        (("guardian.govern", "0x" + "11" * 20, "soon"), "until takes uint256, not 'soon'"),
        (("tasks.allow", "0x" + "11" * 20, "maybe", "0"), "allowed takes bool, not 'maybe'"),
        (("admissions.set_workload", "8", "x"), "workload takes 4 values, got 1"),
    ],
)
def test_govern__says_what_was_wrong(zoo: Zoo, call: tuple[str, ...], says: str) -> None:
    assert says in zoo.refused("network", "govern", *call)


def test_collect__gives_the_audits_their_parts_of_convictions_whole(zoo: Zoo, place: CliNetwork) -> None:
    chain = place.devnet.chain
    place.devnet.fund(chain.audit_pool.address, zen=7 * ZEN)
    place.devnet.fund(chain.treasury.address, zen=10 * ZEN)
    assert zoo.json("treasury", "show")["audits_owed"] == str(7 * ZEN)
    took = zoo.json("treasury", "collect")
    assert took["collected"] == str(17 * ZEN)
    assert took["buckets"] == {"development": str(5 * ZEN), "audits": str(10 * ZEN), "grants": str(2 * ZEN)}
    assert zoo.json("treasury", "collect")["collected"] == "0"


def test_hand_over__offers_an_operator_that_the_new_owner_accepts(zoo: Zoo, place: CliNetwork) -> None:
    registered = zoo.json("node", "register", "--gpu-type", "rtx4090", "--memory", "24GB")
    number, registry = registered["operator"], place.devnet.chain.registry
    heir = ("--account", place.account("heir"))
    address = place.devnet.account("heir").address
    for wrong in ((), (address, "--accept"), ("--accept", "--undo")):
        assert "pass the new owner's address" in zoo.refused("node", "hand-over", *wrong)
    assert "is no address" in zoo.refused("node", "hand-over", "0xab")
    assert "needs --operator" in zoo.refused("node", "hand-over", "--accept", *heir)
    accept = ("node", "hand-over", "--accept", "--operator", str(number), *heir)
    assert "not the offered owner" in zoo.refused(*accept)
    zoo.json("node", "hand-over", address)
    zoo.json("node", "hand-over", "--undo")
    assert "not the offered owner" in zoo.refused(*accept)
    offered = zoo.json("node", "hand-over", address)
    assert (offered["operator"], offered["account"], offered["accepted"]) == (number, address, False)
    assert registry.owner_of(number) == registered["owner"]
    assert zoo.json(*accept)["accepted"] is True
    assert registry.owner_of(number) == zoo.json("node", "show", "--operator", str(number))["owner"] == address
    # Each account finds what it owns now, without a folder.
    elsewhere = ("--home", place.folder / "nowhere")
    assert zoo.json("node", "show", *elsewhere, *heir)["operator"] == number
    assert "has no operator" in zoo.refused("node", "show", *elsewhere)
    assert "not the owner" in zoo.refused("node", "hand-over", address)
