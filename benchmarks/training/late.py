"""What would late results be worth? Loss where late updates are left out, beside counting them a round later at a discount.

The jobs of benchmarks/training/byzantine.py (17 slots, the rule is the mean). In each round every slot is late with a chance:
  none       nobody is late: the mark
  left_out   a late update is lost; this is the protocol
  counted D  it is joined to the next round's updates, at the weight D beside their 1
Gaps are relative to the mark: points of accuracy on the digits, parts of the held-out loss of the GPT.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.lab.run_parameters import parameters_of
from benchmarks.training.byzantine import Lab, digits, gpt
from node.compute.aggregation import aggregate
from node.hardware import use_threads
from repops.commitments import Array
from zoo_compute.jobs.files import initial_checkpoint


def score(lab: Lab, chance: float, discount: float, seed: int) -> float:
    """The last checkpoint's. discount: a late update's weight in the round after its own, where those in time have 1."""
    rng = np.random.default_rng(seed)
    checkpoint = initial_checkpoint(lab.programs.graph, lab.tensors, lab.manifest.aggregation_spec)
    before: list[Array] = []
    for round_ in range(lab.manifest.rounds):
        rows = [lab.flat(lab.trained(checkpoint, round_, slot)) for slot in range(lab.manifest.slots)]
        is_late = rng.random(len(rows)) < chance
        in_time = [row for row, late in zip(rows, is_late, strict=True) if not late]
        weights = [1.0] * len(in_time) + [discount] * len(before)
        if sum(weights):
            joined = np.average([*in_time, *before], axis=0, weights=weights).astype(np.float32)
            checkpoint = aggregate(lab.manifest, lab.programs, checkpoint, {0: lab.shaped(joined)})
        before = [row for row, late in zip(rows, is_late, strict=True) if late]
    return lab.score(checkpoint)


def gaps(made: Callable[[int], Lab], options: argparse.Namespace) -> dict[str, Any]:
    """By chance and kind: the mean of the seeds' gaps, and the worst."""
    table: dict[str, dict[str, list[float]]] = {str(chance): {} for chance in options.chances}
    for seed in range(options.seeds):
        lab = made(seed)
        mark = score(lab, 0.0, 0.0, seed)
        for chance, kinds in ((chance, table[str(chance)]) for chance in options.chances):
            for discount in (0.0, *options.discounts):
                got = score(lab, chance, discount, seed)
                gap = got - mark if lab.accuracy else got / mark - 1
                kinds.setdefault(f"counted {discount}" if discount else "left_out", []).append(gap)
            print(
                f"seed {seed}, {chance} late: { {kind: round(by[-1], 4) for kind, by in kinds.items()} }",
                file=sys.stderr,
            )
    return {
        chance: {kind: {"mean": float(np.mean(by)), "worst": max(by)} for kind, by in kinds.items()} for chance, kinds in table.items()
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="What late results would be worth")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--chances", type=float, nargs="+", default=[0.05, 0.25, 0.5], help="of a slot to be late")
    parser.add_argument("--discounts", type=float, nargs="+", default=[0.5, 1.0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    use_threads(1)
    jobs = {"digits": lambda seed: digits(seed, 8, 10), "gpt": lambda seed: gpt(seed, 10, 10)}
    result: dict[str, Any] = {name: gaps(made, options) for name, made in jobs.items()}
    result["parameters"] = parameters_of(options)
    if options.json:
        print(json.dumps(result))
        return 0
    for name, unit in (("digits", "points of accuracy"), ("gpt", "parts of the loss")):
        for chance, kinds in result[name].items():
            for kind, gap in kinds.items():
                print(
                    f"{name:8}{float(chance):>5.0%} late  {kind:14}{gap['mean']:>9.4f}  worst {gap['worst']:.4f}  {unit}"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
