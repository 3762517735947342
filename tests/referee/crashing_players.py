"""Processes that end where they write: a side of a dispute that does not outlive any of its calls."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from zoo_compute.disputes.exploration import Exploration

HALF_BYTES = 7  # less than any file that is kept
CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class ProcessCrash(BaseException):
    """The process ends here: nothing catches it, and nothing is cleaned up."""


@dataclass
class CrashPoint:
    """Ends what runs at its use number `at` of a folder: before a folder or a file is made, half way through writing it,
    before it is renamed. Then whatever it does there fails. is_fatal: else the disk is full from then on.
    """

    folder: Path
    at: int
    is_fatal: bool = True
    seen: int = 0
    has_fired: bool = False

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in ("open", "os.mkdir", "os.rename", "os.remove") or not self._is_inside(args[0]):
            return
        if event == "open" and not (isinstance(args[2], int) and args[2] & CHANGES):
            return
        if self.has_fired:
            if self.is_fatal:
                raise ProcessCrash
            return
        if self.is_fatal and event != "os.remove" and self._is_due():
            raise ProcessCrash
        if event == "open" and self._is_due():
            _limit(HALF_BYTES)

    def _is_inside(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and Path(path).is_relative_to(self.folder)

    def _is_due(self) -> bool:
        self.has_fired = self.seen == self.at
        self.seen += 1
        return self.has_fired


@dataclass
class AuditHook:
    """Audit hooks cannot be taken back: there is one, for the cut that is made now."""

    cut: CrashPoint | None = None
    is_hooked: bool = False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if self.cut is not None:
            self.cut.hear(event, args)


AUDIT_HOOK = AuditHook()


@contextmanager
def cutting(cut: CrashPoint) -> Iterator[None]:
    """While the block runs; its death ends the block alone."""
    if not AUDIT_HOOK.is_hooked:
        sys.addaudithook(AUDIT_HOOK)
        AUDIT_HOOK.is_hooked = True
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    AUDIT_HOOK.cut = cut
    try:
        with suppress(*((ProcessCrash, OSError) if cut.is_fatal else ())):
            yield
    finally:
        AUDIT_HOOK.cut = None
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@dataclass
class CrashingPlayer:
    """An asker or answerer. For every look it is built anew, ended at every use of its folder, and asked again.

    build: the player, from its folder. deaths: how often it was ended; looks: how often it was asked.
    """

    build: Callable[[Path], Any]
    folder: Path
    deaths: int = 0
    looks: int = 0
    _spare: Path = field(init=False)

    def __post_init__(self) -> None:
        self._spare = self.folder.with_name(f"{self.folder.name}-spare")

    def calls(self, picture: Exploration, now: int, skipped: Collection[bytes] = ()) -> Any:
        return self._answer(lambda player: list(player.calls(picture, now, skipped)))

    def next(self, picture: Exploration, now: int) -> Any:
        return self._answer(lambda player: player.next(picture, now))

    def _answer(self, ask: Callable[[Any], Any]) -> Any:
        _become(self._spare, self.folder)
        answers = [ask(self.build(self.folder))]  # and ended before it is sent
        answers += self._after_deaths(ask)
        shutil.rmtree(self.folder, ignore_errors=True)  # the disk is lost
        answers.append(ask(self.build(self.folder)))
        assert all(answer == answers[0] for answer in answers), answers
        self.looks += 1
        return answers[0]

    def _after_deaths(self, ask: Callable[[Any], Any]) -> Iterator[Any]:
        """Ended at each use of the folder, and built anew from what that left."""
        for at in count():
            _become(self.folder, self._spare)
            cut = CrashPoint(self.folder, at)
            with cutting(cut):
                ask(self.build(self.folder))
            if not cut.has_fired:
                return
            self.deaths += 1
            yield ask(self.build(self.folder))


class DiskFullPlayer(CrashingPlayer):
    """Its disk is full from one file on, of all that it writes for an answer: the process goes on."""

    def _after_deaths(self, ask: Callable[[Any], Any]) -> Iterator[Any]:
        for at in count():
            _become(self.folder, self._spare)
            cut = CrashPoint(self.folder, at, is_fatal=False)
            with cutting(cut):
                yield ask(self.build(self.folder))
            if not cut.has_fired:
                return
            self.deaths += 1


class TornFilePlayer(CrashingPlayer):
    """One file of its folder after the other was cut in half."""

    def _after_deaths(self, ask: Callable[[Any], Any]) -> Iterator[Any]:
        ask(self.build(self.folder))
        for file in sorted(each for each in self.folder.rglob("*") if each.is_file()):
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
            self.deaths += 1
            yield ask(self.build(self.folder))


def _become(folder: Path, other: Path) -> None:
    """As the other is."""
    shutil.rmtree(folder, ignore_errors=True)
    if other.exists():
        shutil.copytree(other, folder)
