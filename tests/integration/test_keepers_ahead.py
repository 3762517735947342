"""Whole networks of real processes on shaped links, whose holders make the next checkpoint before it is posted."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import pytest

from benchmarks.lab import Link, laboratory
from benchmarks.network import utilisation
from benchmarks.network.utilisation import AGGREGATOR, SUBMITTER, ShapedNetwork, plans
from keepers.config import OperatorConfig
from keepers.processes.daemon import commands
from keepers.processes.local_network import OperatorPlan
from tests.support.local_jobs import submit
from tests.support.waiting import HANG_S
from zoo_compute.chain.snapshot import read_job

pytestmark = [pytest.mark.integration, pytest.mark.network]


def options(**settings: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    utilisation.add_options(parser)
    parsed = parser.parse_args([])
    small = {"layers": 1, "width": 16, "inner_steps": 4, "rounds": 3, "step_s": 0.1}
    for name, value in (small | settings).items():
        setattr(parsed, name, value)
    return parsed


def test_a_network__goes_on_before_its_checkpoints_are_posted__and_trains_every_round_once(tmp_path: Path):
    settings = options()
    measured = utilisation.run(settings, tmp_path)
    for worker_events in measured.worker_events:
        assert sorted(e["round"] for e in worker_events if e["event"] == "train") == [0, 1, 2]
        assert sorted(e["round"] for e in worker_events if e["event"] == "advance") == [0, 1]
    assert all(measured.moved[f"node{index}"] > measured.update_bytes for index in range(settings.nodes))
    logs = "".join(path.read_text(errors="replace") for path in tmp_path.glob("node*/logs/*.log"))
    assert "as made here" not in logs
    assert "is abandoned" not in logs
    assert 0 < utilisation.reckon(measured, settings)["utilisation"] < 1


class Deceived(ShapedNetwork):
    """A network whose aggregator posts another checkpoint than follows."""

    def command_overrides(self, plan: OperatorPlan, config: OperatorConfig) -> dict[str, list[str]]:
        measured = super().command_overrides(plan, config)
        if plan.name == AGGREGATOR:
            command = commands(config)["worker-0"]
            rest = command[command.index("worker") + 1 :]
            measured["worker-0"] = [sys.executable, "-m", "tests.support.liars.lying_aggregator", *rest]
        return measured


def test_a_checkpoint_that_differs__is_told__and_what_was_begun_from_mine_is_abandoned(tmp_path: Path):
    settings = options(step_s=3.0)
    link = Link.of_round_trip(100, 0.05)
    names = [*(plan.name for plan in plans(settings.nodes)), SUBMITTER]
    with (
        laboratory(dict.fromkeys(names, link), "relay") as lab,
        Deceived(tmp_path, plans(settings.nodes), lab=lab, step_s=dict.fromkeys(names, settings.step_s)) as network,
    ):
        job = submit(network, utilisation.job(settings))
        deadline = time.monotonic() + 2 * HANG_S
        while True:
            network.poll()
            view = read_job(network.devnet.chain, job)
            again = [commit for commit in view.commits if commit.round == 1]
            if len(again) == settings.nodes:
                break
            assert time.monotonic() < deadline, f"round 1 was not committed; logs in {tmp_path}"
            time.sleep(0.3)
        assert {commit.start_root for commit in again} == {view.checkpoints[0].root}
        logs = "".join(path.read_text(errors="replace") for path in tmp_path.glob("node*/logs/*.log"))
        assert logs.count("as made here") == settings.nodes
        assert "is abandoned" in logs
