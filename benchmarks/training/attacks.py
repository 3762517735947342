"""Attacks: the updates that hostile slots send, knowing all honest updates and the rule. For benchmarks/training/byzantine.py.

Shape legend: H honest slots, F hostile slots, D values of an update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from repops.commitments import Array

Rule = Callable[[Array], Array]  # rows to one update
SCALES = (0.3, 0.7, 1.0, 1.5, 2.0, 4.0, 10.0)


@dataclass(frozen=True)
class Scene:
    """The colluders' view of a round. honest_HD; earlier_FD: the honest updates of these slots in the job's first round."""

    honest_HD: Array
    earlier_FD: Array
    rule: Rule
    rng: np.random.Generator

    @property
    def count(self) -> int:
        return len(self.earlier_FD)

    @cached_property
    def mean_D(self) -> Array:
        return self.honest_HD.mean(0)

    def all_alike(self, row_D: Array) -> Array:
        return np.broadcast_to(row_D, self.earlier_FD.shape).astype(np.float32)


def sign_flip(s: Scene) -> Array:
    return s.all_alike(-s.mean_D)


def inner_product(s: Scene) -> Array:
    """Xie et al. 2020: against the mean, larger than it."""
    return s.all_alike(-2 * s.mean_D)


def little_is_enough(s: Scene) -> Array:
    """Baruch et al. 2019: 1.5 standard deviations off in every value, all alike."""
    return s.all_alike(s.mean_D - 1.5 * s.honest_HD.std(0))


def mimic(s: Scene) -> Array:
    """Karimireddy et al. 2022: all repeat one honest slot."""
    return s.all_alike(s.honest_HD[0])


def noise(s: Scene) -> Array:
    return s.rng.normal(0, 10 * s.honest_HD.std(), s.earlier_FD.shape).astype(np.float32)


def not_finite(s: Scene) -> Array:
    """One value NaN, all NaN, infinities, and values whose squares are none."""
    rows = s.honest_HD[: s.count].copy()
    rows[0, 0] = np.nan
    rows[1 % s.count :: 4] = np.nan
    rows[2 % s.count :: 4] = np.inf
    rows[3 % s.count :: 4] = 3e38
    return rows


def replay(s: Scene) -> Array:
    """Replay the honest update of the first round."""
    return s.earlier_FD


def colluders(s: Scene) -> Array:
    """Search two directions at several scales for the update that costs this round the most progress under the rule."""
    directions = (-s.mean_D, -s.honest_HD.std(0) * np.sign(s.mean_D))
    rows = [s.all_alike(s.mean_D + scale * direction) for direction in directions for scale in SCALES]
    progress = [float(s.rule(np.concatenate([s.honest_HD, row])) @ s.mean_D) for row in rows]
    return rows[int(np.argmin(progress))]


ATTACKS: dict[str, Callable[[Scene], Array]] = {
    "sign_flip": sign_flip,
    "inner_product": inner_product,
    "little_is_enough": little_is_enough,
    "mimic": mimic,
    "noise": noise,
    "not_finite": not_finite,
    "replay": replay,
    "colluders": colluders,
}
