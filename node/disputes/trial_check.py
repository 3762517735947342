"""The check of an answered trial by another node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.admission import benchmark
from node.admission.trial import LoadedWorkload
from node.compute.programs import Programs
from node.device import as_node_memory_errors, computes_on, pick_device
from node.disputes.player import TRIAL_DISPUTE
from node.inputs.fetching import root_from_hex
from zoo_compute.spec import merkle
from zoo_compute.spec.frames import EMPTY
from zoo_compute.store.interface import Store


def run_trial_check(request: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """Run an answered trial again. Answers `agrees`, None where its workload is not this installation's benchmark; and `dispute`.

    request: job (0), trial (roots of program and start, seed), steps, root (the claim's).
    """
    program_root, state_root, seed = map(bytes.fromhex, request["trial"])
    answer: dict[str, Any] = {"job": request["job"]}
    if program_root.hex() != benchmark.PROGRAM_ROOT:
        return {**answer, "agrees": None, "message": f"its program {program_root.hex()} is not this installation's"}
    programs = Programs(benchmark.fixed_program(), computes_on(pick_device(request.get("device"))))
    with as_node_memory_errors(programs.profile, programs.device):
        segments = LoadedWorkload(programs, program_root, state_root).run(seed, request["steps"])
    root = merkle.result_root(0, state_root, segments, EMPTY, EMPTY)
    if root == root_from_hex(request["root"]):
        return {**answer, "agrees": True}
    message = f"the root of its steps is {root.hex()}, claimed was {request['root']}"
    return {**answer, "agrees": False, "message": message, "dispute": TRIAL_DISPUTE}
