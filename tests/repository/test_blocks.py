"""Every code block of the documentation is run: by a journey, by a named test, or not, for a reason that tests/journeys/blocks.py says."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.journeys import journeys
from tests.journeys.blocks import ELSEWHERE
from tests.journeys.pages import Block, Page

ROOT = Path(__file__).resolve().parents[2]
PATHS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DIRECTIVE = re.compile(r"^\.\. ", re.MULTILINE)  # of Sphinx


@cache
def pages() -> dict[str, Page]:
    return {str(path.relative_to(ROOT)): Page.read(path, ROOT) for path in PATHS}


def typed() -> list[tuple[str, str]]:
    """Page and text of each block that a journey takes."""
    calls = [node for node in ast.walk(ast.parse(Path(journeys.__file__).read_text())) if isinstance(node, ast.Call)]
    return [
        (getattr(journeys, call.args[0].id), call.args[1].value)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "do"
        and isinstance(call.args[0], ast.Name)
        and isinstance(call.args[1], ast.Constant)
    ]


def run_by_journeys() -> set[str]:
    """The texts of these blocks: one that another page repeats runs with it."""
    return {pages()[page].take(text).text for page, text in typed() if page in pages()}


def of(block: Block) -> list[str]:
    """What ELSEWHERE says of a block."""
    return [why for text, why in ELSEWHERE.get(block.page, {}).items() if text in block.text]


def test_every_block__is_run_or_has_a_reason() -> None:
    run = run_by_journeys()
    blocks = [block for page in pages().values() for block in page.blocks if not DIRECTIVE.search(block.text)]
    assert len(blocks) > 60
    assert len(run) > 15
    assert [block.place for block in blocks if block.text not in run and not of(block)] == []


def test_no_reason__is_for_a_block_that_is_gone_or_runs() -> None:
    run = run_by_journeys()
    left = {
        (page, text)
        for page, texts in ELSEWHERE.items()
        for text in texts
        if len([block for block in pages()[page].blocks if text in block.text and block.text not in run]) != 1
    }
    assert left == set()


def test_every_test_that_is_named_as_running_a_block__is_there() -> None:
    named = {
        each for texts in ELSEWHERE.values() for why in texts.values() for each in re.findall(r"tests/[\w/]+\.py", why)
    }
    assert len(named) > 6
    assert [each for each in named if not (ROOT / each).exists()] == []
