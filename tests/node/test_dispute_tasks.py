"""A move is computed where there is room for it."""

from __future__ import annotations

from typing import Any

import pytest

from node.disputes import player
from repops.cuda.driver import OutOfMemory


@pytest.mark.parametrize(("device", "tried"), [({"device": "cuda:1"}, ["cuda:1", "cpu"]), ({}, [None, "cpu"])])
def test_a_move__is_computed_on_the_cpu_when_training_holds_the_devices_memory(
    monkeypatch: pytest.MonkeyPatch, device: dict[str, str], tried: list[str | None]
):
    seen: list[str | None] = []

    def move(request: dict[str, Any], *_: Any) -> dict[str, Any]:
        seen.append(request.get("device"))
        if request.get("device") != "cpu":
            raise OutOfMemory("2 GB are free")
        return {"name": "reveal"}

    monkeypatch.setattr(player, "_move", move)
    request, store = {"slot": 0, **device}, Any
    assert player.run_move(request, store) == {"name": "reveal"}  # type: ignore[arg-type]
    assert seen == tried


def test_a_move_that_does_not_fit_the_machine__is_an_error(monkeypatch: pytest.MonkeyPatch):
    def move(*_: Any) -> None:
        raise OutOfMemory("2 GB are free")

    monkeypatch.setattr(player, "_move", move)
    with pytest.raises(OutOfMemory):
        player.run_move({"slot": 0, "device": "cpu"}, Any)  # type: ignore[arg-type]
