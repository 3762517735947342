"""Runs a command in a child process with limits of time, memory and disk. Nothing is left of it afterwards.

The child has a process group and a scratch folder of its own. It is killed with its children when it exceeds a limit, when the
caller is interrupted (Ctrl-C, `stop_all`), and, on Linux, when the caller dies. A scratch folder whose owner was killed is
deleted by the next call.

The child of `run_limited` writes JSON lines to its output: {"doing": "..."} when it begins something, and last {"answer": {...}}, or
{"out_of_memory": true}. That of `output_of` reads its input, and writes what it likes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any

from node.errors import ChildDied, Interrupted, OverLimit
from zoo_compute import paths
from zoo_compute.subprocesses import tied_to_parent

POLL_S = 0.05
LAST_WORDS = 300  # characters of its error output that a message repeats
NEW_S = 60.0
LOCK = ".owner"  # in a scratch folder: locked by the process that made it
GB = 10**9
LIBRARY_ADDRESSES = 2**30  # of code and reserved addresses, which take no memory; what does is watched

_stopping = threading.Event()


@dataclass(frozen=True)
class Limits:
    """wall_s, cpu_s: of the child's life. memory_bytes: of each of its processes. disk_bytes: of its scratch folder.

    caps_addresses: limit the address space (RLIMIT_AS); False where a driver reserves far more addresses than it uses, as CUDA's
    does. The resident memory of all its processes is watched in either case. file_bytes: of a file elsewhere, if it may be larger than
    the folder.
    """

    wall_s: float
    cpu_s: float
    memory_bytes: int
    disk_bytes: int
    caps_addresses: bool = True
    file_bytes: int = 0


def stop_all() -> None:
    """Kill every child of this process, now and from now on: the process is about to end. Safe in a signal handler."""
    _stopping.set()


def run_limited(
    command: Sequence[str],
    limits: Limits,
    *,
    fill: Callable[[Path], None] = lambda folder: None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run `command` in a scratch folder and return its answer.

    fill: writes the child's inputs into the folder; they count towards disk_bytes. environment: added to this process's.
    Raises OverLimit, ChildDied, Interrupted.
    """
    with _scratch_folder() as folder:
        fill(folder)
        variables = {**os.environ, "TMPDIR": str(folder), **(environment or {})}
        with tempfile.TemporaryFile() as errors, _spawn(command, limits, folder, variables, errors) as child:
            try:
                answer, doing = _follow(child, limits, folder)
                code = child.wait()
            finally:
                _kill(child)
            if answer is not None and code == 0:
                return answer
            if code == -signal.SIGXCPU:
                raise OverLimit("time", f"used more than {limits.cpu_s:.0f} s of CPU time at {doing}")
            words = _last_words(errors)
            raise ChildDied(code, f"{_end_of(code)} at {doing}{': ' + words if words else ''}")


def output_of(
    command: Sequence[str],
    limits: Limits,
    content: bytes,
    *,
    environment: Mapping[str, str],
    most_bytes: int,
    most_processes: int,
) -> bytes:
    """Run `command` in a scratch folder with `content` as its standard input, and return its output.

    environment: all of the child's, but TMPDIR. Raises OverLimit, ChildDied, Interrupted, OSError where the command cannot be started.
    """
    with _scratch_folder() as folder, contextlib.ExitStack() as files:
        asked, output, errors = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        asked.write(content)
        asked.seek(0)
        variables = {"TMPDIR": str(folder), **environment}
        with _spawn(command, limits, folder, variables, errors, stdin=asked, stdout=output) as child:
            try:
                _watch(child, limits, folder, most_processes)
            finally:
                _kill(child)
        code = child.returncode
        if code == -signal.SIGXCPU:
            raise OverLimit("time", f"used more than {limits.cpu_s:.0f} s of CPU time")
        if code:
            words = _last_words(errors)
            raise ChildDied(code, f"{_end_of(code)}{': ' + words if words else ''}")
        output.seek(0)
        said = output.read(most_bytes + 1)
        if len(said) > most_bytes:
            raise OverLimit("output", f"printed more than {most_bytes:,} bytes")
        return said


def _watch(child: subprocess.Popen[bytes], limits: Limits, folder: Path, most_processes: int) -> None:
    """Until the child ends. Raises OverLimit, Interrupted."""
    end = time.monotonic() + limits.wall_s
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(POLL_S)
            return
        if _stopping.is_set():
            raise Interrupted("this process is ending")
        if time.monotonic() > end:
            raise OverLimit("time", f"took more than {limits.wall_s:g} s")
        processes = _resident_of(child.pid)
        if len(processes) > most_processes:
            raise OverLimit("processes", f"started more than {most_processes} processes")
        if sum(processes) > limits.memory_bytes:
            raise OverLimit("memory", f"used more than {limits.memory_bytes / GB:.1f} GB of memory")
        if _bytes_in(folder) > limits.disk_bytes:
            raise OverLimit("disk", f"wrote more than {limits.disk_bytes / GB:.2f} GB to its folder")


def _last_words(errors: IO[bytes]) -> str:
    """The last line of an error output, as a log may show it."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4 * LAST_WORDS))
    line = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
    return "".join(character for character in line if character.isprintable())[:LAST_WORDS]


def _spawn(
    command: Sequence[str],
    limits: Limits,
    folder: Path,
    environment: Mapping[str, str],
    errors: IO[bytes],
    *,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    tie = tied_to_parent()

    def prepare() -> None:
        tie()
        cpu_s = max(1, round(limits.cpu_s))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
        largest = max(limits.disk_bytes, limits.file_bytes)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if limits.caps_addresses and sys.platform == "linux":
            most = limits.memory_bytes + LIBRARY_ADDRESSES
            resource.setrlimit(resource.RLIMIT_AS, (most, most))

    return subprocess.Popen(
        [*command],
        cwd=folder,
        stdin=stdin,
        stdout=stdout,
        stderr=errors,
        start_new_session=True,  # its group: what it starts is killed with it
        preexec_fn=prepare,
        env=dict(environment),
    )


def _follow(child: subprocess.Popen[bytes], limits: Limits, folder: Path) -> tuple[dict[str, Any] | None, str]:
    """Its answer, if it gave one, and what it was doing last. Raises OverLimit, Interrupted."""
    lines: Queue[bytes | None] = Queue()
    assert child.stdout is not None
    threading.Thread(target=_read, args=(child.stdout, lines), daemon=True).start()
    answer: dict[str, Any] | None = None
    doing, end = "its start", time.monotonic() + limits.wall_s
    while True:
        with contextlib.suppress(Empty):
            line = lines.get(timeout=POLL_S)
            if line is None:
                return answer, doing
            message = _message(line)
            doing, answer = message.get("doing", doing), message.get("answer", answer)
            if message.get("out_of_memory"):
                raise OverLimit(
                    "memory", f"needed more than the {limits.memory_bytes / GB:.1f} GB of memory it may have at {doing}"
                )
        if _stopping.is_set():
            raise Interrupted("this process is ending")
        if time.monotonic() > end:
            raise OverLimit("time", f"took more than {limits.wall_s:.0f} s, at {doing}")
        if sum(_resident_of(child.pid)) > limits.memory_bytes:
            raise OverLimit("memory", f"used more than {limits.memory_bytes / GB:.1f} GB of memory at {doing}")
        if _bytes_in(folder) > limits.disk_bytes:
            raise OverLimit("disk", f"wrote more than {limits.disk_bytes / GB:.1f} GB to its folder at {doing}")


def _message(line: bytes) -> dict[str, Any]:
    """A driver may print lines of its own."""
    with contextlib.suppress(ValueError):
        message = json.loads(line)
        if isinstance(message, dict):
            return message
    return {}


def _read(stream: IO[bytes], lines: Queue[bytes | None]) -> None:
    with contextlib.suppress(ValueError):  # closed by the other thread
        for line in stream:
            lines.put(line)
    lines.put(None)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """The child may be gone, and what it started still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _end_of(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _resident_of(group: int) -> list[int]:
    """Bytes in memory of each process in a process group."""
    if sys.platform != "linux":
        listing = subprocess.run(["ps", "-A", "-o", "pgid=,rss="], capture_output=True, text=True, check=False).stdout
        return [1024 * int(rss) for pgid, rss in map(str.split, listing.splitlines()) if int(pgid) == group]
    sizes = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == group:
                    sizes.append(int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))
    return sizes


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def scratch_root() -> Path:
    """Where scratch folders are: on a disk, since /tmp may lie in memory."""
    return paths.home() / "scratch"


@contextlib.contextmanager
def _scratch_folder() -> Iterator[Path]:
    """A folder that is deleted with the block; also those whose owners were killed."""
    root = scratch_root()
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_abandoned(root)
    folder = Path(tempfile.mkdtemp(dir=root))
    try:
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(root: Path) -> None:
    """Delete the scratch folders whose owners died; new ones are left alone, since their owners may not have locked them yet."""
    for folder in root.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime < NEW_S:
                continue
            with (folder / LOCK).open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
