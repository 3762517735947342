"""What is sent and not yet mined: on disk at once, one writer at a time. And what gas may cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from web3 import Web3
from web3.exceptions import Web3RPCError
from web3.types import BlockData

from tests.support.waiting import HANG_S
from zoo_compute.chain import fees
from zoo_compute.chain.pending_transactions import PendingTransaction, PendingTransactions
from zoo_compute.errors import ConfigError, FeeTooHigh
from zoo_compute.subprocesses import started_at

ADDRESS = "0x" + "Ab" * 20
GWEI = 10**9


def entry(nonce: int, **changes: Any) -> PendingTransaction:
    values = {
        "nonce": nonce,
        "operation": "Settlement.commit",
        "to": ADDRESS,
        "data": "0x12",
        "value": 0,
        "gas": 21_000,
        "max_fee": 2,
        "priority_fee": 1,
        "sent_block": 5,
        "sender_pid": os.getpid(),
        "sender_started": started_at(os.getpid()),
        "hashes": [f"0x{nonce}"],
    }
    return PendingTransaction(**{**values, **changes})


def test_an_entry__is_on_disk_when_put_returns(tmp_path: Path):
    outbox = PendingTransactions(tmp_path, 31337, ADDRESS)
    with outbox.locked() as box:
        box.put(entry(4))
        assert [each["nonce"] for each in json.loads(outbox.path.read_text())] == [4]
    assert outbox.path.stat().st_mode & 0o077 == 0
    with PendingTransactions(tmp_path, 31337, ADDRESS.lower()).locked() as box:
        assert box.entries == {4: entry(4)}
    with PendingTransactions(tmp_path, 1, ADDRESS).locked() as box:
        assert box.entries == {}


def test_a_change__survives_an_exception(tmp_path: Path):
    outbox = PendingTransactions(tmp_path, 1, ADDRESS)

    def fail() -> None:
        with outbox.locked() as box:
            box.put(entry(1))
            box.remove(entry(1))
            box.put(entry(2))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with outbox.locked() as box:
        assert list(box.entries) == [2]


def test_an_entry_that_another_transaction_replaced__is_not_removed(tmp_path: Path):
    outbox = PendingTransactions(tmp_path, 1, ADDRESS)
    with outbox.locked() as box:
        box.put(entry(1, hashes=["0xother"]))
        box.remove(entry(1))
        assert list(box.entries) == [1]


def test_the_lock__keeps_others_out(tmp_path: Path):
    outbox, order = PendingTransactions(tmp_path, 1, ADDRESS), []

    def other() -> None:
        with outbox.locked():
            order.append("other")

    with outbox.locked():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join(HANG_S)
    assert order == ["first", "other"]


def test_the_sender_of_an_entry__may_be_alive_dead_or_tired():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = started_at(process.pid)
    other = entry(1, sender_pid=process.pid, sender_started=started)
    assert entry(1).is_awaited
    assert other.is_awaited
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not other.is_awaited, "it is dead, though nobody took note"
    process.wait()
    assert not other.is_awaited
    assert not entry(1, sender_pid=None).is_awaited
    assert not entry(1, sender_started=started).is_awaited


def test_a_broken_outbox__is_named(tmp_path: Path):
    outbox = PendingTransactions(tmp_path, 1, ADDRESS)
    outbox.path.write_text('[{"nonce": 1}]')
    with pytest.raises(ConfigError, match="not an outbox"), outbox.locked():
        pass


def suggest(base: int, tip: int, limit: int) -> fees.Fee:
    w3 = cast(Web3, SimpleNamespace(eth=SimpleNamespace(max_priority_fee=tip)))
    return fees.suggest(w3, cast(BlockData, {"baseFeePerGas": base}), limit, 50 * GWEI)


def test_a_fee__covers_growing_base_fees_up_to_the_limit():
    assert suggest(10 * GWEI, 2 * GWEI, 100 * GWEI) == fees.Fee(22 * GWEI, 2 * GWEI)
    assert suggest(10 * GWEI, 2 * GWEI, 12 * GWEI) == fees.Fee(12 * GWEI, 2 * GWEI)
    with pytest.raises(FeeTooHigh, match="12 gwei"):
        suggest(10 * GWEI, 2 * GWEI, 12 * GWEI - 1)


def test_a_replacement__pays_a_quarter_more_or_what_the_chain_asks():
    cheap, dear = (suggest(base * GWEI, GWEI, 500 * GWEI) for base in (1, 50))
    assert fees.bumped(cheap, 100 * GWEI, 4 * GWEI, 500 * GWEI) == fees.Fee(125 * GWEI, 5 * GWEI)
    assert fees.bumped(dear, 10 * GWEI, GWEI, 500 * GWEI).max_fee == 101 * GWEI
    with pytest.raises(FeeTooHigh, match="a replacement needs 125 gwei"):
        fees.bumped(cheap, 100 * GWEI, GWEI, 124 * GWEI)


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        ("nonce too low: next nonce 5, tx nonce 4", fees.is_nonce_taken),
        ("replacement transaction underpriced", fees.is_nonce_taken),
        ("already known", fees.is_known),
        ("transaction already imported", fees.is_known),
        ("Insufficient funds for gas * price + value", fees.is_unfunded),
    ],
)
def test_what_nodes_say__is_understood(message: str, meaning: Any):
    error = Web3RPCError(repr({"code": -32000, "message": message}))
    assert [check for check in (fees.is_nonce_taken, fees.is_known, fees.is_unfunded) if check(error)] == [meaning]
