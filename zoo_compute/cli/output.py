"""Output of commands: one JSON object or readable lines on stdout; progress and errors on stderr."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import Progress

BARS = "▁▂▃▄▅▆▇█"
BAR_WIDTH = 16


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
    """A status line on stderr: drawn in place in a terminal, with a bar of how much is done; in a pipe, printed when it changes."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self._last = ""
        self._drawn: Progress | None = None

    def show(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """done of total: the length of the bar; there is none where `total` is not given."""
        if self.live:
            self._draw(text, done, total)
        elif text != self._last:
            click.echo(text, err=True)
        self._last = text

    def plot(self, text: str, values: Sequence[float | None]) -> str:
        """In a terminal, the text with a small plot of the values behind it, as far as the line has room; in a pipe, the text."""
        room = shutil.get_terminal_size().columns - len(text) - BAR_WIDTH - 3
        bars = sparkline(values, room) if self.live else ""
        return f"{text} {bars}" if bars else text

    def end(self) -> None:
        """Keep the line as it is and end it."""
        if self._drawn is not None:
            self._drawn.stop()
            self._drawn = None
        self._last = ""

    def note(self, text: str) -> None:
        """Print a permanent line above the status."""
        if self._drawn is not None:
            self._drawn.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(text, err=True)

    def _draw(self, text: str, done: float | None, total: float | None) -> None:
        if self._drawn is None:
            self._drawn = _drawn_line()
            context = click.get_current_context(silent=True)
            if context is not None:
                context.call_on_close(self.end)  # whatever ends the command: the terminal's cursor is hidden until then
        self._drawn.update(self._drawn.task_ids[0], description=text, completed=done or 0, total=total)
        self._drawn.refresh()


def _drawn_line() -> Progress:
    """A line of rich's, as wide as the terminal. It draws when something changes."""
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, Task, TextColumn
    from rich.progress_bar import ProgressBar
    from rich.table import Column

    class Bar(ProgressColumn):
        def render(self, task: Task) -> ProgressBar | str:
            return "" if task.total is None else ProgressBar(task.total, task.completed, BAR_WIDTH)

    text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    line = Progress(text, Bar(), console=Console(stderr=True), auto_refresh=False)
    line.add_task("", total=None)
    line.start()
    return line
