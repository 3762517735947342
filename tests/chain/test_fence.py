"""Two senders of one account on two machines, one after the other: what the first one sent is not sent again, wherever it ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NoReturn

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from hexbytes import HexBytes

from tests.chain.test_sender import mining, to
from tests.support.geth_pool import GethPool
from tests.support.waiting import HANG_S
from zoo_compute.chain.fence import FencedAccount
from zoo_compute.chain.pending_transactions import PendingTransaction
from zoo_compute.chain.sender import Sender
from zoo_compute.errors import TransactionPending, Unreachable


class Killed(BaseException):
    """kill -9, or a process that is stopped for good."""


class Left(BaseException):
    """The process would have ended."""


class Shared:
    """What two machines share. checks: how often a sender may still sign or send."""

    def __init__(self) -> None:
        self.entries: dict[int, PendingTransaction] = {}
        self.checks = 10**6
        self.is_down = False

    def check(self) -> None:
        self.checks -= 1
        if self.checks < 0:
            raise Killed

    def left(self, why: str) -> NoReturn:
        raise Left(why)

    def write(self, changed: Mapping[int, PendingTransaction], removed: Collection[int]) -> None:
        if self.is_down:
            raise Unreachable("the broker is gone")
        self.entries |= deepcopy(dict(changed))
        for nonce in removed:
            self.entries.pop(nonce, None)

    def read(self) -> dict[int, PendingTransaction]:
        return deepcopy(self.entries)


@pytest.fixture
def pool() -> GethPool:
    return GethPool()


@pytest.fixture
def account() -> LocalAccount:
    return Account.create()


@pytest.fixture
def shared() -> Shared:
    return Shared()


@pytest.fixture
def machine(pool: GethPool, account: LocalAccount, tmp_path: Path, shared: Shared) -> Callable[..., Sender]:
    """A sender on the machine of this name, whose turn it is."""

    def make(name: str, **options: Any) -> Sender:
        (tmp_path / name).mkdir(exist_ok=True)
        how = {"timeout_s": HANG_S, "stuck_after_s": 0.05, **options}
        return Sender(pool.chain, account, folder=tmp_path / name, fence=shared, **how)

    return make


def mined_to(pool: GethPool, number: int) -> int:
    return sum(each["to"] == HexBytes(to(number)) for block in pool.blocks.values() for each in block)


def kill_after(pool: GethPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the node has it."""
    send = pool.send_raw_transaction

    def last(raw: bytes) -> NoReturn:
        send(raw)
        monkeypatch.undo()
        raise Killed

    monkeypatch.setattr(pool, "send_raw_transaction", last)


@pytest.mark.parametrize(
    "moment", ["before it signs", "before the node has it", "after the node has it", "while it waits"]
)
def test_a_machine_that_dies__is_succeeded_by_one_that_sends_the_same_call_once(
    pool: GethPool,
    account: LocalAccount,
    shared: Shared,
    machine: Callable[..., Sender],
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    first = machine("a", timeout_s=0.05)
    first.take_over()
    shared.checks = {"before it signs": 0, "before the node has it": 1}.get(moment, 10**6)
    if moment == "after the node has it":
        kill_after(pool, monkeypatch)
    with pytest.raises(TransactionPending if moment == "while it waits" else Killed):
        first.send_coin(to(1), 1)
    shared.checks = 10**6
    for (
        entry
    ) in shared.entries.values():  # its machine cannot say so any more, and a process of the same number may run here
        entry.take()
    second = machine("b")
    assert second.take_over() == 0
    with mining(pool, account.address):
        second.send_coin(to(1), 1)
        second.send_coin(to(2), 1)
    assert (mined_to(pool, 1), mined_to(pool, 2)) == (1, 1)


def test_what_was_on_its_way_when_its_sender_stopped__arrives_late_and_is_not_mined_twice(
    pool: GethPool, account: LocalAccount, shared: Shared, machine: Callable[..., Sender]
) -> None:
    """No check keeps a process from being stopped between the check and the wire."""
    late: list[bytes] = []
    send, pool.send_raw_transaction = pool.send_raw_transaction, late.append  # type: ignore[method-assign, assignment]
    first = machine("a", timeout_s=0.05)
    first.take_over()
    with pytest.raises(TransactionPending):
        first.send_coin(to(1), 1)
    pool.send_raw_transaction = send  # type: ignore[method-assign]
    second = machine("b")
    second.take_over()
    with mining(pool, account.address):
        second.send_coin(to(1), 1)
    with pytest.raises(Exception, match="nonce too low"):
        pool.send_raw_transaction(late[0])
    with mining(pool, account.address):
        second.send_coin(to(2), 1)
    assert (mined_to(pool, 1), mined_to(pool, 2)) == (1, 1)


def test_what_a_successor_could_not_find__is_not_sent(
    pool: GethPool, shared: Shared, machine: Callable[..., Sender]
) -> None:
    sender = machine("a")
    sender.take_over()
    shared.is_down = True
    with pytest.raises(Unreachable, match="the broker is gone"):
        sender.send_coin(to(1), 1)
    assert pool.sent == []


def test_a_mined_transaction_that_could_not_be_forgotten__is_forgotten_with_the_next_one(
    pool: GethPool, account: LocalAccount, shared: Shared, machine: Callable[..., Sender]
) -> None:
    sender = machine("a")
    sender.take_over()
    wait = sender._watch

    def broken(*args: Any) -> Any:
        mined = wait(*args)
        shared.is_down = True
        return mined

    sender._watch = broken  # type: ignore[method-assign]
    with mining(pool, account.address):
        sender.send_coin(to(1), 1)
        assert list(shared.entries) == [0]
        shared.is_down, sender._watch = False, wait  # type: ignore[method-assign]
        sender.send_coin(to(2), 1)
    assert shared.entries == {}


@pytest.mark.parametrize("is_mined", [False, True])
def test_a_nonce_that_another_sender_used__ends_this_one_before_it_sends_more(
    pool: GethPool, account: LocalAccount, tmp_path: Path, machine: Callable[..., Sender], is_mined: bool
) -> None:
    """However that came about: two holders of the lease cannot both go on."""
    sender = machine("a")
    assert sender.take_over() == 0
    with mining(pool, account.address):
        sender.send_coin(to(1), 1)
    with pytest.raises(TransactionPending):
        Sender(pool.chain, account, folder=tmp_path / "elsewhere", timeout_s=0.05).send_coin(to(2), 1)
    if is_mined:
        pool.mine(account.address)
    with pytest.raises(Left, match=r"nonce 1 of .* was used by another sender"):
        sender.send_coin(to(3), 1)
    assert len(pool.sent) == 2


def test_a_nonce_that_is_taken_under_its_hands__ends_this_one(
    pool: GethPool, account: LocalAccount, tmp_path: Path, machine: Callable[..., Sender]
) -> None:
    sender = machine("a")
    sender.take_over()
    count, pool.get_transaction_count = pool.get_transaction_count, lambda *_: 0  # type: ignore[method-assign, assignment]
    with pytest.raises(TransactionPending):
        Sender(pool.chain, account, folder=tmp_path / "elsewhere", timeout_s=0.05).send_coin(to(2), 1)
    with pytest.raises(Left, match="nonce 0"):
        sender.send_coin(to(3), 1)
    pool.get_transaction_count = count  # type: ignore[method-assign]
    assert len(pool.sent) == 1


def test_a_count_that_lags_behind_its_own_transactions__ends_nobody(
    pool: GethPool, account: LocalAccount, machine: Callable[..., Sender], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of one of several nodes behind an RPC that is a block behind: its own nonce was taken for another's."""
    sender = machine("a")
    sender.take_over()
    real, asked = pool.get_transaction_count, 0

    def lagging(address: str, block: str) -> int:
        nonlocal asked
        asked += block == "pending"
        return 0 if block == "pending" and asked == 2 else real(address, block)  # the first is asked before it is sent

    with mining(pool, account.address):
        sender.send_coin(to(1), 1)
        monkeypatch.setattr(pool, "get_transaction_count", lagging)
        sender.send_coin(to(2), 1)
    assert asked > 2
    assert len(pool.sent) == 2


def test_transactions_that_nobody_here_knows__are_counted_until_they_are_mined(
    pool: GethPool, account: LocalAccount, tmp_path: Path, machine: Callable[..., Sender]
) -> None:
    with pytest.raises(TransactionPending):
        Sender(pool.chain, account, folder=tmp_path / "lost", timeout_s=0.05).send_coin(to(1), 1)
    sender = machine("b")
    assert sender.take_over() == 1
    pool.mine(account.address)
    assert sender.take_over() == 0
    with mining(pool, account.address):
        sender.send_coin(to(2), 1)


def test_a_successor__keeps_of_its_own_file_what_may_still_be_mined(
    pool: GethPool, account: LocalAccount, shared: Shared, machine: Callable[..., Sender]
) -> None:
    """The broker was emptied; what this machine sent before is in its file."""
    first = machine("a", timeout_s=0.05)
    first.take_over()
    with pytest.raises(TransactionPending):
        first.send_coin(to(1), 1)
    shared.entries.clear()
    again = machine("a")
    assert again.take_over() == 0
    with mining(pool, account.address):
        again.send_coin(to(1), 1)
    assert mined_to(pool, 1) == 1


def test_nothing_is_signed__by_who_may_not(account: LocalAccount, shared: Shared) -> None:
    fenced = FencedAccount(account, shared)
    shared.checks = 0
    for sign in (
        lambda: fenced.sign_transaction({}),
        lambda: fenced.sign_message(None),
        lambda: fenced.sign_typed_data({}, {}, {}),
    ):
        with pytest.raises(Killed):
            sign()
