"""The most memory that each kind of work takes in a worker's process, beside what it cannot do without.

    python -m benchmarks.arithmetic.worker_memory [--model llama-42m] [--layers N] [--slots 3] [--json]

Publishes a job of a built-in model in a store of its own, then runs one slot-round, the aggregation of all slots and a verification,
each in a fresh process. `held`: parameters, moments and a step's activations. `peak`: the process's resident set at its largest, less
that of the same process before the work.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from node import tasks
from node.inputs import bundles
from repops.profile import profile
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.files import publish_files
from zoo_compute.models.presets import MODELS
from zoo_compute.store import BlockStore
from zoo_compute.training.examples import prepare_text
from zoo_compute.training.work_root import work_of

MB = 1e6
CONTEXT = 32
OPERATOR = 7
TEXT = bytes(range(32, 127)) * 400


def publish(
    store: BlockStore, sizes: dict[str, Any], slots: int, keep: int | None
) -> tuple[dict[str, Any], dict[str, float]]:
    """What every request of round 0 carries, and the bytes that the job's parts have."""
    training = {
        "batch_size": 1,
        "inner_steps": 2,
        "segment_steps": 2,
        "rounds": 1,
        "slots": slots,
        "learning_rate": 1e-4,
    }
    compression = None if keep is None else {"keep": keep, "bits": 2}
    rule = {"rule": "mean"}
    job = ComputeJob(
        sizes | {"context": CONTEXT}, {}, training, "100", compression_config=compression, aggregation_config=rule
    )  # fmt: skip
    data = prepare_text(TEXT, CONTEXT, 0, wanted=job.examples_wanted, minimum=job.examples_per_round, heldout=8)
    manifest = publish_files(job, data, store)
    graph = job.traced.graph
    measured = profile(graph)
    request = {
        "job": 1, "manifest": store.add(manifest.to_bytes()), "round": 0, "checkpoint": None, "start_root": manifest.state.root,
        "work_root": work_of(manifest, graph).root.hex(), "data_root": manifest.data.root, "flops": manifest.flops,
        "terms": {"rounds": 1, "slots": slots},
    }  # fmt: skip
    return request, {
        "parameters": 4 * measured.parameters / MB,
        "held": (measured.state_bytes + measured.activation_bytes) / MB,
    }


def _peak(work: str, folder: str, request: Mapping[str, Any], sender: Any) -> None:
    store = BlockStore(Path(folder))
    before = _largest_kb()
    answer = getattr(tasks, work)(dict(request), store)
    sender.send((answer, 1024 * (_largest_kb() - before) / MB))


def _largest_kb() -> int:
    """Of this program: `getrusage` also counts the one that started it."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1])


def peak(work: str, folder: Path, request: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """The answer of a task, and the megabytes by which it raised its process's largest resident set."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_peak, args=(work, str(folder), request, sender))
    process.start()
    sender.close()
    result: tuple[dict[str, Any], float] = receiver.recv()
    process.join()
    return result


def measure(model: str, slots: int, keep: int | None, layers: int | None = None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "store"
        request, sizes = publish(
            BlockStore(folder), MODELS[model].sizes | ({"layers": layers} if layers else {}), slots, keep
        )
        results, peaks = [], dict[str, float]()
        for slot in range(slots):
            report, used = peak("run_shard", folder, request | {"slot": slot})
            peaks["training"] = max(used, peaks.get("training", 0.0))
            results.append(bundles.result_of(json.loads(json.dumps(report))))
        bundle = BlockStore(folder).add(bundles.bundle_bytes(1, 0, OPERATOR, results))
        commit = {
            "bundle": bundle, "root": bundles.round_root(results).hex(), "operator": OPERATOR, "slots": list(range(slots)),
            "start_root": request["start_root"],
        }  # fmt: skip
        _, peaks["aggregation"] = peak("run_aggregation", folder, request | {"bundles": [commit]})
        verified, peaks["verification"] = peak("run_verification", folder, request | commit | {"slot": 0})
        assert verified["agrees"]
    ratios = {f"{name}_over_held": round(used / sizes["held"], 3) for name, used in peaks.items()}
    return {"model": model, "slots": slots, "keep": keep, **sizes, "peaks": peaks, **ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="llama-42m", choices=sorted(MODELS))
    parser.add_argument("--layers", type=int, help="in place of the model's own")
    parser.add_argument("--slots", type=int, default=3)
    parser.add_argument("--keep", type=int, help="elements of a chunk that updates send; by default all")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    measured = measure(options.model, options.slots, options.keep, options.layers)
    if options.json:
        print(json.dumps(measured))
        return
    print(
        f"{options.model}: parameters {measured['parameters']:,.0f} MB, with moments and activations {measured['held']:,.0f} MB"
    )
    for name, used in measured["peaks"].items():
        print(f"{name:13} {used:8,.0f} MB, {measured[f'{name}_over_held']:.2f} of what it must hold")


if __name__ == "__main__":
    main()
