"""The documentation site: `make docs` builds it with Sphinx from the Markdown of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]

sys.path.insert(0, str(Path(__file__).parent))

project = "Zoo Compute"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click", "sphinx_external_toc"]
exclude_patterns = ["guides/deploy"]
nitpicky = True
smartquotes = False
highlight_language = "bash"  # of blocks without a language: commands
myst_heading_anchors = 4
# Docstrings and help texts are Markdown in spirit: what is between backticks is code.
default_role = "code"
autodoc_typehints = "none"  # the signature has them
autodoc_member_order = "bysource"

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "Zoo Compute"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False


def include_changelog(app: Sphinx, page: str, source: list[str]) -> None:
    """CHANGELOG.md is beside docs/, where Sphinx reads nothing: its text is that of the page `changelog`."""
    if page == "changelog":
        app.env.note_dependency(str(ROOT / "CHANGELOG.md"))
        source[0] = (ROOT / "CHANGELOG.md").read_text("utf-8").replace("](docs/", "](")
    source[0] = source[0].replace("](../../CHANGELOG.md)", "](../changelog.md)")


def setup(app: Sphinx) -> None:
    app.connect("source-read", include_changelog)
