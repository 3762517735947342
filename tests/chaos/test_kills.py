"""Every role is killed once in the middle of a job: it ends, and every balance is as without the kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepers.processes.local_network import LocalNetwork
from tests.support.local_jobs import PLANS, Finished, follow, submit
from zoo_compute.chain.events import Event
from zoo_compute.chain.views import JobState, JobView

pytestmark = pytest.mark.chaos

# (round, operator, process): each is killed with SIGKILL while that round runs, and started again by its daemon.
KILLS = [
    (0, "alpha", "keeper"),
    (0, "alpha", "worker-0"),
    (1, "beta", "broker"),
    (1, "delta", "keeper"),
    (1, "gamma", "gateway"),
    (2, "delta", "worker-0"),
    (2, "epsilon", "keeper"),
    (2, "epsilon", "worker-0"),
]


def run(folder: Path, kills: list[tuple[int, str, str]]) -> tuple[Finished, list[tuple[int, str, str]]]:
    left, fired = list(kills), []
    with LocalNetwork(folder, PLANS) as network:

        def disturb(view: JobView, events: list[Event]) -> None:
            if view.state != JobState.RUNNING or view.run is None:
                return
            for kill in [k for k in left if k[0] <= view.run.round]:
                network.daemons[kill[1]].kill(kill[2])
                left.remove(kill)
                fired.append(kill)

        return follow(network, submit(network), disturb=disturb), fired


def test_every_role_killed_once__changes_no_balance_and_no_bit(tmp_path: Path):
    calm, none = run(tmp_path / "calm", [])
    killed, fired = run(tmp_path / "killed", KILLS)
    assert none == []
    assert sorted(fired) == sorted(KILLS)
    assert killed.balances() == calm.balances()
    assert killed.view.checkpoint_roots == calm.view.checkpoint_roots
    assert killed.view.checkpoint_cids == calm.view.checkpoint_cids
