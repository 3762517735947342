"""Fires every fault at a network that serves jobs, and says how often each fired, the worst recovery, and what was lost."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.faults.chaos import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
