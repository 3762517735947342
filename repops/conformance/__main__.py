"""`python -m repops.conformance --device cuda:0`: run the programs on the device and on the CPU, and print JSON lines.

    {"done": 3, "of": 24, "program": "chains"}      progress
    {"cases": 212, "differing": ["sweep: exp"]}     at the end
    {"error": "...", "out_of_memory": false}        instead, if the device fails

First it compares the CPU's kernels with the reference executor, on the small programs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from repops import backend, reference
from repops.backend import Runner
from repops.conformance.compare import Cases, compare, training
from repops.conformance.programs import LARGE, SMALL, Sample
from repops.graph import Graph

Prepare = Callable[[Graph], Runner]
Check = tuple[str, Callable[[], Cases]]


def checks(device: str, ours: Prepare, program: Path | None) -> list[Check]:
    """Each program by name with what compares it. ours: of the device; unused for the CPU."""
    made: list[Check] = [
        (f"cpu {name}", partial(_compared, sample, backend.prepare, reference.prepare))
        for name, sample in SMALL.items()
    ]
    if device == "cpu":
        return made
    made += [(name, partial(_compared, sample, ours, backend.prepare)) for name, sample in (SMALL | LARGE).items()]
    if program is not None:  # a trace of it would take the memory of all it computes
        made.append(("training", partial(_compared, partial(training, program), ours, backend.prepare, traced=False)))
    return made


def _compared(sample: Callable[[], Sample], ours: Prepare, theirs: Prepare, *, traced: bool = True) -> Cases:
    made = sample()
    return compare(made, ours(made[0]), theirs(made[0]), traced=traced, threads=os.cpu_count() or 1)


def answers(made: list[Check]) -> Iterator[dict[str, object]]:
    """What is printed, line by line."""
    cases, differing = 0, list[str]()
    for number, (name, check) in enumerate(made):
        yield {"done": number, "of": len(made), "program": name}
        outcomes = check()
        cases += len(outcomes)
        differing += [f"{name}: {case}" for case, agrees in outcomes.items() if not agrees]
    yield {"cases": cases, "differing": differing}


def prepare_on(device: str) -> Prepare:
    """`cuda:N`. Raises NoBackend."""
    kind, _, ordinal = device.partition(":")
    if kind != "cuda":
        raise backend.NoBackend(f"this release has no kernels for {kind}")
    from repops.cuda.driver import gpu
    from repops.cuda.runner import CudaRunner

    accelerator = gpu(int(ordinal or 0))
    return lambda graph: CudaRunner(graph, accelerator, fused=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="repops.conformance", description="Compare a device's bits with the CPU's")
    parser.add_argument("--device", required=True, help="cpu or cuda:N")
    parser.add_argument("--training", type=Path, help="a training program's file, run too")
    options = parser.parse_args()
    try:
        ours = backend.prepare if options.device == "cpu" else prepare_on(options.device)
        for answer in answers(checks(options.device, ours, options.training)):
            print(json.dumps(answer), flush=True)
    except (RuntimeError, ImportError, MemoryError) as error:
        # Of other errors the traceback says more.
        out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemory"
        print(json.dumps({"error": str(error) or type(error).__name__, "out_of_memory": out_of_memory}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
