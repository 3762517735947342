"""A month of burn and mint: jobs, a walking rate, a stale one, wash work, crowded epochs; and what the mint paid."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.economy.month import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
