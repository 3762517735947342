"""A rendering as the sections of a job."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from zoo_compute.rendering.layout import Layout
from zoo_compute.training.examples import INPUTS

MODULE = "zoo_compute.rendering.path_tracer.renderer:build"


def data_of(layout: Layout) -> dict[str, Any]:
    """`data` of a job's file."""
    return {"arrays": {INPUTS: layout.items}}


def sections_of(scene: Path, layout: Layout, slots: int) -> dict[str, Any]:
    """`model` and `map` of a job's file."""
    return {
        "model": {"module": MODULE, "scene": str(scene.expanduser().resolve()), "layout": asdict(layout)},
        "map": {"batch_size": 1, "slots": slots, "inner_steps": layout.steps(slots)},
    }
