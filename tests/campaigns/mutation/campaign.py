"""Mutants of the contracts, each run against the tests that must notice it.

    python -m tests.campaigns.mutation.campaign                        all contracts and modules, a sample of each
    python -m tests.campaigns.mutation.campaign Settlement terms       some of them
    python -m tests.campaigns.mutation.campaign Auction --again        its survivors once more, after tests were added

What is done is kept in build/mutation, one line a mutant: a campaign that was interrupted goes on where it stopped.
`benchmarks/results/mutation.json` has the counts, `tests/campaigns/mutation/equivalent.toml` the survivors that no test can
tell from the original.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
import tomllib
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.campaigns.mutation.mutant_runner import KEPT, MutantOutcome, MutantRunner, SourceMutantRunner
from tests.campaigns.mutation.mutants import Mutant, generate, sampled
from tests.campaigns.mutation.suites import CONTRACTS, ROOT, users

RESULTS = ROOT / "benchmarks" / "results" / "mutation.json"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
VALID = ("killed", "timeout", "survived")
Key = tuple[int, str, str]


def sources(names: list[str]) -> list[Path]:
    """The files of these names; all when there are none. Mocks are tests, and are not mutated."""
    everything = {
        path.stem: path for pattern in ("*.vy", "modules/**/*.vy") for path in sorted(CONTRACTS.glob(pattern))
    }
    unknown = set(names) - set(everything)
    if unknown:
        raise SystemExit(f"mutation: no such contract: {', '.join(sorted(unknown))}")
    return [everything[name] for name in names or everything]


class Records:
    """What became of the mutants of a source, by mutant; the last line of each counts."""

    def __init__(self, source: Path) -> None:
        self.name = source.stem
        self.mutants = generate(source.read_text())
        self.path = KEPT / f"{source.stem}.jsonl"
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        kept = {(each["line"], each["before"], each["after"]): each for each in map(json.loads, lines)}
        # A mutant of a text that is no more says nothing.
        self.by_key: dict[Key, Any] = {each.key: kept[each.key] for each in self.mutants if each.key in kept}

    def add(self, mutant: Mutant, verdict: MutantOutcome) -> None:
        self.by_key[mutant.key] = record = {**asdict(mutant), **asdict(verdict)}
        KEPT.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def codes(self) -> set[str]:
        return {each["code"] for each in self.by_key.values() if each["code"]}

    def survivors(self) -> list[Any]:
        """Those that are not declared equivalent."""
        declared = equivalents(self.name)
        left = [each for each in self.by_key.values() if each["status"] == "survived"]
        return [each for each in left if (each["before"].strip(), each["after"].strip()) not in declared]

    def valid(self) -> int:
        return sum(each["status"] in VALID for each in self.by_key.values())

    def summary(self) -> dict[str, Any]:
        counts = Counter(each["status"] for each in self.by_key.values())
        valid, killed, left = self.valid(), counts["killed"] + counts["timeout"], len(self.survivors())
        return {
            "generated": len(self.mutants),
            "drawn": len(self.by_key),
            "invalid": counts["invalid"],
            "trivially_equal": counts["equal"],
            "duplicate": counts["duplicate"],
            "valid": valid,
            "killed": killed,
            "equivalent": valid - killed - left,
            "survived": left,
            "killed_of_valid": round(killed / valid, 4) if valid else None,
        }


def equivalents(name: str) -> set[tuple[str, str]]:
    entries = tomllib.loads(EQUIVALENT.read_text()).get("equivalent", [])
    return {(each["before"].strip(), each["after"].strip()) for each in entries if each["source"] == name}


def campaign(judge: SourceMutantRunner, records: Records, sample: int, seed: int) -> None:
    """Mutants in the order of the sample, until as many valid ones as wanted are judged."""
    judge.seen |= records.codes()
    for mutant in sampled(records.mutants, seed):
        if records.valid() >= sample:
            return
        if mutant.key not in records.by_key:
            step(judge, records, mutant)


def again(judge: SourceMutantRunner, records: Records) -> None:
    """Survivors once more."""
    survivors = {(each["line"], each["before"], each["after"]) for each in records.survivors()}
    for mutant in records.mutants:
        if mutant.key in survivors:
            step(judge, records, mutant)


def step(judge: SourceMutantRunner, records: Records, mutant: Mutant) -> None:
    verdict = judge.judge(mutant)
    records.add(mutant, verdict)
    if verdict.status == "survived":
        print(
            f"{records.name}:{mutant.line} {mutant.function}\n  - {mutant.before.strip()}\n  + {mutant.after.strip()}"
        )
    if verdict.status in VALID:
        clock = time.strftime("%H:%M:%S")
        print(f"{clock} {records.name} {records.valid()}: {verdict.status} in {verdict.seconds} s", flush=True)


def write(results: dict[str, Any], seed: int) -> None:
    """What was run now replaces what was there; the rest of today's sources stays. `valid` is how large the sample is."""
    before = json.loads(RESULTS.read_text())["sources"] if RESULTS.exists() else {}
    kept = {path.stem: before[path.stem] for path in sources([]) if path.stem in before}
    merged = kept | {name: {"seed": seed, **counts} for name, counts in results.items()}
    totals = Counter[str]()
    for counts in merged.values():
        totals.update({key: counts[key] for key in ("valid", "killed", "equivalent", "survived")})
    shares = {f"{key}_of_valid": round(totals[key] / totals["valid"], 4) for key in ("killed", "equivalent")}
    report = {"all": {**totals, **shares}, "sources": dict(sorted(merged.items()))}
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contracts", nargs="*", help="names of contracts and of their modules")
    parser.add_argument("--sample", type=int, default=120, help="valid mutants of each, fewer where there are fewer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="only survivors of before")
    parser.add_argument("--whole", action="store_true", help="with the differential tests too, which take minutes")
    parser.add_argument("--json", action="store_true", help="print the counts as one object")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    todo = sources(args.contracts)
    contracts = list(dict.fromkeys(name for path in todo for name in users(path)))
    judge = MutantRunner(contracts, whole=args.whole)
    done: list[Records] = []
    try:
        for path in todo:
            done.append(Records(path))
            source = judge.on(path)
            again(source, done[-1]) if args.again else campaign(source, done[-1], args.sample, args.seed)
            source.close()
    except KeyboardInterrupt:
        print("interrupted: what is done is kept")
    finally:
        judge.close()
    results = {records.name: records.summary() for records in done if records.valid()}
    write(results, args.seed)
    text = [f"{name}: {counts}" for name, counts in results.items()]
    print(json.dumps(results, indent=1) if args.json else "\n".join(text))


if __name__ == "__main__":
    main()
