"""Small pictures in HTML and SVG for notebooks: self-contained, without scripts or styles that could leak into a page.

Strangers choose some of the texts, such as a token's symbol: every text is escaped here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import isfinite

BLUE, GREEN, ORANGE, RED, GREY = "#3b7dd8", "#2e9e5b", "#d98a1f", "#c83c3c", "#8884"
CELL, GAP = 10, 2  # pixels of a grid's square, and between two
WIDTH, HEIGHT = 320, 90  # pixels of a curve


def page(title: str, *parts: str) -> str:
    """A titled block. parts: HTML that a function of this module made."""
    return f'<div style="font-family:sans-serif;line-height:1.5"><b>{escape(title)}</b>{"".join(parts)}</div>'


def lines(*texts: str) -> str:
    return "".join(f"<div>{escape(text)}</div>" for text in texts if text)


def table(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values."""
    cell = '<td style="text-align:left;padding:1px 12px 1px 0;vertical-align:top">'
    made = "".join(f"<tr>{cell}{escape(name)}</td>{cell}{escape(text)}</td></tr>" for name, text in rows)
    return f'<table style="border-collapse:collapse">{made}</table>'


def bar(parts: Sequence[tuple[str, str, int]], label: str) -> str:
    """A bar of parts and its legend. parts: (text, colour, size); sizes below 0 count as 0."""
    total = sum(max(0, size) for *_, size in parts)
    if not total:
        return ""
    boxes = "".join(
        f'<span title="{escape(text)}" style="background:{colour};width:{100 * size / total:.2f}%"></span>'
        for text, colour, size in parts
        if size > 0
    )
    legend = "".join(
        f'<span style="margin-right:12px"><span style="color:{colour}">■</span> {escape(text)}</span>'
        for text, colour, _ in parts
    )
    frame = f"display:flex;width:{WIDTH}px;height:12px;overflow:hidden"
    return f'<div role="img" aria-label="{escape(label)}" style="{frame}">{boxes}</div><div>{legend}</div>'


def grid(columns: Sequence[Sequence[tuple[str, str]]], label: str) -> str:
    """Squares in columns. columns: for each the (text, colour) of its squares from the top; the text shows on hovering."""
    step = CELL + GAP
    width, height = step * len(columns), step * max(map(len, columns), default=0)
    squares = "".join(
        f'<rect x="{step * x}" y="{step * y}" width="{CELL}" height="{CELL}" rx="2" fill="{colour}"><title>{escape(text)}</title></rect>'
        for x, column in enumerate(columns)
        for y, (text, colour) in enumerate(column)
    )
    return f'<svg width="{width}" height="{height}" role="img" aria-label="{escape(label)}">{squares}</svg>'


def curve(values: Sequence[float | None], label: str) -> str:
    """A line through the values that are finite numbers; empty without two of them."""
    known = [(x, value) for x, value in enumerate(values) if value is not None and isfinite(value)]
    if len(known) < 2:
        return ""
    least, most = min(y for _, y in known), max(y for _, y in known)
    across, up = WIDTH / max(1, len(values) - 1), HEIGHT / ((most - least) or 1.0)
    points = " ".join(f"{x * across:.1f},{HEIGHT - (y - least) * up:.1f}" for x, y in known)
    line = f'<polyline points="{points}" fill="none" stroke="{BLUE}" stroke-width="2"/>'
    style = f'viewBox="-2 -2 {WIDTH + 4} {HEIGHT + 4}" width="{WIDTH + 4}" height="{HEIGHT + 4}"'
    return f'<svg {style} role="img" aria-label="{escape(label)}"><title>{escape(label)}</title>{line}</svg>'
