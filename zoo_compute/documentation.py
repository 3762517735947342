"""Addresses of documentation pages, which errors print beside their hints."""

from __future__ import annotations

import os
import re

SITE = "ZOO_DOCS"  # environment: where a built site is served, such as https://HOST/zoo/
REPOSITORY = "docs"  # without a site: the pages of the repository


def address(page: str, place: str = "") -> str:
    """Of a page, named by its path below docs/ without an ending, and of a heading on it."""
    site = os.environ.get(SITE, "").rstrip("/")
    path = f"{site}/{page}.html" if site else f"{REPOSITORY}/{page}.md"
    return f"{path}#{place}" if place else path


def place_of(heading: str) -> str:
    """The anchor of a heading, as Markdown renderers make it: `registry: not the owner` is at `registry-not-the-owner`."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
