"""Gas of each operation, read from receipts on anvil, all in one run and measured the same way."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.chain.gas import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
