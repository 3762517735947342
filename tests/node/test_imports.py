"""The node's packages import one way, and none of them loads the chain's side."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.test_layering import ROOT, imports_of, module_of

# From what is imported to its importer.
FLOORS = (
    ("node.errors", "node.conformance_process"),
    ("node.conformance",),
    ("node.device",),
    ("node.compute",),
    ("node.parallel",),
    ("node.inputs",),
    ("node.admission",),
    ("node.disputes",),
    ("node.tasks", "node.replay", "node.cli"),
)


def floor_of(module: str) -> int:
    return next(n for n, names in enumerate(FLOORS) for name in names if f"{module}.".startswith(f"{name}."))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "node").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT / "node"))
)
def test_a_module_of_the_node__imports_no_floor_above_it(path: Path) -> None:
    module = module_of(path)
    if module == "node":
        return
    imported = {name for name in imports_of(path) if name.startswith("node.")}
    assert {name for name in imported if floor_of(name) > floor_of(module)} == set()


def test_a_node__loads_no_chain_and_no_job_configuration() -> None:
    code = (
        "import sys, node.tasks, node.replay, node.admission.trial, node.disputes.player, node.parallel.rank;"
        "print(*[name for name in sys.modules if name.startswith(('zoo_compute.', 'eth_account', 'web3'))])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    strange = ("zoo_compute.chain", "zoo_compute.jobs", "zoo_compute.client", "zoo_compute.cli", "eth_account", "web3")
    assert [name for name in loaded.split() if name.startswith(strange)] == []
