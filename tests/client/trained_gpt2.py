"""The tiny GPT-2 after one round of a job, played in this process, whose checkpoint a chain has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from node.replay import replay
from repops import commitments
from repops.commitments import Array
from tests.client.test_results import TERMS, aggregation, published
from tests.support import tiny_gpt2
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.chain.views import ClaimState, JobState, JobView
from zoo_compute.client.progress import progress_of
from zoo_compute.client.results import Result, write_pretrained
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.submission import PreparedJob, prepare
from zoo_compute.spec.params import ZEN
from zoo_compute.store import BlockStore

NETWORK: Any = SimpleNamespace(name="testnet", chain_id=31_337, contracts={name: f"0x{name}" for name in CONTRACTS})


class Trained(NamedTuple):
    """home: the submitter's ZOO_HOME, which remembers the model. losses: by slot."""

    folder: Path
    home: Path
    job: ComputeJob
    prepared: PreparedJob
    store: BlockStore
    state: dict[str, Array]
    losses: list[float]
    view: JobView

    def write(self, folder: Path, model: str | Path | None = None, **options: Any) -> Result:
        progress = progress_of(self.view, spent=3 * ZEN, due=0, losses=(5.5,))
        return write_pretrained(self.view, self.store, folder, model, progress, NETWORK, **options)


def trained_in(folder: Path, job_of: Callable[[Path], ComputeJob]) -> Trained:
    """job_of: makes the job, whose files are in the folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_HOME", str(folder / "home"))
        patch.setattr("datasets.config.HF_DATASETS_CACHE", folder / "cache")
        tiny_gpt2.save_all(folder)
        store = BlockStore(folder / "store")
        job = job_of(folder)
        ready = prepare(job, store, say=lambda _: None)
        run = replay(ready.manifest, store, [0b11])
    state = dict(run.state)
    root = commitments.state_root(state)
    terms = replace(TERMS, manifest=ready.manifest.digest, rounds=1)
    made = aggregation(0, root, state=ClaimState.PAID)
    view = replace(published(store, state, root), terms=terms, checkpoints=(made,), state=JobState.ENDED)
    return Trained(folder, folder / "home", job, ready, store, state, run.losses, view)
