"""Does a GPU give the CPU's bits, and how fast? Measured beside torch on the same GPU, interleaved, medians; then on the CPU.

Prints a table, and with --json one object:
  bits_operators      whether every operator gave the reference's bits; bits_wrong names those that did not
  bits_gpt            whether the state after 20 steps of the small GPT is that of the CPU backend named in bits_gpt_peer
  matmul_N            speed of the N x N x N product over cuBLAS's in float32, TF32 off (higher is better; the target is 0.8)
  matmul_N_tflops     of ours
  *_over_cpu          time over that of the CPU's kernels on all cores (lower is better)
  step_gpt_small      time of a training step over native eager torch's with fused AdamW (lower is better)
  step_gpt_13m        the same at 13M parameters; *_ms: ours
  compile_gpt_small_s seconds to compile the small GPT's kernels when nothing is cached
Where torch has no CUDA, the figures beside torch are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import repops
from benchmarks.arithmetic.models import MEDIUM, SMALL, Size, Task, language
from benchmarks.arithmetic.reproducible import product as cpu_product
from repops.backend import NoBackend, Runner, prepare
from repops.conformance.compare import bits
from repops.conformance.programs import Sample, product
from repops.cuda import plan as plans
from repops.cuda.driver import gpu
from repops.cuda.runner import Loaded
from repops.cuda.runner import prepare as prepare_cuda
from repops.operators import TABLE
from tests.support.programs.table_programs import assert_elements, table

ROOT = Path(__file__).resolve().parents[2]

Figures = dict[str, Any]
CORES = os.cpu_count() or 1


def wrong_operators(sample: Sample) -> set[str]:
    """Operators whose node differs from the reference's in a trace."""
    graph, state, batch = sample
    ours, reference = prepare_cuda(graph), prepare(graph, name="reference")
    for runner in (ours, reference):
        for name, array in state.items():
            runner.state[name][...] = array
    both = zip(graph.nodes, ours.trace(batch), reference.trace(batch), strict=True)
    return {node.op for node, a, b in both if (bits(a) != bits(b)).any()}


def operators() -> Figures:
    samples = table()
    assert {node.op for graph, _, _ in samples.values() for node in graph.nodes} == set(TABLE)
    wrong = set().union(*(wrong_operators(sample) for sample in samples.values()))
    return {"bits_operators": not wrong, "bits_wrong": sorted(wrong)}


def wait() -> None:
    """Wait until the GPU is idle."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    gpu().synchronize()


def on_cpu(run: Callable[[], object]) -> float:
    """Median seconds of three runs, after one warm-up call."""
    run()
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def interleaved(timed: dict[str, Callable[[], object]], rounds: int, repeats: int) -> dict[str, float]:
    """Median seconds of one run of each; `repeats` are queued before the GPU is waited for."""
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for turn in range(rounds + 2):
        for name, run in timed.items():
            wait()
            began = time.perf_counter()
            for _ in range(repeats):
                run()
            wait()
            if turn >= 2:
                seconds[name].append((time.perf_counter() - began) / repeats)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def matmul(n: int) -> Figures:
    graph, _, batch = product(n, n, n, "tl", batches=1)
    rng = np.random.default_rng(n)
    batch = {name: rng.standard_normal(array.shape).astype(np.float32) for name, array in batch.items()}
    device, plan = gpu(), plans.make(graph, [graph.state[0].after], fused=True, updates=False)
    memory = {at: device.memory(n * n) for _, at in graph.batch}
    for name, at in graph.batch:
        device.write(memory[at].address, batch[name].reshape(-1).view(np.uint32))
    loaded = Loaded(graph, device, plan, {at: buffer.address for at, buffer in memory.items()})
    timed: dict[str, Callable[[], object]] = {"own": loaded.run}
    if torch.cuda.is_available():
        x, y = (torch.from_numpy(batch[name][0]).cuda() for name in ("a", "b"))
        out = torch.empty(n, n, device="cuda")
        timed["torch"] = lambda: torch.mm(x, y, out=out)
    taken = interleaved(timed, 12, min(40, max(5, 40 * 1024 // n)))
    result = device.read(loaded.address(graph.state[0].after), n * n).view(np.float32)
    assert_elements(graph, batch, result, 8)
    a, b = (torch.from_numpy(batch[name][0]).contiguous() for name in ("a", "b"))
    cpu_s = on_cpu(cpu_product(a, b, CORES))
    figures = {f"matmul_{n}_tflops": 2 * n**3 / taken["own"] / 1e12, f"matmul_{n}_over_cpu": taken["own"] / cpu_s}
    if "torch" in taken:
        figures |= {
            f"matmul_{n}": taken["torch"] / taken["own"],
            f"matmul_{n}_cublas_tflops": 2 * n**3 / taken["torch"] / 1e12,
        }
    return figures


def traced(task: Task) -> tuple[repops.Program, dict[str, np.ndarray], Callable[[int], dict[str, np.ndarray]]]:
    """The program, its initial state, and the batch of each step as a runner takes it."""
    module, optimizer = task.start(0)
    program = repops.trace(module, task.loss, optimizer, task.batch(0))
    state = {name: tensor.numpy() for name, tensor in program.initial_state(module).items()}
    names = [name for name, _ in program.graph.batch]

    def batch(step: int) -> dict[str, np.ndarray]:
        return dict(zip(names, (t.to(torch.int32).numpy() for t in task.batch(step)), strict=True))

    return program, state, batch


def filled(runner: Runner, state: dict[str, np.ndarray]) -> Runner:
    for name, array in state.items():
        runner.state[name][...] = array
    return runner


def cpu(program: repops.Program) -> tuple[str, Runner]:
    for name in ("native", "numba", "reference"):
        try:
            return name, prepare(program.graph, name=name)
        except (ImportError, NoBackend, RuntimeError):
            continue
    raise NoBackend("no CPU backend to compare with")


def gpt_bits(steps: int = 20) -> Figures:
    """Every loss and the last state, bit for bit."""
    program, state, batch = traced(language("gpt_small", SMALL))
    peer, theirs = cpu(program)
    ours = prepare_cuda(program.graph)
    filled(ours, state)
    filled(theirs, state)
    equal = all(ours.step(batch(step)) == theirs.step(batch(step)) for step in range(steps))
    same = all((bits(ours.state[name]) == bits(theirs.state[name])).all() for name in state)
    return {"bits_gpt": equal and same, "bits_gpt_peer": peer}


def eager(task: Task) -> Callable[[], object]:
    module, _ = task.start(0)
    module = module.cuda()
    optimizer = torch.optim.AdamW(module.parameters(), lr=task.rate, fused=True)
    inputs, targets = (tensor.cuda() for tensor in task.batch(0))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        task.loss(module(inputs), targets).backward()
        optimizer.step()

    return step


def step(name: str, size: Size) -> Figures:
    task = language(name, size)
    program, state, batch = traced(task)
    ours, examples = filled(prepare_cuda(program.graph), state), batch(0)
    timed: dict[str, Callable[[], object]] = {"own": lambda: ours.step(examples)}
    if torch.cuda.is_available():
        timed["torch"] = eager(task)
    taken = interleaved(timed, 20, 3)
    theirs = filled(cpu(program)[1], state)
    cpu_s = on_cpu(lambda: theirs.step(examples, threads=CORES))
    figures = {f"step_{name}_ms": 1e3 * taken["own"], f"step_{name}_over_cpu": taken["own"] / cpu_s}
    return figures | ({f"step_{name}": taken["own"] / taken["torch"]} if "torch" in taken else {})


def compile_seconds() -> Figures:
    """Of what a first step waits for, in an empty cache."""
    program, state, batch = traced(language("gpt_small", SMALL))
    former = os.environ.get("REPOPS_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REPOPS_CACHE"] = folder
        began = time.perf_counter()
        filled(prepare_cuda(program.graph), state).step(batch(0))
        taken = time.perf_counter() - began
    del os.environ["REPOPS_CACHE"]
    if former is not None:
        os.environ["REPOPS_CACHE"] = former
    return {"compile_gpt_small_s": taken}


PARTS: dict[str, Callable[[], Figures]] = {
    "operators": operators,
    "matmul": lambda: matmul(1024) | matmul(2048) | matmul(4096),
    "bits": gpt_bits,
    "step": lambda: step("gpt_small", SMALL) | step("gpt_13m", MEDIUM),
    "compile": compile_seconds,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)} (default all)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {sorted(unknown)[0]!r}; expected some of {', '.join(PARTS)}")
    try:
        device = gpu()
    except NoBackend as error:
        print(f"nothing measured: {error}", file=sys.stderr)
        return 1
    torch.backends.cuda.matmul.allow_tf32 = False
    figures: Figures = {"device": device.name, "target": device.target, "torch": torch.__version__}
    for name in options.parts or PARTS:
        figures |= PARTS[name]()
    if options.json:
        print(json.dumps(figures))
        return 0
    for key, value in figures.items():
        print(f"{key:<24} {value:.4g}" if isinstance(value, float) else f"{key:<24} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
