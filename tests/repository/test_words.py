"""One name for each thing: words that docs/glossary.md retired appear in no source."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
# Fields named as the contracts or a --json key name them.
FIXED_NAMES = {"held", "held_s"}
DECISIONS = "docs/design/decisions/"  # written once, in the words of their time
OLD_WORDS = {"game", "games"}  # of designs that decisions describe
FIXED_IN = {"node/compute/reexecution.py": {"found"}}
CHECKED = (
    "zoo_compute/",
    "keepers/",
    "node/",
    "repops/",
    "contracts/",
    "scripts/",
    "benchmarks/",
    "packages/",
    "docs/",
    "README.md",
)


def retired(kind: str) -> set[str]:
    """The words of the glossary's last table whose second column names this kind: identifier, name or prose."""
    table = GLOSSARY.read_text().partition("## Retired words")[2]
    rows = re.findall(r"^\| `([^`|]+)` \| ([^|]+) \|", table, re.MULTILINE)
    assert rows, f"expected rows `| word | kinds | now |` under Retired words in {GLOSSARY}"
    return {word for word, kinds in rows if kind in kinds.split(", ")}


def sources(part: str, *endings: str) -> list[str]:
    """The files of one of CHECKED."""
    listing = subprocess.run(["git", "ls-files", *endings], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [n for n in listing.stdout.splitlines() if n.startswith(part) and "/generated/" not in n]
    return [name for name in names if name != "docs/glossary.md" and (ROOT / name).is_file()]


def identifiers_of(text: str) -> Iterator[str]:
    """Every name in Python source, those inside f-strings too."""
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "arg", "attr", "name", "asname"):
            if isinstance(name := getattr(node, field, None), str):
                yield name


def prose_of(text: str) -> Iterator[str]:
    """Comments, docstrings and messages of Python source."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string


def words_in(name: str) -> set[str]:
    return set(name.lower().split("_"))


@pytest.mark.parametrize("part", CHECKED)
def test_no_name_of_the_code__has_a_retired_word(part: str):
    words, names, wrong = retired("identifier"), retired("name"), set[tuple[str, str]]()
    for path in sources(part, "*.py"):
        used = set(identifiers_of((ROOT / path).read_text())) - FIXED_NAMES - FIXED_IN.get(path, set())
        wrong |= {(path, name) for name in used if name in names or (words_in(name) & words)}
    assert wrong == set(), "docs/glossary.md, Retired words, says what to write instead"


@pytest.mark.parametrize("part", CHECKED)
def test_no_sentence__has_a_retired_word(part: str):
    paths = sources(part, "*.py", "*.md", "*.vy", "*.vyi")
    assert paths, "nothing is checked here"
    wrong = [(path, sentence) for path in paths for sentence in wrong_sentences(path)]
    assert wrong == [], "docs/glossary.md, Retired words, says what to write instead"


def wrong_sentences(path: str) -> list[str]:
    text = (ROOT / path).read_text()
    parts = list(prose_of(text)) if path.endswith(".py") else text.splitlines()
    if path.endswith((".vy", ".vyi")):
        parts = re.findall(r'"""(?:.|\n)*?"""|#.*', text)
    pattern = retired_prose(path.startswith(DECISIONS))
    return [part.strip()[:120] for part in parts if pattern.search(part)]


@cache
def retired_prose(is_decision: bool) -> re.Pattern[str]:
    words = retired("prose") - (OLD_WORDS if is_decision else set())
    return re.compile(rf"\b({'|'.join(sorted(words))})\b", re.IGNORECASE)


def test_the_check__would_notice_a_retired_word():
    assert {"told", "stands"} | OLD_WORDS <= retired("prose")
    assert {"told", "found", "held", "shown", "standing"} <= retired("identifier")
    assert "told_events" in set(identifiers_of("def f(told_events): return f'{told_events}'"))
    assert words_in("told_events") & retired("identifier")
    assert retired_prose(False).search("who was told")
    assert retired_prose(False).search("a game") and not retired_prose(True).search("a game")  # noqa: PT018


def test_every_new_name_in_the_changelog__is_a_module_or_in_one():
    """A table of renamed modules that names a removed one sends its reader nowhere."""
    rows = re.findall(r"^\| .*? \| (.*?) \|$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    packages = ("zoo_compute", "keepers", "node", "repops", "tests", "scripts", "benchmarks")
    cells = [cell for row in rows for cell in re.findall(r"`([a-z_]+\.[\w.{}, ]+)`", row) if cell.startswith(packages)]
    names = [
        f"{head}{each.strip()}"
        for cell in cells
        for head, _, tail in [cell.partition("{")]
        for each in tail.rstrip("}").split(",")
    ]
    assert len(names) > 50
    assert [name for name in names if not is_there(name)] == []


def is_there(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    holder = path.parent.with_suffix(".py")
    return path.is_dir() or path.with_suffix(".py").exists() or (holder.exists() and path.name in holder.read_text())
