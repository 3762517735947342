"""What an aggregation, and a probe of its updates, say of each contributor, and whose work to do again first
(docs/aggregation.md, Scores). All are reasons to look, and no proof: what is false is found by doing the work again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from repops.commitments import Array
from zoo_compute.training.rounds import SCORES

# Honest slots train on shards drawn alike, so their updates are alike in length, and none points away from the others' mean.
MIN_NORM, MAX_NORM = 0.5, 2.0
OUTLIER_DISTANCE = 5.0  # median distances from the median gain


@dataclass(frozen=True)
class Score:
    """norm: over the median norm; infinite where the update did not count, 0 where there was none. cosine: to the mean direction."""

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
    """The scores in a checkpoint, of the round that made it, slot by slot; none where the rule is the mean."""
    return [Score(slot, *map(float, row)) for slot, row in enumerate(state.get(SCORES, ()))]


def harmful_slots(before: float, after: Mapping[int, float]) -> list[int]:
    """The slots whose update by itself makes the loss of a probe worse, though the others' do far better; or not finite.

    before: the loss without any update; after: by slot, with that slot's alone.
    """
    gains = {slot: before - loss for slot, loss in after.items() if math.isfinite(loss)}
    if not gains:
        return sorted(after)
    middle = median(gains.values())
    least = min(0.0, middle - OUTLIER_DISTANCE * median(abs(gain - middle) for gain in gains.values()))
    return sorted(slot for slot in after if gains.get(slot, -math.inf) < least)
