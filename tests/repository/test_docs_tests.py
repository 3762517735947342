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
# Of the audit of what runs off chain.
SCRIPTS = frozenset(
    [
        "p1_prepare_flops",
        "p2_report_size",
        "p3_poison",
        "p6_rpc",
        "p8_sender",
        "p8b",
        "p8c",
        "p10_tls",
        "p12_peers",
        "p13_pins",
        "p17_mem",
        "p18_plan",
        "p20_disk",
        "p20_mem",
        "p20_mem2",
        "p21_remote",
        "p_agg",
        "p_glance",
        "p_sub",
        "p_tick",
    ]
)
NAMED = re.compile(r"`(tests/[\w/.]+\.py)::(\w+)`")


def named(text: str) -> set[tuple[str, str]]:
    return set(NAMED.findall(text))


def is_there(path: str, name: str) -> bool:
    """Whether pytest collects it: a test in a file of tests, not a function within another."""
    file = ROOT / path
    if not file.exists() or not (file.name.startswith("test_") and name.startswith("test_")):
        return False
    parts = ast.parse(file.read_text()).body
    parts += [each for part in parts if isinstance(part, ast.ClassDef) for each in part.body]
    return any(isinstance(part, ast.FunctionDef) and part.name == name for part in parts)


def rows(text: str) -> list[list[str]]:
    """The cells of each row of a page's tables."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names__is_there(page: Path):
    assert {each for each in named(page.read_text()) if not is_there(*each)} == set()


def test_every_attack_in_the_referees_table__names_a_test():
    text = (ROOT / "docs" / "design" / "referee.md").read_text()
    rows = text.partition("## Attacks")[2].split("|---|---|---|---|\n")[1].partition("\n\n")[0].splitlines()
    assert len(rows) >= 19
    assert [row for row in rows if not named(row.split(" | ")[-1])] == []


def test_every_script_of_the_audit__has_a_row_with_a_test_or_is_not_mended():
    text = (ROOT / "docs" / "design" / "off-chain.md").read_text()
    mended, _, left = text.partition("## Not mended yet")
    mended = mended.partition("\nThe soak")[0]
    tested = {script for row in rows(mended) if named(row[-1]) for script in row[0].split(", ")}
    untested = {row[0] for row in rows(left)[1:]}
    assert tested | untested >= SCRIPTS
    assert not tested & untested
    assert [row for row in rows(mended)[1:] if not named(row[-1])] == []


def test_a_name_that_nothing_has__is_noticed():
    cited = named("see `tests/repository/test_docs_tests.py::test_that_never_was` and `tests/unit/nowhere.py::test_x`")
    assert len(cited) == 2
    assert not any(is_there(*each) for each in cited)
    assert is_there("tests/repository/test_docs_tests.py", "test_a_name_that_nothing_has__is_noticed")
    assert not is_there("tests/repository/test_docs_tests.py", "is_there"), "no test"


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
