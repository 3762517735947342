"""A delayed job's slots start one checkpoint behind the newest, and a round waits for no seat that nobody holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keepers.decisions.duties import duties
from keepers.decisions.orders import NEWEST_CHECKPOINT, Aggregate, DemandChunk, MissingData, Progress, Train
from keepers.decisions.requests import (
    aggregate_name,
    aggregate_request,
    prepare_name,
    train_name,
    train_request,
    verify_request,
)
from keepers.queue.work_queue import WorkStatus
from keepers.services.precompute import Speculation, unknown_checkpoint, with_checkpoint
from keepers.services.progress import progress_of
from node import tasks
from node.errors import BadInputs
from node.replay import simulate
from tests.keepers.test_carried_requests import SLOT, commit, made, root, seen
from tests.keepers.test_demands import THE_PROVIDER, demanded
from tests.keepers.test_duties import (
    CHAIR,
    ME,
    ME_AGGREGATOR,
    ME_PROVIDER,
    OPENED,
    OTHERS,
    RUN,
    SEAT,
    SLOT_S,
    TERMS,
    WHOLE,
    chaired,
    view,
)
from tests.keepers.test_precompute import Told
from tests.keepers.test_progress import Queue
from tests.support.small_job import publish
from tests.training.test_compression import files_of, job_of
from zoo_compute.chain.views import AGGREGATOR_SEAT, JobView
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import raw_cid


def test_delayed__trains_the_next_turn_behind_the_open_one__or_once_all_is_committed():
    delayed = {"terms": replace(TERMS, policy=2), "seats": {0: SEAT}}
    both = [Train(0), Train(1), Train(0, ahead=True), Train(1, ahead=True)]
    assert duties(view(1_001, **delayed), ME_PROVIDER, Progress(10)) == both
    assert duties(view(1_001, **delayed), ME_PROVIDER, Progress(10, carries_state=True)) == both[:2]
    assert duties(view(1_001, **delayed), replace(ME_PROVIDER, busy_elsewhere_s=5.0), Progress(10)) == both[:2]
    committed = view(1_001, run=WHOLE, **delayed)
    assert duties(committed, ME_PROVIDER, Progress(10)) == [Train(0, ahead=True), Train(1, ahead=True)]
    late = replace(committed, now=OPENED + 2 * SLOT_S)
    assert duties(late, ME_PROVIDER, Progress(10)) == [Train(0, ahead=True), Train(1, ahead=True)]
    assert duties(replace(committed, terms=TERMS), ME_PROVIDER, Progress(10)) == []
    last = replace(committed, run=replace(WHOLE, round=3))
    assert duties(last, ME_PROVIDER, Progress(10)) == []


def test_with_its_quorum__a_seat_that_nobody_holds_is_not_waited_for():
    run = replace(RUN, missing=0b10, committed=4)
    vacant = view(1_001, run=run, seats={0: SEAT, 1: replace(OTHERS, operator=0), AGGREGATOR_SEAT: CHAIR})
    assert Aggregate() in duties(vacant, ME_AGGREGATOR, Progress())
    short = replace(vacant, run=replace(run, committed=3))
    assert Aggregate() not in duties(short, ME_AGGREGATOR, Progress())
    waiting = view(1_001, run=run)
    assert Aggregate() not in duties(waiting, ME_AGGREGATOR, Progress())


def delayed(view: JobView, **run: Any) -> JobView:
    return replace(view, terms=replace(view.terms, policy=2), run=replace(view.run, **run))


def test_a_delayed_turn__starts_from_what_the_turn_before_did__and_is_asked_for_in_it():
    """The name under which a round is trained ahead is the one under which its turn asks for it."""
    for carry in (1, 3, 8):
        commits = [commit(turn, start_root=root(max(0, turn - 1))) for turn in range(6)]
        before = delayed(seen(commits, [made(turn) for turn in range(5)], 5), missing=0b10, committed=2)
        later = delayed(seen(commits, [made(turn) for turn in range(6)], 6))
        assert (before.slots_root, later.slots_root) == (root(4), root(5))
        assert train_name(with_checkpoint(before, unknown_checkpoint(before)), SLOT, carry) == train_name(
            later, SLOT, carry
        )
        ahead, due = (
            train_request(view, SLOT, carry) for view in (with_checkpoint(before, unknown_checkpoint(before)), later)
        )
        assert {**ahead, "asked_at": 0} == {**due, "asked_at": 0}
        assert (due["round"], due["start_root"]) == (6, root(5).hex())
        assert due["checkpoint"] == raw_cid(root(5)), "of the aggregation that made it, a round before the newest"


def test_a_delayed_turn_after_a_rollback__starts_from_the_checkpoint_itself():
    again = delayed(seen([commit(0), commit(1)], [made(0), made(1)], 2, 1))
    assert again.slots_root == root(1)
    first = delayed(seen([], [], 0))
    assert first.slots_root == root(0)
    assert train_request(first, SLOT)["checkpoint"] is None


def test_whoever_posts_a_claims_own_start_again__does_not_take_it_from_its_defence():
    """Its false claim has the root that the next slots start from, and names a file that nobody has."""
    for turn in (0, 3):
        false = replace(made(turn), root=root(turn), cid=b"\xee" * 32)
        honest = commit(turn + 1, start_root=root(turn))
        later = seen([honest], [*(made(before) for before in range(turn)), false], turn + 1)
        later = delayed(later, start_root=root(turn))
        later = replace(later, checkpoint_roots={0: root(0)})
        assert later.slots_root == root(turn)
        its_own = raw_cid(root(turn)) if turn else None
        assert train_request(later, SLOT)["checkpoint"] == its_own
        assert verify_request(later, honest, SLOT, None)["checkpoint"] == its_own
        assert aggregate_request(later, {})["checkpoint"] == its_own


def test_results_that_are_committed_again_after_a_rollback__are_combined_anew():
    """They were of another start: under the one that the chain gives them now the same root holds nothing."""
    before = delayed(seen([commit(2, start_root=root(1))], [made(0), made(1)], 2), missing=0)
    again = delayed(seen([commit(3, 2, root=before.commits[0].root)], [made(0), made(1)], 3, 2), missing=0)
    assert aggregate_name(before) != aggregate_name(again)


def test_a_round_done_again__does_not_take_the_start_from_a_claim_that_was_made_before():
    again = replace(made(1), turn=3, cid=b"\xee" * 32)
    view = seen([commit(2), commit(4, 2)], [made(0), made(1), made(2), again], 4, 2)
    first, second = (verify_request(view, claim, SLOT, None)["checkpoint"] for claim in view.commits)
    assert (first, second) == (raw_cid(root(2)), raw_cid(again.cid))


def test_a_checkpoint_nobody_serves__is_demanded_in_the_turn_before_slots_start_from_it(tmp_path: Path):
    """When their own turn begins, the claim may be final: then nothing could be demanded, and they would be late."""
    commits, checkpoints = [commit(0), commit(1, start_root=root(0))], [made(0), made(1)]
    view = delayed(seen(commits, checkpoints, 2), window_s=600, missing=0b10, committed=2)
    lacks = WorkStatus("absent", missing={"checkpoint": True, "places": [[0, None]], "asked_at": 1_055})
    work: Any = Told({train_name(with_checkpoint(view, unknown_checkpoint(view)), SLOT): lacks})
    progress = Speculation(work, BlockStore(tmp_path)).observe(view, ME, Progress())
    assert progress.missing == {NEWEST_CHECKPOINT: MissingData(1_055, {0: None})}
    assert demanded(duties(view, THE_PROVIDER, progress)) == [DemandChunk(checkpoints[1], 0, {0: None})]
    at_once = replace(view, terms=TERMS)
    assert Speculation(work, BlockStore(tmp_path)).observe(at_once, ME, Progress()).missing == {}


def test_an_aggregator_with_slots__demands_of_each_checkpoint_what_it_lacks_of_that_one():
    commits, checkpoints = [commit(0), commit(1, start_root=root(0))], [made(0), made(1)]
    view = delayed(chaired(seen(commits, checkpoints, 2), ME), window_s=600, aggregator_due=OPENED + 400)
    lacks = {"checkpoint": True, "places": [[0, None]], "asked_at": 1_055}
    prepared = {prepare_name(view): WorkStatus("done", {"slot_s": 1.0, "carry": 1})}
    work: Any = Queue(prepared | {train_name(view, SLOT): WorkStatus("absent", missing=lacks)})
    assert [duty.claim for duty in demanded(duties(view, THE_PROVIDER, progress_of(work, view, ME)))] == [made(0)]
    work = Queue(prepared | {aggregate_name(view): WorkStatus("absent", missing=lacks)})
    assert [duty.claim for duty in demanded(duties(view, THE_PROVIDER, progress_of(work, view, ME)))] == [made(1)]


def test_a_delayed_job__is_trained_from_the_checkpoint_before__and_combined_with_the_newest(tmp_path: Path) -> None:
    job = publish(tmp_path, delay=1, rounds=3)
    first = dict(job.base)
    made = job.advance()
    behind = first | {"round": 1}
    for slot in range(3):
        report = tasks.run_shard(behind | {"slot": slot}, job.store)
        assert report["start_root"] == job.manifest.state.root
        job.reports[slot] = json.loads(json.dumps(report))
    newest, job.base = job.base, behind
    job.bundles = []
    job.commit(7, [0, 1, 2])
    job.base = newest
    second = job.aggregate()
    assert second["root"] not in (made["root"], job.manifest.state.root)
    assert job.verify(1, **{name: behind[name] for name in ("checkpoint", "start_root")})["agrees"]
    # The slots of round 2 start from checkpoint 1, those of a round after a rollback from the newest.
    for start in (newest, newest | {"checkpoint": second["pointer"], "start_root": second["root"]}):
        assert tasks.run_shard(start | {"round": 2, "slot": 0}, job.store)["start_root"] == start["start_root"]
    with pytest.raises(BadInputs, match="not the manifest's initial state"):
        tasks.run_shard(first | {"round": 2, "slot": 0}, job.store)


def test_simulate__of_a_delayed_job__trains_every_round_from_the_checkpoint_before(tmp_path: Path) -> None:
    files, manifest = files_of(tmp_path, job_of(delay=1))
    run = simulate(manifest, files.programs, files.checkpoint, files.examples, files.heldout, [0b111] * 4)
    started = {result.round: result.start_root for result in run.results}
    assert [started[r] for r in range(4)] == [run.roots[0], *run.roots[:3]]
    assert len(set(run.roots)) == 5
