"""How far this operator's work on a job is, from its work queue, and the bundles that an aggregation combines."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

from keepers.decisions.demands import shares_to_fetch
from keepers.decisions.orders import NEWEST_CHECKPOINT, MissingData, Progress
from keepers.decisions.requests import (
    UNKNOWN_CARRY,
    aggregate_name,
    fetch_name,
    prepare_name,
    prepare_request,
    present_claims,
    previous_training_name,
    train_name,
    train_request,
)
from keepers.queue.work_queue import WorkQueue, WorkStatus
from node.inputs import bundles
from zoo_compute.chain.views import AGGREGATOR_SEAT, Commit, JobState, JobView
from zoo_compute.formats.tags import job_tag
from zoo_compute.store import Store
from zoo_compute.store.cid import raw_cid

log = logging.getLogger("zoo.keeper")


def measured_progress(work: WorkQueue, view: JobView) -> Progress:
    """What my worker measured of the job before a bid, or why I leave the job alone."""
    prepared = work.status(prepare_name(view))
    made = prepared.result or {}
    can_measure_again = time.time() >= float(made.get("again_at", 0.0))
    if prepared.state == "failed":
        return Progress(failed=True, why=prepared.error or "")
    if "refused" in made:
        return Progress(failed=True, why=made["refused"], over_limit=True, can_measure_again=can_measure_again)
    if not made:
        return Progress()
    return Progress(
        float(made["slot_s"]),
        load_s=float(made.get("load_s", 0.0)),
        opening_s=float(made.get("opening_s", 0.0)),
        opening=str(made.get("opening", "")),
        cannot_aggregate=str(made.get("cannot_aggregate", "")),
        aggregation_s=float(made.get("aggregation_s", 0.0)),
        can_measure_again=can_measure_again,
        memory=str(made.get("memory", "")),
        carries_state=int(made.get("carry", 1)) > 1,
        should_precompute=bool(made.get("advances")),
    )


def measure_again(work: WorkQueue, view: JobView) -> dict[str, Any]:
    """Forget what my worker measured of the job before a bid. Returns the request to measure it again."""
    made = work.status(prepare_name(view)).result or {}
    work.forget(prepare_name(view))
    return prepare_request(view) | {"too_slow_at": float(made.get("measured_at", 0.0))}


def progress_of(work: WorkQueue, view: JobView, operator: int) -> Progress:
    measured = measured_progress(work, view)
    if measured.failed or view.run is None or view.state != JobState.RUNNING:
        return measured
    combined = {seat: work.status(aggregate_name(view, seat)) for seat in view.unposted_seats_of(operator)}
    shares = shares_to_fetch(view, operator)
    fetched = {c.seat: work.status(fetch_name(c, view.job, shares)) for c in present_claims(view)} if combined else {}
    missing = {seat: parse_missing(s.missing) for seat, s in fetched.items() if s.missing}
    open_seats = [seat.slots for n, seat in view.seats_of(operator).items() if view.run.missing >> n & 1]
    slots = {slot for run in open_seats for slot in run} | {slot for each in missing.values() for slot in each.chunks}
    states = {slot: trained(work, view, slot) for slot in slots}
    for status in states.values():
        missing |= missing_share(status, AGGREGATOR_SEAT)
    for status in combined.values():
        missing |= missing_share(status, NEWEST_CHECKPOINT if view.delay else AGGREGATOR_SEAT)
    return replace(
        measured,
        trained=frozenset(slot for slot, status in states.items() if status.state == "done"),
        failed_slots=frozenset(slot for slot, status in states.items() if status.state == "failed"),
        aggregated=frozenset(seat for seat, status in combined.items() if status.state == "done"),
        # What failed here for a reason of my own is left to the aggregation, which says why.
        fetched=frozenset(seat for seat, status in fetched.items() if status.state in ("done", "failed")),
        missing=missing,
    )


def carry_of(work: WorkQueue, view: JobView) -> int:
    """Rounds from one restart to the next, as my worker read it in the manifest.

    Its record expires, and is gone with a broker that was lost: training then still goes on from what the slot carries.
    """
    prepared = work.status(prepare_name(view)).result or {}
    return int(prepared.get("carry", UNKNOWN_CARRY))


def trained(work: WorkQueue, view: JobView, slot: int) -> WorkStatus:
    """How far the open turn's training of a slot is."""
    return work.status(train_name(view, slot, carry_of(work, view)))


def training_work(work: WorkQueue, view: JobView, slot: int) -> tuple[str, dict[str, Any]]:
    """The name of a slot's training, and the request; with what its last round left on this machine."""
    carry = carry_of(work, view)
    before = previous_training_name(view, slot, carry)
    last = work.status(before).result if before else None
    return train_name(view, slot, carry), train_request(view, slot, carry, last["private"] if last else None)


def bundle_to_fetch(work: WorkQueue, store: Store, view: JobView, commit: Commit, operator: int) -> str:
    """The claim's bundle; in place of one that is withheld, my own of the same root once I computed all of its slots anew."""
    missing = work.status(fetch_name(commit, view.job, shares_to_fetch(view, operator))).missing
    reports = [trained(work, view, slot).result for slot in commit.slots] if missing else [None]
    results = [bundles.result_of(report) for report in reports if report is not None]
    if len(results) == commit.count:
        if bundles.round_root(results) == commit.root:
            bundle = bundles.bundle_bytes(view.job, commit.round, commit.operator, results)
            return store.add(bundle, tag=job_tag(view.job))
        log.error("job %d: operator %d committed other results than its slots have", view.job, commit.operator)
    return raw_cid(commit.bundle)


def fetched_bundles(work: WorkQueue, view: JobView, operator: int) -> dict[int, str]:
    """The bundle of each seat of the open turn that was fetched."""
    shares = shares_to_fetch(view, operator)
    fetched = {c.seat: work.status(fetch_name(c, view.job, shares)).result for c in present_claims(view)}
    return {seat: result["bundle"] for seat, result in fetched.items() if result}


def missing_share(status: WorkStatus, first: int) -> dict[int, MissingData]:
    """The share of a checkpoint that work could not download, by its number from `first` on, as in Progress."""
    record = status.missing
    return {first + record.get("share", 0): parse_missing(record)} if record and record["checkpoint"] else {}


def parse_missing(record: dict[str, Any]) -> MissingData:
    """From a worker's record of data that nobody served (node.errors.Withheld)."""
    return MissingData(record["asked_at"], {slot: place and (place[0], place[1]) for slot, place in record["places"]})
