"""The tests and pages that the docs name exist, and no page is too long to read."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
LONGEST_PAGE, WIDEST_LINE = 300, 140
NAMED = re.compile(r"`(tests/[\w/.]+\.py)::(\w+)`")


def named(text: str) -> set[tuple[str, str]]:
    return set(NAMED.findall(text))


def is_there(path: str, name: str) -> bool:
    file = ROOT / path
    return file.exists() and any(
        isinstance(node, ast.FunctionDef) and node.name == name for node in ast.walk(ast.parse(file.read_text()))
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names__is_there(page: Path):
    assert {each for each in named(page.read_text()) if not is_there(*each)} == set()


def test_every_attack_in_the_referees_table__names_a_test():
    text = (ROOT / "docs" / "design" / "referee.md").read_text()
    rows = text.partition("## Attacks")[2].split("|---|---|---|---|\n")[1].partition("\n\n")[0].splitlines()
    assert len(rows) >= 19
    assert [row for row in rows if not named(row.split(" | ")[-1])] == []


def test_a_name_that_nothing_has__is_noticed():
    cited = named("see `tests/repository/test_docs_tests.py::test_that_never_was` and `tests/unit/nowhere.py::test_x`")
    assert len(cited) == 2
    assert not any(is_there(*each) for each in cited)
    assert is_there("tests/repository/test_docs_tests.py", "test_a_name_that_nothing_has__is_noticed")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_link_of_a_page__leads_somewhere(page: Path):
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page__is_short_and_narrow(page: Path):
    """Tables aside, whose rows Markdown cannot wrap."""
    lines = page.read_text().splitlines()
    assert len(lines) <= LONGEST_PAGE
    assert [line for line in lines if len(line) > WIDEST_LINE and not line.startswith("|")] == []


def test_the_readme__is_at_most_a_hundred_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100
