"""What Availability and Audits believe of the other contracts is what those offer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import sources
from zoo_compute.chain import artifacts


def shape(part: dict[str, Any]) -> Any:
    """A type by its members' names and types, whatever a struct is called."""
    members = part.get("components")
    return (part["type"], [(each["name"], shape(each)) for each in members]) if members else part["type"]


def functions(abi: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    return {
        entry["name"]: ([shape(each) for each in entry["inputs"]], [shape(each) for each in entry["outputs"]])
        for entry in abi
        if entry["type"] == "function"
    }


OFFERED = [
    ("Settlement", name) for name in ("runs", "seats", "claims", "pending", "claim_deadline", "hold", "resume", "void")
] + [
    ("TaskRegistry", "jobs"),
    ("NodeRegistry", "hot_key"),
    ("NodeRegistry", "owner_of"),
    ("NodeRegistry", "time"),
    ("Rewards", "record_verification"),
]


@pytest.fixture(scope="module")
def double():
    return functions(sources.load("mocks/ProtocolDouble").abi)


@pytest.mark.parametrize(("contract", "name"), OFFERED)
def test_double__each_function__is_as_the_contract_has_it(double, contract, name):
    assert double[name] == functions(artifacts.abi(contract))[name]
