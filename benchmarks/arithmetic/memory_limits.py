"""A step in less memory: bytes of its values and time, with some of them computed again, at several limits.

    python -m benchmarks.arithmetic.memory_limits [--steps 5 --threads 1 --json]

`values`: what a step computes, beside state, batch and constants. `again`: work done again, as the planner counts it.
`step`: processor time of one, the median of `--steps` that all limits take in turn; `time`: over that without a limit.
Every row must end in the same state.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.lab.run_parameters import parameters_of
from repops import backend
from repops.commitments import state_root_of, tensor_roots
from repops.graph import Graph
from repops.native.runner import prepare
from repops.plan.fit import Fitting
from repops.profile import profile
from zoo_compute.jobs.loading import plan_job
from zoo_compute.training.rounds import begin

MB = 1e6
SEED = 7
SHARES = (None, 0.7, 0.5, 0.0)  # of the values without a limit; 0: the least possible
SIZES = {"layers": 8, "heads": 4, "width": 256, "context": 128, "vocab": 256}
MODELS: dict[str, dict[str, Any]] = {"gpt": SIZES, "llama": {"architecture": "llama", "hidden": 704, **SIZES}}


def program(model: str, accumulate: int) -> Graph:
    training = {"learning_rate": 1e-3, "batch_size": 8, "inner_steps": 1, "rounds": 1, "slots": 1}
    job = {"model": MODELS[model], "training": training | {"accumulate": accumulate}}
    return plan_job(job, 100).job.traced.graph


def measure(graph: Graph, steps: int, threads: int) -> list[dict[str, Any]]:
    """One row a limit."""
    fitting = Fitting(graph)
    plain = fitting.plain.size
    plans = [fitting.plain if s is None else fitting.within(int(plain * s)) if s else fitting.least for s in SHARES]
    runners = [prepare(graph, memory=plan.size) for plan in plans]
    rng = np.random.default_rng(SEED)
    start = {name: rng.normal(0, 0.02, array.shape).astype(array.dtype) for name, array in runners[0].state.items()}
    batch = {name: rng.integers(0, 256, array.shape).astype(array.dtype) for name, array in runners[0].batch.items()}
    for runner in runners:
        begin(graph, runner.state, start, SEED)
    seconds: list[list[float]] = [[] for _ in runners]
    for _ in range(steps):
        for runner, each in zip(runners, seconds, strict=True):
            began = time.process_time()
            runner.step(batch, threads=threads)
            each.append(time.process_time() - began)
    roots = [state_root_of(tensor_roots(runner.state, threads=threads)).hex() for runner in runners]
    if len(set(roots)) != 1:
        raise AssertionError(f"the states differ: {roots}")
    medians = [statistics.median(each) for each in seconds]
    return [
        {
            "values": plan.size,
            "share": plan.size / plain,
            "again": plan.extra,
            "step_s": median,
            "time": median / medians[0],
        }
        for plan, median in zip(plans, medians, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    made: dict[str, dict[str, Any]] = {}
    for name in MODELS:
        for accumulate in (1, 4):
            graph = program(name, accumulate)
            made[f"{name}, {accumulate} micro-batch{'es' * (accumulate > 1)}"] = {
                "state": profile(graph).state_bytes,
                "limits": measure(graph, options.steps, options.threads),
            }
    if options.json:
        print(json.dumps({"parameters": parameters_of(options), "kernels": backend.kernels()[0], "programs": made}))
        return
    for name, each in made.items():
        print(f"{name}: {each['state'] / MB:.1f} MB of state")
        for row in each["limits"]:
            print(
                f"  values {row['values'] / MB:7.1f} MB {row['share']:4.0%}  again {row['again']:4.0%}  "
                f"step {row['step_s']:6.3f} s  time x {row['time']:.2f}"
            )


if __name__ == "__main__":
    main()
