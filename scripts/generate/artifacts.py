"""Compile the contracts into `zoo_compute/chain/generated/artifacts` and generate their typed bindings.

python -m scripts.generate artifacts           write what changed
python -m scripts.generate artifacts --check    exit 1 when something committed is stale or a contract too large
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from scripts.generate.bindings import binding, index, module_of, shared_module, shared_structs
from scripts.generate.compiled import CONTRACTS, ROOT, Compiled, compile_contract

ARTIFACTS = ROOT / "zoo_compute" / "chain" / "generated" / "artifacts"
BINDINGS = ROOT / "zoo_compute" / "chain" / "generated" / "bindings"
CODE_LIMIT = 24_576  # EIP-170, bytes of deployed code
MARGIN = 2_000  # bytes below it that every contract keeps for the next change
# Jobs with custodians and several aggregators took the room of these two: the next change begins with moving something out.
MARGINS = {"Settlement": 50, "Custody": 150}


def most_bytes(name: str) -> int:
    """Of a contract's deployed code."""
    return CODE_LIMIT - MARGINS.get(name, MARGIN)


def outputs(compiled: list[Compiled]) -> dict[Path, str]:
    """The text of every generated file, by path."""
    shared = shared_structs(compiled)
    files = {BINDINGS / "__init__.py": index(), BINDINGS / "structs.py": shared_module(shared)}
    for each in compiled:
        artifact = json.dumps(each.artifact(), sort_keys=True, indent=1) + "\n"
        files[ARTIFACTS / f"{each.name}.json"] = artifact
        files[BINDINGS / f"{module_of(each.name)}.py"] = binding(each, shared)
    return files


def compile_whole(name: str) -> Compiled:
    """Compiled to the end, so that whoever gets it from another process has nothing left to compile."""
    compiled = compile_contract(name)
    compiled.artifact()
    return compiled


def _kept_size(name: str) -> int:
    path = ARTIFACTS / f"{name}.json"
    return path.stat().st_size if path.exists() else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when something is stale")
    check: bool = parser.parse_args().check
    # The largest first: at the end no process waits for one that began late.
    by_size = sorted(CONTRACTS, key=lambda name: -_kept_size(name))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        by_name = dict(zip(by_size, pool.map(compile_whole, by_size), strict=True))
    compiled = [by_name[name] for name in CONTRACTS]
    sizes = {each.name: each.deployed_bytes for each in compiled}
    too_big = [f"{name} ({size:,} of {most_bytes(name):,})" for name, size in sizes.items() if size > most_bytes(name)]
    if too_big:
        print(f"larger than they may be, in bytes: {', '.join(too_big)}", file=sys.stderr)
    files = outputs(compiled)
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if check:
        for path in stale:
            print(f"stale: {path.relative_to(ROOT)}", file=sys.stderr)
        if stale:
            print("run: python -m scripts.generate artifacts", file=sys.stderr)
        return int(bool(stale or too_big))
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path])
    for name, size in sizes.items():
        print(f"{name:14} {size:6,} bytes, {CODE_LIMIT - size:6,} left")
    print(f"{len(stale)} of {len(files)} files written")
    return int(bool(too_big))


if __name__ == "__main__":
    sys.exit(main())
