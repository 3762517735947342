"""`zoo channel` on a real chain: opened in one transaction, paid by vouchers, left, and closed from a book, a file or without any."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from vyper import compile_code

from tests.integration.cli_network import CliNetwork, Zoo, zoo_fixture  # noqa: F401
from zoo_compute.chain import keystore
from zoo_compute.inference.books import ClientBook, OperatorBook, client_book, operator_book
from zoo_compute.spec.params import ZEN

pytestmark = pytest.mark.integration

COIN = Path(__file__).resolve().parents[2] / "contracts" / "mocks" / "CoinToken.vy"
USDC = 10**6
# As an issuer does that blocks an account.
BLOCKS = """
blocked: address

@external
def block(account: address):
    self.blocked = account

@external
def transfer(to: address, amount: uint256) -> bool:
    assert to != self.blocked, "blocked"
"""

OPERATOR = 1  # `somebody`, of cli_network
SIGNER = Account.from_key(b"\x07" * 32)


@pytest.fixture
def client(place: CliNetwork, tmp_path: Path) -> Iterator[ClientBook]:
    book = client_book(tmp_path / "client.sqlite", place.devnet.chain, bytes(SIGNER.key))
    yield book
    book.close()


@pytest.fixture
def book(place: CliNetwork, tmp_path: Path) -> Iterator[OperatorBook]:
    made = operator_book(tmp_path / "vouchers.sqlite", place.devnet.chain, OPERATOR)
    yield made
    made.close()


def opened(zoo: Zoo, amount: str = "10") -> int:
    answer = zoo.json("channel", "open", amount, "--operator", str(OPERATOR), "--signer", SIGNER.address)
    return int(answer["channel"])


def as_operator(place: CliNetwork) -> tuple[str, Path]:
    return "--account", place.devnet.key_file("somebody")


def zen_of(place: CliNetwork, address: str) -> int:
    return int(place.devnet.chain.zen.balanceOf(address))


def test_a_channel__is_opened_in_one_transaction_listed_and_added_to(zoo: Zoo, place: CliNetwork) -> None:
    chain, me = place.devnet.chain, zoo.json("account", "show")["address"]
    before, count = zen_of(place, me), chain.w3.eth.get_transaction_count(me)
    answer = zoo.json("channel", "open", "2.5", "--operator", str(OPERATOR))
    assert chain.w3.eth.get_transaction_count(me) == count + 1
    assert before - zen_of(place, me) == 5 * ZEN // 2
    assert (answer["deposit"], answer["signer"], answer["operator"]) == (str(5 * ZEN // 2), me, OPERATOR)
    number = answer["channel"]
    zoo.json("channel", "add", str(number), "0.5")
    (mine,) = [each for each in zoo.json("channel", "list")["channels"] if each["channel"] == number]
    assert mine == {
        "channel": number,
        "client": me,
        "operator": OPERATOR,
        "token": chain.zen.address,
        "signer": me,
        "deposit": str(3 * ZEN),
        "paid": "0",
        "ends_at": None,
    }
    assert mine in zoo.json("channel", "list", "--operator", str(OPERATOR))["channels"]
    assert mine not in zoo.json("channel", "list", "--client", SIGNER.address)["channels"]
    code, out, _ = zoo.run("channel", "list")
    assert (code, "3 ZEN" in out) == (0, True)


def test_an_operator__closes_with_the_newest_voucher_of_its_book(
    zoo: Zoo, place: CliNetwork, client: ClientBook, book: OperatorBook, tmp_path: Path
) -> None:
    number, me = opened(zoo), zoo.json("account", "show")["address"]
    owner = keystore.address_of(place.devnet.key_file("somebody"))
    before = zen_of(place, owner), zen_of(place, me)
    for amount in (ZEN, 3 * ZEN):
        assert book.accept(client.pay(number, amount), price=amount) == amount
    assert client.left(number) == 6 * ZEN
    path = ("--book", tmp_path / "vouchers.sqlite")
    assert "channels: not the operator" in zoo.refused("channel", "close", str(number), *path)
    (closed,) = zoo.json("channel", "close", str(number), *path, *as_operator(place))["closed"]
    assert (closed["paid"], closed["refunded"]) == (str(4 * ZEN), str(6 * ZEN))
    assert zen_of(place, owner) - before[0] == 4 * ZEN * 95 // 100
    assert zen_of(place, me) - before[1] == 6 * ZEN
    assert f"no channel {number}" in zoo.refused("channel", "close", str(number), *path, *as_operator(place))


def test_a_client_that_leaves__is_paid_back_unless_the_operator_closes_first(
    zoo: Zoo, place: CliNetwork, client: ClientBook, book: OperatorBook, tmp_path: Path
) -> None:
    kept, left = opened(zoo), opened(zoo)
    for number in (kept, left):
        book.accept(client.pay(number, ZEN))
        assert zoo.json("channel", "leave", str(number))["wait_s"] == place.devnet.chain.params.notice_s
        assert "notice not over" in zoo.refused("channel", "refund", str(number))
    assert "notice given" in zoo.refused("channel", "add", str(kept), "1")
    code, out, _ = zoo.run("channel", "list")
    assert (code, "ends in" in out) == (0, True)
    place.devnet.warp(place.devnet.chain.params.notice_s + 1)
    me = zoo.json("account", "show")["address"]
    before = zen_of(place, me)
    (refunded,) = zoo.json("channel", "refund", str(left))["closed"]
    assert (refunded["paid"], refunded["refunded"]) == ("0", str(10 * ZEN))
    assert zen_of(place, me) - before == 10 * ZEN
    closed = zoo.json("channel", "close", "--book", tmp_path / "vouchers.sqlite", *as_operator(place))["closed"]
    assert [(each["channel"], each["paid"]) for each in closed] == [(kept, str(ZEN))]
    again = zoo.json("channel", "close", "--book", tmp_path / "vouchers.sqlite", *as_operator(place))
    assert again == {"closed": []}


def test_close__says_what_pays_the_operator(zoo: Zoo, place: CliNetwork, client: ClientBook, tmp_path: Path) -> None:
    number, other, mine = opened(zoo), opened(zoo), as_operator(place)
    file = tmp_path / "voucher.json"

    def write(value: Any) -> Path:
        file.write_text(value if isinstance(value, str) else json.dumps(value))
        return file

    voucher = client.pay(number, 2 * ZEN).to_dict()
    assert "say what pays" in zoo.refused("channel", "close", str(number), *mine)
    assert "say what pays" in zoo.refused(
        "channel", "close", str(number), "--nothing", "--voucher", write(voucher), *mine
    )
    assert "say which channel" in zoo.refused("channel", "close", "--nothing", *mine)
    assert f"of channel {number}, not {other}" in zoo.refused(
        "channel", "close", str(other), "--voucher", write(voucher), *mine
    )
    for wrong, message in (("{", "not JSON"), ({**voucher, "total": 5}, "total"), ({}, "missing key 'channel'")):
        said = zoo.refused("channel", "close", str(number), "--voucher", write(wrong), *mine)
        assert message in said, said
        assert "a voucher is" in said
    forged = write({**voucher, "total": str(3 * ZEN)})
    assert "voucher not signed" in zoo.refused("channel", "close", str(number), "--voucher", forged, *mine)
    empty = operator_book(tmp_path / "empty.sqlite", place.devnet.chain, OPERATOR)
    empty.close()
    assert f"has no voucher of channel {number}" in zoo.refused(
        "channel", "close", str(number), "--book", tmp_path / "empty.sqlite", *mine
    )
    (closed,) = zoo.json("channel", "close", str(number), "--voucher", write(voucher), *mine)["closed"]
    assert closed["paid"] == str(2 * ZEN)
    (closed,) = zoo.json("channel", "close", str(other), "--nothing", *mine)["closed"]
    assert (closed["paid"], closed["refunded"]) == ("0", str(10 * ZEN))


def test_open__what_cannot_be_paid_or_signed__is_refused(zoo: Zoo, place: CliNetwork) -> None:
    to = ("--operator", str(OPERATOR))
    assert "the deposit is 6,000 ZEN" in zoo.refused("channel", "open", "6000", *to)
    assert "no such operator" in zoo.refused("channel", "open", "1", "--operator", "99")
    assert "--signer" in zoo.refused("channel", "open", "1", *to, "--signer", "me")
    code, _, err = zoo.run("channel", "open", "1")
    assert (code, "--operator" in err) == (2, True)
    assert "no channel 999" in zoo.refused("channel", "add", "999", "1")
    assert "no such channel" in zoo.refused("channel", "leave", "999")
    address = "0x" + 20 * "11"
    assert "cannot sign vouchers" in zoo.refused("channel", "open", "1", *to, "--unsigned", "--from", address)


def test_open__unsigned__prints_an_approval_and_the_opening(zoo: Zoo, place: CliNetwork) -> None:
    me = zoo.json("account", "show")["address"]
    code, out, err = zoo.run(
        "channel", "open", "1", "--operator", str(OPERATOR), "--unsigned", "--from", me, "--signer", SIGNER.address
    )
    assert code == 0, err
    assert "take up to 1 ZEN" in err
    assert f"open a channel to operator 1 with 1 ZEN, which vouchers of {SIGNER.address} spend" in err
    assert len(json.loads(out)) == 2


def test_an_account_that_its_token_blocks__holds_up_nobody_and_withdraws_later(zoo: Zoo, place: CliNetwork) -> None:
    """In a coin without permits, which takes an approval first."""
    w3, me = place.devnet.chain.w3, zoo.json("account", "show")["address"]
    by: Any = {"from": w3.eth.accounts[0]}
    source = COIN.read_text().replace("\n@external\ndef transfer(to: address, amount: uint256) -> bool:\n", BLOCKS)
    made = compile_code(source, output_formats=["abi", "bytecode"])
    factory = w3.eth.contract(abi=made["abi"], bytecode=made["bytecode"])
    address = w3.eth.wait_for_transaction_receipt(factory.constructor("USDC", 6).transact(by))["contractAddress"]
    token = w3.eth.contract(address=address, abi=made["abi"])  # type: ignore[call-overload]

    def act(call: Any) -> None:
        w3.eth.wait_for_transaction_receipt(call.transact(by))

    act(token.functions.mint(me, 10 * USDC))
    pays = ("--operator", str(OPERATOR), "--token", str(address))
    before = w3.eth.get_transaction_count(me)
    assert "channels: token not allowed" in zoo.refused("channel", "open", "10", *pays)
    assert w3.eth.get_transaction_count(me) == before, "nothing was approved"
    zoo.json("network", "allow", str(address), "--account", place.devnet.key_file("deployer"))
    before = w3.eth.get_transaction_count(me)
    number = zoo.json("channel", "open", "10", *pays)["channel"]
    assert w3.eth.get_transaction_count(me) - before == 2
    code, out, _ = zoo.run("channel", "list")
    assert (code, "10 USDC" in out) == (0, True)
    act(token.functions.block(me))
    (closed,) = zoo.json("channel", "close", str(number), "--nothing", *as_operator(place))["closed"]
    assert (closed["refunded"], closed["token"]["symbol"]) == (str(10 * USDC), "USDC")
    assert zoo.json("account", "show", "--token", str(address))["owed"] == str(10 * USDC)
    act(token.functions.block(str(place.devnet.chain.zen.address)))
    assert zoo.json("account", "withdraw", "--token", str(address))["withdrawn"] == str(10 * USDC)
    assert token.functions.balanceOf(me).call() == 10 * USDC
