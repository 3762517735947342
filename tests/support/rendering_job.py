"""A rendering small enough for unit tests: rendered and claimed in a store, and what the chain says of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from node.inputs.programs import fetch_programs
from tests.support.scenes import BALL, small
from tests.support.small_job import SmallJob
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.data_source import dataset_of
from zoo_compute.jobs.files import publish_files
from zoo_compute.rendering.plan import data_of, sections_of
from zoo_compute.store import BlockStore, digest_of
from zoo_compute.training.work_root import work_of

LAYOUT = small(frames=(3, 4))  # two tiles in two passes of two frames: four rounds of a slot
ROUNDS = 4


class Hashable(SimpleNamespace):
    """A claim is one: it is frozen."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


class RenderedJob:
    """claims: by round. final: how many rounds are."""

    def __init__(self, folder: Path) -> None:
        (folder / "scene.py").write_text(BALL)
        sections = sections_of(folder / "scene.py", LAYOUT, 1)
        job = ComputeJob(sections["model"], data_of(LAYOUT), map_config=sections["map"], budget_max="100")
        store = BlockStore(folder / "store")
        manifest = publish_files(job, dataset_of(job, lambda text: None), store)
        programs = fetch_programs(store, manifest)
        base = {
            "job": 1, "round": 0, "manifest": store.add(manifest.to_bytes()), "checkpoint": None,
            "start_root": manifest.state.root, "work_root": work_of(manifest, programs.graph).root.hex(),
            "data_root": manifest.data.root, "flops": manifest.flops,
        }  # fmt: skip
        self.job = SmallJob(store, manifest, programs, base)
        self.final = 0
        self.claims: dict[int, Any] = {}
        for round_ in range(manifest.rounds):
            self.job.bundles = []
            self.job.train(0)
            made = self.job.commit(7, [0])
            self.claims[round_] = Hashable(
                round=round_,
                operator=7,
                slots=range(1),
                root=bytes.fromhex(made["root"]),
                bundle=digest_of(made["bundle"]),
            )
            self.job.base |= {"round": round_ + 1, "checkpoint": self.job.aggregate()["pointer"]}

    def view(self) -> Any:
        start = bytes.fromhex(self.job.manifest.state.root)
        return SimpleNamespace(
            job=1,
            terms=SimpleNamespace(manifest=self.job.manifest.digest, rounds=ROUNDS),
            checkpoint_roots={0: start},
            checkpoint_of=lambda number: SimpleNamespace(turn=number - 1, start_root=start),
            committed=lambda turn: {0: self.claims[turn]},
        )
