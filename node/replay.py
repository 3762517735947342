"""The single-process reference: replays a whole job from its manifest and the presence masks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from node.compute.aggregation import next_checkpoint
from node.compute.programs import Programs, State, Tensors
from node.compute.training import ShardResult, heldout_loss, root_of, train_shard
from node.errors import BadInputs
from node.inputs.job_files import fetch_job
from zoo_compute.formats.manifest import Manifest
from zoo_compute.store.interface import Store
from zoo_compute.training.examples import ExampleRows, Examples


@dataclass
class Replay:
    """roots and losses: of each checkpoint, the initial one first; seconds: in inner steps."""

    state: Tensors
    roots: list[bytes]
    losses: list[float]
    seconds: float = 0.0
    results: list[ShardResult] = field(default_factory=list)


def replay(
    manifest: Manifest,
    store: Store,
    masks: Iterable[int],
    *,
    progress: Callable[[int, float], None] | None = None,
) -> Replay:
    """Train every present slot of every round in turn. masks: one presence mask per closed round, in order, each read when
    its round begins.

    progress: called with a checkpoint's number and its held-out loss.
    """
    job = fetch_job(store, manifest)
    return simulate(manifest, job.programs, job.checkpoint, job.examples, job.heldout, masks, progress=progress)


def simulate(
    manifest: Manifest,
    programs: Programs,
    checkpoint: State,
    examples: ExampleRows,
    heldout: Examples,
    masks: Iterable[int],
    *,
    progress: Callable[[int, float], None] | None = None,
) -> Replay:
    """As `replay`, from loaded content. Assumes that no slot changes its operator: a new operator's private state begins at zero."""
    run = Replay(checkpoint, [], [])
    earlier: Tensors = checkpoint  # earlier: what the last round started from
    kept = dict[int, State]()  # what each of its slots may go on with
    _record(run, heldout_loss(manifest, programs, run.state, heldout), progress)
    for round_, mask in enumerate(masks):
        if round_ == manifest.rounds:
            raise BadInputs(f"replay: more masks than the {manifest.rounds} rounds of the job")
        if not 0 < mask < 1 << manifest.slots:
            raise BadInputs(f"replay: the mask {mask:#x} of round {round_} does not fit {manifest.slots} slots")
        slots = [slot for slot in range(manifest.slots) if mask >> slot & 1]
        updates, before = dict[int, State](), kept if round_ % manifest.carry else {}
        start, root = (earlier, run.roots[-2]) if manifest.delay and round_ else (run.state, run.roots[-1])
        kept = {}
        for slot in slots:
            carried = before.get(slot)
            result = train_shard(manifest, programs, start, examples, round_, slot, carried=carried, start_root=root)
            kept[slot] = result.private
            run.seconds += result.seconds
            run.results.append(result)
            updates[slot] = {name: result.update[name] for name in programs.graph.exchanged}
        run.results = [*run.results[: -len(slots)], *(_light(result) for result in run.results[-len(slots) :])]
        earlier, run.state = run.state, next_checkpoint(manifest, programs, run.state, updates)
        _record(run, heldout_loss(manifest, programs, run.state, heldout), progress)
    return run


def _light(result: ShardResult) -> ShardResult:
    return ShardResult(**{**result.__dict__, "update": {}, "private": {}})


def _record(run: Replay, loss: float, progress: Callable[[int, float], None] | None) -> None:
    run.roots.append(root_of(run.state))
    run.losses.append(loss)
    if progress is not None:
        progress(len(run.losses) - 1, run.losses[-1])
