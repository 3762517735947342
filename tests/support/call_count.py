"""How much work something is, as the number of its function calls: the same on every machine, and whatever else runs there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls_of(action: Callable[[], object]) -> int:
    """Calls of functions, of Python and of C, that `action` makes in this thread."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls
