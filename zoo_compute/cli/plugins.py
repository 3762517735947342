"""Subcommands of packages above `zoo_compute`, loaded from entry points so that imports keep pointing one way.

Entry point group `zoo_compute.commands`. A dotted name attaches to a group: `node.start = keepers.cli.node:start`.
"""

from __future__ import annotations

import ast
import importlib.util
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import click
from click.utils import make_default_short_help

from zoo_compute.errors import UserError

GROUP = "zoo_compute.commands"
EXTRA = {"node": "node", "keepers": "keeper"}
NEEDS = {"keepers": ("celery", "redis")}  # modules without which a package's commands cannot be loaded


def attach(root: click.Group) -> None:
    """Add every command that installed distributions declare. Imports a command only when it is used."""
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name.count(".")):
        *parents, name = point.name.split(".")
        parent = _group(root, parents)
        if name not in parent.commands:
            parent.add_command(_Deferred(name, point))


def _group(root: click.Group, names: list[str]) -> click.Group:
    for name in names:
        existing = root.commands.get(name)
        if existing is None:
            existing = click.Group(name)
            root.add_command(existing)
        assert isinstance(existing, click.Group), f"{name} is not a group"
        root = existing
    return root


class _Deferred(click.Group):
    """Placeholder for a command, loaded when invoked. Reports a missing extra then, not at start."""

    def __init__(self, name: str, point: EntryPoint) -> None:
        super().__init__(name, add_help_option=False)
        self._point = point
        self._loaded: click.Command | None = None

    def load(self) -> click.Command:
        if self._loaded is None:
            module = self._point.value.partition(":")[0].partition(".")[0]
            extra = EXTRA.get(module, module)
            try:
                command = self._point.load()
            except (ImportError, AttributeError) as error:
                raise UserError(
                    f"`{self.name}` is not installed: {error}", hint=f"pip install 'zoo-compute[{extra}]'"
                ) from error
            assert isinstance(command, click.Command), f"{self._point.value} is not a command"
            self._loaded = command
        return self._loaded

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        return self.load().make_context(info_name, args, parent=parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        return self.load().invoke(ctx)

    def get_short_help_str(self, limit: int = 45) -> str:
        """From the command's docstring in its source: loading every command takes seconds, for one line each."""
        text = None if self._loaded else docstring_of(self._point)
        if text is not None:
            return make_default_short_help(text, limit).strip()
        try:
            return self.load().get_short_help_str(limit)
        except UserError as error:
            return error.hint


def docstring_of(point: EntryPoint) -> str | None:
    """The docstring of the function that an entry point names, without importing its module.

    None where only loading can tell: no source, no such function, or a module that it needs is not installed.
    """
    module, _, name = point.value.partition(":")
    try:
        if not all(map(importlib.util.find_spec, NEEDS.get(module.partition(".")[0], ()))):
            return None
        spec = importlib.util.find_spec(module)
        tree = ast.parse(Path(spec.origin).read_bytes()) if spec and spec.origin else ast.Module([], [])
    except (ImportError, OSError, SyntaxError, ValueError):
        return None
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    return next((ast.get_docstring(node) for node in functions), None)
