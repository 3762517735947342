"""A slot-round: H inner steps from a checkpoint on the slot's data, with a root of the state every segment."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from node.device import reproducible
from repops import commitments
from repops.commitments import Array
from repops.program import NonFiniteStep, Program, State
from zoo_compute.manifest import Manifest
from zoo_compute.publish import OUTER

Progress = Callable[[int, float], None]  # inner steps done, loss of the last one


@dataclass(frozen=True)
class ShardResult:
    """What a slot-round made. losses: one an inner step, NaN for a step that was skipped; seconds: in inner steps."""

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

    def with_update(self, update: State) -> ShardResult:
        """The same result with another update, rooted as it is."""
        return replace(self, update=update, update_root=root_of(update))


def arrays_of(state: State) -> dict[str, Array]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in state.items()}


def tensors_of(arrays: dict[str, Array], device: torch.device | str = "cpu") -> State:
    """Tensors in torch's own memory: a matrix library's bits may depend on the alignment."""
    return {name: torch.from_numpy(array).clone().to(device) for name, array in arrays.items()}


def root_of(state: State) -> bytes:
    return commitments.state_root(arrays_of(state))


def parameters_of(checkpoint: State) -> State:
    """The parameters of a checkpoint: all but the outer momentum."""
    return {name: value for name, value in checkpoint.items() if not name.startswith(OUTER)}


def train_shard(
    manifest: Manifest,
    program: Program,
    checkpoint: State,
    examples: Tensor,
    round: int,
    slot: int,
    *,
    progress: Progress | None = None,
    start_root: bytes | None = None,
    device: torch.device | None = None,
) -> ShardResult:
    """Train slot `slot` of round `round` from `checkpoint` (parameters and outer momentum).

    examples: (E, T+1) integers. start_root: the checkpoint's root, when the caller has checked it already.
    An inner step that turns non-finite leaves the state as it was, and training goes on (PROTOCOL.md, section 6).
    """
    device = device or next(iter(checkpoint.values())).device
    start = parameters_of(checkpoint)
    state = program.begin({name: value.to(device) for name, value in start.items()})
    boundaries, segments = set(manifest.segments()), [(0, root_of(state))]
    losses, seconds = [], 0.0
    with reproducible(device):
        for step in range(manifest.inner_steps):
            batch = examples[torch.from_numpy(manifest.examples_for(round, slot, step))]
            began = time.perf_counter()
            state, loss = _stepped(program, state, batch)
            seconds += time.perf_counter() - began
            losses.append(loss)
            if step + 1 in boundaries:
                segments.append((step + 1, root_of(state)))
            if progress is not None:
                progress(step + 1, loss)
    local = {name: state[name].cpu() for name in start}
    update = {name: value.cpu() - local[name] for name, value in start.items()}
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
    )


def _stepped(program: Program, state: State, batch: Tensor) -> tuple[State, float]:
    try:
        state, loss = program.step(state, batch)
    except NonFiniteStep:
        return state, math.nan
    return state, loss.item()
