"""Waits that bound a hang and nothing else: no test fails because its machine is slow, or has other work too."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
HANG_S = 300.0  # nothing that a test waits for takes a tenth of it on an idle machine


def wait_until(what: str, reached: Callable[[], object], *, poll_s: float = 0.02, within_s: float = HANG_S) -> None:
    """Raises AssertionError where it is not reached in `within_s`."""
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline, f"{what} did not happen in {within_s:g} s"
        time.sleep(poll_s)


def ended(action: Callable[[], T], *, within_s: float = HANG_S) -> T:
    """What `action` returns or raises, in another thread. Raises AssertionError where it hangs."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append((action(), None))
        except BaseException as error:  # noqa: BLE001  it is raised below, in the thread of the test
            results.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(within_s)
    assert results, f"it did not end in {within_s:g} s"
    result, error = results[0]
    if error is not None:
        raise error
    return result
