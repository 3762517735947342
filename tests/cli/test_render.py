"""`zoo render` without a chain: frames that grow round by round, Ctrl-C, going on, and what it refuses before any money moves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.scenes import BALL, few_steps, small  # noqa: F401
from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute.cli.context import Settings
from zoo_compute.cli.render import collect
from zoo_compute.client.outputs import MappedRound
from zoo_compute.errors import UserError
from zoo_compute.rendering.frames import FramesFolder

LAYOUT = small(frames=(3, 4))  # of eight items: two tiles in two passes of two frames
LEVELS = np.array([0.2, 0.4, 0.6, 0.8, 0.1, 0.3, 0.5, 0.7], np.float32)
ROWS = np.broadcast_to(LEVELS[:, None, None], (8, LAYOUT.across * LAYOUT.down, 3))
SIZES = (3, 3, 2)  # items of each round: none ends with a frame


class Rendering:
    """A job of three rounds. there: how many are final; after them `stop` is called."""

    id = 7

    def __init__(self, there: int, stop: Callable[[], None] = lambda: None) -> None:
        self._there, self._stop = there, stop
        self.fetched: list[int] = []

    def view(self) -> Any:
        return SimpleNamespace(terms=SimpleNamespace(rounds=3))

    def outputs(self, *, after: int, poll_s: float, show: Callable[[Any], None]) -> Iterator[MappedRound]:
        show(SimpleNamespace(line=lambda: "job 7 running"))
        for number in range(after, self._there):
            self.fetched.append(number)
            first = 3 * number
            yield MappedRound(number, first, {"outputs": ROWS[first : first + SIZES[number]]})
        self._stop()


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def folder(tmp_path: Path) -> FramesFolder:
    (tmp_path / "a.py").write_text(BALL)
    return FramesFolder(tmp_path / "out", tmp_path / "a.py", LAYOUT)


def run(job: Rendering, folder: FramesFolder, *, as_json: bool = False) -> None:
    settings = Settings()
    settings.as_json = as_json
    collect(settings, job, folder, {"job": job.id})  # type: ignore[arg-type]


def frame(folder: FramesFolder, number: int) -> Any:
    with Image.open(folder.file(number)) as image:
        return np.asarray(image)


def grey(*levels: float) -> int:
    from zoo_compute.rendering.pictures import developed

    return int(developed(np.array(np.mean(np.float32(levels), dtype=np.float64))))


def test_frames__grow_with_the_rounds_and_ctrl_c_keeps_them(
    folder: FramesFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(KeyboardInterrupt):
        run(Rendering(1, interrupt), folder)
    assert f"job 7 keeps running; 1 of 3 rounds are in {folder.path / 'rounds'}" in capsys.readouterr().err
    picture = frame(folder, 3)
    assert [picture[0, at, 0] for at in (0, -1)] == [grey(0.2, 0.6), grey(0.4)]
    assert not folder.file(4).exists()
    again = Rendering(3)
    run(again, folder, as_json=True)
    assert again.fetched == [1, 2], "what was fetched is not fetched again"
    said = capsys.readouterr()
    assert json.loads(said.out) == {"job": 7, "out": str(folder.path), "frames": 2, "film": None}
    assert "ffmpeg is not installed" in said.err
    assert frame(folder, 3)[0, -1, 0] == grey(0.4, 0.8)
    assert [frame(folder, 4)[0, at, 0] for at in (0, -1)] == [grey(0.1, 0.5), grey(0.3, 0.7)]
    assert sorted(path.name for path in folder.path.iterdir()) == ["000003.png", "000004.png", "rendering.json"]


def test_rounds_that_lie_there_undrawn__are_drawn(folder: FramesFolder) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(Rendering(2, interrupt), folder)
    folder.file(3).unlink()
    folder.file(4).write_bytes(b"half")
    with pytest.raises(KeyboardInterrupt):
        run(Rendering(2, interrupt), folder)
    assert frame(folder, 3)[0, -1, 0] == grey(0.4, 0.8)
    assert frame(folder, 4)[0, 0, 3] == 255


def test_a_job_that_ends_without_its_rounds__is_an_error(folder: FramesFolder) -> None:
    with pytest.raises(UserError, match="job 7 is over, and 2 of its 3 rounds are final"):
        run(Rendering(2), folder)
    assert folder.file(3).exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--frames", "5:2"), "the last frame: 2 is not from 5"),
        (("--size", "641x360"), "a width of 641 pixels: expected a multiple of 8, such as 640"),
        (("--samples", "0"), "samples: 0 is not from 1"),
        (("--out", "others"), "others has pictures that are no rendering's"),
        ((), "no budget"),
    ],
)
@pytest.mark.usefixtures("few_steps")
def test_what_cannot_be_rendered__is_refused_before_anything_is_sent(
    zoo: Zoo, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "a.py").write_text(BALL)
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "cat.png").touch()
    assert message in zoo.refused("render", "a.py", "--out", "frames", *options)
    assert not (tmp_path / "frames").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("--frames", "a:b"), ("--frames", "1:2:3"), ("--size", "640"), ("--size", "-8x8")]
)
def test_numbers_that_are_none__are_wrong_usage(zoo: Zoo, tmp_path: Path, option: str, value: str) -> None:
    (tmp_path / "a.py").write_text(BALL)
    code, _, err = zoo.run("render", "a.py", "--out", "frames", option, value)
    assert code == 2
    assert f"Invalid value for '{option}'" in err


def test_a_scene_that_is_none__is_refused_before_its_budget(zoo: Zoo, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    assert "a.py has no function `scene`" in zoo.refused("render", "a.py", "--out", "frames")


@pytest.mark.usefixtures("few_steps")
def test_a_dry_run__says_what_it_would_cost(zoo: Zoo, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BALL)
    command = (
        "render",
        "a.py",
        "--out",
        "frames",
        "--size",
        "64x48",
        "--slots",
        "1",
        "--frames",
        "1:3",
        "--dry-run",
        "--max-budget",
        "40",
    )
    said = zoo.json(*command)
    assert (said["items"], said["rounds"], said["covered"]) == (3 * 2 * 4, 12, True), "a pass each"
    assert not (tmp_path / "frames").exists()
