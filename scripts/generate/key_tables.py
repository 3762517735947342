"""Tables of a configuration's keys, for docs/reference: default, values and meaning, from the dataclasses and their `Key`s."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from typing import Any

from keepers.config import Settings
from keepers.config_keys import KEYS as NODE_KEYS
from zoo_compute.config_keys import Key, Keys, default_of
from zoo_compute.jobs.keys import KEYS
from zoo_compute.jobs.sections import SECTIONS

HEAD = "| key | default | values | meaning |\n|---|---|---|---|\n"
MOST_WORDS = 9
NOTHING: Collection[Any] = (None, "", [], {})


def job_table(section: str) -> str:
    """The keys of a section of a job's file. Which keys a model requires depends on its kind: the page says so."""
    defaults = {} if section == "model" else _defaults(SECTIONS[section])
    return _table(defaults, KEYS[section])


def node_table() -> str:
    """The keys of operator.json."""
    return _table(_defaults(Settings), NODE_KEYS)


def _defaults(cls: type) -> dict[str, Any]:
    return {field.name: default_of(field) for field in fields(cls)}


def _table(defaults: Mapping[str, Any], keys: Keys) -> str:
    rows = (
        (f"`{name}`", _default(defaults.get(name), key), _values(key), _linked(key.meaning))
        for name, key in keys.items()
    )
    return HEAD + "".join(re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(row)} |\n") for row in rows)


def _default(default: Any, key: Key) -> str:
    if key.default:
        return key.default
    if default is MISSING:
        return "**required**"
    return "" if default in NOTHING else f"`{json.dumps(default)}`"


def _values(key: Key) -> str:
    if len(key.words) > MOST_WORDS:
        return "those below"
    if key.words:
        return ", ".join(f"`{word}`" for word in key.words)
    return "" if key.low is None or key.high is None else f"{_number(key.low)} to {_number(key.high)}"


def _number(value: float) -> str:
    for exponent in (40, 63):
        if value in (2**exponent, 2**exponent - 1):
            return f"2^{exponent}" + (" - 1" if value == 2**exponent - 1 else "")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 1_000 else f"{value:g}"


def _linked(meaning: str) -> str:
    """Links begin at docs/; the pages are one folder below."""
    return re.sub(r"\]\((?!https?:)", "](../", meaning)
