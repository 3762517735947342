"""A few hundred mutated program files through the reference executor. The campaign runs 10,000 through the kernels."""

from __future__ import annotations

import random

from repops import reference
from repops.encoding import encode
from tests.campaigns.fuzz.execution import SLOW, Tally, attempt
from tests.campaigns.fuzz.mutations import mutant
from tests.support.programs.samples import SAMPLES
from tests.support.waiting import ended

FILES = 300


def test_mutated_files__are_refused_with_a_reason_or_run_within_bounds() -> None:
    chance, tally = random.Random(2026), Tally()
    graphs = [make() for make in SAMPLES.values()]
    files = [encode(graph) for graph in graphs]
    for _ in range(FILES):
        data = mutant(chance, graphs, files)
        ended(lambda data=data: attempt(data, chance, tally, SLOW, reference.prepare, None))
    # The mutator reaches both ends: many reasons to refuse, and files that are other valid programs.
    assert tally.files == FILES
    assert tally.counts["run"] > FILES // 20, tally
    assert len(tally.reasons) > 20, tally
