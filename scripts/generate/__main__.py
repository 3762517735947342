"""Write all generated files; --check lists stale ones instead. Names select some: `python -m scripts.generate --check artifacts`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

# Order matters: a generator may read the output of earlier ones.
GENERATORS = {
    "recipe_table": "the operator table as Vyper constants",
    "artifacts": "the compiled contracts and their typed bindings",
    "benchmark_program": "the program of the admission benchmark",
    "reference": "reference pages and tables of the docs",
    "economics": "tables and plots of docs/design/economics.md",
    "mint": "tables and a plot of docs/design/burn-and-mint.md",
    "scaling": "tables and plots of docs/design/scaling.md",
    "examples": "tables of docs/guides/costs.md: what jobs cost and bring",
    "figures.pictures": "drawings: the life of a job, the parties, disputes",
    "vectors": "portable vectors of the specification",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts.generate", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(GENERATORS)}; default: all")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file is stale")
    options = parser.parse_args()
    unknown = set(options.names) - set(GENERATORS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(GENERATORS)}")
    names = [name for name in GENERATORS if name in (options.names or GENERATORS)]
    # Checks write nothing, so they may run beside each other.
    with ThreadPoolExecutor(os.cpu_count() if options.check else 1) as pool:
        passed = list(pool.map(lambda name: _run(name, options.check), names))
    failed = [name for name, has_passed in zip(names, passed, strict=True) if not has_passed]
    if failed:
        print(f"stale or failed: {', '.join(failed)}; run `make generate`", file=sys.stderr)
    return bool(failed)


def _run(name: str, check: bool) -> bool:
    command = [sys.executable, "-m", f"scripts.generate.{name}", *(["--check"] if check else [])]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
