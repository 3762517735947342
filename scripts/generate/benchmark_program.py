"""Write the program of the admission benchmark, node/generated/benchmark.repops; --check reports whether it is stale.

It is shipped as a file, so that every node runs the same program with any version of torch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch.nn import functional

import repops
from node.admission import benchmark
from node.compute.programs import Programs
from zoo_compute.models import gpt

FILE = Path(__file__).resolve().parents[2] / "node" / "generated" / "benchmark.repops"
BATCH, CONTEXT = 8, 128
DROPOUT = 0.1


def benchmark_program() -> repops.Program:
    """A training step of a small GPT of 3.2 million parameters.

    Dropout on the blocks' input makes nearly all of a trial's work depend on its seed.
    """
    module, loss, optimizer = gpt.build(layers=4, heads=4, width=256, context=CONTEXT)
    module.get_submodule("tokens").register_forward_hook(
        lambda _module, _inputs, output: functional.dropout(output, DROPOUT)
    )
    tokens = torch.zeros(BATCH, CONTEXT, dtype=torch.int64)
    return repops.trace(module, loss, optimizer, (tokens, tokens), clip_norm=1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description="The admission benchmark's program")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the file is stale")
    options = parser.parse_args()
    program = benchmark_program()
    if not options.check:
        repops.save(program, FILE)
        print(f"{FILE}: {FILE.stat().st_size:,} bytes")
        print(f"node/admission/benchmark.py                  PROGRAM_ROOT = {program.root.hex()}")
        print(
            f"tests/node/test_benchmark.py  AFTER_THREE_STEPS = {benchmark.timed(Programs(program.graph), 1)[1].hex()}"
        )
        return 0
    if not FILE.exists() or FILE.read_bytes() != program.to_bytes():
        print(
            f"{FILE} is stale: run scripts/generate/benchmark_program.py, and state the roots it prints where it says",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
