"""How far my own work is, and which bundles an aggregation is made from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keepers.decisions.orders import MissingData
from keepers.decisions.requests import aggregate_name, aggregate_request, fetch_name, train_name
from keepers.queue.work_queue import WorkStatus
from keepers.services.progress import bundle_to_fetch, fetched_bundles, progress_of
from node.inputs import bundles
from tests.keepers.test_demands import CLAIM, job
from tests.keepers.test_duties import AGGREGATOR, ME
from zoo_compute.chain.views import AGGREGATOR_SEAT, JobView
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import raw_cid

TOLD: dict[str, Any] = {"asked_at": 1_050, "checkpoint": False, "places": [[0, None], [1, [3, 4]]]}


class Queue(dict[str, WorkStatus]):
    """Stands for the work queue: what is known of each name."""

    def status(self, name: str) -> WorkStatus:
        return self.get(name, WorkStatus("absent"))


def report(slot: int) -> dict[str, Any]:
    roots = {name: bytes([slot + 1]).hex() * 32 for name in ("start_root", "segment_root", "end_root", "update_root")}
    return {"slot": slot, "update": raw_cid(bytes([slot]) * 32), "loss": [2.0, 1.0], "seconds": 0.5, **roots}


REPORTS = {slot: report(slot) for slot in (0, 1)}
ROOT = bundles.round_root([bundles.result_of(each) for each in REPORTS.values()])
HONEST = replace(CLAIM, root=ROOT)


@pytest.fixture
def store(tmp_path: Path) -> BlockStore:
    return BlockStore(tmp_path / "store")


def seen(claim: Any = HONEST) -> JobView:
    return job(1_060, commits=(claim,))


def test_the_aggregators_progress__tells_what_is_here_and_what_is_withheld():
    name = fetch_name(HONEST, 1)
    withheld = progress_of(Queue({name: WorkStatus("queued", missing=TOLD)}), seen(), AGGREGATOR)
    assert (withheld.fetched, withheld.missing) == (frozenset(), {0: MissingData(1_050, {0: None, 1: (3, 4)})})
    for state in ("done", "failed"):
        assert progress_of(Queue({name: WorkStatus(state)}), seen(), AGGREGATOR).fetched == {0}
    assert progress_of(Queue({name: WorkStatus("done")}), seen(), ME).fetched == frozenset()


def test_slots_computed_anew__count_as_trained():
    work = Queue({fetch_name(HONEST, 1): WorkStatus("queued", missing=TOLD)})
    work[train_name(seen(), 1)] = WorkStatus("done", result=REPORTS[1])
    assert progress_of(work, seen(), AGGREGATOR).trained == {1}


@pytest.mark.parametrize(
    ("name", "who"), [(lambda v: train_name(v, 0), ME), (aggregate_name, AGGREGATOR)], ids=["training", "aggregating"]
)
def test_a_checkpoint_that_is_withheld__is_told_by_whoever_needed_it(name, who):
    view = seen()
    view = replace(view, run=replace(view.run, missing=0b11)) if name is not aggregate_name else view
    missing = {**TOLD, "checkpoint": True, "places": [[0, None]]}
    progress = progress_of(Queue({name(view): WorkStatus("queued", missing=missing)}), view, who)
    assert progress.missing == {AGGREGATOR_SEAT: MissingData(1_050, {0: None})}


def test_a_withheld_bundle__is_replaced_by_my_own_of_the_same_root_once_all_slots_are_computed(store):
    work, theirs = Queue({fetch_name(HONEST, 1): WorkStatus("queued", missing=TOLD)}), raw_cid(HONEST.bundle)
    assert bundle_to_fetch(work, store, seen(), HONEST, AGGREGATOR) == theirs
    work[train_name(seen(), 0)] = WorkStatus("done", result=REPORTS[0])
    assert bundle_to_fetch(work, store, seen(), HONEST, AGGREGATOR) == theirs
    work[train_name(seen(), 1)] = WorkStatus("done", result=REPORTS[1])
    made = bundle_to_fetch(work, store, seen(), HONEST, AGGREGATOR)
    bundle = bundles.parse_bundle(store.read(made, max_bytes=10**6))
    assert (bundle.root, bundle.operator, bundle.round) == (ROOT, ME, 1)
    work[fetch_name(HONEST, 1)] = WorkStatus("done", result={"bundle": made})
    request = aggregate_request(seen(), fetched_bundles(work, seen(), AGGREGATOR))
    assert [(each["bundle"], each["root"]) for each in request["bundles"]] == [(made, ROOT.hex())]


def test_a_claim_on_other_results_than_its_slots_have__is_never_made_true(store, caplog):
    work = Queue({fetch_name(CLAIM, 1): WorkStatus("queued", missing=TOLD)})
    work |= {train_name(seen(), slot): WorkStatus("done", result=each) for slot, each in REPORTS.items()}
    assert bundle_to_fetch(work, store, seen(CLAIM), CLAIM, AGGREGATOR) == raw_cid(CLAIM.bundle)
    assert "committed other results" in caplog.text
