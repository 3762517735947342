"""Options that `zoo node` commands share, and how they name an operator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoo_compute import paths as places
from zoo_compute.cli.context import OPERATOR, Settings, pass_settings
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.operators.account import Operators

home_option = click.option(
    "--home", type=click.Path(file_okay=False, path_type=Path), help="The operator's folder; ~/.zoo/node by default."
)
token_option = click.option("--token", metavar="ADDRESS", help="Payment token, or `credits`; ZEN by default.")


def for_operator(command: Callable[..., None]) -> Callable[..., None]:
    """Of a command for one operator: the settings, --operator and --home."""
    number = click.option(
        "--operator", type=OPERATOR, help="The operator's number; by default that of --home, or of --account."
    )
    return number(home_option(pass_settings(command)))


def folder_of(home: Path | None) -> Path:
    return home or places.home() / "node"


def operators_of(settings: Settings, *, signing: bool = True) -> Operators:
    from zoo_compute.operators.account import Operators

    return Operators(settings.chain(), settings.sender() if signing else None)


def number_of(settings: Settings, operators: Operators, operator: int | None, home: Path | None) -> int:
    """The operator that the options name. Raises UserError."""
    if operator is not None:
        return operators.check(operator)
    known = operators.operator_in(folder_of(home))
    if known is not None:
        return operators.check(known)
    owned = operators.owned_by(settings.address())
    if len(owned) == 1:
        return owned[0]
    if not owned:
        raise UserError("this account has no operator", hint="register one: zoo node register")
    raise UserError(f"this account owns several operators: {', '.join(map(str, owned))}", hint="choose with --operator")
