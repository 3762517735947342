"""One anvil process: located, started on loopback, and always ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import requests

from zoo_compute.errors import DevnetError
from zoo_compute.paths import home
from zoo_compute.subprocesses import free_port, is_free, tied_to_parent

VERSION = "1.7.1"  # of the npm package; the Makefile reads it here
PROGRAM = Path("node_modules", ".bin", "anvil")  # under the folder that npm installs into
HOST = "127.0.0.1"
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
STATE_INTERVAL_S = 30  # a killed anvil loses at most this; a stopped one loses nothing
PORT_ATTEMPTS = 5


class AnvilMissing(DevnetError):
    """No anvil on this machine."""


class Anvil:
    """A running anvil. On Linux it ends when the process that started it ends, however that happens."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @classmethod
    def start(cls, *, chain_id: int, block_time: float, port: int, state: Path, log: Path) -> Anvil:
        """Raises DevnetError: anvil absent, port taken, or not ready in time. port 0: any free one."""
        options = ["--block-time", str(block_time), "--mixed-mining"]
        options += ["--state", str(state), "--state-interval", str(STATE_INTERVAL_S)]
        advice = f"see {log}; if the state is damaged, delete {state.parent}"
        return cls._start(options, chain_id=chain_id, port=port, log=log, advice=advice)

    @classmethod
    def fork(cls, upstream: str, *, chain_id: int, log: Path) -> Anvil:
        """A copy of the chain at `upstream` (an RPC's URL): what is sent here stays here. Raises as `start` does."""
        options = ["--fork-url", upstream, "--auto-impersonate"]
        return cls._start(options, chain_id=chain_id, port=0, log=log, advice=f"see {log}; is {upstream} reachable?")

    @classmethod
    def _start(cls, options: list[str], *, chain_id: int, port: int, log: Path, advice: str) -> Anvil:
        binary = find()
        options = ["--chain-id", str(chain_id), *options]
        for _ in range(PORT_ATTEMPTS):
            if port and not is_free(port):
                raise DevnetError(f"port {port} is taken", hint="choose another port, or 0 for any")
            chosen = port or free_port()
            anvil = cls(_spawn([str(binary), "--host", HOST, "--port", str(chosen), *options], log), chosen)
            if anvil._is_ready(chain_id):
                return anvil
            anvil.stop()
            tail = log.read_text(errors="replace")[-2_000:]
            if "in use" not in tail:
                raise DevnetError(f"anvil did not start:\n{tail}", hint=advice)
        raise DevnetError("no free port for anvil was found", hint="choose a port")

    def stop(self) -> None:
        """Send SIGTERM, on which anvil writes its state; after STOP_TIMEOUT_S send SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _is_ready(self, chain_id: int) -> bool:
        question = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                answer = requests.post(self.url, json=question, timeout=1).json()
                return bool(int(answer["result"], 16) == chain_id and self.process.poll() is None)
            except (requests.RequestException, KeyError, ValueError):
                time.sleep(0.02)
        return False


def find(environ: Mapping[str, str] = os.environ) -> Path:
    """The native anvil: from ZOO_ANVIL, PATH, the repository (`make setup`), or as installed by `zoo devnet`. Raises DevnetError."""
    named = environ.get("ZOO_ANVIL")
    if named:
        if not os.access(named, os.X_OK) or not Path(named).is_file():
            raise DevnetError(f"ZOO_ANVIL is {named!r}, which is not a program", hint="set it to the anvil binary")
        return native(Path(named))
    onpath = shutil.which("anvil", path=environ.get("PATH"))
    local = Path(__file__).resolve().parents[2] / ".anvil" / PROGRAM
    for candidate in (onpath, local, installed() / PROGRAM):
        if candidate and Path(candidate).exists():
            return native(Path(candidate))
    raise AnvilMissing(
        "anvil, the local chain, is not installed",
        hint="`zoo devnet` installs it; or run `make setup` in the repository, install Foundry, or set ZOO_ANVIL",
    )


def installed() -> Path:
    """Where `zoo devnet` installs this version of anvil."""
    return home() / "anvil" / VERSION


def native(path: Path) -> Path:
    """The binary beside npm's `anvil`, which is a Node script around it: signals must reach the binary."""
    if not path.resolve().suffix:
        return path
    package = path.resolve().parent
    beside = sorted(package.parent.glob("anvil-*/bin/anvil*"))
    return beside[0] if beside else path


def _spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a child that dies with this process.

    The kernel sends the signal when the starting *thread* ends, so a thread waits as long as the child lives. The child's
    own session shields it from the terminal's Ctrl-C: users of the chain must end first.
    """
    started: list[subprocess.Popen[bytes] | OSError] = []
    ready = threading.Event()

    def keep() -> None:
        try:
            with open(log, "wb") as output:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=tied_to_parent(),
                )
        except OSError as error:
            started.append(error)
            ready.set()
            return
        started.append(child)
        ready.set()
        child.wait()

    threading.Thread(target=keep, name="anvil", daemon=True).start()
    ready.wait()
    if isinstance(started[0], OSError):
        raise DevnetError(f"{command[0]} cannot be started: {started[0]}", hint="install it again") from started[0]
    return started[0]
