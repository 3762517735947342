"""The operator table as Markdown, for repops/README.md."""

from __future__ import annotations

from repops.operators import LANES, TABLE, Operator
from repops.parts import MAX_LEAVES, MAX_WORDS
from repops.recipes import MAX_STEPS

GROUPS = ((10, "Sources"), (60, "Elementwise"), (70, "Reductions"), (80, "Indexed access"))
LETTERS = {"f": "f32", "i": "i32", "w": "any"}


def table() -> str:
    lines: list[str] = []
    least = 0
    for limit, title in GROUPS:
        lines += ["", f"**{title}**", "", "| operator | code | operands -> result | scalar operations | element |"]
        lines += ["|---|---|---|---|---|"]
        lines += [_row(row) for row in TABLE.values() if least <= row.code < limit]
        least = limit
    lines += [
        "",
        f"An element is computed in parts of at most {MAX_STEPS} scalar operations, whose terms are at most {MAX_WORDS} words in {MAX_LEAVES} leaves (`repops/parts.py`); "
        f"`sum` keeps {LANES} lanes. Codes never change their meaning.",
    ]
    return "\n".join(lines).strip() + "\n"


def _row(row: Operator) -> str:
    repeated = row.operands.endswith("*")
    operands = ", ".join(LETTERS[letter] for letter in row.operands.rstrip("*")) + (", ..." if repeated else "")
    attributes = f" [{', '.join(row.attributes)}]" if row.attributes and len(row.attributes) < 4 else ""
    cost = str(len(row.recipe.steps)) if row.recipe is not None else "-"
    if row.is_fold:
        cost += " a term"
    return f"| `{row.name}`{attributes} | {row.code} | {operands or '-'} -> {LETTERS[row.result]} | {cost} | {row.about.replace('|', '/')} |"
