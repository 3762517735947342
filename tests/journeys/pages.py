"""The fenced code blocks of a Markdown page, in order, and which of them nobody ran."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
NAMED = re.compile(r"`([\w.-]+\.(py|yaml))`")
SUFFIX = {"python": "py", "yaml": "yaml"}
SHELL = ("", "bash", "sh", "console")


@dataclass(frozen=True)
class Block:
    """One code block. file: the name that the sentence before it gives it, such as `model.py`, else None."""

    page: str
    line: int
    language: str
    text: str
    file: str | None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """A shell block's commands, one a line; lines that only comment are left out."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


@dataclass
class Page:
    """A page's blocks. `take` marks one as used, so that `left` names those that no journey runs."""

    name: str
    blocks: list[Block]
    taken: set[Block] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path, root: Path) -> Page:
        name, text = str(path.relative_to(root)), path.read_text("utf-8")
        return cls(name, [_block(name, text, match) for match in FENCE.finditer(text)])

    def take(self, containing: str) -> Block:
        """The one block that contains this text. Raises LookupError when there is none, or more than one."""
        matches = [block for block in self.blocks if containing in block.text]
        if len(matches) != 1:
            raise LookupError(f"{self.name}: {len(matches)} blocks contain {containing!r}, expected one")
        self.taken.add(matches[0])
        return matches[0]

    @property
    def left(self) -> list[Block]:
        return [block for block in self.blocks if block not in self.taken]


def _block(page: str, text: str, match: re.Match[str]) -> Block:
    before = text[: match.start()].rstrip().rsplit("\n\n", 1)[-1]
    names = [name for name, suffix in NAMED.findall(before) if suffix == SUFFIX.get(match[1])]
    line = text.count("\n", 0, match.start()) + 2
    return Block(page, line, match[1], match[2], names[-1] if names else None)
