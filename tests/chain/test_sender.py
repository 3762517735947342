"""Sending on a node whose pool keeps what is too cheap: nothing stays stuck, and nothing is sent twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_account.typed_transactions import TypedTransaction
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from web3.exceptions import Web3RPCError

from tests.support.geth_pool import GWEI, GethPool
from tests.support.waiting import HANG_S, wait_until
from zoo_compute.chain import pending_transactions
from zoo_compute.chain import sender as sender_module
from zoo_compute.chain.fees import FeeLimits
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.chain.simulate import Request
from zoo_compute.errors import FeeTooHigh, NotFunded, TransactionPending, Unreachable, ZooError

HEX_DIGITS = "123456789abcdef"


class Killed(BaseException):
    """kill -9."""


@pytest.fixture
def pool() -> GethPool:
    return GethPool()


@pytest.fixture
def account() -> LocalAccount:
    return Account.create()


def to(number: int) -> str:
    return "0x" + HEX_DIGITS[number] * 40


def sender(pool: GethPool, account: LocalAccount, folder: Path, **options: Any) -> Sender:
    return Sender(pool.chain, account, folder=folder, **{"timeout_s": HANG_S, "stuck_after_s": 0.05, **options})


def entries(each: Sender) -> list[pending_transactions.PendingTransaction]:
    with each._outbox.locked() as box:
        return [box.entries[nonce] for nonce in sorted(box.entries)]


@contextmanager
def mining(pool: GethPool, address: str) -> Iterator[None]:
    """A block every 20 ms."""
    stop = threading.Event()

    def mine() -> None:
        while not stop.wait(0.02):
            pool.mine(address)

    thread = threading.Thread(target=mine)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def leave_stuck(pool: GethPool, account: LocalAccount, folder: Path) -> None:
    """Its sender stopped waiting, and blocks have become three times as dear since."""
    with pytest.raises(TransactionPending):
        sender(pool, account, folder, timeout_s=0.05).send_coin(to(0), 1)
    pool.base *= 3


def test_a_transaction_that_nobody_waits_for__does_not_keep_later_ones_waiting(
    pool: GethPool, account: LocalAccount, tmp_path: Path
) -> None:
    """p8c: nonce 0 stayed at 41 gwei while nonces 1 and 2 raised themselves to 461 and were never mined."""
    leave_stuck(pool, account, tmp_path)
    outcome: list[Receipt | ZooError] = []

    def send(number: int) -> None:
        outcome.append(sender(pool, account, tmp_path).send_coin(to(number), 1))

    threads = [threading.Thread(target=send, args=(number,)) for number in (1, 2, 3)]
    with mining(pool, account.address):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_S)
    assert len(outcome) == 3
    assert pool.nonce == 4
    by_nonce = [[each for each in pool.sent if each["nonce"] == nonce] for nonce in range(4)]
    assert len(by_nonce[0]) > 1
    assert [len(each) for each in by_nonce[1:]] == [1, 1, 1], "those behind paid enough from the beginning"


def test_one_whose_fee_another_sender_raised__is_recognised_by_its_own(
    pool: GethPool, account: LocalAccount, tmp_path: Path
) -> None:
    """Its waiter does not know the hash that was mined, and would send it again."""
    waiter, outcome = sender(pool, account, tmp_path, stuck_after_s=HANG_S), []
    thread = threading.Thread(target=lambda: outcome.append(waiter.send_coin(to(0), 1)))
    thread.start()
    while not pool.sent:
        threading.Event().wait(0.01)
    pool.base *= 3
    with mining(pool, account.address):
        sender(pool, account, tmp_path).send_coin(to(1), 1)
        thread.join(HANG_S)
    assert [receipt.operation for receipt in outcome] == ["transfer"]
    assert pool.nonce == 2
    assert [each["to"].hex()[-1] for each in pool.sent if each["nonce"] == 0] == ["1"] * 2
    assert entries(waiter) == []


def test_what_a_node_dropped__is_given_to_it_again_by_the_next_sender(
    pool: GethPool, account: LocalAccount, tmp_path: Path
) -> None:
    with pytest.raises(TransactionPending):
        sender(pool, account, tmp_path, timeout_s=0.05).send_coin(to(0), 1)
    pool.drop()
    with mining(pool, account.address):
        sender(pool, account, tmp_path).send_coin(to(1), 1)
    assert [block["to"].hex()[-1] for number in pool.blocks for block in pool.blocks[number]] == ["1", "2"]


@pytest.mark.parametrize("undone", [1, 3])
@pytest.mark.parametrize("forgets", [False, True])
def test_what_comes_after_transactions_that_a_reorganisation_undid__is_mined_once_and_soon(
    pool: GethPool, account: LocalAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undone: int, forgets: bool
) -> None:
    """A keeper's `ready` waited at nonce 204 for 202, which was mined before and then nowhere, until its seat's deadline had passed."""
    monkeypatch.setattr(sender_module, "UNDONE_AFTER_S", 0.05)
    each, first = sender(pool, account, tmp_path, stuck_after_s=HANG_S), pool.block_number + 1
    with mining(pool, account.address):
        for number in range(undone):
            each.send_coin(to(number), 1)
    outcome: list[Receipt] = []
    thread = threading.Thread(target=lambda: outcome.append(each.send_coin(to(9), 1)))
    thread.start()
    wait_until("the node has it", lambda: undone in pool.pool)
    pool.undo(first)
    if forgets:
        pool.drop()
    with mining(pool, account.address):
        thread.join(HANG_S)
    assert [receipt.operation for receipt in outcome] == ["transfer"]
    mined = [to_ for block in pool.blocks.values() for to_ in (each["to"].hex() for each in block)]
    assert mined == [account.address[2:].lower()] * undone + [to(9)[2:]]
    assert pool.nonce == undone + 1


@pytest.mark.parametrize("moment", ["before the node has it", "after the node has it"])
@pytest.mark.parametrize("raising", [False, True])
def test_a_process_killed_while_it_sends__is_followed_by_one_that_sends_nothing_twice(
    pool: GethPool,
    account: LocalAccount,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    raising: bool,
) -> None:
    accept, on_disk = pool.send_raw_transaction, list[bytes]()

    def die(raw: bytes) -> bytes:
        if raising and moment == "before the node has it" and pool.pool[0][1] == keccak(bytes(raw)):
            return accept(raw)  # an old one is given to the node again before its fee is raised
        if moment == "after the node has it":
            accept(raw)
        on_disk.append(dying._outbox.path.read_bytes())
        raise Killed

    if raising:
        leave_stuck(pool, account, tmp_path)
        pool.block_number += 10
    dying = sender(pool, account, tmp_path, stuck_after_s=0)
    pool.send_raw_transaction = die  # type: ignore[method-assign]
    with pytest.raises(Killed):
        dying.send_coin(to(0), 1)
    (left,) = on_disk
    dying._outbox.path.write_bytes(left)  # nothing ran after the kill
    pool.send_raw_transaction = accept  # type: ignore[method-assign]
    # The next process of the container: the same number, started later.
    monkeypatch.setattr(pending_transactions, "started_at", lambda pid: "later")
    with mining(pool, account.address):
        sender(pool, account, tmp_path).send_coin(to(0), 1)
    assert pool.nonce == 1


def test_the_same_pid_started_later__is_another_process(
    pool: GethPool, account: LocalAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p8: a restarted container's keeper, which has the pid of the last one, sent the same call with the next nonce."""
    first = sender(pool, account, tmp_path, timeout_s=0.05)
    monkeypatch.setattr(first, "_wait", lambda *_: (_ for _ in ()).throw(Killed()))
    with pytest.raises(Killed):
        first.send_coin(to(0), 1)
    assert entries(first)[0].is_awaited
    monkeypatch.setattr(pending_transactions, "started_at", lambda pid: "later")
    with mining(pool, account.address):
        sender(pool, account, tmp_path).send_coin(to(0), 1)
    assert pool.nonce == 1


def test_an_rpc_that_lies_about_the_tip__is_believed_up_to_the_limit(
    pool: GethPool, account: LocalAccount, tmp_path: Path
) -> None:
    """p6: "base 0, tip 499 gwei" was accepted: 0.15 coin a transaction, paid to whoever mines it."""
    pool.base, pool.max_priority_fee = 0, 499 * GWEI
    with mining(pool, account.address):
        sender(pool, account, tmp_path, limits=FeeLimits(priority=2 * GWEI)).send_coin(to(0), 1)
    assert [each["maxPriorityFeePerGas"] for each in pool.sent] == [2 * GWEI]


def test_what_has_a_deadline__may_cost_more_than_what_can_wait(
    pool: GethPool, account: LocalAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = FeeLimits(routine=30 * GWEI, urgent=300 * GWEI)
    leave_stuck(pool, account, tmp_path)
    with pytest.raises(FeeTooHigh):
        sender(pool, account, tmp_path, limits=limits).send_coin(to(1), 1)
    urgent = sender(pool, account, tmp_path, limits=limits)
    monkeypatch.setattr("zoo_compute.chain.fees.ROUTINE", frozenset())
    with mining(pool, account.address):
        urgent.send_coin(to(1), 1)
    assert pool.nonce == 2, "and takes what could wait with it"


def test_what_can_wait__keeps_a_keeper_waiting_once_and_nothing_urgent(
    pool: GethPool, account: LocalAccount, tmp_path: Path
) -> None:
    """A heartbeat below a rise of fees made every look wait for three minutes."""
    limits = FeeLimits(routine=60 * GWEI, urgent=500 * GWEI)
    keeper = sender(pool, account, tmp_path, routine_s=0.05, limits=limits)
    with pytest.raises(TransactionPending, match=r"transfer: not mined in 0\.05 s"):
        keeper.send_coin(to(0), 1)
    pool.base *= 3
    pool.mine(account.address)
    with pytest.raises(TransactionPending, match="transfer: not mined in 0 s"):
        keeper.send_coin(to(0), 1)
    with pytest.raises(TransactionPending, match="transfer waits for transfer, which is not mined"):
        keeper.send_coin(to(1), 1)
    pool.drop()
    with pytest.raises(TransactionPending, match="waits for transfer"):
        keeper.send_coin(to(1), 1)
    assert list(pool.pool) == [0], "what the node dropped, it has again"
    urgent = Request("Settlement.commit", account.address, to(2), "0x", 1)
    with mining(pool, account.address):
        assert keeper._deliver(urgent, None).operation == "Settlement.commit"
    assert [block["to"].hex()[-1] for number in pool.blocks for block in pool.blocks[number]] == ["1", "3"]
    pool.base //= 3
    keeper.routine_s = HANG_S
    with mining(pool, account.address):
        assert keeper.send_coin(to(1), 1).operation == "transfer"


@pytest.mark.parametrize("trouble", [Unreachable("no RPC"), NotFunded("no coin"), ValueError("no JSON")])
def test_trouble_while_a_fee_is_raised__leaves_the_transaction_to_the_next_look(
    pool: GethPool, account: LocalAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    """It stayed awaited for good, and the same call was sent with a new nonce: paid twice."""
    keeper = sender(pool, account, tmp_path, routine_s=0.05)
    with pytest.raises(TransactionPending):
        keeper.send_coin(to(0), 1)
    with monkeypatch.context() as patch:
        patch.setattr(keeper._broadcaster, "clear_way", lambda _: (_ for _ in ()).throw(trouble))
        with pytest.raises(type(trouble)):
            keeper.send_coin(to(0), 1)
    assert [entry.is_awaited for entry in entries(keeper)] == [False]
    with pytest.raises(TransactionPending, match="not mined in 0 s"):
        keeper.send_coin(to(0), 1)
    assert list(pool.pool) == [0]


@pytest.mark.parametrize(
    ("operation", "age"), [("Settlement.decline", 1), ("Settlement.decline", 300), ("transfer", 51)]
)
def test_what_is_urgent_or_old_and_nobody_waits_for__is_not_sent_again_by_what_can_wait(
    pool: GethPool, account: LocalAccount, tmp_path: Path, operation: str, age: int
) -> None:
    keeper = sender(pool, account, tmp_path, routine_s=0.05, timeout_s=0.05)
    with pytest.raises(TransactionPending):
        keeper._deliver(Request(operation, account.address, to(0), "0x", 1), None)
    pool.drop()
    pool.block_number += age
    if age == 1:  # the node has it still
        pool.pool[0] = ({**pool.sent[0]}, bytes.fromhex(entries(keeper)[0].hashes[0][2:]))
    with pytest.raises(TransactionPending, match=r"not mined in 0\.05 s"):
        keeper.send_coin(to(1), 1)
    assert [each["to"].hex()[-1] for each in pool.sent] == ["1", "2"]


@pytest.mark.parametrize("routine_s", [0.05, None])
def test_one_that_the_node_refuses_for_its_fee__gets_a_higher_one(
    pool: GethPool, account: LocalAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, routine_s: float | None
) -> None:
    """A node that takes nothing below the base fee refused it at each look, until blocks were as cheap as before."""
    accept = pool.send_raw_transaction

    def choosy(raw: bytes) -> bytes:
        if TypedTransaction.from_bytes(HexBytes(raw)).as_dict()["maxFeePerGas"] < pool.base:
            raise Web3RPCError("max fee per gas less than block base fee")
        return accept(raw)

    leave_stuck(pool, account, tmp_path)
    pool.drop()
    pool.block_number += 10
    monkeypatch.setattr(pool, "send_raw_transaction", choosy)
    keeper = sender(pool, account, tmp_path, routine_s=routine_s, timeout_s=0.2)
    with pytest.raises(TransactionPending):
        keeper.send_coin(to(0), 1)
    assert list(pool.pool) == [0]
    pool.mine(account.address)
    assert keeper.send_coin(to(0), 1).operation == "transfer"
    assert pool.nonce == 1


@pytest.mark.parametrize("trouble", [ValueError("no JSON"), KeyboardInterrupt(), Unreachable("no answer")])
def test_one_that_may_have_arrived__is_found_by_the_next_sender_of_the_same_call(
    pool: GethPool, account: LocalAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: BaseException
) -> None:
    """What an RPC answered could not be read: this process awaited it for good, and sent another."""
    accept = pool.send_raw_transaction

    def garbled(raw: bytes) -> bytes:
        accept(raw)
        raise trouble

    with monkeypatch.context() as patch:
        patch.setattr(pool, "send_raw_transaction", garbled)
        with pytest.raises(type(trouble)):
            sender(pool, account, tmp_path).send_coin(to(0), 1)
    with mining(pool, account.address):
        sender(pool, account, tmp_path).send_coin(to(0), 1)
    assert pool.nonce == 1


@pytest.mark.parametrize("trouble", [ValueError("no signature"), Unreachable("no signer")])
def test_one_that_was_not_signed__leaves_nothing(
    pool: GethPool, account: LocalAccount, tmp_path: Path, trouble: Exception
) -> None:
    each = sender(pool, account, tmp_path)
    each._broadcaster._account = SimpleNamespace(sign_transaction=lambda _: (_ for _ in ()).throw(trouble))  # type: ignore[assignment]
    with pytest.raises(type(trouble)):
        each.send_coin(to(0), 1)
    assert entries(each) == []
