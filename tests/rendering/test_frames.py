"""Passes become pictures, pictures files, and files a film; a folder belongs to one rendering."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.scenes import BALL, small
from zoo_compute.errors import UserError
from zoo_compute.rendering.frames import RECORD, FramesFolder
from zoo_compute.rendering.pictures import Picture, developed, png

LAYOUT = small(frames=(3, 4))
PIXELS = LAYOUT.across * LAYOUT.down


def rows(*levels: float) -> np.ndarray:
    """Tiles of one grey each."""
    return np.stack([np.full((PIXELS, 3), level, np.float32) for level in levels])


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(BALL)
    return tmp_path / "a.py"


def test_passes__are_averaged_and_what_is_missing_is_transparent() -> None:
    picture = Picture(LAYOUT)
    picture.add(LAYOUT.items[:1], rows(0.25))
    assert (picture.light[0, 0, 0], picture.light[0, -1, 0], picture.passes) == (0.25, 0, 0)
    assert np.unique(picture.pixels()[:, :8, 3]).tolist() == [255]
    assert not picture.pixels()[:, 8:].any()
    picture.add(LAYOUT.items[1:4], rows(1.0, 0.75, 0.0))
    assert (picture.light[0, 0, 0], picture.light[0, -1, 0], picture.passes) == (0.5, 0.5, 2)


def test_light__is_developed_from_black_to_white_and_what_is_no_number_is_black() -> None:
    made = developed(np.array([0.0, -1.0, np.nan, 0.1, 0.5, 1.0, 1e38, np.inf])).tolist()
    assert made[:3] == [0, 0, 0]
    assert made == [0, 0, 0, *sorted(made[3:])]
    assert made[-2:] == [255, 255]
    assert made[3] == round(255 * (1.055 * (1 - np.exp(-0.1)) ** (1 / 2.4) - 0.055))


def test_a_file__is_what_other_programs_read() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 16, 4), np.uint8)
    with Image.open(io.BytesIO(png(pixels))) as image:
        assert image.mode == "RGBA"
        assert np.array_equal(np.asarray(image), pixels)


def test_a_folder__is_one_renderings(scene: Path, tmp_path: Path) -> None:
    folder = FramesFolder(tmp_path / "out", scene, LAYOUT)
    folder.begin()
    folder.draw(4, rows(1, 1))
    assert folder.file(4).name == "000004.png"
    FramesFolder(tmp_path / "out", scene, LAYOUT)
    with pytest.raises(UserError, match="frames of another rendering"):
        FramesFolder(tmp_path / "out", scene, small())
    scene.write_text(BALL + "\n# another\n")
    with pytest.raises(UserError, match="frames of another rendering"):
        FramesFolder(tmp_path / "out", scene, LAYOUT)
    (tmp_path / "out" / RECORD).unlink()
    with pytest.raises(UserError, match="pictures that are no rendering's"):
        FramesFolder(tmp_path / "out", scene, LAYOUT)
    with pytest.raises(UserError, match="is no folder"):
        FramesFolder(scene, scene, LAYOUT)


def ffmpeg(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    program = folder / "ffmpeg"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_film__is_made_of_the_frames_where_there_is_ffmpeg(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = FramesFolder(tmp_path / "out", scene, LAYOUT)
    folder.begin()
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path / "nowhere"))
        assert folder.film() is None
    ffmpeg(tmp_path / "bin", 'for last; do :; done; echo "$@" > "$last"', monkeypatch)
    film = folder.film()
    assert film is not None
    assert "-framerate 24 -start_number 3 -i %06d.png" in film.read_text()


def test_ffmpeg_that_fails__is_an_error_with_its_words(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = FramesFolder(tmp_path / "out", scene, LAYOUT)
    folder.begin()
    ffmpeg(tmp_path / "bin", "echo no codec >&2; exit 1", monkeypatch)
    with pytest.raises(UserError, match="ffmpeg failed: no codec"):
        folder.film()
