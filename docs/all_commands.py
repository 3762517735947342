"""The whole tree of commands for reference/commands.md, those of extras among them: a placeholder has no options to list."""

from __future__ import annotations

import click

from zoo_compute.cli import plugins
from zoo_compute.cli.main import build


def loaded(command: click.Command) -> click.Command:
    if isinstance(command, plugins._Deferred):
        return loaded(command.load())
    if isinstance(command, click.Group):
        command.commands = {name: loaded(each) for name, each in command.commands.items()}
    return command


root = loaded(build())
