"""A hot key in a process of its own: what it signs is what a key file's account signs, and a signer that lies is found out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount

from keepers.decisions import custody_statements, receipts
from keepers.decisions.receipts import Receipt
from tests.support.signer_process import CHANGES, OTHER
from tests.support.waiting import ended
from zoo_compute.chain import hot_signer, keystore, rpc_http
from zoo_compute.chain.hot_signer import HotSigner, check_repeats, open_signer, typed_json
from zoo_compute.chain.signer_places import check_place
from zoo_compute.errors import ConfigError, SignerRefuses, SignerUnreachable
from zoo_compute.subprocesses import free_port, tied_to_parent

CHAIN_ID = 31_337
PASSPHRASE = "for tests"
TRANSACTION = {
    "type": 2, "chainId": CHAIN_ID, "nonce": 3, "to": "0x" + "11" * 20, "data": "0x1234", "value": 7, "gas": 50_000,
    "maxFeePerGas": 3 * 10**9, "maxPriorityFeePerGas": 10**9,
}  # fmt: skip
MESSAGE = encode_defunct(text="zoo: seals of this operator's bids")
WAYS = ("web3signer", "clef over HTTP", "clef")
CHAIN: Any = SimpleNamespace(
    network=SimpleNamespace(chain_id=CHAIN_ID, contracts={"rewards": "0x" + "33" * 20, "custody": "0x" + "44" * 20})
)
Start = Callable[..., HotSigner]


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "hot.json"
    keystore.create(path, PASSPHRASE, work=keystore.DEVNET_WORK)
    return path


@pytest.fixture(scope="module")
def account(key_file: Path) -> LocalAccount:
    return keystore.unlock(key_file, PASSPHRASE)


@pytest.fixture(scope="module")
def places(key_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where the process of each kind answers, as `signer` of operator.json has it."""
    ports, path = [free_port(), free_port()], tmp_path_factory.mktemp("ipc") / "clef.ipc"
    at = dict(zip(WAYS, (["--port", str(ports[0])], ["--port", str(ports[1])], ["--socket", str(path)]), strict=True))
    with ExitStack() as stack:
        started = []
        for way, options in at.items():
            command = [sys.executable, "-m", "tests.support.signer_process", way.split()[0], str(key_file), PASSPHRASE]
            process = subprocess.Popen(
                [*command, "--chain-id", str(CHAIN_ID), *options], stdout=subprocess.PIPE, preexec_fn=tied_to_parent()
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            started.append(process.stdout)
        assert [output and output.readline() for output in started] == [b"ready\n"] * len(at)
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        yield dict(zip(WAYS, (urls[0], f"clef:{urls[1]}", f"clef:{path}"), strict=True))


@pytest.fixture
def start(places: dict[str, str], account: LocalAccount) -> Start:
    """What a keeper opens, of a signer that is honest or not."""

    def begin(way: str, lie: str = "", *, use: bool = True) -> HotSigner:
        signer = open_signer(places[way])
        signer._ask("test_lie", [lie])
        signer.address = account.address
        if use:
            signer.use(account.address)
        return signer

    return begin


@pytest.mark.parametrize("way", WAYS)
def test_each_signer__signs_everything_that_a_keeper_signs_as_its_key_file_would(
    start: Start, account: LocalAccount, way: str
) -> None:
    signer = start(way)
    assert signer.address == account.address
    assert signer.sign_transaction(TRANSACTION).raw_transaction == account.sign_transaction(TRANSACTION).raw_transaction
    assert check_repeats(signer, MESSAGE).signature == account.sign_message(MESSAGE).signature, "bids stay openable"
    receipt = Receipt(server=2, client=1, epoch=2**60 + 1, total=2**70 + 3)
    assert receipts.sign(CHAIN, signer, receipt) == receipts.sign(CHAIN, account, receipt)
    for kind, value in (("start", bytes(32)), ("inputs", b"\1" * 32), ("checkpoint", b"\2" * 64)):
        by_signer, by_account = (custody_statements.sign(CHAIN, each, 7, kind, 3, value) for each in (signer, account))
        assert by_signer == by_account
        assert custody_statements.is_signed_by(CHAIN, account.address, 7, by_signer)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lie", [*CHANGES, "key"])
def test_a_signer_that_signs_another_transaction__has_nothing_sent(start: Start, way: str, lie: str) -> None:
    fields = {
        "fee": "maxFeePerGas",
        "tip": "maxPriorityFeePerGas",
        "chain": "chainId",
        "key": "another key",
        "access": "another key",
    }
    with pytest.raises(SignerRefuses, match=f"(?s){fields.get(lie, lie)}.*not sent"):
        start(way, lie).sign_transaction(TRANSACTION)


def test_a_signer_of_another_chain__says_so(start: Start) -> None:
    """web3signer's own option decides; the chain would refuse it."""
    with pytest.raises(SignerRefuses, match="its chainId differ") as error:
        start("web3signer", "chain").sign_transaction(TRANSACTION)
    assert "chain id" in error.value.hint


@pytest.mark.parametrize("way", ["web3signer", "clef"])
@pytest.mark.parametrize("lie", ["key", "random", "no signature", "short", "other answer", "refuse"])
def test_a_signature_of_something_else__is_refused(start: Start, way: str, lie: str) -> None:
    signer = start(way, lie, use=False)
    domain, types = {"name": "x", "chainId": CHAIN_ID}, {"T": [{"name": "n", "type": "uint256"}]}
    for sign in (lambda: signer.sign_message(MESSAGE), lambda: signer.sign_typed_data(domain, types, {"n": 1})):
        with pytest.raises(SignerRefuses):
            sign()


def test_a_signature_with_a_large_s__is_turned_into_the_usual_one(start: Start, account: LocalAccount) -> None:
    assert start("web3signer", "high s").sign_message(MESSAGE).signature == account.sign_message(MESSAGE).signature


def test_a_refusal__says_why_and_what_to_do(start: Start) -> None:
    for way, hint in (("web3signer", "--chain-id"), ("clef", "--rules")):
        with pytest.raises(SignerRefuses, match="Request denied") as error:
            start(way, "refuse", use=False).accounts()
        assert hint in error.value.hint


@pytest.mark.parametrize("way", ["web3signer", "clef"])
def test_a_signer_without_the_operators_key__names_both(start: Start, account: LocalAccount, way: str) -> None:
    with pytest.raises(SignerRefuses, match=f"hot key {account.address}, but {OTHER}") as error:
        start(way, "another account")
    assert "hot.json" in error.value.hint


def test_without_an_operator__the_only_account_is_taken(start: Start, account: LocalAccount) -> None:
    signer = start("clef", use=False)
    signer.address = ""
    signer.use("")
    assert signer.address == account.address


@pytest.mark.parametrize(
    ("way", "lie"),
    [("web3signer", "hang"), ("web3signer", "large"), ("web3signer", "drip"), ("clef", "hang"), ("clef", "large")],
)
def test_a_signer_that_hangs_drips_or_floods__is_given_up_in_time(
    start: Start, monkeypatch: pytest.MonkeyPatch, way: str, lie: str
) -> None:
    signer = start(way, lie, use=False)  # in its whole time: a busy machine may answer late
    monkeypatch.setattr(rpc_http, "ANSWER_S", 1.5)
    monkeypatch.setattr(hot_signer, "ANSWER_S", 1.5)
    with pytest.raises(SignerUnreachable, match="does not answer"):
        ended(signer.accounts)


def test_a_signer_that_is_down__says_what_to_start(tmp_path: Path) -> None:
    for where in (f"http://127.0.0.1:{free_port()}", f"clef:{tmp_path}/no.ipc"):
        with pytest.raises(SignerUnreachable, match="does not answer") as error:
            open_signer(where).accounts()
        assert "start the signer" in error.value.hint


def test_signatures_that_differ_each_time__are_refused_before_a_bid_is_sealed() -> None:
    made = iter(range(2))
    account = SimpleNamespace(sign_message=lambda _: SimpleNamespace(signature=bytes([next(made)])))
    with pytest.raises(SignerRefuses, match="another signature each time"):
        check_repeats(account, MESSAGE)


@pytest.mark.parametrize(
    "where",
    ["http://127.0.0.1:9000", "http://[::1]:9000", "http://localhost:1", "https://signer.example", "clef:/run/clef.ipc",
     "clef:http://127.0.0.1:8550", "clef:https://signer.example/path"],
)  # fmt: skip
def test_a_place_of_a_signer(where: str) -> None:
    check_place(where)


@pytest.mark.parametrize(
    ("where", "why"),
    [("http://10.0.0.1:9000", "clear text"), ("clef:http://signer.example", "clear text"), ("clef:clef.ipc", "expected"),
     ("ftp://127.0.0.1", "expected"), ("127.0.0.1:9000", "expected"), ("http://127.0.0.1:x", "expected"), ("clef:", "expected"),
     ("http://127.0.0.1@evil.example", "clear text")],
)  # fmt: skip
def test_another_place__is_refused(where: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_place(where)


def test_typed_data__has_its_numbers_as_texts() -> None:
    """As JSON numbers those above 2^53 lose digits in some readers."""
    made = typed_json({"name": "x", "chainId": 1}, {"T": [{"name": "n", "type": "uint256"}]}, {"n": 2**70 + 1})
    assert made["message"] == {"n": "1180591620717411303425"}
    assert made["domain"] == {"name": "x", "chainId": "1"}
    assert [each["name"] for each in made["types"]["EIP712Domain"]] == ["name", "chainId"]


def test_an_account_that_signs_another_way__is_found_by_recovery() -> None:
    """The oracle of these tests is eth-account's own signature of the same."""
    assert Account.recover_message(MESSAGE, signature=Account.create().sign_message(MESSAGE).signature) != OTHER
