"""`zoo devnet --nodes N` in one terminal, a job in another: no exports, paid, and nothing is left when it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import HANG_S
from zoo_compute.subprocesses import tied_to_parent

pytestmark = [pytest.mark.integration, pytest.mark.network]

ZOO = [sys.executable, "-m", "zoo_compute.cli.main"]
JOB: dict[str, Any] = {
    "model": {"layers": 1, "heads": 2, "width": 16, "context": 16},
    "training": {"learning_rate": 0.01, "batch_size": 4, "inner_steps": 4, "rounds": 1, "slots": 2},
    "limits": {"reexecute_s": 3},
    "data": {"heldout": 4},
}
TOM = "0x00000000000000000000000000000000000070aa"
START_S, STOP_S = 2 * HANG_S, HANG_S


class Terminal:
    """A folder and an environment in which nothing is set but where this person's files lie."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("ZOO_")}
        self.environ |= {"ZOO_HOME": str(folder / "home")}

    def zoo(self, *arguments: str) -> dict[str, Any]:
        command = [*ZOO, *arguments, "--json"]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=2 * HANG_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    @contextmanager
    def devnet(self, nodes: int) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
        """The process, and what it told once it was ready."""
        log = (self.folder / "devnet.log").open("a")
        process = subprocess.Popen(
            [*ZOO, "devnet", "--nodes", str(nodes), "--json"], cwd=self.folder, env=self.environ,
            stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=tied_to_parent(),
        )  # fmt: skip
        stopper = threading.Timer(START_S, process.terminate)
        try:
            assert process.stdout is not None
            stopper.start()
            line = process.stdout.readline()
            stopper.cancel()
            assert line, (self.folder / "devnet.log").read_text()
            yield process, json.loads(line)
        finally:
            stopper.cancel()
            if process.poll() is None:
                process.kill()
            process.communicate()
            log.close()


def descendants(pid: int) -> set[int]:
    """Every process below this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except FileNotFoundError:
                continue
    started, fresh = set[int](), {pid}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh} - started
        started |= fresh
    return started


def left_of(pids: set[int], timeout_s: float = STOP_S) -> set[int]:
    """Those that still run when the time is over; zombies do not count."""
    deadline = time.monotonic() + timeout_s
    while True:
        alive = {pid for pid in pids if _state(pid) not in ("", "Z")}
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.1)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    started = Terminal(tmp_path_factory.mktemp("person"))
    (started.folder / "job.yaml").write_text(json.dumps(JOB))
    (started.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 400)
    return started


def test_a_job__posted_without_any_export_is_trained_and_paid_and_nothing_outlives_ctrl_c(terminal: Terminal) -> None:
    with terminal.devnet(1) as (process, output):
        roles = {node["name"]: node["roles"] for node in output["nodes"]}
        own = {"node-1": "provider", "aggregator": "aggregator", "verifier": "verifier"}
        assert roles == {name: [role, "custodian"] for name, role in own.items()}
        assert terminal.zoo("doctor")["ok"]
        funded = terminal.zoo("account", "fund", TOM, "--zen", "12.5", "--coin", "2")
        assert funded == {"address": TOM, "coin": str(2 * 10**18), "zen": str(125 * 10**17)}
        trained = terminal.zoo("train", "job.yaml", "--data", "text.txt", "--max-budget", "50")
        assert (trained["progress"]["state"], trained["progress"]["nodes"]) == ("ended", [1])
        settled = terminal.zoo("job", "watch", "1", "--settled")
        assert (settled["closed"], settled["pending"], settled["due"]) == (True, 0, "0")
        assert int(settled["spent"]) > 0
        assert terminal.zoo("job", "result", "1", "--out", "model.safetensors")["final"] is True
        checked = terminal.zoo("verify", "1", "--all")["checked"]
        assert [each["work"] for each in checked] == ["aggregation", "slot-round", "slot-round"]
        assert all(each["agrees"] for each in checked)
        processes = descendants(process.pid)
        assert len(processes) >= 3 * 4, "of each operator: broker, gateway, keeper, workers"
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_S) == 0
        assert left_of(processes) == set()
    assert "its state is kept" in (terminal.folder / "devnet.log").read_text()


def test_the_next_start__has_the_same_operators_and_a_kill_ends_them_too(terminal: Terminal) -> None:
    with terminal.devnet(1) as (process, output):
        assert [node["operator"] for node in output["nodes"]] == [1, 2, 3]
        assert {node["name"] for node in output["nodes"]} == {"node-1", "aggregator", "verifier"}
        assert [job["state"] for job in terminal.zoo("job", "list")["jobs"]] == ["ended"]
        assert terminal.zoo("node", "show", "--operator", "1")["endpoint"] == output["nodes"][0]["endpoint"]
        processes = descendants(process.pid)
        process.kill()
        assert left_of(processes) == set()
    refused = subprocess.run(
        [*ZOO, "job", "list"], cwd=terminal.folder, env=terminal.environ, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "is not running" in refused.stderr
    assert "zoo devnet --nodes 3" in refused.stderr
