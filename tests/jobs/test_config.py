"""Configuration files: every key checked, the nearest right one named, prices and escrow exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zoo_compute.jobs.config import CheckpointConfig, ComputeJob, JobError
from zoo_compute.spec.params import REFERENCE_FLOPS, TIERS

ZEN = 10**18
ROOT = Path(__file__).resolve().parents[2]


def config(**changes: Any) -> dict[str, Any]:
    sections = {
        "model": {"architecture": "gpt", "layers": 1, "heads": 2, "width": 8, "context": 16},
        "data": {"path": "text.txt"},
        "training": {"learning_rate": 0.001, "batch_size": 2, "inner_steps": 10, "rounds": 4, "slots": 3},
        "market": {"reserve": "0.5", "max_price": "2", "aggregator_reserve": "0.1", "aggregator_max_price": "0.25"},
    }
    for name, change in changes.items():
        section = sections.get(name)
        sections[name] = {**section, **change} if isinstance(section, dict) and isinstance(change, dict) else change
    return sections


def test_job__prices_escrow_and_examples__follow_from_the_configuration() -> None:
    job = ComputeJob.from_dict(config(budget_max="25"))
    assert job.prices == (ZEN // 2, 2 * ZEN, ZEN // 10, ZEN // 4)
    assert job.escrow == (2 * ZEN * 3 + ZEN // 4) * 4 == 25 * ZEN
    assert job.examples_per_round == 60
    assert job.examples_wanted == 240
    assert job.flops == job.profile.flops * 10


def test_job__as_four_values__derives_prices_from_the_budget() -> None:
    sections = config()
    job = ComputeJob(sections["model"], sections["data"], sections["training"], "16")
    assert set(job.prices) == {ZEN}
    assert job.escrow == 16 * ZEN


def test_job__with_a_budget_above_the_market__opens_at_what_operators_ask_not_at_the_budget() -> None:
    sections = config()
    job = ComputeJob(sections["model"], sections["data"], sections["training"], "160")
    assert job.prices == (ZEN, 10 * ZEN, ZEN, 10 * ZEN)


def test_job__with_a_budget_below_the_market__opens_at_its_maximum() -> None:
    sections = config()
    assert set(ComputeJob(sections["model"], sections["data"], sections["training"], "1.6").prices) == {ZEN // 10}


def test_job__of_much_work__opens_at_what_the_work_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = 6
    monkeypatch.setattr(ComputeJob, "flops", hours * 3_600 * REFERENCE_FLOPS)
    assert ComputeJob.from_dict(config(market=None)).prices.reserve == hours * TIERS[1].reference_price


def test_job__no_price_and_no_budget__pays_up_to_twice_what_the_work_is_worth() -> None:
    job = ComputeJob.from_dict(config(market=None))
    assert job.prices == (ZEN, 2 * ZEN, ZEN, 2 * ZEN)
    assert job.escrow == 4 * (3 + 1) * 2 * ZEN


def test_job__is_parsed_without_tracing_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ComputeJob, "traced", property(lambda _: pytest.fail("traced")))
    assert ComputeJob.from_dict(config(market=None, budget_max=16)).escrow == 16 * ZEN
    ComputeJob.from_dict(config(market=None))
    with pytest.raises(JobError, match="needs 25 ZEN"):
        ComputeJob.from_dict(config(budget_max="24.9"))


def test_job__escrow_above_the_budget__is_refused() -> None:
    with pytest.raises(JobError, match=r"needs 25 ZEN in escrow, the budget is 24\.9 ZEN"):
        ComputeJob.from_dict(config(budget_max="24.9"))


def test_job__defaults__are_two_thirds_quorum_and_four_segments() -> None:
    job = ComputeJob.from_dict(config(training={"slots": 4}))
    manifest = job.outline()
    assert (manifest.quorum, manifest.segment_steps, manifest.reexecute_s, manifest.accumulate) == (3, 3, 30, 1)
    assert (manifest.depth, manifest.policy, manifest.audit_bps) == (4, "tolerate", 500)
    longer = ComputeJob.from_dict(config(training={"inner_steps": 100}))
    assert longer.outline().segment_steps == 10, "a dispute replays one segment: no default is longer"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a typo in a section": ({"trainin": {}}, "unknown section 'trainin'; did you mean 'training'?"),
    "a typo in a key": (
        {"training": {"learning_rte": 1}},
        "training: unknown key 'learning_rte'; did you mean 'learning_rate'?",
    ),
    "a key in the wrong section": ({"model": {"rounds": 3}}, "model: unknown key 'rounds'; it belongs to 'training'"),
    "a rate in quotes": ({"training": {"learning_rate": "1e-3"}}, "write it without quotes"),
    "a float for a number": ({"training": {"rounds": 2.5}}, "training.rounds: expected a whole number, got 2.5"),
    "another architecture": ({"model": {"architecture": "gtp"}}, "did you mean 'gpt'?"),
    "another optimizer": ({"training": {"optimizer": "adam"}}, "did you mean 'adamw'?"),
    "heads that do not divide": ({"model": {"heads": 3}}, "8 is no multiple of heads = 3"),
    "a reserve above the price": (
        {"market": {"reserve": "3"}},
        "market.reserve: expected more than 0 and at most max_price",
    ),
    "a price of nothing": ({"market": {"reserve": "0"}}, "market.reserve: expected more than 0"),
    "a negative price": ({"market": {"max_price": "-1"}}, "market.max_price should be a positive number of ZEN"),
    "too many decimals": ({"market": {"reserve": "0." + "1" * 19}}, "more than 18 decimals"),
    "another token": ({"market": {"token": "USD"}}, "market.token: expected 'ZEN', 'credits' or an address"),
    "another storage": ({"checkpoint": {"storage": "s3"}}, "checkpoint.storage: expected 'ipfs'"),
    "no training": ({"training": None}, "training: missing key 'batch_size'"),
    "no learning rate for a built-in model": (
        {"training": {"learning_rate": None}},
        "training: missing key 'learning_rate'",
    ),
    "a model that is a list": ({"model": []}, "model: expected a mapping, got []"),
    "parts that do not divide a batch": (
        {"training": {"accumulate": 3}},
        "training.accumulate: 3 parts do not divide batch_size = 2",
    ),
    "text for a section": ({"limits": "fast"}, "limits: expected a mapping, got 'fast'"),
    "paths that are no list": ({"data": {"paths": "a.txt"}}, "data.paths: expected a list, got 'a.txt'"),
    "a depth of nothing": ({"limits": {"depth": 0}}, "limits.depth: expected 1 to 64, got 0"),
    "an audit of nothing": ({"limits": {"audit_bps": 199}}, "limits.audit_bps: expected 200 to 10000, got 199"),
    "another policy": (
        {"limits": {"policy": "rollback"}},
        "limits.policy: unknown policy 'rollback'; did you mean 'roll back'?",
    ),
    "a class that is none": (
        {"requirements": {"gpu_class": "datacentre"}},
        "requirements.gpu_class: unknown class 'datacentre'; classes are consumer",
    ),
    "a class of a list that is none": ({"requirements": {"gpu_class": ["consumer", "h100"]}}, "unknown class 'h100'"),
    "a number for a class": ({"requirements": {"gpu_class": 3}}, "requirements.gpu_class: expected a list, got 3"),
    "more memory than there is": ({"requirements": {"vram_gb": 65_536}}, "requirements.vram_gb: expected 0 to 65535"),
    "more hours than a day has": ({"requirements": {"hours": 25}}, "requirements.hours: expected 0 to 24, got 25"),
    "another tier": ({"requirements": {"tier": "golden"}}, "unknown tier 'golden'; did you mean 'gold'?"),
    "a region of no list": (
        {"requirements": {"region": "DE"}},
        "requirements.region: 'DE' is no region: expected AF (Africa)",
    ),
    "a country that is none": ({"requirements": {"region": "EU-1"}}, "'EU-1' is no region"),
    "yes for admitted": ({"requirements": {"admitted": "yes"}}, "requirements.admitted: expected true or false"),
    "memory in the wrong section": ({"limits": {"vram_gb": 4}}, "unknown key 'vram_gb'; it belongs to 'requirements'"),
    "depth in the wrong section": ({"training": {"depth": 4}}, "unknown key 'depth'; it belongs to 'limits'"),
    "a quorum above the slots": ({"training": {"quorum": 4}}, "training.quorum: expected 1 to 3, got 4"),
}


@pytest.mark.parametrize("name", WRONG)
def test_from_dict__mistake__is_refused_with_what_was_expected(name: str) -> None:
    changes, message = WRONG[name]
    with pytest.raises(JobError) as refusal:
        ComputeJob.from_dict(config(**changes))
    assert message in str(refusal.value)


def test_from_file__yaml_and_json__give_equal_jobs_and_errors_name_the_file(tmp_path: Path) -> None:
    import yaml

    (tmp_path / "job.yaml").write_text(yaml.safe_dump(config()))
    (tmp_path / "job.json").write_text(json.dumps(config()))
    one, other = (ComputeJob.from_file(tmp_path / name) for name in ("job.yaml", "job.json"))
    assert one == other
    assert one.data_paths() == [tmp_path / "text.txt"]
    for name, text in {"no.yaml": None, "bad.yaml": "a: [", "list.yaml": "[1]", "bin.yaml": b"\xff\x00"}.items():
        if text is not None:
            (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(JobError, match=name):
            ComputeJob.from_file(tmp_path / name)


def test_from_file__yaml_that_would_run_code__is_refused(tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text("model: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(JobError, match="not YAML"):
        ComputeJob.from_file(tmp_path / "evil.yaml")


@pytest.mark.parametrize(
    ("interval", "inner_steps", "rounds"), [(0, 10, 1), (5, 10, 1), (30, 10, 3), (31, 10, 4), (1000, 333, 4), (10**10, 1, 10_000)]
)  # fmt: skip
def test_checkpoint_config__counts_steps_and_keeps_the_first_round_that_ends_then(
    interval: int, inner_steps: int, rounds: int
) -> None:
    assert CheckpointConfig(interval=interval).every_rounds(inner_steps) == rounds


def test_checkpoint_config__of_python__is_the_jobs() -> None:
    sections = config()
    job = ComputeJob(
        sections["model"], sections["data"], sections["training"], 16, checkpoint_config=CheckpointConfig(25, "ipfs", 3)
    )
    assert (job.outline().redundancy, job.outline().keep_every) == (3, 3)


def test_from_file__a_number_with_an_exponent__is_one(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(config()).replace("0.001", "1e-3").replace('"25"', "2.5e1"))
    assert ComputeJob.from_file(tmp_path / "job.yaml").training.learning_rate == 0.001
    (tmp_path / "job.json").write_text(json.dumps(config(training={"learning_rate": 1e-06})))
    assert ComputeJob.from_file(tmp_path / "job.json").training.learning_rate == 1e-6


def test_the_demos_configuration__is_valid() -> None:
    job = ComputeJob.from_file(ROOT / "scripts" / "demo" / "demo.yaml")
    assert job.training.slots == 6
    assert 800_000 < job.profile.parameters < 1_200_000
