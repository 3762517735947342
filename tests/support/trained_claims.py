"""A small job that is trained in this process and claimed on a devnet, one of its claims false where that is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keepers.queue.work_queue import WorkStatus
from node import tasks
from node.compute.programs import Programs
from node.disputes import player
from node.disputes.computation import SlotRound
from node.disputes.rounds import Aggregation, Update
from repops.commitments import state_root_of
from tests.support.liars.faults import Lie, Lies
from tests.support.small_job import publish
from zoo_compute.spec.frames import Kind
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import digest_of
from zoo_compute.store.errors import ContentMissing

SLOT, STEP = 0, 2
LIE = Lie(0, SLOT, step=STEP, op="dot")
TASKS = {
    "work.verify": tasks.run_verification,
    "work.check": tasks.run_aggregation_check,
    "work.dispute": player.run_dispute,
}


class LyingUpdate(Lies, Update):
    """One number of the update is false."""


class LyingAggregation(Lies, Aggregation):
    """One number of the next checkpoint is false."""


def lying(made: Lies) -> Lies:
    """In the first tensor that comes out."""
    made.elements[0, made.graph.state[0].after] = 3
    made.bit = 20
    return made


class Trained:
    """What `Dispute` posts and claims. lie: in which claim, of slot 0 or of the aggregation."""

    def __init__(self, folder: Path, lie: Kind | None) -> None:
        self._lie = lie
        self.job = publish(folder, rounds=1, slots=2, quorum=2)
        self.store = self.job.store

    @property
    def terms(self) -> dict[str, Any]:
        base = self.job.base
        roots = {"work_root": base["work_root"], "state_root": base["start_root"], "data_root": base["data_root"]}
        states: dict[str, Any] = {name: bytes.fromhex(root) for name, root in roots.items()}
        return states | {"manifest": digest_of(base["manifest"]), "flops": base["flops"]}

    def commit(self, slot: int, operator: int) -> tuple[bytes, bytes]:
        is_false = slot == SLOT
        tamper = LIE if is_false and self._lie == Kind.TRAINING else None
        report = self.job.train(slot, tamper=tamper)
        if is_false and self._lie == Kind.UPDATE:
            report["update_root"] = state_root_of(lying(LyingUpdate(self._slot_round())).after(0)).hex()
        made = self.job.commit(operator, [slot])
        return bytes.fromhex(made["root"]), digest_of(made["bundle"])

    def aggregate(self) -> tuple[bytes, bytes]:
        if self._lie == Kind.UPDATE:  # its update's file is not what was claimed: nobody can combine it
            return bytes(32), bytes(32)
        made, inputs = self.job.aggregate(), self._inputs
        root = bytes.fromhex(made["root"])
        if self._lie == Kind.AGGREGATION:
            updates = {slot: self._update(slot) for slot in (0, 1)}
            step = inputs.programs.graph
            root = state_root_of(lying(LyingAggregation(inputs.manifest, step, inputs.checkpoint, updates)).after(0))
        return root, digest_of(made["pointer"])

    @property
    def _inputs(self) -> Any:
        return tasks.fetch_inputs(self.store, self.job.base)

    def _slot_round(self) -> SlotRound:
        inputs = self._inputs
        programs = Programs(inputs.programs.graph)
        return SlotRound(inputs.manifest, programs, inputs.checkpoint, inputs.examples, 0, SLOT)

    def _update(self, slot: int) -> Any:
        return self.job.sent(slot).state


def computed(store: BlockStore, task: str, request: dict[str, Any], **options: Any) -> WorkStatus:
    """What a keeper's worker answers, at once."""
    try:
        return WorkStatus("done", result=TASKS[task](request, store, **options))
    except ContentMissing:
        return WorkStatus("queued")
