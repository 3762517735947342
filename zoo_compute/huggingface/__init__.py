"""Models and data of Hugging Face's libraries (the extra `hf`): what a job reads through them, and the folder that a result becomes.

Nothing here is imported before it is needed, and nothing of a repository is executed.
"""

from __future__ import annotations

import importlib
from typing import Any

from zoo_compute.errors import UserError

LONGEST = 200  # characters of a library's own message
INSTALL = "pip install 'zoo-compute[hf]'"


def library(name: str, what: str) -> Any:
    """The module `name`. what: the key that needs it. Raises UserError, with the line that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == name
        why = "is not installed" if is_missing else f"cannot be imported ({error})"
        raise UserError(f"{what} needs {name}, which {why}", hint=INSTALL) from error


def reason(error: Exception) -> str:
    """What a library says of its error, in one line. Some list all models that there are."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0] if len(lines[0]) <= LONGEST else lines[0][:LONGEST] + "…"
