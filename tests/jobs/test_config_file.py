"""A refusal of a job's file names the file and the line of the key that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.jobs.loading import plan_job

TEXT = """\
# a job
model:
  name: gpt-100k
data: {path: text.txt}
training:
  batch_size: 2
  inner_steps: 10

  rounds: 4
  slots: 3
  warmup_steps: 2
limits: {depth: 4,
         policy: tolerate}
market:
  reserve: "0.5"
"""
WRONG = {  # what is replaced by what -> how the refusal begins after the file's name
    ("rounds: 4", "rounds: 0"): "9: training.rounds: expected 1 to 10000, got 0",
    ("rounds: 4", "round: 4"): "9: training: unknown key 'round'; did you mean 'rounds'?",
    ("rounds: 4", "rounds: four"): "9: training.rounds: expected a whole number, got 'four'",
    ("rounds: 4", ""): "5: training: missing key 'rounds'",
    ("rounds: 4", "rounds: 4\n  depth: 4"): "10: training: unknown key 'depth'; it belongs to 'limits'",
    ("rounds: 4", "rounds: 4\n  batch_size: 3"): "10: training.batch_size: it is in line 6 already",
    ("slots: 3", "slots: 3\n  quorum: 4"): "11: training.quorum: expected 1 to 3, got 4",
    ("warmup_steps: 2", "accumulate: 3"): "11: training.accumulate: 3 parts do not divide batch_size = 2",
    ("tolerate", "rollback"): "13: limits.policy: unknown policy 'rollback'; did you mean 'roll back'?",
    ("market:", "markets:"): "14: unknown section 'markets'; did you mean 'market'?",
    ('"0.5"', '"-1"'): "15: market.reserve should be a positive number of ZEN",
    ("gpt-100k", "gpt-100"): "3: model.name: unknown",
    ("model:\n  name: gpt-100k\n", ""): " missing section 'model'",
    ("data: {path", "data: {path: [}"): "4: not YAML or JSON: ",
}


def refusal(folder: Path, old: str, new: str, **given: object) -> str:
    """What is said of TEXT with this change, by the file's name."""
    assert TEXT.count(old) == 1
    (folder / "job.yaml").write_text(TEXT.replace(old, new))
    with pytest.raises(JobError) as wrong:
        plan_job(folder / "job.yaml", **given)  # type: ignore[arg-type]
    return str(wrong.value).removeprefix(f"{folder / 'job.yaml'}:")


@pytest.mark.parametrize(("change", "message"), WRONG.items(), ids=lambda each: str(each)[:40])
def test_a_refusal__names_the_line(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, *change).startswith(message)


def test_a_refusal_of_from_file__names_the_line_too(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(TEXT.replace("rounds: 4", "rounds: 0"))
    with pytest.raises(JobError, match=r"job\.yaml:9: training\.rounds: "):
        ComputeJob.from_file(tmp_path / "job.yaml")


def test_a_refusal_in_json__names_the_line(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"model": {"name": "gpt-100k"},\n "training": {"rounds": 1}}')
    with pytest.raises(JobError, match=r"job\.json:2: training: missing key 'batch_size'"):
        ComputeJob.from_file(tmp_path / "job.json")


def test_a_value_that_is_not_the_files__has_no_line(tmp_path: Path) -> None:
    """`--rounds`, or a section of the caller's: the file is right."""
    (tmp_path / "job.yaml").write_text(TEXT)
    with pytest.raises(JobError, match=r"job\.yaml: training\.rounds: expected"):
        plan_job(tmp_path / "job.yaml", training={"rounds": 0})
    with pytest.raises(JobError, match=r"job\.yaml: model\.name: unknown"):
        plan_job(tmp_path / "job.yaml", model={"name": "gpt-100"})
    (tmp_path / "job.yaml").write_text(TEXT.replace("warmup_steps: 2", "warmup_steps: -2"))
    with pytest.raises(JobError, match=r"job\.yaml:11: training\.warmup_steps"):
        plan_job(tmp_path / "job.yaml", training={"rounds": 3})
