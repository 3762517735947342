"""An answer is computed where there is room for it; as many are given at once as take little time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node import backends
from node.disputes import player
from node.errors import BackendFailed
from repops.cuda.driver import OutOfMemory
from zoo_compute.disputes.exploration import Call


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    monkeypatch.setattr(backends, "_checked", dict.fromkeys(("native avx512", "native avx2", "native portable"), True))


@pytest.mark.parametrize(("device", "tried"), [({"device": "cuda:1"}, ["cuda:1", "cpu"]), ({}, [None, "cpu"])])
def test_an_answer__is_computed_on_the_cpu_when_training_holds_the_devices_memory(
    monkeypatch: pytest.MonkeyPatch, device: dict[str, str], tried: list[str | None]
):
    seen: list[str | None] = []

    def played(request: dict[str, Any], *_: Any) -> dict[str, Any]:
        seen.append(request.get("device"))
        if request.get("device") != "cpu":
            raise BackendFailed("cuda:1", OutOfMemory("2 GB are free"), out_of_memory=True)
        return {"calls": []}

    monkeypatch.setattr(player, "_played", played)
    request, store = {"slot": 0, **device}, Any
    assert player.run_dispute(request, store) == {"calls": []}  # type: ignore[arg-type]
    assert player.run_dispute(request, store) == {"calls": []}  # type: ignore[arg-type]
    assert seen == 2 * tried, "the device has room again at the next one"


def test_an_answer_that_does_not_fit_the_machine__is_an_error(monkeypatch: pytest.MonkeyPatch):
    def played(*_: Any) -> None:
        raise MemoryError("2 GB are free")

    monkeypatch.setattr(player, "_played", played)
    with pytest.raises(MemoryError):
        player.run_dispute({"slot": 0, "device": "cpu"}, Any)  # type: ignore[arg-type]


def test_answers_that_take_long__are_given_one_by_one(monkeypatch: pytest.MonkeyPatch):
    """The first ask's clock does not wait for the last one's answer."""
    clock = [0.0]

    def calls(seconds: float) -> Iterator[Call]:
        for number in range(4):
            clock[0] += seconds
            yield Call("answer", (number,))

    monkeypatch.setattr(player.time, "monotonic", lambda: clock[0])
    given = {seconds: len(list(player._in_time(calls(seconds)))) for seconds in (0.1, player.BATCH_S / 2, 60)}
    assert given == {0.1: 4, player.BATCH_S / 2: 3, 60: 1}
