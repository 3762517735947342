"""A spare becomes the worker that died, and nothing is left of one that nobody needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepers.config import OperatorConfig, from_dict
from keepers.processes import daemon as daemon_module
from keepers.processes import spare
from keepers.processes.daemon import Daemon, SupervisedProcess, commands
from tests.keepers.test_daemon import SLEEPER, until
from tests.support.waiting import HANG_S

PUPIL = """
import os, sys, time

def main():
    print("a pupil", sys.argv[1:], os.getpid(), "celery.apps.worker" in sys.modules, repr(sys.stdin.read()), flush=True)
    time.sleep(60)

if __name__ == "__main__":
    main()
"""
COMMAND = [sys.executable, "-m", "pupil", "--name", "0"]


@pytest.fixture
def config(tmp_path: Path) -> OperatorConfig:
    return from_dict({"name": "alpha", "network": "network.json", "operator": 1}, tmp_path)


@pytest.fixture
def daemon(config: OperatorConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pupil.py").write_text(PUPIL)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.getcwd()}")
    monkeypatch.setattr(daemon_module, "FIRST_BACKOFF_S", 0.0)
    monkeypatch.setattr(Daemon, "_give_up_leases", lambda *_, **__: None)
    parts = {"worker-0": COMMAND, "worker-disputes": COMMAND, "spare-0": spare.COMMAND}
    monkeypatch.setattr(daemon_module, "commands", lambda _: parts)
    made = Daemon(config)
    made.start()
    for child in made.children.values():
        child.backoff_s = 0.0
    yield made
    made.stop()


def pid(child: SupervisedProcess) -> int:
    assert child.process is not None
    return child.process.pid


def said(child: SupervisedProcess, what: str) -> bool:
    return what in child.log_path.read_text()


def is_warm(child: SupervisedProcess) -> bool:
    return said(child, f"ready as process {pid(child)}")


def test_a_killed_worker__is_replaced_by_the_spare__and_the_spare_by_another(daemon: Daemon):
    worker, waiting = daemon.children["worker-0"], daemon.children["spare-0"]
    until(lambda: is_warm(waiting))
    warm = pid(waiting)
    daemon.kill("worker-0")
    daemon.poll()
    assert pid(worker) == warm
    until(
        lambda: said(worker, f"a pupil ['--name', '0'] {warm} True ''")
    )  # its arguments, the modules loaded, an empty input
    assert waiting.running
    assert pid(waiting) != warm
    until(lambda: is_warm(waiting))
    daemon.kill("worker-0")
    daemon.poll()
    assert worker.running
    assert pid(worker) != warm


def test_a_spare_that_still_imports__becomes_the_worker_when_it_has(daemon: Daemon):
    worker, young = daemon.children["worker-0"], pid(daemon.children["spare-0"])
    daemon.kill("worker-0")
    daemon.poll()
    assert pid(worker) == young
    until(lambda: said(worker, f"{young} True"))


def test_a_killed_spare__is_replaced__and_a_worker_does_not_wait_for_it(daemon: Daemon):
    worker, waiting = daemon.children["worker-0"], daemon.children["spare-0"]
    dead = daemon.kill("spare-0")
    daemon.kill("worker-0")
    until(lambda: daemon.poll() or (worker.running and waiting.running))
    assert dead not in (pid(worker), pid(waiting))
    until(lambda: said(worker, f"{pid(worker)} False"))


def test_a_spare_that_dies_while_it_is_told__costs_the_worker_nothing(daemon: Daemon, monkeypatch: pytest.MonkeyPatch):
    def gone(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(spare, "assign", gone)
    daemon.kill("worker-0")
    daemon.poll()
    assert daemon.children["worker-0"].running
    assert pid(daemon.children["worker-0"]) != pid(daemon.children["spare-0"])


def test_the_worker_of_moves__does_without_the_memory_of_a_spare(daemon: Daemon):
    waiting = pid(daemon.children["spare-0"])
    daemon.kill("worker-disputes")
    until(lambda: daemon.poll() or daemon.children["worker-disputes"].running)
    assert pid(daemon.children["spare-0"]) == waiting


def test_stopping__ends_the_spare_and_what_one_became(daemon: Daemon):
    daemon.kill("worker-0")
    daemon.poll()
    pids = [pid(daemon.children[name]) for name in ("worker-0", "spare-0")]
    daemon.stop()
    for each in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(each, 0)


def test_a_spare__ends_with_its_input():
    waiting = subprocess.Popen(spare.COMMAND, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    waiting.communicate(timeout=HANG_S)
    assert waiting.returncode == 0


ALONE = """
import sys, time
from pathlib import Path
from keepers.processes import daemon, spare
from keepers.config import from_dict

daemon.commands = lambda _: {"spare-0": spare.COMMAND}
made = daemon.Daemon(from_dict({"name": "alpha", "network": "n", "operator": 1}, Path(sys.argv[1])))
made.start()
print(made.children["spare-0"].process.pid, flush=True)
time.sleep(60)
"""


def is_gone(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_spare__does_not_outlive_a_daemon_that_was_killed(tmp_path: Path):
    daemon = subprocess.Popen([sys.executable, "-c", ALONE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert daemon.stdout is not None
    waiting = int(daemon.stdout.readline())
    assert not is_gone(waiting)
    daemon.kill()
    daemon.communicate()
    until(lambda: is_gone(waiting))


def test_spares__are_as_many_as_the_operator_says__and_of_the_workers_part(config: OperatorConfig, tmp_path: Path):
    assert [name for name in commands(config) if name.startswith("spare")] == ["spare-0"]
    none = from_dict({"name": "alpha", "network": "n", "operator": 1, "spares": 0}, tmp_path)
    assert not any(name.startswith("spare") for name in commands(none))
    assert {name for name in commands(config) if daemon_module.component_of(name) == "worker"} == {
        "worker-0",
        "worker-disputes-0",
        "worker-disputes-1",
        "spare-0",
    }


def test_another_program_than_this_python__is_not_taken_over_by_a_spare():
    assert spare.can_become(COMMAND)
    assert not spare.can_become(SLEEPER)
    assert not spare.can_become(["/usr/bin/env", "-m", "pupil"])
