"""The torch side of an admission's trial: `python -m node.admission.trial`, which `zoo node admit` starts.

It loads the workload first and says `ready`; then it is given the seed, a line of hex, and answers with one JSON object. So the
chain's clock, which runs from the entry on, counts the work and not the start of a process. It holds no key.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from node.admission import benchmark
from node.compute.programs import Programs, State
from node.device import as_node_memory_errors, computes_on, pick_device
from node.errors import BadInputs, NodeError
from repops import commitments, encoding
from repops.backend import DTYPE
from repops.graph import Graph
from zoo_compute.training.rounds import batch_nodes

SEED_BYTES = 4  # of a trial's seed, that the state's `seed` is


class LoadedWorkload:
    """A workload on a device, checked against the roots that the chain has of it."""

    def __init__(self, programs: Programs, program_root: bytes, state_root: bytes) -> None:
        self.programs = programs
        self.start = benchmark.fixed_state(programs)
        if programs.root != program_root:
            raise BadInputs(
                f"this program has the root {programs.root.hex()}, the workload's is {program_root.hex()}",
                hint="give the workload's program: --program FILE",
            )
        programs.begin(self.start)
        root = programs.state_root()
        if root != state_root:
            raise BadInputs(f"the program starts from {root.hex()}, the workload from {state_root.hex()}")

    def run(self, seed: bytes, steps: int) -> bytes:
        """The segment root of `steps` steps under a trial's seed, every batch entry zero (docs/protocol.md, "Admissions")."""
        programs, batch = self.programs, no_batch(self.programs.graph)
        programs.begin(self.start, trial_seed_word(seed))
        roots = [(0, programs.state_root())]
        for step in range(1, steps + 1):
            programs.advance(batch)
            roots.append((step, programs.state_root()))
        return commitments.segment_root(roots)


def trial_seed_word(seed: bytes) -> int:
    """What the state's `seed` is under a trial's."""
    return int.from_bytes(seed[:SEED_BYTES], "little", signed=True)


def no_batch(graph: Graph) -> State:
    """What a trial's steps learn from: zeros."""
    return {name: np.zeros(node.shape, DTYPE[node.dtype]) for name, node in batch_nodes(graph).items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="node.admission.trial", description="Run a workload under the seed given on stdin"
    )
    parser.add_argument("--program-root", required=True, type=bytes.fromhex)
    parser.add_argument("--state-root", required=True, type=bytes.fromhex)
    parser.add_argument("--steps", required=True, type=int)
    parser.add_argument("--program", type=Path, help="the program's file; the one of this installation when left out")
    parser.add_argument("--device", help="cpu, cuda, cuda:N or mps; the best there is when left out")
    options = parser.parse_args(arguments)
    try:
        graph = encoding.decode(options.program.read_bytes()) if options.program else benchmark.fixed_program()
        programs = Programs(graph, computes_on(pick_device(options.device)))
        with as_node_memory_errors(programs.profile, programs.device):
            loaded = LoadedWorkload(programs, options.program_root, options.state_root)
            print("ready", flush=True)
            line = sys.stdin.readline().strip()
            if not line:
                return 0  # whoever started it needs no answer any more
            root = loaded.run(bytes.fromhex(line), options.steps)
    except NodeError as error:
        print(f"{error}" + (f"\n{error.hint}" if error.hint else ""), file=sys.stderr)
        return 1
    print(json.dumps({"root": root.hex(), "device": str(programs.device)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
