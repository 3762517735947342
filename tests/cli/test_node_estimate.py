"""`zoo node estimate`: open jobs or a file, with what this machine measured, or said, or might be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.config import from_dict, save
from tests.keepers.test_duties import LOT, TERMS, opening, view
from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute.amounts import WEI
from zoo_compute.chain import fees, snapshot
from zoo_compute.cli.context import Settings
from zoo_compute.spec.params import PRODUCTION, REFERENCE_FLOPS, lock_of

SLOTS = replace(LOT, reserve=2 * WEI, max_reserve=3 * WEI)
OPEN = opening(1_000, terms=replace(TERMS, flops=10**12, reserve=2 * WEI), lots={0: SLOTS, 1: LOT})
JOBS = {1: view(1_000), 2: replace(OPEN, job=2, token="0xC"), 3: replace(OPEN, job=3)}


@pytest.fixture
def home(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three jobs: one runs, one pays in another token, one is open and pays in ZEN."""
    chain = SimpleNamespace(
        params=PRODUCTION,
        w3=SimpleNamespace(eth=SimpleNamespace(max_priority_fee=2 * 10**9)),
        tasks=SimpleNamespace(job_count=lambda: 3),
        network=SimpleNamespace(contracts={"zen": "0xT"}),
    )
    monkeypatch.setattr(Settings, "chain", lambda self: chain)
    monkeypatch.setattr(snapshot, "read_job", lambda chain, number: JOBS[number])
    monkeypatch.setattr(fees, "next_base_fee", lambda w3: 8 * 10**9)
    folder = zoo.home / "node"
    made: dict[str, Any] = {"price": "1.5", "power_watts": 400.0, "power_price": "0.2", "capacity": 3}
    save(from_dict({"name": "alpha", "network": "net.json", "operator": 3, **made}, folder))
    return folder


def only_job(zoo: Zoo, home: Path, *options: str) -> dict[str, Any]:
    [job] = zoo.json("node", "estimate", "--home", str(home), *options)["jobs"]
    return job


def test_an_open_job_in_zen__is_estimated_with_the_folders_price_and_power(zoo: Zoo, home: Path) -> None:
    job = only_job(zoo, home, "--slot-s", "90")
    assert (job["job"], job["units"], job["slot_s"], job["slot_s_is"]) == (3, 3, 90, "you said")
    assert (job["least_price"], job["most_price"]) == (str(3 * WEI // 2), str(2 * WEI))
    assert job["gas"] == str(635_558 * 10**10 * 3_000)  # at 8 gwei and a tip of 2
    assert job["power"] == str(400 * 90 * 3 * 4 * WEI // 5 // 3_600_000)
    assert job["capital"] == str(3 * lock_of(2 * WEI, 500))
    assert only_job(zoo, home, "--slots", "5")["units"] == 5
    assert only_job(zoo, home, "--slots", "99")["units"] == 6


@pytest.mark.parametrize(
    ("measured", "seconds", "how"),
    [
        ({"3": [7.5, 10**12]}, 7.5, "measured"),
        ({"1": [2.0, 10**11], "9": [900.0, 10**14]}, 20.0, "by the speed in job 1"),
        ({}, round(10**12 / REFERENCE_FLOPS, 3), "of a "),
    ],
    ids=["this job", "the nearest job", "none"],
)
def test_seconds_of_a_slot_round__are_measured_or_follow_from_the_nearest_job(
    zoo: Zoo, home: Path, measured: dict, seconds: float, how: str
) -> None:
    (home / "status.json").write_text(json.dumps({"measured": measured}))
    job = only_job(zoo, home)
    assert job["slot_s"] == seconds
    assert job["slot_s_is"].startswith(how)


def test_people__see_a_row_for_each_job_and_what_is_not_known(zoo: Zoo, home: Path) -> None:
    _, out, _ = zoo.run("node", "estimate", "--home", str(home), "--slot-s", "90")
    header, row = out.splitlines()
    assert "1.5 to 2" in row
    assert header.split()[:2] == ["job", "a"]
    _, out, _ = zoo.run("node", "estimate", "--home", str(home.parent / "nowhere"))
    assert "without operator.json: price 1 ZEN, no power" in out


def test_a_file__is_estimated_before_anybody_posts_it(zoo: Zoo, home: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("to be or not to be, " * 400)
    job = tmp_path / "job.yaml"
    text = "model: {{layers: 1, heads: 2, width: 16, context: 16}}\ndata: {{path: {}}}\ntraining: {{batch_size: 2, inner_steps: 2, rounds: 3, slots: 2, learning_rate: 0.001}}\n"
    job.write_text(text.format(tmp_path / "text.txt") + "market: {reserve: 2, max_price: 3, aggregator_max_price: 1}\n")
    estimated = only_job(zoo, home, str(job), "--slot-s", "10")
    assert (estimated["job"], estimated["units"], estimated["most_price"]) == (None, 2, str(2 * WEI))
