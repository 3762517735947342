"""Write the reference pages of docs/reference that follow from the code, and the lists of operators, models and decisions in other pages.

    python -m scripts.generate reference [--check]

transactions/NAME.md lists every transaction that a wallet can send to a contract: what it does and takes comes from the contract's NatSpec
(through the generated bindings), who may send it from the table in docs/protocol/NAME.md, what to do about a refusal from the hints.
errors.md and errors/NAME.md have an entry for every exception and every refusal. `--check` exits 1 when a page is stale.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
import textwrap
from typing import Any

from scripts.generate.error_pages import REASONS, errors_page, refusal_pages, refusal_table
from scripts.generate.key_tables import job_table, node_table
from scripts.generate.operator_table import table
from scripts.generate.protocol_tables import GENERATED, PROTOCOL, ROOT, WIDTH, Row, filled, page_name, rows
from zoo_compute.chain.generated import bindings
from zoo_compute.jobs.sections import SECTIONS
from zoo_compute.models.presets import MODELS, section_of

REFERENCE = ROOT / "docs" / "reference"
TRANSACTIONS = REFERENCE / "transactions"
LIBRARY = ROOT / "repops" / "README.md"
JOB_FILE = REFERENCE / "job-file.md"
OPERATOR_JSON = REFERENCE / "operator-json.md"
DECISIONS = ROOT / "docs" / "design" / "decisions"
CALLERS = {*REASONS, "Evidence"} - {"NodeRegistry", "Treasury", "ZenToken"}


def entry(abi: dict[str, Any], words: str, row: Row | None, structs: dict[str, str]) -> list[str]:
    """One function as Markdown."""
    inputs = ", ".join(f"{i['name']}: {_type(i, structs)}" for i in abi["inputs"])
    outputs = ", ".join(_type(o, structs) for o in abi["outputs"])
    signature = f"{abi['name']}({inputs}){' -> ' + outputs if outputs else ''}"
    lines = [
        f"## `{abi['name']}`",
        "",
        *textwrap.wrap(signature, WIDTH, initial_indent="    ", subsequent_indent=" " * 8),
    ]
    lines += ["", *_listed(words, {i["name"] for i in abi["inputs"]}), ""]
    if row is not None:
        refusals = f" Refused with: {row.refusals}." if "`" in row.refusals else ""
        lines += [*filled(f"Sent by: {row.caller}.{refusals}"), ""]
    return lines


def _listed(words: str, arguments: set[str]) -> list[str]:
    """A docstring's lines, those about an argument as a list."""
    lines: list[str] = []
    for line in words.splitlines():
        name, colon, rest = line.partition(": ")
        lines += filled(f"- `{name}`: {rest}", "  ") if colon and name in arguments else filled(line)
    return lines


def _type(item: dict[str, Any], structs: dict[str, str]) -> str:
    """A type by the struct's name; notes the struct's fields in `structs`."""
    if not item["type"].startswith("tuple"):
        return str(item["type"])
    name = item["name"].rsplit("_", 1)[-1].rstrip("s").capitalize() if item["name"] else "Struct"
    fields = ", ".join(f"{part['name']}: {_type(part, structs)}" for part in item["components"])
    structs.setdefault(fields, name)
    return structs[fields] + item["type"].removeprefix("tuple")


def transactions(contract: str) -> str:
    """The page of a contract."""
    binding = getattr(bindings, contract)
    rules = PROTOCOL / f"{page_name(contract)}.md"
    lines = [f"# {contract}: transactions a wallet can send", "", GENERATED]
    lines += [f"The rules: [{contract}](../../protocol/{rules.name})." if rules.exists() else "", ""]
    lines += [*_paragraphs(inspect.getdoc(binding) or ""), ""]
    structs = _names_of_structs(contract)
    functions = _functions(contract, structs)
    lines += [*functions, *_structs({name: fields for fields, name in structs.items()}, "\n".join(functions))]
    lines += ["## Refusals", "", *refusal_table([REASONS[contract]], "../errors")]
    return "\n".join(lines).rstrip() + "\n"


def _functions(contract: str, structs: dict[str, str]) -> list[str]:
    binding, table_rows = getattr(bindings, contract), rows(contract)
    lines: list[str] = []
    for abi in sorted(bindings.abi(contract), key=lambda item: str(item.get("name"))):
        if abi["type"] != "function" or abi["stateMutability"] in ("view", "pure") or abi["name"] == "wire":
            continue
        row = table_rows.get(abi["name"])
        if row is not None and set(row.caller.split(", ")) <= CALLERS:
            continue
        method = getattr(binding, abi["name"], None)
        if method is not None:
            lines += entry(abi, inspect.getdoc(method) or "", row, structs)
    return lines


def _paragraphs(words: str) -> list[str]:
    return [line for part in words.split("\n\n") for line in (*filled(" ".join(part.split())), "")][:-1]


def _names_of_structs(contract: str) -> dict[str, str]:
    """A struct's fields, as `_type` spells them -> its name in the contract."""
    names: dict[str, str] = {}
    module = importlib.import_module(getattr(bindings, contract).__module__)
    classes = {
        tuple(value._fields): name
        for name, value in vars(module).items()
        if inspect.isclass(value) and hasattr(value, "_fields")
    }

    def visit(item: dict[str, Any]) -> None:
        for part in item.get("components", ()):
            visit(part)
        name = classes.get(tuple(part["name"] for part in item.get("components", ())))
        if name:
            names[", ".join(f"{part['name']}: {_type(part, names)}" for part in item["components"])] = name

    for abi in bindings.abi(contract):
        for item in (*abi.get("inputs", ()), *abi.get("outputs", ())):
            visit(item)
    return names


def _structs(fields: dict[str, str], text: str) -> list[str]:
    """The structs that the page's functions take, and those inside them."""
    wanted = {name for name in fields if re.search(rf": {name}\b", text)}
    while more := {name for name in fields if any(re.search(rf": {name}\b", fields[of]) for of in wanted)} - wanted:
        wanted |= more
    if not wanted:
        return []
    lines = ["## Structs", ""]
    for name in sorted(wanted):
        lines += filled(f"- `{name}`: `{fields[name]}`", "  ")
    return [*lines, ""]


def transactions_index() -> str:
    lines = ["# Transactions", "", GENERATED, ""]
    lines += [*filled(INDEX), "", "| contract | page |", "|---|---|"]
    lines += [f"| {contract} | [{page_name(contract)}.md]({page_name(contract)}.md) |" for contract in REASONS]
    return "\n".join(lines) + "\n"


INDEX = (
    "Any wallet may send these; the `zoo` commands and the keepers send the same. Amounts are in the token's smallest unit, times "
    "are Unix seconds, bit `i` of a bitmap is seat `i`. Functions that contracts call on each other and the deployer's one-time wiring "
    "are left out. The ABIs are in `zoo_compute/chain/generated/artifacts/NAME.json`."
)


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
    pages = {TRANSACTIONS / f"{page_name(contract)}.md": transactions(contract) for contract in REASONS}
    pages |= {REFERENCE / "errors" / f"{prefix}.md": text for prefix, text in refusal_pages().items()}
    pages |= {
        TRANSACTIONS / "index.md": transactions_index(),
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
