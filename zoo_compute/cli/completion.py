"""`zoo completion SHELL`: what a shell needs to complete commands and options, by click's own mechanism."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from zoo_compute.cli.context import Command

VARIABLE = "_ZOO_COMPLETE"


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands and options of zoo in your shell.

    For bash, add `eval "$(zoo completion bash)"` to ~/.bashrc. For zsh, add `eval "$(zoo completion zsh)"` to ~/.zshrc. For fish, write
    the script to ~/.config/fish/completions/zoo.fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click has all three"
    click.echo(kind(context.find_root().command, {}, "zoo", VARIABLE).source())
