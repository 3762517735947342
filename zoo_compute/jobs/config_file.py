"""A job's file as text: YAML or JSON, and the line of each key, so that a refusal can name it. No torch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from zoo_compute.errors import UserError
from zoo_compute.formats.manifest import JobError

MAX_CONFIG_BYTES = 1024 * 1024
DEEPEST = 3  # keys above each other: the others are a module's own arguments
# How a refusal names the key that it is about: `training.rounds: ...`, `training: unknown key 'round'`, `unknown section 'trainin'`.
_PLACE = re.compile(r"[a-z]\w*(\.\w+)*")
_UNKNOWN = re.compile(r"unknown (?:key|section) '([^']*)'")


class _Loader(yaml.SafeLoader):
    """Reads numbers as in YAML 1.2 and JSON: 1e-3 is a number. In YAML 1.1 it is text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"), [*"-+0123456789"]
)


@dataclass(frozen=True)
class ConfigFile:
    """What a file says, unchecked. lines: of each key, such as `training.rounds`, the number of its line, from 1 on."""

    path: Path
    content: Any
    lines: Mapping[str, int] = field(default_factory=dict)

    def locate(self, error: UserError, overridden: Collection[str] = ()) -> JobError:
        """The error with the file, and the line of the key that it is about. overridden: keys whose values are not the file's."""
        key = next((each for each in _keys(str(error)) if each in self.lines), "")
        is_here = key and not any(key == each or key.startswith(f"{each}.") for each in overridden)
        where = f"{self.path}:{self.lines[key]}" if is_here else str(self.path)
        return JobError(f"{where}: {error}", hint=error.hint)


def read_file(path: Path) -> ConfigFile:
    """Read a YAML or JSON file. Raises JobError, naming the file, and the line where it knows one."""
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise JobError(f"{path}: larger than a configuration should be ({MAX_CONFIG_BYTES} bytes)")
        loader = _Loader(path.read_text("utf-8"))
        node = loader.get_single_node()
        lines = dict(_lines(path, node))
        return ConfigFile(path, loader.construct_document(node) if node else None, lines)
    except OSError as error:
        raise JobError(f"{path}: cannot be read ({error.strerror})") from error
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise JobError(f"{path}{line}: not YAML or JSON: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise JobError(f"{path}: not YAML or JSON: {error}") from error


def _lines(path: Path, node: yaml.Node | None, above: str = "", depth: int = 1) -> Iterator[tuple[str, int]]:
    """Each key with its line. Raises JobError for a key that occurs twice: YAML would take the last one in silence."""
    if not isinstance(node, yaml.MappingNode) or depth > DEEPEST:
        return
    seen: dict[str, int] = {}
    for name, value in node.value:
        key, line = f"{above}{name.value}", name.start_mark.line + 1
        if key in seen:
            raise JobError(f"{path}:{line}: {key}: it is in line {seen[key]} already; remove one of the two")
        seen[key] = line
        yield key, line
        yield from _lines(path, value, f"{key}.", depth + 1)


def _keys(message: str) -> Iterator[str]:
    """The keys that a refusal may be about, the most likely first: `training.round`, then `training`."""
    place, unknown = _PLACE.match(message), _UNKNOWN.search(message)
    section = place[0] if place and not message.startswith("unknown") else ""
    if unknown:
        yield f"{section}.{unknown[1]}" if section else unknown[1]
    while section:
        yield section
        section = section.rpartition(".")[0]
