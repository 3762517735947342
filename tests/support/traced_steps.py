"""The step of a built-in model is traced once a process: it takes a second, and dozens of jobs in tests have the same model.

A trace is kept by everything that it depends on, so a job that differs in any of it is traced anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from repops.commitments import Array
from zoo_compute.jobs import config
from zoo_compute.jobs.model_source import ModelSource
from zoo_compute.jobs.traced_step import StepOptions, TracedStep, trace_module

_kept: dict[object, TracedStep] = {}


def remember() -> None:
    """From here on every `ComputeJob` of this process takes its trace from here."""
    config.trace_module = traced


def traced(
    source: ModelSource, batch: tuple[Array, Array], rule: StepOptions, *, seed: int, directory: Path
) -> TracedStep:
    if not source.built_in:
        return trace_module(source, batch, rule, seed=seed, directory=directory)
    words = [(array.shape, array.dtype.str, array.tobytes()) for array in batch]
    key = (json.dumps([source.function, source.options], sort_keys=True), *words, rule, seed)
    if key not in _kept:
        _kept[key] = trace_module(source, batch, rule, seed=seed, directory=directory)
    return _kept[key]
