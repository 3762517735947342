"""What README shows a newcomer does what it says."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from node.replay import replay
from zoo_compute.jobs.files import publish_files
from zoo_compute.jobs.loading import plan_job
from zoo_compute.store import BlockStore
from zoo_compute.training.examples import prepare_text

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.mark.long  # the journeys run the README too
def test_the_readmes_own_module__trains_as_it_is_written_in_under_twenty_lines(tmp_path: Path) -> None:
    module = next(
        block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "def build" in block
    )
    job_file = next(
        block for block in re.findall(r"```yaml\n(.*?)```", README.read_text(), re.S) if "model.py:build" in block
    )
    lines = [line for line in (module + job_file).splitlines() if line.strip()]
    assert len(lines) < 20
    (tmp_path / "model.py").write_text(module)
    (tmp_path / "job.yaml").write_text(job_file)
    (tmp_path / "corpus.txt").write_bytes(b"a text of some length, again and again. " * 4_000)
    job = plan_job(tmp_path / "job.yaml", 100).job
    job = replace(
        job, training_config={**job.training_config, "inner_steps": 3}, data_config={**job.data_config, "heldout": 8}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = prepare_text(
            job.data_paths(), job.context, 0, wanted=job.examples_wanted, minimum=job.examples_per_round, heldout=8
        )
    store = BlockStore(tmp_path / "store")
    run = replay(publish_files(job, data, store), store, [0b1])
    assert run.losses[1] < run.losses[0]
