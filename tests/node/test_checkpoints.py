"""The checkpoint that a round starts from: what its pointer and the chain say, and nothing else, or a refusal that says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from node import tasks
from node.compute.programs import Tensors
from node.compute.training import root_of
from node.errors import BadInputs, FalseCheckpoint, Withheld
from node.inputs.checkpoints import fetch_checkpoint, fetch_pointer
from node.inputs.programs import fetch_programs
from repops.files import parse_state, state_bytes
from tests.support.small_job import SmallJob, publish
from zoo_compute.errors import Retryable
from zoo_compute.formats.aggregation import Aggregation
from zoo_compute.formats.bundles import Pointer
from zoo_compute.formats.manifest import JobError
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.training.outer_optimizers import OUTER
from zoo_compute.training.rounds import checkpoint_shares


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return publish(tmp_path)


def test_run_shard__checkpoint_of_another_round_or_root__is_refused(job: SmallJob) -> None:
    made = job.advance()
    good = job.base | {"slot": 0}
    with pytest.raises(BadInputs, match="expected job 1, round 0"):
        tasks.run_shard(good | {"start_root": "44" * 32}, job.store)
    with pytest.raises(BadInputs, match="expected job 2"):
        tasks.run_shard(good | {"job": 2}, job.store)
    honest = fetch_pointer(job.store, made["pointer"])
    lie = Pointer(1, 0, job.manifest.state.cid, honest.root, 0b111)  # another file under the same root
    with pytest.raises(BadInputs, match="its root is"):
        tasks.run_shard(good | {"checkpoint": job.store.add(lie.to_bytes())}, job.store)
    for junk in (b"", b"{}", b"[1]", honest.to_bytes() + b" "):
        with pytest.raises(BadInputs, match="checkpoint pointer"):
            tasks.run_shard(good | {"checkpoint": job.store.add(junk)}, job.store)


def test_run_shard__checkpoint_of_other_tensors__is_its_authors_lie_and_tried_again(job: SmallJob) -> None:
    made = job.advance()
    honest = fetch_pointer(job.store, made["pointer"])
    state = parse_state(job.store.read(honest.state, max_bytes=2**30))
    name = min(state)
    for other in ({name: state[name]}, state | {name: state[name].reshape(-1)[:1].copy()}, {}):
        root = root_of(other)
        pointer = Pointer(1, 0, job.store.add(state_bytes(other)), root, 0b111)
        changes = {"checkpoint": job.store.add(pointer.to_bytes()), "start_root": root.hex(), "slot": 0}
        with pytest.raises(FalseCheckpoint, match="this program's tensors") as refused:
            tasks.run_shard(job.base | changes, job.store)
        assert isinstance(refused.value, Retryable)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_job__does_not_begin_with_a_weight_that_is_not_finite(job: SmallJob, tmp_path: Path, value: float) -> None:
    weights = parse_state(job.store.read(job.manifest.state.cid, max_bytes=2**30))
    name = job.programs.graph.exchanged[-1]
    weights[name] = weights[name].copy()
    weights[name].reshape(-1)[-1] = value  # of a token, perhaps, that no text has: its loss is as good as before
    tensors = {each: array for each, array in weights.items() if not each.startswith(OUTER)}
    with pytest.raises(JobError, match=f"NaN or an infinity in '{name}'"):
        publish(tmp_path / "again", weights=tensors)


def test_a_checkpoint_of_several_aggregators__has_each_ones_tensors_in_its_own_share(job: SmallJob) -> None:
    manifest = replace(job.manifest, aggregation=Aggregation(aggregators=2), redundancy=3)
    step = fetch_programs(job.store, manifest).graph
    whole = parse_state(job.store.read(job.manifest.state.cid, max_bytes=2**30))
    first, second = ({n: whole[n] for n in names} for names in checkpoint_shares(step, manifest.aggregation_spec))

    def fetched(*shares: dict[str, np.ndarray]) -> Tensors:
        roots = [root_of(share) for share in shares]
        cids = [job.store.add(state_bytes(share)) for share in shares]
        made = [Pointer(1, 0, cid, root, 0b11).to_bytes() for cid, root in zip(cids, roots, strict=True)]
        pointers = [job.store.add(pointer) for pointer in made]
        return fetch_checkpoint(job.store, manifest, step, 1, 1, pointers, root_of_shares(roots))

    got = fetched(first, second)
    assert {name: array.tobytes() for name, array in got.items()} == {n: a.tobytes() for n, a in whole.items()}
    name = min(second)
    with pytest.raises(FalseCheckpoint, match="the share of aggregator 1 does not hold"):
        fetched(first | {name: second[name]}, second)
    with pytest.raises(FalseCheckpoint, match="the share of aggregator 2 does not hold"):
        fetched(first, {n: a for n, a in second.items() if n != name})
    with pytest.raises(Withheld, match="missing key 'version'"):
        fetch_checkpoint(job.store, manifest, step, 1, 1, [job.store.add(b"{}"), job.store.add(b"[]")], bytes(32))
