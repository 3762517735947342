"""The keeper's packages import one way, and workers load no chain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.test_layering import ROOT, imports_of, module_of

# From what is imported to its importer.
FLOORS = (
    ("keepers.config",),
    ("keepers.queue",),
    ("keepers.decisions",),
    ("keepers.services",),
    ("keepers.capacity", "keepers.operator_money", "keepers.peer_directory"),
    ("keepers.actions",),
    ("keepers.keeper",),
    ("keepers.processes",),
    ("keepers.cli",),
)


def floor_of(module: str) -> int:
    return next(n for n, names in enumerate(FLOORS) for name in names if f"{module}.".startswith(f"{name}."))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "keepers").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT / "keepers"))
)
def test_a_module_of_the_keeper__imports_no_floor_above_it(path: Path) -> None:
    module = module_of(path)
    if module == "keepers":
        return
    imported = {name for name in imports_of(path) if name.startswith("keepers.")}
    assert {name for name in imported if floor_of(name) > floor_of(module)} == set()


def test_decisions__load_neither_broker_nor_celery() -> None:
    assert loaded_by("keepers.decisions.duties, keepers.decisions.requests") & {"celery", "redis", "torch"} == set()


def test_a_worker__loads_no_chain_and_no_key() -> None:
    assert loaded_by("keepers.processes.worker, keepers.processes.run") & {"web3", "eth_account"} == set()


def loaded_by(modules: str) -> set[str]:
    """Top-level packages that importing `modules` loads."""
    code = f"import sys, {modules}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.split()
    )
