"""The pages of docs/reference/contracts: a contract's transactions, views and events.

What a function does and takes comes from the contract's NatSpec, through the generated bindings; who may send it from the table in
docs/protocol/NAME.md.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from typing import Any

from scripts.generate.error_pages import REASONS
from scripts.generate.protocol_tables import GENERATED, PROTOCOL, WIDTH, Row, filled, page_name, rows
from zoo_compute.chain.generated import bindings

CALLERS = {*REASONS, "Evidence"} - {"NodeRegistry", "Treasury", "ZenToken"}


def entry(abi: dict[str, Any], words: str, row: Row | None, structs: dict[str, str]) -> list[str]:
    """One function as Markdown."""
    lines = [
        f"### `{abi['name']}`",
        "",
        *textwrap.wrap(_signature(abi, structs), WIDTH, initial_indent="    ", subsequent_indent=" " * 8),
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


def contract_page(contract: str) -> str:
    """The page of a contract."""
    binding = getattr(bindings, contract)
    rules = PROTOCOL / f"{page_name(contract)}.md"
    lines = [f"# {contract}", "", GENERATED]
    lines += [f"The rules: [{contract}](../../protocol/{rules.name})."] if rules.exists() else []
    lines += [f"What to do about its refusals: [{REASONS[contract]}](../errors/{REASONS[contract]}.md).", ""]
    lines += [*_paragraphs(inspect.getdoc(binding) or ""), ""]
    structs = _names_of_structs(contract)
    listed = [*_transactions(contract, structs), *_views(contract, structs), *_events(contract, structs)]
    lines += [*listed, *_structs({name: fields for fields, name in structs.items()}, "\n".join(listed))]
    return "\n".join(lines).rstrip() + "\n"


def _transactions(contract: str, structs: dict[str, str]) -> list[str]:
    """What a wallet can send."""
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
    return ["## Transactions", "", *lines] if lines else []


def _views(contract: str, structs: dict[str, str]) -> list[str]:
    """What anyone can read, at any block and without gas."""
    binding = getattr(bindings, contract)
    lines: list[str] = []
    bare: list[str] = []
    for abi in sorted(bindings.abi(contract), key=lambda item: str(item.get("name"))):
        if abi["type"] != "function" or abi["stateMutability"] not in ("view", "pure"):
            continue
        words = " ".join((inspect.getdoc(getattr(binding, abi["name"], None)) or "").split())
        if words and not words.startswith("The contract variable"):
            lines += filled(f"- `{_signature(abi, structs)}`: {words}", "  ")
        else:
            bare.append(f"`{_signature(abi, structs)}`")
    if bare:
        lines += filled(f"- as they are named: {', '.join(bare)}", "  ")
    return ["## Views", "", *lines, ""] if lines else []


def _events(contract: str, structs: dict[str, str]) -> list[str]:
    lines: list[str] = []
    for abi in bindings.abi(contract):
        if abi["type"] == "event":
            fields = (f"{i['name']}: {'indexed ' * i['indexed']}{_type(i, structs)}" for i in abi["inputs"])
            lines += filled(f"- `{abi['name']}({', '.join(fields)})`", "  ")
    return ["## Events", "", *lines, ""] if lines else []


def _signature(abi: dict[str, Any], structs: dict[str, str]) -> str:
    inputs = ", ".join(f"{i['name']}: {_type(i, structs)}" for i in abi["inputs"])
    outputs = ", ".join(_type(o, structs) for o in abi["outputs"])
    return f"{abi['name']}({inputs}){' -> ' + outputs if outputs else ''}"


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


def contracts_index() -> str:
    lines = ["# Contracts", "", GENERATED, ""]
    lines += [*filled(INDEX), "", "| contract | page |", "|---|---|"]
    lines += [f"| {contract} | [{page_name(contract)}.md]({page_name(contract)}.md) |" for contract in REASONS]
    return "\n".join(lines) + "\n"


INDEX = (
    "What a wallet can send to each contract, what anyone can read of it, and what it writes into the log. The `zoo` commands and the "
    "keepers do no more. Amounts are in the token's smallest unit, times are Unix seconds, bit `i` of a bitmap is seat `i`. Transactions "
    "that contracts send each other and the deployer's one-time wiring are left out. The ABIs are in "
    "`zoo_compute/chain/generated/artifacts/NAME.json`."
)
