"""The renderer beside what geometry says, its traced program, and its gradient."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import repops
from repops import backend
from repops.commitments import Array
from tests.support.scenes import DEGREES, DISTANCE, silhouette, small
from tests.support.scenes import few_steps as few_steps
from zoo_compute.rendering.layout import ENTRY, Layout
from zoo_compute.rendering.path_tracer.renderer import Renderer
from zoo_compute.rendering.path_tracer.scene import Scene
from zoo_compute.rendering.pictures import Picture

pytestmark = pytest.mark.usefixtures("few_steps")
SIZE = 64


def mapped(renderer: Renderer, layout: Layout) -> Array:
    """The light of its first frame, by its program."""
    program = repops.trace_map(renderer.eval(), torch.zeros((1, 4), dtype=torch.int64), len(layout.items))
    runner = backend.prepare(program.graph)
    for name, tensor in program.initial_state(renderer).items():
        runner.state[name][...] = tensor.numpy()
    for item in layout.items:
        runner.step({"inputs": item[None]})
    picture = Picture(layout)
    picture.add(layout.items, runner.state["outputs"].reshape(len(layout.items), -1, 3))
    return picture.light


def test_a_ball__has_the_silhouette_of_geometry() -> None:
    layout = small(SIZE, SIZE, samples=4)
    light = mapped(Renderer(silhouette(), layout), layout)
    # The cone that touches a ball of radius 1 cuts a circle out of the picture.
    radius = math.tan(math.asin(1 / DISTANCE)) / (2 * math.tan(math.radians(DEGREES) / 2)) * SIZE
    covered = (1 - light[..., 0]).sum()
    assert abs(covered / (math.pi * radius**2) - 1) < 0.03
    middle = np.hypot(*(np.indices((SIZE, SIZE)) + 0.5 - SIZE / 2))
    assert not light[middle < radius - 1].any()
    assert (light[middle > radius + 1] == 1).all()


def test_a_tile__is_its_part_of_the_frame_and_a_frame_has_its_time() -> None:
    scene = Scene(lambda x, y, z, time: y + 1e3, skies=lambda x, y, z, time: (x, y, time))
    layout = small(frames=(6, 6))
    light = mapped(Renderer(scene, layout), layout)
    assert (np.diff(light[..., 0].mean(0)) > 0).all(), "x grows to the right"
    assert (np.diff(light[..., 1].mean(1)) < 0).all(), "y grows upwards"
    assert np.allclose(light[..., 2], 6 / 24)


def test_the_sun__lights_what_faces_it_and_bodies_cast_shadows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo_compute.rendering.path_tracer.renderer.SHADOW_STEPS", 16)
    monkeypatch.setattr("zoo_compute.rendering.path_tracer.renderer.STEPS", (48,))

    def floor_and_ball(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return torch.minimum(y, torch.sqrt(x * x + (y - 2) * (y - 2) + z * z) - 1.0)

    scene = Scene(
        floor_and_ball,
        lambda x, y, z, time: (1.0, 1.0, 1.0),
        lambda time: ((6.0, 1.0, 0.1), (0.0, 0.0, 0.0)),
        lambda time: ((0.0, 1.0, 0.0), (1.0, 1.0, 1.0)),
        lambda x, y, z, time: (0.0, 0.0, 0.0),
    )
    layout = small(SIZE, SIZE, samples=4)
    light = mapped(Renderer(scene, layout), layout)[..., 0]
    assert light.max() > 0.95, "the floor beside the ball"
    assert light[SIZE // 2, SIZE // 2] < 0.05, "below the ball"
    assert light.min() >= 0


def test_light__has_a_gradient_by_what_the_scene_computes_with() -> None:
    class Tinted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tint = torch.nn.Parameter(torch.tensor(0.5))
            self.radius = torch.nn.Parameter(torch.tensor(1.0))

        def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
            return torch.sqrt(x * x + y * y + z * z) - self.radius

    body, layout = Tinted(), small(samples=1)
    scene = Scene(
        body,
        lambda x, y, z, time: (body.tint, 0.2, 0.2),
        lambda time: ((0.0, 0.0, DISTANCE), (0.0, 0.0, 0.0), 15.0),
    )
    renderer = Renderer(scene, layout)
    assert {"surface.tint", "surface.radius", ENTRY} <= set(renderer.state_dict())

    def total() -> torch.Tensor:
        torch.manual_seed(0)
        light: torch.Tensor = renderer(torch.from_numpy(layout.items[:1]).long())
        return light.sum()

    total().backward()
    assert body.tint.grad is not None
    assert body.radius.grad is not None
    slope = float(body.tint.grad)
    with torch.no_grad():
        before = total()
        body.tint += 0.01
        assert float((total() - before) / 0.01) == pytest.approx(slope, rel=0.01)
    assert math.isfinite(float(body.radius.grad))
    assert float(body.radius.grad) != 0
