"""Gas of one part of each operator on chain: what `OpExecutor.execute` uses, without the transaction that asks.

    python -m tests.campaigns.operator_gas [--json]

Each operator is measured at its largest part: as many terms as a part takes where they lie side by side. Words are ordinary
numbers, near each other; `erf` runs all of its recipe whatever they are.
"""

from __future__ import annotations

import argparse
import json
import sys

from repops.encoding import descriptor
from repops.graph import F32, Node, Operand
from repops.operators import TABLE, domain
from repops.parts import parts
from tests.support.protocol_driver import load

SHAPE, TERMS = (4, 8), 512
INDEX = 3


def sample(op: str) -> Node:
    """A node of this operator over contiguous operands."""
    row = TABLE[op]
    attributes = (1,) if "axis" in row.attributes else (0x3F800000,) if op == "scalar" else ()
    count = len(row.operands)
    if op == "concat":
        count, attributes = 2, (1, 4, 4)
    reduced = (TERMS,) if row.reduces else ()
    bare = Node(op, F32, () if op == "scalar" else SHAPE, reduced, (), attributes)
    views = tuple(Operand(at, 0, (8,) * (len(domain(bare, at)) - 1) + (1,)) for at in range(count))
    return Node(op, F32, bare.shape, reduced, views, attributes)


def measure() -> dict[str, tuple[int, int]]:
    """(words, gas) of each operator's largest part."""
    operators, gas_by_operator = load("OpExecutor").deploy(), {}
    for op in TABLE:
        if op in ("input", "constant"):
            continue
        node = sample(op)
        element = 3 if node.shape else 0
        every = list(parts(node, element, lambda operand, at: INDEX))
        number = max(range(len(every)), key=lambda at: (len(every[at].recipe.steps), len(every[at].reads)))
        count = len(every[number].carried) + len(every[number].reads)
        words = [0x3F800000 + 7919 * at for at in range(count)]
        if op == "take":
            words[0] = INDEX
        operators.execute(descriptor(node), element, number, words)
        gas_by_operator[op] = (count, operators.last.gas)
    return gas_by_operator


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one object")
    as_json: bool = parser.parse_args().json
    gas_by_operator = measure()
    if as_json:
        print(json.dumps({op: {"words": words, "gas": gas} for op, (words, gas) in gas_by_operator.items()}))
        return 0
    print(f"{'operator':15} {'words':>6} {'gas':>8}")
    for op, (words, gas) in sorted(gas_by_operator.items(), key=lambda each: -each[1][1]):
        print(f"{op:15} {words:6} {gas:8,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
