"""Watts of the card that computes, as its driver measures them."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zoo_compute.operators.machine import WSL

EVERY_S = 10.0
PATIENCE_S = 10.0


class PowerMeter:
    """declared: watts of operator.json, which count before anything measured; 0: none. card: its number, or None."""

    def __init__(self, declared: float, card: int | None, sample: Callable[[int], float | None] | None = None) -> None:
        self._declared = declared
        self._card = card
        self._sample = sample or watts_of

    @contextmanager
    def working(self) -> Iterator[list[float]]:
        """Measure while the block runs. `mean` of the list says the watts once it is over."""
        samples: list[float] = []
        if self._declared or self._card is None:
            yield [self._declared] * bool(self._declared)
            return
        over = threading.Event()
        thread = threading.Thread(target=self._measure, args=(self._card, samples, over), daemon=True)
        thread.start()
        try:
            yield samples
        finally:
            over.set()

    def _measure(self, card: int, samples: list[float], over: threading.Event) -> None:
        while True:
            watts = self._sample(card)
            if watts is None:
                return
            samples.append(watts)
            if over.wait(EVERY_S):
                return


def card_of(device: str) -> int | None:
    """The number of the card that a worker of this device in operator.json computes on; None: no card that a driver measures."""
    kind, _, number = device.partition(":")
    return int(number or 0) if kind in ("", "cuda") else None


def mean(samples: list[float]) -> float | None:
    return sum(samples) / len(samples) if samples else None


def watts_of(card: int) -> float | None:
    """None where the driver does not say it."""
    program = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path=WSL)
    if not program:
        return None
    command = [program, "-i", str(card), "--query-gpu=power.draw", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return float(answer.stdout.strip()) if answer.returncode == 0 else None
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
