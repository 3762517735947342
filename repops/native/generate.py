"""Write `recipes.inc`: one C++ function per elementwise operator, from the operator table.

A new row of the table needs no C++ by hand. Imports nothing but the standard library and the table, since the build
runs it in an isolated environment.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from repops.operators import TABLE, Operator
from repops.recipes import Recipe
from repops.words import PRIMITIVES

FILE = "recipes.inc"

# {0}, {1}, {2}: the arguments, float or uint32_t as the primitive's row says. The result is as its row says.
CPP = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "sqrt": "__builtin_sqrtf({0})",
    "fma": "__builtin_fmaf({0}, {1}, {2})",
    "lt": "uint32_t({0} < {1})",
    "le": "uint32_t({0} <= {1})",
    "eq": "uint32_t({0} == {1})",
    "iadd": "{0} + {1}",
    "isub": "{0} - {1}",
    "imul": "{0} * {1}",
    "imulh": "uint32_t((uint64_t({0}) * {1}) >> 32)",
    "idiv": "floor_divide({0}, {1})",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "shl": "{0} << ({1} & 31)",
    "shr": "{0} >> ({1} & 31)",
    "ieq": "uint32_t({0} == {1})",
    "ilt": "uint32_t(int32_t({0}) < int32_t({1}))",
    "where": "{0} ? {1} : {2}",
    "to_float": "float(int32_t({0}))",
    "to_int": "to_integer({0})",
}


def _body(recipe: Recipe) -> list[str]:
    """Statements that compute a recipe from words x0, x1, ...; each register keeps the type of the step that made it."""
    names = [f"x{at}" for at in range(recipe.inputs)] + [f"0x{word:08x}u" for word in recipe.constants]
    is_float = [False] * len(names)
    lines = []

    def read(register: int, as_float: bool) -> str:
        if is_float[register] == as_float:
            return names[register]
        return f"as_float({names[register]})" if as_float else f"as_word({names[register]})"

    base = len(names)
    read_at = {register for step in recipe.steps for register in step.arguments} | {recipe.result}
    for number, step in enumerate(recipe.steps):
        _, kinds, result = PRIMITIVES[step.primitive]
        # `where` keeps floats as they are when both sides are: fewer casts for the compiler to see through.
        floats = step.primitive == "where" and all(is_float[at] for at in step.arguments[1:])
        arguments = [
            read(at, kind == "f" or (kind == "w" and floats)) for at, kind in zip(step.arguments, kinds, strict=True)
        ]
        gives_float = result == "f" or floats
        kind = "float" if gives_float else "uint32_t"
        if base + number in read_at:
            lines.append(f"const {kind} t{number} = {CPP[step.primitive].format(*arguments)};")
        names.append(f"t{number}")
        is_float.append(gives_float)
    lines.append(f"return {read(recipe.result, as_float=False)};")
    return lines


def _struct(row: Operator) -> str:
    assert row.recipe is not None
    inputs = row.recipe.inputs
    arguments = ", ".join(f"uint32_t x{at}" for at in range(inputs))
    body = "\n".join(f"    {line}" for line in _body(row.recipe))
    return (
        f"struct op_{row.name} {{\n"
        f"  static constexpr int INPUTS = {inputs};\n"
        f"  static REPOPS_INLINE uint32_t run({arguments}) {{\n{body}\n  }}\n}};\n"
    )


def text() -> str:
    """The whole file: a struct for each operator with a recipe, then lists of them for the tables of kernels."""
    rows = [row for row in TABLE.values() if row.recipe is not None]
    maps = " ".join(f"X({row.code}, op_{row.name})" for row in rows if row.is_map)
    folds = " ".join(f"X({row.code}, op_{row.name}, 0x{row.start:08x}u)" for row in rows if row.is_fold)
    codes = ", ".join(f"CODE_{row.name.upper()} = {row.code}" for row in TABLE.values())
    head = "// Written by repops/native/generate.py from repops/operators.py. Do not edit.\n"
    return "\n".join(
        [
            head,
            f"enum : int64_t {{ {codes} }};\n",
            *(_struct(row) for row in rows),
            f"#define REPOPS_MAPS(X) {maps}",
            f"#define REPOPS_FOLDS(X) {folds}\n",
        ]
    )


def digest() -> str:
    """A digest of the recipes. A library carries it, since other recipes give other bits."""
    return hashlib.sha256(text().encode()).hexdigest()


def write(directory: Path | str) -> Path:
    """Write the file into `directory` if it changed."""
    path = Path(directory, FILE)
    current = path.read_text() if path.exists() else None
    wanted = f'{text()}#define REPOPS_RECIPES "{digest()}"\n'
    if current != wanted:
        path.write_text(wanted)
    return path


if __name__ == "__main__":
    sys.stdout.write(text())
