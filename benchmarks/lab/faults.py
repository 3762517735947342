"""Injects faults and counts those that fire, so that a test can check that each one really happened."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.lab.laboratory import Laboratory
from benchmarks.lab.link import Link

OF_THE_LINK = {"partition": "cut", "corrupt": "corrupted", "duplicate": "duplicated"}  # fault -> what the links count


@dataclass
class Faults:
    """The faults requested and fired. Links count their own; a process fault fires when the process has ended.

    lab: None where only processes are harmed.
    """

    lab: Laboratory | None = None
    asked: Counter[str] = field(default_factory=Counter)
    _fired: Counter[str] = field(default_factory=Counter)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the process, as a power cut would."""
        self.asked["kill"] += 1
        if process.poll() is None:
            process.kill()
            process.wait()
            self._fired["kill"] += 1

    def restart(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Restart a killed process."""
        self.asked["restart"] += 1
        process = start()
        self._fired["restart"] += process.poll() is None
        return process

    def partition(self, host: str) -> None:
        """Cut the host off until `heal`."""
        self._links("partition").order("cut", host, value=True)

    def heal(self, host: str) -> None:
        assert self.lab is not None
        self.lab.order("cut", host, value=False)

    def slow(self, host: str, link: Link) -> None:
        lab = self._links("slow")
        lab.shape(host, link)
        self._fired["slow"] += lab.links[host] == link

    def corrupt(self, host: str, count: int = 1) -> None:
        """Damage the next `count` packets of data that leave the host, so that TCP does not notice."""
        self._links("corrupt").order("corrupt", host, value=count)

    def duplicate(self, host: str, count: int = 1) -> None:
        """Send the next `count` packets of data that leave the host twice."""
        self._links("duplicate").order("repeat", host, value=count)

    def fired(self) -> Counter[str]:
        totals = Counter(self._fired)
        if self.lab is not None:
            counts = self.lab.counts().values()
            for fault, counted in OF_THE_LINK.items():
                totals[fault] += sum(count.get(counted, 0) for count in counts)
        return +totals

    def assert_fired(self) -> None:
        """Raises AssertionError with the requested faults that did not fire."""
        fired = self.fired()
        missed = {fault: count for fault, count in self.asked.items() if fired[fault] < count}
        assert not missed, f"asked for and not fired: {missed}; fired: {dict(fired)}"

    def _links(self, fault: str) -> Laboratory:
        assert self.lab is not None, f"{fault}: there is no laboratory"
        self.asked[fault] += 1
        return self.lab
