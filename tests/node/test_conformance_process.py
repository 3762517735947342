"""The check of a device runs in a process of its own, which may crash, hang or talk nonsense."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from node import conformance_process


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a script in the place of the conformance programs."""

    def becomes(script: str) -> None:
        monkeypatch.setattr(
            conformance_process, "command", lambda device: [sys.executable, "-c", textwrap.dedent(script)]
        )

    return becomes


def test_a_driver_that_crashes__takes_its_own_process_alone(child: Callable[[str], None]) -> None:
    child(
        """
        import os, signal
        print('{"done": 3, "of": 9, "program": "chains"}', flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
        """
    )
    assert conformance_process.examine("cuda:0", lambda line: None) == {"died": "ended by SIGSEGV, at program 'chains'"}


def test_a_driver_that_crashes_after_the_answer__has_not_answered(child: Callable[[str], None]) -> None:
    child(
        'import os, signal; print(\'{"cases": 1, "differing": []}\', flush=True); os.kill(os.getpid(), signal.SIGABRT)'
    )
    assert "SIGABRT" in conformance_process.examine("cuda:0", lambda line: None)["died"]


def test_a_driver_that_hangs__is_given_up_and_its_process_ended(
    child: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child(
        f"""
        import os, pathlib, time
        pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
        print('{{"done": 5, "of": 9, "program": "sweep"}}', flush=True)
        time.sleep(600)
        """
    )

    def hurry(said: str) -> None:
        """Once the child has begun: how long that takes is the machine's."""
        monkeypatch.setattr(conformance_process, "SILENCE_S", 1.0)

    assert conformance_process.examine("cuda:0", hurry) == {"died": "gave no sign for 1 s, at program 'sweep'"}
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_traceback__is_told_by_its_last_line(child: Callable[[str], None]) -> None:
    child("raise ZeroDivisionError('of the driver')")
    answer = conformance_process.examine("cuda:0", lambda line: None)
    assert answer == {"died": "ended with exit code 1, at its start: ZeroDivisionError: of the driver"}


def test_progress__is_told_and_a_drivers_own_words_are_passed_over(child: Callable[[str], None]) -> None:
    child(
        """
        import json
        print("the driver says hello"); print("5"); print("[1]")
        for done in range(12):
            print(json.dumps({"done": done, "of": 12, "program": str(done)}))
        print(json.dumps({"cases": 4, "differing": ["a: exp"]}))
        """
    )
    said: list[str] = []
    assert conformance_process.examine("cuda:0", said.append) == {"cases": 4, "differing": ["a: exp"]}
    assert said == ["checked 5 of 12 programs", "checked 10 of 12 programs"]


def test_the_real_programs__without_a_driver__answer_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # where there is a GPU, it is hidden
    answer = conformance_process.examine("cuda:0", lambda line: None)
    assert answer["error"], answer
    assert answer["out_of_memory"] is False
