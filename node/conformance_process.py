"""Runs the conformance programs on a device, in a process of its own that may crash or hang."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any

from zoo_compute.subprocesses import tied_to_parent

SILENCE_S = 180.0  # without a word of a program, which takes seconds; compiling its kernels on a slow machine more
SAY_EVERY = 5  # programs

Answer = dict[str, Any]  # cases and differing; or error and out_of_memory; or died


def command(device: str) -> list[str]:
    program = str(resources.files("node") / "generated" / "benchmark.repops")
    return [sys.executable, "-m", "repops.conformance", "--device", device, "--training", program]


def examine(device: str, say: Callable[[str], None]) -> Answer:
    """say: is given a line about every few programs."""
    root = str(Path(str(resources.files("repops"))).parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command(device),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
            preexec_fn=tied_to_parent(),
        ) as child,
    ):
        try:
            answer, at = _follow(child, say)
            if "died" in answer or (child.wait() >= 0 and answer):
                return answer
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            return {"died": f"{_end(child.returncode)}, at {at}{': ' + last[:200] if last else ''}"}
        finally:
            child.kill()


def _follow(child: subprocess.Popen[str], say: Callable[[str], None]) -> tuple[Answer, str]:
    """Its last answer, and the program it was at. A driver may print lines of its own."""
    lines: Queue[str | None] = Queue()
    assert child.stdout is not None
    Thread(target=_read, args=(child.stdout, lines), daemon=True).start()
    answer: Answer = {}
    at = "its start"
    while True:
        try:
            line = lines.get(timeout=SILENCE_S)
        except Empty:
            return {"died": f"gave no sign for {SILENCE_S:.0f} s, at {at}"}, at
        if line is None:
            return answer, at
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict):
            continue
        if "program" in message:
            at = f"program {message['program']!r}"
            if message["done"] and message["done"] % SAY_EVERY == 0:
                say(f"checked {message['done']} of {message['of']} programs")
        else:
            answer = message


def _read(stream: IO[str], lines: Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _end(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
