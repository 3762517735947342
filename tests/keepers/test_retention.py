"""The keeper's lane for what is kept: whom it asks, when it fetches, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.config import from_dict
from keepers.services import retention
from keepers.services.disk_space import DiskSpace
from keepers.services.retention import AT_ONCE, Retention
from tests.client.test_results import TERMS
from tests.keepers.test_retention_decisions import LATE, closed, job
from tests.support.small_job import publish
from zoo_compute.chain.views import JobView
from zoo_compute.formats.aggregation import NO_OUTER, OuterOptimizer
from zoo_compute.formats.bundles import Pointer
from zoo_compute.formats.tags import job_tag, round_tag
from zoo_compute.paths import DRAINING
from zoo_compute.spec.params import PRODUCTION
from zoo_compute.store import BlockStore, Gateway, digest_of, raw_cid

JOB = 5  # of the views
FORGOTTEN = 99  # a job that was over before this keeper began
CLOSED, CLOSED_AT = 6, LATE - 1_000  # the block in which the job was closed, and its time
ME, OTHER, AGGREGATOR = 1, 2, 9  # who has claims in them


class Lane:
    """An operator's lane; `keeping` says who keeps every checkpoint, `leaving` who asked for its exit."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.author = publish(folder, rounds=8)
        self.others = self.author.store
        self.gateway = Gateway(self.others).start()
        self.store = BlockStore(folder / "mine", [self.gateway.url])
        self.folder = folder / "keeper"
        self.folder.mkdir()
        config = from_dict({"name": "k", "network": "n", "operator": ME}, self.folder)
        self.now, self.finished, self.released, self.mine = LATE, set[int](), list[int](), {JOB}
        events = SimpleNamespace(
            is_mine=lambda job: job in self.mine,
            is_finished=lambda job: job in self.finished,
            is_forgotten=lambda job: job == FORGOTTEN,
            release=self.released.append,
        )
        chain: Any = SimpleNamespace(
            head=lambda number=7: SimpleNamespace(number=number, timestamp=CLOSED_AT if number == CLOSED else self.now),
            time=lambda head: LATE,
            event_store=events,
            network=SimpleNamespace(params=PRODUCTION),
        )
        self.space = DiskSpace(config, self.store)
        self.lane = Retention(config, chain, self.store, self.space)
        self.urls = {operator: f"http://host{operator}:1" for operator in (ME, OTHER, AGGREGATOR)}
        self.lane.endpoints = self.urls
        self.keeping, self.leaving, self.asked = set[int](), set[int](), list[str]()
        monkeypatch.setattr(retention, "confirmed", self._confirmed)
        monkeypatch.setattr(retention, "read_all", self._read)

    def _confirmed(self, cids: list[str], urls: Any, *scope: Any) -> set[str]:
        self.asked.append(cids[0])
        return {self.urls[operator] for operator in self.keeping}

    def _read(self, chain: Any, block: int, reads: Any) -> list[dict[str, int]]:
        return [{"stake": 1, "exit_at": int(read.args[0] in self.leaving)} for read in reads]

    def of(self, view: JobView, state: bytes | None = None) -> JobView:
        """The view, with this job's manifest and checkpoints that the others keep, of this state (its initial one)."""
        cid = self.others.add(state) if state is not None else self.author.manifest.state.cid
        roots = view.checkpoint_roots
        digests = {
            n: (digest_of(self.others.add(Pointer(JOB, n - 1, cid, root, 1).to_bytes())),)
            for n, root in roots.items()
            if n
        }
        manifest = replace(self.author.manifest, keep_every=3)
        self.others.add(manifest.to_bytes())
        return replace(view, terms=replace(TERMS, manifest=manifest.digest), checkpoint_cids=digests)

    def poll_once(self, view: JobView, times: int = 1) -> set[str]:
        """What is pinned after so many looks."""
        self.lane.record(view)
        for _ in range(times):
            self.lane.poll_once()
        return self.store.pins()


@pytest.fixture
def lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Lane(tmp_path, monkeypatch)
    yield made
    made.gateway.stop()


def pointers(view: JobView, *numbers: int) -> set[str]:
    return {raw_cid(cid) for number in numbers for cid in view.checkpoint_cids[number]}


def test_who_is_left__fetches_at_the_second_look_what_outlives_the_job(lane: Lane, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    lane.leaving = {OTHER, AGGREGATOR}
    view = lane.of(closed(8))
    assert lane.poll_once(view) == set()
    assert lane.poll_once(view) == pointers(view, 3, 6, 8) | {lane.author.manifest.state.cid}
    assert all(lane.store.is_pinned(cid, tag=job_tag(JOB)) for cid in lane.store.pins())
    assert "checkpoint 8, which 0 of 2 stores kept, is here now" in caplog.text


def test_the_newest_final_checkpoint__is_fetched_for_its_round_alone(lane: Lane):
    lane.leaving = {OTHER, AGGREGATOR}
    view = lane.of(job(6, 5))
    lane.poll_once(view, 2)
    (newest,) = pointers(view, 5)
    assert lane.store.is_pinned(newest, tag=round_tag(JOB, 5))
    assert not lane.store.is_pinned(newest, tag=job_tag(JOB))
    assert {newest} | pointers(view, 3) == lane.store.pins() - {lane.author.manifest.state.cid}


def test_with_stores_enough__nobody_fetches(lane: Lane):
    lane.leaving, lane.keeping = {OTHER, AGGREGATOR}, {OTHER, AGGREGATOR}
    assert lane.poll_once(lane.of(closed(8)), 5) == set()
    lane.keeping = {OTHER}
    assert lane.poll_once(lane.of(closed(8)), 1) == set(), "short for the first time"


def test_a_shortage_that_is_over__begins_anew(lane: Lane):
    view = lane.of(closed(8))
    lane.leaving, lane.keeping = {OTHER, AGGREGATOR}, {OTHER}
    lane.poll_once(view)
    lane.keeping = {OTHER, AGGREGATOR}
    lane.poll_once(view)
    lane.keeping = {OTHER}
    assert lane.poll_once(view) == set()


def test_where_others_are_named_first__one_more_is_named_at_every_look(lane: Lane, monkeypatch: pytest.MonkeyPatch):
    counts: list[int] = []

    def named(job: int, count: int, domains: dict[int, int], keeping: set[int]) -> tuple[int, ...]:
        counts.append(count)
        return (OTHER, ME)[:count]

    monkeypatch.setattr(retention, "repairers", named)
    lane.keeping = {AGGREGATOR}
    view = lane.of(closed(2))
    assert lane.poll_once(view, 2) == set()
    assert lane.poll_once(view) == pointers(view, 2) | {lane.author.manifest.state.cid}
    assert counts == [1, 2]


def test_who_drains__and_who_took_no_part__fetches_nothing(lane: Lane):
    lane.leaving = {OTHER, AGGREGATOR}
    view = lane.of(closed(8))
    strangers = replace(view, commits=[c for c in view.commits if c.operator != ME])
    assert lane.poll_once(strangers, 3) == set()
    assert lane.asked == []
    assert lane.poll_once(replace(strangers, bidders=frozenset({ME})), 1) == set()
    assert lane.asked != [], "who bid for it may be needed"
    lane.leaving = {ME}
    assert lane.poll_once(view, 3) == set()
    lane.leaving = {OTHER, AGGREGATOR}
    (lane.folder / DRAINING).touch()
    assert lane.poll_once(view, 3) == set()


def test_a_file_larger_than_a_checkpoint_can_be__is_not_fetched(lane: Lane, caplog: pytest.LogCaptureFixture):
    lane.leaving = {OTHER, AGGREGATOR}
    view = lane.of(closed(2), bytes(2**22))
    assert lane.poll_once(view, 3) == set()
    assert "more than the" in caplog.text


def test_what_is_no_pointer__keeps_nothing_else_from_being_fetched(lane: Lane):
    lane.leaving = {OTHER, AGGREGATOR}
    view = lane.of(closed(8))
    bad = {**view.checkpoint_cids, 8: (digest_of(lane.others.add(b"no pointer")),)}
    bad[6] = (digest_of(lane.others.add(Pointer(JOB, 5, "no CID", bytes(32), 1).to_bytes())),)
    assert lane.poll_once(replace(view, checkpoint_cids=bad), 2) & lane.others.pins() >= pointers(view, 3)


def test_a_look__asks_for_the_newest_and_for_others_in_turn(lane: Lane):
    view = lane.of(closed(8))
    kept = list(range(1, 31))
    first = list(lane.lane._asked(view, kept))
    assert first == [8, *[n for n in kept if n != 8][:AT_ONCE]]
    seen = set(first)
    for _ in range(4):
        lane.lane._looks += 1
        seen |= set(lane.lane._asked(view, kept))
    assert seen == set(kept)
    assert list(lane.lane._asked(view, [8])) == [8]
    assert list(lane.lane._asked(lane.of(job(2, 0)), [])) == []


# -- what goes


def tagged(lane: Lane, *rounds: int) -> dict[int, str]:
    return {each: lane.store.add(b"round %d" % each, tag=round_tag(JOB, each)) for each in rounds}


def test_rounds_that_no_claim_needs__go__and_nothing_of_jobs_that_were_not_seen(lane: Lane):
    files = tagged(lane, 1, 2, 3, 4)
    other = lane.store.add(b"round 1", tag=round_tag(JOB + 1, 1))
    mine = lane.store.add(b"round 2")
    lane.poll_once(lane.of(job(6, 4)))
    assert other == files[1]
    assert lane.store.tags() == {round_tag(JOB, 3), round_tag(JOB, 4), round_tag(JOB + 1, 1)}
    assert lane.store.pins() == {other, mine, files[3], files[4]}


@pytest.mark.parametrize("takes_part", [True, False])
def test_a_map_s_rounds__are_its_results__and_stay_with_who_took_part(lane: Lane, takes_part: bool):
    manifest = lane.author.manifest
    outer = OuterOptimizer(1.0, 0.0, NO_OUTER)
    lane.author.manifest = replace(manifest, outer=outer, heldout=None, quorum=manifest.slots, policy="roll back")
    if not takes_part:
        lane.lane._config = replace(lane.lane._config, operator=77)
    tagged(lane, 1, 2, 3, 4)
    lane.poll_once(lane.of(job(6, 4)))
    kept = (1, 2, 3, 4) if takes_part else (3, 4)
    assert lane.store.tags() == {round_tag(JOB, each) for each in kept}


def test_a_job_whose_manifest_cannot_be_had__keeps_everything(lane: Lane, caplog: pytest.LogCaptureFixture):
    tagged(lane, 1)
    other = lane.store.add(b"x", tag=round_tag(JOB + 1, 0))
    view = lane.of(closed(8))
    lane.lane.record(replace(view, terms=replace(TERMS, manifest=b"\1" * 32)))
    lane.poll_once(replace(view, job=JOB + 1))
    assert lane.store.tags() == {round_tag(JOB, 1)}
    assert not lane.store.has(other), "the other job's go"
    assert "nothing is let go" in caplog.text


def test_what_outlives_its_round__is_pinned_for_the_job_before_the_round_goes(lane: Lane):
    view = lane.of(closed(8))
    for number in (2, 3):
        for cid in (*pointers(view, number), lane.author.manifest.state.cid):
            lane.store.pin(cid, tag=round_tag(JOB, number))
    assert lane.poll_once(view) == pointers(view, 3) | {lane.author.manifest.state.cid}
    assert lane.store.tags() == {job_tag(JOB)}


def test_of_a_delayed_job__a_round_s_tag_has_the_checkpoint_before_it_too(lane: Lane):
    lane.author.manifest = replace(lane.author.manifest, delay=1)
    view = lane.of(closed(8))
    for cid in (*pointers(view, 3), lane.author.manifest.state.cid):
        lane.store.pin(cid, tag=round_tag(JOB, 4))
    assert lane.poll_once(view) == pointers(view, 3) | {lane.author.manifest.state.cid}


def test_a_verifier_without_an_operator__keeps_nothing(lane: Lane):
    lane.lane._config = replace(lane.lane._config, operator=0, roles=("verifier",))
    view = lane.of(closed(8))
    for cid in (*pointers(view, 3), lane.author.manifest.state.cid):
        lane.store.pin(cid, tag=round_tag(JOB, 3))
    assert lane.poll_once(view, 3) == set()


# -- the end of what is kept with a job


def kept_for_the_job(lane: Lane) -> JobView:
    """A closed job of this operator, whose keeper has finished it, with files of its own."""
    lane.finished = {JOB}
    lane.store.add(b"manifest", tag=job_tag(JOB))
    lane.store.add(b"manifest")  # the operator's own pin, of the same content
    lane.store.add(b"data", tag=job_tag(JOB))
    lane.keeping = {OTHER, AGGREGATOR}
    return replace(lane.of(closed(8)), closed_block=CLOSED)


def test_a_job_s_files__go_keep_days_after_it_was_closed__and_what_the_operator_pinned_stays(lane: Lane):
    view = kept_for_the_job(lane)
    lane.now = CLOSED_AT + 30 * 86_400
    lane.poll_once(view)
    assert lane.store.tags() == {job_tag(JOB)}
    assert lane.released == []
    lane.now += 1
    assert lane.poll_once(view) == {raw_cid(digest_of(lane.others.add(b"manifest")))}
    assert lane.store.tags() == set()
    assert lane.released == [JOB], "its events may go too"
    assert lane.lane._views == {}, "nothing of it stays in memory"
    assert lane.lane._manifests == {}
    asked = len(lane.asked)
    lane.lane.poll_once()
    assert len(lane.asked) == asked, "nobody is asked for it any more"


def test_a_job_that_the_keeper_has_not_finished__keeps_its_files_however_old_it_is(lane: Lane):
    view = kept_for_the_job(lane)
    lane.finished = set()
    lane.now = CLOSED_AT + 10**9
    lane.poll_once(view)
    assert lane.store.tags() == {job_tag(JOB)}


def test_a_claim_that_is_not_final__keeps_the_job_s_files_however_old_it_is(lane: Lane):
    view = kept_for_the_job(lane)
    lane.now = CLOSED_AT + 10**9
    late = [replace(c, deadline=LATE) if c.turn == 2 else c for c in view.commits]
    lane.poll_once(replace(view, commits=late))
    assert job_tag(JOB) in lane.store.tags()


def test_with_keep_days_0__a_job_s_files_stay_for_good(lane: Lane):
    view = kept_for_the_job(lane)
    lane.lane._config = replace(lane.lane._config, keep_days=0)
    lane.now = CLOSED_AT + 10**9
    lane.poll_once(view)
    assert lane.store.tags() == {job_tag(JOB)}


def test_who_took_no_part__keeps_nothing_once_the_job_is_finished(lane: Lane):
    view = kept_for_the_job(lane)
    lane.poll_once(replace(view, commits=[c for c in view.commits if c.operator != ME]))
    assert lane.store.tags() == set()


def test_of_a_job_that_was_over_before_the_keeper_began__nothing_stays(lane: Lane):
    lane.store.add(b"x", tag=job_tag(FORGOTTEN))
    lane.store.add(b"y", tag=round_tag(FORGOTTEN, 3))
    lane.store.add(b"z", tag=job_tag(FORGOTTEN + 1))
    lane.lane.poll_once()
    assert lane.store.tags() == {job_tag(FORGOTTEN + 1)}, "of the other one nothing is known"


def test_what_is_kept_for_days__takes_little_memory_and_is_still_repaired(lane: Lane):
    view = kept_for_the_job(lane)
    lane.leaving, lane.keeping = {OTHER, AGGREGATOR}, set()
    assert lane.poll_once(view, 3) >= pointers(view, 3, 6, 8)
    assert lane.lane._views[JOB].commits == ()
