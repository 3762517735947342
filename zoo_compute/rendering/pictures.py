"""Pictures from linear light: passes are added up, averaged, and written as PNG. No torch."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from repops.commitments import Array
from zoo_compute.rendering.layout import Layout


class Picture:
    """One frame, as far as its passes are there."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._light = np.zeros((layout.height, layout.width, 3), np.float64)
        self._passes = np.zeros((layout.height, layout.width, 1), np.float64)

    @property
    def passes(self) -> int:
        """That the whole picture has."""
        return int(self._passes.min())

    def add(self, items: Array, rows: Array) -> None:
        """items: (N, 4), all of this frame; rows: what the renderer made of them, (N, pixels of a tile, 3)."""
        across, down = self._layout.across, self._layout.down
        for (_, left, top, _), row in zip(items, rows, strict=True):
            tile = slice(top, top + down), slice(left, left + across)
            self._light[tile] += row.reshape(down, across, 3)
            self._passes[tile] += 1

    @property
    def light(self) -> Array:
        """(height, width, 3) float64: the mean of the passes, 0 where none is there."""
        mean: Array = self._light / np.maximum(self._passes, 1)
        return mean

    def pixels(self) -> Array:
        """(height, width, 4) uint8: red, green, blue and opacity, which is 0 where no pass is there yet."""
        return np.concatenate([developed(self.light), np.where(self._passes > 0, 255, 0).astype(np.uint8)], axis=-1)


def developed(light: Array) -> Array:
    """Linear light as 8 bits a colour, as screens show it (sRGB). No light is too bright: 1 - exp(-light). What is no number is black."""
    exposed = -np.expm1(-np.maximum(np.nan_to_num(light, nan=0.0), 0.0))
    encoded = np.where(exposed <= 0.0031308, 12.92 * exposed, 1.055 * exposed ** (1 / 2.4) - 0.055)
    return np.rint(255 * np.clip(encoded, 0.0, 1.0)).astype(np.uint8)


def png(pixels: Array) -> bytes:
    """The file of (height, width, 4) uint8."""
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, 4 * width)], axis=1)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
