"""A slot-round: H inner steps from a checkpoint on the slot's data, with a root of the state every segment."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from node.compute.programs import Programs, State, Tensors
from node.hardware import threads
from repops import commitments
from zoo_compute.formats.manifest import Manifest
from zoo_compute.training.examples import ExampleRows, Examples, batch_of
from zoo_compute.training.heldout import heldout_batches
from zoo_compute.training.rounds import private
from zoo_compute.training.shares import SharedCheckpoint, SharedRoots

PROBE_BATCHES = 4  # batches of a probe
Progress = Callable[[int, float], None]  # inner steps done, loss of the last one


@dataclass(frozen=True)
class ShardResult:
    """What a slot-round made. update: all that `update_root` is of; private: what the slot's next round may begin with, empty
    where the job carries nothing. losses: one an inner step, NaN for a step that was skipped; seconds: in inner steps."""

    round: int
    slot: int
    update: State
    losses: list[float]
    start_root: bytes
    segments: list[tuple[int, bytes]]
    segment_root: bytes
    end_root: bytes
    update_root: bytes
    seconds: float
    private: State = field(default_factory=dict)

    @property
    def skipped(self) -> int:
        """Steps that left the state as it was: not finite, or an index out of range."""
        return sum(math.isnan(loss) for loss in self.losses)


def root_of(state: Tensors) -> bytes:
    if isinstance(state, SharedCheckpoint):
        return SharedRoots(tuple(commitments.tensor_roots(share, threads=threads()) for share in state.shares)).root
    return commitments.state_root(state, threads=threads())


def train_shard(
    manifest: Manifest,
    programs: Programs,
    checkpoint: Tensors,
    examples: ExampleRows,
    round: int,
    slot: int,
    *,
    progress: Progress | None = None,
    carried: State | None = None,
    start_root: bytes | None = None,
) -> ShardResult:
    """Train slot `slot` of round `round` from `checkpoint` (the module's tensors and outer momentum).

    carried: the private state that the round before left, where the slot goes on with it.
    start_root: the checkpoint's root, when the caller has checked it already.
    """
    state = programs.begin(checkpoint, manifest.draw_seed(round, slot), carried)
    boundaries, segments = set(manifest.segments()), [(0, programs.state_root())]
    losses, seconds = [], 0.0
    for step in range(manifest.inner_steps):
        batch = batch_of(examples, manifest.examples_for(round, slot, step), manifest.accumulate)
        began = time.perf_counter()
        loss, taken = programs.advance(batch)
        seconds += time.perf_counter() - began
        losses.append(loss if taken else math.nan)
        if step + 1 in boundaries:
            segments.append((step + 1, programs.state_root()))
        if progress is not None:
            progress(step + 1, losses[-1])
    programs.rest()
    update = programs.update(manifest.compression, checkpoint, state)
    return ShardResult(
        round=round,
        slot=slot,
        update=update,
        losses=losses,
        start_root=start_root or root_of(checkpoint),
        segments=segments,
        segment_root=commitments.segment_root(segments),
        end_root=segments[-1][1],
        update_root=root_of(update),
        seconds=seconds,
        private=carried_state(manifest, programs, state, update),
    )


def carried_state(manifest: Manifest, programs: Programs, end: State, update: State) -> State:
    """What the next round of a slot begins with that ended so: residuals from its update, all else from its end."""
    if manifest.carry == 1:
        return {}
    return {name: update[name] if name in update else end[name].copy() for name in private(programs.graph)}


def heldout_loss(manifest: Manifest, programs: Programs, checkpoint: Tensors, heldout: Examples) -> float:
    """Mean loss of a checkpoint over the held-out examples, in whole batches; what is left over is left out."""
    programs.begin(checkpoint)
    batches = heldout_batches(manifest, heldout)
    return sum(programs.loss(batch_of(heldout, index, manifest.accumulate)) for index in batches) / len(batches)


def probe_losses(
    manifest: Manifest,
    programs: Programs,
    checkpoint: Tensors,
    heldout: Examples,
    round: int,
    updates: Mapping[int, Tensors],
) -> tuple[float, dict[int, float]]:
    """The loss on a few held-out batches, others each round: of the checkpoint, and by slot with that slot's update alone."""
    every = heldout_batches(manifest, heldout)
    chosen = [every[at % len(every)] for at in range(round * PROBE_BATCHES, (round + 1) * PROBE_BATCHES)][: len(every)]
    batches = [batch_of(heldout, index, manifest.accumulate) for index in chosen]

    def loss(state: Tensors) -> float:
        programs.begin(state)
        return sum(programs.loss(batch) for batch in batches) / len(batches)

    with np.errstate(invalid="ignore", over="ignore"):  # a stranger's update may overflow; its loss then says so
        after = {
            slot: loss({**checkpoint, **{name: checkpoint[name] - values for name, values in update.items()}})
            for slot, update in updates.items()
        }
    return loss(checkpoint), after
