"""Once an epoch a keeper claims its owner's shares of mints that are over, if it serves jobs in credits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from keepers import operator_money
from keepers.operator_money import OperatorMoney
from zoo_compute.chain.credits import EpochShare
from zoo_compute.chain.reverts import refusal
from zoo_compute.chain.views import OperatorView

CREDITS, OWNER, EPOCH_S = "0x" + "22" * 20, "0x" + "11" * 20, 60
SHARES = (EpochShare(7, 100, 50, 10), EpochShare(8, 100, 100, 20))


class Sent:
    """A sender that keeps what it sends; of epochs in `gone` somebody else has claimed."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.gone: set[int] = set()

    def send(self, call: Any) -> None:
        self.calls.append(call)
        if call[1] in self.gone:
            raise refusal("credits: nothing to claim")


@pytest.fixture
def sender() -> Sent:
    return Sent()


def money(sender: Sent, monkeypatch: pytest.MonkeyPatch, *priced: str) -> OperatorMoney:
    chain = SimpleNamespace(
        params=SimpleNamespace(epoch_s=EPOCH_S),
        network=SimpleNamespace(contracts={"credits": CREDITS}),
        credits=SimpleNamespace(claim=lambda owner, epoch: (owner, epoch)),
    )
    config = SimpleNamespace(availability_hours=(), priced_tokens=priced)
    monkeypatch.setattr(operator_money, "Operators", lambda *_: SimpleNamespace(claim_rewards=lambda *a, **k: 0))
    monkeypatch.setattr(operator_money.deposits, "withdraw", lambda *a, **k: None)
    monkeypatch.setattr(operator_money, "read_credits", lambda chain, owner: SimpleNamespace(claimable=SHARES))
    return OperatorMoney(cast(Any, config), cast(Any, chain), cast(Any, sender))


def operator(second: int) -> OperatorView:
    return cast(OperatorView, SimpleNamespace(block_time=second, operator=3, owner=OWNER, stake=1, owed={}))


def test_mints__are_claimed_once_an_epoch(sender: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = money(sender, monkeypatch, CREDITS)
    for second in (9 * EPOCH_S, 9 * EPOCH_S + 1, 10 * EPOCH_S - 1):
        mine.collect(operator(second), idle=False)
    assert sender.calls == [(OWNER, 7), (OWNER, 8)]
    mine.collect(operator(10 * EPOCH_S), idle=False)
    assert len(sender.calls) == 4


def test_a_mint_that_somebody_else_claimed__stops_no_other(sender: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    sender.gone = {7}
    money(sender, monkeypatch, CREDITS).collect(operator(9 * EPOCH_S), idle=False)
    assert sender.calls == [(OWNER, 7), (OWNER, 8)]


def test_a_node_without_a_price_in_credits__reads_no_mint(sender: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    money(sender, monkeypatch).collect(operator(9 * EPOCH_S), idle=False)
    assert sender.calls == []


def test_a_share__is_its_part_of_the_mint_rounded_down() -> None:
    assert [share.amount for share in SHARES] == [5, 20]
    assert EpochShare(9, 0, 0, 0).amount == 0
    assert EpochShare(9, 3, 2, 1).amount == 0
