"""Times what a program costs on this machine: a step, a step's trace, the dearest opening of it. Run as a child process.

    python -m node.measurement.child FOLDER DEVICE THREADS PARTS [LIMIT [STATE_FOLDER]]

FOLDER has the program, one array an entry of the state, and the batch (`write_inputs`). Without torch, which takes seconds to
load, unless the device is several ranks. Answers as node/measurement/limited_process.py asks.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from node.disputes.element_words import leaf_hashes, words_of_parts
from node.measurement.dearest import dearest_nodes, describe
from repops import backend, encoding, streaming
from repops.commitments import Array, canonical, state_root_of, tensor_roots
from repops.graph import OPTIMIZER, Graph
from repops.hashing import StateHasher
from repops.merkle import Tree
from repops.plan.memory import Arena
from zoo_compute.training.rounds import begin

REPEATS = 3  # of what is short: the quickest counts, since others use the machine too
SHORT_S = 1.0
PROGRAM = "program.repops"


def write_inputs(folder: Path, graph: Graph, checkpoint: Mapping[str, Array], batch: Mapping[str, Array]) -> None:
    (folder / PROGRAM).write_bytes(encoding.encode(graph))
    for number, entry in enumerate(graph.state):
        if entry.kind != OPTIMIZER:
            np.save(folder / f"state-{number}.npy", checkpoint[entry.name])
    for number, (name, _) in enumerate(graph.batch):
        np.save(folder / f"batch-{number}.npy", batch[name])


def input_bytes(graph: Graph) -> int:
    """About the size of what `write_inputs` writes."""
    inputs = {entry.before for entry in graph.state if entry.kind != OPTIMIZER} | {at for _, at in graph.batch}
    constants = sum(map(len, graph.constants.values()))
    return constants + sum(4 * graph.nodes[at].elements + 256 for at in inputs) + 256 * len(graph.nodes)


def measure(
    folder: Path, device: str, threads: int, parts: int = 1, limit: int | None = None, files: Path | None = None
) -> dict[str, Any]:
    """parts: micro-batches of a step. limit: bytes of its values. files: a folder for those of the state. Answers seconds of a step, of a state's root, of a trace and of the dearest opening; `opening` says which node that is."""
    report(doing="loading the program")
    graph = encoding.decode((folder / PROGRAM).read_bytes())
    state = {
        entry.name: np.load(folder / f"state-{number}.npy", mmap_mode="r")
        for number, entry in enumerate(graph.state)
        if entry.kind != OPTIMIZER
    }
    batch = {name: np.load(folder / f"batch-{number}.npy") for number, (name, _) in enumerate(graph.batch)}
    report(doing="planning a step")
    runner, prepare, close = _runners(graph, device, threads, parts, limit, files)
    try:
        begin(graph, runner.state, state)
        report(doing="a step")
        runner.step(batch, threads=threads)
        step_s = _seconds(partial(runner.step, batch, threads=threads))
        report(doing="the root of a state")
        root_s = _seconds(partial(_root, graph, runner, threads))
        before = _copied(runner.state, files)
    finally:
        close()
    del runner, state  # whose memory the trace needs
    report(doing="the trace of a step")
    values = partial(streaming.values, graph, before, batch, prepare=prepare, threads=threads)
    trace_s = _seconds(lambda: _trace(values(), threads))
    openings = {}
    for node in dearest_nodes(graph):
        report(doing=f"the opening of {describe(graph, node)}")
        openings[node] = _seconds(partial(_open, graph, node, values))
    dearest = max(openings, key=openings.__getitem__, default=None)
    return {
        "step_s": step_s,
        "root_s": root_s,
        "trace_s": trace_s,
        "opening_s": openings[dearest] if dearest is not None else 0.0,
        "opening": describe(graph, dearest) if dearest is not None else "",
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def _runners(
    graph: Graph, device: str, threads: int, parts: int, limit: int | None, files: Path | None
) -> tuple[Any, streaming.Prepare, Callable[[], None]]:
    """What runs a step, what traces its pieces, and what ends the first."""
    kind, _, number = device.partition(":")
    if kind == "cuda":
        from repops.cuda import driver
        from repops.cuda.runner import CudaRunner

        gpu = driver.gpu(int(number or 0))
        return CudaRunner(graph, gpu, fused=True), lambda cut: CudaRunner(cut, gpu, fused=True), lambda: None
    if kind == "cpu":
        return backend.prepare(graph, memory=limit, folder=files), backend.prepare, lambda: None
    from node.device import parse_layout
    from node.hardware import use_threads
    from node.parallel.programs import RankedPrograms

    layout = parse_layout(device)
    assert layout is not None, f"{device}: a CPU, a GPU or ranks"
    use_threads(threads)
    ranked = RankedPrograms(graph, layout, parts)
    return ranked.step, backend.prepare, ranked.close


def _copied(state: Mapping[str, Array], files: Path | None) -> dict[str, Array]:
    if files is None:
        return {name: np.array(array) for name, array in state.items()}
    out = {}
    for name, array in state.items():
        out[name] = Arena(array.nbytes, files).array(0, array.dtype, array.shape)
        out[name][...] = array
    return out


def _root(graph: Graph, runner: Any, threads: int) -> bytes:
    if hasattr(runner, "tensor_roots"):  # ranks hash what they have
        return state_root_of(runner.tensor_roots())
    hasher = StateHasher(graph)
    root = hasher.root(runner.state, threads=threads)
    hasher.release()
    return root


def _trace(values: Iterator[tuple[int, Array]], threads: int) -> None:
    """As `node.disputes.computation.Computation.trace`."""
    for _, value in values:
        tensor_roots({"": value}, threads=threads)


def _open(graph: Graph, node: int, values: Callable[..., Iterator[tuple[int, Array]]]) -> None:
    """The leaves of a node's tensor and of those that it reads, and the parts of its last element."""
    wanted = {node, *(operand.node for operand in graph.nodes[node].operands)}
    tensors = {at: np.array(value) for at, value in values(wanted=sorted(wanted)) if at in wanted}
    for value in tensors.values():
        Tree(leaf_hashes(canonical(value).tobytes()))
    words_of_parts(graph, node, graph.nodes[node].elements - 1, tensors)


def _seconds(work: Callable[[], Any]) -> float:
    taken: list[float] = []
    while len(taken) < REPEATS and sum(taken) < SHORT_S:
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def report(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def main(arguments: list[str]) -> int:
    folder, device, threads, parts, *rest = arguments
    limit, files = (int(rest[0]) if rest else None), (Path(rest[1]) if rest[1:] else None)
    try:
        report(answer=measure(Path(folder), device, int(threads), int(parts), limit, files))
    except MemoryError:
        report(out_of_memory=True)
        return 1
    except RuntimeError as error:
        if type(error).__name__ == "OutOfMemory":  # repops.cuda.driver's, which only a GPU loads
            report(out_of_memory=True)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
