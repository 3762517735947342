"""Write the reference pages of docs/reference that follow from the code, and the lists of operators, models and decisions in other pages.

    python -m scripts.generate reference [--check]

contracts/NAME.md lists a contract's transactions, views and events (contract_pages.py).
errors.md and errors/NAME.md have an entry for every exception and every refusal. `--check` exits 1 when a page is stale.
"""

from __future__ import annotations

import argparse
import sys

from scripts.generate.contract_pages import contract_page, contracts_index
from scripts.generate.error_pages import REASONS, errors_page, refusal_pages
from scripts.generate.key_tables import job_table, node_table
from scripts.generate.operator_table import table
from scripts.generate.protocol_tables import ROOT, page_name
from zoo_compute.jobs.sections import SECTIONS
from zoo_compute.models.presets import MODELS, section_of

REFERENCE = ROOT / "docs" / "reference"
CONTRACTS = REFERENCE / "contracts"
LIBRARY = ROOT / "repops" / "README.md"
JOB_FILE = REFERENCE / "job-file.md"
OPERATOR_JSON = REFERENCE / "operator-json.md"
DECISIONS = ROOT / "docs" / "design" / "decisions"


def with_table(text: str, subject: str, table: str) -> str:
    """A page with the table between its marks."""
    begin, end = f"<!-- {subject} -->", f"<!-- end of {subject} -->"
    before, _, rest = text.partition(begin)
    _, mark, after = rest.partition(end)
    assert mark, f"the page lacks {begin} and {end}"
    return f"{before}{begin}\n\n{table}\n{end}{after}"


def models() -> str:
    """The built-in models by name."""
    lines = [
        "| name | architecture | parameters | context | vocabulary | learning rate | sizes of |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, preset in MODELS.items():
        section = section_of(name)
        sizes = f"{section.parameters:,} | {section.context:,} | {section.vocab:,} | {preset.learning_rate:g}"
        lines.append(f"| `{name}` | {section.architecture} | {sizes} | {preset.source} |")
    return "\n".join(lines) + "\n"


def job_file() -> str:
    """The page of a job's keys, with a table for each section."""
    text = with_table(JOB_FILE.read_text(), "models", models())
    for section in SECTIONS:
        text = with_table(text, f"keys of {section}", job_table(section))
    return text


def decisions() -> str:
    """The titles of the decisions, each with its page."""
    titles = {path.name: path.read_text().partition("\n")[0].lstrip("# ") for path in sorted(DECISIONS.glob("0*.md"))}
    return "".join(f"- [{title}]({name})\n" for name, title in titles.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 when a page is stale")
    arguments = parser.parse_args()
    stale = []
    pages = {CONTRACTS / f"{page_name(contract)}.md": contract_page(contract) for contract in REASONS}
    pages |= {REFERENCE / "errors" / f"{prefix}.md": text for prefix, text in refusal_pages().items()}
    pages |= {
        CONTRACTS / "index.md": contracts_index(),
        REFERENCE / "errors.md": errors_page(),
        LIBRARY: with_table(LIBRARY.read_text(), "operators", table()),
        JOB_FILE: job_file(),
        OPERATOR_JSON: with_table(OPERATOR_JSON.read_text(), "keys", node_table()),
        DECISIONS / "index.md": with_table((DECISIONS / "index.md").read_text(), "decisions", decisions()),
    }
    for path, text in pages.items():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not arguments.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in stale:
        print(f"{name} is stale: run `make generate`" if arguments.check else name, file=sys.stderr)
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
