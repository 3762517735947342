"""What do hostile slots cost? Rules of aggregation against attacks, by the protocol's own slot-rounds and aggregation."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # beside this file, repops.py bears a library's name

from benchmarks.training.byzantine import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
