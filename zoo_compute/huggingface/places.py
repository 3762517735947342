"""Where a model, a tokenizer or a dataset comes from: a folder or file of this machine, or `NAME@REVISION` of the hub.

An owner can change what a name of the hub means at any time, so a name alone is refused: nobody could repeat such a job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo_compute.errors import UserError

_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_REVISION = re.compile(r"[0-9a-f]{40}")
ASK_S = 10.0


@dataclass(frozen=True)
class Place:
    """said: as the job's file has it. revision: of a name of the hub; empty for a path."""

    said: str
    location: str
    revision: str = ""

    @property
    def is_local(self) -> bool:
        return not self.revision

    @property
    def pinned(self) -> dict[str, str]:
        """Arguments of `load_dataset` beside the location."""
        return {} if self.is_local else {"revision": self.revision}

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `from_pretrained` beside the location. Without the second, it asks on a terminal whether to run a repository's code."""
        return {**self.pinned, "trust_remote_code": False}


def place_of(said: str, directory: Path, key: str, *, kind: str = "model") -> Place:
    """The place that `key` names, relative to `directory`. kind: what it is on the hub, `model` or `dataset`. Raises UserError.

    A path that exists wins over a name.
    """
    path = directory / Path(said).expanduser()
    if kind == "model" and path.exists():
        return Place(said, str(path))
    name, _, revision = said.partition("@")
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{key}: there is no {said!r}", hint=f"give a folder, or OWNER/NAME@REVISION: a {kind} of the hub"
        )
    if not _REVISION.fullmatch(revision):
        unpinned = f"{said!r} is no folder here, and" if kind == "model" else f"{said!r}:"
        raise UserError(
            f"{key}: {unpinned} a {kind} of the hub needs the 40 digits of a revision, because its owner can change it",
            hint=_hint(name, revision, kind),
        )
    return Place(said, name, revision)


def _hint(name: str, revision: str, kind: str) -> str:
    newest = _newest(name, revision, kind)
    if newest:
        return f"write {name}@{newest}, which it is at now"
    return f"write {name}@REVISION; the hub lists revisions under 'Files and versions', 'History'"


def _newest(name: str, revision: str, kind: str) -> str | None:
    """The commit that the hub has now for a name and a branch, tag or short commit; None without an answer."""
    try:
        from huggingface_hub import HfApi

        info = HfApi().repo_info(name, repo_type=kind, revision=revision or None, timeout=ASK_S)
    except Exception:  # noqa: BLE001 whatever the library raises without the hub or for a name that it lacks
        return None
    return info.sha
