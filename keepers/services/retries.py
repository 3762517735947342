"""What failed: when it is tried again, and what the operator reads about it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from zoo_compute.errors import Refusal, Retryable, ZooError

log = logging.getLogger("zoo.disputes")

K = TypeVar("K")


class Backoff(Generic[K]):
    """By what failed: when it may be tried again. The pause doubles with each failure in a row, from first_s to longest_s."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._pauses: dict[K, tuple[float, float]] = {}  # no attempt before; the pause that led there

    def is_due(self, key: K) -> bool:
        return key not in self._pauses or time.monotonic() >= self._pauses[key][0]

    def failed(self, key: K) -> None:
        before = self._pauses.get(key, (0.0, self._first_s / 2))[1]
        pause_s = min(2 * before, self._longest_s)
        self._pauses[key] = time.monotonic() + pause_s, pause_s

    def succeeded(self, key: K) -> None:
        self._pauses.pop(key, None)

    @property
    def paused(self) -> list[K]:
        return [key for key in list(self._pauses) if not self.is_due(key)]

    def keep(self, is_kept: Callable[[K], bool]) -> None:
        """Forget the rest."""
        self._pauses = {key: pause for key, pause in self._pauses.items() if is_kept(key)}


class Troubles(Generic[K]):
    """What is wrong now, by what it is about: logged when it changes, and in the status for as long as it lasts."""

    def __init__(self) -> None:
        self._texts: dict[K, str] = {}

    def note(self, about: K, text: str) -> None:
        if self._is_new(about, text):
            log.error("%s", text)

    def clear(self, about: K) -> None:
        self._texts.pop(about, None)

    def keep(self, is_kept: Callable[[K], bool]) -> None:
        self._texts = {about: text for about, text in self._texts.items() if is_kept(about)}

    @property
    def texts(self) -> list[str]:
        return list(self._texts.values())

    @contextmanager
    def contained(self, about: K, where: str, *, failed: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Keep an error from what else is to be done. failed: called after one."""
        try:
            yield
        except Refusal as refusal:  # the chain moved on; the next look sees where
            log.info("%s: refused: %s", where, refusal.reason)
        except Retryable as error:
            log.warning("%s: %s; will try again", where, error)
        except ZooError as error:
            self.note(about, f"{where}: {error} ({error.hint})" if error.hint else f"{where}: {error}")
        except Exception as error:
            if self._is_new(about, f"{where}: {type(error).__name__}: {error}"):
                log.exception("%s: unexpected", where)
        else:
            self.clear(about)
            return
        failed()

    def _is_new(self, about: K, text: str) -> bool:
        is_new = self._texts.get(about) != text
        self._texts[about] = text
        return is_new
