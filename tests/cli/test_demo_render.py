"""`make demo-render`: which number of which step its pixel is, what it prints, and when it fails."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scripts.demo_render import __main__ as demo
from scripts.demo_render import pixel
from scripts.demo_render.pixel import AROUND, ZOOM, Pixel, Proof
from tests.support.liars.faults import Lie
from zoo_compute.errors import ZooError
from zoo_compute.rendering.layout import Layout
from zoo_compute.rendering.pictures import Picture

PROOF = Proof("alpha", "1:1:0", "step 3: false", 1e37, 0.25, 3, 7, 2_000_000, "100 ZEN")


@pytest.mark.parametrize("lie", [demo.LIE, Pixel(Layout.of(64, 48, (1, 1), 16, 24), 2, 2, 40, 47, 1, 30)])
def test_the_pixel__is_that_number_of_its_slots_step(lie: Pixel) -> None:
    layout, steps, options = lie.layout, lie.layout.steps(lie.slots), lie.options
    Lie(**options)
    assert 0 <= options["slot"] < lie.slots
    item = layout.items[(lie.round * lie.slots + options["slot"]) * steps + options["step"]]
    outputs = np.zeros((steps, 1, layout.across * layout.down, 3), np.float32)
    outputs.reshape(-1)[options["element"]] = 1
    picture = Picture(layout)
    picture.add(item[None], outputs[options["step"]])
    assert np.argwhere(picture.light).tolist() == [[lie.y, lie.x, lie.channel]]
    assert item[3] == lie.round, "a round is a pass"


def test_the_detail__has_the_false_pixel_left_and_the_true_one_right() -> None:
    picture = Picture(demo.LAYOUT)
    rows = np.full((demo.LAYOUT.frame_items, demo.LAYOUT.across * demo.LAYOUT.down, 3), 0.25, np.float32)
    picture.add(demo.LAYOUT.items, rows)
    with Image.open(io.BytesIO(pixel.zoomed(picture, demo.LIE, PROOF))) as image:
        made = np.asarray(image)[ZOOM // 2 :: ZOOM, ZOOM // 2 :: ZOOM]
    width = 2 * AROUND + 1
    assert made.shape == (width, 2 * width + 1, 4)
    assert made[AROUND, AROUND, 2] == 255
    others = np.delete(made[..., 2], width, axis=1)
    assert np.unique(others, return_counts=True)[1].tolist() == [others.size - 1, 1]


@pytest.mark.parametrize(
    ("result", "code", "said"),
    [
        ({}, 0, "alpha is convicted by the contract in dispute 1:1:0"),
        ({"pictures_equal": False}, 1, "NOT EQUAL"),
        ({"convicted": False, "lie": None}, 1, "NOBODY was convicted"),
        (ZooError("it broke", hint="look there"), 1, "error: it broke"),
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
def test_it_fails__unless_the_liar_is_convicted_and_the_pictures_are_equal(
    result: Any, code: int, said: str, as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    report = {
        "job": 1, "convicted": True, "pictures_equal": True, "done_again": [1], "lie": PROOF.to_dict(), "picture": "a.png",
        "own_picture": "b.png", "lie_picture": "c.png", "seconds": 100.4,
    }  # fmt: skip

    def run(self: demo.Demo) -> dict[str, Any]:
        if isinstance(result, ZooError):
            raise result
        made = report | result
        return made | {"text": pixel.as_text(made)}

    monkeypatch.setattr(demo.Demo, "run", run)
    monkeypatch.setattr(
        "sys.argv", ["demo-render", "--folder", str(tmp_path / "run"), *(["--json"] if as_json else [])]
    )
    assert demo.main() == code
    out, err = capsys.readouterr()
    if isinstance(result, ZooError):
        assert said in err
    elif as_json:
        assert json.loads(out) == report | result
    else:
        assert said in out
