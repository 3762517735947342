"""Credits on a real chain: bought in dollars, a job priced in dollars, pledged collateral, a rate that is posted and goes stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_network import CONFIG, CliNetwork, Zoo, zoo_fixture  # noqa: F401
from zoo_compute.spec.params import DEVNET, DOLLAR, ZEN

pytestmark = pytest.mark.integration


def job_in_credits(place: CliNetwork, **market: Any) -> Path:
    path = place.config()
    sections = json.loads(path.read_text())
    path.write_text(json.dumps(sections | {"market": CONFIG["market"] | {"token": "credits"} | market}))
    return path


def deployer(place: CliNetwork) -> tuple[str, str]:
    return "--account", str(place.devnet.key_file("deployer"))


@pytest.fixture(scope="module", autouse=True)
def two_dollars(place: CliNetwork) -> None:
    """The governor of a devnet's credits is its timelock."""
    chain = place.devnet.chain
    timelock = chain.timelock.address
    chain.w3.provider.make_request("anvil_impersonateAccount", [timelock])  # type: ignore[arg-type]
    chain.w3.provider.make_request("anvil_setBalance", [timelock, hex(10**20)])  # type: ignore[arg-type]
    contract = chain.w3.eth.contract(address=chain.credits.address, abi=ABI)  # type: ignore[call-overload]
    digest = contract.functions.set_rate(2 * DOLLAR).transact({"from": timelock})
    chain.w3.eth.wait_for_transaction_receipt(digest)


ABI = [
    {
        "type": "function", "name": "set_rate", "stateMutability": "nonpayable", "outputs": [],
        "inputs": [{"name": "next_rate", "type": "uint256"}],
    }
]  # fmt: skip


def test_a_job_priced_in_dollars__is_quoted_posted_and_cancelled_in_credits(zoo: Zoo, place: CliNetwork) -> None:
    config = job_in_credits(place, reserve=None, max_price=None, aggregator_reserve=None, aggregator_max_price=None)
    quoted = zoo.json("quote", config, "--max-budget", "$28")
    assert (quoted["budget"], quoted["token"]["symbol"]) == (str(14 * ZEN), "CREDIT")
    assert "($28.00)" in zoo.run("quote", str(config), "--max-budget", "$28")[1]
    train = ("train", config, "--data", place.text, "--max-budget", "$28", "--no-watch")
    assert "zoo credits buy " in zoo.refused(*train)

    bought = zoo.json("credits", "buy", "$28")
    assert (bought["credits"], bought["burned"], bought["dollars"]) == (str(14 * ZEN), str(14 * ZEN), str(28 * DOLLAR))
    assert place.devnet.chain.credits.burned() == 14 * ZEN
    posted = zoo.json(*train)
    escrow = int(posted["escrow"])
    assert (14 * ZEN - escrow < ZEN, posted["token"]["symbol"]) == (True, "CREDIT")
    shown = zoo.json("credits", "show")
    assert (shown["balance"], shown["rate"], shown["fresh"]) == (str(14 * ZEN - escrow), str(2 * DOLLAR), True)
    number = str(posted["job"])
    assert "CREDIT ($" in zoo.run("job", "show", number)[1]
    assert zoo.json("job", "cancel", number)["refunded"] == str(escrow)
    assert zoo.json("account", "show", "--token", "credits")["balance"] == str(14 * ZEN)


def test_buy__burns_no_more_than_is_allowed_and_takes_credits_too(zoo: Zoo, place: CliNetwork) -> None:
    assert "above --most 1 ZEN" in zoo.refused("credits", "buy", "$4", "--most", "1")
    assert zoo.json("credits", "buy", "$4", "--most", "2")["credits"] == str(2 * ZEN)
    assert zoo.json("credits", "buy", "3")["credits"] == str(3 * ZEN)
    for nothing in ("0", "$0"):
        assert "is nothing" in zoo.refused("credits", "buy", nothing)
    assert "buying burns up to" in zoo.refused("credits", "buy", "$1e15")


def test_a_pledge__is_collateral_and_its_zen_come_back(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    home = ("--home", tmp_path / "node")
    me = zoo.json("account", "show")["address"]
    zoo.json("node", "register", "--gpu-type", "rtx4090", "--memory", "24GB", *home)
    before = place.devnet.chain.zen.balanceOf(me)
    pledged = zoo.json("credits", "pledge", "7", *home)
    assert (pledged["pledged"], pledged["collateral"], pledged["locked"]) == (str(7 * ZEN), str(7 * ZEN), "0")
    assert place.devnet.chain.zen.balanceOf(me) == before - 7 * ZEN
    assert zoo.json("credits", "show")["pledged"] == str(7 * ZEN)
    zoo.json("node", "withdraw", "--collateral", "5", "--token", "credits", *home)
    assert place.devnet.chain.zen.balanceOf(me) == before - 2 * ZEN
    assert zoo.json("credits", "claim")["claimed"] == {}


def test_a_rate__is_the_posters_and_stale_without_one(zoo: Zoo, place: CliNetwork) -> None:
    assert "credits: not the poster" in zoo.refused("credits", "post-rate", "2.1")
    place.devnet.warp(DEVNET.rate_step_s)
    assert "credits: step too large" in zoo.refused("credits", "post-rate", "2.3", *deployer(place))
    assert zoo.json("credits", "post-rate", "$2.2", *deployer(place))["rate"] == str(22 * DOLLAR // 10)
    assert "$2.2 for a ZEN" in zoo.run("credits", "show")[1]
    place.devnet.warp(DEVNET.rate_stale_s + 1)
    assert "the rate of credits is stale" in zoo.refused("credits", "buy", "$4")
    assert zoo.json("credits", "show")["fresh"] is False
    config = job_in_credits(place)
    assert "posted rate is stale" in zoo.refused("quote", config, "--max-budget", "$28")
