"""A scene: the functions of a user's file that say what is where, seen from where, in which light."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from zoo_compute.errors import UserError
from zoo_compute.jobs.model_source import describe_error, run_file
from zoo_compute.rendering.path_tracer.vectors import Vector

FORMS = {
    "scene": "def scene(x, y, z, time): return distance, to the nearest surface, negative inside",
    "colour": "def colour(x, y, z, time): return (red, green, blue), or (red, green, blue, mirror), of the surface there",
    "camera": "def camera(time): return (x, y, z), (x, y, z): the eye, and what it looks at, and perhaps the view's degrees",
    "light": "def light(time): return (x, y, z), (red, green, blue): the direction to the sun, and its colour",
    "sky": "def sky(x, y, z, time): return (red, green, blue) of a direction",
}
POINTS = 5  # of the trial: no other size that a scene could return
DEGREES = 40.0


def _colour(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, time: torch.Tensor) -> Any:
    return 0.7, 0.7, 0.7


def _camera(time: torch.Tensor) -> Any:
    return (0.0, 1.2, 5.0), (0.0, 0.3, 0.0)


def _light(time: torch.Tensor) -> Any:
    return (0.6, 0.8, 0.5), (2.2, 1.95, 1.6)


def _sky(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, time: torch.Tensor) -> Any:
    """Blue above, pale at the horizon."""
    height = torch.sqrt(torch.clamp(y, 0.0, 1.0))
    return 0.75 - 0.55 * height, 0.85 - 0.42 * height, 1.0 - 0.15 * height


@dataclass(frozen=True)
class Scene:
    """surface: a function, or a module of torch whose parameters a picture depends on. name: of the file, for errors."""

    surface: Callable[..., Any]
    colours: Callable[..., Any] = _colour
    cameras: Callable[..., Any] = _camera
    lights: Callable[..., Any] = _light
    skies: Callable[..., Any] = _sky
    name: str = "scene"

    @classmethod
    def load(cls, path: str | Path) -> Scene:
        """Run a scene's file, and call its functions once. Raises UserError."""
        path = Path(path).expanduser()
        try:
            names = vars(run_file(path))
        except FileNotFoundError as error:
            raise UserError(f"there is no file {path}", hint=f"write one, with {FORMS['scene']}") from error
        except Exception as error:
            raise UserError(f"{path.name}: {describe_error(error)}") from error
        for name in FORMS:
            if name in names and not callable(names[name]):
                raise UserError(f"{path.name}: `{name}` is no function", hint=f"expected {FORMS[name]}")
        if "scene" not in names:
            raise UserError(f"{path.name} has no function `scene`", hint=f"expected {FORMS['scene']}")
        made = cls(
            names["scene"],
            names.get("colour", _colour),
            names.get("camera", _camera),
            names.get("light", _light),
            names.get("sky", _sky),
            path.name,
        )
        made.check()
        return made

    def check(self) -> None:
        """Call each function for a few points. Raises UserError."""
        time, (x, y, z) = torch.tensor(0.5), torch.linspace(-1, 1, 3 * POINTS).reshape(3, POINTS)
        with torch.no_grad():
            for name, call in (
                ("scene", lambda: self.distance(x, y, z, time)),
                ("colour", lambda: self.colour(x, y, z, time)),
                ("camera", lambda: self.camera(time)),
                ("light", lambda: self.light(time)),
                ("sky", lambda: self.sky(x, y, z, time)),
            ):
                try:
                    call()
                except UserError:
                    raise
                except Exception as error:
                    raise UserError(
                        f"{self.name}: `{name}`: {describe_error(error)}", hint=f"expected {FORMS[name]}"
                    ) from error

    def distance(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """To the nearest surface, of each point. Raises UserError."""
        made = self.surface(x, y, z, time)
        if not isinstance(made, torch.Tensor) or made.shape != x.shape or made.dtype != torch.float32:
            raise self._refused("scene", f"returned {_described(made)}, and not one float32 for each point")
        return made

    def colour(
        self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, time: torch.Tensor
    ) -> tuple[Vector, torch.Tensor]:
        """The colour of the surface at each point, and the share of its light that it reflects as a mirror does. Raises UserError."""
        made = self.colours(x, y, z, time)
        has_mirror = isinstance(made, tuple) and len(made) == 4
        mirror = self._number("colour", "mirror", made[3] if has_mirror else 0.0, x)
        return self._vector("colour", made[:3] if has_mirror else made, x), mirror

    def camera(self, time: torch.Tensor) -> tuple[Vector, Vector, float]:
        """Eye, target, and the degrees that a picture's height covers. Raises UserError."""
        made = self.cameras(time)
        if not isinstance(made, tuple) or len(made) not in (2, 3):
            raise self._refused("camera", f"returned {_described(made)}")
        degrees = made[2] if len(made) == 3 else DEGREES
        if not isinstance(degrees, (int, float)) or not 1 <= degrees <= 160:
            raise self._refused("camera", f"returned as degrees {_described(degrees)}, and not a number from 1 to 160")
        return self._vector("camera", made[0], time), self._vector("camera", made[1], time), float(degrees)

    def light(self, time: torch.Tensor) -> tuple[Vector, Vector]:
        """The direction to the sun, and its colour. Raises UserError."""
        made = self.lights(time)
        if not isinstance(made, tuple) or len(made) != 2:
            raise self._refused("light", f"returned {_described(made)}")
        return self._vector("light", made[0], time), self._vector("light", made[1], time)

    def sky(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, time: torch.Tensor) -> Vector:
        """The colour of the sky in each direction. Raises UserError."""
        return self._vector("sky", self.skies(x, y, z, time), x)

    def _vector(self, of: str, made: Any, like: torch.Tensor) -> Vector:
        return tuple(self._number(of, "one of three numbers", each, like) for each in self._three(of, made))  # type: ignore[return-value]

    def _three(self, of: str, made: Any) -> tuple[Any, ...]:
        if (
            not isinstance(made, (tuple, list, torch.Tensor))
            or (isinstance(made, torch.Tensor) and not made.dim())
            or len(made) != 3
        ):
            raise self._refused(of, f"returned {_described(made)} where three numbers are expected")
        return tuple(made)

    def _number(self, of: str, what: str, made: Any, like: torch.Tensor) -> torch.Tensor:
        """A number for all points, or a tensor with one for each."""
        if isinstance(made, (int, float)):
            return torch.full_like(like, float(made))
        if not isinstance(made, torch.Tensor) or made.shape not in (like.shape, torch.Size()):
            raise self._refused(
                of, f"returned as {what} {_described(made)}, and neither a number nor one for each point"
            )
        return made.expand(like.shape)

    def _refused(self, of: str, what: str) -> UserError:
        return UserError(f"{self.name}: `{of}` {what}", hint=f"expected {FORMS[of]}")


def _described(made: Any) -> str:
    if isinstance(made, torch.Tensor):
        return f"a {str(made.dtype).removeprefix('torch.')} tensor of shape {tuple(made.shape)}"
    return f"{len(made)} values" if isinstance(made, tuple) else f"{type(made).__name__} {made!r}"[:60]
