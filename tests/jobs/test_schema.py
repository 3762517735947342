"""The schema of a job's file agrees with what the reader accepts and refuses: for every job of docs and tests, and key by key."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.jobs.job_keys import JOBS
from tests.jobs.test_config import WRONG, config
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.jobs.config_file import read_file
from zoo_compute.jobs.keys import KEYS
from zoo_compute.jobs.schema import job_schema

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "tests" / "journeys" / "seeds.md"]
SCHEMA = job_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
# Rules between keys, and words that the schema leaves to the reader.
BETWEEN_KEYS = {
    "heads that do not divide",
    "a reserve above the price",
    "a price of nothing",
    "a negative price",
    "too many decimals",
    "another token",
    "no learning rate for a built-in model",
    "parts that do not divide a batch",
    "a quorum above the slots",
    "a class that is none",
    "a class of a list that is none",
    "a region of no list",
    "a country that is none",
}


def printed_jobs() -> dict[str, str]:
    """The YAML blocks of all pages that describe a job, by page and line; the file of a service has `serve:`."""
    jobs = {}
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in re.finditer(r"^```yaml\n(.*?)^```$", text, re.S | re.M):
            if re.search(r"^serve:", match[1], re.M):
                continue
            jobs[f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 2}"] = match[1]
    return jobs


PRINTED = printed_jobs()


def faults(job: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(job)]


def test_the_schema__is_one() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA, allow_nan=False)) == SCHEMA


@pytest.mark.parametrize("place", PRINTED)
def test_every_job_that_a_page_prints__is_valid(place: str) -> None:
    """The example of the hub has no training: it shows two sections."""
    job = yaml.safe_load(PRINTED[place])
    assert [fault for fault in faults(job) if "is not valid under any of" not in fault] == []
    assert len(PRINTED) >= 6


def test_the_jobs_of_the_tests_and_of_the_demo__are_valid() -> None:
    demo = read_file(ROOT / "scripts" / "demo" / "demo.yaml").content
    jobs = {**JOBS, "demo": demo, "plain": config()}
    assert [fault for job in jobs.values() for fault in faults(job)] == []


@pytest.mark.parametrize("name", sorted(WRONG.keys() - BETWEEN_KEYS))
def test_a_mistake__is_one_for_the_schema_too(name: str) -> None:
    assert faults(config(**WRONG[name][0])) != []


@pytest.mark.parametrize("name", sorted(BETWEEN_KEYS))
def test_a_rule_between_keys__is_left_to_the_reader(name: str) -> None:
    assert faults(config(**WRONG[name][0])) == [], "the schema knows this now: take it from BETWEEN_KEYS"


def bounded() -> list[tuple[str, str, float]]:
    """Every key with a range, and a value just outside it."""
    values = []
    for section, keys in KEYS.items():
        for name, key in keys.items():
            if key.low is not None and key.high is not None:
                step = 1 if isinstance(key.low, int) else 1e-13
                values += [(section, name, key.low - step), (section, name, key.high * 2 + step)]
    return values


BASES: dict[str, dict[str, Any]] = {
    "model": {"model": {"architecture": "llama", "hidden": 8}},
    "market": {"market": {"token": "0x" + "ab" * 20}},
    "map": {"map": {"batch_size": 2, "slots": 2}},
}


@pytest.mark.parametrize(("section", "name", "value"), bounded(), ids=lambda each: str(each))
def test_a_value_beyond_its_range__is_refused_by_schema_and_reader(section: str, name: str, value: float) -> None:
    base = config(**copy.deepcopy(BASES.get(section, {})))
    base[section] = {**(base.get(section) or {}), name: value}
    assert any(f".{name}" in fault for fault in faults(base)), "by the schema"
    with pytest.raises(JobError, match=rf"^{section}\.{name}: expected "):
        ComputeJob.from_dict(base)


def test_every_key_with_a_range__is_among_those_tried() -> None:
    assert len(bounded()) > 80


@pytest.mark.parametrize(
    ("section", "words"), [("training", "outer_optimizer"), ("limits", "policy"), ("aggregation", "rule")]
)
def test_every_word_of_the_schema__is_accepted(section: str, words: str) -> None:
    for word in KEYS[section][words].words:
        job = config(training={"slots": 5}, **({section: {words: word}} if section != "training" else {}))
        job[section] = {**job[section], words: word}
        assert faults(job) == []
        ComputeJob.from_dict(job)
