"""Typed, strict reading of JSON and YAML objects into frozen dataclasses.

Every refusal names the section, what was wrong, what was expected, and the nearest right key.
"""

from __future__ import annotations

import difflib
import json
import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
MAX_DIGITS = 80  # of a whole number: a word of 256 bits has 78
MAX_DEPTH = 64

_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    dict: "a mapping",
    list: "a list",
    tuple: "a list",
}


class BadField(ValueError):
    """A key of the user's input is unknown, missing, of the wrong type or out of range."""


def nearest(word: str, allowed: Iterable[str]) -> str:
    """`did you mean 'x'?`, or the list of allowed words when none is similar."""
    words = sorted(allowed)
    close = difflib.get_close_matches(str(word), words, n=1, cutoff=0.55)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(words)}"


def check_keys(mapping: Mapping[str, Any], allowed: Iterable[str], required: Iterable[str], where: str) -> None:
    """Refuse unknown keys first (a typo explains the missing one), then missing keys."""
    names = set(allowed)
    for key in mapping:
        if key not in names:
            raise BadField(f"{where}: unknown key {key!r}; {nearest(str(key), names)}")
    for key in required:
        if key not in mapping:
            raise BadField(f"{where}: missing key {key!r}")


def read(cls: type[T], raw: object, where: str) -> T:
    """Build the dataclass `cls` from a mapping: keys and types exactly, nested dataclasses too.

    An int is accepted where a float is declared (and becomes one); nothing else is converted.
    """
    if not isinstance(raw, Mapping):
        raise BadField(f"{where}: expected a mapping, got {raw!r}")
    hints = get_type_hints(cls)
    declared = fields(cls)  # type: ignore[arg-type]
    required = [f.name for f in declared if f.default is MISSING and f.default_factory is MISSING]
    check_keys(raw, [f.name for f in declared], required, where)
    values = {key: value_of(hints[key], value, f"{where}.{key}") for key, value in raw.items()}
    try:
        return cls(**values)
    except BadField:
        raise
    except ValueError as error:
        raise BadField(f"{where}: {error}") from error


def value_of(kind: Any, value: object, where: str) -> Any:
    """`value` as `kind`: a scalar type, `X | None`, `list[X]`, `tuple[X, ...]`, `dict` or a dataclass."""
    if get_origin(kind) in (Union, types.UnionType):
        options = [k for k in get_args(kind) if k is not type(None)]
        if value is None and len(options) < len(get_args(kind)):
            return None
        for option in options[:-1]:
            if _is(option, value):
                return value_of(option, value, where)
        return value_of(options[-1], value, where)
    if is_dataclass(kind):
        return read(kind, value, where)  # type: ignore[arg-type]
    origin = get_origin(kind) or kind
    if origin in (list, tuple) and isinstance(value, list):
        inner = (get_args(kind) or (Any,))[0]
        each = (value if inner is Any else value_of(inner, value, f"{where}[{i}]") for i, value in enumerate(value))
        return origin(each)
    if origin is dict and isinstance(value, Mapping):
        return dict(value)
    if origin is float and isinstance(value, str) and _is_number(value):
        raise BadField(f"{where}: expected a number, got the text {value!r}; write it without quotes")
    if not _is(origin, value):
        raise BadField(f"{where}: expected {_WORDS.get(origin, origin)}, got {value!r}")
    if origin is float:
        number = float(value)  # type: ignore[arg-type]
        if not math.isfinite(number):
            raise BadField(f"{where}: expected a finite number, got {value!r}")
        return number
    return value


def _is(kind: Any, value: object) -> bool:
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, get_origin(kind) or kind)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def between(where: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside [low, high]."""
    if not low <= value <= high:
        raise BadField(f"{where}: expected {low:g} to {high:g}, got {value:g}")


def canonical_json(value: object) -> bytes:
    """Sorted keys, no spaces, UTF-8, no NaN: equal values make equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _depth(data: bytes) -> int:
    """An upper bound on how deep `data` nests as JSON: it counts brackets inside strings too."""
    import numpy as np  # late: the kernels' build imports this module where there is no numpy

    table = np.zeros(256, dtype=np.int64)
    table[list(b"[{")], table[list(b"]}")] = 1, -1
    climbed = np.concatenate([[0], np.cumsum(table[np.frombuffer(data, dtype=np.uint8)])])
    return int((climbed - np.minimum.accumulate(climbed)).max())


def parse_json(data: bytes, where: str) -> Any:
    """Read untrusted JSON. Raises BadField for deep nesting, duplicate keys and non-finite numbers.

    Nesting is bounded here because the C decoder overflows its stack where a library has raised the recursion limit.
    """
    if _depth(data) > MAX_DEPTH:
        raise BadField(f"{where}: not JSON that nests at most {MAX_DEPTH} deep")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise BadField(f"{where}: a key occurs twice")
        return dict(pairs)

    def refuse(name: str) -> float:
        raise BadField(f"{where}: {name} is not a finite number")

    def whole(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            raise BadField(f"{where}: a number of {len(digits)} digits; none needs more than {MAX_DIGITS}")
        return int(digits)

    def finite(text: str) -> float:
        return float(text) if math.isfinite(float(text)) else refuse(text)

    hooks: dict[str, Any] = {"parse_constant": refuse, "parse_int": whole, "parse_float": finite}
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=unique, **hooks)
    except BadField:
        raise
    except (ValueError, RecursionError) as error:
        raise BadField(f"{where}: not JSON ({error})") from error
