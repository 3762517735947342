"""Which class of GPU this is, and how fast it trains: `python -m node.admission.benchmark [--json]`, and at admission.

The class is read off the device's name and memory. The figures are measured on one fixed program, which
scripts/generate/benchmark_program.py makes; every machine ends in the same state.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from importlib.resources import files

import numpy as np

from node import conformance
from node.compute.programs import Programs, State
from node.compute.training import root_of
from node.device import GB, as_node_memory_errors, computes_on, memory, pick_device
from node.errors import NodeError, NoDevice
from node.hardware import CPU, Device, threads, torch_build
from repops import encoding
from repops.commitments import Array
from repops.graph import Graph
from zoo_compute import gpus
from zoo_compute.errors import UserError
from zoo_compute.spec.params import GpuClass

PROGRAM = "generated/benchmark.repops"
PROGRAM_ROOT = "30500eb97d5fd7de55b2d368d4947117798a61f5064880f50881926cf03a6c70"
VOCABULARY = 256
WARM_STEPS = 2


@dataclass(frozen=True)
class Benchmark:
    """gpu_class, class_id: None where the network has no class for the device (the CPU, too little memory).

    computes_on: what ran the program, `device` or the CPU; conformed: whether the device computes the CPU's bits
    (node.conformance; None for the CPU); threads: of the CPU. step_s: median of the timed steps;
    flops_per_s: of the fixed program; root: of its state after them, the same on every machine.
    """

    device: str
    computes_on: str
    conformed: bool | None
    threads: int
    name: str
    gpu_class: str | None
    class_id: int | None
    vram_gb: int
    cpu_cores: int
    memory_gb: int
    torch: str
    steps: int
    step_s: float
    flops_per_s: float
    root: str
    note: str = ""


def classify(name: str, vram_gb: float, kind: str) -> GpuClass | None:
    """The network's class for a device; None when there is none.

    The name decides, memory (as sold: in whole gigabytes) bounds. A card whose name nobody lists is a consumer's.
    """
    if kind == "mps":
        return gpus.fitting(gpus.APPLE, round(vram_gb))
    if kind != "cuda":
        return None
    try:
        gpu_class = gpus.class_of(name)
    except UserError:
        gpu_class = gpus.CONSUMER
    return gpus.fitting(gpus.CONSUMER if gpu_class is gpus.APPLE else gpu_class, round(vram_gb))


def run(device_name: str | None = None, *, steps: int = 10, devnet: bool = False) -> Benchmark:
    """Time `steps` steps. Raises NoDevice where there is only a CPU, unless `devnet` says that it may serve."""
    device = pick_device(device_name)
    if device.type == "cpu" and not devnet:
        raise NoDevice(
            "this machine has no GPU that torch can use; a CPU may serve a devnet only",
            hint="install a torch build for your GPU, or pass --devnet",
        )
    name, total = _describe(device)
    gpu_class = classify(name, total / GB, device.type)
    programs = Programs(fixed_program(), computes_on(device))
    result = None if device.type == "cpu" else conformance.kept(device)
    step_s, root = timed(programs, steps)
    return Benchmark(
        device=str(device),
        computes_on=str(programs.device),
        conformed=None if result is None else result.conformed,
        threads=threads(),
        name=name,
        gpu_class=gpu_class.name if gpu_class else None,
        class_id=gpu_class.id if gpu_class else None,
        vram_gb=0 if device.type == "cpu" else round(total / GB),
        cpu_cores=os.cpu_count() or 1,
        memory_gb=round(memory(CPU)[1] / GB),
        torch=torch_build().version,
        steps=steps,
        step_s=step_s,
        flops_per_s=programs.profile.flops / step_s,
        root=root.hex(),
        note="CPU: devnet only, no GPU class" if result is None else "" if result.conformed else result.line,
    )


def _describe(device: Device) -> tuple[str, int]:
    """Name and bytes of memory."""
    if device.type == "cuda":
        import torch

        properties = torch.cuda.get_device_properties(str(device))
        return properties.name, int(properties.total_memory)
    return ("Apple silicon" if device.type == "mps" else "CPU"), memory(device)[1]


def fixed_program() -> Graph:
    """The same for every node: a training step of a small GPT."""
    graph = encoding.decode((files("node") / PROGRAM).read_bytes())
    assert encoding.root(graph).hex() == PROGRAM_ROOT, "this installation's benchmark program was changed"
    return graph


def fixed_state(programs: Programs) -> State:
    """Weights from a counter: matrices uniform in +-1/sqrt(fan in), gains 1, biases 0."""
    state: State = {}
    for number, entry in enumerate(programs.graph.state):
        shape = programs.graph.nodes[entry.before].shape
        if len(shape) > 1:
            drawn = _scattered(number, int(np.prod(shape))).astype(np.float32) / np.float32(2**31) - np.float32(1)
            state[entry.name] = (drawn / np.sqrt(np.float32(shape[-1]))).reshape(shape)
        else:
            state[entry.name] = np.full(
                shape, float("norm" in entry.name and entry.name.endswith("weight")), np.float32
            )
    return state


def _scattered(stream: int, count: int) -> Array:
    """`count` well mixed 32-bit words: the finaliser of MurmurHash3 over a counter."""
    word = np.arange(count, dtype=np.uint32) + np.uint32(stream << 24)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        word = (word ^ (word >> np.uint32(shift))) * np.uint32(factor)
    mixed: Array = word ^ (word >> np.uint32(16))
    return mixed


def timed(programs: Programs, steps: int) -> tuple[float, bytes]:
    """Median seconds of a step, after some that warm up, and the root of the last state."""
    shapes = {name: programs.graph.nodes[at].shape for name, at in programs.graph.batch}
    count = {name: int(np.prod(shape)) for name, shape in shapes.items()}
    batch = {
        name: (_scattered(255 - at, count[name]) % np.uint32(VOCABULARY)).astype(np.int32).reshape(shapes[name])
        for at, name in enumerate(sorted(shapes))
    }
    with as_node_memory_errors(programs.profile, programs.device):
        state = programs.begin(fixed_state(programs))
        times = []
        for _ in range(steps + WARM_STEPS):
            began = time.perf_counter()
            programs.advance(batch)
            times.append(time.perf_counter() - began)
        return statistics.median(times[WARM_STEPS:]), root_of(state)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="node.admission.benchmark", description="GPU class and training speed of this machine"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:N or mps; the best there is when left out")
    parser.add_argument("--steps", type=int, default=10, help="steps to time (default 10)")
    parser.add_argument("--devnet", action="store_true", help="accept a CPU: it may serve a devnet only")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps: expected at least 1")
    try:
        result = run(options.device, steps=options.steps, devnet=options.devnet)
    except NodeError as error:
        print(f"{error}" + (f"\n{error.hint}" if error.hint else ""), file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(asdict(result)))
        return 0
    for key, value in asdict(result).items():
        print(f"{key:<12} {'-' if value in (None, '') else value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
