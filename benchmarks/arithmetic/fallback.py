"""How much slower is a training step without compiled kernels? `python -m benchmarks.arithmetic.fallback [--rounds N] [--threads N]`

One step of the admission benchmark's program, and one of a built-in GPT, on the native kernels and on numba's, in turns.
Prints one JSON object: seconds of each (medians), their ratio, and whether the bits agree.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from importlib import resources
from typing import Any

import numpy as np

from repops import backend
from repops.encoding import decode
from repops.graph import F32, Graph
from zoo_compute.jobs.loading import plan_job
from zoo_compute.training.rounds import begin

BACKENDS = ("native", "numba")
SEED = 7
GPT = {
    "model": {"layers": 4, "heads": 4, "width": 128, "context": 128},
    "training": {"learning_rate": 1e-3, "batch_size": 8, "inner_steps": 1, "rounds": 1, "slots": 1},
}


def programs() -> dict[str, Graph]:
    benchmark = resources.files("node.generated").joinpath("benchmark.repops").read_bytes()
    return {"admission": decode(benchmark), "gpt_1m": plan_job(GPT, 100).job.traced.graph}


def measure(graph: Graph, rounds: int, threads: int) -> dict[str, Any]:
    """Of one program: the first step, which compiles numba's kernels, is not counted."""
    rng = np.random.default_rng(SEED)
    runners = {name: backend.prepare(graph, name=name) for name in BACKENDS}
    start = {
        name: rng.normal(0, 0.02, array.shape).astype(array.dtype) for name, array in runners["native"].state.items()
    }
    batch = backend.room_for_batch(graph)
    for name, at in graph.batch:
        if graph.nodes[at].dtype == F32:
            batch[name] = rng.normal(size=batch[name].shape).astype(np.float32)
    seconds: dict[str, list[float]] = {name: [] for name in BACKENDS}
    for turn in range(rounds + 1):
        for name, runner in runners.items():
            if turn == 0:
                begin(graph, runner.state, start, SEED)
            began = time.perf_counter()
            runner.step(batch, threads=threads)
            if turn:
                seconds[name].append(time.perf_counter() - began)
    native, numba = (runners[name].state for name in BACKENDS)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        **{f"{name}_s": round(value, 5) for name, value in medians.items()},
        "ratio": round(medians["numba"] / medians["native"], 2),
        "equal_bits": all(np.array_equal(native[key].view(np.uint32), numba[key].view(np.uint32)) for key in native),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    kernels = backend.kernels()[0]
    made = {name: measure(graph, options.rounds, options.threads) for name, graph in programs().items()}
    print(json.dumps({"kernels": kernels, "threads": options.threads, **made}, indent=2))


if __name__ == "__main__":
    main()
