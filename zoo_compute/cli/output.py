"""Output of commands: one JSON object or readable lines on stdout; progress and errors on stderr."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

BARS = "▁▂▃▄▅▆▇█"


def emit(as_json: bool, data: Mapping[str, Any], lines: Iterable[str] | str = ()) -> None:
    """Print the command's result: `data` as JSON for scripts, or `lines` for people."""
    if as_json:
        click.echo(json.dumps(data, sort_keys=False, default=str))
        return
    click.echo(lines if isinstance(lines, str) else "\n".join(lines))


def say(text: str) -> None:
    """Print a line of progress on stderr."""
    click.echo(text, err=True)


def table(rows: Sequence[Sequence[object]], *, header: Sequence[str] = (), indent: str = "") -> list[str]:
    """Rows in aligned columns. Empty for no rows."""
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return []
    if header:
        cells.insert(0, list(header))
    widths = [max(len(row[i]) for row in cells if i < len(row)) for i in range(max(len(row) for row in cells))]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in cells
    ]


def sparkline(values: Sequence[float | None], most: int) -> str:
    """The newest `most` numbers as bars of one character each; empty for fewer than two. What is no number is left out."""
    known = [value for value in values if value is not None and math.isfinite(value)][-most:] if most > 0 else []
    if len(known) < 2:
        return ""
    low, span = min(known), (max(known) - min(known)) or 1.0
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1))] for value in known)


class StatusLine:
    """A status line on stderr: rewritten in place in a terminal; in a pipe, printed when it changes."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self._last = ""

    def show(self, text: str) -> None:
        if text == self._last:
            return
        if self.live:
            click.echo(f"\r\x1b[2K{text}", err=True, nl=False)
        else:
            click.echo(text, err=True)
        self._last = text

    def plot(self, text: str, values: Sequence[float | None]) -> str:
        """In a terminal, the text with a small plot of the values behind it, as far as the line has room; in a pipe, the text."""
        room = shutil.get_terminal_size().columns - len(text) - 2
        bars = sparkline(values, room) if self.live else ""
        return f"{text} {bars}" if bars else text

    def end(self) -> None:
        """Keep the line as it is and end it."""
        if self.live and self._last:
            click.echo("", err=True)
        self._last = ""

    def note(self, text: str) -> None:
        """Print a permanent line above the status."""
        if self.live and self._last:
            click.echo("\r\x1b[2K", err=True, nl=False)
        click.echo(text, err=True)
        if self.live and self._last:
            click.echo(self._last, err=True, nl=False)
