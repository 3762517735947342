"""A loop that ends begins again; a keeper that hangs is ended and started again; everything is counted."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepers.config import OperatorConfig, from_dict
from keepers.monitoring import lanes as lanes_module
from keepers.monitoring import metrics
from keepers.monitoring.lanes import Lanes
from keepers.monitoring.server import Monitor, get
from keepers.processes import daemon as daemon_module
from keepers.processes import watchdog as watchdog_module
from keepers.processes.daemon import Daemon
from keepers.processes.keeper_process import health_of
from keepers.processes.watchdog import SILENT_S, Watchdog
from tests.support.waiting import wait_until
from zoo_compute.errors import ConfigError
from zoo_compute.subprocesses import free_port

# A keeper whose loop makes progress until a file is there; the real lanes, server and health.
HANGS = """
import sys, time
from pathlib import Path
from keepers.monitoring import metrics
from keepers.monitoring.lanes import Lanes
from keepers.monitoring.logs import configure_logging
from keepers.monitoring.server import serve_daemon
from keepers.processes.keeper_process import health_of
configure_logging()
lanes, trap = Lanes(), Path(sys.argv[1])
def waits_for_an_rpc_that_never_ends_its_answer():
    while trap.exists():
        time.sleep(0.05)
def loop(progressed):
    while True:
        progressed()
        time.sleep(0.05)
        waits_for_an_rpc_that_never_ends_its_answer()
metrics.HEAD_BLOCK.set(7)
serve_daemon(metrics.KEEPER, lambda: health_of(lanes, 1.0))
lanes.start("looks", loop)
time.sleep(600)
"""
# A process that stops answering altogether, as one whose interpreter is blocked.
MUTE = "import time; time.sleep(600)"


def test_a_loop_that_ends_with_an_error__is_counted_and_begins_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lanes_module, "RESTART_S", 0.0)
    lanes, begun = Lanes(), list[int]()

    def loop(progressed: lanes_module.Progressed) -> None:
        begun.append(1)
        if len(begun) < 3:
            raise ValueError("rate limited")

    lanes.start("glance", loop).join()
    assert (len(begun), lanes.failures) == (3, {"glance": 2})
    assert "glance ended; it begins again" in caplog.text


def test_a_loop__hangs_from_its_last_progress_on() -> None:
    now = [100.0]
    lanes = Lanes(lambda: now[0])
    progressed, _ = lanes.begin("looks"), lanes.begin("answering")
    now[0] = 160.0
    progressed()
    assert lanes.hung(60.0) == []
    now[0] = 160.1
    assert lanes.hung(60.0) == ["answering"]
    assert health_of(lanes, 60.0)["ok"] is False
    assert health_of(lanes, 0.0) == {"ok": True, "hung": [], "sends": True, "idle_s": {"looks": 0.1, "answering": 60.1}}


@pytest.fixture
def config(tmp_path: Path) -> OperatorConfig:
    raw = {"name": "alpha", "network": "n", "operator": 1, "metrics_port": free_port()}
    return from_dict(raw, tmp_path)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    return tmp_path / "trap"


@pytest.fixture
def daemon(config: OperatorConfig, trap: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    keeper = [sys.executable, "-c", HANGS, str(trap)]
    monkeypatch.setattr(
        daemon_module, "commands", lambda _: {"keeper": keeper, "worker-0": [sys.executable, "-c", MUTE]}
    )
    monkeypatch.setattr(daemon_module, "FIRST_BACKOFF_S", 0.0)
    monkeypatch.setattr(watchdog_module, "ASK_EVERY_S", 0.1)
    made = Daemon(config)
    made.start()
    yield made
    made.stop()


def restarts(why: str) -> float:
    return float(metrics.DAEMON.get_sample_value("zoo_process_restarts_total", {"process": "keeper", "why": why}) or 0)


def page(config: OperatorConfig, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{config.metrics_port}{path}", timeout=30) as answer:
        return str(answer.read().decode())


def responds(config: OperatorConfig) -> bool:
    return 'zoo_process_responds{process="keeper"} 1.0' in page(config, "/metrics")


def test_a_keeper_that_hangs__is_ended_and_started_again_and_its_log_says_where(
    daemon: Daemon, config: OperatorConfig, trap: Path
) -> None:
    child = daemon.children["keeper"]
    child.backoff_s = 0.0
    wait_until("the keeper's first answer", lambda: daemon.poll() or responds(config))
    first, before = child.process, restarts("hung")
    assert page(config, "/health").startswith('{"ok": true')
    trap.touch()
    wait_until("the restart", lambda: daemon.poll() or child.process is not first)
    assert restarts("hung") == before + 1
    assert "waits_for_an_rpc_that_never_ends_its_answer" in child.log_path.read_text()
    trap.unlink()
    child.backoff_s = 0.0
    wait_until(
        "its recovery", lambda: daemon.poll() or (responds(config) and page(config, "/health")[:11] == '{"ok": true')
    )
    assert daemon.children["worker-0"].running, "a worker that says nothing may compute for hours"


def test_one_answer__has_the_metrics_of_every_process(daemon: Daemon, config: OperatorConfig) -> None:
    wait_until("the keeper's first answer", lambda: responds(config))
    daemon.poll()
    text = page(config, "/metrics")
    assert 'zoo_head_block{process="keeper"} 7.0' in text
    assert 'zoo_process_up{process="worker-0"} 1.0' in text
    assert 'process_resident_memory_bytes{process="daemon"}' in text
    assert 'process_resident_memory_bytes{process="keeper"}' in text
    assert 'zoo_hot_coin{process="keeper"} NaN' in text, "what nobody measured is not zero"
    assert text.count("# TYPE process_resident_memory_bytes gauge") == 1


def test_a_keeper_killed_by_somebody__ended_and_did_not_hang(daemon: Daemon) -> None:
    ended, hung, child = restarts("ended"), restarts("hung"), daemon.children["keeper"]
    child.backoff_s = 0.0
    old = daemon.kill("keeper")
    wait_until("the restart", lambda: daemon.poll() or (child.running and child.process and child.process.pid != old))
    assert (restarts("ended"), restarts("hung")) == (ended + 1, hung)


def test_a_keeper_that_never_answers__hangs_after_a_minute(tmp_path: Path) -> None:
    now = [100.0]
    watchdog = Watchdog(lambda: {"keeper": 100.0, "worker-0": 100.0}, tmp_path, lambda: now[0])
    watchdog.ask()
    now[0] = 100.0 + SILENT_S
    watchdog.ask()
    assert watchdog.hung() == {}
    now[0] += 1
    assert watchdog.hung() == {"keeper": "no answer for 61 s"}
    assert watchdog.health()["ok"] is False


def test_a_keeper_that_was_started_again__has_a_minute_again(tmp_path: Path) -> None:
    now, started = [100.0], {"keeper": 100.0}
    watchdog = Watchdog(lambda: started, tmp_path, lambda: now[0])
    watchdog.ask()
    now[0] = started["keeper"] = 200.0
    assert watchdog.hung() == {}
    watchdog.ask()
    now[0] = 255.0
    assert watchdog.hung() == {}


def test_a_port_that_is_taken__is_said_with_what_to_do(config: OperatorConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_module, "commands", lambda _: {"worker-0": [sys.executable, "-c", MUTE]})
    other = Monitor(metrics.GATEWAY, lambda: {"ok": True}, ("127.0.0.1", config.metrics_port)).start()
    daemon = Daemon(config)
    try:
        with pytest.raises(ConfigError, match="cannot be served on port") as caught:
            daemon.start()
        assert "--metrics-port" in caught.value.hint
    finally:
        daemon.stop()
        other.stop()


def test_an_unknown_page__is_not_there(tmp_path: Path) -> None:
    monitor = Monitor(metrics.GATEWAY, lambda: {"ok": False}, tmp_path / "s").start()
    try:
        assert get(tmp_path / "s", "/", 30)[0] == 404
        assert get(tmp_path / "s", "/health", 30) == (503, b'{"ok": false}\n')
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
    finally:
        monitor.stop()


def test_a_loop_that_pauses_long__hangs_only_after_its_pause() -> None:
    now = [0.0]
    lanes = Lanes(lambda: now[0])
    lanes.begin("retention", pause_s=600.0)
    now[0] = 1_200.0
    assert lanes.hung(600.0) == []
    now[0] = 1_200.1
    assert lanes.hung(600.0) == ["retention"]
