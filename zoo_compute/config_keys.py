"""What the keys of a configuration mean and which values they take: one table for checks, JSON Schema and reference pages.

A dataclass has the keys, their types and their defaults; a `Key` for each of its fields has the rest.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from repops.fields import BadField, between, nearest

DRAFT = "http://json-schema.org/draft-07/schema#"  # which editors know best
_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", dict: "object", list: "array", Any: None}
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@dataclass(frozen=True)
class Key:
    """meaning: Markdown of a reference page, whose links begin at `docs/`. low, high: of a number. words: of a text or a number,
    when there are no others. default: in words, where the dataclass has none or one that says nothing (None, 0).
    """

    meaning: str
    low: float | None = None
    high: float | None = None
    words: tuple[str | int, ...] = ()
    default: str = ""


Keys = Mapping[str, Key]


def check_values(where: str, values: object, keys: Keys) -> None:
    """Refuse numbers out of range and unknown words among the fields of `values`. None is always allowed. Raises BadField."""
    for name, key in keys.items():
        value = getattr(values, name)
        if value is None:
            continue
        if key.words:
            _check_words(f"{where}.{name}", value, key.words)
        if key.low is not None and key.high is not None:
            between(f"{where}.{name}", value, key.low, key.high)


def _check_words(where: str, value: Any, words: tuple[str | int, ...]) -> None:
    """value: one of the words, or several of them."""
    noun = where.rpartition(".")[2].replace("_", " ")
    several, noun = (value, noun.removesuffix("s")) if isinstance(value, list | tuple) else ([value], noun)
    for each in several:
        if each not in words:
            raise BadField(f"{where}: unknown {noun} {each!r}; {nearest(str(each), map(str, words))}")


def section_schema(cls: type, keys: Keys) -> dict[str, Any]:
    """The JSON Schema of a mapping with the fields of the dataclass `cls`, those of `keys`."""
    hints = get_type_hints(cls)
    properties = {f.name: _property(hints[f.name], default_of(f), keys[f.name]) for f in fields(cls) if f.name in keys}
    required = [name for name, each in properties.items() if each.pop("required", False)]
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, "required": required} if required else {**schema, "type": ["object", "null"]}


def default_of(field: Any) -> Any:
    """A dataclass field's default; MISSING if it has none."""
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _property(kind: Any, default: Any, key: Key) -> dict[str, Any]:
    made: dict[str, Any] = {
        "description": _LINK.sub(r"\1", key.meaning) + (f". Default: {key.default}" if key.default else "")
    }
    made |= _words(key, kind) if key.words else {**_type(kind), **_range(key)}
    if default is MISSING:
        made["required"] = True
    elif default is not None and not key.default:
        made["default"] = default
    return made


def _type(kind: Any) -> dict[str, Any]:
    if get_origin(kind) in (Union, types.UnionType):
        options = [_type(each) for each in get_args(kind)]
        names = [each.pop("type") for each in options]
        return {"type": names, **{key: value for option in options for key, value in option.items()}}
    if kind is type(None):
        return {"type": "null"}
    items = {"items": _type(get_args(kind)[0])} if get_origin(kind) is list else {}
    return {"type": _TYPES[get_origin(kind) or kind], **items}


def _words(key: Key, kind: Any) -> dict[str, Any]:
    if get_origin(kind) is list:
        return {"type": "array", "items": {"enum": [*key.words]}}
    return {"enum": [*key.words, *([None] if type(None) in get_args(kind) else [])]}


def _range(key: Key) -> dict[str, Any]:
    bounds = {"minimum": key.low, "maximum": key.high}
    return {name: bound for name, bound in bounds.items() if bound is not None}
