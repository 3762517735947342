"""Learning-rate schedules over a whole job: a factor for each inner step of all rounds.

The optimizer's own count of steps starts again in every round, so the factors come with the data: the array `rate` has one for each
example. Which example a step takes follows from round, slot and step; the data's root on chain commits to both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from repops.graph import RATE
from zoo_compute.training.examples import Dataset

CONSTANT = "constant"  # no schedule
# By the names of `transformers`: (steps after the warm-up, how many there are) -> factor.
SCHEDULES: dict[str, Callable[[int, int], float]] = {
    "constant_with_warmup": lambda done, steps: 1.0,
    "linear": lambda done, steps: (steps - done) / steps,
    "cosine": lambda done, steps: 0.5 * (1.0 + math.cos(math.pi * done / steps)),
}


def factors_of(kind: str, warmup: int, steps: int) -> tuple[float, ...]:
    """The factors of `transformers.get_scheduler`: from 0 up over `warmup` steps, then as `kind` says until step `steps`."""
    rest = max(1, steps - warmup)
    return tuple(step / warmup if step < warmup else SCHEDULES[kind](step - warmup, rest) for step in range(steps))


def with_rates(dataset: Dataset, factors: Sequence[float], *, slots: int, inner_steps: int, batch_size: int) -> Dataset:
    """The dataset with the factors. factors: (rounds * inner_steps,). Examples that repeat are stored again, each with its own factor."""
    rounds = len(factors) // inner_steps
    by_step = np.asarray(factors, np.float32).reshape(rounds, 1, inner_steps, 1)
    rate = np.ascontiguousarray(np.broadcast_to(by_step, (rounds, slots, inner_steps, batch_size))).reshape(-1)
    count = len(next(iter(dataset.examples.values())))
    order = np.arange(len(rate)) % count
    examples = {name: np.ascontiguousarray(array[order]) for name, array in dataset.examples.items()}
    heldout = len(next(iter(dataset.heldout.values())))
    return Dataset(examples | {RATE: rate}, dataset.heldout | {RATE: np.ones(heldout, np.float32)})
