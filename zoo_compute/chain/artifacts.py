"""The compiled contracts, as scripts/generate/artifacts.py wrote them: one JSON file each."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def artifact(name: str) -> dict[str, Any]:
    """`{"name", "abi", "bytecode", "deployed_bytes", "immutables", "source_sha256"}` of a contract, by its name ("NodeRegistry")."""
    return json.loads(resources.files("zoo_compute.chain.generated").joinpath(f"artifacts/{name}.json").read_text())


def abi(name: str) -> list[dict[str, Any]]:
    """The ABI of a contract."""
    return artifact(name)["abi"]


def bytecode(name: str) -> str:
    """The creation code of a contract, 0x-prefixed, without constructor arguments."""
    return artifact(name)["bytecode"]
