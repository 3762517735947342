"""What demos share: a run's folder, progress on stderr and a report on stdout, and a look at a job with what happened since the last one."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from keepers.processes.local_network import LocalNetwork
from scripts.demo.narration import Narrator
from zoo_compute.chain.events import Event, scan
from zoo_compute.chain.explorations import DisputeView, read_disputes
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import JobView
from zoo_compute.errors import ZooError
from zoo_compute.subprocesses import tied_to_parent

RUNS = Path(__file__).resolve().parents[2] / "runs"
REPORT = "report.json"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parser_of(name: str, about: str) -> argparse.ArgumentParser:
    """With the options of every demo."""
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("--folder", type=Path, help=f"the run's folder (default: runs/{name}-TIME)")
    parser.add_argument("--json", action="store_true", help=f"print only {REPORT} on stdout")
    return parser


def run(name: str, arguments: argparse.Namespace, play: Callable[[Path], dict[str, Any]]) -> int:
    """Play in a folder of its own, and print the report; return the exit code. play: returns the report, with its `text` for people."""
    folder = arguments.folder or RUNS / time.strftime(f"{name}-%Y%m%d-%H%M%S")
    signal.signal(signal.SIGTERM, _interrupt)
    os.environ["ZOO_HOME"] = str(folder / "submitter" / "home")  # a run writes nothing outside its folder
    say(f"run folder: {folder}")
    try:
        result = play(folder)
    except KeyboardInterrupt:
        say("interrupted; every process was ended")
        return 130
    except ZooError as error:
        say(f"error: {error}" + (f"\n  {error.hint}" if error.hint else ""))
        return 1
    text = result.pop("text")
    if arguments.json:
        print(json.dumps(result))
    else:
        print(text)
        print(folder / REPORT)
    return 0


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def command_of(
    network: LocalNetwork, words: Sequence[str], account: str, home: Path, *, log: Path, output: Path
) -> subprocess.Popen[bytes]:
    """Start `zoo WORDS` as an account of the devnet, with a home of its own. log: its stderr; output: its stdout."""
    devnet = network.devnet
    options = ["--account", str(devnet.key_file(account)), "--network", str(network.network_path)]
    passphrase = {"ZOO_PASSPHRASE_FILE": str(devnet.passphrase_file), "ZOO_HOME": str(home)}
    command = [sys.executable, "-m", "zoo_compute.cli.main", *words, *options]
    with log.open("wb") as errors, output.open("wb") as written:
        return subprocess.Popen(
            command, stdout=written, stderr=errors, env={**os.environ, **passphrase}, preexec_fn=tied_to_parent()
        )


class Spectator:
    """Keeps a network's processes running, and narrates what happened since the last look."""

    def __init__(self, network: LocalNetwork) -> None:
        self._network, self._narrator = network, Narrator(network.operators)
        self._seen = network.devnet.network.first_block

    def look(self, job: int) -> tuple[JobView, list[Event], list[DisputeView]]:
        """The job, the events since the last look, and its disputes."""
        self._network.poll()
        chain = self._network.devnet.chain
        newest = chain.head()
        events = list(scan(chain, self._seen, newest.number)) if self._seen <= newest.number else []
        self._seen = newest.number + 1
        disputes = list(read_disputes(chain, newest, job=job))
        for line in (*self._narrator.asks(disputes), *self._narrator.lines(events)):
            say(line)
        return read_job(chain, job, newest.number), events, disputes
