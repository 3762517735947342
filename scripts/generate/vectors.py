"""Writes tests/vectors: single calls of every transition of the specification, as JSON (tests/vectors/README.md).

    python -m scripts.generate vectors [--check]

`--check` writes nothing and exits 1 when a file is stale, missing or left over.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.support.lockstep.vector_files import FOLDER, build

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 when a file is stale")
    check = parser.parse_args().check
    wanted = build()
    committed = {str(path.relative_to(FOLDER)): path for path in FOLDER.rglob("*.json")}
    stale = [name for name, text in wanted.items() if name not in committed or committed[name].read_text() != text]
    left_over = sorted(committed.keys() - wanted.keys())
    if not check:
        (FOLDER / "stories").mkdir(parents=True, exist_ok=True)
        for name in stale:
            (FOLDER / name).write_text(wanted[name])
        for name in left_over:
            committed[name].unlink()
    for name in sorted(stale) + left_over:
        print(f"tests/vectors/{name} is stale: run `make generate`" if check else name, file=sys.stderr)
    return int(check and bool(stale or left_over))


if __name__ == "__main__":
    sys.exit(main())
