"""A scene's file: what it may leave out, and what is said where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.scenes import BALL
from zoo_compute.errors import UserError
from zoo_compute.rendering.path_tracer.scene import Scene


def load(folder: Path, text: str) -> Scene:
    (folder / "a.py").write_text(text)
    return Scene.load(folder / "a.py")


def test_a_scene__is_a_distance_and_all_else_has_a_default(tmp_path: Path) -> None:
    scene, (x, y, z), time = load(tmp_path, BALL), torch.tensor([[3.0, 0], [0, 2], [0, 0]]), torch.tensor(0.0)
    assert scene.distance(x, y, z, time).tolist() == [2, 1]
    colour, mirror = scene.colour(x, y, z, time)
    assert [each.shape for each in (*colour, mirror)] == [(2,)] * 4
    assert len(scene.camera(time)[0]) == len(scene.light(time)[1]) == len(scene.sky(x, y, z, time)) == 3


def test_the_demos_scene__is_one() -> None:
    from scripts.demo_render.__main__ import HERE

    assert Scene.load(HERE / "scene.py").name == "scene.py"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("x = 1", "a.py has no function `scene`", "def scene(x, y, z, time)"),
        ("scene = 4", "a.py: `scene` is no function", "def scene"),
        ("import nothing_there", "No module named 'nothing_there'", ""),
        ("def scene(x, y):\n    return x", "a.py: `scene`: TypeError", "def scene(x, y, z, time)"),
        ("def scene(x, y, z, time):\n    return x[0]", "`scene` returned a float32 tensor of shape (), and not one", "def scene"),
        ("def scene(x, y, z, time):\n    return x > 0", "a bool tensor of shape (5,)", "def scene"),
        ("def scene(x, y, z, time):\n    return x, (1, 1, 1)", "returned 2 values", "def scene"),
        (BALL + "def colour(x, y, z, time):\n    return 1, 1", "`colour` returned 2 values where three", "def colour"),
        (BALL + "def colour(x, y, z, time):\n    return 1, 1, x[:2]", "shape (2,), and neither", "def colour"),
        (BALL + "def colour(x, y, z, time):\n    return 1, 1, 'red'", "str 'red'", "def colour"),
        (BALL + "def camera(time):\n    return 1, 2, 3", "`camera` returned int 1 where three", "def camera"),
        (BALL + "def camera(time):\n    return (1, 2, 3), (0, 0, 0), 500", "as degrees int 500", "def camera"),
        (BALL + "def light(time):\n    return 1, 2, 3", "`light` returned 3 values", "def light"),
        (BALL + "def sky(x, y, z, time):\n    return x", "`sky` returned a float32 tensor of shape (5,) where", "def sky"),
    ],
)  # fmt: skip
def test_a_scene_that_is_none__is_refused_with_what_is_expected(
    text: str, message: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as refused:
        load(tmp_path, text)
    assert message in str(refused.value)
    assert hint in (refused.value.hint or "")


def test_a_file_that_is_not_there__is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        Scene.load(tmp_path / "none.py")
