"""What of a world a call reads, and what it changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from typing import Any

from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import World
from zoo_compute.spec.world import Call, apply

GHOSTS = {"job_ledgers", "slash_ledgers", "donations", "credits_used"}  # nobody's storage: the invariants count by them
MAPS = tuple(item.name for item in fields(World) if item.name != "config" and item.default_factory is dict)
NUMBERS = tuple(item.name for item in fields(World) if item.type in (int, "int"))
Keys = dict[str, set[Any]]  # of each map; of a number, None


class _Watched(dict[Any, Any]):
    """Notes the keys that are asked for or written; who looks at all of it has asked for every key."""

    def __init__(self, content: dict[Any, Any], asked: set[Any]) -> None:
        super().__init__(content)
        self.asked = asked

    def __getitem__(self, key: Any) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.asked.add(key)
        super().__setitem__(key, value)

    def __contains__(self, key: object) -> bool:
        self.asked.add(key)
        return super().__contains__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        self.asked.add(key)
        return super().pop(key, *default)

    def __iter__(self) -> Iterator[Any]:
        self.asked.update(super().keys())
        return super().__iter__()

    def __len__(self) -> int:
        self.asked.update(super().keys())
        return super().__len__()

    def keys(self) -> Any:
        self.asked.update(super().keys())
        return super().keys()

    def items(self) -> Any:
        self.asked.update(super().keys())
        return super().items()

    def values(self) -> Any:
        self.asked.update(super().keys())
        return super().values()


class _Traced(World):
    """A world whose fork notes what of it is read."""

    asked: Keys

    def fork(self) -> World:
        after = World.fork(self)
        for name in MAPS:
            setattr(after, name, _Watched(getattr(after, name), self.asked[name]))
        for name in NUMBERS:
            self.asked.pop(name, None)
        return after

    def __getattribute__(self, name: str) -> Any:
        if name in NUMBERS:
            self.asked[name].add(None)
        return super().__getattribute__(name)


def keys_read(world: World, call: Call) -> Keys:
    """What a call reads, accepted or refused; and what it writes, since to write what is there changes nothing."""
    traced = _Traced(**{item.name: getattr(world, item.name) for item in fields(World)})
    traced.asked = defaultdict(set)
    for name in NUMBERS:
        traced.asked.pop(name, None)
    with suppress(Refused):
        apply(traced, call)
    return {name: keys for name, keys in traced.asked.items() if keys and name not in GHOSTS}


def keys_changed(before: World, after: World) -> Keys:
    """What it changed."""
    changed: Keys = {}
    for name in MAPS:
        old, new = getattr(before, name), getattr(after, name)
        if name in GHOSTS or old == new:
            continue
        changed[name] = {key for key in {**old, **new} if old.get(key) != new.get(key)}
    changed |= {name: {None} for name in NUMBERS if getattr(before, name) != getattr(after, name)}
    return changed
