"""A machine with a systemd of its own, in a container that shares this machine's network: Debian, with what is built here installed.

The first use makes it (debootstrap, then pip: three minutes); it stays in ROOT.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from zoo_compute.subprocesses import tied_to_parent

ROOT = Path(os.environ.get("ZOO_TEST_MACHINE", "/var/lib/machines/zoo-test"))
PROGRAMS = ("debootstrap", "systemd-nspawn", "nsenter", "chroot")
PACKAGES = "systemd,systemd-sysv,dbus,python3,python3-venv,ca-certificates,procps"
BOOT_S = 120.0


def missing() -> str:
    """Why there can be no such machine here; empty if there can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian's packages debootstrap and systemd-container)"
    return "" if os.geteuid() == 0 else "only root can start a machine"


class Machine:
    """`with Machine(log) as machine: machine.run("systemctl", "status")`."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._init = 0  # the number of its systemd on this machine
        if not (ROOT / "usr/bin/systemctl").exists():
            subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", ROOT], check=True)

    def __enter__(self) -> Self:
        binds = [f"--bind-ro={value}" for value in _index().values() if Path(value).exists()]
        options = ["--quiet", f"--directory={ROOT}", "--register=no", "--keep-unit", "--boot", *binds]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["systemd-nspawn", *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=tied_to_parent()
            )  # fmt: skip
        deadline = time.monotonic() + BOOT_S
        while self._state() not in ("running", "degraded"):
            assert self._process.poll() is None, self._log.read_text(errors="replace")
            assert time.monotonic() < deadline, self._log.read_text(errors="replace")
            time.sleep(0.5)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._init:
            os.kill(self._init, signal.SIGRTMIN + 4)  # to systemd: power off
        if self._process is not None:
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def run(self, *command: str, fails: bool = False) -> str:
        """What a command of root's printed, both streams."""
        done = self._enter(*command)
        assert bool(done.returncode) == fails, f"{' '.join(command)}: {done.stdout}"
        return done.stdout

    def run_as(self, pid: str, user: str, *command: str) -> str:
        """What a command printed that has the namespaces and the user of a process, and no capability: what that process could see."""
        number = self.run("id", "-u", user).strip()
        bare = [
            "setpriv",
            f"--reuid={number}",
            f"--regid={number}",
            "--keep-groups",
            "--bounding-set=-all",
            "--inh-caps=-all",
        ]
        enter = ["nsenter", "-t", pid, "-m"]
        if self.run("readlink", f"/proc/{pid}/ns/user") != self.run("readlink", "/proc/1/ns/user"):
            enter += ["-U", "--preserve-credentials"]
        return self._enter(*enter, *bare, "--", *command).stdout

    def property(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--property", name, "--value", unit).strip()

    def _enter(self, *command: str) -> subprocess.CompletedProcess[str]:
        known = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **_index()}
        environment = ["env", "-i", *(f"{name}={value}" for name, value in known.items())]
        inside = ["nsenter", "-t", str(self._init), "-m", "-p", "-u", "-i", "-C", *environment, *command]
        return subprocess.run(inside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def _state(self) -> str:
        assert self._process is not None
        if not self._init:
            with suppress(OSError, IndexError):
                children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
                self._init = int(children[0])
        return self._enter("systemctl", "is-system-running").stdout.strip() if self._init else ""


def _index() -> dict[str, str]:
    """Where pip looks on this machine, for pip in there."""
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_")}


def built_wheel(folder: Path) -> Path:
    """The wheel of this checkout."""
    tree = Path(__file__).resolve().parents[2]
    shutil.rmtree(tree / "build", ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(tree)]
    subprocess.run(command, check=True)
    [wheel] = folder.glob("zoo_compute-*.whl")
    return wheel
