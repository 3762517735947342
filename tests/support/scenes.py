"""Scenes, and a renderer of few steps, for tests."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from zoo_compute.rendering.layout import Layout
from zoo_compute.rendering.path_tracer import renderer
from zoo_compute.rendering.path_tracer.scene import Scene

DISTANCE, DEGREES = 5.0, 40.0  # of the ball's camera

BALL = """
import torch

def scene(x, y, z, time):
    return torch.sqrt(x * x + y * y + z * z) - 1.0
"""


def ball(x: Any, y: Any, z: Any, time: Any) -> torch.Tensor:
    return torch.sqrt(x * x + y * y + z * z) - 1.0


def silhouette() -> Scene:
    """A black ball before a white sky."""
    return Scene(
        ball,
        lambda x, y, z, time: (0.0, 0.0, 0.0),
        lambda time: ((0.0, 0.0, DISTANCE), (0.0, 0.0, 0.0), DEGREES),
        lambda time: ((0.0, 1.0, 0.0), (0.0, 0.0, 0.0)),
        lambda x, y, z, time: (1.0, 1.0, 1.0),
    )


def small(width: int = 16, height: int = 8, *, frames: tuple[int, int] = (1, 1), samples: int = 2) -> Layout:
    """Tiles of half a frame, and passes of one sample."""
    return Layout(width, height, width // 2, height, 24, *frames, 1, samples)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renderer that is traced in a second."""
    monkeypatch.setattr(renderer, "STEPS", (24, 2))
    monkeypatch.setattr(renderer, "SHADOW_STEPS", 2)
