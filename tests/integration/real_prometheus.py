"""Prometheus itself, run on the rules and the configuration that the docs give, with their waiting times cut short."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests

from zoo_compute.subprocesses import LOOPBACK, free_port, tied_to_parent

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "guides" / "deploy"
FOR_S, WINDOW_S = 2, 15  # what `for:` and a range of "all this time" become
START_S = 30.0


def shortened(rules: str) -> str:
    """The committed rules with every `for` and every window of a least value cut short. Rates and increases keep their windows."""
    rules = re.sub(r"\bfor: \w+", f"for: {FOR_S}s", rules)
    return re.sub(r"(min_over_time\([^\[]*)\[\w+\]", rf"\1[{WINDOW_S}s]", rules)


def configured(config: str, ports: list[int]) -> str:
    """The committed configuration, of nodes on these ports. A process that is stopped delays an answer by five seconds."""
    config = re.sub(r"scrape_interval: \w+", "scrape_interval: 6s", config)
    config = re.sub(r"evaluation_interval: \w+", "evaluation_interval: 1s", config)
    targets = ", ".join(f'"{LOOPBACK}:{port}"' for port in ports)
    return re.sub(r"targets: \[.*\]", f"targets: [{targets}]", config)


class Prometheus:
    """`with Prometheus(folder, ports) as prometheus: ...`. first: when each alert fired first, in time.monotonic."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        folder.mkdir(parents=True)
        (folder / "alerts.yml").write_text(shortened((DEPLOY / "alerts.yml").read_text()))
        self._config = folder / "prometheus.yml"
        self._config.write_text(configured((DEPLOY / "prometheus.yml").read_text(), ports))
        self._folder, self._url = folder, f"http://{LOOPBACK}:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self.first: dict[str, float] = {}

    def __enter__(self) -> Self:
        subprocess.run(["promtool", "check", "config", self._config], check=True, capture_output=True)
        program = shutil.which("prometheus")
        assert program is not None
        listen = f"--web.listen-address={self._url.removeprefix('http://')}"
        command = [program, f"--config.file={self._config}", f"--storage.tsdb.path={self._folder / 'data'}", listen]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=tied_to_parent())
        deadline = time.monotonic() + START_S
        while not self._is_ready():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, (self._folder / "log").read_text()
            time.sleep(0.1)
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def get(self, path: str, **parameters: str) -> Any:
        """The `data` of an answer of its HTTP API."""
        return requests.get(f"{self._url}/api/v1/{path}", params=parameters, timeout=5).json()["data"]

    def firing(self) -> set[str]:
        return {each["labels"]["alertname"] for each in self.get("alerts")["alerts"] if each["state"] == "firing"}

    def value(self, expression: str) -> float | None:
        """The first series of an instant query; None where there is none."""
        result = self.get("query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else None

    def _is_ready(self) -> bool:
        try:
            return requests.get(f"{self._url}/-/ready", timeout=1).ok
        except requests.RequestException:
            return False

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            try:
                for name in self.firing():
                    self.first.setdefault(name, time.monotonic())
            except (requests.RequestException, KeyError, ValueError):
                continue
