"""How a worker fits a job into its memory (docs/guides/hardware.md).

As it is, with values of a step computed again, or also with its state in files.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from node.device import GB, MEMORY_SHARE, memory
from node.errors import NodeOutOfMemory
from node.hardware import CPU, Device, state_folder
from repops import backend
from repops.graph import Graph
from repops.plan.fit import Fitted, Fitting, TooLarge
from repops.profile import Profile
from zoo_compute.formats.manifest import Manifest
from zoo_compute.training.memory import aggregation_bytes, kept_bytes, needed_bytes


@dataclass(frozen=True)
class MemoryChoice:
    """Bytes that the job needs without recomputation, and with what was chosen. limit: of a step's values; None: no recomputation.

    extra: work of a step that is done again, as a share of it. folder: where the state lies in a file; what is needed is then without it.
    """

    plain: int
    needed: int
    limit: int | None = None
    extra: float = 0.0
    folder: Path | None = None

    @property
    def line(self) -> str:
        """For a person; empty if the job fits as it is."""
        if self.limit is None:
            return ""
        files = f" and the state in files of {self.folder}" if self.folder else ""
        how = f"recomputation ({self.extra:.0%} slower){files}"
        return f"needs {self.plain / GB:,.1f} GB, {self.needed / GB:,.1f} GB with {how}, which this node uses"


def choose_memory(graph: Graph, profile: Profile, device: Device, *, can_recompute: bool = True) -> MemoryChoice:
    """The choice with the least work. Raises NodeOutOfMemory, which says what each choice needs."""
    total = memory(device)[1]
    plain = needed_bytes(profile)
    can_recompute = can_recompute and device.type == "cpu" and backend.current().startswith("native")
    if plain <= (MEMORY_SHARE * total if can_recompute else total):
        return MemoryChoice(plain, plain)
    why = ""
    if can_recompute:
        fitting, beside = Fitting(graph), kept_bytes(graph, profile)
        folders = dict.fromkeys((None, _folder_for(profile.state_bytes)))
        for usable, folder in product((int(MEMORY_SHARE * total), total), folders):
            kept = beside - profile.state_bytes if folder else beside
            with suppress(TooLarge):
                fitted = fitting.within(usable - kept)
                return MemoryChoice(plain, kept + fitted.size, usable - kept, fitted.extra, folder)
        why = _needs_of(fitting.least, beside, profile.state_bytes)
    raise NodeOutOfMemory(
        f"the job needs about {plain / GB:,.1f} GB{why}, this machine has {total / GB:,.1f} GB",
        hint="decline jobs of this size, or use a larger machine",
    )


def why_not_aggregate(manifest: Manifest, step: Graph) -> str:
    """Why this machine's memory does not suffice to combine a round's updates; empty if it does."""
    needed, total = aggregation_bytes(step, manifest.aggregation_spec, streamed=True), memory(CPU)[1]
    why = f"combining {manifest.slots} updates needs about {needed / GB:,.1f} GB, this machine has {total / GB:,.1f} GB"
    return why if needed > total else ""


def _folder_for(state_bytes: int) -> Path | None:
    """The folder for files of the state, if it is configured and has room."""
    folder = state_folder()
    if folder is None or shutil.disk_usage(folder).free < 2 * state_bytes:  # a measurement has two states
        return None
    return folder


def _needs_of(least: Fitted, beside: int, state_bytes: int) -> str:
    recomputed, in_files = beside + least.size, beside + least.size - state_bytes
    why = f", {recomputed / GB:,.1f} GB with recomputation ({least.extra:.0%} slower), {in_files / GB:,.1f} GB with its state in files too"
    if folder := state_folder():
        return f"{why} (they need {2 * state_bytes / GB:,.1f} GB in {folder}, where {shutil.disk_usage(folder).free / GB:,.1f} GB are free)"
    return f"{why} (state_folder)"
