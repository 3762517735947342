"""Which slots do an aggregation's scores and the probe of its updates flag? A verifier recomputes flagged slots.

Uses the laboratory and attacks of benchmarks/training/byzantine.py under one rule. Measures the share of hostile slot-rounds
flagged by the scores, by the probe, and by either; and the share of honest ones flagged, with and without an attack.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from benchmarks.training import rule_times
from benchmarks.training.attacks import ATTACKS
from benchmarks.training.byzantine import HOSTILE, RECOMMENDED, RULES, SLOTS, Lab, digits, gpt
from node.compute.programs import State
from node.compute.training import probe_losses
from node.hardware import use_threads
from zoo_compute.training.outliers import harmful_slots, scores_of

ROOT = Path(__file__).resolve().parents[2]

BY = ("scores", "probe", "either")


class Named:
    """Slot-rounds flagged by the scores, the probe or either."""

    def __init__(self) -> None:
        self.hostile = self.honest = 0
        self.caught, self.wronged = dict.fromkeys(BY, 0), dict.fromkeys(BY, 0)

    def count(self, by: str, slots: set[int], hostile: list[int]) -> None:
        self.caught[by] += len(slots.intersection(hostile))
        self.wronged[by] += len(slots.difference(hostile))

    def shares(self) -> dict[str, dict[str, float]]:
        caught = {by: self.caught[by] / self.hostile for by in BY} if self.hostile else {}
        return {"hostile": caught, "honest": {by: self.wronged[by] / self.honest for by in BY}}


def watched(lab: Lab, rule: str, attack: str, seed: int, named: Named) -> None:
    """Run one job under one attack, and examine each round as a verifier does."""
    manifest, programs = lab.manifest, lab.programs

    def look(round_: int, hostile: list[int], before: State, updates: dict[int, State], after: State) -> None:
        of_scores = {score.slot for score in scores_of(after) if score.is_outlier}
        of_probe = set(harmful_slots(*probe_losses(manifest, programs, before, lab.data.heldout, round_, updates)))
        named.hostile += len(hostile)
        named.honest += len(updates) - len(hostile)
        for by, slots in zip(BY, (of_scores, of_probe, of_scores | of_probe), strict=True):
            named.count(by, slots, hostile)

    how = rule_times.named(rule, HOSTILE)
    joined = rule_times.rule_of(how, SLOTS, lab.values)
    lab.run(how, ATTACKS.get(attack), seed, joined, watch=look)


def table_of(made: Callable[[int], Lab], rules: list[str], seeds: range, say: Callable[[str], None]) -> dict:
    """The shares flagged, by rule and attack."""
    names = ["none", *ATTACKS]
    counts = {rule: {attack: Named() for attack in names} for rule in rules}
    for seed in seeds:
        lab = made(seed)
        for rule in rules:
            for attack in names:
                watched(lab, rule, attack, seed, counts[rule][attack])
            say(f"seed {seed}, {rule}")
    return {rule: {attack: each.shares() for attack, each in by.items()} for rule, by in counts.items()}


def as_text(result: dict) -> str:
    lines = [f"{HOSTILE} of {SLOTS} hostile, seeds {result['seeds']}: % of slot-rounds named by scores, probe, either"]
    for job in ("digits", "gpt"):
        for rule, by in result[job].items():
            lines += ["", f"{job}, {rule:24}{'hostile':>24}{'honest':>24}"]
            for attack, parts in by.items():
                columns = [
                    "".join(f"{100 * part[name]:8.1f}" if part else " " * 8 for name in BY) for part in parts.values()
                ]
                lines.append(f"  {attack:26}" + "".join(columns))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Whom scores and probe name")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--digits-rounds", type=int, default=20)
    parser.add_argument("--gpt-rounds", type=int, default=10)
    parser.add_argument("--rules", nargs="+", default=["mean", RECOMMENDED], choices=RULES)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    began = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    warnings.simplefilter("ignore")
    use_threads(1)  # the laboratories' modules are too small for more
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    result = {
        "slots": SLOTS, "hostile": HOSTILE, "seeds": list(seeds), "rules": options.rules,
        "digits": table_of(lambda seed: digits(seed, options.digits_rounds, 20), options.rules, seeds, say),
        "gpt": table_of(lambda seed: gpt(seed, options.gpt_rounds, 10), options.rules, seeds, say),
    }  # fmt: skip
    print(json.dumps(result) if options.json else as_text(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
