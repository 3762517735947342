"""A job small enough for unit tests: published in an embedded store, run through the worker's own entry points."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from node import tasks
from node.compute.programs import Programs
from node.inputs import bundles as prover
from node.inputs.updates import get_update
from repops.commitments import Array
from zoo_compute.codec.files import ReceivedUpdate
from zoo_compute.formats.lineage import Parents
from zoo_compute.jobs.config import ComputeJob, Manifest
from zoo_compute.jobs.files import publish_files
from zoo_compute.store import BlockStore
from zoo_compute.training.examples import prepare_text
from zoo_compute.training.work_root import work_of

TEXT = Path(json.__file__).read_bytes() * 3
MODEL = {"layers": 2, "heads": 2, "width": 32, "context": 16}
TRAINING = {
    "learning_rate": 0.01,
    "batch_size": 4,
    "inner_steps": 5,
    "segment_steps": 2,
    "rounds": 2,
    "slots": 3,
    "warmup_steps": 2,
    "outer_momentum": 0.5,
}
COMPRESSION = {"chunk": 256, "keep": 16, "bits": 2, "decay": 0.9}


@dataclass
class SmallJob:
    """`base` is what every request carries; `advance` plays a whole round of two honest operators, 7 and 9."""

    store: BlockStore
    manifest: Manifest
    programs: Programs
    base: dict[str, Any]
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    bundles: list[dict[str, Any]] = field(default_factory=list)

    def train(self, slot: int, **options: Any) -> dict[str, Any]:
        report = tasks.run_shard(self.base | {"slot": slot}, self.store, **options)
        self.reports[slot] = json.loads(json.dumps(report))  # as it would come through the broker
        return self.reports[slot]

    def commit(self, operator: int, slots: list[int]) -> dict[str, Any]:
        results = [prover.result_of(self.reports[slot]) for slot in slots]
        data = prover.bundle_bytes(self.base["job"], self.base["round"], operator, results)
        root = prover.round_root(results).hex()
        self.bundles.append(
            {
                "bundle": self.store.add(data),
                "root": root,
                "operator": operator,
                "slots": slots,
                "start_root": self.base["start_root"],
            }
        )
        return self.bundles[-1]

    def sent(self, slot: int) -> ReceivedUpdate:
        """What others have of a slot's update."""
        entry = prover.result_of(self.reports[slot])
        return get_update(self.store, entry, self.manifest, self.programs.graph)

    def aggregate(self) -> dict[str, Any]:
        request = self.base | {"bundles": self.bundles}
        return tasks.run_aggregation(request, self.store)

    def verify(self, slot: int, **changes: Any) -> dict[str, Any]:
        commit = next(c for c in self.bundles if slot in c["slots"])
        return tasks.run_verification(self.base | commit | {"slot": slot} | changes, self.store)

    def advance(self) -> dict[str, Any]:
        for slot in range(3):
            self.train(slot)
        self.bundles = []
        self.commit(7, [0, 2])
        self.commit(9, [1])
        made = self.aggregate()
        self.base |= {"round": self.base["round"] + 1, "checkpoint": made["pointer"], "start_root": made["root"]}
        return made


@lru_cache
def small_job(*, sparse: bool = False, rule: str = "mean", **training: Any) -> ComputeJob:
    """Traced once for all tests. sparse: its updates are compressed. rule: of the aggregation, against one hostile slot."""
    return ComputeJob(
        MODEL,
        {},
        TRAINING | training,
        "100",
        compression_config=COMPRESSION if sparse else None,
        aggregation_config=None if rule == "mean" else {"rule": rule, "hostile": 1},
        limits_config={"policy": "tolerate"},  # as the drivers of tests post it
    )


def publish(
    folder: Path,
    *,
    text: bytes = TEXT,
    weights: Mapping[str, Array] | None = None,
    parents: Parents | None = None,
    **options: Any,
) -> SmallJob:
    job, store = small_job(**options), BlockStore(folder / "store")
    data = prepare_text(text, 16, 0, wanted=job.examples_wanted, minimum=job.examples_per_round, heldout=32)
    manifest = publish_files(job, data, store, weights=weights, parents=parents)
    base = {
        "job": 1,
        "manifest": store.add(manifest.to_bytes()),
        "round": 0,
        "checkpoint": None,
        "start_root": manifest.state.root,
        "work_root": work_of(manifest, job.traced.graph).root.hex(),
        "data_root": manifest.data.root,
        "flops": manifest.flops,
        "terms": {"rounds": manifest.rounds, "slots": manifest.slots},
    }
    return SmallJob(store, manifest, Programs(job.traced.graph), base)
