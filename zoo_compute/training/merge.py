"""Merges the branches of a network partition: base + sum of share_i * (branch_i - base), with the same bits on every machine.

A branch's share is its fraction of all branches' examples. The merge therefore equals one outer step of rate 1 in which each
branch weighs as much as the data it trained on (docs/design/decisions/0020).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np

from repops import backend
from repops.builder import Builder, View
from repops.commitments import Array
from repops.fields import canonical_json, parse_json, read
from repops.graph import BATCH_ROLE, F32, PARAMETER, STATE_ROLE, Graph
from zoo_compute.formats.lineage import Parents
from zoo_compute.formats.manifest import Manifest, as_job_errors

BASE, BRANCHES = "base", "branches"
MANTISSA = 24  # bits of a float32's


@dataclass(frozen=True)
class Merge:
    """The result of a merge. root: the state root of the module's tensors from which a job with these parents starts."""

    root: str
    parents: Parents

    def to_bytes(self) -> bytes:
        return canonical_json(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Merge:
        """Raises JobError."""
        with as_job_errors():
            return read(cls, parse_json(data, "merge"), "merge")


def example_share(part: int, whole: int) -> float:
    """part / whole, at most 1, rounded once to the nearest float32, ties to even."""
    exponent = MANTISSA + whole.bit_length() - part.bit_length()
    if part << exponent >= whole << MANTISSA:
        exponent -= 1
    return math.ldexp(round(Fraction(part << exponent, whole)), -exponent)


def example_shares(examples: Sequence[int]) -> list[float]:
    return [example_share(each, sum(examples)) for each in examples]


def merging_program(shape: Sequence[int], weights: Sequence[float]) -> Graph:
    """The program that merges one tensor. State: the base, afterwards the merge. Batch: the branches' tensors, one per row.

    base + (((w_0 * (x_0 - base)) + w_1 * (x_1 - base)) + ...); each operation rounds separately.
    """
    b = Builder()
    base = b.input(F32, tuple(shape), STATE_ROLE, 0)
    rows = b.input(F32, (len(weights), *shape), BATCH_ROLE, 0)
    moved: View | None = None
    for at, weight in enumerate(weights):
        term = b.map("mul", weight, b.map("sub", rows.select(0, at), base))
        moved = term if moved is None else b.map("add", moved, term)
    assert moved is not None, "there are at least two branches"
    after = b.map("add", base, moved)
    return b.finish([(BASE, PARAMETER, base, after)], [(BRANCHES, rows)], b.scalar(0.0, F32))


def merge_tensors(
    base: Mapping[str, Array], branches: Sequence[Mapping[str, Array]], examples: Sequence[int], names: Collection[str]
) -> dict[str, Array]:
    """Merge the module's tensors in `names`, which the step exchanges. Rounds never change the others.

    Works tensor by tensor, so that memory contains only one program's values beside the branches.
    """
    weights, made = example_shares(examples), dict(base)
    for name in sorted(names):
        runner = backend.prepare(merging_program(base[name].shape, weights))
        runner.state[BASE][...] = base[name]
        runner.step({BRANCHES: np.stack([branch[name] for branch in branches])})
        made[name] = runner.state[BASE].copy()
    return made


def count_examples(slot_rounds: int, manifest: Manifest) -> int:
    """Examples that this many slot-rounds of a job train on."""
    return slot_rounds * manifest.inner_steps * manifest.batch_size
