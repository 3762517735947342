"""A path tracer of signed distances as a torch module: it maps tiles of frames to their pixels, and is traced like any module.

Rays go from the camera to the first surface, and from there on in random directions; each surface on the way is lit by the sun, and
what leaves the scene sees the sky. All is torch, so a picture has a gradient by everything that the scene computes with.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from zoo_compute.rendering.layout import ENTRY, Layout
from zoo_compute.rendering.path_tracer.scene import Scene
from zoo_compute.rendering.path_tracer.vectors import Vector, added, along, chosen, cross, dot, product, scaled, unit

FAR = 40.0  # units of the scene; what is beyond is sky
NEAR = 0.002  # closer than this, relative to the way that a ray went, a surface is reached
STEPS = (56, 24)  # of a ray from the camera to a surface, and of one from there to the next: a path meets two
SHADOW_STEPS = 16  # of a ray to the sun
SUN_SIZE = 0.03  # radius of the sun's disc at distance 1: shadows have soft edges
# Corners of a tetrahedron: four distances give the gradient.
CORNERS = ((1.0, -1.0, -1.0), (-1.0, -1.0, 1.0), (-1.0, 1.0, -1.0), (1.0, 1.0, 1.0))


class Renderer(torch.nn.Module):
    """Maps items (1, 4) (frame, left, top, pass) to linear colours (1, pixels of a tile, 3), the mean of the pass's samples.

    The pass is not computed with: passes differ by their random numbers, which are those of their steps.
    """

    rendering: torch.Tensor  # the layout's numbers, under the name ENTRY

    def __init__(self, scene: Scene, layout: Layout) -> None:
        super().__init__()
        self.scene = scene
        if isinstance(scene.surface, torch.nn.Module):
            self.surface = scene.surface  # its parameters are the renderer's
        self.samples, self.tile = layout.pass_samples, (layout.across, layout.down)
        self.register_buffer(ENTRY, torch.tensor(layout.numbers, dtype=torch.float32))

    def forward(self, items: torch.Tensor) -> torch.Tensor:
        frame, left, top = (items[0, at].float() for at in range(3))
        width, height, fps = (self.rendering[at] for at in (0, 1, 4))
        across, down = self.tile
        pixel = torch.arange(across * down).repeat(self.samples)
        x, y = left + (pixel % across).float() - 0.5 * width, top + (pixel // across).float() - 0.5 * height
        time = frame / fps
        eye, ray = self._rays(time, x / height, y / height, 1.0 / height)
        colour = torch.stack(self._paths(time, eye, ray), -1)
        return colour.reshape(self.samples, -1, 3).mean(0)[None]

    def _rays(self, time: torch.Tensor, x: torch.Tensor, y: torch.Tensor, pixel: torch.Tensor) -> tuple[Vector, Vector]:
        """The eye, and a direction through a random place of each pixel. x, y: a pixel's corner, from the middle; in heights of the picture."""
        eye, target, degrees = self.scene.camera(time)
        ahead = unit(added(target, scaled(eye, -1.0)))
        right = unit(cross(ahead, (0.0, 1.0, 0.0)))
        up = cross(right, ahead)
        scale = 2.0 * math.tan(math.radians(degrees) / 2)
        across, down = ((at + pixel * torch.rand(at.shape)) * scale for at in (x, y))
        ray = unit(along(along(ahead, across, right), -down, up))
        nowhere = torch.zeros_like(x)
        return added(eye, (nowhere, nowhere, nowhere)), ray

    def _paths(self, time: torch.Tensor, start: Vector, ray: Vector) -> Vector:
        """The light that comes back along each ray."""
        light: Vector = (0.0, 0.0, 0.0)
        weight: Vector = (torch.ones_like(ray[0]),) * 3
        for bounce, steps in enumerate(STEPS):
            way, reached = self._march(time, start, ray, steps)
            light = added(light, product(scaled(weight, 1.0 - reached), self.scene.sky(*ray, time)))
            weight = scaled(weight, reached)
            place = along(start, way, ray)
            normal = self._normal(time, place)
            colour, mirror = self.scene.colour(*place, time)
            start = along(place, 4 * NEAR * (1.0 + 0.2 * way), normal)
            mirrored = torch.rand(way.shape) < mirror
            diffuse = product(weight, chosen(mirrored, (0.0, 0.0, 0.0), colour))
            light = added(light, product(diffuse, self._sunlight(time, start, normal)))
            if bounce + 1 < len(STEPS):
                reflected = along(ray, -2.0 * dot(ray, normal), normal)
                ray = chosen(mirrored, reflected, unit(added(normal, scaled(_somewhere(way), 0.99))))
                weight = chosen(mirrored, weight, product(weight, colour))
        return light

    def _march(self, time: torch.Tensor, start: Vector, ray: Vector, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
        """How far each ray goes, and 1 where it reached a surface, else 0."""
        way = torch.zeros_like(ray[0])
        for _ in range(steps):
            way = torch.clamp(way + self.scene.distance(*along(start, way, ray), time), max=FAR)
        left = self.scene.distance(*along(start, way, ray), time)
        return way, ((way < FAR) & (left < NEAR * (1.0 + way))).float()

    def _normal(self, time: torch.Tensor, place: Vector) -> Vector:
        x, y, z = (torch.cat([at + NEAR * corner[axis] for corner in CORNERS]) for axis, at in enumerate(place))
        distances = self.scene.distance(x, y, z, time).reshape(len(CORNERS), -1)
        slope: Vector = (0.0, 0.0, 0.0)
        for corner, distance in zip(CORNERS, distances, strict=True):
            slope = along(slope, distance, corner)
        return unit(slope)

    def _sunlight(self, time: torch.Tensor, start: Vector, normal: Vector) -> Vector:
        """What the sun sends to each place, 0 in shadow."""
        direction, colour = self.scene.light(time)
        ray = unit(along(unit(direction), SUN_SIZE, _somewhere(normal[0])))
        way, least = torch.full_like(normal[0], 2 * NEAR), torch.full_like(normal[0], FAR)
        for _ in range(SHADOW_STEPS):
            distance = self.scene.distance(*along(start, way, ray), time)
            least = torch.minimum(least, distance)
            way = way + torch.clamp(distance, NEAR, 4.0)
        seen = (least > NEAR).float() * torch.relu(dot(normal, ray))
        return scaled(colour, seen)


def _somewhere(like: torch.Tensor) -> Vector:
    """Random places on the unit sphere."""
    z = 2.0 * torch.rand(like.shape) - 1.0
    turn = 2.0 * math.pi * torch.rand(like.shape)
    radius = torch.sqrt(torch.relu(1.0 - z * z) + 1e-9)
    return radius * torch.cos(turn), radius * torch.sin(turn), z


def build(scene: str, layout: dict[str, Any]) -> Renderer:
    """What a job's `model.module` names. scene: the scene's file. Raises UserError."""
    made = Layout(**layout)
    return Renderer(Scene.load(scene), made)
