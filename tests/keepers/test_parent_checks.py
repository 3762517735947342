"""A custodian holds a merged job only once a process of its own computed the merge and agreed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from keepers.services import parent_checks
from keepers.services.parent_checks import AGAIN_S, ParentChecks, parents_command
from tests.support.waiting import HANG_S
from zoo_compute.cli.main import main

JOB = 7
# Says what `zoo job parents` says, and ends with the code in the file.
DOUBLE = """
import json, pathlib, sys
print("fetching the branches of job", sys.argv[2])
print(json.dumps({"differences": ["the job starts elsewhere"]}))
sys.exit(int(pathlib.Path(sys.argv[1]).read_text()))
"""


class Place:
    def __init__(self, folder: Path) -> None:
        self._code, self.now = folder / "code", 0.0
        self.checks = ParentChecks([sys.executable, "-c", DOUBLE, str(self._code)], clock=lambda: self.now)

    def agrees(self, code: int) -> bool:
        """What is said in the end, where a process that is started ends with this code."""
        self._code.write_text(str(code))
        said, until = self.checks.agrees(JOB), time.monotonic() + HANG_S
        while self.checks.is_running and time.monotonic() < until:
            time.sleep(0.01)
            said = self.checks.agrees(JOB)
        return said


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_process_is_a_command_that_anybody_can_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = parents_command(tmp_path / "network.json", str(tmp_path), [tmp_path / "far.json"])
    assert command[1:3] == ["-m", main.__module__]
    with pytest.raises(SystemExit) as end:
        main([*command[3:], str(JOB), "--help"])
    assert end.value.code in (0, None)
    assert "Recompute the initial weights" in capsys.readouterr().out


def test_a_job_that_begins_at_its_merge__is_agreed_to__and_checked_once(place: Place) -> None:
    assert place.agrees(0)
    assert place.agrees(3), "the answer is kept"


def test_a_job_that_begins_elsewhere__is_never_agreed_to(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    assert not place.agrees(3)
    assert "the job starts elsewhere" in caplog.text
    place.now = 2 * AGAIN_S
    assert not place.agrees(0), "the answer is kept"


def test_a_check_that_could_not_be_made__is_made_again_later(place: Place) -> None:
    assert not place.agrees(1)
    place.now = AGAIN_S - 1
    assert not place.agrees(0)
    place.now = AGAIN_S
    assert place.agrees(0)


def test_a_job_that_nobody_asks_about_any_more__keeps_no_other_waiting(place: Place) -> None:
    assert not place.checks.agrees(JOB + 1)
    until = time.monotonic() + HANG_S
    while not place.agrees(0):
        assert time.monotonic() < until


def test_a_job_that_is_over__leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    usual = parent_checks.subprocess.Popen
    monkeypatch.setattr(parent_checks.subprocess, "Popen", lambda *a, **k: started.append(usual(*a, **k)) or started[0])
    checks = ParentChecks([sys.executable, "-c", "import time; time.sleep(600)"])
    assert not checks.agrees(JOB)
    checks.forget(JOB)
    assert [each.returncode is not None for each in started] == [True]
