"""Money on a real chain: a coin with 6 decimals, who allows it, the treasury through its timelock, a contributor's rewards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from eth_utils.address import to_checksum_address
from vyper import compile_code

from tests.integration.cli_network import CONFIG, CliNetwork, Zoo, zoo_fixture  # noqa: F401
from zoo_compute.chain.deployment import Web3Deployer, deploy
from zoo_compute.devnet.devnet import CHAIN_ID
from zoo_compute.spec.params import DEVNET, ZEN

pytestmark = pytest.mark.integration

MOCK = Path(__file__).resolve().parents[2] / "contracts" / "mocks" / "CoinToken.vy"
USDC = 10**6
PAYEE = to_checksum_address("0x" + "77" * 20)


class Coin:
    """A token deployed by anvil's first account."""

    def __init__(self, place: CliNetwork, symbol: str, decimals: int) -> None:
        self._w3 = place.devnet.chain.w3
        made = compile_code(MOCK.read_text(), output_formats=["abi", "bytecode"])
        factory = self._w3.eth.contract(abi=made["abi"], bytecode=made["bytecode"])
        self._by = {"from": self._w3.eth.accounts[0]}
        receipt = self._w3.eth.wait_for_transaction_receipt(factory.constructor(symbol, decimals).transact(self._by))  # type: ignore[arg-type]
        self.address = str(receipt["contractAddress"])
        self._contract = self._w3.eth.contract(address=self.address, abi=made["abi"])  # type: ignore[call-overload]

    def mint(self, account: str, amount: int) -> None:
        digest = self._contract.functions.mint(account, amount).transact(self._by)
        self._w3.eth.wait_for_transaction_receipt(digest)

    def balance(self, account: str) -> int:
        return int(self._contract.functions.balanceOf(account).call())


@pytest.fixture(scope="module")
def coin(place: CliNetwork) -> Coin:
    return Coin(place, "USDC", 6)


def token_facts(coin: Coin) -> dict[str, Any]:
    return {"symbol": "USDC", "decimals": 6, "address": coin.address}


def job_in(place: CliNetwork, coin: Coin, **market: Any) -> Path:
    path = place.config()
    sections = json.loads(path.read_text())
    path.write_text(json.dumps(sections | {"market": CONFIG["market"] | {"token": coin.address} | market}))
    return path


def deployer(place: CliNetwork) -> tuple[str, str]:
    return "--account", str(place.devnet.key_file("deployer"))


def test_a_job_in_a_coin_with_six_decimals__is_allowed_quoted_posted_and_cancelled_in_it(
    zoo: Zoo, place: CliNetwork, coin: Coin
) -> None:
    me = zoo.json("account", "show")["address"]
    coin.mint(me, 14 * USDC - 1)
    config = job_in(place, coin)
    train = ("train", config, "--data", place.text, "--max-budget", "14", "--no-watch")
    assert "zoo network allow" in zoo.refused(*train)
    assert "only 0x" in zoo.refused("network", "allow", coin.address)
    allowed = zoo.json("network", "allow", coin.address, "--window-value", "1000", *deployer(place))
    assert (allowed["state"], allowed["window_value"], allowed["token"]) == (
        "executed",
        str(1_000 * USDC),
        token_facts(coin),
    )
    assert zoo.json("network", "allow", coin.address, "--window-value", "1000", *deployer(place))["transaction"] is None

    answer = {token["symbol"]: token["window_value"] for token in zoo.json("network", "show")["tokens"]}
    credits = str(DEVNET.window_value)
    assert answer == {"ZEN": str(DEVNET.window_value), "CREDIT": credits, "USDC": str(1_000 * USDC)}

    quoted = zoo.json("quote", config, "--max-budget", "14")
    assert (quoted["escrow"], quoted["budget"], quoted["token"]) == (str(14 * USDC), str(14 * USDC), token_facts(coin))
    assert "has 13.999999 USDC; the job takes 14 USDC" in zoo.refused(*train)
    coin.mint(me, 1)
    posted = zoo.json(*train)
    assert (posted["escrow"], posted["token"]) == (str(14 * USDC), token_facts(coin))
    assert coin.balance(me) == 0

    number = str(posted["job"])
    answer = zoo.json("job", "show", number)
    assert (answer["token"], answer["symbol"], answer["decimals"]) == (coin.address, "USDC", 6)
    assert "escrowed         14 USDC" in zoo.run("job", "show", number)[1]
    assert zoo.json("job", "cancel", number)["refunded"] == str(14 * USDC)
    account = zoo.json("account", "show", "--token", coin.address)
    assert (account["balance"], account["owed"], account["token"]) == (str(14 * USDC), "0", token_facts(coin))


def test_a_deposit_in_a_coin_with_six_decimals__is_of_its_units(
    zoo: Zoo, place: CliNetwork, coin: Coin, tmp_path: Path
) -> None:
    me = zoo.json("account", "show")["address"]
    home = ("--home", tmp_path / "node")
    zoo.json("node", "register", "--gpu-type", "rtx4090", "--memory", "24GB", *home)
    coin.mint(me, 3 * USDC)
    deposit = ("--token", coin.address, *home)
    assert "more than 6 decimals" in zoo.refused("node", "deposit", "0.0000001", *deposit)
    assert "the deposit is 2,000 USDC" in zoo.refused("node", "deposit", "2000", *deposit)
    sent = zoo.json("node", "deposit", "2", *deposit)
    assert (sent["collateral"], sent["token"]) == (str(2 * USDC), token_facts(coin))
    assert "2 USDC, 0 USDC locked" in zoo.run("node", "show", *map(str, deposit))[1]
    assert zoo.json("node", "withdraw", "--collateral", "0.5", *deposit)["collateral"] == str(USDC // 2)
    assert "no token at" in zoo.refused("node", "deposit", "2", "--token", PAYEE, *home)


def test_a_coin_called_zen__is_not_shown_as_zen(zoo: Zoo, place: CliNetwork) -> None:
    fake = Coin(place, "ZEN", 18)
    assert zoo.json("account", "show", "--token", fake.address)["token"]["symbol"] == f"ZEN@{fake.address[:10]}"


def test_treasury__collects_for_anyone_and_spends_through_its_timelock(zoo: Zoo, place: CliNetwork) -> None:
    chain, by = place.devnet.chain, deployer(place)
    assert zoo.json("treasury", "collect")["collected"] == "0"
    place.devnet.fund(chain.treasury.address, zen=10 * ZEN)
    assert zoo.json("treasury", "show")["arrived"] == str(10 * ZEN)
    took = zoo.json("treasury", "collect")
    assert took["collected"] == str(10 * ZEN)
    assert took["buckets"] == {"development": str(5 * ZEN), "audits": str(3 * ZEN), "grants": str(2 * ZEN)}

    spend = ("treasury", "spend", "--to", PAYEE, "--from", "audits", "--amount")
    assert "holds 3 ZEN, less than 4 ZEN" in zoo.refused(*spend, "4", *by)
    assert "role" in zoo.refused(*spend, "1")
    first = zoo.json(*spend, "1", *by)
    assert (first["state"], first["to"], first["amount"], first["from"]) == ("scheduled", PAYEE, str(ZEN), "audits")
    again = zoo.json(*spend, "1", *by)
    assert (again["state"], again["operation"], again["transaction"]) == ("scheduled", first["operation"], None)
    assert chain.zen.balanceOf(PAYEE) == 0
    place.devnet.warp_to(first["ready_at"])
    assert zoo.json(*spend, "1", *by)["state"] == "executed"
    assert chain.zen.balanceOf(PAYEE) == ZEN
    assert "executed already" in zoo.refused(*spend, "1", *by)
    assert zoo.json(*spend, "1", "--again", "--wait", *by)["state"] == "executed"
    assert chain.zen.balanceOf(PAYEE) == 2 * ZEN


def test_allow__where_the_timelock_governs__executes_what_the_deployment_scheduled(
    zoo: Zoo, place: CliNetwork, tmp_path: Path
) -> None:
    """As scripts/deploy.py leaves a production network: ZEN is scheduled, and not allowed."""
    w3 = place.devnet.chain.w3
    made = deploy(Web3Deployer(w3, place.devnet.account("deployer")), DEVNET, rewards_pool=0, devnet=False)
    file = tmp_path / "production.json"
    made.describe("live", DEVNET, CHAIN_ID, place.devnet.network.rpcs).save(file)
    on = ("--network", file, *deployer(place))
    assert "ZEN" in made.pending[0]
    place.devnet.warp(DEVNET.timelock_s)
    sent = zoo.json("network", "allow", "ZEN", *on)
    assert (sent["state"], sent["window_value"]) == ("executed", str(DEVNET.window_value))
    assert zoo.json("network", "allow", "ZEN", *on)["transaction"] is None
    off = ("network", "allow", "ZEN", "--disallow", *on)
    assert zoo.json(*off)["state"] == "scheduled"
    place.devnet.warp(DEVNET.timelock_s)
    assert (zoo.json(*off)["state"], zoo.json(*off)["transaction"]) == ("executed", None)
    assert zoo.json("network", "allow", "ZEN", "--wait", *on)["state"] == "executed"


def test_a_contributor__claims_what_its_data_earned_once_its_epoch_is_over(zoo: Zoo, place: CliNetwork) -> None:
    chain, me = place.devnet.chain, zoo.json("account", "show")["address"]
    assert zoo.json("dataset", "claim")["claims"] == []
    _as(place, chain.settlement.address, chain.rewards.record(7, 1, 1, 1_000 * ZEN))
    _as(place, chain.datasets.address, chain.rewards.record_data(me, 7, 100, 100))
    before = chain.zen.balanceOf(me)
    (waiting,) = zoo.json("dataset", "claim")["claims"]
    assert (waiting["job"], waiting["state"], waiting["amount"]) == (7, "waiting", None)
    place.devnet.warp(DEVNET.epoch_s)
    sent = zoo.json("dataset", "claim", "--contributor", me, "--account", place.account("somebody"))
    assert int(sent["amount"]) == chain.zen.balanceOf(me) - before > 0
    assert [claim["state"] for claim in sent["claims"]] == ["claimed"]
    assert zoo.json("dataset", "claim")["claims"] == []


def _as(place: CliNetwork, contract: str, call: Any) -> None:
    """A call as another contract of the protocol would make it."""
    devnet = place.devnet
    devnet.rpc("anvil_setBalance", [contract, hex(10**18)])
    devnet.rpc("anvil_impersonateAccount", [contract])
    transaction = {"from": contract, "to": call.address, "data": "0x" + call.encode().hex()}
    receipt = devnet.chain.w3.eth.wait_for_transaction_receipt(devnet.rpc("eth_sendTransaction", [transaction]))
    assert receipt["status"] == 1
    devnet.rpc("anvil_stopImpersonatingAccount", [contract])
