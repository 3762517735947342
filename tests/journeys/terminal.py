"""A terminal with a person in front of it: a shell on a pseudo-terminal, whose questions are answered."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pexpect

PROMPT = r"\[\[(\d+)\]\]> "
ENDED_BY_CTRL_C = (0, 130)


class CommandFailed(Exception):
    """A printed command ended with another code than 0, asked what nobody answers, or did not end."""


@dataclass(frozen=True)
class Ran:
    """A command as printed, its seconds, and what the terminal showed."""

    command: str
    seconds: float
    output: str


class Terminal:
    """One shell in `folder`. answers: pattern of a question -> what a person types, "" for Enter alone."""

    def __init__(self, folder: Path, environment: Mapping[str, str], answers: Mapping[str, str], transcript: IO[str]):
        self._answers = dict(answers)
        self._shell = pexpect.spawn(
            "bash", ["--norc", "--noprofile", "--noediting", "-i"], cwd=str(folder), encoding="utf-8", codec_errors="replace",
            env={**environment, "PS1": "[[$?]]> ", "TERM": "dumb", "HISTFILE": "/dev/null"},
            dimensions=(50, 200), echo=False,
        )  # fmt: skip
        self._shell.logfile_read = self._transcript = transcript
        self._serving: str | None = None
        self._wait("the shell", 30)

    def run(self, command: str, *, timeout_s: float, codes: tuple[int, ...] = (0,)) -> Ran:
        """Type a command and wait for its end. Raises CommandFailed."""
        began = self._type(command)
        code, output = self._wait(command, timeout_s)
        if code not in codes:
            raise CommandFailed(f"{command!r} ended with exit code {code}:\n{output}")
        return Ran(command, time.monotonic() - began, output)

    def serve(self, command: str, ready: str, *, timeout_s: float) -> Ran:
        """Type a command that runs until Ctrl-C, and wait until it says `ready`. Raises CommandFailed."""
        began = self._type(command)
        output = self._until(command, [ready, PROMPT], timeout_s)
        if re.search(PROMPT, str(self._shell.after)):
            raise CommandFailed(f"{command!r} ended before it was ready:\n{output}")
        self._serving = command
        return Ran(command, time.monotonic() - began, output)

    def interrupt(self, *, timeout_s: float = 120) -> Ran | None:
        """Ctrl-C to what serves, and wait for its end; None where nothing serves. Raises CommandFailed."""
        if self._serving is None:
            return None
        command, self._serving = self._serving, None
        began = time.monotonic()
        self._shell.sendintr()
        code, output = self._wait(f"Ctrl-C to {command}", timeout_s)
        if code not in ENDED_BY_CTRL_C:
            raise CommandFailed(f"Ctrl-C ended {command!r} with exit code {code}:\n{output}")
        return Ran(f"Ctrl-C to {command}", time.monotonic() - began, output)

    def drain(self) -> None:
        """Read what a serving command has printed: nobody else does, and a full terminal would stop it."""
        with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
            while True:
                self._shell.read_nonblocking(65_536, timeout=0)

    def close(self) -> None:
        self._shell.close(force=True)

    def _type(self, command: str) -> float:
        """Now, in seconds of the monotonic clock."""
        self._transcript.write(f"$ {command}\n")
        self._shell.sendline(command)
        return time.monotonic()

    def _wait(self, command: str, timeout_s: float) -> tuple[int, str]:
        output = self._until(command, [PROMPT], timeout_s)
        return int(self._shell.match[1]), output

    def _until(self, command: str, ends: list[str], timeout_s: float) -> str:
        """What is shown until one of `ends`; questions on the way are answered."""
        deadline, seen = time.monotonic() + timeout_s, ""
        patterns = [*ends, *self._answers, pexpect.TIMEOUT, pexpect.EOF]
        replies = list(self._answers.values())
        while True:
            matched = self._shell.expect(patterns, timeout=max(0.1, deadline - time.monotonic()))
            seen += self._shell.before if isinstance(self._shell.before, str) else ""
            if matched < len(ends):
                return seen
            if matched >= len(ends) + len(replies):
                state = f"did not end within {timeout_s:g} s" if self._shell.isalive() else "closed the terminal"
                raise CommandFailed(f"{command!r} {state}:\n{seen[-4_000:]}")
            seen += str(self._shell.after)
            self._shell.sendline(replies[matched - len(ends)])
