"""What a program costs on this machine: measured in a child process, and kept, so that neither a restart nor another job of the
same program measures it again.

A machine that was busy with something else measures too slowly. Where a job would be refused for that, the program is measured again,
and the quickest time counts: after a pause as long as the measurement was, or half a minute, then four times as long each time, up to a
day. A program that needed more memory or disk than it may have is left alone for a day.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from node.backends import next_kernels
from node.conformance import device_facts, kept_record
from node.device import MEMORY_SHARE, memory
from node.errors import ChildDied, OverLimit
from node.hardware import CPU, device_named, threads
from node.measurement.child import input_bytes, write_inputs
from node.measurement.limited_process import Limits, run_limited
from repops import backend
from repops.commitments import Array
from repops.graph import Graph
from zoo_compute import paths
from zoo_compute.atomic import write_atomically
from zoo_compute.store.durable_files import locked

log = logging.getLogger("zoo.node")

MOST_S = 600.0  # of a measurement: a stranger's program keeps a worker from paid work no longer
LEAST_S = 60.0  # where a job's clocks are shorter: a machine shared with others starts a process slowly
DISK_BYTES = 2**30  # beside the inputs
FIRST_PAUSE_S, LONGEST_PAUSE_S = 30.0, 86_400.0  # from a measurement to the next one of the same program
PAUSE_GROWTH = 4
KEPT = 1_000  # records


@dataclass(frozen=True)
class StepCost:
    """Seconds of a step, of a state's root, of a step's trace, and of the dearest opening in it; `opening` says which node that is.

    kernels: those that computed it. peak_bytes: of the process that measured. measured_at, again_at: when it was measured last, and
    when it may be measured again if a job is refused for it, in seconds since 1970.
    """

    step_s: float
    root_s: float
    trace_s: float
    opening_s: float
    opening: str
    kernels: str
    peak_bytes: int
    measured_at: float = 0.0
    again_at: float = 0.0

    def quickest(self, other: StepCost) -> StepCost:
        """The shortest times of both, unless other kernels took them. other: the one that was measured later."""
        if self.kernels != other.kernels:
            return other
        opened = min(self, other, key=lambda each: each.opening_s)
        return replace(
            other,
            step_s=min(self.step_s, other.step_s),
            root_s=min(self.root_s, other.root_s),
            trace_s=min(self.trace_s, other.trace_s),
            opening_s=opened.opening_s,
            opening=opened.opening,
            peak_bytes=max(self.peak_bytes, other.peak_bytes),
        )


@dataclass(frozen=True)
class MeasuredProgram:
    """What is measured. cid: of the program's file; device: `cpu`, `cuda:1` or ranks such as `data:2`; parts: micro-batches.

    limit: bytes of a step's values, if some are computed again; folder: of files for the state (node/compute/memory_choice.py).
    """

    cid: str
    graph: Graph
    device: str
    parts: int
    limit: int | None = None
    folder: Path | None = None


def limits_for(program: MeasuredProgram, clocks_s: float) -> Limits:
    """clocks_s: what the job gives for a slot-round and its re-execution together. What takes longer could not be defended."""
    wall_s, inputs = min(MOST_S, max(LEAST_S, clocks_s)), input_bytes(program.graph)
    return Limits(
        wall_s=wall_s,
        cpu_s=wall_s * (os.cpu_count() or 1),
        memory_bytes=_memory_bytes(program, inputs),
        disk_bytes=inputs + DISK_BYTES,
        file_bytes=inputs + _state_bytes(program.graph) if program.folder else 0,
        caps_addresses=not program.device.startswith("cuda"),
    )


def _memory_bytes(program: MeasuredProgram, inputs: int) -> int:
    """What the machine has for it. With pages of files, which count as the process's though the system may take them: the inputs, the state,
    and the one that it starts from. All of the memory where no smaller plan was possible (node/compute/memory_choice.py).
    """
    total = memory(CPU)[1]
    if program.folder is None:
        return int(MEMORY_SHARE * total)
    return total + inputs + 2 * _state_bytes(program.graph)


def _state_bytes(graph: Graph) -> int:
    return 4 * sum(graph.nodes[entry.before].elements for entry in graph.state)


def step_cost(
    program: MeasuredProgram,
    checkpoint: Mapping[str, Array],
    batch: Mapping[str, Array],
    limits: Limits,
    *,
    too_slow_at: float | None = None,
) -> StepCost:
    """The kept cost, else one that is measured now. Raises OverLimit, ChildDied, Interrupted, NoBackend.

    too_slow_at: `measured_at` of a cost for which a job is refused: what was measured no later is measured again.
    """
    path, facts = _record(program)
    path.parent.mkdir(parents=True, exist_ok=True)
    # One measurement at a time on a machine: several at once slow each other down, and keepers of one machine share the record.
    with locked(path.parent / "lock", fcntl.LOCK_EX):
        known = kept_record(path, facts)
        before = StepCost(**known["cost"]) if "cost" in known else None
        if before is not None and (too_slow_at is None or before.measured_at > too_slow_at):
            return before
        if "over" in known and time.time() < known["until"]:
            limit, message = known["over"]
            raise OverLimit(limit, message, known["until"])
        times, began = known.get("times", 0) + 1, time.time()
        try:
            cost = _measure(program, checkpoint, batch, limits)
        except OverLimit as error:
            error.again_at = _again_at(began, times) if error.limit == "time" else began + LONGEST_PAUSE_S
            if before is None or error.limit != "time":
                over = {"over": [error.limit, str(error)], "until": error.again_at}
                _write(path, {"facts": facts, "times": times, **over})
                raise
            cost = before  # it was quicker once
        except ChildDied as error:
            if before is None:
                raise
            log.warning("a measurement %s; what was measured before counts", error)
            cost = before
        cost = replace(cost, measured_at=time.time(), again_at=_again_at(began, times))
        if before is not None:
            cost = before.quickest(cost)
        _write(path, {"facts": facts, "times": times, "cost": asdict(cost)})
        return cost


def _again_at(began: float, times: int) -> float:
    """When a program may be measured again. began: when it was measured last; times: how often it was."""
    now = time.time()
    first_s = max(FIRST_PAUSE_S, now - began)
    return now + min(LONGEST_PAUSE_S, first_s * float(PAUSE_GROWTH ** min(times - 1, 20)))


def _measure(
    program: MeasuredProgram, checkpoint: Mapping[str, Array], batch: Mapping[str, Array], limits: Limits
) -> StepCost:
    """On the best kernels with which the child ends well."""
    device = program.device
    how = [] if program.limit is None else [str(program.limit), *([str(program.folder)] if program.folder else [])]
    kernels = device if device.startswith("cuda") else backend.current()
    while True:
        try:
            with backend.using(None if kernels.startswith("cuda") else kernels):
                answer = run_limited(
                    [
                        sys.executable,
                        "-m",
                        "node.measurement.child",
                        ".",
                        device,
                        str(threads()),
                        str(program.parts),
                        *how,
                    ],
                    limits,
                    fill=lambda folder: write_inputs(folder, program.graph, checkpoint, batch),
                    environment={"PYTHONPATH": _python_path(), "PYTHONDONTWRITEBYTECODE": "1"},
                )
            return StepCost(kernels=kernels, **answer)
        except ChildDied as error:
            try:
                kernels = next_kernels(kernels)
            except backend.NoBackend:
                raise error from None
            log.warning("a measurement %s; it is done again on %s", error, kernels)
            device = "cpu" if device.startswith("cuda") else device


def _python_path() -> str:
    root = str(Path(str(resources.files("repops"))).parent)
    return os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))


def _record(program: MeasuredProgram) -> tuple[Path, dict[str, Any]]:
    """The file of a measurement, and what the measurement depends on."""
    is_gpu = program.device.startswith("cuda")
    facts = {
        "program": program.cid,
        "device": program.device,
        "threads": threads(),
        **device_facts(device_named(program.device) if is_gpu else CPU),
        **({} if program.limit is None else {"limit": program.limit, "in_files": program.folder is not None}),
    }
    name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
    return paths.home() / "costs" / f"{name}.json", facts


def _write(path: Path, record: dict[str, Any]) -> None:
    """A record that cannot be written costs the next start a measurement, and nothing else."""
    try:
        write_atomically(path, json.dumps(record, indent=1).encode() + b"\n", mode=0o644)
        for old in sorted(path.parent.glob("*.json"), key=lambda each: each.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be written: %s", path, error)
