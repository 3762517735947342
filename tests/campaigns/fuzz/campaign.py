"""Thousands of mutated program files, run by kernels built with the address and undefined-behaviour sanitizers.

    python -m tests.campaigns.fuzz.campaign --files 10000

A child process does the work, since the sanitizers end it at the first fault. Before each file it writes it down, so the
parent can say which one it was, and keeps it. A file that takes too long or too much memory ends the child as well.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from repops import native, reference
from repops.backend import backend
from repops.encoding import encode
from repops.graph import Graph
from repops.native import build
from tests.campaigns.fuzz.execution import FAST, SLOW, Tally, attempt
from tests.campaigns.fuzz.mutations import mutant
from tests.support.programs.random_programs import pruned, random_program
from tests.support.programs.samples import SAMPLES

ROOT = Path(__file__).resolve().parents[3]
SANITIZED = ROOT / "build" / "sanitized"
KEPT = ROOT / "build" / "fuzz"  # files that did harm
SECONDS_PER_FILE = 60
ASAN = f"detect_leaks=0:abort_on_error=1:max_allocation_size_mb=1024:hard_rss_limit_mb=3000:symbolize={int(sys.platform == 'linux')}"


def work(args: argparse.Namespace) -> None:
    """The child: prints one object when all files are done."""
    if args.backend == "native":
        build.library = lambda isa, directory=SANITIZED: directory / f"librepops_{isa}{build.SUFFIX}"  # type: ignore[assignment]
    kernels = backend(args.backend)
    chance, tally = random.Random(args.seed), Tally()
    graphs = corpus()
    files = [encode(graph) for graph in graphs]
    limits, oracle = (SLOW, None) if args.backend == "reference" else (FAST, reference.prepare)
    for _ in range(args.files):
        data = mutant(chance, graphs, files)
        Path(args.current).write_bytes(data)
        signal.alarm(SECONDS_PER_FILE)
        attempt(data, chance, tally, limits, lambda graph: kernels.prepare(graph, fused=chance.random() < 0.7), oracle)
    print(json.dumps({"counts": tally.counts, "reasons": dict(tally.reasons.most_common())}))


def corpus() -> list[Graph]:
    """What is mutated: samples that are programs in earnest, and random ones that use every operator."""
    return [make() for make in SAMPLES.values()] * 4 + [pruned(random_program(seed)) for seed in range(48)]


def sanitizers() -> dict[str, str]:
    """The environment in which a plain Python may load the sanitized library."""
    find = lambda name: subprocess.check_output([build.compiler(), f"-print-file-name={name}"], text=True).strip()  # noqa: E731
    preload = " ".join(find(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so"))
    return {"LD_PRELOAD": preload, "ASAN_OPTIONS": ASAN, "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


def run_child(arguments: list[str], environment: dict[str, str]) -> Tally:
    """One process over its share of the files. Exits with the file's name when one did harm."""
    with tempfile.TemporaryDirectory() as scratch:
        current = Path(scratch, "current.program")
        command = [sys.executable, "-m", "tests.campaigns.fuzz.campaign", *arguments, "--current", str(current)]
        run = subprocess.run(
            command, env=os.environ | environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
        )
        if run.returncode:
            KEPT.mkdir(parents=True, exist_ok=True)
            data = current.read_bytes() if current.exists() else b""
            kept = KEPT / f"{hashlib.sha256(data).hexdigest()[:16]}.program"
            kept.write_bytes(data)
            raise SystemExit(f"fuzz: ended with {run.returncode} on {kept}")
    result = json.loads(run.stdout)
    return Tally(Counter(result["counts"]), Counter(result["reasons"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=10_000, help="divided among the instruction sets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="native", choices=("native", "numba", "reference"))
    parser.add_argument("--current", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.current:
        work(args)
        return
    environments: list[dict[str, str]] = [{}]
    if args.backend == "native":
        build.build(SANITIZED, sanitize=True)
        environments = [{**sanitizers(), "REPOPS_ISA": isa} for isa in native.available()]
    total = Tally()
    for number, environment in enumerate(environments):
        share = -(-args.files // len(environments))
        arguments = ["--files", str(share), "--seed", str(args.seed + number), "--backend", args.backend]
        tally = run_child(arguments, environment)
        total.counts += tally.counts
        total.reasons += tally.reasons
        print(f"{environment.get('REPOPS_ISA', args.backend)}: {dict(tally.counts)}", flush=True)
    for reason, count in total.reasons.most_common():
        print(f"{count:7,}  {reason}")
    print(f"{total.files:,} files, none did harm: {dict(total.counts)}")


if __name__ == "__main__":
    main()
