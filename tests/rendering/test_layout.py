"""The division of frames into tiles and passes: every pixel of every pass once, in an order that lets a picture grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.scenes import small
from zoo_compute.errors import UserError
from zoo_compute.rendering.layout import MOST_STEPS, TILE_PATHS, Layout


@pytest.mark.parametrize(("width", "height"), [(640, 360), (1920, 1080), (8, 8), (1048, 8), (1304, 776)])
def test_tiles__cover_each_pixel_of_each_pass_once(width: int, height: int) -> None:
    layout = Layout.of(width, height, (3, 4), 6, 24)
    assert layout.across * layout.down * layout.pass_samples <= TILE_PATHS
    covered = np.zeros((2, layout.passes, height, width), int)
    for frame, left, top, pass_ in layout.items:
        covered[frame - 3, pass_, top : top + layout.down, left : left + layout.across] += 1
    assert (covered == 1).all()
    assert layout.count == len(layout.items)
    assert layout.pass_samples * layout.passes == 6


def test_items__come_frame_by_frame_and_in_it_pass_by_pass() -> None:
    layout = small(frames=(7, 8))
    assert layout.items[:, 0].tolist() == [7] * 4 + [8] * 4
    assert layout.items[:4, 1:].tolist() == [[0, 0, 0], [8, 0, 0], [0, 0, 1], [8, 0, 1]]
    assert (layout.items_of(8), layout.frames_of(0, 4), layout.frames_of(3, 2)) == (
        range(4, 8),
        range(7, 8),
        range(7, 9),
    )


def test_a_round__is_a_frame_or_where_there_are_few_a_part_of_one() -> None:
    film, still = Layout.of(640, 360, (1, 48), 16, 24), Layout.of(640, 360, (1, 1), 16, 24)
    assert film.steps(4) * 4 == film.frame_items
    assert still.steps(2) * 2 == still.tiles, "a pass, of which there are four"
    assert Layout.of(3840, 2160, (1, 48), 64, 24).steps(1) == MOST_STEPS


def test_numbers__are_read_as_they_were_written() -> None:
    layout = Layout.of(640, 360, (1, 48), 16, 24)
    assert Layout.read(np.array(layout.numbers, np.float32)) == layout
    for numbers in (
        [1, 2],
        [*layout.numbers[:-1], 1.5],
        [641, *layout.numbers[1:]],
        [*layout.numbers[:2], 0, *layout.numbers[3:]],
    ):
        with pytest.raises(UserError):
            Layout.read(numbers)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((641, 360, (1, 2), 1, 24), "a width of 641 pixels: expected a multiple of 8, such as 640"),
        ((640, 3, (1, 2), 1, 24), "a height of 3 pixels"),
        ((2**25, 8, (1, 2), 1, 24), "more than 33,554,432 pixels"),
        ((640, 360, (5, 2), 1, 24), "the last frame: 2 is not from 5 to"),
        ((640, 360, (1, 2), 0, 24), "samples: 0 is not from 1"),
        ((640, 360, (1, 2), -4, 24), "samples: -4 is not from 1"),
        ((640, 360, (1, 100_000), 16, 24), "100,000 frames make 57,600,000 items"),
        ((640, 360, (1, 2), 1, 0), "fps: 0 is not from 1"),
    ],
)
def test_a_division_that_cannot_be__is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Layout.of(*arguments)
