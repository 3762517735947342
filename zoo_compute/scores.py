"""What a robust aggregation says of each contributor, and whose work to do again first (docs/aggregation.md, Scores)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from repops.commitments import Array
from zoo_compute.rounds import SCORES

# Honest slots train on shards drawn alike, so their updates are alike in length, and none points away from the others' mean.
SHORTEST, LONGEST = 0.5, 2.0


@dataclass(frozen=True)
class Score:
    """norm: over the median norm; infinite where the update did not count, 0 where there was none. cosine: to the mean direction."""

    slot: int
    norm: float
    cosine: float
    weight: float

    @property
    def absent(self) -> bool:
        return self.norm == 0

    @property
    def odd(self) -> bool:
        """A reason to look, and no proof: what is false is found by doing the work again."""
        alike = SHORTEST <= self.norm <= LONGEST and math.isfinite(self.norm) and self.cosine > 0
        return not self.absent and not alike


def scores_of(state: Mapping[str, Array]) -> list[Score]:
    """The scores in a checkpoint, of the round that made it, slot by slot; none where the rule is the mean."""
    return [Score(slot, *map(float, row)) for slot, row in enumerate(state.get(SCORES, ()))]
