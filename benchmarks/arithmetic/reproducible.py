"""The measurements of benchmarks/repops.py."""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import repops
from benchmarks.arithmetic.models import LLAMA, MEDIUM, SMALL, TINY, Size, Task, digits, language
from repops.backend import prepare
from repops.batches import named_arrays

SCRIPT = Path(__file__).parents[1] / "repops.py"
Figures = dict[str, Any]
SEGMENT = 10  # steps between committed states
BIT_STEPS = 200


def interleaved(timed: dict[str, Callable[[], object]], rounds: int, repeats: int) -> dict[str, list[float]]:
    """Median seconds of each in every round, interleaved, so that disturbances of the machine affect all alike."""
    for run in timed.values():
        run()
        run()
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, run in timed.items():
            run()
            taken = []
            for _ in range(repeats):
                began = time.perf_counter()
                run()
                taken.append(time.perf_counter() - began)
            seconds[name].append(statistics.median(taken))
    return seconds


def ratio(upper: list[float], lower: list[float]) -> float:
    """Median of the rounds' ratios: the clock of a shared machine drifts by more than what is compared."""
    return statistics.median(a / b for a, b in zip(upper, lower, strict=True))


def product(a: torch.Tensor, b: torch.Tensor, threads: int) -> Callable[[], object]:
    """The kernels' matrix product of two square tensors, into memory of its own."""
    from repops import native
    from repops.plan.items import Gemm

    n, c = len(a), torch.empty_like(a)
    gemm = Gemm(batches=1, M=n, N=n, K=n, a=a.data_ptr(), b=b.data_ptr(), c=c.data_ptr())
    for side in "abc":
        setattr(gemm, f"{side}_row_stride", n)
        setattr(gemm, f"{side}_col_stride", 1)
    run = native.load().repops_gemm
    operands = (a, b, c)
    return lambda: (run(ctypes.byref(gemm), threads), operands)


def matmuls(threads: int) -> Figures:
    figures = {}
    for n in (1024, 2048):
        a, b = torch.randn(n, n), torch.randn(n, n)
        timed: dict[str, Callable[[], object]] = {"torch": partial(torch.mm, a, b), "own": product(a, b, threads)}
        taken = interleaved(timed, 60 if n == 1024 else 24, 3)
        figures[f"matmul_{n}"] = ratio(taken["torch"], taken["own"])
    return figures


def eager(task: Task) -> Callable[[], object]:
    """A step as torch's users write it."""
    module, optimizer = task.start(0)
    inputs, targets = task.batch(0)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        task.loss(module(inputs), targets).backward()
        optimizer.step()

    return step


def compiled(task: Task) -> Callable[[], object]:
    module, optimizer = task.start(0)
    inputs, targets = task.batch(0)
    forward = torch.compile(lambda: task.loss(module(inputs), targets))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        forward().backward()
        optimizer.step()

    return step


def traced(task: Task, seed: int = 0) -> tuple[repops.Program, repops.State]:
    module, optimizer = task.start(seed)
    program = repops.trace(module, task.loss, optimizer, task.batch(0))
    return program, program.initial_state(module)


def own(task: Task) -> Callable[[], object]:
    program, state = traced(task)
    batch, current = task.batch(0), [state]

    def step() -> None:
        current[0], _ = program.step(current[0], batch)

    return step


def steps(name: str, size: Size, rounds: int, repeats: int, with_compile: bool) -> Figures:
    task = language(name, size)
    timed = {"own": own(task), "eager": eager(task), "sdpa": eager(language(name, size.with_sdpa()))}
    if with_compile:
        timed["compiled"] = compiled(task)
    taken = interleaved(timed, rounds, repeats)
    figures = {
        f"step_{name}": ratio(taken["own"], taken["eager"]),
        f"step_{name}_ms": 1e3 * statistics.median(taken["own"]),
    }
    return figures | {
        f"step_{name}_{peer}": ratio(taken["own"], taken[peer]) for peer in ("sdpa", "compiled") if peer in taken
    }


def torch_losses(task: Task, seed: int, threads: int, count: int, *, is_nudged: bool = False) -> np.ndarray:
    """torch's loss at every step; nudged: from weights that are each the next float32 up."""
    torch.set_num_threads(threads)
    module, optimizer = task.start(seed)
    if is_nudged:
        with torch.no_grad():
            for weights in module.parameters():
                weights.copy_(torch.nextafter(weights, torch.tensor(torch.inf)))
    losses = []
    for step in range(count):
        inputs, targets = task.batch(step)
        optimizer.zero_grad()
        loss = task.loss(module(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def own_losses(task: Task, seed: int, count: int) -> np.ndarray:
    program, state = traced(task, seed)
    losses = []
    for step in range(count):
        state, loss = program.step(state, task.batch(step))
        losses.append(loss.item())
    return np.array(losses)


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """Relative difference of the mean loss over the last fifth of the steps."""
    last = len(b) // 5
    return float(abs(a[-last:].mean() - b[-last:].mean()) / abs(b[-last:].mean()))


def loss_gaps(count: int, seeds: int) -> Figures:
    figures: Figures = {}
    for task in (language("gpt", SMALL), language("llama", LLAMA), digits()):
        peers = {}
        for seed in range(seeds):
            print(f"loss: {task.name}, torch, seed {seed}", file=sys.stderr, flush=True)
            peers[seed] = [torch_losses(task, seed, threads, count) for threads in (1, 2)]
        figures[f"loss_gap_{task.name}"] = gap(own_losses(task, 0, count), peers[0][0])
        figures[f"loss_gap_torch_{task.name}"] = max(gap(two, one) for one, two in peers.values())
        figures[f"loss_gap_ulp_{task.name}"] = gap(torch_losses(task, 0, 1, count, is_nudged=True), peers[0][0])
    names = ("gpt", "llama", "digits")
    figures["loss_gap"] = max(figures[f"loss_gap_{name}"] for name in names)
    figures["loss_gap_within"] = all(
        figures[f"loss_gap_{name}"] <= max(figures[f"loss_gap_torch_{name}"], 1e-5) for name in names
    )
    return figures


def commit_overhead(threads: int) -> Figures:
    """The state's root at every segment of SEGMENT steps, over the steps' time; 0.9M and 13M parameters."""
    from repops.hashing import StateHasher

    figures = {}
    for name, size in (("gpt_small", SMALL), ("gpt_13m", MEDIUM)):
        program, state = traced(language(name, size))
        batch = language(name, size).batch(0)
        hasher = StateHasher(program.graph)
        stepping, hashing = [], []
        for _ in range(4 if size is MEDIUM else 12):
            began = time.perf_counter()
            for _ in range(SEGMENT):
                state, _loss = program.step(state, batch)
            middle = time.perf_counter()
            hasher.root(program.runner.state, threads=threads)
            stepping.append(middle - began)
            hashing.append(time.perf_counter() - middle)
        figures[f"commit_overhead_{name}"] = statistics.median(hashing) / statistics.median(stepping)
    figures["commit_overhead"] = max(figures.values())
    return figures


def peak_memory() -> Figures:
    """Peak memory that 13M steps add to a process, each measured in its own process."""
    own_bytes, eager_bytes = (int(child("--memory", which)) for which in ("own", "eager"))
    return {"peak_memory_13m": own_bytes / eager_bytes, "peak_memory_13m_mb": own_bytes / 1e6}


def memory_of(which: str) -> int:
    """This process's peak memory, less its memory before any tensor of the model existed."""
    torch.set_num_threads(1)
    task = language("gpt_13m", MEDIUM)
    if which == "own":
        path = Path(os.environ["REPOPS_PROGRAM"])
        before = resident()
        runner = repops.load(path).runner
        arrays = np.load(path.with_suffix(".npz"))
        for name in arrays.files:
            runner.state[name][...] = arrays[name]
        batch = named_arrays(task.batch(0))

        def run() -> None:
            runner.step(batch)
    else:
        before = resident()
        run = eager(task)  # type: ignore[assignment]
    for _ in range(3):
        run()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def child(*arguments: str, **environment: str) -> str:
    completed = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode:
        raise RuntimeError(f"{' '.join(arguments)} with {environment} failed:\n{completed.stderr}")
    return completed.stdout.strip()


def bits() -> Figures:
    """The state's hash after BIT_STEPS steps of a tiny GPT, in one process per way of running it."""
    from repops.native import available

    ways = [
        dict(REPOPS_ISA=isa, REPOPS_THREADS=str(threads), REPOPS_FUSED=str(fused))
        for isa in available()
        for threads in (1, 2)
        for fused in (1, 0)
    ]
    ways += [ways[0]] * 2 + [dict(REPOPS_BACKEND="numba")]
    hashes = {}
    for at, way in enumerate(ways):
        print(f"bits: {at + 1} of {len(ways)}: {way}", file=sys.stderr, flush=True)
        hashes[f"{at} {json.dumps(way)}"] = child("--hash", **way)
    return {"bits": sorted(set(hashes.values())), "bits_equal": len(set(hashes.values())) == 1, "bits_ways": len(ways)}


def hash_here() -> str:
    task = language("gpt", TINY)
    program, state = traced(task)
    runner = prepare(program.graph, fused=os.environ.get("REPOPS_FUSED", "1") == "1")
    for name, tensor in state.items():
        runner.state[name][...] = tensor.numpy()
    threads = int(os.environ.get("REPOPS_THREADS", "1"))
    torch.set_num_threads(threads)
    names = [name for name, _ in program.graph.batch]
    for step in range(BIT_STEPS):
        batch = dict(zip(names, (t.to(torch.int32).numpy() for t in task.batch(step)), strict=True))
        runner.step(batch, threads=threads)
    return hashlib.sha256(b"".join(runner.state[n].tobytes() for n in sorted(runner.state))).hexdigest()[:16]


PARTS = ("matmul", "step", "loss", "commit", "memory", "bits")


def measure(parts: list[str], options: argparse.Namespace) -> Figures:
    figures: Figures = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        suffix = "" if threads == 1 else "_2t"
        results: Figures = {}
        if "matmul" in parts:
            results |= matmuls(threads)
        if "step" in parts:
            results |= steps("gpt_small", SMALL, 20, 5, not options.no_compile)
            results |= steps("gpt_13m", MEDIUM, 5, 2, not options.no_compile)
        if "commit" in parts:
            results |= commit_overhead(threads)
        figures |= {key + suffix: value for key, value in results.items()}
    torch.set_num_threads(1)
    if "loss" in parts:
        figures |= loss_gaps(options.steps, options.seeds)
    if "memory" in parts:
        figures |= with_program_file(peak_memory)
    if "bits" in parts:
        figures |= bits()
    return figures


def with_program_file(measure_: Callable[[], Figures]) -> Figures:
    """Run with the 13M program and its initial tensors in files, so that a child need not trace."""
    with tempfile.TemporaryDirectory() as folder:
        program, state = traced(language("gpt_13m", MEDIUM))
        path = Path(folder) / "program"
        repops.save(program, path)
        np.savez(path.with_suffix(".npz"), **{name: state[name].numpy() for name in program.exchanged})
        os.environ["REPOPS_PROGRAM"] = str(path)
        try:
            return measure_()
        finally:
            del os.environ["REPOPS_PROGRAM"]


def main(about: str) -> int:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure: {', '.join(PARTS)} (default all)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--steps", type=int, default=500, help="steps of the loss comparison (default 500)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of torch's own gap (default 5)")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--memory", choices=("own", "eager"), help=argparse.SUPPRESS)
    parser.add_argument("--hash", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(memory_of(options.memory))
        return 0
    if options.hash:
        print(hash_here())
        return 0
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {sorted(unknown)[0]!r}; expected some of {', '.join(PARTS)}")
    figures = measure(options.parts or list(PARTS), options)
    figures |= {"torch": torch.__version__, "machine": platform.machine(), "cpu": cpu_name()}
    if options.json:
        print(json.dumps(figures))
        return 0
    for key, value in figures.items():
        print(f"{key:<32} {value:.4g}" if isinstance(value, float) else f"{key:<32} {value}")
    return 0


def cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
