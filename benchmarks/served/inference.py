"""Live inference beside eager torch on the same machine, vouchers a second, and the gas of channels and maps.

    python benchmarks/inference.py [--json] [--record] [--rounds N] [--threads N]

Prints a table, or one object with --json; --record writes benchmarks/results/inference.json too. A GPT of 6 layers, 384 wide, 6 heads,
vocabulary 256 fills its context of 256 greedily from one token, for 1 and for 8 texts of a request, with as many threads each as the
machine has cores unless you say otherwise. Ratios are medians over interleaved rounds.
  serving_ratio        tokens/s of a served request over eager torch's, the smaller one of batch 1 and batch 8 (higher is better)
  batch_N.ratio        the same at batch N; served, eager: their tokens/s
  batch_N.streamed     tokens/s of a request that is streamed; streamed_ratio: over eager's
  batch_N.first_token_s      seconds from the request to the first piece of its stream; eager_first_token_s: to eager's first token
  batch_N.equal        the share of tokens on which both agree: sums in another order may turn a choice that is all but a tie
  vouchers_per_s       signatures of vouchers that one thread verifies (benchmarks/served/vouchers.py)
  gas_open, gas_close  of a channel's two transactions (benchmarks/chain/channels.py)
  gas_per_map_item     all transactions of a map job over its items (benchmarks/chain/maps.py); gas_map_job, gas_map_round: of the job,
                       of each of its rounds
  load_before          of the machine, over the minute before
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.arithmetic.reproducible import cpu_name
from benchmarks.chain import gas, maps
from benchmarks.served import serving, vouchers

RESULT = Path(__file__).parents[1] / "results" / "inference.json"
SECONDS = 2.0  # that vouchers are verified for


def figures(rounds: int, threads: int) -> dict[str, Any]:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="zoo-serving-") as name:
        made = serving.figures(Path(name), serving.Size(), rounds, threads)
    made |= {"vouchers_per_s": vouchers.rates(SECONDS)["vouchers_per_s"]}
    made |= {name: each for name, each in vouchers.gas().items() if name in ("gas_open", "gas_close")}
    made |= {**maps.measure(), "map": {"slots": maps.SLOTS, "rounds": gas.ROUNDS, "items_per_round": maps.ITEMS}}
    versions = {"torch": torch.__version__, "python": platform.python_version(), "evm": "anvil"}
    machine = {"machine": platform.machine(), "cpu": cpu_name(), "cores": os.cpu_count(), "load_before": load}
    return {**made, "rounds": rounds, "threads": threads, **versions, **machine}


def rows_of(made: dict[str, Any]) -> list[str]:
    """A line for each figure."""
    rows = []
    for key, value in made.items():
        for name, each in value.items() if isinstance(value, dict) else [("", value)]:
            text = f"{each:.4g}" if isinstance(each, float) else f"{each:,}" if isinstance(each, int) else each
            rows.append(f"{f'{key} {name}':<32} {text}")
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/inference.json")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count() or 1, help="of each (default: the machine's cores)"
    )
    options = parser.parse_args(argv)
    for name in ("rounds", "threads"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: expected 1 or more, got {getattr(options, name)}")
    made = figures(options.rounds, options.threads)
    if options.record:
        RESULT.write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(made) if options.json else "\n".join(rows_of(made)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
