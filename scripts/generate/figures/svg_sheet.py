"""A sheet for shapes and words as SVG; equal drawings give equal text. For scripts/generate/figures/pictures.py."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

INK, FAINT, RULE = "#1f2328", "#59636e", "#d0d7de"
PAPER, PADDING = "#ffffff", "#eceff2"
COMMITTER, ASKER = "#1f5fa8", "#b8442c"
LIGHT = {COMMITTER: "#dbe8f6", ASKER: "#f9e0d9", FAINT: "#eceff2"}
Point = tuple[float, float]


class Sheet:
    """White, with a frame, so that it is readable on any page."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height = width, height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" '
            f'height="{_n(height)}" font-family="DejaVu Sans, Verdana, sans-serif" role="img">',
            f"<title>{escape(title)}</title>",
        ]
        self.box(0.5, 0.5, width - 1, height - 1, PAPER, RULE, radius=8)

    def box(self, x: float, y: float, w: float, h: float, fill: str, stroke: str = "none", radius: float = 0) -> None:
        self.parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(h)}" rx="{_n(radius)}" fill="{fill}" '
            f'stroke="{stroke}"/>'
        )

    def area(self, points: Sequence[Point], fill: str) -> None:
        self.parts.append(f'<polygon points="{_points(points)}" fill="{fill}"/>')

    def line(
        self,
        points: Sequence[Point],
        stroke: str = FAINT,
        *,
        wide: float = 1.2,
        dashed: bool = False,
        arrow: bool = False,
    ) -> None:
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(
            f'<polyline points="{_points(points)}" fill="none" stroke="{stroke}" stroke-width="{_n(wide)}" '
            f'stroke-linejoin="round"{dash}/>'
        )
        if arrow:
            self._head(points[-2], points[-1], stroke)

    def _head(self, tail: Point, tip: Point, fill: str) -> None:
        dx, dy = tip[0] - tail[0], tip[1] - tail[1]
        length = (dx * dx + dy * dy) ** 0.5
        dx, dy = 7 * dx / length, 7 * dy / length
        back = (tip[0] - dx, tip[1] - dy)
        self.area([tip, (back[0] - dy / 2, back[1] + dx / 2), (back[0] + dy / 2, back[1] - dx / 2)], fill)

    def words(
        self,
        x: float,
        y: float,
        text: str,
        *,
        fill: str = INK,
        size: int = 12,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" fill="{fill}" font-size="{size}" text-anchor="{anchor}"{weight}>'
            f"{escape(text)}</text>"
        )

    def svg(self) -> str:
        return "\n".join([*self.parts, "</svg>", ""])


def _n(value: float) -> str:
    """A number to one decimal, which rounds alike on every machine."""
    return f"{value:.1f}".removesuffix(".0")


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
