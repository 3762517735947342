"""Asks an operator's processes how they are: which one hangs, and what they measure, in one answer for Prometheus."""

from __future__ import annotations

import http.client
import json
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from keepers.monitoring import metrics
from keepers.monitoring.server import get

log = logging.getLogger("zoo.daemon")

ASK_EVERY_S = 5.0
ANSWER_S = 5.0  # in which a process answers
SILENT_S = 60.0  # after which a process that never answers counts as hung; it may need so long to start
CAN_HANG = ("keeper", "gateway")  # a worker may compute for hours, and a kernel need not let other threads run
MUTE = ("broker", "spare")  # processes that answer no such question


def is_asked(name: str) -> bool:
    return name.partition("-")[0] not in MUTE


@dataclass
class Answers:
    """What one process said last. since: of its start, or of its last answer, whichever is later."""

    since: float
    health: dict[str, Any] | None = None


@dataclass
class Watchdog(Collector):
    """running: the processes that run, by name, with the time of their start. clock: seconds that only grow."""

    running: Callable[[], Mapping[str, float]]
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="zoo-")))
    clock: Callable[[], float] = time.monotonic
    _answers: dict[str, Answers] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def socket(self, name: str) -> Path:
        """Where the process of this name answers. In a folder of its own: the path of a socket must be short."""
        return self.folder / name

    def start(self) -> None:
        """Ask again and again, in a thread: a process that does not answer must not keep the daemon from the others."""
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self) -> None:
        while not self._ended.wait(ASK_EVERY_S):
            self.ask()

    def ask(self) -> None:
        """Ask every process that runs for its health."""
        started = self.running()
        self._answers = {name: each for name, each in self._answers.items() if name in started}
        for name, (status, body) in self._from_all(started, "/health"):
            known = self._answers.setdefault(name, Answers(started[name]))
            if started[name] > known.since:  # it was started again
                known.since, known.health = started[name], None
            try:
                health = json.loads(body) if status else None
            except ValueError:
                health = None
            if health is not None:
                known.since = self.clock()
            known.health = health
            metrics.RESPONDS.labels(name).set(health is not None)

    def hung(self) -> dict[str, str]:
        """Processes that are to be started again, and why."""
        started, why = self.running(), dict[str, str]()
        for name, answers in list(self._answers.items()):
            if name not in CAN_HANG or started.get(name, 0.0) > answers.since:
                continue
            silent_s = self.clock() - answers.since
            if answers.health is not None and not answers.health["ok"]:
                why[name] = f"no progress of {', '.join(answers.health.get('hung', []))}"
            elif answers.health is None and silent_s > SILENT_S:
                why[name] = f"no answer for {silent_s:.0f} s"
        return why

    def health(self) -> dict[str, Any]:
        """Of all processes, for `/health`: ok where each that answers is well, and none hangs."""
        hung = self.hung()
        processes = {name: each.health for name, each in sorted(self._answers.items())}
        return {"ok": not hung and "keeper" not in self._missing(), "hung": hung, "processes": processes}

    def _missing(self) -> set[str]:
        """Processes that answered once and do not run now."""
        return set(self._answers) - set(self.running())

    def collect(self) -> Iterator[Metric]:
        """The metrics of all processes, each with the label `process`."""
        families: dict[str, Metric] = {}
        for family in metrics.DAEMON.collect():
            _add(families, "daemon", family)
        for name, (status, body) in self._from_all(self.running(), "/metrics"):
            if status == 200:
                for family in text_string_to_metric_families(body.decode()):
                    _add(families, name, family)
        yield from families.values()

    def _from_all(self, names: Iterable[str], path: str) -> Iterator[tuple[str, tuple[int, bytes]]]:
        """What each process answers; status 0: nothing."""
        asked = [name for name in names if is_asked(name)]

        def one(name: str) -> tuple[int, bytes]:
            try:
                return get(self.socket(name), path, ANSWER_S)
            except (OSError, http.client.HTTPException):
                return 0, b""

        if asked:
            with ThreadPoolExecutor(len(asked)) as pool:
                yield from zip(asked, pool.map(one, asked), strict=True)


def _add(families: dict[str, Metric], process: str, family: Metric) -> None:
    own = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
    for sample in family.samples:
        labels = {"process": process, **sample.labels}
        own.samples.append(Sample(sample.name, labels, sample.value))
