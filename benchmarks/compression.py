"""What does compression cost, and what does it save? A small GPT on held-out text of Python's standard library."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.training.compression import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
