"""Checks Python arguments by name: an unknown name raises UserError and suggests the nearest valid one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any, TypeVar

from repops.fields import nearest
from zoo_compute.errors import UserError

C = TypeVar("C", bound=type)


def checks_arguments(cls: C) -> C:
    """Decorate a class so that wrong arguments raise UserError instead of TypeError."""
    init: Callable[..., None] = cls.__init__  # type: ignore[misc]
    signature = inspect.signature(init)

    @wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        if not any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values()):
            check_names(cls.__name__, kwargs, names_of(cls))
        try:
            signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise UserError(f"{cls.__name__}: {error}", hint=f"it takes {', '.join(names_of(cls))}") from None
        init(self, *args, **kwargs)

    cls.__init__ = checked  # type: ignore[misc]
    return cls


def names_of(function: Callable[..., Any]) -> list[str]:
    """The named parameters of a function, or of a class."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]


def check_names(where: str, names: Iterable[str], allowed: Collection[str]) -> None:
    """Raises UserError for the first name that is not allowed."""
    for name in names:
        if name not in allowed:
            raise UserError(f"{where}: unknown argument {name!r}; {nearest(name, allowed)}")
