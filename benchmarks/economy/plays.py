"""The best that coalitions of hostile submitters, providers, aggregators, auditors and custodians find against the specification.

Every coalition of six parties (the second provider is another one of the same kind) plays jobs of two to eight rounds in fourteen
circumstances, by itself or together; the other parties do what keepers do. A strategy is a decision at each place where a party can
act: to work, lie, be silent, serve nobody, give up a seat or half of one, take it back under another name, ask about a true claim,
sign or not, look or not, and how its lie ends. Each coalition keeps its best strategies, and tries what differs from them in up to
three decisions. What chance does (which lies are found where nobody looks but auditors) is played out whole, and weighed.
No coalition plays the same twice in the same circumstances; one that has hardly a play left leaves its share to larger ones.

  profit   expected, in prices of a slot-round: money and what work cost, less the same of the honest course; gas is left out. A
           hostile submitter has the worth of all true work too, also of rounds that were undone
  best     of each coalition; best_that_bends: of plays in which it did more than ask about true claims
  losses   of honest parties, where everything is re-executed: what they paid beyond what they have for it
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.economy.network import CIRCUMSTANCES, K
from benchmarks.economy.search import Best, Result, coalitions, search

SLOT_ROUND = 80 * K  # its usual price
RESULT = Path(__file__).resolve().parents[1] / "results" / "plays.json"


def summary(results: list[Result]) -> dict[str, Any]:
    """Of all coalitions that are done, the best of each, and the best in which it did more than ask."""
    best: dict[tuple[str, ...], Best] = {}
    bent: dict[tuple[str, ...], Best] = {}
    losses: dict[str, tuple[tuple[str, ...], Best]] = {}
    for each in results:
        for kept, made in ((best, each.best), (bent, each.bent)):
            if made is not None and (each.coalition not in kept or made.profit > kept[each.coalition].profit):
                kept[each.coalition] = made
        for name, worst in each.losses.items():
            if name not in losses or worst.profit > losses[name][1].profit:
                losses[name] = each.coalition, worst
    return {
        "plays": sum(each.plays for each in results),
        "strategies": sum(each.strategies for each in results),
        "calls": sum(each.calls for each in results),
        "coalitions": len(best),
        "circumstances": [each.name for each in CIRCUMSTANCES],
        "best": [described(of, best[of]) for of in sorted(best, key=lambda of: (len(of), of))],
        "best_that_bends": [described(of, bent[of]) for of in sorted(bent, key=lambda of: (len(of), of))],
        "losses_of_honest_parties": {name: described(*losses[name]) for name in sorted(losses)},
    }


def described(coalition: tuple[str, ...], best: Best) -> dict[str, Any]:
    return {
        "coalition": list(coalition),
        "profit": round(best.profit / SLOT_ROUND, 3),
        "circumstances": best.circumstances,
        "play": [f"{where}: {does}" for where, does in best.decisions.items()],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plays", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after so long, whatever is left")
    parser.add_argument("--only", default="", metavar="TEXT", help="circumstances whose names have this in them")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    began, results, shares = time.monotonic(), list[Result](), dict[Future[Result], int]()
    waiting = list(coalitions())  # the smallest first
    with ProcessPoolExecutor(options.processes, multiprocessing.get_context("fork")) as pool:
        while waiting or shares:
            while waiting and len(shares) < options.processes:
                left = options.plays - sum(result.plays for result in results) - sum(shares.values())
                share = -(-left // len(waiting))
                seconds = (60 * options.minutes - (time.monotonic() - began)) * options.processes / len(waiting)
                shares[pool.submit(search, waiting.pop(0), share, options.seed, options.only, seconds)] = share
            done = next(as_completed(shares))
            del shares[done]
            results.append(done.result())
            seconds = time.monotonic() - began
            print(f"{sum(r.plays for r in results):,} plays, {seconds / 60:.1f} min", file=sys.stderr, flush=True)
            out = summary(results) | {"seconds": round(seconds), "processes": options.processes, "seed": options.seed}
            options.out.write_text(json.dumps(out, indent=2) + "\n", encoding="utf-8")
    if options.json:
        print(options.out.read_text(encoding="utf-8"), end="")
    else:
        for each in out["best"]:
            print(f"{each['profit']:+9.3f}  {', '.join(each['coalition'])}")
    return int(any(each["profit"] > 0 for each in out["best"]) or bool(out["losses_of_honest_parties"]))


if __name__ == "__main__":
    sys.exit(main())
