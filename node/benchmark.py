"""Which class of GPU this is, and how fast it trains: `python -m node.benchmark [--json]`, and at admission.

The class is read off the device's name and memory. The figures are measured on one fixed program.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import asdict, dataclass

import torch

from node.device import GB, memory, memory_errors_told, pick, reproducible
from node.errors import NodeError, NoDevice
from node.training import root_of
from repops.program import Program, ProgramSpec, build
from zoo_compute import gpu
from zoo_compute.errors import UserError
from zoo_compute.spec.params import GpuClass

SPEC = {
    "architecture": {"name": "gpt", "vocab": 256, "context": 128, "layers": 4, "heads": 4, "width": 256},
    "optimizer": {"name": "adamw", "learning_rate": 1e-3},
    "batch_size": 8,
}


@dataclass(frozen=True)
class Benchmark:
    """gpu_class, class_id: None where the network has no class for the device (the CPU, too little memory).

    step_s: median of the timed steps; flops_per_s: of the fixed program; root: of its state after them, which tells
    machines apart that would not train the same bits.
    """

    device: str
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
        return gpu.fitting(gpu.APPLE, round(vram_gb))
    if kind != "cuda":
        return None
    try:
        found = gpu.class_of(name)
    except UserError:
        found = gpu.CONSUMER
    return gpu.fitting(gpu.CONSUMER if found is gpu.APPLE else found, round(vram_gb))


def run(device_name: str | None = None, *, steps: int = 10, devnet: bool = False) -> Benchmark:
    """Time `steps` steps. Raises NoDevice where there is only a CPU, unless `devnet` says that it may serve."""
    device = pick(device_name)
    if device.type == "cpu" and not devnet:
        raise NoDevice(
            "this machine has no GPU that torch can use; a CPU may serve a devnet only",
            hint="install a torch build for your GPU, or pass --devnet",
        )
    name, total = _describe(device)
    gpu_class = classify(name, total / GB, device.type)
    program = build(ProgramSpec.from_dict(SPEC))
    step_s, root = _timed(program, device, steps)
    return Benchmark(
        device=str(device),
        name=name,
        gpu_class=gpu_class.name if gpu_class else None,
        class_id=gpu_class.id if gpu_class else None,
        vram_gb=0 if device.type == "cpu" else round(total / GB),
        cpu_cores=os.cpu_count() or 1,
        memory_gb=round(memory(torch.device("cpu"))[1] / GB),
        torch=torch.__version__,
        steps=steps,
        step_s=step_s,
        flops_per_s=program.profile.flops / step_s,
        root=root.hex(),
        note="CPU: devnet only, no GPU class" if device.type == "cpu" else "",
    )


def _describe(device: torch.device) -> tuple[str, int]:
    """Name and bytes of memory."""
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        return found.name, int(found.total_memory)
    return ("Apple silicon" if device.type == "mps" else "CPU"), memory(device)[1]


def _timed(program: Program, device: torch.device, steps: int) -> tuple[float, bytes]:
    """Median seconds of a step, after two that warm up, and the root of the last state."""
    generator = torch.Generator(device="cpu").manual_seed(1)
    batch = torch.randint(0, 256, (program.spec.batch_size, program.config.context + 1), generator=generator)
    with memory_errors_told(program.profile, device), reproducible(device):
        state = program.begin({n: v.to(device) for n, v in program.initial_state(1).items()})
        times = []
        for _ in range(steps + 2):
            began = time.perf_counter()
            state, _ = program.step(state, batch)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            times.append(time.perf_counter() - began)
    return statistics.median(times[2:]), root_of(state)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="node.benchmark", description="GPU class and training speed of this machine")
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
