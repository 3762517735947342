"""Scores of contributors, from an aggregation and from a probe of its updates: whose work to verify first
(docs/guides/aggregation.md, Scores). Scores are hints, not proof: only doing the work again proves that a claim is false."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from repops.commitments import Array
from zoo_compute.training.rounds import SCORES

# Honest slots train on shards of one distribution: their updates have similar norms, and none opposes the others' mean.
MIN_NORM, MAX_NORM = 0.5, 2.0
OUTLIER_DISTANCE = 5.0  # median distances from the median gain


@dataclass(frozen=True)
class Score:
    """norm: divided by the median norm; infinite if the update did not count, 0 if there was none. cosine: to the mean direction."""

    slot: int
    norm: float
    cosine: float
    weight: float

    @property
    def is_absent(self) -> bool:
        return self.norm == 0

    @property
    def is_outlier(self) -> bool:
        alike = MIN_NORM <= self.norm <= MAX_NORM and math.isfinite(self.norm) and self.cosine > 0
        return not self.is_absent and not alike


def scores_of(state: Mapping[str, Array]) -> list[Score]:
    """The scores in a checkpoint, one per slot of the round that made it; empty if the rule is the mean."""
    return [Score(slot, *map(float, row)) for slot, row in enumerate(state.get(SCORES, ()))]


def harmful_slots(before: float, after: Mapping[int, float]) -> list[int]:
    """Slots whose update alone raises the probe's loss while the others lower it, or makes it NaN or infinite.

    before: the loss without any update; after: slot -> the loss with that slot's update alone.
    """
    gains = {slot: before - loss for slot, loss in after.items() if math.isfinite(loss)}
    if not gains:
        return sorted(after)
    middle = median(gains.values())
    least = min(0.0, middle - OUTLIER_DISTANCE * median(abs(gain - middle) for gain in gains.values()))
    return sorted(slot for slot in after if gains.get(slot, -math.inf) < least)
