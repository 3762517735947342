"""The documentation site: no page is left out of its navigation, and a link that leads nowhere is noticed.

`make docs` builds it and fails at any warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scripts.check_site import faults

DOCS = Path(__file__).resolve().parents[2] / "docs"


def named(part: dict[str, Any]) -> Iterator[str]:
    """The pages that a part of docs/_toc.yml names, as paths without `.md`."""
    if glob := part.get("glob"):
        pages = [str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.glob(f"{glob}.md")]
        assert pages, f"{glob} names no page"
        yield from pages
    if page := part.get("root") or part.get("file"):
        assert (DOCS / f"{page}.md").exists(), f"{page} is no page"
        yield page
    for below in (*part.get("subtrees", ()), *part.get("entries", ())):
        yield from named(below)


def test_every_page__is_in_the_navigation() -> None:
    contents = set(named(yaml.safe_load((DOCS / "_toc.yml").read_text())))
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")}
    assert len(pages) > 100
    assert pages - contents == set(), "add it to docs/_toc.yml"


def test_a_link_that_leads_nowhere__is_noticed(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="page.html#there">1</a> <a href="page.html#gone">2</a> <a href="gone.html">3</a> <a href="#gone">4</a>'
        '<a href="https://elsewhere.example/gone">5</a> <img src="gone.svg"> <script src="page.html?v=1"></script>'
    )
    (tmp_path / "page.html").write_text('<h2 id="there">There</h2>')
    wrong = [each.split(" leads")[0] for each in faults(tmp_path)]
    assert wrong == [f"index.html: {link}" for link in ("#gone", "gone.html", "gone.svg", "page.html#gone")]
