"""One journey under way: it takes blocks from the pages, types their commands and writes down seconds and commands."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.journeys.machine import Machine
from tests.journeys.pages import SHELL, Block, Page
from tests.journeys.terminal import CommandFailed, Ran, Terminal

LONGEST_S = 900.0
# Commands that run until Ctrl-C, and what they print once they serve.
SERVES = re.compile(r"^(zoo devnet|(zoo|gym) (node )?start|zoo store serve)(?! fund)\b")
READY = "Ctrl-C"
CELL = Path(__file__).with_name("notebook_cell.py")


@dataclass(frozen=True)
class Step:
    """A command that was run, where it is printed, and its seconds."""

    place: str
    command: str
    seconds: float


@dataclass
class Walk:
    """A journey's terminals and steps. Use it as a context manager: it ends what serves, and looks for what was left behind."""

    machine: Machine
    pages: dict[str, Page]
    say: Callable[[str], None]
    steps: list[Step] = field(default_factory=list)
    network: Walk | None = None  # the journey whose machine runs the network; None: this one's
    _serving: list[tuple[Terminal, str]] = field(default_factory=list)
    _terminal: Terminal | None = None

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.interrupt()
        except CommandFailed:
            if kind is None:
                raise
        finally:
            for terminal in self.machine.terminals:
                terminal.close()
            left = self.machine.processes()
            if left and kind is None:
                raise CommandFailed(f"processes were left behind: {left}")

    def do(
        self,
        page: str,
        containing: str,
        *,
        timeout_s: float = LONGEST_S,
        skip: tuple[str, ...] = (),
        codes: tuple[int, ...] = (0,),
        after: tuple[str, ...] = (),
    ) -> list[Ran]:
        """Run the block of `page` that contains this text as it is printed: commands in order, Python as a notebook's cell,
        where `after` names the files of cells before it; a block that has a file's name is written to that file.
        skip: beginnings of commands that ran before. Raises CommandFailed.
        """
        block = self.pages[page].take(containing)
        if block.file:
            (self.machine.work / block.file).write_text(block.text)
            self._note(block, f"write {block.file}", 0.0)
            return []
        if block.language in SHELL:
            return [
                self._command(block, each, timeout_s, codes)
                for each in block.commands
                if not each.startswith(skip or ("\0",))
            ]
        if block.language == "python":
            cells = [*after, str(self._cell(block))]
            return [self._command(block, " ".join(["python", str(CELL), *cells]), timeout_s, codes)]
        raise ValueError(f"{block.place}: nobody knows how to run {block.language!r}")

    def _cell(self, block: Block) -> Path:
        path = self.machine.folder / f"cell-{block.line}.py"
        path.write_text(block.text)
        return path

    def type(self, command: str, *, timeout_s: float = LONGEST_S, codes: tuple[int, ...] = (0,)) -> Ran:
        """Run a command that no page prints, because the page says it in words."""
        return self._command(None, command, timeout_s, codes)

    def interrupt(self, containing: str = "") -> None:
        """Ctrl-C to the serving commands that contain this text, the newest first."""
        for terminal, command in reversed(self._serving[:]):
            if containing in command:
                self._serving.remove((terminal, command))
                if ran := terminal.interrupt():
                    self._note(None, ran.command, ran.seconds)

    def _command(self, block: Block | None, command: str, timeout_s: float, codes: tuple[int, ...]) -> Ran:
        for serving, _ in self._serving:
            serving.drain()
        if SERVES.match(command) and "--help" not in command:
            terminal = self.machine.terminal()
            ran = terminal.serve(command, READY, timeout_s=timeout_s)
            self._serving.append((terminal, command))
        else:
            self._terminal = self._terminal or self.machine.terminal()
            ran = self._terminal.run(command, timeout_s=timeout_s, codes=codes)
        self._note(block, command, ran.seconds)
        return ran

    def _note(self, block: Block | None, command: str, seconds: float) -> None:
        step = Step(block.place if block else "", command, round(seconds, 1))
        self.steps.append(step)
        self.say(f"  {step.seconds:7.1f} s  {step.command}")


def wait_until(what: str, check: Callable[[], bool], *, timeout_s: float, every_s: float = 2.0) -> None:
    """Raises CommandFailed when `check` is not true in time."""
    deadline = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > deadline:
            raise CommandFailed(f"{what} did not happen within {timeout_s:g} s")
        time.sleep(every_s)
