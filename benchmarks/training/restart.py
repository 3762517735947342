"""What does training cost without private state, where every round's slots restart from the public checkpoint alone (carry_rounds 1)?

The model, text, starting weights, slots and total steps of benchmarks/training/compression.py, in these kinds:
  dense        float32 updates; moments go on from round to round: the mark
  dense_r1     the same without private state
  sparse       the largest 64 of every 4096 in 2 bits; residuals and moments go on
  sparse_r1    the same without private state: what is not sent is lost
  signs_r1     signs of random elements (`bits: 1`), without private state
  signs_r1_2h, signs_r1_3h  as many steps and about as many bytes in a half or a third of the rounds: longer ones, more elements each
  dense_r1_3h  float32 updates in a third of the rounds

A warm-up begins every round where nothing is carried, so those kinds have 5 steps of it instead of 20. Bytes are what one slot
sends in the whole run; ratios compare with float32 updates in as many rounds as the mark has, and (`ratio_an_update`) update by update.
A gap is relative to the mark's loss.
Outer settings were chosen on seed 0; the decision page (0027) lists what was tried.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.lab.run_parameters import parameters_of
from benchmarks.training import compression
from node.hardware import use_threads

R1 = {"carry_rounds": 1, "warmup_steps": 5}
SPARSE = {"keep": 64, "bits": 2}
KINDS: dict[str, dict[str, Any]] = {
    "dense": compression.KINDS["dense"],
    "dense_r1": compression.KINDS["dense"] | {"training": R1},
    "dense_r1_3h": compression.KINDS["dense"] | {"training": R1, "stretch": 3},
    "sparse": compression.KINDS["sparse"],
    "sparse_r1": {"outer": (1.0, 0.0), "compression": SPARSE, "rule": "sent_mean", "training": R1},
    "signs_r1": {
        "outer": (1.0, 0.5),
        "compression": {"keep": 1230, "bits": 1},
        "rule": "mean",
        "training": R1,
    },
    "signs_r1_2h": {
        "outer": (1.2, 0.5),
        "compression": {"keep": 2460, "bits": 1},
        "rule": "mean",
        "training": R1,
        "stretch": 2,
    },
    "signs_r1_3h": {
        "outer": (1.0, 0.6),
        "compression": {"keep": 3900, "bits": 1},
        "rule": "mean",
        "training": R1,
        "stretch": 3,
    },
}
MARK = "dense"


def kinds_of(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The kinds; those with `stretch` have so many times fewer rounds of so many times more steps."""
    kinds = {}
    for name, kind in KINDS.items():
        stretch = kind.get("stretch", 1)
        length = {"rounds": options.rounds // stretch, "inner_steps": options.inner_steps * stretch}
        kinds[name] = kind | {"training": kind.get("training", {}) | length}
    return kinds


def summary(options: argparse.Namespace, seeds: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    table = {}
    for name in next(iter(seeds.values())):
        gaps = [each[name]["loss"] / each[MARK]["loss"] - 1 for each in seeds.values()]
        runs = [each[name] for each in seeds.values()]
        sent = float(np.mean([run["bytes"] for run in runs]))
        float32 = runs[0]["float32_bytes_an_update"]
        table[name] = {
            "loss": float(np.mean([run["loss"] for run in runs])),
            "loss_gap": float(np.mean(gaps)),
            "loss_gap_worst": max(gaps),
            "bytes": sent,
            "ratio": float32 * options.rounds / sent,
            "ratio_an_update": float32 * (options.rounds // KINDS[name].get("stretch", 1)) / sent,
        }
    return {
        "kinds": table,
        "seeds": {str(seed): runs for seed, runs in seeds.items()},
        "settings": {name: KINDS[name] for name in table},
        "parameters": parameters_of(options, leave_out=("data",)),
    }


def as_text(result: Mapping[str, Any]) -> str:
    lines = [
        f"{'kind':<12}{'held-out loss':>14}{'gap':>8}{'worst':>8}{'bytes sent':>13}{'x float32':>10}{'an update':>10}"
    ]
    for name, row in result["kinds"].items():
        gaps = "".join(f"{100 * row[key]:>7.2f}%" for key in ("loss_gap", "loss_gap_worst"))
        ratios = "".join(f"{row[key]:>10.1f}" for key in ("ratio", "ratio_an_update"))
        lines.append(f"{name:<12}{row['loss']:>14.4f}{gaps}{row['bytes']:>13,.0f}{ratios}")
    return "\n".join([*lines, f"parameters: {json.dumps(result['parameters'])}"])


def main() -> int:
    parser = compression.parser_of("Loss and bytes of training whose slots restart every round")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--kinds", nargs="*", default=[*KINDS], choices=[*KINDS], help=f"{MARK} is always among them")
    options = parser.parse_args()
    options.kinds = list(dict.fromkeys([MARK, *options.kinds]))
    use_threads(1)
    if options.rounds % 6:
        parser.error(f"--rounds: expected a multiple of 6, got {options.rounds}")
    result = summary(options, {seed: compression.seeded(options, seed, kinds_of(options)) for seed in options.seeds})
    print(json.dumps(result) if options.json else as_text(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
