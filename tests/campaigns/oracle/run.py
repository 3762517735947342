"""The long target: every unary operator of the table on all 2^32 words (`make oracle`; minutes an operator).

Recipes are written out as C, one function a primitive, and compared in oracle.c. The error an inexact operator may
have is what its row in the table says ("within 1.5 ulp"); one that says nothing must be exact.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from repops.operators import TABLE, Operator
from repops.recipes import Recipe

HERE = Path(__file__).resolve().parent
# No contraction: an fma is written as one. The rest of IEEE 754 is what C compilers do when not told otherwise.
FLAGS = ["-O3", "-march=native", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wall"]

PRIMITIVES = """
#include <math.h>
#include <stdint.h>
typedef uint32_t W;
typedef union { W w; float f; int32_t i; } Bits;
static inline float F(W w) { return (Bits){.w = w}.f; }
static inline int32_t I(W w) { return (Bits){.w = w}.i; }
static inline W B(float f) { return (Bits){.f = f}.w; }
static inline W p_add(W a, W b) { return B(F(a) + F(b)); }
static inline W p_sub(W a, W b) { return B(F(a) - F(b)); }
static inline W p_mul(W a, W b) { return B(F(a) * F(b)); }
static inline W p_div(W a, W b) { return B(F(a) / F(b)); }
static inline W p_sqrt(W a) { return B(__builtin_sqrtf(F(a))); }
static inline W p_fma(W a, W b, W c) { return B(__builtin_fmaf(F(a), F(b), F(c))); }
static inline W p_lt(W a, W b) { return F(a) < F(b); }
static inline W p_le(W a, W b) { return F(a) <= F(b); }
static inline W p_eq(W a, W b) { return F(a) == F(b); }
static inline W p_iadd(W a, W b) { return a + b; }
static inline W p_isub(W a, W b) { return a - b; }
static inline W p_imul(W a, W b) { return a * b; }
static inline W p_and(W a, W b) { return a & b; }
static inline W p_or(W a, W b) { return a | b; }
static inline W p_xor(W a, W b) { return a ^ b; }
static inline W p_shl(W a, W b) { return a << (b & 31); }
static inline W p_shr(W a, W b) { return a >> (b & 31); }
static inline W p_ieq(W a, W b) { return a == b; }
static inline W p_ilt(W a, W b) { return I(a) < I(b); }
static inline W p_where(W c, W a, W b) { return c ? a : b; }
static inline W p_to_float(W a) { return B((float)I(a)); }
static inline W p_to_int(W a)
{
    const float x = F(a);
    if (x != x) return 0;
    if (x >= 2147483648.0f) return 0x7fffffffu;
    if (x <= -2147483648.0f) return 0x80000000u;
    return (W)(int32_t)x;
}
"""


class NoCompiler(RuntimeError):
    """There is no C compiler here."""


@dataclass(frozen=True)
class Finding:
    """error_ulp: the largest. at: the word it was found at. wrong: words that no rounding explains."""

    name: str
    tried: int
    error_ulp: float
    at: int
    wrong: int

    def refusal(self) -> str | None:
        bound = stated_bound(TABLE[self.name])
        if self.wrong:
            return f"{self.name}: {self.wrong} wrong words, one at 0x{self.at:08x}"
        if self.error_ulp > bound:
            return f"{self.name}: {self.error_ulp:.4f} ulp at 0x{self.at:08x}; the table says {bound}"
        return None


def unary() -> list[str]:
    return [row.name for row in TABLE.values() if row.is_map and len(row.operands) == 1]


def stated_bound(row: Operator) -> float:
    """Largest error in ulp that the table grants an operator."""
    measured = re.search(r"within ([0-9.]*[0-9]) ulp", row.about)
    return float(measured[1]) if measured else 0.0


def kernel(name: str, recipe: Recipe) -> str:
    """A recipe of one input as a C function over arrays."""
    names = ["x[at]", *(f"0x{word:08x}u" for word in recipe.constants)]
    names += [f"s{number}" for number in range(len(recipe.steps))]
    lines = [
        f"        const W s{number} = p_{step.primitive}({', '.join(names[a] for a in step.arguments)});"
        for number, step in enumerate(recipe.steps)
    ]
    head = f"static void kernel_{name}(const W *restrict x, W *restrict y, int n)\n{{\n    for (int at = 0; at < n; at++) {{"
    return "\n".join([head, *lines, f"        y[at] = {names[recipe.result]};", "    }", "}", ""])


def build(folder: Path) -> Path:
    """The oracle's program, in `folder`. Raises NoCompiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise NoCompiler("no C compiler: install one, or set CC")
    kernels = [kernel(name, recipe) for name in unary() if (recipe := TABLE[name].recipe) is not None]
    (folder / "kernels.h").write_text(PRIMITIVES + "\n" + "\n".join(kernels))
    program = folder / "oracle"
    command = [compiler, *FLAGS, f"-I{folder}", str(HERE / "oracle.c"), "-o", str(program), "-lm", "-lpthread"]
    subprocess.run(command, check=True)
    return program


def measure(program: Path, name: str, *, threads: int = 1, stride: int = 1) -> Finding:
    """Every stride-th word through one operator."""
    out = subprocess.run([program, name, str(threads), str(stride)], check=True, capture_output=True, text=True).stdout
    _, tried, error, at, wrong = out.split()
    return Finding(name, int(tried), float(error), int(at, 16), int(wrong))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operators; all unary ones when none is named")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stride", type=int, default=1, help="every n-th word only")
    options = parser.parse_args()
    refusals = []
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        print(f"{'operator':10} {'words':>13} {'max ulp':>9} {'at':>12} {'wrong':>6} {'stated':>7}")
        for name in options.names or unary():
            measured = measure(program, name, threads=options.threads, stride=options.stride)
            stated = stated_bound(TABLE[name])
            print(
                f"{name:10} {measured.tried:13,} {measured.error_ulp:9.5f}   0x{measured.at:08x} {measured.wrong:6} {stated:7g}",
                flush=True,
            )
            refusals += [measured.refusal()] if measured.refusal() else []
    for refusal in refusals:
        print(refusal, file=sys.stderr)
    return 1 if refusals else 0


if __name__ == "__main__":
    sys.exit(main())
