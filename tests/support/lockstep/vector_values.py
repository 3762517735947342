"""Values of the specification as plain JSON, and back (tests/vectors/README.md has the format).

Whole numbers are decimal strings, bytes are hex, records are objects, and accounts, tokens and contracts go by name.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin

from zoo_compute.spec.state import Claim, Config

Json = Any


class Names:
    """Who is called what: `name` in the files, `address` in the world at hand."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = dict(addresses)
        self._names: dict[str, str] = {}
        for name, address in addresses.items():
            self._names.setdefault(address, name)

    def name(self, address: str) -> str:
        return self._names.get(address, address)

    def address(self, name: str) -> str:
        return self._addresses.get(name, name)


def names_of(config: Config, accounts: Mapping[str, str], tokens: Mapping[str, str]) -> Names:
    """The cast and the tokens, then contracts by the names that a bare Config gives them. Of two names the first counts."""
    bare = Config()
    roles = {
        getattr(bare, item.name): getattr(config, item.name)
        for item in fields(Config)
        if isinstance(getattr(bare, item.name), str)
    }
    return Names({**accounts, **tokens, **{role: at for role, at in roles.items() if role not in accounts}})


def encode(value: Any, names: Names) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, str):
        return names.name(value)
    if isinstance(value, tuple | list):
        return [encode(item, names) for item in value]
    if is_dataclass(value):
        return {item.name: encode(getattr(value, item.name), names) for item in fields(value)}
    raise TypeError(f"{type(value).__name__} has no portable form")


def decode(hint: Any, value: Json, names: Names) -> Any:
    """The value of a type that `encode` wrote."""
    if value is None or hint is bool:
        return value
    if get_origin(hint) in (Union, UnionType):
        return _decode_any(get_args(hint), value, names)
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        hints = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(decode(each, item, names) for each, item in zip(hints, value, strict=True))
    if is_dataclass(hint):
        hints = hints_of(hint)
        return hint(**{name: decode(hints[name], item, names) for name, item in value.items()})  # type: ignore[operator]
    if hint is bytes:
        return bytes.fromhex(value.removeprefix("0x"))
    if hint is str:
        return names.address(value)
    return hint(int(value))


def hints_of(owner: Any) -> dict[str, Any]:
    """Types of a record's fields, or of a function's parameters. `watching` has no Claim at run time."""
    return typing.get_type_hints(owner, localns={"Claim": Claim})


def _decode_any(hints: tuple[Any, ...], value: Json, names: Names) -> Any:
    """Of a union: records are objects, numbers are digits, all else is a name."""
    wanted = [hint for hint in hints if hint is not type(None)]
    if len(wanted) == 1:
        return decode(wanted[0], value, names)
    assert set(wanted) == {int, str}, f"{hints} cannot be told apart"
    return decode(int if value.isdigit() else str, value, names)
