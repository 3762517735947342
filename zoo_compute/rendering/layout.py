"""How a rendering is divided: frames into tiles and passes, each of which is an item of a map. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from repops.commitments import Array
from zoo_compute.errors import UserError

ENTRY = "rendering"  # the renderer's tensor that has these numbers: a job's first state says so what its outputs are
SIDE = 8  # pixels: width and height are multiples of it
MOST_PIXELS, MOST_FRAMES, MOST_SAMPLES = 1 << 25, 100_000, 4096
MOST_ITEMS = 1 << 22
TILE_PATHS = 8192  # of a step at most, pixels of a tile times samples: a dispute has the trace of a step hashed, 4 bytes for each path and node
PASS_SAMPLES = 4  # of a pass at most: more give less to send, fewer a picture sooner
ROUNDS = 8  # at least, where there are so many passes: a picture grows by rounds
MOST_STEPS = 256  # of a slot and round: each step writes beside the outputs of all of them


@dataclass(frozen=True)
class Layout:
    """Of frames `first` to `last`, in pixels. across, down: of a tile. A pass takes `pass_samples` samples of each of a tile's pixels."""

    width: int
    height: int
    across: int
    down: int
    fps: int
    first: int
    last: int
    pass_samples: int
    passes: int

    def __post_init__(self) -> None:
        """Raises UserError."""
        _whole("fps", self.fps, 1, 1000)
        _whole("the first frame", self.first, 0, MOST_FRAMES)
        _whole("the last frame", self.last, self.first, MOST_FRAMES)
        _whole("samples", self.pass_samples * self.passes, 1, MOST_SAMPLES)
        check_size(self.width, self.height)
        if min(self.across, self.down) < 1 or self.width % self.across or self.height % self.down:
            raise UserError(f"tiles of {self.across}x{self.down} do not divide {self.width}x{self.height}")
        if self.count > MOST_ITEMS:
            raise UserError(
                f"{len(self.frames):,} frames make {self.count:,} items (tiles and passes), at most {MOST_ITEMS:,}",
                hint="render fewer frames at once",
            )

    @classmethod
    def of(cls, width: int, height: int, frames: tuple[int, int], samples: int, fps: int) -> Layout:
        """The division that suits a size, frames (first, last) and samples of a pixel. Raises UserError."""
        check_size(width, height)
        most = next(count for count in range(PASS_SAMPLES, 0, -1) if samples % count == 0)
        across, down = _tile(width, height, TILE_PATHS // most)
        return cls(width, height, across, down, fps, *frames, most, samples // most)

    @classmethod
    def read(cls, numbers: Sequence[float]) -> Layout:
        """From the tensor ENTRY. Raises UserError."""
        if len(numbers) != len(fields(cls)) or any(number != int(number) for number in numbers):
            raise UserError(f"{ENTRY}: expected {len(fields(cls))} whole numbers")
        return cls(*map(int, numbers))

    @property
    def numbers(self) -> list[int]:
        return [getattr(self, field.name) for field in fields(self)]

    @property
    def frames(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def tiles(self) -> int:
        """Of a frame."""
        return (self.width // self.across) * (self.height // self.down)

    @property
    def frame_items(self) -> int:
        return self.tiles * self.passes

    @property
    def count(self) -> int:
        return len(self.frames) * self.frame_items

    @cached_property
    def items(self) -> Array:
        """(items, 4) int32: frame, left and top of the tile, pass. Frame by frame, in it pass by pass, so that a frame is first grainy."""
        tops, lefts = range(0, self.height, self.down), range(0, self.width, self.across)
        tiles = np.array([(left, top) for top in tops for left in lefts], np.int32)
        made = np.empty((len(self.frames), self.passes, self.tiles, 4), np.int32)
        made[..., 0] = np.array(self.frames, np.int32)[:, None, None]
        made[..., 1:3] = tiles
        made[..., 3] = np.arange(self.passes, dtype=np.int32)[:, None]
        return made.reshape(-1, 4)

    def steps(self, slots: int) -> int:
        """Of a slot and round at most: a round is a frame, or equal parts of its passes where that gives fewer than ROUNDS rounds."""
        wanted = min(self.passes, -(-ROUNDS // len(self.frames)))
        parts = next(parts for parts in range(wanted, self.passes + 1) if self.passes % parts == 0)
        return min(MOST_STEPS, -(-self.frame_items // (parts * slots)))

    def frames_of(self, first: int, count: int) -> range:
        """The frames that items from number `first` on are of."""
        return range(self.first + first // self.frame_items, self.first + -(-(first + count) // self.frame_items))

    def items_of(self, frame: int) -> range:
        """The numbers of a frame's items."""
        start = (frame - self.first) * self.frame_items
        return range(start, start + self.frame_items)


def check_size(width: int, height: int) -> None:
    """Raises UserError."""
    for name, size in (("width", width), ("height", height)):
        if size < SIDE or size % SIDE:
            near = max(SIDE, round(size / SIDE) * SIDE)
            raise UserError(f"a {name} of {size} pixels: expected a multiple of {SIDE}, such as {near}")
    if width * height > MOST_PIXELS:
        raise UserError(f"{width}x{height} has more than {MOST_PIXELS:,} pixels; choose a smaller size")


def _whole(what: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise UserError(f"{what}: {number:,} is not from {least:,} to {most:,}")


def _tile(width: int, height: int, most: int) -> tuple[int, int]:
    """A tile of at most so many pixels that divides the picture: of the large ones the squarest."""
    sizes = [(x, y) for x in _divisors(width) for y in _divisors(height) if x * y <= most]
    return max(sizes, key=lambda size: (min(size[0] * size[1], most * 3 // 4), -abs(size[0] - size[1])))


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]
