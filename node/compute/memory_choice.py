"""How a worker fits a job into its memory: as it is, or with values of a step computed again (docs/guides/hardware.md)."""

from __future__ import annotations

from dataclasses import dataclass

from node.device import GB, MEMORY_SHARE, memory
from node.errors import NodeOutOfMemory
from node.hardware import Device
from repops import backend
from repops.graph import Graph
from repops.plan.fit import Fitting, TooLarge
from repops.profile import Profile
from zoo_compute.training.memory import fixed_bytes, needed_bytes


@dataclass(frozen=True)
class MemoryChoice:
    """Bytes that the job needs without recomputation, and with what was chosen. limit: of a step's values; None: no recomputation.

    extra: work of a step that is done again, as a share of it.
    """

    plain: int
    needed: int
    limit: int | None = None
    extra: float = 0.0

    @property
    def line(self) -> str:
        """For a person; empty without recomputation."""
        if self.limit is None:
            return ""
        return f"needs {self.plain / GB:,.1f} GB, {self.needed / GB:,.1f} GB with recomputation ({self.extra:.0%} slower), which this node uses"


def choose_memory(
    graph: Graph, profile: Profile, device: Device, data_bytes: int = 0, *, can_recompute: bool = True
) -> MemoryChoice:
    """The choice with the least work. data_bytes: of the examples. Raises NodeOutOfMemory, which says what each choice needs."""
    total = memory(device)[1]
    plain = needed_bytes(profile) + data_bytes
    can_recompute = can_recompute and device.type == "cpu" and backend.current().startswith("native")
    if plain <= (MEMORY_SHARE * total if can_recompute else total):
        return MemoryChoice(plain, plain)
    least = ""
    if can_recompute:
        fitting, beside = Fitting(graph), fixed_bytes(graph, profile) + data_bytes
        for room in (int(MEMORY_SHARE * total) - beside, total - beside):
            try:
                fitted = fitting.within(room)
            except TooLarge as error:
                least = f", {(beside + error.least) / GB:,.1f} GB with recomputation ({fitting.least.extra:.0%} slower)"
                continue
            return MemoryChoice(plain, beside + fitted.size, room, fitted.extra)
    raise NodeOutOfMemory(
        f"the job needs about {plain / GB:,.1f} GB with its data{least}, this machine has {total / GB:,.1f} GB",
        hint="decline jobs of this size, or use a larger machine",
    )
