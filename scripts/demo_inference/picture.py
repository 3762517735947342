"""The picture of a run: a dot for each request, in the row of the seat that answered it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

DIED = "died in the middle"
COLUMN, ROW, LEFT, TOP = 18, 46, 170, 64
COLOURS = {
    "not checked": "#b8c4d0",
    "checked": "#2a7d4f",
    "false, found by a check": "#c0392b",
    "false, found afterwards": "#e59866",
    DIED: "#34495e",
}


@dataclass(frozen=True)
class Dot:
    """seat: the name of its operator. what: a key of COLOURS."""

    seat: str
    what: str


def svg(dots: Sequence[Dot], seats: Sequence[str], notes: Sequence[str]) -> str:
    """seats: from the cheapest on. notes: a line for each seat, of what became of it."""
    width = LEFT + COLUMN * max(len(dots), 36) + 30
    height = TOP + ROW * len(seats) + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="20" y="28" font-size="16" fill="#222">{sum(dot.what != DIED for dot in dots)} requests, each to the cheapest seat that may be asked</text>',
    ]
    for row, (seat, note) in enumerate(zip(seats, notes, strict=True)):
        y = TOP + ROW * row
        parts += [
            f'<line x1="{LEFT - 10}" y1="{y}" x2="{width - 20}" y2="{y}" stroke="#e3e8ec"/>',
            f'<text x="20" y="{y + 5}" fill="#222">{escape(seat)}</text>',
            f'<text x="{LEFT - 10}" y="{y + 21}" font-size="11" fill="#667">{escape(note)}</text>',
        ]
    for number, dot in enumerate(dots):
        x, y = LEFT + COLUMN * number, TOP + ROW * seats.index(dot.seat)
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="6.5" fill="{COLOURS[dot.what]}"><title>request {number + 1}: {dot.what}</title></circle>'
        )
    x, y = 20, height - 20
    for what, colour in COLOURS.items():
        if any(dot.what == what for dot in dots):
            parts += [
                f'<circle cx="{x + 6}" cy="{y - 4}" r="6" fill="{colour}"/>',
                f'<text x="{x + 18}" y="{y}" fill="#444">{what}</text>',
            ]
            x += 40 + 7 * len(what)
    return "\n".join([*parts, "</svg>", ""])
