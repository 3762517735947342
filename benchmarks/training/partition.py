"""What does a partition cost? Held-out loss of branches trained apart, of their merge, and of the training after it.

Some of a job's four slots are cut off for ROUNDS rounds. Both sides keep training on their own examples, as jobs that begin
at the same weights; then all four slots train AFTER more rounds:
  undivided   as if there had been no partition: one job of ROUNDS + AFTER rounds
  branches    each side's checkpoint at the end of the partition
  merged      base + sum of share * (branch - base), shares as the sides' examples (zoo_compute.training.merge); even: shares of one half
  after       AFTER rounds of a new job that begins there, or at the larger branch where the other's work is thrown away
Model, text and settings are those of benchmarks/training/loss_gap.py (dense updates).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.training.loss_gap import NETWORKS, PRETRAINED, TEXT, data_of, job_of, published, weights_of
from node.compute.programs import State
from node.hardware import use_threads
from node.replay import simulate
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.training.examples import Dataset
from zoo_compute.training.merge import merge_tensors

SLOTS, ROUNDS, AFTER = 4, 6, 6
KIND = NETWORKS["dense"]


def job(seed: int, rounds: int, slots: int) -> ComputeJob:
    whole = job_of(seed, rounds, KIND)
    return ComputeJob(
        whole.model_config, whole.data_config, whole.training_config | {"slots": slots}, "1000000", aggregation_config={"rule": KIND["rule"]}
    )  # fmt: skip


def trained(of: ComputeJob, data: Dataset, first: int, weights: State) -> tuple[State, list[float]]:
    """The module's tensors and the losses of a job that takes its examples from `first` on."""
    cut = {name: array[first : first + of.examples_wanted] for name, array in data.examples.items()}
    manifest, files = published(of, data._replace(examples=cut))
    masks = [(1 << manifest.slots) - 1] * manifest.rounds
    begun = files.checkpoint | weights
    run = simulate(manifest, files.programs, begun, files.examples, files.heldout, masks)
    return {name: run.state[name] for name in weights}, run.losses


def seeded(seed: int, cut_off: int, rounds: int, after: int, pretrained: int) -> dict[str, Any]:
    """One seed's losses."""
    whole = job(seed, rounds + after, SLOTS)
    data = data_of(whole, pretrained, TEXT)
    base = weights_of(whole, data, pretrained)
    sides = [job(seed, rounds, slots) for slots in (SLOTS - cut_off, cut_off)]
    starts = [0, sides[0].examples_wanted]
    pair = [trained(of, data, first, base) for of, first in zip(sides, starts, strict=True)]
    later, rest = job(seed, after, SLOTS), sum(side.examples_wanted for side in sides)
    step, weights = whole.traced.graph, [branch for branch, _ in pair]
    begun: Mapping[str, State] = {
        "merged": merge_tensors(base, weights, [SLOTS - cut_off, cut_off], step.exchanged),
        "even": merge_tensors(base, weights, [1, 1], step.exchanged),
        "larger": weights[0],
    }
    curves = {name: trained(later, data, rest, start)[1] for name, start in begun.items()}
    undivided = trained(whole, data, 0, base)[1]
    last = {
        "base": undivided[0],
        "branches": [losses[-1] for _, losses in pair],
        "undivided": undivided[rounds],
        "undivided_after": undivided[-1],
    }
    last |= {name: curve[0] for name, curve in curves.items()}
    last |= {f"{name}_after": curve[-1] for name, curve in curves.items()}
    print(f"seed {seed}, {cut_off} of {SLOTS} cut off: {last}", file=sys.stderr, flush=True)
    return last


def row(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds. loss_gap: of the training after the merge, to the undivided one; worst: of a single seed."""
    names = [name for name in results[0] if name != "branches"]
    gaps = [each["merged_after"] / each["undivided_after"] - 1 for each in results]
    means = {name: float(np.mean([each[name] for each in results])) for name in names}
    branches = np.mean([each["branches"] for each in results], axis=0).tolist()
    ok = sum(each["merged"] <= max(each["branches"]) for each in results)
    return means | {
        "branches": branches,
        "loss_gap": float(np.mean(gaps)),
        "loss_gap_worst": max(gaps),
        "no_worse_than_worse_branch": f"{ok} of {len(results)}",
        "no_worse_than_better_branch": f"{sum(each['merged'] <= min(each['branches']) for each in results)} of {len(results)}",
    }


def partition(
    seeds: int, *, rounds: int = ROUNDS, after: int = AFTER, pretrained: int = PRETRAINED, first: int = 0
) -> dict[str, Any]:
    table = {
        f"{cut_off} of {SLOTS}": row(
            [seeded(seed, cut_off, rounds, after, pretrained) for seed in range(first, first + seeds)]
        )
        for cut_off in (1, 2)
    }
    parameters = {"seeds": seeds, "rounds": rounds, "after": after, "pretrained": pretrained, "slots": SLOTS}
    return {"loss_gap": max(each["loss_gap"] for each in table.values()), "parameters": parameters, "cut_off": table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--after", type=int, default=AFTER)
    parser.add_argument("--pretrained", type=int, default=PRETRAINED)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    use_threads(1)
    result = partition(
        options.seeds,
        rounds=options.rounds,
        after=options.after,
        pretrained=options.pretrained,
        first=options.first_seed,
    )
    if options.json:
        print(json.dumps(result))
        return
    print(f"parameters: {result['parameters']}")
    for name, each in result["cut_off"].items():
        print(f"{name} cut off:")
        for key, value in each.items():
            print(f"  {key:28} {value}")


if __name__ == "__main__":
    main()
