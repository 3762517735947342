"""A spare: a process that has imported what a worker needs, and waits to become one. Imports take a second, with a GPU (torch) several.

    python -m keepers.processes.spare     run by the daemon (keepers/processes/daemon.py), which writes one line to its input: what to become

Until then it has no job, no connection and no file of the operator's open; afterwards it is the process of that command line, under the
same number. It ends with its input, so it does not outlive a daemon that was killed.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from keepers.monitoring.logs import configure_logging
from keepers.processes.worker import tasks_of
from keepers.queue.app import WORK_QUEUE, print_ready
from node.hardware import torch_may_find_gpu

log = logging.getLogger("zoo.process")

COMMAND = [sys.executable, "-m", "keepers.processes.spare"]
PRELOADED_MODULES = (  # what Celery and the programs load by name, or when first used
    "celery.apps.worker",
    "celery.concurrency.solo",
    "celery.worker.consumer",
    "kombu.transport.redis",
    "repops.backend",
)


def can_become(command: list[str]) -> bool:
    """Whether a spare can be what the command line says: a module of this Python's."""
    return command[:2] == COMMAND[:2]


def assign(spare: subprocess.Popen[bytes], command: list[str], log_path: Path, environment: Mapping[str, str]) -> None:
    """Have a spare become `command`, its output going to `log_path`. Raises OSError when the spare is gone."""
    assert can_become(command)
    assert spare.stdin is not None
    with spare.stdin as line:
        assignment = {
            "module": command[2], "arguments": command[3:], "log": str(log_path), "environment": dict(environment),
        }  # fmt: skip
        line.write(json.dumps(assignment).encode() + b"\n")


def main() -> int:
    configure_logging()
    tasks_of(WORK_QUEUE)
    for name in (*PRELOADED_MODULES, *(["torch"] if torch_may_find_gpu() else [])):
        importlib.import_module(name)
    print_ready()
    line = sys.stdin.readline()
    if not line:
        return 0
    assignment = json.loads(line)
    with open(os.devnull) as nothing, open(assignment["log"], "ab") as output:
        for stream, number in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(stream.fileno(), number)
    os.environ.update(assignment["environment"])
    sys.argv = [assignment["module"], *assignment["arguments"]]
    return int(importlib.import_module(assignment["module"]).main())


if __name__ == "__main__":
    sys.exit(main())
