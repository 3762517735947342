"""CUDA C++ for recipes and index maps, and code shared by kernels.

Shapes and strides are constants in the text, so that the compiler turns divisions into multiplications; only addresses
are arguments. Kernels of equal text are compiled once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from repops.graph import Shape
from repops.recipes import Recipe

THREADS = 256
NAME = "KERNEL_NAME"  # placeholder for the kernel's name in its text
TEMPLATES = ("words.cuh", "fold.cuh", "scatter.cuh", "gemm.cuh")

Strides = tuple[int, ...]


@dataclass(frozen=True)
class Kernel:
    """One launch. buffers: what its pointers point to: a node's words, or scratch -1, -2, ... of its unit."""

    text: str
    blocks: int
    threads: int
    buffers: tuple[int, ...]


def blocks_for(count: int, threads: int = THREADS) -> int:
    return -(-count // threads)


@cache
def templates() -> str:
    folder = resources.files("repops.cuda")
    return "\n".join((folder / name).read_text() for name in TEMPLATES)


def distinct(kernels: Sequence[Kernel]) -> tuple[dict[str, str], list[str]]:
    """The text of each distinct kernel by a name of its own, and the name of each given kernel."""
    names: dict[str, str] = {}
    for kernel in kernels:
        names.setdefault(kernel.text, f"kernel_{len(names)}")
    return {name: text.replace(NAME, name) for text, name in names.items()}, [names[kernel.text] for kernel in kernels]


class Domain:
    """The index space of a kernel's threads: mergeable axes are merged, axes of one element dropped. An empty domain has no
    axes: its text is compiled but never run.

    Every partial sum of a view's index lies in its source, so 32 bits are enough.
    """

    def __init__(self, shape: Shape, views: Sequence[Strides]) -> None:
        merged: list[tuple[int, Strides]] = []
        for axis, extent in enumerate(shape if 0 not in shape else ()):
            if extent == 1:
                continue
            strides = tuple(view[axis] for view in views)
            outer = merged[-1] if merged else None
            if outer and all(a == b * extent for a, b in zip(outer[1], strides, strict=True)):
                merged[-1] = (outer[0] * extent, strides)
            else:
                merged.append((extent, strides))
        self.extents: Shape = tuple(extent for extent, _ in merged)
        self.strides: list[Strides] = [tuple(strides[at] for _, strides in merged) for at in range(len(views))]

    @property
    def size(self) -> int:
        return math.prod(self.extents)

    def coordinates(self, variable: str) -> list[str]:
        """Declares c0, c1, ...: where the row-major number in `variable` (u32) lies."""
        lines, rest = [], variable
        for axis in range(len(self.extents) - 1, -1, -1):
            if axis == 0:
                lines.append(f"const int c0 = (int)({rest});")
            else:
                lines.append(f"const int c{axis} = (int)({rest} % {self.extents[axis]}u);")
                lines.append(f"const u32 r{axis} = {rest} / {self.extents[axis]}u;")
                rest = f"r{axis}"
        return lines

    def index(self, view: int, offset: int = 0) -> str:
        """The view's index at c0, c1, ..."""
        terms = [f"c{axis} * {stride}" for axis, stride in enumerate(self.strides[view]) if stride]
        return " + ".join([str(offset), *terms]) if offset or not terms else " + ".join(terms)


def index_function(name: str, shape: Shape, strides: Strides, offset: int = 0) -> str:
    """A function from a row-major number in `shape` to the index there."""
    domain = Domain(shape, [strides])
    body = " ".join([*domain.coordinates("i"), f"return {domain.index(0, offset)};"])
    return f"DEVICE static int {name}(u32 i) {{ {body} }}"


def constants(**values: int | bool) -> str:
    """Declarations for a struct."""
    texts = []
    for name, value in values.items():
        kind, text = ("bool", str(value).lower()) if isinstance(value, bool) else ("u32", f"{value}u")
        texts.append(f"static constexpr {kind} {name} = {text};")
    return " ".join(texts)


def write_recipe(recipe: Recipe, arguments: Sequence[str], prefix: str) -> tuple[list[str], str]:
    """The recipe's steps as declarations of prefix0, prefix1, ..., and the expression of its result."""
    registers = [*arguments, *(f"{word:#010x}u" for word in recipe.constants)]
    lines = []
    for number, step in enumerate(recipe.steps):
        words = ", ".join(registers[at] for at in step.arguments)
        lines.append(f"const u32 {prefix}{number} = w_{step.primitive}({words});")
        registers.append(f"{prefix}{number}")
    return lines, registers[recipe.result]


def join_function(recipe: Recipe) -> str:
    lines, result = write_recipe(recipe, ["a", "x"], "t")
    return f"DEVICE static u32 join(u32 a, u32 x) {{ {' '.join([*lines, f'return {result};'])} }}"


def kernel_text(
    parameters: Sequence[str], lines: Sequence[str], *, threads: int = THREADS, resident: int = 1, before: str = ""
) -> str:
    """A kernel and what comes before it. parameters: declarations. resident: blocks that share a processor at least."""
    body = "\n    ".join(lines)
    return f"{before}\nKERNEL({threads}, {resident}) {NAME}({', '.join(parameters)}) {{\n    {body}\n}}\n"


def reads(number: int) -> list[str]:
    return [f"const u32* __restrict__ p{at}" for at in range(number)]


def each_element(count: int) -> list[str]:
    """One thread for each of `count` elements: i."""
    return [f"const u32 i = blockIdx.x * {THREADS}u + threadIdx.x;", f"if (i >= {count}u) return;"]
