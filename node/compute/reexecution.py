"""Re-execute a slot-round, compare every committed root, and locate the first difference."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from node.compute.programs import Programs, State, Tensors
from node.compute.training import train_shard
from zoo_compute.formats.bundles import SlotResult
from zoo_compute.formats.manifest import Manifest
from zoo_compute.training.examples import ExampleRows


@dataclass(frozen=True)
class Agreement:
    """Every root is what the re-execution gives; segments: how many were run again; states: the roots at their ends, as found."""

    segments: int
    states: tuple[bytes, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"agrees": True, "segments": self.segments}


@dataclass(frozen=True)
class Mismatch:
    """The first committed root that is wrong: `field` of the result.

    steps: the inner steps (from, to) in which it went wrong, as narrow as the commitment allows.
    tensor, element, expected, found: the first element of the update's file that differs, when it does.
    """

    segments: int
    field: str
    steps: tuple[int, int]
    tensor: str | None = None
    element: int | None = None
    expected: str | None = None
    found: str | None = None
    states: tuple[bytes, ...] = ()  # as of Agreement

    def to_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        del fields["states"]
        return {"agrees": False, **fields, "steps": list(self.steps)}

    def __str__(self) -> str:
        where = f"{self.field} differs between steps {self.steps[0]} and {self.steps[1]}"
        if self.tensor is None:
            return where
        return f"{where}; first at {self.tensor}[{self.element}]: expected {self.expected}, found {self.found}"


def verify_slot(
    manifest: Manifest,
    programs: Programs,
    checkpoint: Tensors,
    examples: ExampleRows,
    round: int,
    entry: SlotResult,
    *,
    update: Tensors | None = None,
    carried: State | None = None,
    start_root: bytes | None = None,
) -> Agreement | Mismatch:
    """Compare `entry` with a re-execution of its slot-round.

    checkpoint: what the chain recorded for the round. update: what its author sent of it, if that could be fetched.
    """
    own = train_shard(
        manifest, programs, checkpoint, examples, round, entry.slot, carried=carried, start_root=start_root
    )
    count = len(own.segments) - 1
    field = next((name for name in _FIELDS if getattr(own, name) != getattr(entry, name)), None)
    sent = {name: own.update[name] for name in programs.graph.exchanged}
    place = _first_difference(sent, update) if update is not None else None
    states = tuple(root for _, root in own.segments)
    if field is None and place is None:
        return Agreement(count, states)
    mismatch = Mismatch(count, field or "update", _steps(manifest, field), *(place or ()))
    return replace(mismatch, states=states)


_FIELDS = ("start_root", "segment_root", "end_root", "update_root")


def _steps(manifest: Manifest, field: str | None) -> tuple[int, int]:
    """A segment tree is committed by its root alone, so what went wrong inside cannot be narrowed further."""
    last = manifest.inner_steps
    if field == "start_root":
        return 0, 0
    return (
        (0, last) if field in ("segment_root", "end_root") else (last, last)
    )  # else: update is not checkpoint - local


def _first_difference(mine: Tensors, theirs: Tensors) -> tuple[str, int | None, str | None, str | None] | None:
    """The first tensor (by name) and element whose bits differ."""
    for name in sorted(mine.keys() | theirs.keys()):
        if name not in mine or name not in theirs or mine[name].shape != theirs[name].shape:
            return name, None, None, None
        a, b = (np.ascontiguousarray(x[name]).reshape(-1).view(np.uint32) for x in (mine, theirs))
        differs = np.flatnonzero(a != b)
        if len(differs):
            at = int(differs[0])
            return name, at, _text_of(a[at]), _text_of(b[at])
    return None


def _text_of(bits: np.uint32) -> str:
    return f"{bits.view(np.float32)!s} (0x{int(bits):08x})"
