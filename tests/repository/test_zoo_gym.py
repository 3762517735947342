"""The distribution zoo-gym: the module and the command `gym`, and what it says beside OpenAI Gym."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import zoo_compute
from zoo_compute.cli.main import build

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packages" / "zoo-gym"


def project(folder: Path) -> dict[str, Any]:
    return dict(tomllib.loads((folder / "pyproject.toml").read_text())["project"])


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module as it is after an installation."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    sys.modules.pop("gym", None)


def imported() -> ModuleType:
    return importlib.import_module("gym")


@pytest.mark.usefixtures("path")
def test_the_module__has_every_name_of_zoo_compute() -> None:
    gym = imported()
    assert sorted(dir(gym)) == sorted(zoo_compute.__all__)
    assert gym.DistributedTrainer is zoo_compute.DistributedTrainer
    from gym import CheckpointConfig, Client, ComputeJob, DistributedTrainer

    assert [
        each.__module__.partition(".")[0] for each in (CheckpointConfig, Client, ComputeJob, DistributedTrainer)
    ] == ["zoo_compute"] * 4


@pytest.mark.usefixtures("path")
def test_gym_make__explains_that_this_is_another_gym() -> None:
    gym = imported()
    with pytest.raises(AttributeError, match=r"not OpenAI Gym.*gymnasium"):
        gym.make("CartPole-v1")
    assert not hasattr(gym, "spaces")


@pytest.mark.usefixtures("path")
def test_beside_openai_gym__it_refuses_to_be_imported_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"gym": "0.26.2"}[name])
    with pytest.raises(ImportError, match=r"gym 0\.26\.2 \(OpenAI Gym\).*pip uninstall gym zoo-gym"):
        imported()


def test_each_command__has_one_owner_and_both_distributions_one_version() -> None:
    compute, gym = project(ROOT), project(FOLDER)
    assert set(compute["scripts"]) == {"zoo"}
    assert gym["scripts"] == {"gym": compute["scripts"]["zoo"]}
    assert gym["version"] == compute["version"]
    assert gym["dependencies"] == [f"zoo-compute[keeper]=={compute['version']}"]
    assert (FOLDER / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.mark.parametrize("name", ["register", "start"])
def test_gym_register_and_gym_start__are_the_commands_of_node(name: str) -> None:
    root = build()
    assert root.commands[name].callback is root.commands["node"].commands[name].callback  # type: ignore[attr-defined]
