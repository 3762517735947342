"""Check the built documentation site: `python -m scripts.check_site FOLDER` (`make docs`).

Every link from one of its pages to another, to a place in it or to a file leads somewhere. Links to other sites are not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src"}


class Page(HTMLParser):
    """A page's links, and the ids that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.update(value for name in ("id", "name") if (value := values.get(name)))
        if link := values.get(LINKS.get(tag, "")):
            self.links.add(link)


def faults(folder: Path) -> list[str]:
    """A sentence for each link that leads nowhere."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    return [
        f"{path.relative_to(folder.resolve())}: {link} leads nowhere"
        for path, page in pages.items()
        for link in sorted(page.links)
        if not _leads(link, path, pages)
    ]


def _leads(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target not in pages:
        return target.is_file()
    return not parts.fragment or unquote(parts.fragment) in pages[target].ids


def main() -> int:
    folder = Path(sys.argv[1])
    wrong = faults(folder)
    for each in wrong:
        print(each, file=sys.stderr)
    return int(bool(wrong) or not (folder / "index.html").exists())


if __name__ == "__main__":
    sys.exit(main())
