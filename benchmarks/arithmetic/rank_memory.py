"""Memory of each rank and traffic between ranks in a step, computed from the plans without running them.

    python -m benchmarks.arithmetic.rank_memory [--layers 6 --width 256 --context 64 --batch 8] [--json]

In MB. `state`: what a rank keeps from step to step. `rest`: values between its stages, and scratch. One process for comparison.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch

import repops
from benchmarks.lab.run_parameters import parameters_of
from node.device import RankLayout
from node.parallel.programs import placed_on
from node.parallel.rank import Gloo
from repops.native.runner import prepare
from repops.parallel.rank import RankRunner, rank_parts
from repops.profile import profile
from zoo_compute.models import gpt

MB = 1e6
LAYOUTS = [RankLayout(kind, ranks) for kind in ("pipeline", "tensor", "data") for ranks in (2, 4)]


def measure(options: argparse.Namespace, parts: int) -> list[dict[str, Any]]:
    """One process, then each layout, of a step in `parts` micro-batches."""
    torch.manual_seed(0)
    made = gpt.build(options.layers, 4, options.width, options.context, tied=False)
    shape = (options.batch // parts, options.context)
    tokens = torch.zeros(shape if parts == 1 else (parts, *shape), dtype=torch.int64)
    graph = repops.trace(*made, (tokens, tokens), accumulate=parts, clip_norm=1.0).graph
    alone = {"state": [profile(graph).state_bytes / MB], "rest": [prepare(graph).plan.size / MB], "sent": 0.0}
    return [{"layout": "one process", "parts": parts, **alone}, *(_of(graph, layout, parts) for layout in LAYOUTS)]


def _of(graph: Any, layout: RankLayout, parts: int) -> dict[str, Any]:
    programs = rank_parts(placed_on(graph, layout, parts))
    memories = [RankRunner(part, Gloo()).memory for part in programs]
    words = sum(
        message.words
        for part in programs
        for sends in (part.step.first_sends, *(stage.sends for stage in part.step.stages))
        for message in sends
    )
    return {
        "layout": f"{layout.kind}:{layout.ranks}",
        "parts": parts,
        "state": [each["state"] / MB for each in memories],
        "rest": [(each["values"] + each["workspace"]) / MB for each in memories],
        "sent": 4 * words / MB,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"layers": 6, "width": 256, "context": 64, "batch": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for parts in (1, 4) for row in measure(options, parts)]
    if options.json:
        print(json.dumps({"parameters": parameters_of(options), "rows": rows}))
        return
    print(f"{'layout':12} {'parts':>5}  {'state':26} {'rest':26} sent")
    for row in rows:
        state, rest = (" ".join(f"{mb:5.1f}" for mb in row[key]) for key in ("state", "rest"))
        print(f"{row['layout']:12} {row['parts']:5}  {state:26} {rest:26} {row['sent']:.1f}")


if __name__ == "__main__":
    main()
