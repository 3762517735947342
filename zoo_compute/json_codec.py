"""Records as plain JSON and back: bytes are `0x` and hex digits, a record is the list of its fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def encode(value: Any) -> Any:
    """A value that JSON can represent. A mapping's integer keys become text."""
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, Mapping):
        return {str(int(key)): encode(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(each) for each in value]
    if is_dataclass(value):
        return [encode(getattr(value, each.name)) for each in fields(value)]
    return value if isinstance(value, (str, bool)) or value is None else int(value)


def decode(value: Any) -> Any:
    """The inverse of `encode`, except that lists and records become tuples. Only bytes may begin with `0x`."""
    if isinstance(value, str) and value.startswith("0x"):
        return bytes.fromhex(value[2:])
    if isinstance(value, Mapping):
        return {int(key): decode(each) for key, each in value.items()}
    return tuple(decode(each) for each in value) if isinstance(value, list) else value


def finite_or_none(value: float) -> float | None:
    """None for NaN and infinities, which JSON cannot represent."""
    return value if math.isfinite(value) else None
