"""Sending against a real anvil: refusals before gas is paid, races for a nonce, stuck transactions, restarts."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount

from tests.support.waiting import HANG_S
from zoo_compute import spending
from zoo_compute.chain import keystore
from zoo_compute.chain.connection import connect
from zoo_compute.chain.fees import FeeLimits
from zoo_compute.chain.network import load
from zoo_compute.chain.sender import Sender
from zoo_compute.devnet.devnet import COIN, Devnet
from zoo_compute.errors import FeeTooHigh, NotFunded, RegistryRefusal, TokenRefusal, TransactionPending, ZooError
from zoo_compute.spec.params import ZEN

pytestmark = pytest.mark.integration

TOM = Account.create().address
GWEI = 10**9


@pytest.fixture(scope="module")
def devnet(running_devnet: Devnet) -> Devnet:
    """Shared as it is: its tests name what they sent."""
    return running_devnet


@pytest.fixture
def slow(devnet: Devnet) -> Iterator[Devnet]:
    """A chain that mines only when told: transactions stay pending."""
    devnet.rpc("evm_setAutomine", [False])
    devnet.rpc("evm_setIntervalMining", [0])
    yield devnet
    devnet.rpc("evm_mine", [])
    devnet.rpc("evm_setAutomine", [True])


def sender_of(devnet: Devnet, account: LocalAccount, **options: object) -> Sender:
    return Sender(devnet.chain, account, **{"folder": devnet.folder, **options})  # type: ignore[arg-type]


def in_background(action: object) -> tuple[threading.Thread, list]:
    outcome: list = []

    def run() -> None:
        try:
            outcome.append(action())  # type: ignore[operator]
        except ZooError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def wait_for_pending(devnet: Devnet, account: LocalAccount, count: int = 1) -> None:
    eth, deadline = devnet.chain.w3.eth, time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        if eth.get_transaction_count(account.address, "pending") >= eth.get_transaction_count(account.address) + count:
            return
        time.sleep(0.02)
    raise AssertionError("nothing was sent")


def test_a_refusal__costs_no_gas(devnet: Devnet):
    account = devnet.account("refused")
    before = devnet.chain.coin(account.address)
    chain, sender = devnet.chain, sender_of(devnet, account)
    with pytest.raises(RegistryRefusal) as caught:
        sender.send(chain.registry.register(account.address, 9, 8, 100 * ZEN, ""))
    assert caught.value.reason == "registry: unknown class"
    assert caught.value.operation == "NodeRegistry.register"
    with pytest.raises(TokenRefusal, match="insufficient allowance"):
        sender.simulate(chain.registry.register(account.address, 1, 8, 100 * ZEN, ""))
    assert chain.coin(account.address) == before
    assert chain.w3.eth.get_transaction_count(account.address, "pending") == 0


def test_an_account_without_coin__is_told_what_it_needs(devnet: Devnet):
    account = devnet.account("poor", coin=0)
    with pytest.raises(NotFunded) as caught:
        sender_of(devnet, account).send(devnet.chain.zen.approve(TOM, 1))
    assert account.address in str(caught.value)
    assert "has 0 coin" in str(caught.value)
    assert account.address in caught.value.hint
    with pytest.raises(NotFunded):
        sender_of(devnet, account).send_coin(TOM, COIN)


def test_a_receipt__has_events_result_and_a_line_in_the_ledger(devnet: Devnet, tmp_path: Path):
    account = devnet.account("payer", zen=10)
    before, sender = devnet.chain.coin(account.address), sender_of(devnet, account, ledger=tmp_path / "gas.jsonl")
    receipt = sender.send(devnet.chain.zen.transfer(TOM, 3))
    assert receipt.event("Transfer").args == {"sender": account.address, "receiver": TOM, "value": 3}
    assert receipt.result is True
    (line,) = [json.loads(line) for line in (tmp_path / "gas.jsonl").read_text().splitlines()]
    wei = before - devnet.chain.coin(account.address)
    assert (spending.read(tmp_path).transactions, spending.read(tmp_path).wei) == (1, wei)
    assert line == {
        "operation": "ZenToken.transfer",
        "gas_used": receipt.gas_used,
        "wei": str(wei),
        "tx": receipt.transaction_hash,
        "block": receipt.block,
        "sender": account.address,
    }


def test_a_simulation__sees_what_is_pending(slow: Devnet):
    """A second send of what is under way is refused, rather than mined and reverted."""
    slow.rpc("evm_setAutomine", [True])
    account = slow.account("eager", zen=5)
    slow.rpc("evm_setAutomine", [False])
    thread, outcome = in_background(lambda: sender_of(slow, account).send(slow.chain.zen.transfer(TOM, 5)))
    wait_for_pending(slow, account)
    with pytest.raises(TokenRefusal, match="exceeds balance"):
        sender_of(slow, account).send(slow.chain.zen.transfer(TOM, 4))
    slow.rpc("evm_mine", [])
    thread.join(HANG_S)
    assert outcome[0].gas_used > 0


def test_a_transaction_that_reverts_when_mined__is_refused_with_its_reason(slow: Devnet, tmp_path: Path):
    """Somebody else's transaction came in between."""
    slow.rpc("evm_setAutomine", [True])
    account, chain = slow.account("overtaken", zen=7), slow.chain
    other = chain.w3.eth.accounts[1]
    sender_of(slow, account).send(chain.zen.approve(other, 7))
    slow.rpc("evm_setAutomine", [False])
    ledger = tmp_path / "gas.jsonl"
    thread, outcome = in_background(lambda: sender_of(slow, account, ledger=ledger).send(chain.zen.transfer(TOM, 7)))
    wait_for_pending(slow, account)
    steal = chain.zen.transferFrom(account.address, other, 7)
    fees = {"gas": 200_000, "maxFeePerGas": 300 * GWEI, "maxPriorityFeePerGas": 100 * GWEI}
    chain.w3.eth.send_transaction({"from": other, "to": chain.zen.address, "data": steal.encode(), **fees})
    slow.rpc("evm_mine", [])
    thread.join(HANG_S)
    assert isinstance(outcome[0], TokenRefusal)
    assert outcome[0].reason == "erc20: transfer amount exceeds balance"
    assert json.loads(ledger.read_text())["gas_used"] > 0


def test_a_stuck_transaction__is_replaced_at_a_higher_fee(slow: Devnet):
    slow.rpc("evm_setAutomine", [True])
    account, chain = slow.account("stuck", zen=10), slow.chain
    slow.rpc("evm_setAutomine", [False])
    sender = sender_of(slow, account, stuck_after_s=0.3)
    thread, outcome = in_background(lambda: sender.send(chain.zen.transfer(TOM, 2)))
    wait_for_pending(slow, account)
    (first,) = json.loads(sender._outbox.path.read_text())
    for _ in range(3):  # dear blocks go by without it
        slow.rpc("anvil_setNextBlockBaseFeePerGas", [hex(20 * GWEI)])
        slow.rpc("evm_mine", [])
    assert chain.w3.eth.get_transaction_count(account.address) == first["nonce"]
    deadline = time.monotonic() + HANG_S
    while not outcome and time.monotonic() < deadline:
        time.sleep(0.2)
        slow.rpc("evm_mine", [])
    thread.join(HANG_S)
    receipt = outcome[0]
    assert receipt.transaction_hash not in first["hashes"]
    mined = chain.w3.eth.get_transaction(receipt.transaction_hash)
    assert mined["nonce"] == first["nonce"]
    assert mined["maxFeePerGas"] >= first["max_fee"] * 5 // 4
    assert json.loads(sender._outbox.path.read_text()) == []


def test_a_fee_above_the_limit__is_not_paid(devnet: Devnet):
    with pytest.raises(FeeTooHigh):
        sender_of(devnet, devnet.account("thrifty"), limits=FeeLimits(routine=1)).send_coin(TOM, 1)


def test_a_send_after_a_timeout__waits_for_the_first_transaction(slow: Devnet):
    slow.rpc("evm_setAutomine", [True])
    account, chain = slow.account("patient", zen=10), slow.chain
    slow.rpc("evm_setAutomine", [False])
    before = chain.zen.balanceOf(TOM)
    with pytest.raises(TransactionPending) as caught:
        sender_of(slow, account, timeout_s=0.2).send(chain.zen.transfer(TOM, 5))
    thread, outcome = in_background(lambda: sender_of(slow, account).send(chain.zen.transfer(TOM, 5)))
    time.sleep(0.5)
    slow.rpc("evm_mine", [])
    thread.join(HANG_S)
    assert outcome[0].transaction_hash == caught.value.transaction_hash
    assert chain.zen.balanceOf(TOM) - before == 5


def test_a_receipt_that_comes_after_its_nonce__is_waited_for(devnet: Devnet, monkeypatch: pytest.MonkeyPatch):
    """A node counts a transaction before it shows the receipt: it is not sent again."""
    account, chain = devnet.account("hasty", zen=10), devnet.chain
    sender, before = sender_of(devnet, account), chain.zen.balanceOf(TOM)
    find, looks = sender._mined, iter([None] * 3)
    monkeypatch.setattr(sender, "_mined", lambda entry: next(looks, "over") and find(entry))
    sender.send(chain.zen.transfer(TOM, 5))
    assert list(looks) == []
    assert chain.zen.balanceOf(TOM) - before == 5


def test_the_same_call_by_two_threads__is_sent_twice(slow: Devnet):
    """Only what a dead or tired sender left is taken over; two payments of the same amount are two payments."""
    slow.rpc("evm_setAutomine", [True])
    account, chain = slow.account("twice", zen=10), slow.chain
    slow.rpc("evm_setAutomine", [False])
    sender, before = sender_of(slow, account), chain.zen.balanceOf(TOM)
    runs = []
    for count in (1, 2):
        runs.append(in_background(lambda: sender.send(chain.zen.transfer(TOM, 5))))
        wait_for_pending(slow, account, count)
    slow.rpc("evm_mine", [])
    for thread, _ in runs:
        thread.join(HANG_S)
    assert len({outcome[0].transaction_hash for _, outcome in runs}) == 2
    assert chain.zen.balanceOf(TOM) - before == 10


# -- several processes


def pay(folder: str, keys: str, name: str, amounts: list[int], outbox: str) -> None:
    """In a process of its own: one payment for each amount."""
    passphrase = (Path(folder) / "passphrase").read_text()
    chain = connect(load(Path(folder) / "network.json"))
    sender = Sender(chain, keystore.unlock(Path(keys), passphrase), folder=Path(outbox))
    for amount in amounts:
        sender.send(chain.zen.transfer(TOM_FIXED, amount))


TOM_FIXED = "0x00000000000000000000000000000000000070aa"


@pytest.mark.parametrize("shared", [True, False], ids=["one machine", "two machines"])
def test_two_processes_of_one_account__lose_no_payment(slow: Devnet, tmp_path: Path, shared: bool):
    slow.rpc("evm_setAutomine", [True])
    account, chain = slow.account(f"racer-{shared}", zen=10**6), slow.chain
    slow.rpc("evm_setAutomine", [False])
    before = chain.zen.balanceOf(TOM_FIXED)
    start = chain.w3.eth.get_transaction_count(account.address)
    keys = str(slow.key_file(f"racer-{shared}"))
    spawn = multiprocessing.get_context("spawn")
    processes = []
    for index in range(2):
        outbox = str(tmp_path if shared else tmp_path / str(index))
        amounts = [10**index] * 8
        processes.append(spawn.Process(target=pay, args=(str(slow.folder), keys, f"racer-{shared}", amounts, outbox)))
    for process in processes:
        process.start()
    deadline = time.monotonic() + HANG_S
    while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
        slow.rpc("evm_mine", [])
        time.sleep(0.2)
    assert [process.exitcode for process in processes] == [0, 0]
    assert chain.zen.balanceOf(TOM_FIXED) - before == 8 * 1 + 8 * 10
    assert chain.w3.eth.get_transaction_count(account.address) - start == 16


def test_a_killed_process__leaves_a_transaction_that_the_next_one_waits_for(slow: Devnet, tmp_path: Path):
    slow.rpc("evm_setAutomine", [True])
    account, chain = slow.account("killed", zen=100), slow.chain
    slow.rpc("evm_setAutomine", [False])
    before = chain.zen.balanceOf(TOM_FIXED)
    spawn = multiprocessing.get_context("spawn")
    keys = str(slow.key_file("killed"))
    process = spawn.Process(target=pay, args=(str(slow.folder), keys, "killed", [60], str(tmp_path)))
    process.start()
    wait_for_pending(slow, account)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join(HANG_S)
    assert process.exitcode == -signal.SIGKILL
    sender = sender_of(slow, account, folder=tmp_path)
    thread, outcome = in_background(lambda: sender.send(chain.zen.transfer(TOM_FIXED, 60)))
    time.sleep(0.5)
    slow.rpc("evm_mine", [])
    thread.join(HANG_S)
    assert outcome[0].event("Transfer").args["value"] == 60
    assert chain.zen.balanceOf(TOM_FIXED) - before == 60
    assert chain.w3.eth.get_transaction_count(account.address, "pending") == 1
