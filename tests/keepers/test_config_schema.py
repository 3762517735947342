"""The schema of operator.json agrees with what `keepers.config` accepts and refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from keepers.config import SCHEMA, Settings, from_dict
from keepers.config_keys import KEYS
from zoo_compute.errors import ConfigError

PLAIN: dict[str, Any] = {"name": "me", "network": "network.json", "operator": 1}
BOUNDED = [
    (name, value)
    for name, key in KEYS.items()
    if key.low is not None and key.high is not None
    for value in (key.low - 1, key.high + 1)
]


def faults(settings: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(settings)]


def test_the_schema__has_every_key_and_accepts_the_defaults() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert set(SCHEMA["properties"]) == {each.name for each in dataclasses.fields(Settings)} == set(KEYS)
    assert faults(PLAIN) == faults(dataclasses.asdict(Settings(**PLAIN))) == []


@pytest.mark.parametrize(
    "change",
    [
        {"pric": "1"},
        {"roles": ["verifyer"]},
        {"roles": "verifier"},
        {"price": 1},
        {"log_format": "jsn"},
        {"workers": 1.5},
    ],
)
def test_a_mistake__is_one_for_schema_and_reader(change: dict[str, Any], tmp_path: Path) -> None:
    assert faults({**PLAIN, **change}) != []
    with pytest.raises(ConfigError):
        from_dict({**PLAIN, **change}, tmp_path)


@pytest.mark.parametrize(("name", "value"), BOUNDED)
def test_a_value_beyond_its_range__is_refused_by_schema_and_reader(name: str, value: float, tmp_path: Path) -> None:
    assert any(f".{name}" in fault for fault in faults({**PLAIN, name: value})), "by the schema"
    with pytest.raises(ConfigError, match=rf"operator\.json\.{name}: expected "):
        from_dict({**PLAIN, name: value}, tmp_path)
    assert len(BOUNDED) > 40
