"""The next round begins before its checkpoint is posted, and only from what the chain will say."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import ConnectionError as BrokerGone

from keepers.decisions.duties import duties
from keepers.decisions.orders import Precompute, Progress, Train
from keepers.decisions.requests import aggregate_name, precompute_name, precompute_work, prepare_name
from keepers.processes import worker as worker_module
from keepers.processes.worker import TRAIN_TASK, bind
from keepers.queue.work_queue import WorkQueue, WorkStatus
from keepers.queue.worker_leases import WorkLog
from keepers.services import precompute as module
from keepers.services.precompute import (
    MadeShare,
    Prefetcher,
    ProvisionalCheckpoint,
    Speculation,
    provisional_checkpoint,
    with_checkpoint,
)
from keepers.services.progress import training_work
from node import tasks as worker
from tests.keepers.redis_double import Redis
from tests.keepers.test_demands import CLAIM, job
from tests.keepers.test_duties import AGGREGATOR, ME, ME_PROVIDER, OPENED, OTHER, OTHERS, ROOT, SEAT, WHOLE, chaired
from tests.keepers.test_progress import Queue
from tests.support.queue_seals import SEALS
from tests.support.small_job import SmallJob, publish
from tests.support.waiting import HANG_S, ended
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, Claim, Commit, JobView
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import digest_of, raw_cid
from zoo_compute.store.errors import StoreFull

SHARE = MadeShare(b"\7" * 32, raw_cid(b"\6" * 32))
MADE = ProvisionalCheckpoint((SHARE,))
THEIRS = replace(CLAIM, seat=1, operator=OTHER, scope=2 << 16 | 4, bundle=b"\4" * 32)
HERE = Progress(slot_s=5, should_precompute=True, local_seats=frozenset({0, 1}))


def complete(**changes: Any) -> JobView:
    return job(OPENED + 9, **{"run": WHOLE, "commits": (CLAIM, THEIRS)} | changes)


def ahead(view: JobView, progress: Progress, **me: Any) -> list[Any]:
    due = duties(view, replace(ME_PROVIDER, **me), progress)
    return [duty for duty in due if isinstance(duty, Precompute) or (isinstance(duty, Train) and duty.ahead)]


# -- what may be begun


def test_a_holder__combines_the_turns_claims_once_all_are_committed_and_here():
    assert ahead(complete(), HERE) == [Precompute()]
    assert ahead(complete(), replace(HERE, local_seats=frozenset({0}))) == []
    assert ahead(complete(run=replace(WHOLE, missing=0b10, committed=2)), HERE) == []


def test_what_would_take_more_bytes_than_the_checkpoint__is_left_to_the_aggregator():
    assert ahead(complete(), replace(HERE, should_precompute=False)) == []


def test_the_next_round_of_my_slots__begins_when_its_checkpoint_is_made():
    assert ahead(complete(), replace(HERE, precomputed=True)) == [Train(0, ahead=True), Train(1, ahead=True)]


def test_after_the_last_round__nothing_is_begun():
    assert ahead(complete(run=replace(WHOLE, round=3)), replace(HERE, precomputed=True)) == []


def test_an_aggregator_with_slots__trains_from_its_own_aggregation():
    view = chaired(complete(), ME)
    assert ahead(view, HERE) == []
    done = WorkStatus("done", {"root": SHARE.root.hex(), "pointer": SHARE.pointer})
    assert provisional_checkpoint(Queue({aggregate_name(view): done}), view, ME) == MADE
    assert provisional_checkpoint(Queue({precompute_name(view): done}), view, ME) is None


def test_who_holds_nothing__makes_nothing():
    assert ahead(complete(seats={1: OTHERS}), HERE) == []


def test_a_checkpoint_that_could_not_be_made__begins_nothing():
    view = complete()
    failed = Queue({precompute_name(view): WorkStatus("done", {"root": None})})
    assert provisional_checkpoint(failed, view, ME) is None


def test_combining_ahead__asks_no_peer():
    assert precompute_work(complete())[1]["peers"] == []


# -- the names of work are those that the posted checkpoint gives


@pytest.mark.parametrize("carry", [1, 8])
def test_training_ahead__is_what_will_be_asked_for_once_the_checkpoint_is_posted(carry: int):
    view = complete()
    work: Any = Queue({prepare_name(view): WorkStatus("done", {"slot_s": 1.0, "carry": carry})})
    name, request = training_work(work, with_checkpoint(view, MADE), 0)
    posted = Checkpoint(
        1, 1, AGGREGATOR_SEAT, AGGREGATOR, 0b11, 50, ROOT, MADE.root, OPENED + 99, cid=digest_of(SHARE.pointer)
    )
    run = replace(WHOLE, turn=2, round=2, missing=0b11, committed=0, start_root=MADE.root, opened_at=OPENED + 10)
    later = replace(view, now=view.now + 3, run=run, checkpoints=[*view.checkpoints, posted])
    known, asked = training_work(work, later, 0)
    assert name == known
    assert {**request, "asked_at": 0} == {**asked, "asked_at": 0}
    assert bool(request["before"]) == (carry > 1)


def test_another_checkpoint_on_chain__is_other_work():
    view = complete()
    work: Any = Queue()
    another = with_checkpoint(view, ProvisionalCheckpoint((SHARE._replace(root=b"\5" * 32),)))
    assert training_work(work, another, 0)[0] != training_work(work, with_checkpoint(view, MADE), 0)[0]


class Told:
    """As much of a work queue as `Ahead` asks for."""

    def __init__(self, statuses: dict[str, WorkStatus]) -> None:
        self.status = Queue(statuses).status
        self.newest: list[Any] = []

    def wake(self) -> None: ...

    def announce_turn(self, *newest: Any) -> None:
        self.newest.append(newest)


@pytest.mark.parametrize("posted", [MADE.root, ROOT], ids=["the same", "another"])
def test_where_the_chain_has_another_checkpoint_than_was_made_here__that_is_said(
    posted: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    view = complete()
    done = WorkStatus(
        "done", {"root": MADE.root.hex(), "shares": [{"root": SHARE.root.hex(), "pointer": SHARE.pointer}]}
    )
    work: Any = Told({precompute_name(view): done})
    ahead = Speculation(work, BlockStore(tmp_path))
    assert ahead.observe(view, ME, Progress(should_precompute=True)).precomputed
    begun = ahead.begin(view, ME)
    assert begun.run is not None
    run = replace(begun.run, opened_at=OPENED + 10, start_root=posted)
    ahead.observe(replace(begun, run=run), ME, Progress(should_precompute=True))
    assert work.newest == [(1, 1, ROOT), (1, 2, posted)]
    assert ("as made here" in caplog.text) == (posted == ROOT)


# -- what is not wanted any more


@pytest.mark.parametrize(
    ("round_", "root", "wanted"),
    [(2, ROOT, True), (3, MADE.root, True), (2, MADE.root, False), (1, ROOT, False), (4, ROOT, False)],
    ids=["the turn's", "ahead", "from another root", "of a round that is over", "after a rollback"],
)
def test_training__is_wanted_of_the_newest_turn_and_of_the_round_after_it(round_: int, root: bytes, wanted: bool):
    redis: Any = Redis()
    log = WorkLog(redis, SEALS)
    request = {"job": 1, "round": round_, "start_root": root.hex()}
    assert log.is_wanted(request)
    WorkQueue(SimpleNamespace(), redis, SEALS).announce_turn(1, 2, ROOT)  # type: ignore[arg-type]
    assert log.is_wanted(request) is wanted


def test_training_from_a_root_that_the_chain_has_not__is_abandoned_at_the_next_step_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(worker_module, "ASK_EVERY_S", 0.0)
    redis: Any = Redis()
    tasks: dict[str, Any] = {}
    app: Any = SimpleNamespace(
        task=lambda name, ignore_result: lambda body: tasks.update({name: body}), send_task=lambda *_, **__: None
    )
    log, steps = WorkLog(redis, SEALS), list[int]()

    def train(request: dict[str, Any], store: Any, progress: Any) -> dict[str, Any]:
        for step in range(5):
            steps.append(step)
            if step == 2:
                WorkQueue(app, redis, SEALS).announce_turn(1, 3, ROOT)
            progress(step, 1.0)
        return {}

    present: Any = SimpleNamespace(should_yield=lambda *_: False, working=_Working, record_speed=lambda *_: None)
    bind(app, log, BlockStore(tmp_path), {TRAIN_TASK: train}, presence=present)
    request = {"job": 1, "round": 3, "start_root": MADE.root.hex()}
    tasks[TRAIN_TASK]("shard", request, SEALS.of(TRAIN_TASK, "shard", request))
    assert steps == [0, 1, 2]
    assert not log.finished("shard")
    assert WorkQueue(app, redis, SEALS).status("shard").state == "absent"


def test_training__goes_on_while_the_broker_does_not_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    class Gone(Redis):
        def get(self, key: str) -> Any:
            if "newest" in key:
                raise BrokerGone("gone")
            return super().get(key)

    def train(request: dict[str, Any], store: Any, progress: Any) -> dict[str, Any]:
        progress(1, 1.0)
        return {"done": 1}

    tasks: dict[str, Any] = {}
    app: Any = SimpleNamespace(task=lambda name, ignore_result: lambda body: tasks.update({name: body}))
    app.send_task = lambda *_, **__: None
    present: Any = SimpleNamespace(should_yield=lambda *_: False, working=_Working, record_speed=lambda *_: None)
    log = WorkLog(Gone(), SEALS)
    bind(app, log, BlockStore(tmp_path), {TRAIN_TASK: train}, presence=present)
    request = {"job": 1, "round": 3, "start_root": MADE.root.hex()}
    tasks[TRAIN_TASK]("shard", request, SEALS.of(TRAIN_TASK, "shard", request))
    assert log.finished("shard")
    assert "the broker does not answer: gone" in caplog.text


class _Working:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


# -- what a worker makes of it


@pytest.fixture
def played(tmp_path: Path) -> SmallJob:
    made = publish(tmp_path, sparse=True)
    for slot in range(3):
        made.train(slot)
    made.commit(7, [0, 2])
    made.commit(9, [1])
    return made


def test_a_holder__makes_the_checkpoint_and_the_pointer_that_the_aggregator_posts(played: SmallJob):
    request = played.base | {"bundles": played.bundles}
    made, posted = worker.run_precompute(request, played.store), played.aggregate()
    assert (made["root"], made["shares"][0]["pointer"]) == (posted["root"], posted["pointer"])


def test_an_update_that_is_missing__is_told__and_nothing_is_made(played: SmallJob, caplog: pytest.LogCaptureFixture):
    played.store.unpin(played.reports[1]["update"])
    played.store.collect_garbage()
    made = worker.run_precompute(played.base | {"bundles": played.bundles}, played.store)
    assert made["root"] is None
    assert "will be downloaded" in caplog.text


def test_an_update_that_is_not_what_was_committed__is_told__and_nothing_is_made(played: SmallJob):
    played.reports[1]["update"] = played.reports[0]["update"]
    played.bundles = [played.bundles[0], played.commit(9, [1])]
    made = worker.run_precompute(played.base | {"bundles": played.bundles}, played.store)
    assert made["root"] is None
    assert "its root is" in made["message"]


# -- fetching as it is committed


class Woken:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def committed(played: SmallJob) -> JobView:
    """A view in which the played round is the open turn's, of one seat of slots 0 and 2 and one of slot 1."""
    view = complete(seats={0: SEAT, 1: replace(OTHERS, count=1)})
    claims: list[Claim] = []
    for seat, bundle in enumerate(played.bundles):
        digest, scope = digest_of(bundle["bundle"]), seat * 2 << 16 | len(bundle["slots"])
        claims.append(replace(CLAIM, seat=seat, operator=(ME, OTHER)[seat], scope=scope, bundle=digest))
    terms = replace(view.terms, manifest=digest_of(played.base["manifest"]))
    return replace(view, terms=terms, commits=tuple(c for c in claims if isinstance(c, Commit)))


def test_what_is_committed__is_brought_at_once__and_the_keeper_is_woken(played: SmallJob):
    woken = Woken()
    prefetching = Prefetcher(played.store, woken)
    assert prefetching.observe(committed(played)) == set()
    assert prefetching.wait(committed(played), HANG_S) == {0, 1}
    assert woken.times == 2


def test_a_claim_whose_files_nobody_serves__is_not_here__and_is_asked_for_a_few_times_only(
    played: SmallJob, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(module, "RETRY_AFTER_S", 0.0)
    played.store.unpin(played.reports[1]["update"])
    played.store.collect_garbage()
    prefetching = Prefetcher(played.store, Woken())
    view = committed(played)
    deadline = time.monotonic() + HANG_S
    warning = f"operator {OTHER} committed is not here"
    while caplog.text.count(warning) < module.ATTEMPTS and time.monotonic() < deadline:
        prefetching.observe(view)
        time.sleep(0.01)
    for _ in range(5):
        assert prefetching.observe(view) == {0}
    time.sleep(0.1)
    assert caplog.text.count(warning) == module.ATTEMPTS


def test_a_bundle_of_other_slots_than_were_committed__is_not_here(played: SmallJob):
    view = committed(played)
    false = replace(view.commits[1], scope=view.commits[1].first << 16 | 2)
    prefetching = Prefetcher(played.store, Woken())
    lied = replace(view, commits=(view.commits[0], false))
    assert prefetching.wait(lied, HANG_S) == {0}


def test_an_author_is_asked_before_others__and_who_committed_nothing_costs_nothing(
    played: SmallJob, monkeypatch: pytest.MonkeyPatch
):
    opened: list[list[str]] = []

    class Counted(BlockStore):
        def __init__(self, root: Path, peers: Sequence[str] = (), *scope: Any) -> None:
            opened.append(list(peers))
            super().__init__(root, peers, *scope)

    monkeypatch.setattr(module, "BlockStore", Counted)
    prefetching = Prefetcher(Counted(played.store.root), Woken())
    peers = [f"http://127.0.0.1:{number}" for number in range(9_000, 9_040)]
    prefetching.set_peers(peers, dict(enumerate(peers, start=OTHER)))
    assert prefetching.wait(committed(played), HANG_S) == {0, 1}
    assert opened == [[], peers[: 1 + module.FALLBACK_PEERS]], "of the one that committed and serves"


def test_a_full_disk__is_told__and_nobody_waits_for_what_was_given_up(
    played: SmallJob, caplog: pytest.LogCaptureFixture
):
    class Full(BlockStore):
        def open(self, *_: Any, **__: Any) -> Any:
            raise StoreFull("no room left")

    prefetching = Prefetcher(Full(played.store.root), Woken())
    assert ended(lambda: prefetching.wait(committed(played), 10 * HANG_S)) == set()
    assert caplog.text.count("no room left") == 2
