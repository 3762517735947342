"""What an operator needs is said at the start, and by `status` until it is mended."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.cli import node as keepers_cli
from keepers.config import from_dict, save
from tests.operators.test_needs import FACTS, SERVED, SETUP, seen
from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute.operators import readiness as conditions
from zoo_compute.operators.needs import Reachability
from zoo_compute.operators.readiness import NodeInspection
from zoo_compute.store.durable_files import locked

BANDWIDTH = {
    "epoch": 9, "received_bytes": 7_000, "receipts": 2, "receipts_bytes": 15 * 10**8, "redeemed_bytes": 12 * 10**8,
}  # fmt: skip
NO_COLLATERAL = {"what": "no collateral", "do": "zoo node deposit 2500"}


@pytest.fixture
def node(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An operator's folder whose condition is set by the test: `node(facts=..., reach=...)`."""
    folder = zoo.home / "node"
    save(from_dict({"name": "alpha", "network": "net.json", "operator": 3}, folder))

    def sets(facts: Any = FACTS, reach: Reachability | None = SERVED, **setup: Any) -> Path:
        def condition(at: Path, _: object) -> NodeInspection:
            return NodeInspection(at, {}, replace(SETUP, **setup), facts)

        monkeypatch.setattr(conditions, "inspect_node", condition)
        monkeypatch.setattr(keepers_cli, "inspect_node", condition)
        monkeypatch.setattr(NodeInspection, "try_endpoint", lambda self: setattr(self, "reach", reach))
        return folder

    return sets


@pytest.fixture
def daemons(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A double of the processes: notes starts and stops, and interrupts at the first look."""
    noted: list[str] = []

    def poll() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def daemon(*_: object, **__: object) -> Any:
        return SimpleNamespace(
            start=lambda: noted.append("start"), stop=lambda: noted.append("stop"), poll=poll, children={}
        )

    monkeypatch.setattr(keepers_cli, "Daemon", daemon)
    monkeypatch.setattr(keepers_cli, "wait_for_gateway", lambda *_: None)
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    yield noted
    for name, handler in before.items():
        signal.signal(name, handler)


def test_status__of_either_name__shows_the_last_look_and_every_need(zoo: Zoo, node: Any) -> None:
    folder = node(seen(collateral={}))
    (folder / "status.json").write_text(
        json.dumps(
            {
                "block": 7,
                "jobs": {"1": "RUNNING"},
                "not_bidding": {"2": "its slots are too heavy"},
                "memory": {"1": "needs 9.1 GB"},
                "trouble": ["job 1: the disk is full"],
                "bandwidth": BANDWIDTH,
                "workers": ["alpha-0", "alpha-2-0"],
            }
        )
    )
    for group in ("node", "keeper"):
        status = zoo.json(group, "status")
        assert status == {
            "block": 7,
            "jobs": {"1": "RUNNING"},
            "not_bidding": {"2": "its slots are too heavy"},
            "memory": {"1": "needs 9.1 GB"},
            "trouble": ["job 1: the disk is full"],
            "bandwidth": BANDWIDTH,
            "workers": ["alpha-0", "alpha-2-0"],
            "needs": [NO_COLLATERAL],
        }
        lines = zoo.run(group, "status")[1].splitlines()
        assert lines[1:] == [
            "workers (2): alpha-0, alpha-2-0", "job 1: RUNNING", "job 2: cannot bid: its slots are too heavy",
            "job 1: needs 9.1 GB",
            "bandwidth, epoch 9: 1.5 GB served by 2 receipts, 1.2 GB redeemed; 7 kB received and signed for", "needs you: job 1: the disk is full", f"endpoint: {SERVED}", "needs you: no collateral: zoo node deposit 2500",
        ]  # fmt: skip


def test_status__of_a_healthy_node_without_a_job__says_that_it_waits(zoo: Zoo, node: Any) -> None:
    (node() / "status.json").write_text(json.dumps({"block": 7, "jobs": {}, "trouble": []}))
    assert "no job: the keeper waits for one that it can bid for" in zoo.run("node", "status")[1].splitlines()


def test_status__before_the_first_start__says_that_nothing_runs_and_asks_no_peer(zoo: Zoo, node: Any) -> None:
    node(running=False)
    status = zoo.json("node", "status")
    assert (status["block"], status["needs"]) == (None, [{"what": "the node does not run", "do": "zoo node start"}])
    assert "endpoint" not in zoo.run("node", "status")[1]


def test_status__without_a_folder__says_how_to_get_one(zoo: Zoo) -> None:
    code, _, err = zoo.run("node", "status")
    assert (code, "zoo node register" in err) == (1, True)


def test_start__says_each_need_once_and_runs_on(zoo: Zoo, node: Any, daemons: list[str]) -> None:
    node(replace(seen(collateral={}, stake=1), hot_coin=0), Reachability(False, 2, SETUP.endpoint))
    code, out, err = zoo.run("node", "start")
    assert (code, daemons) == (0, ["start", "stop"])
    assert "alpha runs as provider" in out
    for need in (
        "no collateral: zoo node deposit 2500",
        "zoo node stake",
        "no coin for gas",
        "2 peers could not fetch",
    ):
        assert err.count(need) == 1
    assert zoo.json("start")["needs"][1] == NO_COLLATERAL


def test_start__where_the_chain_does_not_answer__says_so_and_runs_on(zoo: Zoo, node: Any, daemons: list[str]) -> None:
    node(None)
    _, _, err = zoo.run("node", "start")
    assert (daemons, "needs you: no RPC of the network answers" in err) == (["start", "stop"], True)


def test_start__with_what_no_keeper_can_work_with__starts_nothing(zoo: Zoo, node: Any, daemons: list[str]) -> None:
    node(replace(FACTS, view=None))
    code, _, err = zoo.run("node", "start")
    assert (code, daemons) == (1, [])
    assert "this network has no operator 3" in err
    assert "zoo node register" in err


def test_start__of_workers_alone__asks_neither_chain_nor_peers(
    zoo: Zoo, node: Any, daemons: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node()
    monkeypatch.setattr(keepers_cli, "inspect_node", lambda *_: pytest.fail("a worker's machine has no keys"))
    assert zoo.json("node", "start", "--only", "worker")["needs"] == []


def test_a_node_runs__while_its_daemon_has_the_keepers_lock(tmp_path: Path) -> None:
    assert conditions.is_keeper_running(tmp_path) is False
    (tmp_path / "locks").mkdir()
    with locked(tmp_path / "locks" / "keeper", conditions.fcntl.LOCK_EX):
        assert conditions.is_keeper_running(tmp_path) is True
    assert conditions.is_keeper_running(tmp_path) is False
