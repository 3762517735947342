"""`Client.map` and `Client.render`: what they post, and what they make of the outputs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.scenes import BALL
from zoo_compute.client.client import Client
from zoo_compute.client.outputs import MappedRound
from zoo_compute.jobs.submission import AlreadyPosted
from zoo_compute.rendering.pictures import developed


class Posting(Client):
    """Has no network. train: keeps what it was called with; the job's outputs are `rows`, in two rounds."""

    def __init__(self, rows: Any, *, known: bool = False) -> None:
        self.rows, self.known, self.posted = rows, known, dict[str, Any]()

    def train(self, config: Any = None, max_budget: Any = None, data: Any = None, **options: Any) -> Any:
        self.posted = {**config.sections, "inputs": config.items}
        if self.known:
            raise AlreadyPosted(7)
        return self.job(7)

    def job(self, number: int) -> Any:
        half = len(self.rows) // 2
        rounds = [MappedRound(at, at * half, {"outputs": self.rows[at * half : (at + 1) * half]}) for at in range(2)]
        view = SimpleNamespace(terms=SimpleNamespace(rounds=2))
        return SimpleNamespace(id=number, outputs=lambda: iter(rounds), view=lambda: view)


@pytest.mark.parametrize("known", [False, True])
def test_a_map__returns_the_outputs_of_all_items(known: bool) -> None:
    client = Posting(np.arange(8).reshape(4, 2), known=known)
    assert (
        client.map({"module": "a.py:build"}, np.zeros((4, 3), np.float32), 20, map={"slots": 2}).tolist()
        == client.rows.tolist()
    )
    assert client.posted["map"] == {"batch_size": 32, "slots": 2}
    assert client.posted["inputs"].shape == (4, 3)


def test_a_rendering__returns_its_frames_as_pixels(tmp_path: Path) -> None:
    (tmp_path / "scene.py").write_text(BALL)
    levels = np.array([0.2, 0.6, 0.1, 0.5], np.float32)  # a tile in two passes of two frames
    client = Posting(np.broadcast_to(levels[:, None, None, None], (4, 1, 8 * 16, 3)).reshape(4, 8 * 16, 3))
    made = client.render(tmp_path / "scene.py", 20, frames=(3, 4), size=(16, 8), samples=8, market={"reserve": 1})
    assert (made.shape, made.dtype) == ((2, 8, 16, 3), np.uint8)
    assert [np.unique(frame).tolist() for frame in made] == [
        [int(developed(np.array(mean)))]
        for mean in (np.mean(levels[:2], dtype=float), np.mean(levels[2:], dtype=float))
    ]
    assert client.posted["inputs"][:, 0].tolist() == [3, 3, 4, 4]
    assert client.posted["market"] == {"reserve": 1}
    assert client.posted["model"]["scene"] == str(tmp_path / "scene.py")
