"""Who owns an operator: the account that registered it, or the one that accepted it last."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from zoo_compute.operators import account
from zoo_compute.operators.account import Operators

OLD, NEW, HOT, NEXT = ("0x" + 20 * each for each in ("11", "22", "33", "44"))


def registered(number: int, owner: str, hot: str) -> Any:
    return SimpleNamespace(args={"operator": number, "owner": owner, "hot": hot})


def changed(number: int, owner: str) -> Any:
    return SimpleNamespace(args={"operator": number, "owner": owner})


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> Operators:
    """OLD registered 1 and 2, and handed 1 over to NEW."""
    events = {
        "OperatorRegistered": [registered(1, OLD, HOT), registered(2, OLD, OLD)],
        "OwnerChanged": [changed(1, NEW)],
        "HotKeyChanged": [SimpleNamespace(args={"operator": 2, "hot": NEXT})],
    }
    monkeypatch.setattr(account, "scan", lambda *_, names: [event for name in names for event in events[name]])
    network = SimpleNamespace(contracts={"zen": "0xzen"}, first_block=0)
    return Operators(SimpleNamespace(network=network, head=lambda: SimpleNamespace(number=9)))  # type: ignore[arg-type]


def test_an_operator_that_was_handed_over__is_the_new_owners(operators: Operators):
    assert (operators.owned_by(OLD), operators.owned_by(NEW)) == ([2], [1])


def test_a_hot_key__belongs_to_the_operator_of_the_new_owner(operators: Operators):
    assert operators.registered_with(HOT) == [(1, NEW)]
    assert operators.registered_with(NEW) == []


def test_a_hot_key_that_replaced_another__belongs_to_the_same_operator(operators: Operators):
    assert operators.registered_with(NEXT) == [(2, OLD)]
