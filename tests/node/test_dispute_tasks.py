"""A move is computed where there is room for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node import backends
from node.disputes import player
from node.errors import BackendFailed
from repops.cuda.driver import OutOfMemory


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    monkeypatch.setattr(backends, "_checked", dict.fromkeys(("native avx512", "native avx2", "native portable"), True))


@pytest.mark.parametrize(("device", "tried"), [({"device": "cuda:1"}, ["cuda:1", "cpu"]), ({}, [None, "cpu"])])
def test_a_move__is_computed_on_the_cpu_when_training_holds_the_devices_memory(
    monkeypatch: pytest.MonkeyPatch, device: dict[str, str], tried: list[str | None]
):
    seen: list[str | None] = []

    def move(request: dict[str, Any], *_: Any) -> dict[str, Any]:
        seen.append(request.get("device"))
        if request.get("device") != "cpu":
            raise BackendFailed("cuda:1", OutOfMemory("2 GB are free"), out_of_memory=True)
        return {"name": "reveal"}

    monkeypatch.setattr(player, "_move", move)
    request, store = {"slot": 0, **device}, Any
    assert player.run_move(request, store) == {"name": "reveal"}  # type: ignore[arg-type]
    assert player.run_move(request, store) == {"name": "reveal"}  # type: ignore[arg-type]
    assert seen == 2 * tried, "the device has room again at the next move"


def test_a_move_that_does_not_fit_the_machine__is_an_error(monkeypatch: pytest.MonkeyPatch):
    def move(*_: Any) -> None:
        raise MemoryError("2 GB are free")

    monkeypatch.setattr(player, "_move", move)
    with pytest.raises(MemoryError):
        player.run_move({"slot": 0, "device": "cpu"}, Any)  # type: ignore[arg-type]
