"""The supervisor: what ends is started again, what is held stays down, nothing outlives it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from keepers.config import OperatorConfig, from_dict
from keepers.processes import daemon as daemon_module
from keepers.processes.daemon import Daemon, commands
from tests.support.waiting import wait_until
from zoo_compute.errors import ConfigError

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def config(tmp_path: Path) -> OperatorConfig:
    return from_dict({"name": "alpha", "network": "network.json", "operator": 1, "workers": 2}, tmp_path)


@pytest.fixture
def daemon(config: OperatorConfig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(daemon_module, "commands", lambda _: {"keeper": SLEEPER, "worker-0": SLEEPER})
    monkeypatch.setattr(daemon_module, "FIRST_BACKOFF_S", 0.0)
    made = Daemon(config)
    made.start()
    yield made
    made.stop()


def until(condition) -> None:
    wait_until("it", condition)


def test_a_killed_process__is_started_again(daemon: Daemon):
    child = daemon.children["keeper"]
    child.backoff_s = 0.0
    old = daemon.kill("keeper")
    until(lambda: daemon.poll() or child.running)
    assert child.process is not None
    assert child.process.pid != old


def test_a_held_process__stays_down_until_it_is_resumed(daemon: Daemon):
    child = daemon.children["worker-0"]
    child.backoff_s = 0.0
    daemon.kill("worker-0", hold=True)
    daemon.poll()
    assert not child.running
    child.backoff_s = 60.0  # as of a process that ended often
    daemon.resume("worker-0")
    until(lambda: daemon.poll() or child.running)


def test_a_process_that_ends_at_once__is_started_again_ever_later(daemon: Daemon):
    child = daemon.children["keeper"]
    child.command = [sys.executable, "-c", ""]
    child.backoff_s = 0.05
    daemon.kill("keeper")
    until(lambda: daemon.poll() or child.backoff_s >= 0.2)


def test_stopping__ends_every_process(daemon: Daemon):
    pids = [child.process.pid for child in daemon.children.values() if child.process]
    daemon.stop()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_operator_that_runs__is_not_started_again__and_runs_on(daemon: Daemon, config: OperatorConfig):
    again = Daemon(config)
    with pytest.raises(ConfigError, match=r"keeper of this operator runs already"):
        again.start()
    again.stop()
    assert not again.children
    assert all(child.running for child in daemon.children.values())
    daemon.stop()
    again.start()
    assert list(again.children) == ["keeper", "worker-0"]
    again.stop()


def test_parts_of_an_operator__run_beside_each_other(config: OperatorConfig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(daemon_module, "commands", lambda _: {"keeper": SLEEPER, "worker-0": SLEEPER})
    parts = [Daemon(config, only=part) for part in ("keeper", "worker")]
    for part in parts:
        part.start()
    assert [list(part.children) for part in parts] == [["keeper"], ["worker-0"]]
    for part in parts:
        part.stop()


DISPUTES = ("worker-disputes-0", "worker-disputes-1")


def test_the_parts__are_broker_gateway_keeper_and_workers_in_this_order(config: OperatorConfig):
    assert list(commands(config)) == ["broker", "gateway", "keeper", "worker-0", "worker-1", *DISPUTES, "spare-0"]


def test_parts_of_others__are_not_started(tmp_path: Path):
    raw = {
        "name": "a",
        "network": "n",
        "operator": 1,
        "broker": "redis://127.0.0.1:6379/0",
        "store": "kubo:http://127.0.0.1:5001",
    }
    config = from_dict(raw, tmp_path)
    assert list(commands(config)) == ["keeper", "worker-0", *DISPUTES, "spare-0"]
    with pytest.raises(ConfigError, match="no gateway of its own"):
        Daemon(config, only="gateway").start()


def test_worker_processes__are_told_no_key_and_no_passphrase(config: OperatorConfig):
    assert not any("passphrase" in part or "hot" in part for part in commands(config)["worker-0"])


def test_the_leases_of_a_killed_worker__are_given_up_when_its_death_is_seen(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
):
    given_up: list[tuple[str, bool, bool]] = []
    monkeypatch.setattr(daemon_module.broker, "connect", lambda *_, **__: None)

    def log(_: object, __: object, worker: str) -> SimpleNamespace:
        return SimpleNamespace(
            release_leases=lambda *, crashed, died, beside: given_up.append((worker, crashed, bool(beside)))
        )

    monkeypatch.setattr(daemon_module, "WorkLog", log)
    monkeypatch.setitem(daemon.children, "worker-1", daemon.children["worker-0"])
    for name, blow in (("keeper", signal.SIGKILL), ("worker-0", signal.SIGKILL), ("worker-0", signal.SIGILL)):
        child = daemon.children[name]
        child.backoff_s = 0.0
        assert child.process is not None
        child.process.send_signal(blow)
        child.process.wait()
        until(lambda: daemon.poll() or all(child.running for child in daemon.children.values()))
    assert given_up == [("alpha-0", False, True), ("alpha-0", True, False)], (
        "only an illegal instruction is the fault of kernels; only a kill may be for another's memory"
    )


SECRETS = {
    "ZOO_PASSPHRASE": "p", "ZOO_PASSPHRASE_FILE": "/p", "ZOO_ACCOUNT": "owner", "ZOO_API_KEY": "k", "AWS_SECRET_ACCESS_KEY": "s",
    "DB_PASSWORD": "p", "GITHUB_TOKEN": "t", "SSH_AUTH_SOCK": "/s", "wallet_mnemonic": "m",
}  # fmt: skip
PLAIN = {
    "PATH": "/bin",
    "HOME": "/root",
    "ZOO_HOME": "/zoo",
    "CUDA_VISIBLE_DEVICES": "0",
    "OMP_NUM_THREADS": "2",
    "SSL_CERT_FILE": "/c",
}


@pytest.mark.parametrize("name", ["broker", "gateway", "worker-0", "worker-disputes-0", "spare-0"])
def test_only_the_keepers_process__gets_what_may_be_secret(name: str) -> None:
    assert daemon_module.inherited(name, SECRETS | PLAIN) == PLAIN
    assert daemon_module.inherited("keeper", SECRETS | PLAIN) == SECRETS | PLAIN


def test_a_worker_that_is_started__has_no_secret_in_its_environment(
    config: OperatorConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        daemon_module, "commands", lambda _: {"keeper": SLEEPER, "worker-0": SLEEPER, "gateway": SLEEPER}
    )
    monkeypatch.setenv("ZOO_PASSPHRASE", "the words")
    daemon = Daemon(config)
    daemon.start()
    try:
        has = {name: b"the words" in environment(child) for name, child in daemon.children.items()}
    finally:
        daemon.stop()
    assert has == {"keeper": True, "worker-0": False, "gateway": False}


def environment(child: daemon_module.SupervisedProcess) -> bytes:
    assert child.process is not None
    return Path(f"/proc/{child.process.pid}/environ").read_bytes()
