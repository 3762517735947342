"""Memory, open handles and disk of operators' processes over time, and how much they grew. Linux."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from keepers.processes.local_network import LocalOperators

PAGE = os.sysconf("SC_PAGE_SIZE")
WARM_UP = 0.25  # of a run: until then caches fill
PART = 0.25  # of a run, at its end and after the warm-up, that are compared
FOLDERS = ("store", "logs", "redis", "disputes")  # of an operator's folder; all else is its state


@dataclass(frozen=True)
class Sample:
    """rss, handles, pids: by operator/process; disk: in bytes by operator/part, where a part is one of FOLDERS or `state`."""

    at: float
    rss: Mapping[str, float]
    handles: Mapping[str, float]
    disk: Mapping[str, float]
    pids: Mapping[str, int] = field(default_factory=dict)


def sample(network: LocalOperators, at: float) -> Sample:
    rss, handles, disk, pids = dict[str, float](), dict[str, float](), dict[str, float](), dict[str, int]()
    for name, daemon in network.daemons.items():
        for child in list(daemon.children.values()):
            if child.running and child.process is not None:
                with suppress(FileNotFoundError, ProcessLookupError):
                    proc = Path(f"/proc/{child.process.pid}")
                    rss[f"{name}/{child.name}"] = int((proc / "statm").read_text().split()[1]) * PAGE
                    handles[f"{name}/{child.name}"] = len(list((proc / "fd").iterdir()))
                    pids[f"{name}/{child.name}"] = child.process.pid
        for part, size in disk_of(daemon.config.folder).items():
            disk[f"{name}/{part}"] = size
    return Sample(at, rss, handles, disk, pids)


def disk_of(folder: Path) -> dict[str, float]:
    """Bytes by part."""
    sizes = dict.fromkeys((*FOLDERS, "state"), 0.0)
    for root, _, files in os.walk(folder):
        first = Path(root).relative_to(folder).parts[:1]
        part = first[0] if first and first[0] in FOLDERS else "state"
        for file in files:
            with suppress(OSError):  # it was there a moment ago
                sizes[part] += os.lstat(os.path.join(root, file)).st_size
    return sizes


def growth(series: Sequence[tuple[float, float]]) -> float:
    """Of (time, value): the median of the last PART over that of the first PART after the warm-up, less one."""
    began, ended = series[0][0], series[-1][0]
    length = ended - began
    warm = [value for at, value in series if WARM_UP <= _share(at - began, length) <= WARM_UP + PART]
    last = [value for at, value in series if _share(at - began, length) >= 1 - PART]
    return statistics.median(last) / statistics.median(warm) - 1


def _share(passed: float, length: float) -> float:
    return passed / length if length else 1.0


def series_of(samples: Sequence[Sample], of: str) -> dict[str, list[tuple[float, float]]]:
    """By process or part: its values over time."""
    names = dict.fromkeys(name for each in samples for name in getattr(each, of))
    return {name: [(s.at, getattr(s, of)[name]) for s in samples if name in getattr(s, of)] for name in names}


def total(samples: Sequence[Sample], of: str, names: Iterable[str]) -> list[tuple[float, float]]:
    """The sum of some of them over time."""
    wanted = set(names)
    return [(s.at, sum(v for name, v in getattr(s, of).items() if name in wanted)) for s in samples]


def report(samples: Sequence[Sample]) -> dict[str, object]:
    """rss_growth, handles_growth: of the keeper's process that grew most; disk_growth: of all that the operators keep."""
    rss = {name: growth(series) for name, series in series_of(samples, "rss").items() if len(series) > 3}
    handles = {name: growth(series) for name, series in series_of(samples, "handles").items() if len(series) > 3}
    parts = {part: [name for name in samples[-1].disk if name.endswith(f"/{part}")] for part in (*FOLDERS, "state")}
    disk = {part: total(samples, "disk", names) for part, names in parts.items()}
    grown = {part: growth(series) for part, series in disk.items() if min(value for _, value in series) > 0}
    return {
        "rss_growth": max(value for name, value in rss.items() if name.endswith("/keeper")),
        "rss_mb": {name: round(value / 1e6, 1) for name, value in sorted(samples[-1].rss.items())},
        "rss_growth_by_process": _rounded(rss),
        "handles_growth": max(value for name, value in handles.items() if name.endswith("/keeper")),
        "handles": dict(sorted(samples[-1].handles.items())),
        "disk_growth": growth(total(samples, "disk", samples[-1].disk)),
        "disk_growth_by_part": _rounded(grown),
        "restarts": restarts(samples),
        "disk_mb_by_part": {part: round(series[-1][1] / 1e6, 2) for part, series in disk.items()},
    }


def restarts(samples: Sequence[Sample]) -> dict[str, int]:
    """By process that ended and was started again: how often."""
    known: dict[str, set[int]] = {}
    for each in samples:
        for name, pid in each.pids.items():
            known.setdefault(name, set()).add(pid)
    return {name: len(pids) - 1 for name, pids in known.items() if len(pids) > 1}


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in sorted(values.items())}
