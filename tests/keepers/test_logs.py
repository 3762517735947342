"""Logs: lines that a program can read, and files that rotate while a process writes."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from keepers.config import OperatorConfig, from_dict
from keepers.monitoring import logs
from keepers.monitoring.logs import JsonLines, SharedLog, TextLines, rotate, rotate_records, rotated
from keepers.processes import daemon as daemon_module
from keepers.processes.daemon import Daemon
from tests.support.waiting import wait_until
from zoo_compute.errors import ConfigError

LINES = 4_000
# What a process of the operator does: it logs to its standard error, which is a file that the daemon opened.
WRITER = f"""
import logging
from keepers.monitoring.logs import configure_logging
configure_logging()
for number in range({LINES}):
    logging.getLogger("zoo.keeper").info("line %d.", number)
"""


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("zoo.keeper", logging.WARNING, "f", 1, message, (), None)
    made.__dict__ |= {"created": 1_767_225_600.25, "msecs": 250.0, **extra}
    return made


def test_a_line_of_text__has_the_time_in_utc() -> None:
    assert TextLines().format(record("job 7: late")) == "2026-01-01T00:00:00Z WARNING zoo.keeper job 7: late"


def test_a_line_of_json__is_one_object_however_long_the_message() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        text = JsonLines().format(record('job 7: "late"', exc_info=sys.exc_info()))
    assert "\n" not in text
    line = json.loads(text)
    assert (line["time"], line["level"], line["logger"], line["message"]) == (
        "2026-01-01T00:00:00.250Z", "WARNING", "zoo.keeper", 'job 7: "late"',
    )  # fmt: skip
    assert line["exception"].endswith("ValueError: two\nlines")


def test_a_log_that_is_too_long__is_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    log = tmp_path / "keeper.log"
    for text in ("one", "two", "three", "four"):
        log.write_text(text)
        assert rotate(log, 3, 2)
        assert log.read_text() == ""
    assert [path.name for path in rotated(log)] == ["keeper.log.1", "keeper.log.2"]
    assert [path.read_text() for path in rotated(log)] == ["four", "three"]
    assert {path.stat().st_mode & 0o777 for path in rotated(log)} == {0o600}
    log.write_text("12")
    assert not rotate(log, 3, 2)
    assert not rotate(tmp_path / "absent.log", 3, 2)


def test_records__are_rotated_without_a_copy__and_a_line_that_is_being_written_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "transactions.jsonl"
    assert not rotate_records(path, 3, 2)
    for text in ("one", "two", "three"):
        path.write_text(text)
        with path.open("a") as writer:
            assert rotate_records(path, 3, 2)
            writer.write("!")
    assert [each.read_text() for each in rotated(path)] == ["three!", "two!"]
    assert path.read_text() == ""
    path.write_text("four")
    assert rotate_records(path, 3, 0)
    assert [each.read_text() for each in rotated(path)] == ["four"], "one is kept: what it says of open jobs is needed"


def test_without_rotated_files__a_long_log_is_emptied(tmp_path: Path) -> None:
    log = tmp_path / "keeper.log"
    log.write_text("12345")
    assert rotate(log, 3, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["keeper.log"]


def test_on_a_full_disk__a_log_is_left_until_it_is_twice_too_long_and_then_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log, copies = tmp_path / "keeper.log", list[object]()

    def full(*_: object) -> None:
        copies.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(logs.shutil, "copyfileobj", full)
    log.write_text("12345")
    assert not rotate(log, 3, 2)
    assert log.read_text() == "12345"
    log.write_text("123456")
    assert rotate(log, 3, 2)
    assert (log.read_text(), len(copies), [path.name for path in tmp_path.iterdir()]) == ("", 2, ["keeper.log"])
    assert "no room for a copy" in caplog.text


def test_a_line_that_is_being_written__puts_the_rotation_off(tmp_path: Path) -> None:
    log = tmp_path / "keeper.log"
    log.write_text("12345")
    at = threading.Event(), threading.Event()

    class Slow(io.TextIOWrapper):
        def write(self, text: str) -> int:
            at[0].set()
            at[1].wait(30)
            return super().write(text)

    with Slow(log.open("ab")) as stream:
        writing = threading.Thread(target=SharedLog(stream).handle, args=(record("slow"),))
        writing.start()
        at[0].wait(30)
        assert not rotate(log, 3, 2)
        at[1].set()
        writing.join()
    assert rotate(log, 3, 2)
    assert rotated(log)[0].read_text() == "12345slow\n"


def test_no_line_is_lost__while_a_process_logs_and_its_log_is_rotated(tmp_path: Path) -> None:
    log, rotations = tmp_path / "keeper.log", 0
    with log.open("ab") as output:
        process = subprocess.Popen([sys.executable, "-c", WRITER], stderr=output)
    while process.poll() is None:
        rotations += rotate(log, 2_000, 10_000)
    assert process.returncode == 0
    assert rotations >= 3
    text = "".join(path.read_text() for path in (*reversed(rotated(log)), log))
    assert [line.rpartition(" ")[2] for line in text.splitlines()] == [f"{number}." for number in range(LINES)]


CHATTERER = [sys.executable, "-c", "while True: print('x' * 1000)"]


@pytest.fixture
def config(tmp_path: Path) -> OperatorConfig:
    raw = {"name": "a", "network": "n", "operator": 1, "log_max_mb": 0.05, "log_files": 2}
    return from_dict(raw, tmp_path)


def test_the_daemon__rotates_the_log_of_a_process_that_is_not_ours(
    config: OperatorConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_module, "commands", lambda _: {"broker": CHATTERER})
    monkeypatch.setattr(daemon_module.broker, "wait_ready", lambda *_: None)
    monkeypatch.setattr(daemon_module, "LOOK_AT_LOGS_S", 0.0)
    daemon = Daemon(config)
    daemon.start()
    try:
        log = config.log_path("broker")
        wait_until("two rotations", lambda: daemon.poll() or len(rotated(log)) == 2)
    finally:
        daemon.stop()
    assert all(path.stat().st_size >= 50_000 for path in rotated(log))


def test_the_daemons_own_messages__are_in_a_file_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "logs" / "daemon.log"
    with logs.daemon_log(path, "json"):
        logging.getLogger("zoo.daemon").warning("keeper ended (%d)", -9)
    logging.getLogger("zoo.daemon").warning("afterwards")
    assert [json.loads(line)["message"] for line in path.read_text().splitlines()] == ["keeper ended (-9)"]
    assert "keeper ended (-9)" in capsys.readouterr().err
    assert path.stat().st_mode & 0o777 == 0o600 & ~os.umask(os.umask(0))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"log_format": "jsn"}, "did you mean 'json'"), ({"log_files": -1}, "log_files: expected 0 to 1000")],
)
def test_a_wrong_setting__is_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict({"name": "a", "network": "n", "operator": 1, **change}, tmp_path)
